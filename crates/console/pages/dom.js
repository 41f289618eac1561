// Elements out of text, never out of markup, and a small patcher that keeps focus, fields and scrolling.

// As in the rules of the host: what hides, turns the direction of reading, or has no ink.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/u;
/** The same, for all that hides in a text. */
export const HIDDEN_GLOBAL = new RegExp(HIDDEN.source, "gu");
const SPLIT = new RegExp(`(${HIDDEN.source})`, "gu");

const shown = (character) => `\\u{${character.codePointAt(0).toString(16)}}`;

/** A text on one line with everything that hides in it made visible. */
export function visible(text) {
  return String(text).replace(SPLIT, shown);
}

/** The nodes of a text: what hides in it stands there as what it is, and is marked. Line ends and tabs stay. */
function textNodes(text) {
  if (!HIDDEN.test(text)) return [document.createTextNode(text)];
  return text.split(SPLIT).filter((part) => part !== "").map((part) => {
    if (!HIDDEN.test(part) || part === "\n" || part === "\t") return document.createTextNode(part);
    const mark = document.createElement("span");
    mark.className = "ghost";
    mark.title = "invisible character";
    mark.textContent = shown(part);
    return mark;
  });
}

const LITERAL = /\\(?=u\{)/gu;
const ESCAPED = /\\u\{([0-9a-f]{1,6})\}/gu;
const isPlain = (character) => character === "\n" || character === "\t";

/** A text for a field: what would hide in it is written as `\u{…}`, so that it is seen where it is changed. */
export function escapeHidden(text) {
  return text.replace(LITERAL, "\\u{5c}").replace(SPLIT, (character) => (isPlain(character) ? character : shown(character)));
}

/** The text that `escapeHidden` was given, exactly. */
export function unescapeHidden(text) {
  return text.replace(ESCAPED, (whole, digits) => {
    const code = Number.parseInt(digits, 16);
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}

/** JSON in which what would hide is written as `\uXXXX`: the same value. */
export function escapeHiddenJson(text) {
  return text.replace(SPLIT, (character) => (isPlain(character) || character === "\r" ? character
    : [...Array(character.length).keys()].map((at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`).join("")));
}

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = new Set(["svg", "g", "path", "rect", "line", "circle", "text", "polyline", "title"]);

/**
 * An element. `props`: `on…` are handlers, `key` says what it is among its siblings, `class`, `data-…`, `aria-…` and the like
 * are attributes, `value`, `checked`, `open` and `disabled` are properties. Children: nodes, texts, lists of these, or nothing.
 */
export function h(tag, props, ...children) {
  const node = SHAPES.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  node.$ = props ?? {};
  for (const [name, value] of Object.entries(node.$)) set(node, name, value);
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === true) continue;
    if (Array.isArray(child)) append(node, child);
    else if (child instanceof Node) node.append(child);
    else node.append(...textNodes(String(child)));
  }
}

const PROPERTIES = new Set(["value", "checked", "open", "disabled", "selected", "indeterminate"]);

/** Attributes that are shown or read aloud. */
const SPOKEN = new Set(["title", "aria-label", "placeholder"]);

function set(node, name, value) {
  if (name === "key") return;
  // The result is dropped: a handler that returns false would keep the browser from what the event does, such as Space on a
  // button.
  if (name.startsWith("on")) node[name.toLowerCase()] = value ? (event) => { value(event); } : null;
  else if (name === "style") for (const [rule, of] of Object.entries(value)) node.style.setProperty(rule, of);
  else if (PROPERTIES.has(name)) {
    if (node[name] !== value) node[name] = value ?? (name === "value" ? "" : false);
  } else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : SPOKEN.has(name) ? visible(value) : String(value));
}

/** The parts of a sentence of the host, with what it puts between backticks as code. */
export function coded(text) {
  const parts = String(text ?? "").split("`");
  // Without its partner, a backtick is one.
  if (parts.length % 2 === 0) return [text];
  return parts.map((part, at) => (at % 2 === 0 ? part : h("code", null, part)));
}

/** Makes `parent` hold just these nodes, with what is there already where it is the same. */
export function patch(parent, ...children) {
  const holder = document.createDocumentFragment();
  append(holder, children);
  patchChildren(parent, [...holder.childNodes]);
}

function keyOf(node) {
  return node.$?.key;
}

function isSame(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh);
}

function patchChildren(parent, fresh) {
  const keyed = new Map();
  const names = new Set(fresh.map(keyOf));
  // What goes away goes first: to move what stays in front of it would take the focus from it.
  for (const old of [...parent.childNodes]) {
    if (keyOf(old) === undefined) continue;
    if (names.has(keyOf(old))) keyed.set(keyOf(old), old);
    else old.remove();
  }
  let at = parent.firstChild;
  for (const node of fresh) {
    const key = keyOf(node);
    let old = key !== undefined ? keyed.get(key) : at;
    // One that has a name is never made into another.
    while (key === undefined && old && keyOf(old) !== undefined) old = old.nextSibling;
    if (!old || !isSame(old, node)) {
      parent.insertBefore(node, at);
      continue;
    }
    if (old === at) at = at.nextSibling;
    else parent.insertBefore(old, at);
    patchNode(old, node);
    node.$old = old;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function patchNode(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  const before = old.$ ?? {};
  const props = fresh.$ ?? {};
  for (const name of Object.keys(before)) if (!(name in props)) set(old, name, undefined);
  for (const [name, value] of Object.entries(props)) {
    // What a person has typed, opened or chosen is theirs.
    if (PROPERTIES.has(name) && name !== "disabled" && before[name] === value) continue;
    set(old, name, value);
  }
  old.$ = props;
  if (!fresh.$ && old.className !== fresh.className) old.className = fresh.className;
  if (!props["data-own"]) patchChildren(old, [...fresh.childNodes]);
}

/** Says something to those who listen to the page, and shows it for a while. */
export function toast(text, kind = "good") {
  const place = document.getElementById("toasts");
  const note = h("p", { class: `toast ${kind}`, role: kind === "bad" ? "alert" : "status" }, coded(text));
  place.append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 9000 : 4000);
}

/** Says something only to those who listen to the page. */
export function announce(text) {
  document.getElementById("live").textContent = visible(text);
}

/** A window over the page. `build(close)` makes what is in it; resolves with what `close` was given. */
export function dialog(label, build) {
  return new Promise((resolve) => {
    let result;
    const close = (value) => {
      result = value;
      box.close();
    };
    const box = h("dialog", { class: "dialog", "aria-label": label, onclick: (event) => event.target === box && box.close() });
    box.onclose = () => {
      box.remove();
      resolve(result);
    };
    box.append(h("div", { class: "dialog-in" }, build(close)));
    document.body.append(box);
    box.showModal();
  });
}
