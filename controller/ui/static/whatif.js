// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// What if: one change and who comes, asked of the planners; the answer beside what is so today.

import { element, moment, seconds } from "./format.js";

export class WhatIf {
  constructor(model, feed) {
    Object.assign(this, { model, feed, asking: null, known: "" });
    this.form = document.getElementById("what-if-form");
    this.result = document.getElementById("what-if-result");
    this.stop = document.getElementById("what-if-stop");
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.ask(); });
    this.form.elements.change.addEventListener("change", () => this.choose());
    this.stop.addEventListener("click", () => this.asking?.abort());
    this.choose();
  }

  // What a change has no use for is neither shown nor sent.
  choose() {
    for (const label of this.form.querySelectorAll("[data-for]")) {
      const used = label.dataset.for.split(" ").includes(this.form.elements.change.value);
      label.hidden = !used;
      label.querySelector("input").disabled = !used;
    }
  }

  // The models of the fabrics, as they are known; called after changes.
  update() {
    const refused = this.feed.namespace !== "";
    this.form.hidden = refused;
    document.getElementById("what-if-refused").hidden = !refused;
    const pools = [...this.model.fabrics.values()].flatMap((row) => (row.models ?? []).map((each) => [row.fabric ?? 0, each.model]));
    const known = JSON.stringify(pools.sort());
    if (known === this.known) return;
    this.known = known;
    const place = this.form.elements.model, chosen = place.value;
    this.form.querySelector("#what-if-ask").disabled = pools.length === 0;
    if (pools.length === 0) return place.replaceChildren(element("option", { value: "[]", text: "no model is known yet" }));
    place.replaceChildren(...pools.map(([fabric, model]) => element("option", { value: JSON.stringify([fabric, model]), text: `${model}, fabric ${fabric}` })));
    if ([...place.options].some((option) => option.value === chosen)) place.value = chosen;
  }

  query() {
    const query = Object.fromEntries(new FormData(this.form));
    const [fabric, model] = JSON.parse(query.model || "[]");
    delete query.model;
    return { ...query, ...(model ? { model, fabric } : {}) };
  }

  async ask() {
    this.asking?.abort();
    const asking = this.asking = new AbortController();
    this.stop.disabled = false;
    this.result.replaceChildren(element("p", { class: "quiet", text: "The controller calculates …" }));
    let shown;
    try {
      shown = parts(await this.feed.json("what-if", this.query(), { signal: asking.signal }));
    } catch (error) {
      shown = [element("p", { text: asking.signal.aborted ? "Stopped." : error.message || "The connection was lost." })];
    }
    if (asking !== this.asking) return;
    this.stop.disabled = true;
    this.result.replaceChildren(...shown);
  }
}

function parts(told) {
  if (told.error) return [element("p", { class: "error", text: told.error })];
  const made = [element("h3", { text: `The plan as of ${moment(told.taken)}` }), table(["", "Today", "With the change"], told.plan)];
  if (told.note) made.push(element("p", { text: told.note }));
  if (told.claims.length) made.push(element("h3", { text: "Claims that differ or wait" }), table(["Claim", "Today", "With the change", "Why"], told.claims, "prose"));
  if (told.figures) {
    made.push(element("h3", { text: `${told.hours} h in simulated time, ${told.seeds} seeds: median (lowest to highest)` }), table(["", "Today", "With the change"], told.figures));
    if (told.longest.length) made.push(element("h3", { text: "Longest waits, with the change" }), table(["Pod", "Waited", "Runs at the end"], told.longest.map(([pod, waited, runs]) => [pod, seconds(waited), runs ? "yes" : "no"])));
    if (told.namespaces.length) made.push(element("h3", { text: "By namespace, with the change" }), table(["Namespace", "95% of its pods wait up to", "Waiting at the end"], told.namespaces.map(([name, p95, waiting]) => [name, seconds(p95), waiting])));
    made.push(element("p", { class: "quiet", text: `Durations of steps: ${Object.entries(told.durations).map(([step, from]) => `${step} ${from}`).join(", ")}` }));
  }
  return made;
}

function table(head, rows, kind) {
  return element("table", { class: kind }, element("thead", {}, element("tr", {}, ...head.map((text) => (text ? element("th", { scope: "col", text }) : element("td"))))),
    element("tbody", {}, ...rows.map(([first, ...rest]) => element("tr", {}, element("th", { scope: "row", text: first }), ...rest.map((text) => element("td", { text: String(text) }))))));
}
