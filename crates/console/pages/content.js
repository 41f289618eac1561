// The content of a call as what it is: the text of a file, a message, a command line.

import { get, path } from "./api.js";
import { HIDDEN_GLOBAL, h } from "./dom.js";
import { fileDiff, linesOf } from "./file_diff.js";
import { highlighted } from "./first_look.js";
import { bytes, many } from "./format.js";
import { view } from "./values.js";

/** Number of lines of a text that are shown in full, and of a longer one that are shown first. */
const MAX_WHOLE = 24;
const FIRST = 6;

/** Whether the content of a card needs something that is not here yet. */
export const isLoading = (matter, draft) => matter.content?.kind === "write" && matter.state === "open" && draft.file === undefined;

/** Fetches the file that a call would replace, once for a card. */
export function lookAtFile(matter, draft, change) {
  if (!isLoading(matter, draft) || draft.isAsking) return;
  draft.isAsking = true;
  get(`approvals/${path(matter.id)}/file`).then((file) => change({ file }), (error) => change({ file: { state: "unreadable", reason: error.message } }));
}

/** What hides in a text besides line ends and tabs. */
const hides = (text) => [...text.matchAll(HIDDEN_GLOBAL)].some(([one]) => one !== "\n" && one !== "\t" && one !== "\r");

/** The arguments without these. */
const without = (value, names) => Object.fromEntries(Object.entries(value).filter(([name]) => !names.includes(name)));

const rest = (schema, value, names, marks) => {
  const others = without(value, names);
  return Object.keys(others).length > 0 && h("div", { key: "others", class: "others" }, view(schema, others, marks));
};

/** The content of a call, or nothing where its arguments say it best. `marks` are the values to be marked. */
export function contentView(matter, value, schema, draft, change, marks = []) {
  const make = { write, message, command }[matter.content?.kind];
  return make ? make(matter.content, value, { schema, draft, change, marks, texts: marks.map((one) => one.value), asked: matter.card.arguments }) : null;
}

function write(content, value, { schema, draft, change, marks, texts, asked }) {
  const text = value[content.text];
  // The file that was read is the one of the call as it came.
  const file = value[content.path] === asked?.[content.path] ? draft.file : { state: "unreadable", reason: "its path was edited" };
  if (typeof text !== "string") return null;
  const size = `${many(linesOf(text).length, "line")}, ${bytes(new TextEncoder().encode(text).length)}`;
  const facts = (...said) => h("p", { class: "small content-facts", key: "facts" }, h("span", { class: "mono" }, content.text), h("span", { class: "soft" }, ": ", said));
  const others = rest(schema, value, [content.path, content.text], marks);
  // The heading names the file as well, unless its path was changed here.
  const of = [
    draft.value !== undefined && h("p", { class: "target", key: "path" }, highlighted(String(value[content.path]), texts)),
    file?.path !== undefined && file.path !== value[content.path] && h("p", { class: "small", key: "real" }, h("span", { class: "soft" }, "On disk: "), h("span", { class: "mono", "data-real-path": true }, file.path))];
  if (file?.state === "text") {
    if (file.text === text) return [of, facts("the file already says exactly this."), others];
    const { node, added, removed } = fileDiff(file.text, text);
    return [of, facts(`replaces the file of ${many(linesOf(file.text).length, "line")} by ${size}: `, h("strong", null, `+${added} −${removed}`)), node, others];
  }
  const how = { absent: `a new file of ${size}`, unreadable: `${size}. Not compared with the file on disk: ${file?.reason}` }[file?.state] ?? size;
  return [of, facts(how), body(text, draft, change, texts), others];
}

/** A text: all of it where it is short, else its first lines. What is marked or hides is never folded away. */
function body(text, draft, change, texts) {
  const lines = linesOf(text);
  const later = lines.slice(FIRST).join("\n");
  const mustShow = lines.length <= MAX_WHOLE || hides(later) || texts.some((one) => one !== "" && later.includes(one));
  const isWhole = mustShow || draft.isWhole;
  return [
    h("pre", { class: "code whole", key: "text" }, text === "" ? h("span", { class: "soft" }, "empty text") : highlighted(isWhole ? text : lines.slice(0, FIRST).join("\n"), texts)),
    !mustShow && h("button", { type: "button", class: "quiet", key: "whole", "data-whole": true, "data-folds": !isWhole, "aria-expanded": String(Boolean(isWhole)), onclick: () => change({ isWhole: !draft.isWhole }) },
      isWhole ? "Show only the first lines" : `Show all ${many(lines.length, "line")}`)];
}

function message(content, value, { schema, marks, texts }) {
  const said = (one) => (Array.isArray(one) ? one.join(", ") : String(one));
  const text = value[content.body];
  if (typeof text !== "string") return null;
  const row = (name) => Object.hasOwn(value, name) && h("div", { key: name }, h("dt", null, h("span", { class: "mono" }, name)), h("dd", { class: "value said" }, highlighted(said(value[name]), texts)));
  return [
    h("dl", { class: "facts", key: "head" }, [...content.to, content.subject].filter(Boolean).map(row)),
    h("div", { class: "message letter", key: "text" }, text === "" ? h("span", { class: "soft" }, "empty text") : h("p", { class: "words said" }, highlighted(text, texts))),
    rest(schema, value, [...content.to, content.subject, content.body], marks),
  ];
}

function command(content, value, { schema, marks, texts }) {
  const given = value[content.command];
  const more = content.arguments === undefined ? [] : value[content.arguments];
  if (!Array.isArray(more) || (typeof given !== "string" && !Array.isArray(given))) return null;
  const words = [given, more].flat();
  // One text goes to a shell, which takes it apart; words of a list are passed on as they are.
  const isText = typeof given === "string" && content.arguments === undefined;
  return [
    isText ? h("pre", { class: "code whole", key: "line" }, highlighted(given, texts))
      : h("ol", { class: "argv", key: "words", "aria-label": "Command and its arguments" }, words.map((word, at) => h("li", { key: at }, word === "" ? h("span", { class: "soft" }, "empty text") : h("code", null, highlighted(String(word), texts))))),
    rest(schema, value, [content.command, content.arguments], marks),
  ];
}
