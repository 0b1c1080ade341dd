// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// The Events of an object, and the last log lines of the controllers about it.

import { element, moment } from "./format.js";

const sign = (warning) => (warning ? element("span", { class: "sign", "aria-label": "warning", role: "img", text: "!" }) : null);

function list(rows) {
  return element("ul", { class: "records" }, ...rows.map(({ at, warning, title, text }) => element("li", { class: warning ? "bad" : null }, element("span", { class: "quiet", text: moment(at).slice(0, -4) }), " ", sign(warning), element("b", { text: ` ${title} ` }), text)));
}

export function records({ note, events, log }) {
  const made = [element("h3", { text: "Events" })];
  if (note) made.push(element("p", { class: "quiet", text: note }));
  else if (!events?.length) made.push(element("p", { class: "quiet", text: "The API server has no Event about it." }));
  if (events?.length) made.push(list(events.map((each) => ({ at: each.at, warning: each.type === "Warning", title: `${each.kind} ${each.reason}${each.count > 1 ? ` × ${each.count}` : ""}`, text: `${each.message}${each.from ? ` (${each.from})` : ""}` }))));
  if (log) {
    made.push(element("h3", { text: "Last log lines of this process" }));
    made.push(log.length ? list(log.map((each) => ({ at: each.at, warning: each.type === "Warning", title: each.reason, text: each.message }))) : element("p", { class: "quiet", text: "This process has logged nothing about it. The log of the process that leads may have more." }));
  }
  return made;
}
