// A form for the arguments of a tool, from its schema: objects and lists of any depth, choices, and the difference between a
// value, `null` and nothing. What a schema says that a form cannot express is written as JSON.

import { h, HIDDEN_GLOBAL, visible } from "./dom.js";
import { clone } from "./json.js";
import { field } from "./values.js";
import { typeOf } from "./schema.js";

/** Maximum depth of a form; what is deeper is written as JSON. */
const MAX_DEPTH = 6;
/** Maximum number of items of a list that have fields of their own. */
const MAX_ITEMS = 50;

/** A schema with its references followed, as far as they lead into the same document. */
function resolve(schema, root, left = 8) {
  if (typeof schema !== "object" || schema === null) return {};
  if (typeof schema.$ref !== "string" || left === 0) return schema;
  if (!schema.$ref.startsWith("#/")) return schema;
  const parts = schema.$ref.slice(2).split("/").map((part) => decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~"));
  const found = parts.reduce((at, part) => (typeof at === "object" && at !== null && Object.hasOwn(at, part) ? at[part] : undefined), root);
  const { $ref: _ref, ...beside } = schema;
  return found === undefined ? schema : { ...resolve(found, root, left - 1), ...beside };
}

/** A schema without `null`, and whether that is allowed too. */
export function withoutNull(schema, root) {
  const of = resolve(schema, root);
  if (Array.isArray(of.type)) {
    const types = of.type.filter((type) => type !== "null");
    return [{ ...of, type: types.length === 1 ? types[0] : types }, types.length < of.type.length];
  }
  for (const key of ["anyOf", "oneOf"]) {
    if (!Array.isArray(of[key])) continue;
    const all = of[key].map((one) => resolve(one, root));
    const others = all.filter((one) => one.type !== "null" && one.const !== null);
    if (others.length === all.length) continue;
    const { [key]: _all, ...beside } = of;
    return [others.length === 1 ? { ...beside, ...others[0] } : { ...beside, [key]: others }, true];
  }
  if (Array.isArray(of.enum) && of.enum.includes(null)) return [{ ...of, enum: of.enum.filter((one) => one !== null) }, true];
  return [of, of.type === "null"];
}

/** What a member begins with once it is not left out. */
export function initial(schema, root, depth = 0) {
  const [of, isNullable] = withoutNull(schema, root);
  if (of.default !== undefined) return clone(of.default);
  if (of.const !== undefined) return clone(of.const);
  if (of.enum?.length > 0) return clone(of.enum[0]);
  const choices = of.oneOf?.filter((one) => one.const !== undefined);
  if (choices?.length > 0) return clone(choices[0].const);
  if (of.type === "object" || of.properties) return depth > MAX_DEPTH ? {} : required(of, root, depth);
  if (of.type === "array") return [];
  if (of.type === "boolean") return false;
  if (of.type === "integer" || of.type === "number") return of.minimum ?? 0;
  if (of.type === "string") return "";
  return isNullable || of.type === "null" ? null : "";
}

/** An object with the members that it must have. */
export function required(schema, root = schema, depth = 0) {
  const of = resolve(schema, root);
  return Object.fromEntries((of.required ?? []).filter((name) => Object.hasOwn(of.properties ?? {}, name)).map((name) => [name, initial(of.properties[name], root, depth + 1)]));
}

/** Names under which secrets are given to tools. */
const SECRET = /pass(word|phrase|wd)?$|secret|token|api_?-?key|credential|authorization|private_?key/i;

/** Whether a member holds a secret, by what its schema says and by its name. */
const isSecret = (name, of) => of?.format === "password" || of?.writeOnly === true || SECRET.test(name);

/** A value without the secrets in it, and whether there were any. */
export function withoutSecrets(value, schema, root = schema) {
  if (typeof value !== "object" || value === null) return [value, false];
  const of = resolve(schema ?? {}, root);
  if (Array.isArray(value)) {
    const all = value.map((one) => withoutSecrets(one, of.items, root));
    return [all.map(([one]) => one), all.some(([, had]) => had)];
  }
  if (value.constructor !== Object) return [value, false];
  let had = false;
  const kept = [];
  for (const [name, one] of Object.entries(value)) {
    const inner = withoutNull(of.properties?.[name] ?? {}, root)[0];
    if (isSecret(name, inner)) { had = true; continue; }
    const [left, hadInner] = withoutSecrets(one, inner, root);
    had ||= hadInner;
    kept.push([name, left]);
  }
  return [Object.fromEntries(kept), had];
}

/** Hidden characters in a text of a field, with a way to remove them. */
function hiddenIn(text, put) {
  const found = [...new Set(text.match(HIDDEN_GLOBAL) ?? [])].filter((one) => one !== "\n" && one !== "\t" && one !== "\r");
  return found.length > 0 && h("p", { class: "hidden-strip small", key: "hidden" }, "Contains ", found.slice(0, 5).map((one) => [h("span", { class: "ghost" }, `U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`), " "]),
    h("button", { type: "button", class: "quiet", onclick: () => put(text.replace(HIDDEN_GLOBAL, (one) => (one === "\n" || one === "\t" ? one : ""))) }, "Remove"));
}

function put(of, name, next) {
  const whole = Array.isArray(of) ? [...of] : { ...of };
  if (next === undefined) delete whole[name];
  else whole[name] = next;
  return whole;
}

/** Whether a member is given, `null`, or left out: only where more than one of these is possible. */
function presence(id, name, value, { isOwed, isNullable, begin }, change) {
  const states = ["value", isNullable && "null", !isOwed && "absent"].filter(Boolean);
  if (states.length < 2) return null;
  const now = value === undefined ? "absent" : value === null ? "null" : "value";
  const words = { value: "set", null: "null", absent: "leave out" };
  return h("select", { class: "presence", key: "presence", id: `${id}-presence`, "aria-label": `${visible(name)}: set, null or left out`, value: now,
    onchange: (event) => change({ value: begin, null: () => null, absent: () => undefined }[event.target.value]()) },
  states.map((state) => h("option", { value: state, selected: state === now }, words[state])));
}

function objectFields(id, of, root, value, change, depth) {
  const known = Object.keys(of.properties ?? {});
  const names = [...known, ...Object.keys(value).filter((name) => !known.includes(name))];
  const owed = new Set(of.required ?? []);
  if (names.length === 0) return h("p", { class: "soft" }, "No arguments.");
  return h("div", { class: "fields" }, names.map((name) => member(`${id}-${name}`, name, of.properties?.[name] ?? {}, root, value[name], owed.has(name), (next) => change(put(value, name, next)), depth)));
}

function member(id, name, schema, root, value, isOwed, change, depth) {
  const [of, isNullable] = withoutNull(schema, root);
  const isSet = value !== undefined && value !== null;
  const isGroup = isSet && (isObject(of, value) || isList(of, value)) && depth < MAX_DEPTH;
  const state = presence(id, name, value, { isOwed, isNullable: isNullable || value === null, begin: () => initial(of, root, depth) }, change);
  const type = h("span", { class: "soft small" }, ` ${typeOf(of)}${isNullable ? " or null" : ""}${isOwed ? ", required" : ""}`);
  const words = of.description && h("p", { class: "soft small", id: `${id}-about`, key: "about" }, of.description);
  const note = !isSet && h("p", { class: "soft small left-out", key: "left-out" }, value === null ? "is null" : of.default !== undefined ? ["left out; the server takes ", h("span", { class: "mono" }, JSON.stringify(of.default))] : "left out");
  const inner = isSet && input(id, name, of, root, value, isOwed, change, depth);
  // A group is named by its legend, a field by its label.
  return isGroup
    ? h("fieldset", { class: "field group", key: name }, h("legend", null, h("span", { class: "mono" }, name), type), state, words, inner)
    : h("div", { class: "field", key: name }, h("div", { class: "field-head" }, isSet ? h("label", { for: id }, h("span", { class: "mono" }, name), type) : h("span", null, h("span", { class: "mono" }, name), type), state), words, note, inner,
      typeof value === "string" && hiddenIn(value, change));
}

const isObject = (of, value) => typeof value === "object" && !Array.isArray(value) && value.constructor === Object && of.properties !== undefined && !of.oneOf && !of.anyOf;
const isList = (of, value) => Array.isArray(value) && value.length <= MAX_ITEMS && (of.type === "array" || of.items !== undefined) && !Array.isArray(of.items) && of.prefixItems === undefined;

function input(id, name, of, root, value, isOwed, change, depth) {
  if (depth < MAX_DEPTH && isObject(of, value)) return objectFields(id, of, root, value, change, depth + 1);
  if (depth < MAX_DEPTH && isList(of, value)) return listFields(id, name, of, root, value, change, depth);
  const isPassword = typeof value === "string" && isSecret(name, of);
  if (isPassword) return secretField(id, value, change);
  // A schema that leaves the type open, and values that do not fit it, are written as JSON.
  const types = { string: "string", number: "number", boolean: "boolean" };
  const fits = of.enum || of.oneOf?.some((one) => one.const !== undefined) || (of.type === "integer" ? "number" : of.type) === (types[typeof value] ?? (typeof value === "object" ? "number" : undefined));
  const as = fits ? of : typeof value === "string" && of.type === undefined && !of.anyOf && !of.oneOf ? { ...of, type: "string" } : { description: of.description, type: "json" };
  // A text may have several lines, unless its schema says what it is.
  if (as.type === "string" && as.format === undefined && !as.enum && !as.oneOf && !(as.maxLength < 80)) return field(id, { ...as, isLong: true }, value, true, (next) => change(next ?? ""));
  // Emptied, a text is an empty text: what is left out is said beside the name.
  return field(id, as, value, true, (next) => change(next === undefined ? (as.type === "string" ? "" : value) : next));
}

function secretField(id, value, change) {
  const box = h("input", { id, type: "password", value, autocomplete: "off", spellcheck: "false", oninput: (event) => change(event.target.value) });
  return h("div", { class: "secret", key: "secret" }, box, h("button", { type: "button", class: "quiet", "aria-label": "Show or hide the secret", onclick: (event) => {
    const shown = event.currentTarget.previousElementSibling;
    shown.type = shown.type === "password" ? "text" : "password";
  } }, "Show"));
}

function listFields(id, name, of, root, value, change, depth) {
  const items = of.items ?? {};
  return h("div", { class: "list-items" },
    value.map((one, at) => h("div", { class: "list-item", key: at },
      member(`${id}-${at}`, `${at + 1}`, items, root, one, true, (next) => change(put(value, at, next)), depth + 1),
      h("button", { type: "button", class: "quiet", "aria-label": `Remove item ${at + 1} of ${visible(name)}`, onclick: () => change(value.filter((_, other) => other !== at)) }, "Remove"))),
    h("button", { type: "button", class: "quiet add-item", "data-add-item": name, "aria-label": `Add an item to ${visible(name)}`, disabled: value.length >= MAX_ITEMS, onclick: () => change([...value, initial(items, root, depth + 1)]) }, "Add item"));
}

/** The form of a tool. `change(value)` is given all arguments, anew, whenever one of them changes. */
export function form(schema, value, change) {
  return objectFields("argument", resolve(schema ?? {}, schema), schema, value, change, 0);
}
