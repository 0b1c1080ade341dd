// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// Names, UUIDs and commands with a button that copies them.

import { drawn, element } from "./format.js";

const SHOWN = 1500, LETTERS = 40;
// What comes before a long number, and its first eight digits: GPU-2ef071ae-1b2c-… is GPU-2ef071ae….
const LONG = /^(.*?\b[0-9a-f]{8})[0-9a-f-]{12,}$/i;

export function shortened(text) {
  const uuid = LONG.exec(text);
  if (uuid) return `${uuid[1]}…`;
  return text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text;
}

export function copyButton(text, what = text) {
  const button = element("button", { type: "button", class: "copy", "aria-label": `copy ${what}`, title: `copy ${what}`, onclick: () => copied(button, text) }, icon());
  return button;
}

// Two sheets, since not every system's fonts have such a sign.
const icon = () => drawn("svg", { viewBox: "0 0 16 16", width: 13, height: 13, class: "icon", "aria-hidden": "true" }, drawn("rect", { x: 5.5, y: 5.5, width: 8, height: 9, rx: 1.5 }), drawn("path", { d: "M 10.5 3.5 V 3 A 1.5 1.5 0 0 0 9 1.5 H 4 A 1.5 1.5 0 0 0 2.5 3 V 10 A 1.5 1.5 0 0 0 4 11.5" }));

// A name, shortened, with a button that copies it whole. open(): shows its details, if the page has them.
export function name(text, open) {
  const short = shortened(text), title = short === text ? null : text;
  const shown = open ? element("button", { type: "button", class: "to", title, onclick: open, text: short }) : element("span", { title, text: short });
  return element("span", { class: "named" }, shown, copyButton(text));
}

async function copied(button, text) {
  const said = document.getElementById("copied");
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = byHand(text);
  }
  button.replaceChildren(done ? "✓" : "✕");
  said.textContent = done ? `copied ${text}` : "The browser does not allow this page to copy.";
  setTimeout(() => button.replaceChildren(icon()), SHOWN);
}

// Where the page has come over plain HTTP from another host, browsers have no clipboard for it.
function byHand(text) {
  const place = element("textarea", { class: "away", "aria-hidden": "true", tabindex: -1 }), from = document.activeElement;
  place.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(place);
  place.select();
  const done = document.execCommand("copy");
  place.remove();
  from?.focus({ preventScroll: true });
  return done;
}
