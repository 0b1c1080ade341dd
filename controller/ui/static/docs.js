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

// Where the documentation says what to do about a trouble; what: as the model names it, such as "node node-0".
export function remedy(what, text) {
  if (what.startsWith("device ")) return `${TROUBLES}#trouble-on-a-node`;
  if (what.startsWith("fabric ")) return "managers.md";
  if (what.startsWith("claim ")) return `${TROUBLES}#the-fabric-cannot-serve-a-claim`;
  if (!what.startsWith("node ")) return `${TROUBLES}#the-controllers-do-not-become-ready`;
  return `${TROUBLES}#${text.includes("gone") || text.includes("not ready") ? "a-node-is-gone" : "nothing-is-asked-for"}`;
}
