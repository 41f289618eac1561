// JSON in which every number stays what it is. JavaScript rounds what has more than 53 bits, and forgets how a number was
// written; a server that counts otherwise would get another number than the person saw.

/** A number that JavaScript would write otherwise: its text, as it came or was typed. */
export class Numeral {
  constructor(text) {
    this.text = text;
    Object.freeze(this);
  }

  toString() {
    return this.text;
  }

  /** About this many, for arithmetic. */
  valueOf() {
    return Number(this.text);
  }
}

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;

/** A number out of its text: one of JavaScript's where that says just the same, else a `Numeral`; none if it is no number. */
export function numeral(text) {
  NUMBER.lastIndex = 0;
  if (NUMBER.exec(text)?.[0].length !== text.length) return undefined;
  return String(Number(text)) === text ? Number(text) : new Numeral(text);
}

/** What no text of others begins with: they would have to guess it. */
const mark = () => `\ue000${Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join("-")}:`;

/** Where the string ends that begins at `at`: behind its second quote. */
function stringEnd(text, at) {
  for (let quote = text.indexOf('"', at + 1); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let slashes = quote;
    while (text[slashes - 1] === "\\") slashes -= 1;
    if ((quote - slashes) % 2 === 0) return quote + 1;
  }
  return text.length;
}

/** The same JSON with the numbers that would be rounded as strings behind a mark, or nothing where there are none. */
function marked(text, sign) {
  const token = /["\-0-9]/g;
  const parts = [];
  let kept = 0;
  for (let found = token.exec(text); found; found = token.exec(text)) {
    if (found[0] === '"') {
      token.lastIndex = stringEnd(text, found.index);
      continue;
    }
    NUMBER.lastIndex = found.index;
    const number = NUMBER.exec(text)?.[0];
    // What is no JSON is left to whoever reads it.
    if (number === undefined) continue;
    token.lastIndex = found.index + number.length;
    if (String(Number(number)) === number) continue;
    parts.push(text.slice(kept, found.index), `"${sign}${number}"`);
    kept = token.lastIndex;
  }
  return parts.length > 0 && parts.join("") + text.slice(kept);
}

/** As `JSON.parse`, but with a `Numeral` for each number that would be rounded or written otherwise. */
export function parse(text) {
  const sign = mark();
  const other = marked(text, sign);
  const plain = JSON.parse(text);
  if (other === false) return plain;
  return JSON.parse(other, (_, value) => (typeof value === "string" && value.startsWith(sign) ? new Numeral(value.slice(sign.length)) : value));
}

/** As `JSON.stringify`, with each `Numeral` as its text. */
export function stringify(value, indent) {
  const sign = mark();
  let isMarked = false;
  const text = JSON.stringify(value, (_, one) => {
    if (!(one instanceof Numeral)) return one;
    isMarked = true;
    return sign + one.text;
  }, indent);
  return isMarked ? text.replaceAll(new RegExp(`"${sign}([^"]*)"`, "gu"), "$1") : text;
}

/** A copy that shares nothing with the value but its numbers. */
export function clone(value) {
  if (typeof value !== "object" || value === null || value instanceof Numeral) return value;
  if (Array.isArray(value)) return value.map(clone);
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, clone(one)]));
}

/** What a value is to JSON: `number` for both kinds. */
export const kindOf = (value) => (value instanceof Numeral ? "number" : typeof value);
