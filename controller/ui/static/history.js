// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// Devices by state, waiting claims, attaches and waits over time: pictures, and the same as a table beside them.

import { SPANS } from "./choice.js";
import { ORDER, STATES, count, drawn, element, seconds } from "./format.js";
import { show } from "./panels.js";

const WIDTH = 460, LEFT = 50, TOP = 4, TALL = 130, LOW = 40, GAP = 20, TICKS = 3;
// A point that is missing for longer than this many steps was not measured, so no line leads over it.
const MOST_STEPS = 2;

export class History {
  constructor(choice, feed) {
    Object.assign(this, { choice, feed, told: null, failed: "" });
    this.spans = document.getElementById("history-spans");
    this.spans.append(...Object.entries(SPANS).map(([span, text]) => element("button", { type: "button", data: { span }, onclick: () => { choice.set({ span: span === "24h" ? "" : span }); this.read(); }, text })));
  }

  get span() {
    return this.choice.span || "24h";
  }

  async read() {
    const span = this.span;
    try {
      const told = await this.feed.json("history", { span });
      if (span !== this.span) return;
      Object.assign(this, { told, failed: "" });
    } catch (error) {
      this.failed = error.message || "The history could not be read.";
    }
    this.draw();
  }

  draw() {
    for (const button of this.spans.children) button.setAttribute("aria-pressed", String(button.dataset.span === this.span));
    const { told, choice } = this;
    if (this.failed || !told) return show("history-body", this.failed || "none", () => [element("p", { class: "quiet", text: this.failed || "…" })]);
    show("history-body", JSON.stringify([told, choice.model, choice.fabric]), () => parts(told, sums(told, choice)));
  }
}

// Devices by state and time, of the chosen model and fabric: Map of state to Map of time to number.
function sums(told, { model, fabric }) {
  const found = new Map();
  for (const each of told.series) {
    const fits = each.state === "waiting" || ((!model || each.model === model) && (!fabric || String(each.fabric) === fabric));
    if (!fits) continue;
    if (!found.has(each.state)) found.set(each.state, new Map());
    const at = found.get(each.state);
    for (const [time, number] of each.points) at.set(time, (at.get(time) ?? 0) + number);
  }
  return found;
}

function parts(told, found) {
  const states = ORDER.filter((state) => found.has(state)), times = [...new Set(states.flatMap((state) => [...found.get(state).keys()]))].sort((a, b) => a - b);
  const source = element("p", { class: "quiet", text: [told.source === "memory" ? "From the memory of this process." : "From Prometheus.", told.bounded].filter(Boolean).join(" ") });
  if (times.length < 2) return [source, element("p", { class: "quiet", text: "There is too little data for a chart yet." })];
  const scale = { from: told.since, to: Math.max(told.until, told.since + 1), step: told.step_s };
  const waiting = [...(found.get("waiting") ?? new Map())].sort(([a], [b]) => a - b);
  const graphs = [stack(states, found, times, scale), lines("Waiting claims", scale, [["waiting", waiting]], count), bars(told, scale),
    lines("Waits until the devices are there: median, 95th percentile", scale, [["scheduler", told.waits.p50], ["fabric", told.waits.p95]], seconds), ...(told.gpu ?? []).flatMap((gpu) => ofGpu(gpu, scale))].filter(Boolean);
  return [source, element("div", { class: "beside" }, element("div", {}, ...graphs), table(states, found, times, waiting))];
}

// A step may have begun before the span.
const x = (at, { from, to }) => LEFT + (WIDTH - LEFT) * Math.max(0, at - from) / (to - from);

// Parts of a series without gaps.
function unbroken(points, { step }) {
  const found = [];
  for (const point of points) {
    const last = found[found.length - 1];
    if (last && point[0] - last[last.length - 1][0] <= MOST_STEPS * step) last.push(point); else found.push([point]);
  }
  return found;
}

// Height of a picture, the largest value, and what it says to those who do not see it.
function picture(title, height, most, scale, format, label, ...shapes) {
  const texts = Array.from({ length: TICKS + 1 }, (_unused, number) => {
    const at = scale.from + (scale.to - scale.from) * number / TICKS;
    return drawn("text", { x: x(at, scale), y: height + 14, class: "soft", "text-anchor": number === 0 ? "start" : number === TICKS ? "end" : "middle" }, when(at, scale));
  });
  const made = drawn("svg", { viewBox: `0 0 ${WIDTH} ${height + GAP}`, role: "img", "aria-label": `${title}. ${label}` }, ...shapes,
    drawn("line", { x1: LEFT, x2: WIDTH, y1: height, y2: height, class: "axis" }), drawn("text", { x: LEFT - 6, y: 11, class: "soft", "text-anchor": "end" }, format(most)), drawn("text", { x: LEFT - 6, y: height, class: "soft", "text-anchor": "end" }, "0"), ...texts);
  return element("figure", {}, element("figcaption", { class: "quiet", text: title }), made);
}

function when(at, { from, to }) {
  const date = new Date(at * 1000);
  return to - from > 2 * 86400 ? date.toLocaleDateString("en-GB", { day: "numeric", month: "short" }) : date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

function stack(states, found, times, scale) {
  const under = new Map(times.map((at) => [at, 0]));
  const most = Math.max(1, ...times.map((at) => states.reduce((sum, state) => sum + (found.get(state).get(at) ?? 0), 0)));
  const y = height(TALL, most);
  const shapes = states.flatMap((state) => {
    const layer = times.map((at) => [at, under.get(at), under.get(at) + (found.get(state).get(at) ?? 0)]);
    for (const [at, , top] of layer) under.set(at, top);
    return unbroken(layer, scale).map((part) => drawn("path", { class: `area ${state}`, d: `M ${[...part.map(([at, , top]) => `${x(at, scale)} ${y(top)}`), ...part.toReversed().map(([at, low]) => `${x(at, scale)} ${y(low)}`)].join(" L ")} Z` }, drawn("title", {}, STATES[state][1])));
  });
  const label = states.map((state) => `${STATES[state][1]}: ${count(last(found.get(state)))} now`).join(", ");
  return picture("Devices by state", TALL, most, scale, count, label, ...shapes);
}

// From a number to its place in a picture; the largest one is not at the very edge.
const height = (whole, most) => (number) => TOP + (whole - TOP) * (1 - number / most);

const last = (at) => at.get(Math.max(...at.keys())) ?? 0;

function lines(title, scale, series, format) {
  const known = series.filter(([, points]) => points?.length);
  if (!known.length) return null;
  const most = Math.max(...known.flatMap(([, points]) => points.map(([, value]) => value))) || 1, y = height(LOW, most);
  const shapes = known.flatMap(([kind, points]) => unbroken(points, scale).map((part) => (part.length === 1
    ? drawn("circle", { class: `dot ${kind}`, cx: x(part[0][0], scale), cy: y(part[0][1]), r: 3 })
    : drawn("path", { class: `line ${kind}`, d: `M ${part.map(([at, value]) => `${x(at, scale)} ${y(value)}`).join(" L ")}` }))));
  return picture(title, LOW, most, scale, format, `At most ${format(most)}, now ${known.map(([, points]) => format(points[points.length - 1][1])).join(" and ")}`, ...shapes);
}

function bars({ attaches, failures }, scale) {
  const most = Math.max(0, ...[...attaches, ...failures].map(([, number]) => number));
  if (!most) return null;
  const y = height(LOW, most), wide = Math.max(1.5, (WIDTH - LEFT) * scale.step / (scale.to - scale.from) - 1);
  const of = (points, kind) => points.filter(([, number]) => number).map(([at, number]) => drawn("rect", { class: kind, x: Math.min(x(at, scale), WIDTH - wide), y: y(number), width: wide, height: LOW - y(number) }));
  const sum = (points) => points.reduce((all, [, number]) => all + number, 0);
  return picture("Attaches, with failed attaches in red", LOW, most, scale, count, `${count(sum(attaches))} attaches, ${count(sum(failures))} failed`, ...of(attaches, "engine"), ...of(failures, "failure"));
}

function ofGpu(gpu, scale) {
  return [["utilization in %", gpu.utilization], ["power in W", gpu.power_w], ["temperature in °C", gpu.temperature_c]].map(([what, points]) => lines(`${gpu.model}: ${what}, mean`, scale, [["node", points]], (value) => count(Math.round(value))));
}

// A state that no device had is 0.
function table(states, found, times, waiting) {
  const rows = states.map((state) => [STATES[state][1], times.map((at) => found.get(state).get(at) ?? 0), state, last(found.get(state))]);
  if (waiting.length) rows.push(["waiting claims", waiting.map(([, number]) => number), null, waiting[waiting.length - 1][1]]);
  const head = element("tr", {}, ...["State", "Now", "Least", "Mean", "Most"].map((text) => element("th", { scope: "col", text })));
  return element("table", { class: "figures" }, element("thead", {}, head), element("tbody", {}, ...rows.map(([word, values, state, now]) => element("tr", {},
    element("th", { scope: "row" }, state ? element("span", { class: `cell ${state}`, "aria-hidden": "true", text: STATES[state][0] }) : null, ` ${word}`),
    ...[now, Math.min(...values), values.reduce((sum, value) => sum + value, 0) / values.length, Math.max(...values)].map((value) => element("td", { text: Number.isInteger(value) ? count(value) : value.toFixed(1) }))))));
}
