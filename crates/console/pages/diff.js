// What differs, word by word.

import { h } from "./dom.js";
import { Numeral, stringify } from "./json.js";

const MOST = 600;

const words = (text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];

/** Runs of words that are in both, only before, or only after: `[kind, text]`. */
export function wordDiff(before, after) {
  const [a, b] = [words(before), words(after)];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail += 1;
  const runs = [];
  const put = (kind, text) => {
    if (text === "") return;
    if (runs.at(-1)?.[0] === kind) runs.at(-1)[1] += text;
    else runs.push([kind, text]);
  };
  put("same", a.slice(0, head).join(""));
  const [x, y] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  if (x.length > MOST || y.length > MOST) {
    put("gone", x.join(""));
    put("new", y.join(""));
  } else {
    // The longest common run of words, from the end.
    const length = Array.from({ length: x.length + 1 }, () => new Uint16Array(y.length + 1));
    for (let i = x.length - 1; i >= 0; i -= 1) {
      for (let j = y.length - 1; j >= 0; j -= 1) {
        length[i][j] = x[i] === y[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
      }
    }
    let [i, j] = [0, 0];
    while (i < x.length || j < y.length) {
      if (i < x.length && j < y.length && x[i] === y[j]) {
        put("same", x[i]);
        i += 1;
        j += 1;
      } else if (j >= y.length || (i < x.length && length[i + 1][j] >= length[i][j + 1])) {
        put("gone", x[i]);
        i += 1;
      } else {
        put("new", y[j]);
        j += 1;
      }
    }
  }
  put("same", a.slice(a.length - tail).join(""));
  return runs;
}

/** A text as it was and is, in one. */
export function textDiff(before, after) {
  return h("span", { class: "diff" }, wordDiff(before, after).map(([kind, text]) => (
    kind === "same" ? h("span", null, text) : h(kind === "new" ? "ins" : "del", null, text))));
}

const told = (value) => (typeof value === "string" ? value : stringify(value, 2));

/** What is equal as JSON, whatever the order of its members. */
export function isEqual(a, b) {
  if (a === b) return true;
  if (a instanceof Numeral || b instanceof Numeral) return a instanceof Numeral && b instanceof Numeral && a.text === b.text;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null || Array.isArray(a) !== Array.isArray(b)) return false;
  const [left, right] = [Object.keys(a), Object.keys(b)];
  return left.length === right.length && left.every((key) => Object.hasOwn(b, key) && isEqual(a[key], b[key]));
}

/** The members of two objects that differ, a row for each; nothing where none does. */
export function objectDiff(before, after) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  const rows = names.filter((name) => !isEqual(before?.[name], after?.[name])).map((name) => {
    const [had, has] = [Object.hasOwn(before ?? {}, name), Object.hasOwn(after ?? {}, name)];
    const value = had && has ? textDiff(told(before[name]), told(after[name]))
      : h(has ? "ins" : "del", { class: "diff" }, told(has ? after[name] : before[name]));
    return h("div", { key: name }, h("dt", null, h("span", { class: "mono" }, name), h("span", { class: "soft" }, !had ? " new" : !has ? " removed" : "")),
      h("dd", { class: "value" }, value));
  });
  return rows.length > 0 ? h("dl", { class: "facts" }, rows) : null;
}
