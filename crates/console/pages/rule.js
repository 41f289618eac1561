// The editor of a lasting permission: as narrow as it can be, until a day.

import { dialog, escapeHidden, h, patch, unescapeHidden } from "./dom.js";
import { parse } from "./json.js";

const KINDS = [["is", "is"], ["under", "is in the folder"], ["like", "matches"], ["any", "can be anything"]];
const DAYS = [[1, "1 day"], [7, "7 days"], [30, "30 days"], [90, "90 days"], [365, "a year"]];

/** Resolves with a permission, or nothing. `send(permission)` is asked to give it, and throws what is wrong with it. */
export function editRule(matter, value, send) {
  const { card, server, application } = matter;
  const suggested = card.suggestion?.arguments ?? {};
  const rows = Object.keys(value ?? {}).map((name) => {
    const condition = suggested[name];
    const kind = condition === undefined ? "any" : Object.keys(condition)[0];
    return { name, kind, text: condition === undefined ? "" : String(condition[kind]) };
  });
  const rule = { days: 30, anyApplication: false, anyOthers: false, destinations: "", problem: undefined };

  const permission = () => {
    const conditions = rows.filter((row) => row.kind !== "any").map(({ name, kind, text }) => {
      const given = value[name];
      const as = kind === "is" && typeof given !== "string" ? parse(text) : text;
      return [name, { [kind]: as }];
    });
    const destinations = rule.destinations.split("\n").map((line) => line.trim()).filter(Boolean);
    return {
      ...(conditions.length > 0 && { arguments: Object.fromEntries(conditions) }),
      ...(!rule.anyOthers && { other_arguments: rows.filter((row) => row.kind === "any").map((row) => row.name) }),
      ...(destinations.length > 0 && { destinations }),
      until: new Date(Date.now() + rule.days * 86_400_000).toISOString(),
      ...(rule.anyApplication && { any_application: true }),
    };
  };

  return dialog("Allow always", (close) => {
    const box = h("form", { class: "rule", method: "dialog", "data-own": true });
    const draw = () => patch(box,
      h("h2", null, "Allow always"),
      h("p", null, "From now on ", h("span", { class: "mono" }, card.name), " of ", h("strong", null, server), " is called without approval, as long as its definition does not change and all of these conditions hold:"),
      rows.length > 0 && h("div", { class: "conditions" }, rows.map((row, index) => h("div", { class: "condition", key: row.name },
        h("span", { class: "mono" }, row.name),
        h("select", { "aria-label": `Condition for ${row.name}`, value: row.kind, onchange: (event) => { row.kind = event.target.value; draw(); } },
          KINDS.map(([kind, words]) => h("option", { value: kind, selected: kind === row.kind }, words))),
        row.kind !== "any" && h("input", { "aria-label": `The value for ${row.name}`, value: escapeHidden(row.text).replaceAll("\n", "\\u{a}"), spellcheck: "false", autocomplete: "off", "data-condition": row.name, key: index, oninput: (event) => { row.text = unescapeHidden(event.target.value); } })))),
      h("label", { class: "check", key: "others" }, h("input", { type: "checkbox", checked: !rule.anyOthers, "data-no-others": true, onchange: (event) => { rule.anyOthers = !event.target.checked; draw(); } }),
        rows.length > 0 ? "no other arguments" : "no arguments"),
      rule.anyOthers && h("p", { class: "warn", key: "unseen" }, "Calls with arguments that are not shown here are allowed, too."),
      h("details", { key: "more", open: Boolean(rule.destinations) }, h("summary", { class: "soft" }, "Only if all its destinations are in these places"),
        h("textarea", { class: "wide-field mono", rows: 2, "aria-label": "Hosts and folders, one per line", placeholder: "~/work\n*.example.com", value: escapeHidden(rule.destinations), oninput: (event) => { rule.destinations = unescapeHidden(event.target.value); } })),
      h("div", { class: "condition", key: "until" }, h("label", { for: "rule-days" }, "For"),
        h("select", { id: "rule-days", value: String(rule.days), onchange: (event) => { rule.days = Number(event.target.value); } }, DAYS.map(([days, words]) => h("option", { value: String(days), selected: days === rule.days }, words)))),
      h("label", { class: "check", key: "who" }, h("input", { type: "checkbox", checked: rule.anyApplication, onchange: (event) => { rule.anyApplication = event.target.checked; draw(); } }),
        rule.anyApplication ? "for any application" : `for any application, not only for ${application ?? "the requesting one"}`),
      rows.every((row) => row.kind === "any") && (rows.length > 0 || rule.anyOthers) && !rule.destinations && h("p", { class: "warn", key: "wide" }, "This applies to any values of arguments. A narrower rule is safer."),
      rule.problem && h("p", { class: "problem", role: "alert", key: "problem" }, rule.problem),
      h("div", { class: "buttons", key: "buttons" },
        h("button", { type: "button", autofocus: true, onclick: () => close() }, "Cancel"),
        h("button", { type: "button", class: "yes", "data-give": true, onkeydown: (event) => event.key === "Enter" && event.preventDefault(),
          onclick: async () => {
            try {
              const given = permission();
              await send(given);
              close(given);
            } catch (error) {
              rule.problem = error instanceof SyntaxError ? "A value is not a number, true or false." : error.message;
              draw();
            }
          } }, "Allow always")));
    box.onsubmit = (event) => event.preventDefault();
    draw();
    return box;
  });
}
