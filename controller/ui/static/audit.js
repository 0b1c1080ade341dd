// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// What happened: who asked, what was attached, returned or refused, when and why; also of devices that are gone.

import { name } from "./copying.js";
import { count, element, moment } from "./format.js";
import { show } from "./panels.js";
import { csv, saved } from "./table_file.js";

// Entries that are drawn, read while nothing is filtered, and read for a filter or a file.
const MOST = 50, FEW = 100, ALL = 2000;
const SIGNS = { requested: "↑", attached: "○", returned: "↓", refused: "✕", failed: "!" };

export class Audit {
  constructor(model, choice, feed, open) {
    Object.assign(this, { model, choice, feed, open, told: null });
    this.since = document.getElementById("audit-since");
  }

  async read() {
    try {
      this.told = await this.feed.json("audit", { most: this.choice.narrow ? ALL : FEW });
    } catch {
      this.told = null;
    }
    this.draw();
  }

  rows(entries = this.told?.entries ?? []) {
    const { choice } = this, words = choice.words;
    return entries.filter((each) => {
      const claims = each.claims ?? [], text = Object.values(each).flat().join("\n").toLowerCase();
      return (!choice.namespace || claims.some((claim) => claim.startsWith(`${choice.namespace}/`))) && (!choice.model || !each.model || each.model === choice.model) && words.every((word) => text.includes(word));
    });
  }

  draw() {
    if (this.told && this.choice.narrow && this.told.more && !this.reading) {
      this.reading = true;
      this.read().finally(() => { this.reading = false; });
    }
    if (!this.told) return show("audit-body", "failed", () => [element("p", { class: "quiet", text: "The entries could not be read. This page tries again every 15 s." })]);
    const rows = this.rows(), first = rows.slice(0, MOST), known = (key) => this.model.rows.has(key);
    show("audit-body", JSON.stringify([first, rows.length, first.map((each) => [known(`node/${each.node}`), ...(each.claims ?? []).map((claim) => known(`claim/${claim}`))])]), () => {
      this.say(rows);
      if (!rows.length) return [element("p", { class: "quiet", text: this.told.entries.length ? "No entry matches the search and the filters." : "Nothing has been attached, returned or refused yet." })];
      const head = element("tr", {}, ...["When", "What", "Claim", "Device", "Model", "Node", "Why"].map((text) => element("th", { scope: "col", text })));
      const line = (each) => element("tr", { class: each.what === "failed" || each.what === "refused" ? "bad" : null }, element("th", { scope: "row", text: moment(each.at).slice(0, -4) }), element("td", {}, element("span", { "aria-hidden": "true", text: `${SIGNS[each.what] ?? "·"} ` }), each.what),
        element("td", {}, ...(each.claims ?? []).map((claim) => name(claim, known(`claim/${claim}`) ? () => this.open(`claim/${claim}`) : null))), element("td", {}, each.device ? name(each.uuid || each.device, this.present(each) ? () => this.open(`device/${each.device}`) : null) : ""),
        element("td", { text: each.model ?? "" }), element("td", {}, each.node ? name(each.node, known(`node/${each.node}`) ? () => this.open(`node/${each.node}`) : null) : ""), element("td", { text: each.why ?? "" }));
      const more = rows.length > first.length || this.told.more ? element("p", { class: "more", text: `These are the newest ${count(first.length)}. The files have all entries.` }) : "";
      return [element("table", { class: "prose" }, element("thead", {}, head), element("tbody", {}, ...first.map(line))), more];
    });
  }

  present(each) {
    return (this.model.nodes.get(`node/${each.node}`)?.devices ?? []).some((device) => device.name === each.device);
  }

  say(rows) {
    const whole = async () => this.rows((await this.feed.json("audit", { most: ALL })).entries);
    const files = [["CSV", async () => saved("audit.csv", "text/csv", csv(flat(await whole())))], ["JSON", async () => saved("audit.json", "application/json", JSON.stringify(await whole(), null, 1))]];
    this.since.replaceChildren(`${this.told.says} `, ...(rows.length ? files.map(([text, onclick]) => element("button", { type: "button", onclick, "aria-label": `what happened as ${text}`, text })) : []));
  }
}

const flat = (rows) => rows.map((each) => ({ time: new Date(each.at * 1000).toISOString(), what: each.what, claims: (each.claims ?? []).join(" "), pods: (each.pods ?? []).join(" "), device: each.device ?? "", uuid: each.uuid ?? "", model: each.model ?? "", node: each.node ?? "", why: each.why ?? "" }));
