// The permission that like answers suggest, on the card of a call.

import { get, path } from "./api.js";
import { title } from "./card.js";
import { h } from "./dom.js";
import { many } from "./format.js";
import { stringify } from "./json.js";

/** The values that a condition of a suggested permission allows. */
const allowedValues = (condition) => (Array.isArray(condition) ? condition : [condition.is]);

/** After like answers: a permission that is no wider than what was approved, and what it would have decided. */
export function suggestion(matter, draft, holds, { render, give }) {
  const { repeated } = matter.card;
  if (!repeated || !matter.offers.always || draft.value !== undefined) return null;
  if (draft.counted === undefined) {
    draft.counted = null;
    get(`approvals/${path(matter.id)}/repeated`).then((counted) => { draft.counted = counted; render(); }, () => {});
  }
  const { counted } = draft;
  const { arguments: limits, other_arguments } = repeated;
  const conditions = Object.entries(limits);
  const until = new Date(Date.now() + 30 * 86_400_000).toISOString();
  return h("section", { class: "suggestion", key: "suggestion", "data-suggestion": true },
    h("p", null, h("strong", null, `You allowed ${repeated.answers} calls like this one. `), "A permission for these values only, for 30 days, would ask less:"),
    h("dl", { class: "facts" }, conditions.map(([name, condition]) => h("div", { key: name }, h("dt", null, h("span", { class: "mono" }, name)),
      h("dd", null, allowedValues(condition).map((value, at) => [at > 0 && " or ", h("span", { class: "mono" }, typeof value === "string" ? value : stringify(value))]))))),
    h("p", { class: "soft small", key: "others" }, conditions.length > 0 ? "No other arguments." : "No arguments."),
    counted && h("p", { class: "soft small", key: "counted" }, `In the last 7 days it would have decided ${counted.isExact ? "" : "up to "}${counted.calls} of ${many(counted.of, "call")} of this tool.`, " What cannot be undone or carries private data after text of others is asked about nevertheless."),
    h("div", { class: "buttons" }, h("button", { type: "button", "data-repeat": true, "aria-disabled": String(holds), onkeydown: (event) => event.key === "Enter" && event.preventDefault(),
      onclick: () => give({ decision: "allow", scope: { always: { arguments: limits, other_arguments, until } } }, `${title(matter)[0]} is allowed with these values for 30 days.`) }, "Allow these values for 30 days")));
}
