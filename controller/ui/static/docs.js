// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// Links to the documentation: plain ones, so that nothing is loaded from there and the page works without it.

import { element } from "./format.js";

const RUNBOOK = "guides/alerts.md";
const PAGES = [["This page", "guides/page.md"], ["Handovers", "handover.md"], ["Gated handover", "gated.md"], ["What if", "whatif.md"], ["Runbook", RUNBOOK]];

export function link(docs, place, text, label) {
  return docs ? element("a", { href: `${docs}/${place}`, rel: "noreferrer noopener", "aria-label": label }, text) : null;
}

export function pages(docs) {
  return docs ? PAGES.map(([text, place]) => link(docs, place, text)) : [];
}

// By what a trouble of the process is about.
const REMEDIES = {
  page: `${RUNBOOK}#composablecontrollersdown`, "API server": `${RUNBOOK}#composablewatchrestarts`, "CDI Manager": `${RUNBOOK}#composablemanagerdown`,
  inventory: `${RUNBOOK}#composableinventoryold`, "binding conditions": "handover.md#what-each-kubernetes-version-offers-for-it", pools: `${RUNBOOK}#composablepoolsrefused`,
  "another operator": "guides/moving-from-cohdi.md#one-after-the-other",
};

// Where the documentation says what to do about a trouble; what: as the model names it, such as "node node-0".
export function remedy(what, text) {
  if (REMEDIES[what]) return REMEDIES[what];
  if (what.startsWith("device ")) return `${RUNBOOK}#a-problem-on-a-node`;
  if (what.startsWith("fabric ")) return text.startsWith("switch ") ? "guides/page.md#what-it-shows" : REMEDIES["CDI Manager"];
  if (what.startsWith("claim ")) return `${RUNBOOK}#the-fabric-cannot-serve-a-claim`;
  if (!what.startsWith("node ")) return `${RUNBOOK}#the-controllers-do-not-become-ready`;
  if (text.includes("gone") || text.includes("not ready")) return `${RUNBOOK}#a-node-is-gone`;
  if (text.includes("same providerID")) return `${RUNBOOK}#no-device-is-requested`;
  if (text.includes("providerID") || text.includes("no fabric")) return `${RUNBOOK}#the-pod-stays-pending`;
  if (text.includes("node agent") || text.includes("node_operations")) return `${RUNBOOK}#idle-devices-are-not-returned`;
  return `${RUNBOOK}#no-device-is-requested`;
}
