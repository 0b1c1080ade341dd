// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// What is wrong, the sums, the claims, the waits.

import { link, pages, remedy } from "./docs.js";
import { againstTrouble } from "./commands.js";
import { copyButton } from "./copying.js";
import { ORDER, STATES, bar, clock, collator, count, counted, drawn, element, now, seconds, ticking } from "./format.js";

const MOST_TROUBLES = 12, MOST_CLAIMS = 100;

// Replace what is shown only when it is another, so that nothing is read out or loses the focus for nothing.
export function show(id, key, make) {
  const place = document.getElementById(id);
  if (place.dataset.shown === key) return;
  const held = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  place.dataset.shown = key;
  place.replaceChildren(...make());
  if (held !== undefined) [...place.querySelectorAll("[data-key]")].find((each) => each.dataset.key === held)?.focus({ preventScroll: true });
}

export function troubles(model, open) {
  const all = model.troubles(), first = all.slice(0, MOST_TROUBLES), docs = model.process.docs;
  const none = model.rows.size === 0 ? "The page has no data yet." : model.nodes.size === 0 ? "Nothing is wrong. No node is known yet." : "";
  show("troubles-list", JSON.stringify([first, all.length, docs, none]), () => {
    document.getElementById("troubles").classList.toggle("bad", all.length > 0);
    if (all.length === 0) return [element("p", { class: none ? "quiet" : "ok", text: none || "✓ Nothing is wrong." })];
    const list = element("ul", {}, ...first.map(([what, text, key]) => element("li", {},
      key ? element("button", { type: "button", data: { key }, onclick: () => open(key), text: what }) : element("strong", { text: what }), element("span", { text }),
      link(docs, remedy(what, text), "what to do", `what to do about ${what}`), key ? null : copyButton(againstTrouble(what), `a command that helps with ${what}`))));
    const more = all.length > first.length ? element("p", { class: "more", text: `and ${count(all.length - first.length)} more. The search finds them by name.` }) : null;
    return more ? [list, more] : [list];
  });
}

export function legend(model, chosen, choose) {
  const found = model.states();
  show("legend", JSON.stringify([found, [...chosen]]), () => ORDER.filter((state) => state === "free" || found[state] || chosen.has(state)).map((state) => {
    const [glyph, word] = STATES[state];
    const parts = [element("span", { class: `cell ${state}`, "aria-hidden": "true", text: glyph }), `${word} ${count(found[state] ?? 0)}`];
    if (state === "free") return element("button", { type: "button", disabled: true, title: "The CDI Manager counts the free devices, which are on no node" }, ...parts);
    return element("button", { type: "button", "aria-pressed": String(chosen.has(state)), data: { key: state }, onclick: () => choose(state) }, ...parts);
  }));
}

const whole = (row) => (row.free ?? 0) + Object.values(row.states ?? {}).reduce((sum, number) => sum + number, 0);

export function sums(model) {
  const fabrics = [...model.fabrics.values()].sort((a, b) => (a.fabric ?? 0) - (b.fabric ?? 0));
  const totals = fabrics.flatMap((fabric) => (fabric.models ?? []).map((row) => whole(row))), most = Math.max(1, ...totals);
  const docs = model.process.docs, none = model.rows.size > 0 && !fabrics.some((fabric) => fabric.models?.length);
  show("sums-body", JSON.stringify([fabrics, none, docs]), () => none ? [next("The CDI Manager shows no device of a model that the configuration names.", docs, "guides/connect-a-manager.md", "Connect a CDI Manager")] : fabrics.flatMap((fabric) => (fabric.models ?? []).map((row) => {
    const states = { ...row.states, free: row.free ?? 0 };
    const total = whole(row);
    const text = [counted(states), row.in_pool ? `${count(row.in_pool)} in the pool` : ""].filter(Boolean).join(" · ");
    return element("div", { class: "sum" }, element("span", { class: "name", title: row.model, text: `Fabric ${fabric.fabric ?? 0} · ${row.model}` }), element("span", { class: "track" }, bar(states, total / most)), element("span", { class: "quiet", text: text || "none" }));
  })));
}

// What to do where nothing is shown.
function next(says, docs, place, text) {
  return element("p", { class: "quiet" }, `${says} `, link(docs, place, text));
}

// Where no node, or no node with devices, is known.
export function empty(model) {
  const docs = model.process.docs, rows = [...model.nodes.values()];
  const none = model.rows.size > 0 && rows.length === 0, apart = rows.length > 0 && !rows.some((row) => row.fabric !== undefined);
  show("nodes-empty", JSON.stringify([none, apart, docs]), () => none ? [next("No node is known yet. A node appears here when it joins the cluster.", docs, "guides/connect-a-manager.md", "Connect a CDI Manager")]
    : apart ? [next("No node has a machine of the fabric yet. Let each node join the cluster with spec.providerID fsas-cdi://MACHINE.", docs, "guides/alerts.md#the-pod-stays-pending", "What providerID does")] : []);
}

// Orders of claims other than by time.
const LABELS = { name: ([, row]) => `${row.namespace}/${row.name}`, node: ([, row]) => row.node ?? "", model: ([, row], model) => model.given(row) || row.wants || "" };

function sorted(found, choice, model, byTime) {
  const label = LABELS[choice.claims];
  return found.sort((a, b) => (label ? collator.compare(label(a, model), label(b, model)) : 0) || byTime(a[1], b[1]));
}

export function claims(model, choice, open, clear) {
  const waiting = [], served = [], at = now();
  let waitingInAll = 0, servedInAll = 0;
  for (const [key, row] of model.claims) {
    const waits = row.state === "waiting" || row.state === "preparing";
    if (waits) waitingInAll += 1; else servedInAll += 1;
    if (choice.hasClaim(model, row, at)) (waits ? waiting : served).push([key, row]);
  }
  const of = (found, all) => (choice.narrow && found.length < all ? `${count(found.length)} of ${count(all)}` : count(found.length));
  sorted(waiting, choice, model, (a, b) => (a.since || a.created) - (b.since || b.created));
  sorted(served, choice, model, (a, b) => b.created - a.created);
  document.getElementById("queue-title").textContent = `Waiting claims (${of(waiting, waitingInAll)})`;
  document.getElementById("served-title").textContent = `Claims with devices (${of(served, servedInAll)})`;
  const unmatched = (all) => [element("p", { class: "quiet" }, `0 of ${count(all)} match the search and the filters. `, element("button", { type: "button", data: { key: "clear" }, onclick: clear, text: "Clear them" }))];
  const noClaims = () => [model.claims.size ? element("p", { class: "quiet", text: "No claim has devices." }) : next("No claim has devices.", model.process.docs, "quickstart.md", "Request a device")];
  list("queue-body", waiting, open, choice.narrow && waitingInAll ? [`0 of ${waitingInAll}`, () => unmatched(waitingInAll)] : ["", () => [element("p", { class: "quiet", text: "No claim waits." })]], (row) => [ticking("since", row.since || row.created), whyWaits(model, row)]);
  list("served-body", served, open, choice.narrow && servedInAll ? [`0 of ${servedInAll}`, () => unmatched(servedInAll)] : [`${model.claims.size} ${model.process.docs}`, noClaims], (row) => [element("span", {}, ticking("since", row.created)),
    [model.given(row) || row.wants, [row.pods?.length ? `used by pod ${row.pods.join(", ")}` : "reserved for no pod", row.node && `on node ${row.node}`].filter(Boolean).join(" ")].filter(Boolean).join(", ")]);
}

function whyWaits(model, row) {
  if (row.refused) return `cannot be served: ${row.refused}`;
  if (row.waits_for) return `waits for ${row.waits_for}`;
  if (row.position) return `waits for devices, position ${row.position} of ${row.of}`;
  if (row.state === "preparing") return "its devices are being attached or prepared";
  return model.process.leads ? "waits for a pod that uses it, or for the scheduler" : "only the process that leads knows what it waits for";
}

// none: what tells one empty list from another, and what makes the list.
function list(id, claims_, open, [empty_, none], tell) {
  const first = claims_.slice(0, MOST_CLAIMS);
  show(id, JSON.stringify([first, claims_.length, claims_.length ? "" : empty_]), () => {
    if (claims_.length === 0) return none();
    const made = element("ul", { class: "claims" }, ...first.map(([key, row]) => {
      const [right, says] = tell(row);
      return element("li", {}, element("button", { type: "button", data: { key }, onclick: () => open(key) },
        element("span", { class: "top" }, element("b", { text: `${row.namespace}/${row.name}` }), element("span", {}, right)),
        element("span", { class: "says", text: says })));
    }));
    return claims_.length > first.length ? [made, element("p", { class: "more", text: `and ${count(claims_.length - first.length)} more. The search finds them.` })] : [made];
  });
}

export function waitsFailed() {
  show("waits-body", "failed", () => [element("p", { class: "quiet", text: "The waits could not be read. This page tries again every 15 s." })]);
}

export function waits({ bounds, words, waits: rows }) {
  show("waits-body", JSON.stringify(rows), () => {
    if (!rows.length) return [element("p", { class: "quiet", text: "No claim was served in the last day." })];
    const head = element("tr", {}, ...["Step", "Claims", "Median", "p95", "Longest", "Distribution"].map((text) => element("th", { scope: "col", text })));
    const body = rows.map((row) => element("tr", {}, element("th", { scope: "row", text: words[row.step] ?? "total" }), element("td", { text: count(row.count) }),
      ...[row.median, row.p95, row.longest].map((value) => element("td", { text: seconds(value) })), element("td", {}, spark(row.counts, bounds))));
    return [element("table", {}, element("thead", {}, head), element("tbody", {}, ...body))];
  });
}

function spark(counts, bounds) {
  const most = Math.max(...counts), wide = 6;
  const text = counts.map((number, place) => number && `${number} up to ${place < bounds.length ? seconds(bounds[place]) : "longer"}`).filter(Boolean).join(", ");
  return drawn("svg", { width: counts.length * wide, height: 18, class: "spark", role: "img", "aria-label": text },
    ...counts.map((number, place) => drawn("rect", { x: place * wide, y: 17 - 16 * number / most, width: wide - 1, height: 1 + 16 * number / most, class: "engine" })));
}

// How old the numbers are. Called each second, and never read out: what is wrong is said once, among the troubles.
export function age(model) {
  const { read, old_after: limit } = model.process, seconds_ = read ? Math.max(0, now() - read) : 0, place = document.getElementById("age");
  const old = Boolean(read) && seconds_ > limit;
  place.textContent = read ? `fabric read ${clock(seconds_)} ago` : "";
  place.dataset.state = old ? "old" : "new";
  document.body.classList.toggle("old", old || model.connection === "lost");
  const changed = old !== Boolean(model.old);
  model.old = old;
  return changed;
}

export function process(model) {
  const row = model.process, place = document.getElementById("process");
  const leaders = (row.leader ?? []).map((name) => name.split("/")[0]).join(", ");
  const leads = row.leads ? `${leaders || "this process"} leads` : leaders ? `${leaders} leads, this process is on standby` : "no process is known to lead";
  const text = row.version ? [`${leads}`, `handover ${row.handover}`, row.manager && `CDI Manager ${row.manager}`, `version ${row.version}`].filter(Boolean).join(" · ") : "";
  const docs = row.docs ?? "";
  show("docs", docs, () => pages(docs));
  if (place.textContent !== text) { place.textContent = text; place.title = (row.leader ?? []).join("\n"); }
}
