// The form with what a server asks for. Secrets are typed into password fields and sent once; the host never sends them back.

import { escapeHidden, h, unescapeHidden, visible } from "./dom.js";
import { many } from "./format.js";

/** The form. `mine.values` are the texts of the fields, by the ids of the questions. */
export function questions(mine, heading, send, cancel) {
  const { questions: all, problems } = mine.questions;
  const owed = all.filter((one) => one.isRequired || one.id in problems);
  const more = all.filter((one) => !owed.includes(one));
  const row = (one) => question(one, mine, problems[one.id]);
  return h("form", { class: "card", key: "questions", novalidate: true, onsubmit: (event) => {
    event.preventDefault();
    if (mine.isSending) return;
    send(Object.fromEntries(all.map((one) => [one.id, answer(one, mine.values[one.id])]).filter(([, values]) => values.length > 0)));
  } },
  heading("What it asks for"),
  Object.keys(problems).length > 0 && h("p", { class: "problem", key: "problems", role: "alert" }, `${many(Object.keys(problems).length, "answer")} cannot be used.`),
  owed.length > 0 && h("div", { class: "fields", key: "owed" }, owed.map(row)),
  more.length > 0 && (owed.length === 0 ? h("div", { class: "fields", key: "more" }, more.map(row))
    : h("details", { key: "more" }, h("summary", null, `${many(more.length, "more setting")}, not required`), h("div", { class: "fields" }, more.map(row)))),
  h("div", { class: "buttons even", key: "buttons" }, cancel, h("button", { type: "submit", "data-continue": true, disabled: mine.isSending === true }, "Continue")));
}

/** The values of a field: of one that can be repeated, each line is one. */
function answer(one, text) {
  if (text === undefined || text === "") return [];
  // A secret is sent exactly as it was typed.
  if (one.kind === "secret") return [text];
  return one.isRepeated ? unescapeHidden(text).split("\n").map((line) => line.trim()).filter(Boolean) : [unescapeHidden(text).trim()].filter(Boolean);
}

function question(one, mine, problem) {
  const id = `ask-${one.id}`;
  const describedBy = [one.description && `${id}-about`, problem && `${id}-problem`].filter(Boolean).join(" ");
  const place = one.target && !one.target.endsWith(` ${one.id}`) ? one.target : one.target?.replace(` ${one.id}`, "");
  const notes = [one.isRequired ? "required" : one.default !== null ? null : "optional", place, one.kind === "secret" && "stored encrypted, never shown", one.isRepeated && "one in each line"].filter(Boolean).join(", ");
  return h("div", { class: "field", key: one.id, "data-question": one.id },
    h("label", { for: id }, h("span", { class: "mono" }, one.id), h("span", { class: "soft small" }, ` ${notes}`)),
    one.description && h("p", { class: "small", id: `${id}-about`, key: "about" }, one.description),
    input(one, id, mine, { "aria-describedby": describedBy || null, "aria-invalid": problem ? "true" : null, "aria-required": one.isRequired ? "true" : null, class: problem ? "wrong" : null }),
    problem && h("p", { class: "field-problem small", id: `${id}-problem`, key: "problem" }, problem));
}

function input(one, id, mine, more) {
  const value = mine.values[one.id] ?? "";
  const put = (text) => { mine.values[one.id] = text; };
  const example = one.placeholder ?? (one.default !== null ? one.default : null);
  const hint = one.placeholder ? `such as ${visible(one.placeholder)}` : example !== null ? `default ${visible(example)}` : null;
  const choices = one.choices.length > 0 ? one.choices : one.kind === "boolean" ? ["true", "false"] : [];
  if (one.kind === "secret" && choices.length === 0) {
    return h("div", { class: "secret", key: "secret" },
      h("input", { ...more, id, type: "password", value, autocomplete: "off", spellcheck: "false", oninput: (event) => put(event.target.value) }),
      h("button", { type: "button", class: "quiet", "aria-label": `Show or hide ${visible(one.id)}`, onclick: (event) => {
        const shown = event.currentTarget.previousElementSibling;
        shown.type = shown.type === "password" ? "text" : "password";
      } }, "Show"));
  }
  if (choices.length > 0) {
    const empty = one.default !== null ? `default: ${visible(one.default)}` : one.isRequired ? "choose" : "none";
    return h("select", { ...more, id, onchange: (event) => put(event.target.value) }, h("option", { value: "", selected: value === "" }, empty),
      choices.map((choice) => h("option", { value: choice, key: choice, selected: choice === value }, visible(choice))));
  }
  const field = { ...more, id, value: escapeHidden(value), placeholder: hint, autocomplete: "off", spellcheck: "false", oninput: (event) => put(event.target.value) };
  return one.isRepeated ? h("textarea", { ...field, rows: 3 }) : h("input", { ...field, type: "text", inputmode: one.kind === "number" ? "decimal" : null });
}
