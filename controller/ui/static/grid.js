// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// Fabrics, their nodes and devices: only the rows in sight are in the document, whatever their number.

import { ORDER, STATES, bar, count, counted, element, ticking, told } from "./format.js";

const BEYOND = 6, MOST_CELLS = 40, MOST_FREE = 24, MOST_BOXES = 16, MOST_SINGLE = 120, IN_RANGE = 100;

export class Grid {
  // open(key): show a story.
  constructor(model, choice, open) {
    Object.assign(this, { model, choice, open, folded: new Set(), lines: [], made: new Map(), at: { line: "", column: 0 }, seen: new Map() });
    this.box = document.getElementById("grid");
    this.body = document.getElementById("rows");
    this.height = parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) || 30;
    this.box.addEventListener("scroll", () => this.soon(), { passive: true });
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("focusin", (event) => this.focused(event));
    new ResizeObserver(() => this.soon()).observe(this.box);
  }

  // Which lines there are; then those in sight are drawn.
  update() {
    const { choice } = this, order = this.model.groups(), plain = !choice.narrow && !choice.nodes;
    const shape = plain ? [...this.folded, "|", ...this.model.fabrics.keys()].join() : null, boxes = this.model.boxGroups();
    if (plain && order === this.order && boxes === this.boxes && shape === this.shape) return this.draw();
    Object.assign(this, { order, boxes, shape, lines: [] });
    for (const [fabric, keys] of order) {
      const shown = this.sorted(keys.filter((key) => choice.hasNode(this.model, this.model.nodes.get(key))));
      this.lines.push({ key: `group/${fabric}`, group: fabric, total: keys.length, shown: shown.length });
      if (this.folded.has(fabric)) continue;
      if (!choice.search && this.model.fabrics.has(`fabric/${fabric}`)) this.lines.push({ key: `free/${fabric}`, free: fabric });
      if (plain) this.listBoxes(fabric, boxes.get(fabric) ?? []);
      if (plain && shown.length > MOST_SINGLE) this.listRanges(fabric, shown);
      else for (const key of shown) this.lines.push({ key });
    }
    this.body.style.height = `${this.lines.length * this.height}px`;
    this.box.style.height = `${this.lines.length * this.height + 2}px`;
    this.box.setAttribute("aria-rowcount", this.lines.length);
    this.draw();
  }

  // Many nodes come as sums of a hundred each, which are unfolded one by one.
  listRanges(fabric, keys) {
    for (let first = 0; first < keys.length; first += IN_RANGE) {
      const within = keys.slice(first, first + IN_RANGE), key = `range/${fabric}/${first}`, open = this.folded.has(key);
      this.lines.push({ key, range: within, folded: !open });
      if (open) for (const each of within) this.lines.push({ key: each });
    }
  }

  // By name they are already. Ties stay by name.
  sorted(keys) {
    const weigh = { trouble: (row) => (row.problem || (row.is_node && !row.ready) ? 1000 : 0) + number(row, (device) => device.trouble), used: (row) => number(row, (device) => device.state === "in-use"), idle: (row) => number(row, (device) => device.state === "idle") }[this.choice.nodes];
    if (!weigh) return keys;
    const weights = new Map(keys.map((key) => [key, weigh(this.model.nodes.get(key))]));
    return [...keys].sort((a, b) => weights.get(b) - weights.get(a));
  }

  // Many boxes are folded until somebody asks for them, so that they keep no nodes out of sight.
  listBoxes(fabric, keys) {
    if (keys.length === 0) return;
    const folded = this.folded.has(`boxes/${fabric}`) !== keys.length > MOST_BOXES;
    this.lines.push({ key: `boxes/${fabric}`, boxes: fabric, number: keys.length, folded });
    if (!folded) for (const key of keys) this.lines.push({ key });
  }

  soon() {
    this.frame ??= requestAnimationFrame(() => { this.frame = null; this.draw(); });
  }

  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / this.height) - BEYOND);
    const last = Math.min(this.lines.length, Math.ceil((this.box.scrollTop + this.box.clientHeight) / this.height) + BEYOND);
    const wanted = new Map();
    for (let number = first; number < last; number += 1) wanted.set(this.lines[number].key, number);
    const focused = this.body.contains(document.activeElement);
    for (const [key, known] of this.made) if (!wanted.has(key)) { known.made.remove(); this.made.delete(key); }
    for (const [key, number] of wanted) this.place(this.lines[number], number);
    if (!wanted.has(this.at.line)) this.at = { line: this.lines[Math.max(first, Math.min(last, first + BEYOND))]?.key ?? "", column: 0 };
    this.mark();
    if (focused && !this.body.contains(document.activeElement)) this.target()?.focus({ preventScroll: true });
  }

  place(line, number) {
    const head = line.group !== undefined || line.boxes !== undefined;
    const sums = line.range ? this.sums(line.range) : line.group !== undefined ? this.model.statesOf(line.group) : null;
    const source = sums ? JSON.stringify([line, sums]) : head ? JSON.stringify(line) : line.free !== undefined ? this.model.fabrics.get(`fabric/${line.free}`) : this.model.rows.get(line.key);
    let known = this.made.get(line.key);
    if (!known || known.source !== source) {
      const made = line.group !== undefined ? this.group(line, sums) : line.range ? this.range(line, sums) : line.boxes !== undefined ? this.boxesHead(line) : line.free !== undefined ? this.free(source) : source.box !== undefined ? this.inBox(line.key, source) : this.node(line.key, source);
      made.setAttribute("role", "row");
      if (known) known.made.replaceWith(made); else this.body.append(made);
      known = { source, made };
      this.made.set(line.key, known);
    }
    known.made.style.top = `${number * this.height}px`;
    known.made.setAttribute("aria-rowindex", number + 1);
    known.made.dataset.number = number;
  }

  group({ group, total, shown }, states) {
    const name = group < 0 ? "On no fabric" : `Fabric ${group}`;
    const folded = this.folded.has(group);
    const text = shown === total ? told(total, "machine", "machines") : `${count(shown)} of ${told(total, "machine", "machines")}`;
    const many = total > MOST_SINGLE || folded;
    return element("div", { class: "row group" },
      element("span", { role: "gridcell" }, element("button", { type: "button", tabindex: -1, "aria-expanded": String(!folded), onclick: () => this.fold(group) }, `${folded ? "▸" : "▾"} ${name}`)),
      element("span", { role: "gridcell", class: "quiet", text }), many ? element("span", { role: "gridcell", class: "note", text: counted(states) }) : null);
  }

  // Devices by state, and problems, of some nodes.
  sums(keys) {
    const states = {};
    let bad = 0;
    for (const key of keys) {
      bad += this.model.bad.has(key);
      for (const device of this.model.nodes.get(key)?.devices ?? []) states[device.state] = (states[device.state] ?? 0) + 1;
    }
    return { states, bad };
  }

  range({ key, range, folded }, { states, bad }) {
    const [first, whole] = [range[0], range[range.length - 1]].map((each) => this.model.short(this.model.nodes.get(each))), last = differs(first, whole);
    const total = Object.values(states).reduce((sum, each) => sum + each, 0), words = [bad && told(bad, "problem", "problems"), counted(states)].filter(Boolean).join(" · ");
    return element("div", { class: "row range" }, element("span", { class: `link${total ? " carries" : ""}`, "aria-hidden": "true" }),
      element("span", { role: "gridcell" }, element("button", { type: "button", class: "node", tabindex: -1, "aria-expanded": String(!folded), "aria-label": `${told(range.length, "machine", "machines")} from ${first} to ${whole}, ${words}`, onclick: () => this.fold(key) }, `${folded ? "▸" : "▾"} ${bad ? "! " : ""}${first} … ${last}`)),
      element("span", { class: "track" }, bar(states)), element("span", { role: "gridcell", class: `note${bad ? " bad" : ""}`, text: words }));
  }

  fold(what) {
    if (!this.folded.delete(what)) this.folded.add(what);
    this.update();
    this.target()?.focus({ preventScroll: true });
  }

  boxesHead({ key, number, folded }) {
    return element("div", { class: "row" }, element("span", { class: "link", "aria-hidden": "true" }),
      element("span", { role: "gridcell" }, element("button", { type: "button", class: "node", tabindex: -1, "aria-expanded": String(!folded), onclick: () => this.fold(key) }, `${folded ? "▸" : "▾"} ${told(number, "box", "boxes")}`)));
  }

  // A box: its devices by state, the free ones among them.
  inBox(key, row) {
    const free = Object.entries(row.free ?? {}), states = { ...row.states };
    if (free.length) states.free = free.reduce((sum, [, number]) => sum + number, 0);
    const parts = ORDER.filter((state) => states[state]), cells = element("span", { class: "cells" });
    for (const state of parts.flatMap((each) => Array(states[each]).fill(each)).slice(0, MOST_FREE)) cells.append(element("span", { class: `cell ${state}`, "aria-hidden": "true", text: STATES[state][0] }));
    const models = free.map(([model, number]) => `${count(number)} × ${model}`).join(", ");
    const text = parts.map((state) => (state === "free" ? `free: ${models}` : `${count(states[state])} ${STATES[state][1]}`)).join(" · ");
    return element("div", { class: "row inbox" }, element("span", { class: "link", "aria-hidden": "true" }),
      element("span", { role: "gridcell" }, element("button", { type: "button", class: "node", tabindex: -1, title: row.box, "aria-label": `box ${row.box}, ${text}`, onclick: () => this.open(key) }, row.box)),
      cells, element("span", { role: "gridcell", class: "note", text }));
  }

  // The devices that are still on the fabric.
  free(row) {
    const models = (row.models ?? []).filter((model) => model.free);
    const total = models.reduce((sum, model) => sum + model.free, 0);
    const cells = element("span", { class: "cells" });
    for (let number = 0; number < Math.min(total, MOST_FREE); number += 1) cells.append(element("span", { class: "cell free", "aria-hidden": "true", text: STATES.free[0] }));
    const text = models.map((model) => `${count(model.free)} × ${model.model}`).join(", ") || "none";
    return element("div", { class: "row" }, element("span", { class: "link", "aria-hidden": "true" }),
      element("span", { role: "gridcell", class: "node quiet" }, "free devices"), cells,
      element("span", { role: "gridcell", class: "note", text: `free: ${text}` }));
  }

  node(key, row) {
    const devices = [...row.devices ?? []].sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state)), before = this.seen.get(key);
    this.seen.set(key, new Map(devices.map((device) => [device.name, device.state])));
    const cells = element("span", { class: "cells" });
    for (const device of devices.slice(0, MOST_CELLS)) cells.append(element("span", { role: "gridcell" }, this.cell(device, before && before.get(device.name) !== device.state)));
    if (devices.length > MOST_CELLS) cells.append(element("span", { class: "quiet", text: `+${devices.length - MOST_CELLS}` }));
    const carries = devices.length ? " carries" : "";
    return element("div", { class: "row" }, element("span", { class: `link${carries}`, "aria-hidden": "true" }),
      element("span", { role: "gridcell" }, element("button", { type: "button", class: "node", tabindex: -1, title: row.name, "aria-label": nodeLabel(row), onclick: () => this.open(key) },
        `${row.is_node ? (row.ready && !row.problem ? "" : "! ") : ""}${this.model.short(row)}`)), cells, note(row));
  }

  cell(device, isNew) {
    const [glyph, word] = STATES[device.state] ?? ["?", device.state];
    const label = [device.model, word, device.claim && `claim ${device.claim}`, device.trouble].filter(Boolean).join(", ");
    return element("button", { type: "button", tabindex: -1, class: `cell ${device.state}${isNew ? " new" : ""}`, title: `${device.name}\n${label}`, "aria-label": `${device.name}: ${label}`, data: { device: device.name, state: device.state }, onclick: () => this.open(`device/${device.name}`), text: glyph });
  }

  buttons(line) {
    return [...(this.made.get(line)?.made.querySelectorAll("button") ?? [])];
  }

  target() {
    const all = this.buttons(this.at.line);
    return all[Math.min(this.at.column, all.length - 1)];
  }

  // One button is in the order of the tab key; arrows lead to the others.
  mark() {
    for (const button of this.body.querySelectorAll('[tabindex="0"]')) button.tabIndex = -1;
    const target = this.target() ?? this.body.querySelector("button");
    if (target) target.tabIndex = 0;
  }

  focused(event) {
    const line = event.target.closest(".row");
    if (!line) return;
    const key = this.lines[line.dataset.number]?.key;
    if (key) this.at = { line: key, column: Math.max(0, this.buttons(key).indexOf(event.target)) };
    this.mark();
  }

  key(event) {
    const number = this.lines.findIndex((line) => line.key === this.at.line);
    const page = Math.max(1, Math.floor(this.box.clientHeight / this.height) - 1);
    const steps = { ArrowDown: number + 1, ArrowUp: number - 1, PageDown: number + page, PageUp: number - page, Home: 0, End: this.lines.length - 1 };
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      const most = this.buttons(this.at.line).length - 1;
      this.at.column = Math.max(0, Math.min(most, Math.min(this.at.column, most) + (event.key === "ArrowRight" ? 1 : -1)));
    } else if (event.key in steps) {
      let next = Math.max(0, Math.min(this.lines.length - 1, steps[event.key]));
      if (this.lines[next].free !== undefined) next += steps[event.key] < number ? -1 : 1;
      next = Math.max(0, Math.min(this.lines.length - 1, next));
      this.at.line = this.lines[next].key;
      this.reveal(next);
    } else return;
    event.preventDefault();
    this.mark();
    this.target()?.focus({ preventScroll: true });
  }

  reveal(number) {
    const top = number * this.height;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + this.height > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + this.height - this.box.clientHeight;
    this.draw();
  }
}

// The part of a name in which it differs from another: node-199 beside node-100 is 199.
function differs(from, name) {
  const begin = /^.*?(?=\d+$)/.exec(name)?.[0];
  return begin && from.startsWith(begin) ? name.slice(begin.length) : name;
}

const number = (row, fits) => (row.devices ?? []).filter(fits).length;

function nodeLabel(row) {
  const devices = row.devices ?? [];
  return [row.is_node ? `node ${row.name}` : `machine ${row.name}, no node`, row.problem || (row.is_node && !row.ready && "not ready"), told(devices.length, "device", "devices")].filter(Boolean).join(", ");
}

function note(row) {
  const trouble = (row.devices ?? []).find((device) => device.trouble)?.trouble || row.problem || (row.is_node && !row.ready ? "the node is not ready" : "");
  if (trouble) return element("span", { role: "gridcell", class: "note bad", text: trouble, title: trouble });
  const counts = new Map();
  for (const device of row.devices ?? []) counts.set(device.state, (counts.get(device.state) ?? 0) + 1);
  const made = element("span", { role: "gridcell", class: "note" });
  const words = ORDER.filter((state) => counts.has(state)).map((state) => `${counts.get(state)} ${STATES[state][1]}`);
  if (row.cordoned) words.unshift("cordoned");
  if (row.power && row.power !== "On") words.unshift(`power ${row.power}`);
  made.append(words.join(" · ") || (row.is_node ? "" : "no node"));
  const ends = Math.min(...(row.devices ?? []).map((device) => device.until || Infinity));
  if (ends < Infinity) made.append(" · ", ticking("until", ends));
  return made;
}
