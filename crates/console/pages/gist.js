// What tells one call from another in a row, and which arguments are an edit of a text.

import { visible } from "./dom.js";
import { stringify } from "./json.js";

/** Names of arguments that say most about a call, the most telling first. */
const TELLING = ["path", "file_path", "file", "filename", "uri", "url", "command", "cmd", "query", "sql", "to", "recipient", "name", "title", "id"];
const MAX_GIST = 120;

/** The argument that says most about a call, on one line; nothing where it has none. */
export function gist({ card }) {
  if (card.kind === "url") return visible(card.url).slice(0, MAX_GIST);
  if (card.kind === "form") return visible(card.message ?? "").slice(0, MAX_GIST);
  if (card.kind === "plan") return visible(card.groups.map(({ summary }) => [summary.verb, summary.preposition, summary.targets.join(", ")].filter(Boolean).join(" ")).join("; ")).slice(0, MAX_GIST);
  const given = card.kind === "call" || card.kind === "result" ? Object.entries(card.arguments ?? {}) : [];
  const rank = ([name]) => { const at = TELLING.indexOf(name.toLowerCase()); return at < 0 ? TELLING.length : at; };
  const plain = given.filter(([, value]) => typeof value !== "object" || value === null);
  const [found] = (plain.length > 0 ? plain : given).sort((a, b) => rank(a) - rank(b));
  if (!found) return "";
  const [name, value] = found;
  const text = visible(typeof value === "string" ? value : stringify(value)).replace(/\s+/gu, " ");
  return `${visible(name)}: ${text.length > MAX_GIST ? `${text.slice(0, MAX_GIST)}…` : text}`;
}

/** Pairs of names under which tools take the text that goes and the text that comes. */
const PAIRS = [["old_text", "new_text"], ["oldText", "newText"], ["old_string", "new_string"], ["old_str", "new_str"], ["oldString", "newString"],
  ["old", "new"], ["before", "after"], ["search", "replace"], ["find", "replace"]];

/** The names of a pair of texts in an object, the one that goes first; nothing where it has none. */
export function editPair(value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  return PAIRS.find((pair) => pair.every((name) => Object.hasOwn(value, name) && typeof value[name] === "string"));
}

/** Whether a value is an edit of a text, or a list of nothing but such edits. */
export const isEdit = (value) => editPair(value) !== undefined || (Array.isArray(value) && value.length > 0 && value.every((one) => editPair(one) !== undefined));
