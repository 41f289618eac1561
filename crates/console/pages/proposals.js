// Rules that recorded decisions suggest: what each would have allowed, one press to add it, and its undo.

import { post } from "./api.js";
import { announce, h, toast } from "./dom.js";
import { many } from "./format.js";
import { recordingSwitch } from "./recording.js";
import { words } from "./rule_effect.js";

/** Time for which an added rule can be undone here, in milliseconds. */
const UNDO = 10_000;

/** The rule that was added last: its lines, and the id of its undo. */
let added;

const KINDS = { is: (value) => ["is ", h("span", { class: "mono" }, String(value))], one_of: (values) => ["is ", values.map((value, at) => [at > 0 && " or ", h("span", { class: "mono" }, value)])] };

function condition([name, of]) {
  const [[kind, value]] = Object.entries(of);
  return h("div", { key: name }, h("dt", null, h("span", { class: "mono" }, name)), h("dd", null, (KINDS[kind] ?? ((one) => `${kind} ${one}`))(value)));
}

/** Time after which the host has read a changed policy file, in milliseconds. */
const RELOAD = 1500;

/** Fetches the page now and once the host has read the file. */
function settle(app) {
  app.refresh();
  setTimeout(() => app.refresh(), RELOAD);
}

async function add(one, app) {
  try {
    const { undo } = await post("rules", { rule: one.rule, place: "first" });
    added = { toml: one.toml, undo, one };
    announce("The rule is added. It can be undone for 10 seconds.");
    const mine = added;
    setTimeout(() => {
      if (added !== mine) return;
      added = undefined;
      app.refresh();
    }, UNDO);
  } catch (error) {
    toast(error.message, "bad");
  }
  settle(app);
}

async function undo(app) {
  try {
    await post("rules/undo", { id: added.undo });
    toast("The rule is removed again.");
  } catch (error) {
    toast(error.message, "bad");
  }
  added = undefined;
  settle(app);
}

function card(one, app) {
  const { rule, asked, allowed, matched, effect } = one;
  const isAdded = added?.toml === one.toml;
  const conditions = Object.entries(rule.arguments);
  return h("li", { class: "card proposal", key: one.toml, "data-row": true, "data-proposal": rule.tool },
    h("p", null, h("strong", null, rule.application), " calls ", h("span", { class: "mono" }, rule.tool), h("span", { class: "soft" }, ` of ${rule.server}`), `: asked ${many(asked, "time")}, allowed ${allowed}.`),
    h("p", { class: "soft small" }, `${matched === allowed ? "All of these" : `${matched} of these`} had the values below. The rule allows these and nothing else.`),
    conditions.length > 0 && h("dl", { class: "facts" }, conditions.map(condition)),
    h("p", { class: "soft small", key: "others" }, conditions.length > 0 ? "No other arguments." : "No arguments."),
    h("p", { class: "small", "data-effect": true }, effect.of === 0 ? "No call is recorded yet." : `On the last ${many(effect.of, "call")}, it ${words(effect)}.`),
    h("details", { key: "toml" }, h("summary", { class: "soft small" }, "In the file"), h("pre", { class: "code" }, one.toml)),
    h("div", { class: "buttons", key: "buttons" }, isAdded
      ? [h("button", { type: "button", key: "undo", "data-undo": true, "data-focus": true, onclick: () => undo(app) }, "Undo"), h("span", { class: "soft", key: "said", role: "status" }, "Added. It applies within a second.")]
      : h("button", { type: "button", key: "add", "data-add-rule": rule.tool, "data-focus": true, onclick: () => add(one, app) }, "Add this rule")));
}

/** True once the page has shown that nothing is recorded: then it shows as well that something is. */
let lacked = false;

/** The section with the proposals, or with what is needed for them; nothing where there are none. */
export function proposals({ proposals: all, recordsArguments }, setup, app) {
  // A rule that was just added is no proposal any more, but can still be undone.
  const shown = added && !all.some((one) => one.toml === added.toml) ? [added.one, ...all] : all;
  lacked ||= !recordsArguments;
  if (shown.length === 0) {
    return lacked && h("section", { key: "proposals" }, h("h2", null, "Proposed rules"), recordingSwitch(setup, app));
  }
  return h("section", { key: "proposals", "data-proposals": true }, h("h2", null, "Proposed rules"),
    h("p", { class: "soft small" }, "From your decisions of the last 7 days. What cannot be undone, or carries private data after text of others, is still asked about."),
    h("ul", { class: "cards" }, shown.map((one) => card(one, app))));
}
