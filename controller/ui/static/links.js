// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// Switches and what they are linked to: a picture for each fabric, and the same as a table.

import { count, drawn, element, told } from "./format.js";
import { show } from "./panels.js";

const WIDTH = 760, LINE = 26, SWITCH = { x: 310, width: 140 }, LEFT = 250, RIGHT = 510, BULGE = 26;
const MOST_DRAWN = 12, MOST_SWITCHES = 16, MOST_LISTED = 64, MOST_ENDS = 200, LETTERS = 32;
const WORDS = { machine: ["machine", "machines"], box: ["box", "boxes"], switch: ["switch", "switches"], device: ["device", "devices"] };

// The section of the page; it is hidden where the CDI Manager tells no switches.
export function links(model, open) {
  document.getElementById("links").hidden = model.switches.size === 0;
  show("links-body", String(model.cables), () => model.switchGroups().flatMap(([fabric, rows]) => [
    element("h3", { text: `Fabric ${fabric}` }), picture(model, rows.slice(0, MOST_SWITCHES)), table(model, rows, open)]));
}

function table(model, rows, open) {
  const head = element("tr", {}, ...["Switch", "Machines", "Boxes", "Switches", "Ports down"].map((text) => element("th", { scope: "col", text })));
  const body = rows.slice(0, MOST_LISTED).map(([key, row]) => {
    const of = (kind) => (row.links ?? []).filter((link) => link.kind === kind);
    const names = (kind) => of(kind).slice(0, MOST_DRAWN).map((link) => model.end(row.fabric, link).name).join(", ");
    const machines = of("machine").length, boxes = of("box").length;
    return element("tr", {}, element("th", { scope: "row" }, element("button", { type: "button", data: { key }, onclick: () => open(key) }, row.name)),
      element("td", { text: machines ? told(machines, ...WORDS.machine) : "none" }), element("td", { text: boxes > MOST_DRAWN ? told(boxes, ...WORDS.box) : names("box") || "none" }),
      element("td", { text: names("switch") || "none" }), element("td", { text: down(row.links ?? []) }));
  });
  const more = rows.length > MOST_LISTED ? element("p", { class: "more", text: `and ${count(rows.length - MOST_LISTED)} more` }) : "";
  return element("div", {}, element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)), more);
}

// Each end of a switch's links, as a table; open(key) where the page knows more of it.
export function ends(model, row, open) {
  const all = row.links ?? [], first = all.slice(0, MOST_ENDS);
  const body = first.map((link) => {
    const { key, name } = model.end(row.fabric, link);
    return element("tr", {}, element("th", { scope: "row" }, `${WORDS[link.kind][0]} `, key ? element("button", { type: "button", onclick: () => open(key), text: name }) : name),
      element("td", { text: told(link.ports, "port", "ports") }), element("td", { text: link.down ? `${count(link.down)} down` : "" }), element("td", { text: link.gbps ? `${count(link.gbps)} Gbit/s` : "" }));
  });
  const more = all.length > first.length ? element("p", { class: "more", text: `and ${count(all.length - first.length)} more` }) : "";
  return element("div", {}, element("table", {}, element("tbody", {}, ...body)), more);
}

const down = (links_) => {
  const [bad, all] = [links_.reduce((sum, link) => sum + link.down, 0), links_.reduce((sum, link) => sum + link.ports, 0)];
  return bad ? `${count(bad)} of ${count(all)}` : "none";
};

const short = (text) => (text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text);

// What the switches of a picture lead to, of some kinds; ends that hang on the same switches are one where there are many.
function column(model, rows, kinds) {
  const found = new Map();
  rows.forEach(([, row], place) => (row.links ?? []).filter((link) => kinds.includes(link.kind)).forEach((link) => {
    const id = `${link.kind}/${link.to}`;
    if (!found.has(id)) found.set(id, { kind: link.kind, name: model.end(row.fabric, link).name, number: 1, to: new Map() });
    found.get(id).to.set(place, link);
  }));
  if (found.size <= MOST_DRAWN) return [...found.values()];
  const groups = new Map();
  for (const each of found.values()) {
    const id = `${each.kind} ${[...each.to.keys()].join()}`, known = groups.get(id);
    if (!known) groups.set(id, { ...each, to: new Map(each.to) });
    else {
      known.number += 1;
      for (const [place, link] of each.to) known.to.set(place, { ports: known.to.get(place).ports + link.ports, down: known.to.get(place).down + link.down });
    }
  }
  return [...groups.values()];
}

function label({ kind, name, number, to }) {
  const bad = [...to.values()].reduce((sum, link) => sum + link.down, 0), ports = [...to.values()].reduce((sum, link) => sum + link.ports, 0);
  const what = number > 1 ? told(number, ...WORDS[kind]) : name;
  return `${short(what)}${bad ? `, ${bad} of ${told(ports, "port", "ports")} down` : ""}`;
}

// Machines on the left, switches, boxes on the right; a line is dashed where a port is down, and the words say so, too.
export function picture(model, rows) {
  const left = column(model, rows, ["machine"]), right = column(model, rows, ["box", "device"]);
  const height = LINE * Math.max(left.length, right.length, rows.length, 1);
  const y = (place, of) => height * (place + 0.5) / of;
  const line = (x1, y1, x2, y2, link) => drawn("line", { x1, y1, x2, y2, class: link.down ? "cable down" : "cable" });
  const side = (ends_, edge, near, anchor) => ends_.flatMap((each, place) => [
    ...[...each.to].map(([at, link]) => line(edge, y(place, ends_.length), near, y(at, rows.length), link)),
    drawn("text", { x: edge + (anchor === "end" ? -6 : 6), y: y(place, ends_.length) + 4, "text-anchor": anchor }, label(each))]);
  const places = new Map(rows.map(([, row], place) => [row.switch, place]));
  const across = rows.flatMap(([, row], place) => (row.links ?? []).filter((link) => link.kind === "switch" && places.get(link.to) > place).map((link) => {
    const [x, one, other] = [SWITCH.x + SWITCH.width, y(place, rows.length), y(places.get(link.to), rows.length)];
    return drawn("path", { d: `M ${x} ${one} C ${x + BULGE} ${one} ${x + BULGE} ${other} ${x} ${other}`, class: link.down ? "cable down" : "cable" });
  }));
  const switches = rows.flatMap(([, row], place) => [
    drawn("rect", { x: SWITCH.x, y: y(place, rows.length) - 10, width: SWITCH.width, height: 20, rx: 4, class: row.trouble ? "switch bad" : "switch" }),
    drawn("text", { x: SWITCH.x + SWITCH.width / 2, y: y(place, rows.length) + 4, "text-anchor": "middle" }, `${row.trouble ? "! " : ""}${short(row.name).slice(0, 20)}`)]);
  const made = drawn("svg", { viewBox: `0 0 ${WIDTH} ${height}`, width: WIDTH, height, role: "img", "aria-label": sentence(model, rows) },
    ...side(left, LEFT, SWITCH.x, "end"), ...side(right, RIGHT, SWITCH.x + SWITCH.width, "start"), ...across, ...switches);
  return element("div", { class: "picture", tabindex: 0, role: "group", "aria-label": "Picture of the links" }, made);
}

function sentence(model, rows) {
  return rows.map(([, row]) => {
    const words = Object.keys(WORDS).map((kind) => [kind, (row.links ?? []).filter((link) => link.kind === kind)]).filter(([, all]) => all.length)
      .map(([kind, all]) => (all.length > MOST_DRAWN ? told(all.length, ...WORDS[kind]) : `${WORDS[kind][all.length > 1 ? 1 : 0]} ${all.map((link) => model.end(row.fabric, link).name).join(", ")}`));
    return `switch ${row.name} leads to ${words.join(" and ") || "no reported link"}`;
  }).join(". ");
}
