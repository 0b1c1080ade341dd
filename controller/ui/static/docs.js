// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// Links to the documentation: plain ones, so that nothing is loaded from there and the page works without it.

import { element } from "./format.js";

const TROUBLES = "guides/troubleshooting.md";
const PAGES = [["This page", "guides/page.md"], ["Handovers", "handover.md"], ["Gated handover", "gated.md"], ["What if", "whatif.md"], ["Troubleshooting", TROUBLES]];

export function link(docs, place, text, label) {
  return docs ? element("a", { href: `${docs}/${place}`, rel: "noreferrer noopener", "aria-label": label }, text) : null;
}

export function pages(docs) {
  return docs ? PAGES.map(([text, place]) => link(docs, place, text)) : [];
}

const ALERTS = "guides/alerts.md";
// By what a trouble of the process is about.
const REMEDIES = {
  page: `${ALERTS}#composablecontrollersdown`, "API server": `${ALERTS}#composablewatchrestarts`, "CDI Manager": `${ALERTS}#composablemanagerdown`,
  inventory: `${ALERTS}#composableinventoryold`, "binding conditions": "handover.md#what-each-kubernetes-version-offers-for-it", pools: `${ALERTS}#composablepoolsrefused`,
  "another operator": "guides/moving-from-cohdi.md#one-after-the-other",
};

// Where the documentation says what to do about a trouble; what: as the model names it, such as "node node-0".
export function remedy(what, text) {
  if (REMEDIES[what]) return REMEDIES[what];
  if (what.startsWith("device ")) return `${TROUBLES}#trouble-on-a-node`;
  if (what.startsWith("fabric ")) return text.startsWith("switch ") ? "guides/page.md#what-it-shows" : REMEDIES["CDI Manager"];
  if (what.startsWith("claim ")) return `${TROUBLES}#the-fabric-cannot-serve-a-claim`;
  if (!what.startsWith("node ")) return `${TROUBLES}#the-controllers-do-not-become-ready`;
  if (text.includes("gone") || text.includes("not ready")) return `${TROUBLES}#a-node-is-gone`;
  if (text.includes("same providerID")) return `${TROUBLES}#nothing-is-asked-for`;
  if (text.includes("providerID") || text.includes("no fabric")) return `${TROUBLES}#the-pod-stays-pending`;
  if (text.includes("node agent") || text.includes("node_hands")) return `${TROUBLES}#idle-devices-are-not-returned`;
  return `${TROUBLES}#nothing-is-asked-for`;
}
