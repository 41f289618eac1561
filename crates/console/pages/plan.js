// Several calls that are approved as one: first what is done to whom, in order, then each call with its sources and arguments.

import { coded, h } from "./dom.js";
import { callHeading, dataFlow, findings, source } from "./first_look.js";
import { stringify } from "./json.js";
import { shownJson } from "./values.js";

/** How many values of a call are shown with their source. */
const MAX_SOURCES = 2;

const UNDO = { none: "changes nothing", reversible: "can be undone", irreversible: "cannot be undone" };

/** The numbers of the calls of a group. */
const numbers = ({ first, count }) => (count === 1 ? `${first}` : `${first}–${first + count - 1}`);

function group(one) {
  return h("li", { key: one.first, class: one.summary.irreversible ? "plan-final" : "" },
    h("span", { class: "soft" }, `${numbers(one)}. `, one.count > 1 && `${one.count} × `), h("strong", null, one.server), ": ", callHeading({ card: one }), " ",
    h("span", { class: one.summary.irreversible ? "chip sharp" : "chip" }, one.undo), one.is_unusual && [" ", h("span", { class: "chip sharp" }, "unusual")]);
}

function call(one, index) {
  const values = one.guard?.values ?? [];
  return h("section", { class: "plan-call", key: `call-${index}`, "data-planned": String(index + 1) },
    h("h3", null, `${index + 1}. `, h("span", { class: "mono" }, one.name), h("span", { class: "soft" }, ` · ${one.server}`)),
    h("p", { class: "soft small" }, UNDO[one.effect] ?? one.effect, ". ", one.because ? ["Asked because: ", coded(one.because), "."] : "Would not be asked about by itself."),
    one.summary.unusual && h("p", { class: "unusual" }, one.summary.unusual),
    one.guard && one.data_flow && h("p", { class: "unusual" }, ["Take care: ", dataFlow(one.data_flow)]),
    values.filter((value) => value.source).slice(0, MAX_SOURCES).map((value) => source(value)),
    h("pre", { class: "code whole" }, shownJson(one.arguments, values.map((value) => value.value))),
    findings(one));
}

/** The body of the card of a plan. */
export function plan(card, matter, draft) {
  return [
    h("section", { class: "values plan", key: "values", "data-see": draft.region },
      h("ol", { class: "plan-groups", "aria-label": "Calls in order" }, card.groups.map(group)),
      h("p", { class: "soft small" }, `Asked by ${matter.application ?? "an unnamed application"}`, matter.application && " (name not verified)", ". The plan ends if anything differs."),
      draft.tab === "raw" ? h("pre", { class: "code whole" }, stringify(card.calls, 2)) : card.calls.map(call)),
  ];
}
