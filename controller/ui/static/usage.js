// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// Who has used which devices, for how long, and what that costs.

import { BYS, PERIODS } from "./choice.js";
import { element, now } from "./format.js";
import { show } from "./panels.js";
import { saved } from "./table_file.js";

const DAY = 86400, MOST = 100;

export class Usage {
  constructor(choice, feed) {
    Object.assign(this, { choice, feed, told: null, failed: "" });
    this.form = document.getElementById("usage-form");
    for (const [name, values] of [["by", BYS], ["period", PERIODS]]) {
      this.form.elements[name].append(...Object.entries(values).map(([value, text]) => element("option", { value, text })));
    }
    this.form.addEventListener("change", (event) => { choice.set({ [event.target.name]: event.target.value }); this.read(); });
    this.form.addEventListener("submit", (event) => event.preventDefault());
    for (const button of this.form.querySelectorAll("[data-usage]")) button.addEventListener("click", () => this.save(button.dataset.usage));
  }

  query() {
    const days = { "": 1, "7d": 7, "30d": 30 }[this.choice.period], midnight = new Date(now() * 1000);
    midnight.setUTCDate(1);
    midnight.setUTCHours(0, 0, 0, 0);
    return { from: Math.floor(days ? now() - days * DAY : midnight / 1000), to: Math.ceil(now()), by: this.choice.by || "namespace,model" };
  }

  async read() {
    for (const name of ["by", "period"]) this.form.elements[name].value = this.choice[name];
    try {
      this.told = await this.feed.json("usage", this.query());
      this.failed = "";
    } catch (error) {
      this.failed = error.message || "The usage could not be read.";
    }
    this.draw();
  }

  draw() {
    const { told, failed } = this;
    if (failed || !told) return show("usage-body", failed || "none", () => [element("p", { class: "quiet", text: failed || "…" })]);
    show("usage-body", JSON.stringify([told, this.choice.namespace, this.choice.model]), () => parts(told, this.choice));
  }

  async save(format) {
    const answer = await this.feed.get("usage", { ...this.query(), ...(format === "csv" ? { format } : {}) });
    saved(`usage.${format}`, format === "csv" ? "text/csv" : "application/json", await answer.text());
  }
}

const hours = (value) => (value ? value.toFixed(2) : "0");

function parts(told, choice) {
  const day = (at) => new Date(at * 1000).toISOString().slice(0, 16).replace("T", " ");
  const says = [`${day(told.from)} to ${day(Math.min(told.to, told.until))} UTC.`, told.since > told.from ? `Accounting began at ${day(told.since)} UTC.` : "", told.uncertain_hours ? `For ${hours(told.uncertain_hours)} h, the ends are estimated, because no controller ran.` : "", told.problem].filter(Boolean).join(" ");
  const by = told.by.filter((name) => name !== "label" || told.label), rows = told.rows.filter((row) => (!choice.namespace || !row.namespace || row.namespace === choice.namespace) && (!choice.model || !row.model || row.model === choice.model));
  if (!rows.length) return [element("p", { class: "quiet", text: `${says} No device was attached.` })];
  const costs = rows.some((row) => row.cost !== null && row.currency), title = { namespace: "Namespace", model: "Model", label: told.label };
  const head = element("tr", {}, ...["GPU-hours", "Idle GPU-hours", ...(costs ? [`Cost in ${told.currency}`] : []), "Attaches"].map((text) => element("th", { scope: "col", text })));
  head.prepend(...by.map((name) => element("th", { scope: "col", class: "word", text: title[name] })));
  const figures = (row) => [hours(row.gpu_hours), hours(row.idle_gpu_hours), ...(costs ? [row.cost === null ? "no rate" : row.cost.toFixed(2)] : []), String(row.attaches)].map((text) => element("td", { text }));
  const name = (row, field) => row[field] || (field === "namespace" ? "idle, no claim" : "none");
  const body = rows.slice(0, MOST).map((row) => element("tr", {}, ...by.map((field, number) => element(number ? "td" : "th", { ...(number ? {} : { scope: "row" }), class: "word", text: name(row, field) })), ...figures(row)));
  const sums = told.totals.map((row) => element("tr", { class: "total" }, element("th", { scope: "row", colspan: by.length, text: `All of ${row.model}` }), ...figures(row)));
  const more = rows.length > MOST ? element("p", { class: "more", text: `and ${rows.length - MOST} more. The files have all rows.` }) : "";
  return [element("p", { class: "quiet", text: says }), element("table", {}, element("thead", {}, head), element("tbody", {}, ...body), element("tfoot", {}, ...sums)), more];
}
