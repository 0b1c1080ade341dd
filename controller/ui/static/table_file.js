// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// What is shown, as rows for a file. A file has exactly the rows that fit the filters.

import { collator, element, now } from "./format.js";

const iso = (at) => (at ? new Date(at * 1000).toISOString() : "");

export function deviceTable(model, choice) {
  const found = [];
  for (const key of model.groups().flatMap(([, keys]) => keys)) {
    const node = model.nodes.get(key);
    if (!choice.hasNode(model, node)) continue;
    for (const device of node.devices ?? []) {
      if (!choice.hasDevice(device)) continue;
      found.push({ fabric: node.fabric ?? "", node: node.name, is_node: Boolean(node.is_node), device: device.name, uuid: device.serial ?? "", uid: device.uid ?? "", model: device.model, state: device.state,
        claim: device.claim ?? "", pods: (device.pods ?? []).join(" "), hold_ends: iso(device.until), box: device.box ?? "", problem: device.trouble ?? device.warning ?? "" });
    }
  }
  return found;
}

export function claimTable(model, choice) {
  const found = [...model.claims].filter(([, row]) => choice.hasClaim(model, row, now())).sort(([a], [b]) => collator.compare(a, b));
  return found.map(([, row]) => row).map((row) => ({
    namespace: row.namespace, name: row.name, uid: row.uid, state: row.state, requests: row.wants ?? "", has: model.given(row), node: row.node ?? "", pods: (row.pods ?? []).join(" "),
    devices: (row.devices ?? []).join(" "), created: iso(row.created), waits_since: iso(row.since), reason: row.refused ?? row.waits_for ?? "" }));
}

// RFC 4180. A spreadsheet takes a text that begins with one of these signs for a formula, so a ' comes before it.
const FORMULA = /^[=+\-@\t\r]/;

export function csv(rows) {
  if (!rows.length) return "";
  const cell = (value) => {
    const text = typeof value === "string" && FORMULA.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [Object.keys(rows[0]), ...rows.map((row) => Object.values(row))].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

export function saved(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  element("a", { href: address, download: `composable-infra-${name}` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
