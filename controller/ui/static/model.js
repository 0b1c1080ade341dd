// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// The rows that this page has, and what follows from them.

import { clock, collator } from "./format.js";

export class Model {
  constructor() {
    this.reset(new Map());
  }

  reset(rows) {
    this.rows = rows;
    this.nodes = new Map();
    this.claims = new Map();
    this.fabrics = new Map();
    this.boxes = new Map();
    this.switches = new Map();
    this.order = null;
    this.machines = null;
    this.cables = (this.cables ?? 0) + 1;
    this.inBoxes = null;
    this.bad = new Map();
    this.texts = new WeakMap();
    for (const [key, row] of rows) this.put(key, row);
  }

  table(key) {
    const kind = key.slice(0, key.indexOf("/"));
    return kind === "node" || kind === "machine" ? this.nodes : { claim: this.claims, fabric: this.fabrics, box: this.boxes, switch: this.switches }[kind] ?? null;
  }

  put(key, row) {
    this.rows.set(key, row);
    const table = this.table(key);
    if (table === null) return;
    const known = table.get(key);
    if (table === this.nodes && (!known || known.fabric !== row.fabric)) this.order = null;
    if (table === this.nodes && known?.machine !== row.machine) this.moved();
    if (table === this.switches) this.moved();
    if (table === this.boxes && !known) this.inBoxes = null;
    table.set(key, row);
    if (table === this.nodes) this.note(key, row);
  }

  // The picture of the links may be another.
  moved() {
    this.machines = null;
    this.cables += 1;
  }

  // What is wrong with a node and its devices is found when its row comes, not whenever something is drawn.
  note(key, row) {
    const found = [];
    if (row.is_node && row.problem) found.push([`node ${row.name}`, row.problem, key]);
    else if (row.is_node && !row.ready) found.push([`node ${row.name}`, "the node is not ready", key]);
    for (const device of row.devices ?? []) {
      if (device.trouble) found.unshift([`device ${device.name}`, `${device.trouble} (node ${row.name})`, `device/${device.name}`]);
    }
    if (found.length) this.bad.set(key, found); else this.bad.delete(key);
  }

  change(rows, gone) {
    for (const [key, row] of rows) this.put(key, row);
    for (const key of gone) {
      this.rows.delete(key);
      const table = this.table(key);
      if (table?.delete(key)) {
        if (table === this.nodes) this.order = null;
        if (table === this.nodes || table === this.switches) this.moved();
        if (table === this.boxes) this.inBoxes = null;
      }
      this.bad.delete(key);
    }
  }

  get process() {
    return this.rows.get("process") ?? {};
  }

  // Keys of nodes by fabric, each in the order of their names; machines that are no nodes last.
  groups() {
    if (this.order === null) {
      const found = new Map();
      for (const [key, row] of this.nodes) {
        const place = row.fabric ?? -1;
        if (!found.has(place)) found.set(place, []);
        found.get(place).push(key);
      }
      for (const keys of found.values()) {
        keys.sort((a, b) => (this.nodes.get(b).is_node ?? 0) - (this.nodes.get(a).is_node ?? 0) || collator.compare(this.nodes.get(a).name, this.nodes.get(b).name));
      }
      const names = [...this.nodes.values()].filter((row) => row.is_node).map((row) => row.name);
      const domains = new Set(names.map((name) => (name.includes(".") ? name.slice(name.indexOf(".")) : "")));
      this.domain = names.length > 1 && domains.size === 1 ? [...domains][0] : "";
      this.order = [...found].sort(([a], [b]) => (a < 0) - (b < 0) || a - b);
    }
    return this.order;
  }

  // Keys of boxes by fabric, each in the order of their names; none where the CDI Manager tells no boxes.
  boxGroups() {
    if (this.inBoxes === null) {
      this.inBoxes = new Map();
      for (const [key, row] of this.boxes) {
        if (!this.inBoxes.has(row.fabric)) this.inBoxes.set(row.fabric, []);
        this.inBoxes.get(row.fabric).push(key);
      }
      for (const keys of this.inBoxes.values()) keys.sort((a, b) => collator.compare(this.boxes.get(a).box, this.boxes.get(b).box));
    }
    return this.inBoxes;
  }

  // Devices of machines that are in a box.
  devicesIn({ fabric, box }) {
    const found = [];
    for (const node of this.nodes.values()) {
      if (node.fabric !== fabric) continue;
      for (const device of node.devices ?? []) if (device.box === box) found.push({ ...device, node: node.name });
    }
    return found;
  }

  // Switches by fabric, each in the order of their names; none where the CDI Manager tells no switches.
  switchGroups() {
    const found = new Map();
    for (const [key, row] of this.switches) {
      if (!found.has(row.fabric)) found.set(row.fabric, []);
      found.get(row.fabric).push([key, row]);
    }
    for (const rows of found.values()) rows.sort(([, a], [, b]) => collator.compare(a.name, b.name));
    return [...found].sort(([a], [b]) => a - b);
  }

  // Key of the row that the end of a switch's link has, and its name. Nodes are found by their machine's uid.
  end(fabric, { kind, to }) {
    if (kind === "machine") {
      this.machines ??= new Map([...this.nodes].filter(([, row]) => row.machine).map(([key, row]) => [row.machine, key]));
      const key = this.machines.get(to) ?? "";
      return { key, name: this.nodes.get(key)?.name ?? to };
    }
    const key = `${kind}/${fabric}/${to}`;
    return { key: this.rows.has(key) ? key : "", name: this.switches.get(key)?.name ?? to };
  }

  // Switches that lead to a box, a node or a machine.
  switchesTo(key) {
    const row = this.rows.get(key) ?? {};
    const leads = ({ kind, to }, fabric) => (kind === "machine" ? to === row.machine : kind === "box" && key === `box/${fabric}/${to}`);
    return [...this.switches.values()].filter((each) => (each.links ?? []).some((link) => leads(link, each.fabric))).map((each) => each.name);
  }

  // What a claim has: 1 × A100 40G; empty while that is not known.
  given(row) {
    const names = new Set(row.devices ?? []), counts = new Map();
    if (names.size === 0) return "";
    for (const device of (this.nodes.get(`node/${row.node}`)?.devices ?? [])) if (names.has(device.name)) counts.set(device.model, (counts.get(device.model) ?? 0) + 1);
    return [...counts].map(([model, number]) => `${number} × ${model}`).join(", ");
  }

  // The name of a node without the domain that all nodes have.
  short(row) {
    this.groups();
    return row.is_node && this.domain && row.name.endsWith(this.domain) ? row.name.slice(0, -this.domain.length) : row.name;
  }

  // What a search looks through, made once for each row.
  text(row) {
    let text = this.texts.get(row);
    if (text === undefined) {
      const devices = (row.devices ?? []).flatMap((d) => (typeof d === "string" ? [d] : [d.name, d.model, d.uid, d.serial, d.claim, d.box, ...(d.pods ?? []), d.state]));
      text = [row.name, row.namespace, row.machine, row.node, row.wants, row.waits_for, row.refused, row.problem, ...(row.pods ?? []), ...devices].filter(Boolean).join("\n").toLowerCase();
      this.texts.set(row, text);
    }
    return text;
  }

  found(row, words) {
    if (words.length === 0) return true;
    const text = this.text(row);
    return words.every((word) => text.includes(word));
  }

  // [what, sentence, key or ""]: the process first, then devices, nodes, and claims that the fabric cannot serve.
  troubles() {
    const process = (this.process.troubles ?? []).map((text, number) => [this.process.concerns?.[number] ?? "controller", text, ""]);
    if (this.old && !process.some(([, text]) => text.includes("CDI Manager"))) process.push(["inventory", `the controllers have not read the CDI Manager for more than ${clock(this.process.old_after)}. Machines and free devices may have changed.`, ""]);
    if (this.connection === "lost") process.unshift(["page", "the connection to the controllers is lost, so this page may be out of date. Check that their pod and the port-forward to it run.", ""]);
    const fabrics = [...this.fabrics.values()].flatMap((row) => (row.problems ?? []).map((text) => [`fabric ${row.fabric ?? 0}`, text, ""]));
    for (const [key, row] of this.switches) if (row.trouble) fabrics.push([`fabric ${row.fabric ?? 0}`, `switch ${row.name}: ${row.trouble}`, key]);
    const others = [...this.bad.values()].flat();
    const of = (word) => others.filter(([what]) => what.startsWith(word));
    const refused = [...this.claims].filter(([, row]) => row.refused).map(([key, row]) => [`claim ${row.namespace}/${row.name}`, `cannot be served: ${row.refused}`, key]);
    return [...process, ...fabrics, ...of("device "), ...of("node "), ...refused];
  }

  // Devices of a fabric by state; free ones as the CDI Manager counts them.
  statesOf(fabric) {
    return this.states([this.fabrics.get(`fabric/${fabric}`) ?? {}]);
  }

  states(fabrics = this.fabrics.values()) {
    const found = { free: 0 };
    for (const fabric of fabrics) {
      for (const model of fabric.models ?? []) {
        found.free += model.free ?? 0;
        for (const [state, number] of Object.entries(model.states ?? {})) found[state] = (found[state] ?? 0) + number;
      }
    }
    return found;
  }
}
