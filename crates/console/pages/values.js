// Values by their schema: shown as text in which nothing hides, or as fields to be changed.

import { escapeHidden, escapeHiddenJson, h, unescapeHidden, visible } from "./dom.js";
import { clone, kindOf, numeral, parse, stringify } from "./json.js";
import { isEqual, textDiff } from "./diff.js";
import { highlighted, marksOf } from "./first_look.js";
import { editPair, isEdit } from "./edits.js";
import { typeOf } from "./schema.js";

/** An edit of a text: what goes and what comes, and the other members beside it. */
function editOf(value) {
  const pair = editPair(value);
  const others = Object.fromEntries(Object.entries(value).filter(([name]) => !pair.includes(name)));
  return h("div", { class: "edit" },
    h("p", { class: "code whole" }, textDiff(value[pair[0]], value[pair[1]])),
    Object.keys(others).length > 0 && h("p", { class: "small mono" }, stringify(others)));
}

/** A value as JSON, with these texts in its strings marked. */
export const shownJson = (value, marks) => highlighted(stringify(value, 2), marks.map((text) => JSON.stringify(text).slice(1, -1)));

/** How a value is shown: a text as it is, an edit of a text as a difference, anything else as JSON. These texts in it are marked. */
export function shown(value, marks = []) {
  if (isEdit(value)) return Array.isArray(value) ? h("div", { class: "edits" }, value.map(editOf)) : editOf(value);
  if (typeof value === "string") return value === "" ? h("span", { class: "soft" }, "empty text") : h("span", { class: "said" }, highlighted(value, marks));
  if (value !== null && kindOf(value) === "object") return h("pre", { class: "code whole" }, shownJson(value, marks));
  return h("span", { class: "mono" }, highlighted(stringify(value), marks));
}

const propertiesOf = (schema, value) => {
  const known = Object.keys(schema?.properties ?? {});
  return [...known.filter((name) => Object.hasOwn(value, name)), ...Object.keys(value).filter((name) => !known.includes(name))];
};

/** An object, a row for each member. `marks` are values to be marked, by their JSON pointers. */
export function view(schema, value, marks) {
  const names = propertiesOf(schema, value);
  if (names.length === 0) return h("p", { class: "soft" }, "Nothing.");
  const pair = editPair(value);
  const single = names.filter((name) => !pair?.includes(name));
  return h("dl", { class: "facts" }, single.map((name) => h("div", { key: name },
    h("dt", null, h("span", { class: "mono" }, name), schema?.properties?.[name] && h("span", { class: "soft small" }, ` ${typeOf(schema.properties[name])}`)),
    h("dd", { class: "value" }, shown(value[name], marksOf(marks, name))))),
  pair && h("div", { key: "the edit" }, h("dt", null, h("span", { class: "mono" }, pair.join(" → "))), h("dd", { class: "value" }, editOf({ [pair[0]]: value[pair[0]], [pair[1]]: value[pair[1]] }))));
}

/**
 * The same as fields. `change(value)` is given the whole object, anew, whenever one of them changes; `wrong` says what is the
 * matter with a member that is no JSON.
 */
export function edit(schema, value, change, idOf = "field") {
  const known = Object.keys(schema?.properties ?? {});
  const names = [...known, ...Object.keys(value).filter((name) => !known.includes(name))];
  const owed = new Set(schema?.required ?? []);
  const put = (name, next) => {
    const whole = clone(value);
    if (next === undefined) delete whole[name];
    else whole[name] = next;
    value = whole;
    change(whole);
  };
  return h("div", { class: "fields" }, names.map((name) => {
    const of = schema?.properties?.[name] ?? {};
    const id = `${idOf}-${name}`;
    return h("div", { class: "field", key: name },
      h("label", { for: id }, h("span", { class: "mono" }, name), h("span", { class: "soft small" }, ` ${typeOf(of)}${owed.has(name) ? ", required" : ""}`)),
      field(id, of, value[name], owed.has(name), (next) => put(name, next)),
      of.description && h("p", { class: "soft small" }, of.description));
  }));
}

/** A text as a field can hold it: one of a single line has no line ends, so they are escaped there. */
const forField = (text, isLong) => {
  const escaped = escapeHidden(String(text));
  // A textarea makes "\r\n" into "\n", which `escapeHidden` has written out; a field of one line drops all of them.
  return isLong ? escaped : escaped.replaceAll("\n", "\\u{a}");
};

/** The field of one value. `put` is given what it says now. */
export function field(id, of, value, owed, put) {
  const choices = of.enum ?? of.oneOf?.filter((one) => one.const !== undefined).map((one) => one.const);
  if (choices?.length) {
    const at = choices.findIndex((one) => isEqual(one, value));
    return h("select", { id, value: String(at), onchange: (event) => put(event.target.value === "-1" ? undefined : choices[Number(event.target.value)]) },
      (at < 0 || !owed) && h("option", { value: "-1", selected: at < 0 }, "–"),
      choices.map((one, index) => h("option", { value: String(index), selected: index === at }, visible(of.enumNames?.[index] ?? of.oneOf?.[index]?.title ?? one))));
  }
  const type = Array.isArray(of.type) ? of.type.find((one) => one !== "null") : of.type ?? (value === undefined ? undefined : kindOf(value));
  if (type === "boolean") {
    return h("input", { id, type: "checkbox", checked: value === true, onchange: (event) => put(event.target.checked) });
  }
  if (type === "integer" || type === "number") {
    return h("input", { id, type: "text", inputmode: "decimal", value: value === undefined ? "" : String(value),
      oninput: (event) => {
        const text = event.target.value.trim();
        // What is no number goes as it is, and the host says what is wrong with it.
        put(text === "" ? undefined : numeral(text) ?? (Number.isNaN(Number(text)) ? text : Number(text)));
      } });
  }
  if (type === "string") {
    const long = of.isLong === true || (value?.length ?? 0) > 60 || value?.includes?.("\n");
    return h(long ? "textarea" : "input", { id, value: forField(value ?? "", long), rows: long ? (of.isLong ? 1 : 5) : null, class: of.isLong ? "growing" : null, spellcheck: "false", autocomplete: "off",
      oninput: (event) => put(event.target.value === "" && !owed ? undefined : unescapeHidden(event.target.value)) });
  }
  return h("textarea", { id, class: "mono", rows: 4, spellcheck: "false", value: value === undefined ? "" : escapeHiddenJson(stringify(value, 2)),
    oninput: (event) => {
      const text = event.target.value.trim();
      try {
        put(text === "" ? undefined : parse(text));
        event.target.setCustomValidity("");
      } catch {
        event.target.setCustomValidity("This is not valid JSON.");
      }
      event.target.classList.toggle("wrong", !event.target.checkValidity());
    } });
}
