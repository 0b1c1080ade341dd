// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// The view that a user has chosen: search, filters, order, and the details that are open. The address of the page has it
// behind the #, so that a link or the back button leads to it, and no proxy's log has the names.

const TEXTS = ["search", "namespace", "model", "fabric", "age", "claims", "nodes", "span", "by", "period"];
// Values of an order that the page does not know count as the default.
export const CLAIM_ORDERS = { "": "by time", name: "by name", node: "by node", model: "by model" };
export const NODE_ORDERS = { "": "by name", trouble: "problems first", used: "most in use first", idle: "most idle first" };
export const SPANS = { "1h": "1 h", "24h": "24 h", "7d": "7 days", "30d": "30 days" };
export const BYS = { "": "namespace and model", namespace: "namespace", model: "model", label: "label", "namespace,model,label": "all three" };
export const PERIODS = { "": "last 24 h", "7d": "last 7 days", "30d": "last 30 days", month: "this month" };
export const AGES = { "": "any", 60: "over 1 min", 600: "over 10 min", 3600: "over 1 h", 86400: "over 1 day" };

export class Choice {
  // moved(): called after the back button or a link has led to another view.
  constructor(moved) {
    this.read();
    window.addEventListener("popstate", () => {
      // A link within the page, such as the one to the nodes, is no view.
      if (location.hash && !location.hash.includes("=")) return history.replaceState(null, "", this.address());
      this.read();
      moved();
    });
  }

  read() {
    const query = new URLSearchParams(location.hash.slice(1));
    for (const name of TEXTS) this[name] = query.get(name) ?? "";
    this.states = new Set((query.get("states") ?? "").split(",").filter(Boolean));
    this.open = query.get("open") ?? "";
    for (const [name, allowed] of [["age", AGES], ["claims", CLAIM_ORDERS], ["nodes", NODE_ORDERS], ["span", SPANS], ["by", BYS], ["period", PERIODS]]) if (!Object.hasOwn(allowed, this[name])) this[name] = "";
  }

  get words() {
    return this.search.toLowerCase().split(/\s+/).filter(Boolean);
  }

  // Whether something is filtered; an order filters nothing.
  get narrow() {
    return Boolean(this.search.trim() || this.namespace || this.model || this.fabric || this.age || this.states.size);
  }

  set(changes, { typed = false } = {}) {
    Object.assign(this, changes);
    const address = this.address();
    if (address === (location.hash || location.pathname + location.search)) return;
    history[typed ? "replaceState" : "pushState"](null, "", address);
  }

  clear() {
    this.set({ search: "", namespace: "", model: "", fabric: "", age: "", states: new Set() });
  }

  address() {
    const query = new URLSearchParams(TEXTS.filter((name) => this[name]).map((name) => [name, this[name]]));
    if (this.states.size) query.set("states", [...this.states].join(","));
    if (this.open) query.set("open", this.open);
    const text = query.toString().replaceAll("%2F", "/").replaceAll("%2C", ",");
    return text ? `#${text}` : location.pathname + location.search;
  }

  // Whether a claim is shown. What is not known of a claim, such as the fabric of one without a node, hides no claim.
  hasClaim(model, row, now) {
    if (this.namespace && row.namespace !== this.namespace) return false;
    if (this.age && now - (row.since || row.created || now) < Number(this.age)) return false;
    const fabric = row.node ? model.nodes.get(`node/${row.node}`)?.fabric : undefined;
    if (this.fabric && fabric !== undefined && String(fabric) !== this.fabric) return false;
    if (this.model) {
      const says = model.given(row) || row.waits_for || row.refused || "";
      if (says && !says.includes(this.model)) return false;
    }
    return model.found(row, this.words);
  }

  // Whether a node is shown: one of its devices fits each filter of devices.
  hasNode(model, row) {
    if (this.fabric && String(row.fabric) !== this.fabric) return false;
    if (this.states.size || this.model || this.namespace) if (!(row.devices ?? []).some((device) => this.hasDevice(device))) return false;
    return model.found(row, this.words);
  }

  hasDevice(device) {
    return (!this.states.size || this.states.has(device.state)) && (!this.model || device.model === this.model) && (!this.namespace || (device.claim ?? "").startsWith(`${this.namespace}/`));
  }
}
