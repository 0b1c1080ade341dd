// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// From the controller to this page: all rows once, then only what changes. No cookie: a token goes into a header.
// EventSource sends no headers, so server-sent events are read here (html.spec.whatwg.org, section 9.2).

import { setClock } from "./format.js";

const SHORTEST = 500, LONGEST = 15000, SILENCE = 45000;

export class Refused extends Error {
  constructor(status, text) { super(text); this.status = status; }
}

export class Feed {
  // told: {snapshot(rows), change(rows, gone), state(name)}; refused(error): resolves once there is another token.
  constructor(told, refused) {
    Object.assign(this, { told, refused, token: "", namespace: "", at: null, bytes: 0, changes: 0 });
  }

  async run() {
    for (let pause = SHORTEST; ;) {
      const began = performance.now();
      try {
        if (this.at === null) await this.snapshot();
        await this.stream();
      } catch (error) {
        if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
          this.told.state("refused");
          await this.refused(error);
          this.at = null;
          continue;
        }
      }
      pause = performance.now() - began > LONGEST ? SHORTEST : Math.min(LONGEST, pause * 2);
      this.told.state("lost");
      await new Promise((done) => setTimeout(done, pause * (0.5 + Math.random())));
    }
  }

  async get(name, query = {}, options = {}) {
    const address = new URL(name, document.baseURI);
    for (const [key, value] of Object.entries(query)) address.searchParams.set(key, value);
    if (this.namespace) address.searchParams.set("namespace", this.namespace);
    // The first one shows that this page asks: no other site's page can send it.
    const headers = { "X-Composable-Infra-Page": "1", ...(this.token ? { "X-Composable-Infra-Token": this.token } : {}) };
    const answer = await fetch(address, { headers, cache: "no-store", credentials: "same-origin", ...options });
    if (!answer.ok) throw new Refused(answer.status, await answer.text());
    return answer;
  }

  async json(name, query, options) {
    return (await this.get(name, query, options)).json();
  }

  async snapshot() {
    const { at, now, rows } = await this.json("snapshot");
    this.at = at;
    setClock(now);
    this.told.snapshot(new Map(Object.entries(rows)));
  }

  async stream() {
    const abort = new AbortController();
    let timer = 0;
    const alive = () => { clearTimeout(timer); timer = setTimeout(() => abort.abort(), SILENCE); };
    alive();
    try {
      const answer = await this.get("changes", { since: this.at }, { signal: abort.signal });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ""; ;) {
        const { done, value } = await reader.read();
        if (done) return;
        alive();
        this.bytes += value.length;
        const events = (text + value).split("\n\n");
        text = events.pop();
        for (const event of events) if (this.take(event)) return;
      }
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
  }

  // True when everything has to be read anew.
  take(event) {
    const fields = Object.fromEntries(event.split("\n").map((line) => {
      const place = line.indexOf(":");
      return [line.slice(0, place), line.slice(place + 1).trimStart()];
    }));
    if (fields.event === "reset") { this.at = null; return true; }
    if (fields.event === "open") this.told.state("live");
    if (fields.event === "change") {
      const { rows, gone } = JSON.parse(fields.data);
      this.at = fields.id;
      this.changes += 1;
      this.told.change(Object.entries(rows), gone);
    }
    return false;
  }
}
