// JSON Schema for people: what a tool's arguments are.

import { h } from "./dom.js";
import { stringify } from "./json.js";

/** The type that a schema asks for, in a word or two. */
export function typeOf(schema) {
  if (typeof schema !== "object" || schema === null) return "anything";
  if (schema.enum) return "one of several values";
  if (schema.const !== undefined) return stringify(schema.const);
  if (Array.isArray(schema.type)) return schema.type.join(" or ");
  if (schema.type === "array") return schema.items?.type ? `list of ${schema.items.type}` : "list";
  if (schema.type) return schema.format ? `${schema.type}, ${schema.format}` : schema.type;
  const several = schema.anyOf ?? schema.oneOf;
  if (several) return several.map(typeOf).join(" or ");
  return schema.$ref ? String(schema.$ref).split("/").pop() : "anything";
}

/** The members of an object's schema. */
export function fields(schema) {
  const properties = Object.entries(schema?.properties ?? {});
  if (properties.length === 0) return h("p", { class: "soft" }, "No arguments.");
  const owed = new Set(schema.required ?? []);
  return h("dl", { class: "facts" }, properties.map(([name, of]) => h("div", { key: name },
    h("dt", null, h("span", { class: "mono" }, name), h("span", { class: "soft" }, owed.has(name) ? " required" : "")),
    h("dd", null, h("span", { class: "type" }, typeOf(of)), " ", of?.description ?? "",
      of?.enum && h("span", { class: "soft" }, ` ${of.enum.map((one) => stringify(one)).join(", ")}`),
      of?.default !== undefined && h("span", { class: "soft" }, ` Default: ${stringify(of.default)}.`)))));
}
