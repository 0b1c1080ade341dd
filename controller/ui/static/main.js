// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// Puts the parts together: rows come from the feed, and every part draws what it shows of them once a frame.

import { Audit } from "./audit.js";
import { Choice } from "./choice.js";
import { Filters } from "./filters.js";
import { tick } from "./format.js";
import { Feed } from "./feed.js";
import { Grid } from "./grid.js";
import { links } from "./links.js";
import { History } from "./history.js";
import { Model } from "./model.js";
import * as panels from "./panels.js";
import { Story } from "./story.js";
import { Usage } from "./usage.js";
import { WhatIf } from "./whatif.js";

const WAITS_SECONDS = 15, RARE_SECONDS = 60, STORY_MILLISECONDS = 400;
const model = new Model();
let frame = null, storyTimer = null;

const feed = new Feed({
  snapshot: (rows) => { model.reset(rows); soon(); readSlowly(); readRarely(); story.follow(); },
  change: (rows, gone) => { model.change(rows, gone); soon(); },
  state: (name) => {
    model.connection = name;
    soon();
    const place = document.getElementById("connection");
    place.dataset.state = name;
    place.textContent = { live: "live", lost: "connection lost, trying again", refused: "access refused" }[name];
  },
}, login);
const choice = new Choice(() => { filters.show(); story.follow(); readRarely(); soon(); });
const story = new Story(model, feed, choice);
const whatIf = new WhatIf(model, feed);
const open = (key) => story.open(key);
const grid = new Grid(model, choice, open);
const filters = new Filters(model, choice, feed, soon);
const audit = new Audit(model, choice, feed, open);
const past = new History(choice, feed), usage = new Usage(choice, feed);

function soon() {
  frame ??= requestAnimationFrame(draw);
  storyTimer ??= setTimeout(() => { storyTimer = null; story.refresh(); }, STORY_MILLISECONDS);
}

function draw() {
  frame = null;
  panels.process(model);
  panels.age(model);
  panels.troubles(model, open);
  panels.legend(model, choice.states, toggle);
  panels.sums(model);
  panels.empty(model);
  panels.claims(model, choice, open, () => filters.clear());
  grid.update();
  links(model, open);
  whatIf.update();
  filters.update();
  audit.draw();
  past.draw();
  usage.draw();
}

function toggle(state) {
  const states = new Set(choice.states);
  if (!states.delete(state)) states.add(state);
  filters.chosen({ states });
}

async function waits() {
  try { panels.waits(await feed.json("waits")); } catch { panels.waitsFailed(); }
}

// What changes once a minute.
function readRarely() {
  if (document.hidden) return;
  past.read();
  usage.read();
}

// What does not come with the changes.
function readSlowly() {
  if (document.hidden) return;
  waits();
  audit.read();
}

function login(error) {
  const dialog = document.getElementById("login");
  document.getElementById("login-title").textContent = error.status === 401 ? "A token is required" : "This token is refused";
  document.getElementById("login-why").textContent = error.status === 401 ? "Create a token with: kubectl create token NAME -n NAMESPACE" : "Its user may not see everything. Enter a namespace in which the user may list ResourceClaims, or another token.";
  document.getElementById("namespace").value ||= choice.namespace;
  dialog.showModal();
  return new Promise((done) => {
    document.getElementById("login-form").onsubmit = (event) => {
      event.preventDefault();
      feed.token = document.getElementById("token").value.trim();
      feed.namespace = document.getElementById("namespace").value.trim();
      dialog.close();
      done();
    };
  });
}

const search = document.getElementById("search");
document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLInputElement;
  if (event.key === "/" && !typing) { event.preventDefault(); search.focus(); search.select(); }
  if (event.key === "?" && !typing) document.getElementById("keys").showModal();
  if (event.key === "Escape" && !story.place.hidden && !typing) story.close();
  else if (event.key === "Escape" && event.target === search) filters.chosen({ search: "" }, { typed: true });
});

const THEMES = ["system", "light", "dark"];
const theme = document.getElementById("theme");
function paint(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  theme.textContent = `Theme: ${name}`;
  theme.dataset.name = name;
}
theme.addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(theme.dataset.name) + 1) % THEMES.length];
  paint(next);
  try { localStorage.setItem("composable-infra-theme", next); } catch { /* private windows keep nothing */ }
});
try { paint(localStorage.getItem("composable-infra-theme") ?? "system"); } catch { paint("system"); }

document.getElementById("help").addEventListener("click", () => document.getElementById("keys").showModal());
setInterval(() => { if (panels.age(model)) soon(); }, 1000);
setInterval(() => { for (const each of document.querySelectorAll("[data-until], [data-since]")) tick(each); }, 1000);
setInterval(readSlowly, WAITS_SECONDS * 1000);
setInterval(readRarely, RARE_SECONDS * 1000);
// Ages pass without a change of a row.
setInterval(() => { if (choice.age) soon(); }, WAITS_SECONDS * 1000);
// For tests and for the curious: how much came, in characters.
Object.defineProperty(window, "composable", { value: { feed, model, grid, choice, waits, audit, past, usage } });
feed.run();
