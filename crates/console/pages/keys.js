// The keyboard: one table for what works and what the help shows.

import { dialog, h } from "./dom.js";

let ofPage = [];

const everywhere = [
  { keys: ["j", "ArrowDown"], show: "j", does: "next item", run: () => move(1) },
  { keys: ["k", "ArrowUp"], show: "k", does: "previous item", run: () => move(-1) },
  { keys: ["/"], show: "/", does: "search", run: () => focus("[data-search]") },
  { keys: ["?"], show: "?", does: "show keys", run: () => help() },
];

let pages = [];

/** The pages, in the order of their numbers. */
export function setPages(all, go) {
  pages = all.map((page, index) => ({
    keys: [String(index)], show: String(index), does: page.name, run: () => go(page.path),
  }));
}

/** What the page that is shown has besides: `{ keys, show, does, run }`. */
export function setPageKeys(keys) {
  ofPage = keys;
}

function rows() {
  return [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
}

/** The row that is worked on. */
export function currentRow() {
  return document.activeElement?.closest?.("[data-row]") ?? null;
}

function move(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(currentRow());
  const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by));
  (all[next].querySelector("[data-focus]") ?? all[next]).focus();
  all[next].scrollIntoView({ block: "nearest" });
}

function focus(selector) {
  document.querySelector(selector)?.focus();
}

const isField = (node) => node?.matches?.("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (document.querySelector("dialog[open]")) return;
  if (isField(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  // These choose among radio buttons.
  if (event.key.startsWith("Arrow") && event.target.matches?.("[type=radio]")) return;
  const found = [...ofPage, ...everywhere, ...pages].find((one) => one.keys.includes(event.key));
  if (!found) return;
  // Held down it is still one wish, but for going through a list.
  if (event.repeat && ![...everywhere.slice(0, 2)].includes(found)) return;
  event.preventDefault();
  found.run(event);
});

/** Shows all keys. */
export function help() {
  const list = (title, keys) => keys.length > 0 && [
    h("h3", null, title),
    h("dl", { class: "keys" }, keys.map((one) => h("div", null, h("dt", null, h("kbd", null, one.show)), h("dd", null, one.does)))),
  ];
  return dialog("Keys", (close) => [
    h("h2", null, "Keys"),
    h("div", { class: "keys-columns" },
      h("section", null, list("Here", ofPage), list("Everywhere", everywhere)),
      h("section", null, list("Pages", pages))),
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => close() }, "Close")),
  ]);
}
