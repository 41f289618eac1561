// The permission that like answers suggest, on the card of a call.

import { get, path } from "./api.js";
import { title } from "./card.js";
import { h } from "./dom.js";
import { many } from "./format.js";
import { stringify } from "./json.js";

/** The values that a condition of a suggested permission allows. */
const allowedValues = (condition) => (Array.isArray(condition) ? condition : [condition.is]);

/** Whether a condition of a suggested permission requires that there is no such argument. */
const isAbsence = (condition) => condition.present === false;

/** After like answers: a permission that is no wider than what was approved, and what it would have decided. */
export function suggestion(matter, draft, holds, { render, give }) {
  const { repeated } = matter.card;
  if (!repeated || !matter.offers.always || draft.value !== undefined) return null;
  if (draft.counted === undefined) {
    draft.counted = null;
    get(`approvals/${path(matter.id)}/repeated`).then((counted) => { draft.counted = counted; render(); }, () => {});
  }
  const { counted } = draft;
  const conditions = Object.entries(repeated.arguments);
  const absent = conditions.filter(([, condition]) => isAbsence(condition)).map(([name]) => name);
  const until = new Date(Date.now() + 30 * 86_400_000).toISOString();
  return h("section", { class: "suggestion", key: "suggestion", "data-suggestion": true },
    h("p", null, h("strong", null, `You allowed ${repeated.answers} calls like this one. `), "A permission for these values only, for 30 days, would ask less:"),
    h("dl", { class: "facts" }, conditions.filter(([, condition]) => !isAbsence(condition)).map(([name, condition]) => h("div", { key: name }, h("dt", null, h("span", { class: "mono" }, name)),
      h("dd", null, allowedValues(condition).map((value, at) => [at > 0 && " or ", h("span", { class: "mono" }, typeof value === "string" ? value : stringify(value))]))))),
    absent.length > 0 && h("p", { class: "soft small", key: "absent" }, "Only without ", absent.map((name, at) => [at > 0 && ", ", h("span", { class: "mono" }, name)]), "."),
    counted && h("p", { class: "soft small", key: "counted" }, `In the last 7 days it would have decided ${counted.isExact ? "" : "up to "}${counted.calls} of ${many(counted.of, "call")} of this tool.`, " What cannot be undone or carries private data after text of others is asked about nevertheless."),
    h("div", { class: "buttons" }, h("button", { type: "button", "data-repeat": true, "aria-disabled": String(holds), onkeydown: (event) => event.key === "Enter" && event.preventDefault(),
      onclick: () => give({ decision: "allow", scope: { always: { arguments: repeated.arguments, until } } }, `${title(matter)[0]} is allowed with these values for 30 days.`) }, "Allow these values for 30 days")));
}
