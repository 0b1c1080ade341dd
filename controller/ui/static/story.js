// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// The story of one claim, node or device, beside the page.

import { STATES, drawn, element, moment, seconds, ticking } from "./format.js";
import { ends, picture } from "./links.js";

const WIDTH = 588, LABEL = 208, VALUE = 64, LINE = 22;

export class Story {
  constructor(model, feed) {
    Object.assign(this, { model, feed, key: "", asked: 0 });
    this.place = document.getElementById("story");
    this.title = document.getElementById("story-title");
    this.body = document.getElementById("story-body");
    document.getElementById("story-close").addEventListener("click", () => this.close());
  }

  async open(key, from = document.activeElement) {
    this.from = from;
    this.key = key;
    this.title.textContent = key.replace("/", " ");
    this.body.replaceChildren(element("p", { class: "quiet", text: "…" }));
    this.place.hidden = false;
    this.title.focus();
    await this.refresh();
  }

  close() {
    this.place.hidden = true;
    this.key = "";
    if (this.from?.isConnected) this.from.focus();
    else document.querySelector('#grid [tabindex="0"]')?.focus();
  }

  // Called after changes; asks again only for what is open, and not while it asks.
  async refresh() {
    const key = this.key, asked = this.asked += 1;
    if (!key) return;
    let told = null;
    try {
      told = await this.feed.json("story", { key });
    } catch { /* gone, or not reachable: what was shown stays beside the sentence */ }
    if (key !== this.key || asked !== this.asked) return;
    const text = JSON.stringify([told, this.row(key), key.startsWith("box/") ? this.model.devicesIn(this.row(key) ?? {}) : null, this.model.switchesTo(key)]);
    if (text === this.text) return;
    this.text = text;
    this.body.replaceChildren(...(told || this.row(key) ? this.parts(key, told ?? {}) : [element("p", { text: "It is gone." })]));
  }

  row(key) {
    if (!key.startsWith("device/")) return this.model.rows.get(key);
    const name = key.slice(7);
    for (const node of this.model.nodes.values()) {
      const found = (node.devices ?? []).find((device) => device.name === name);
      if (found) return { ...found, node: node.name };
    }
    return null;
  }

  parts(key, told) {
    const row = this.row(key) ?? told.row ?? {};
    const facts = key.startsWith("claim/") ? claimFacts(row) : key.startsWith("device/") ? deviceFacts(row, told) : key.startsWith("box/") ? boxFacts(row) : key.startsWith("switch/") ? switchFacts(row) : nodeFacts(row);
    if (!key.startsWith("device/") && !key.startsWith("claim/") && !key.startsWith("switch/")) facts.push(["Switches", this.model.switchesTo(key).join(", ")]);
    const list = element("dl", {}, ...facts.filter(([, value]) => value !== undefined && value !== null && value !== "").flatMap(([name, value]) => [element("dt", { text: name }), element("dd", {}, value)]));
    const parts = [list];
    if (told.timeline) parts.push(heading("Timeline"), timeline(told.timeline, row));
    for (const each of told.timelines ?? []) parts.push(heading(`Timeline of claim ${each.claim}`), timeline(each, {}));
    if (told.steps?.length) parts.push(heading("Steps"), steps(told.steps));
    if (told.events?.length) parts.push(heading("What happened last"), events(told.events));
    if (!key.startsWith("device/") && row.devices?.length && key.startsWith("node/")) parts.push(heading("Devices"), devices(row.devices, (name) => this.open(`device/${name}`, this.from)));
    const inside = key.startsWith("box/") && row.box ? this.model.devicesIn(row) : [];
    if (inside.length) parts.push(heading("Devices on machines"), devices(inside, (name) => this.open(`device/${name}`, this.from)));
    if (key.startsWith("switch/") && row.links) parts.push(heading("Links"), picture(this.model, [[key, row]]), ends(this.model, row, (to) => this.open(to, this.from)));
    if (told.objects?.length) parts.push(heading("Objects"), ...told.objects.map((each) => element("p", {}, element("code", { text: command(each) }))));
    return parts;
  }
}

const heading = (text) => element("h3", { text });

const capital = (text) => text[0].toUpperCase() + text.slice(1);

function command({ kind, name, namespace }) {
  return `kubectl get ${kind.toLowerCase()} ${name}${namespace ? ` -n ${namespace}` : ""} -o yaml`;
}

function claimFacts(row) {
  const waits = row.waits_for ? `waits for ${row.waits_for}` : "";
  return [["State", row.state], ["Says", waits], ["Waits since", row.since ? ticking("since", row.since) : ""], ["Asks for", row.wants], ["Node", row.node], ["Pods", (row.pods ?? []).join(", ")], ["Devices", (row.devices ?? []).join(", ")], ["Created", row.created ? moment(row.created).slice(0, -4) : ""]];
}

function deviceFacts(row, told) {
  const word = row.state ? STATES[row.state]?.[1] ?? row.state : "";
  const facts = [["State", word], ["Trouble", row.trouble], ["Warning", row.warning], ["Hold", row.until ? ticking("until", row.until) : ""], ["Claim", row.claim], ["Pods", (row.pods ?? []).join(", ")], ["Model", row.model], ["Node", row.node], ["Box", row.box], ["UUID", row.serial], ["CDI Manager's name", row.uid]];
  return [...facts, ...Object.entries(told.evidence ?? {}).map(([name, value]) => [capital(name), value])];
}

function boxFacts(row) {
  const free = Object.entries(row.free ?? {}).map(([model, number]) => [`Free ${model}`, String(number)]);
  return [["Fabric", String(row.fabric)], ...free, ...Object.entries(row.states ?? {}).map(([state, number]) => [capital(STATES[state]?.[1] ?? state), String(number)])];
}

function switchFacts(row) {
  return [["Name", row.name], ["Fabric", String(row.fabric)], ["Trouble", row.trouble], ["Links", row.links ? "" : "The CDI Manager tells none."]];
}

function nodeFacts(row) {
  return [["Problem", row.problem], ["Ready", row.is_node ? (row.ready ? "yes" : "no") : "it is no node"], ["Cordoned", row.cordoned ? "yes" : ""], ["Fabric", row.fabric === undefined ? "none" : String(row.fabric)], ["Machine", row.machine], ["Power", row.power]];
}

function devices(rows, open) {
  return element("ul", { class: "claims" }, ...rows.map((device) => {
    const [glyph, word] = STATES[device.state] ?? ["?", device.state];
    return element("li", {}, element("button", { type: "button", onclick: () => open(device.name) }, element("span", { class: "top" },
      element("span", { class: `cell ${device.state}`, "aria-hidden": "true", text: glyph }), element("b", { text: device.model }), element("span", { text: [word, device.claim, device.node && `on ${device.node}`].filter(Boolean).join(", ") }))));
  }));
}

function steps(rows) {
  const begin = rows[0].at;
  return element("table", {}, element("tbody", {}, ...rows.map((each) => element("tr", {}, element("td", { text: each.step }), element("td", { text: moment(each.at) }), element("td", { text: `+${seconds(each.at - begin)}` })))));
}

function events(rows) {
  return element("table", {}, element("tbody", {}, ...rows.map((each) => element("tr", {}, element("th", { scope: "row", text: each.step }), element("td", { text: each.device }), element("td", { text: moment(each.at) })))));
}

// One line a hop; who it waited for is said by colour, by words, and by the hop itself.
export function timeline(told, row) {
  const spans = told.spans ?? [], marks = (told.steps ?? []).filter((each) => each.at >= told.began);
  if (!spans.length) return element("p", { class: "quiet", text: "No hop is over yet." });
  const whole = Math.max(told.ended, ...marks.map((each) => each.at)) - told.began || 0.001;
  const place = (at) => LABEL + (WIDTH - LABEL - VALUE) * (at - told.began) / whole;
  const height = LINE * (spans.length + (marks.length ? 1 : 0)) + 26;
  const lines = spans.flatMap((span, number) => {
    const y = number * LINE, x = place(span.began), wide = Math.max(2, place(span.ended) - x);
    return [drawn("text", { x: 0, y: y + 14 }, span.words), drawn("rect", { x, y: y + 4, width: wide, height: 13, rx: 2, class: span.share }, drawn("title", {}, `${span.words}: ${seconds(span.ended - span.began)}, waits for ${span.who}`)),
      drawn("text", { x: Math.min(x + wide + 6, WIDTH - VALUE + 4), y: y + 14, class: "soft" }, seconds(span.ended - span.began))];
  });
  if (marks.length) {
    const y = spans.length * LINE;
    lines.push(drawn("text", { x: 0, y: y + 14 }, "steps on the node"), ...marks.map((each) => drawn("line", { x1: place(each.at), x2: place(each.at), y1: y + 4, y2: y + 17, class: "tick" }, drawn("title", {}, `${each.step}: ${seconds(each.at - told.began)}`))));
  }
  lines.push(drawn("line", { x1: LABEL, x2: WIDTH - VALUE, y1: height - 20, y2: height - 20, class: "axis" }), drawn("text", { x: LABEL, y: height - 6, class: "soft" }, "0 s"), drawn("text", { x: WIDTH - VALUE, y: height - 6, class: "soft", "text-anchor": "end" }, seconds(whole)));
  const text = spans.map((span) => `${span.words} ${seconds(span.ended - span.began)}`).join(", ");
  const made = drawn("svg", { viewBox: `0 0 ${WIDTH} ${height}`, width: "100%", role: "img", "aria-label": `${text}; ${seconds(whole)} in all` }, ...lines);
  const who = [...new Map(spans.map((span) => [span.share, span.who]))].map(([share, name]) => element("span", {}, element("i", { class: share }), name));
  const goes = row.state === "waiting" || row.state === "preparing" ? element("p", { class: "quiet", text: "It goes on." }) : null;
  const done = marks.length ? element("p", { class: "quiet", text: `Steps on the node: ${[...new Set(marks.map((each) => each.step))].join(", ")}` }) : null;
  return element("div", {}, made, element("p", { class: "keys" }, "Waits for: ", ...who), done, goes);
}
