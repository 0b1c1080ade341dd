// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// Words, numbers and elements that all parts of the page use.

export const STATES = {
  "in-use": ["▶", "in use"], idle: ["○", "attached, idle"], reserved: ["◆", "reserved"], attaching: ["↑", "attaching"],
  leaving: ["↓", "leaving"], faulty: ["!", "faulty"], unmanaged: ["?", "unmanaged"], free: ["·", "free"],
};
export const ORDER = ["in-use", "reserved", "attaching", "idle", "leaving", "faulty", "unmanaged", "free"];

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "onclick") made.addEventListener("click", value);
    else if (key === "data") Object.assign(made.dataset, value);
    else if (key === "text") made.textContent = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function drawn(name, properties = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(properties)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Devices by state as one bar, in the order of the states. part: its length, as a share of the longest bar.
export function bar(states, part = 1) {
  const known = ORDER.filter((state) => states[state]), total = known.reduce((sum, state) => sum + states[state], 0) || 1;
  const made = element("span", { class: "bar", "aria-hidden": "true" }, ...known.map((state) => {
    const piece = element("i", { class: state });
    piece.style.width = `${100 * states[state] / total}%`;
    return piece;
  }));
  made.style.width = `${100 * part}%`;
  return made;
}

// 4 in use · 2 free
export const counted = (states) => ORDER.filter((state) => states[state]).map((state) => `${count(states[state])} ${STATES[state][1]}`).join(" · ");

export function seconds(value) {
  if (value < 0.001) return "0 s";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  return clock(value);
}

export function clock(value) {
  const whole = Math.max(0, Math.round(value));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (hours >= 48) return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  if (hours) return `${hours} h ${String(minutes).padStart(2, "0")} min`;
  return minutes ? `${minutes} min ${String(rest).padStart(2, "0")} s` : `${rest} s`;
}

// By the controllers' clock, so that a browser whose clock is wrong tells no wrong age.
let ahead = 0;
export function setClock(at) {
  ahead = at ? at - Date.now() / 1000 : 0;
}

export const now = () => Date.now() / 1000 + ahead;

export function moment(at) {
  const date = new Date(at * 1000);
  const time = date.toLocaleTimeString("en-GB");
  const today = date.toDateString() === new Date().toDateString();
  return `${today ? "" : `${day(date)} `}${time}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

const day = (date) => date.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });

// node-2 comes before node-10.
export const collator = new Intl.Collator("en", { numeric: true });

export const count = (number) => number.toLocaleString("en-US");

export function told(number, one, many) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

// Text that counts on by itself: data-until counts down, data-since up.
export function ticking(kind, at) {
  const made = element("span", { data: { [kind]: at } });
  tick(made);
  return made;
}

export function tick(made) {
  if (made.dataset.until) {
    const left = made.dataset.until - now();
    made.textContent = left > 0 ? `${clock(left)} left` : "hold time ended";
  } else {
    made.textContent = clock(now() - made.dataset.since);
  }
}
