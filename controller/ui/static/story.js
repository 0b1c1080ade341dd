// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// The story of one claim, node or device, beside the page.

import { commands } from "./commands.js";
import { copyButton, name } from "./copying.js";
import { STATES, drawn, element, moment, seconds, ticking } from "./format.js";
import { ends, picture } from "./links.js";
import { records } from "./records.js";

const WIDTH = 588, LABEL = 208, VALUE = 64, LINE = 22, RECORDS_MILLISECONDS = 15_000;

export class Story {
  // choice: has the key of what is open, since it belongs to the address.
  constructor(model, feed, choice) {
    Object.assign(this, { model, feed, choice, key: "", asked: 0, known: null });
    this.place = document.getElementById("story");
    this.title = document.getElementById("story-title");
    this.body = document.getElementById("story-body");
    document.getElementById("story-close").addEventListener("click", () => this.close());
    setInterval(() => this.readRecords(), RECORDS_MILLISECONDS);
  }

  async open(key, from = document.activeElement) {
    this.choice.set({ open: key });
    await this.show(key, from);
  }

  // As open, but without a step in the browser's history.
  async show(key, from = null) {
    Object.assign(this, { from: from && !this.place.contains(from) ? from : this.from, key, known: null, text: "" });
    this.title.replaceChildren(key.replace("/", " "), " ", copyButton(key.slice(key.lastIndexOf("/") + 1), "the name"), copyButton(location.href, "the link to this"));
    this.body.replaceChildren(element("p", { class: "quiet", text: "…" }));
    this.place.hidden = false;
    this.title.focus();
    await this.refresh();
    await this.readRecords();
  }

  close() {
    this.choice.set({ open: "" });
    this.hide();
  }

  hide() {
    this.place.hidden = true;
    this.key = "";
    if (this.from?.isConnected) this.from.focus();
    else document.querySelector('#grid [tabindex="0"]')?.focus();
  }

  // What the address says, after the back button.
  follow() {
    if (this.choice.open === this.key) return;
    if (this.choice.open) this.show(this.choice.open); else this.hide();
  }

  // Called after changes; asks again only for what is open, and not while it asks.
  async refresh() {
    const key = this.key, asked = this.asked += 1;
    if (!key || this.model.connection === "lost") return;
    let told = null;
    try {
      told = await this.feed.json("story", { key });
    } catch { /* gone, or not reachable: what was shown stays beside the sentence */ }
    if (key !== this.key || asked !== this.asked) return;
    const text = JSON.stringify([told, this.row(key), key.startsWith("box/") ? this.model.devicesIn(this.row(key) ?? {}) : null, this.model.switchesTo(key)]);
    if (text === this.text) return;
    this.text = text;
    const held = this.body.contains(document.activeElement) ? document.activeElement.textContent : null;
    this.body.replaceChildren(...(told || this.row(key) ? this.parts(key, told ?? {}) : [element("p", { text: "It no longer exists. The table What happened lists devices that no longer exist." })]));
    if (held) [...this.body.querySelectorAll("button")].find((each) => each.textContent === held)?.focus({ preventScroll: true });
  }

  // Events and log lines cost requests, so they are not read at each change.
  async readRecords() {
    const key = this.key;
    if (!key || document.hidden || this.model.connection === "lost") return;
    let known;
    try {
      known = await this.feed.json("records", { key });
    } catch (error) {
      known = { note: error.message || "Events and log lines could not be read." };
    }
    if (key !== this.key) return;
    this.known = known;
    this.body.querySelector("#records")?.replaceChildren(...records(known));
  }

  row(key) {
    if (!key.startsWith("device/")) return this.model.rows.get(key);
    const name = key.slice(7);
    for (const node of this.model.nodes.values()) {
      const found = (node.devices ?? []).find((device) => device.name === name);
      if (found) return { ...found, node: node.name, fabric: node.fabric };
    }
    return null;
  }

  parts(key, told) {
    const row = this.row(key) ?? told.row ?? {}, to = (other) => this.open(other);
    const kind = key.slice(0, key.indexOf("/")), named = this.names(row);
    const facts = { claim: claimFacts, device: deviceFacts, box: boxFacts, switch: switchFacts }[kind]?.(row, named, told) ?? nodeFacts(row, named);
    if (!["device", "claim", "switch"].includes(kind)) facts.push(["Switches", this.model.switchesTo(key).join(", ")]);
    const list = element("dl", {}, ...facts.filter(([, value]) => value !== undefined && value !== null && value !== "" && value.length !== 0).flatMap(([title, value]) => [element("dt", { text: title }), element("dd", {}, ...[value].flat())]));
    const parts = [list];
    if (told.timeline) parts.push(heading("Timeline"), timeline(told.timeline, row));
    for (const each of told.timelines ?? []) parts.push(heading(`Timeline of claim ${each.claim}`), timeline(each, {}));
    if (told.steps?.length) parts.push(heading("Steps"), steps(told.steps));
    if (told.events?.length) parts.push(heading("What happened last"), events(told.events, to));
    if (kind === "node" && row.devices?.length) parts.push(heading("Devices"), devices(row.devices, (device) => to(`device/${device}`)));
    const inside = kind === "box" && row.box ? this.model.devicesIn(row) : [];
    if (inside.length) parts.push(heading("Devices on machines"), devices(inside, (device) => to(`device/${device}`)));
    if (kind === "switch" && row.links) parts.push(heading("Links"), picture(this.model, [[key, row]]), ends(this.model, row, to));
    if (["claim", "device", "node"].includes(kind)) parts.push(element("div", { id: "records" }, ...(this.known ? records(this.known) : [])));
    parts.push(heading("Commands that help"), element("p", { class: "quiet", text: "This page is read-only. Copy a command to a terminal." }), ...commands(key, row, told.objects).map(command));
    return parts;
  }

  // Makes names that lead to their details, if this page shows them.
  names(row) {
    const known = (key) => (this.model.rows.has(key) ? () => this.open(key) : null);
    return {
      plain: (text) => (text ? name(text) : ""),
      node: (text) => (text ? name(text, known(`node/${text}`)) : ""),
      claim: (text) => (text ? name(text, known(`claim/${text}`)) : ""),
      box: (text) => (text ? name(text, known(`box/${row.fabric}/${text}`)) : ""),
      devices: (all) => (all ?? []).map((text) => name(text, this.feed.namespace ? null : () => this.open(`device/${text}`))),
      pods: (all) => (all ?? []).map((text) => name(text)),
    };
  }
}

const heading = (text) => element("h3", { text });

const capital = (text) => text[0].toUpperCase() + text.slice(1);

function command([what, text]) {
  return element("p", { class: "command" }, element("span", { class: "quiet", text: `${capital(what)}: ` }), element("code", { text }), copyButton(text, `the command for ${what}`));
}

function claimFacts(row, named) {
  const waits = row.refused ? `cannot be served: ${row.refused}` : row.waits_for ? `waits for ${row.waits_for}` : "";
  return [["State", row.state], ["Reason", waits], ["Position", row.position ? `${row.position} of ${row.of}` : ""], ["Waits since", row.since ? ticking("since", row.since) : ""], ["Requests", row.wants], ["Node", named.node(row.node)], ["Pods", named.pods(row.pods)],
    ["Devices", named.devices(row.devices)], ["UID", named.plain(row.uid)], ["Created", row.created ? moment(row.created).slice(0, -4) : ""]];
}

function deviceFacts(row, named, told) {
  const word = row.state ? STATES[row.state]?.[1] ?? row.state : "", { "last claim": last, ...facts } = told.evidence ?? {};
  return [["State", word], ["Problem", row.trouble], ["Warning", row.warning], ["Hold", row.until ? ticking("until", row.until) : ""], ["Claim", named.claim(row.claim)], ["Last claim", row.claim ? "" : named.claim(last)], ["Pods", named.pods(row.pods)], ["Model", row.model], ["Node", named.node(row.node)], ["Box", named.box(row.box)], ["UUID", named.plain(row.serial)], ["Name at the CDI Manager", named.plain(row.uid)],
    ...Object.entries(facts).map(([title, value]) => [capital(title), value])];
}

function boxFacts(row) {
  const free = Object.entries(row.free ?? {}).map(([model, number]) => [`Free ${model}`, String(number)]);
  return [["Fabric", String(row.fabric)], ...free, ...Object.entries(row.states ?? {}).map(([state, number]) => [capital(STATES[state]?.[1] ?? state), String(number)])];
}

function switchFacts(row) {
  return [["Name", row.name], ["Fabric", String(row.fabric)], ["Problem", row.trouble], ["Links", row.links ? "" : "The CDI Manager reports none."]];
}

function nodeFacts(row, named) {
  return [["Problem", row.problem], ["Ready", row.is_node ? (row.ready ? "yes" : "no") : "not a node"], ["Cordoned", row.cordoned ? "yes" : ""], ["Fabric", row.fabric === undefined ? "none" : String(row.fabric)], ["Name", row.is_node ? named.plain(row.name) : ""], ["Machine", named.plain(row.machine)], ["Power", row.power]];
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

function events(rows, to) {
  return element("table", {}, element("tbody", {}, ...rows.map((each) => element("tr", {}, element("th", { scope: "row", text: each.step }), element("td", {}, name(each.device, () => to(`device/${each.device}`))), element("td", { text: moment(each.at) })))));
}

// One line a step; who it waited for is said by color, by words, and by the step itself.
export function timeline(told, row) {
  const spans = told.spans ?? [], marks = (told.steps ?? []).filter((each) => each.at >= told.began);
  if (!spans.length) return element("p", { class: "quiet", text: "No step has ended yet." });
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
  const made = drawn("svg", { viewBox: `0 0 ${WIDTH} ${height}`, width: "100%", role: "img", "aria-label": `${text}, ${seconds(whole)} in total` }, ...lines);
  const who = [...new Map(spans.map((span) => [span.share, span.who]))].map(([share, name]) => element("span", {}, element("i", { class: share }), name));
  const goes = row.state === "waiting" || row.state === "preparing" ? element("p", { class: "quiet", text: "The timeline continues." }) : null;
  const done = marks.length ? element("p", { class: "quiet", text: `Steps on the node: ${[...new Set(marks.map((each) => each.step))].join(", ")}` }) : null;
  return element("div", {}, made, element("p", { class: "keys" }, "Waits for: ", ...who), done, goes);
}
