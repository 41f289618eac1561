// What a text changes in a file, line by line.

import { h } from "./dom.js";
import { many } from "./format.js";

/** Number of cells of the table with which equal lines are found; larger changes are shown as a whole. */
const MAX_CELLS = 2_000_000;
/** Number of unchanged lines that are shown beside a change. */
const CONTEXT = 3;

/** Lines of a text, without an empty one after the last line end. */
export const linesOf = (text) => (text === "" ? [] : text.replace(/\n$/, "").split("\n"));

/** Lines that are in both, only before, or only after: `[kind, line]`. */
export function lineDiff(before, after) {
  const [a, b] = [linesOf(before), linesOf(after)];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail += 1;
  const [x, y] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  const rows = a.slice(0, head).map((line) => ["same", line]);
  rows.push(...middle(x, y));
  rows.push(...a.slice(a.length - tail).map((line) => ["same", line]));
  return rows;
}

function middle(x, y) {
  if ((x.length + 1) * (y.length + 1) > MAX_CELLS) return [...x.map((line) => ["gone", line]), ...y.map((line) => ["new", line])];
  const width = y.length + 1;
  // The longest common run of lines, from the end.
  const length = new Uint32Array((x.length + 1) * width);
  for (let i = x.length - 1; i >= 0; i -= 1) {
    for (let j = y.length - 1; j >= 0; j -= 1) {
      length[i * width + j] = x[i] === y[j] ? length[(i + 1) * width + j + 1] + 1 : Math.max(length[(i + 1) * width + j], length[i * width + j + 1]);
    }
  }
  const rows = [];
  let [i, j] = [0, 0];
  while (i < x.length || j < y.length) {
    if (i < x.length && j < y.length && x[i] === y[j]) {
      rows.push(["same", x[i]]);
      i += 1;
      j += 1;
    } else if (j >= y.length || (i < x.length && length[(i + 1) * width + j] >= length[i * width + j + 1])) {
      rows.push(["gone", x[i]]);
      i += 1;
    } else {
      rows.push(["new", y[j]]);
      j += 1;
    }
  }
  return rows;
}

const SIGNS = { same: " ", gone: "−", new: "+" };
const WORDS = { gone: "removed: ", new: "added: " };

function row([kind, line], at) {
  return h(kind === "gone" ? "del" : kind === "new" ? "ins" : "span", { class: `diff-line ${kind}`, key: at },
    h("span", { class: "diff-sign", "aria-hidden": "true" }, SIGNS[kind]), WORDS[kind] && h("span", { class: "unseen" }, WORDS[kind]), line === "" ? "\u00a0" : line);
}

/** The changed lines with the lines around them, and how many there are: `{ node, added, removed }`. */
export function fileDiff(before, after) {
  const rows = lineDiff(before, after);
  const isNear = rows.map(() => false);
  rows.forEach(([kind], at) => {
    if (kind !== "same") for (let near = Math.max(0, at - CONTEXT); near <= Math.min(rows.length - 1, at + CONTEXT); near += 1) isNear[near] = true;
  });
  const parts = [];
  let left = 0;
  const skip = (at) => {
    if (left > 0) parts.push(h("span", { class: "diff-skip soft", key: `skip ${at}` }, `… ${many(left, "unchanged line")}`));
    left = 0;
  };
  rows.forEach((one, at) => {
    if (!isNear[at]) {
      left += 1;
      return;
    }
    skip(at);
    parts.push(row(one, at));
  });
  skip(rows.length);
  const count = (wanted) => rows.filter(([kind]) => kind === wanted).length;
  return { node: h("div", { class: "code whole file-diff" }, parts), added: count("new"), removed: count("gone") };
}
