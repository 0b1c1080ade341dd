// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// The bar below the head: filters, orders, a link to this view, and what is shown as a file.

import { AGES, CLAIM_ORDERS, NODE_ORDERS } from "./choice.js";
import { copyButton } from "./copying.js";
import { element } from "./format.js";
import { claimTable, csv, deviceTable, saved } from "./table_file.js";

const NARROW = "(max-width: 900px)";

export class Filters {
  // changed(): called after the user has chosen something.
  constructor(model, choice, feed, changed) {
    Object.assign(this, { model, choice, feed, changed, known: "" });
    this.search = document.getElementById("search");
    this.form = document.getElementById("filters-form");
    this.fields = this.form.elements;
    this.orders();
    this.search.addEventListener("input", () => this.chosen({ search: this.search.value }, { typed: true }));
    this.form.addEventListener("change", (event) => this.chosen({ [event.target.name]: event.target.value }));
    this.form.addEventListener("submit", (event) => event.preventDefault());
    document.getElementById("clear").addEventListener("click", () => this.clear());
    for (const button of this.form.querySelectorAll("[data-file]")) button.addEventListener("click", () => this.save(button.dataset.file));
    const narrow = window.matchMedia(NARROW), unfold = () => { document.getElementById("filters").open = !narrow.matches || choice.narrow; };
    narrow.addEventListener("change", unfold);
    unfold();
    document.getElementById("link").replaceChildren("Link ", element("span"));
    this.show();
  }

  chosen(changes, how) {
    this.choice.set(changes, how);
    this.show();
    this.changed();
  }

  clear() {
    this.choice.clear();
    this.show();
    this.search.focus();
    this.changed();
  }

  orders() {
    for (const [name, values] of [["age", AGES], ["claims", CLAIM_ORDERS], ["nodes", NODE_ORDERS]]) {
      // A number as a key comes before other keys, so the default is put first by hand.
      const options = Object.entries(values).sort(([a], [b]) => (b === "") - (a === ""));
      this.fields[name].replaceChildren(...options.map(([value, text]) => element("option", { value, text })));
    }
  }

  // The fields say what is chosen, also after the back button.
  show() {
    if (this.search.value !== this.choice.search) this.search.value = this.choice.search;
    for (const name of ["age", "claims", "nodes"]) this.fields[name].value = this.choice[name];
    this.update(true);
    document.getElementById("clear").disabled = !this.choice.narrow;
    document.getElementById("link").lastChild.replaceWith(copyButton(location.href, "the link to this view"));
  }

  // The namespaces, models and fabrics that there are; called after changes.
  update(again = false) {
    const { model, choice } = this;
    const found = {
      namespace: [...new Set([...model.claims.values()].map((row) => row.namespace))].sort(),
      model: [...new Set([...model.fabrics.values()].flatMap((row) => (row.models ?? []).map((each) => each.model)))].sort(),
      fabric: [...model.fabrics.values()].map((row) => String(row.fabric ?? 0)).sort((a, b) => a - b),
    };
    const known = JSON.stringify([found, this.feed.namespace]);
    if (known === this.known && !again) return;
    this.known = known;
    for (const [name, values] of Object.entries(found)) {
      if (choice[name] && !values.includes(choice[name])) values.push(choice[name]);
      this.fields[name].replaceChildren(element("option", { value: "", text: "all" }), ...values.map((value) => element("option", { value, text: value })));
      this.fields[name].value = choice[name];
    }
    // Who sees one namespace sees no node, so neither model nor fabric of its claims is known.
    for (const each of this.form.querySelectorAll("[data-whole]")) each.hidden = this.feed.namespace !== "";
  }

  save(file) {
    const { model, choice } = this, [what, kind] = file.split(".");
    const table = what === "claims" ? claimTable(model, choice) : deviceTable(model, choice);
    const text = kind === "csv" ? csv(table) : JSON.stringify({ at: new Date().toISOString(), view: location.hash, [what]: table }, null, 1);
    saved(file, kind === "csv" ? "text/csv" : "application/json", text);
  }
}
