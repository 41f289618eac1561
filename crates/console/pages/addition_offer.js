// What a server offers that was started for a trial: its tools, prompts and resources with their descriptions, and one yes.

import { h } from "./dom.js";
import { stringify } from "./json.js";
import { many } from "./format.js";
import { facts, unusual } from "./addition_screen.js";
import { isSeen, lookSoon, onSeen, showNext } from "./seen.js";

const KINDS = { tool: ["tool", "Tools"], prompt: ["prompt", "Prompts"], resource: ["resource", "Resources"], template: ["resource template", "Resource templates"], instructions: ["instructions", "Instructions"] };
let redraw = () => {};

onSeen(() => redraw());

const regionOf = (mine, item) => `offer ${mine.id} ${item.kind} ${item.name}`;

/** What a tool says of itself. */
function effect({ kind, definition }) {
  if (kind !== "tool") return null;
  const said = definition?.annotations ?? {};
  if (said.readOnlyHint === true) return h("span", { class: "chip" }, "says it only reads");
  if (said.destructiveHint === false) return h("span", { class: "chip" }, "says it only adds");
  return h("span", { class: "chip wide" }, said.destructiveHint === true ? "says it may destroy" : "may change something");
}

/** The page. `accept()` sends the yes; `render()` makes the page again. */
export function acceptance(mine, heading, accept, refuse, render) {
  const { screen, items, findings } = mine.offer;
  redraw = () => document.querySelector("[data-stage=offer]") && render();
  lookSoon();
  const conspicuous = items.filter((item) => item.findings.length > 0);
  const keys = conspicuous.map((item) => regionOf(mine, item));
  const left = keys.filter((key) => !isSeen(key));
  const warnings = conspicuous.reduce((sum, item) => sum + item.findings.length, findings.length);
  const groups = Object.entries(KINDS).map(([kind, [, words]]) => [words, items.filter((item) => item.kind === kind && item.findings.length === 0)]);
  return [
    h("section", { class: "card", key: "started" }, heading(screen.title), warnings > 0 && h("p", { class: "warn", key: "count" }, `${many(warnings, "warning")} about its definitions. Read them before you accept.`),
      // The rows of an update also say what it gets and does that the version before did not.
      mine.isUpdate ? unusual(screen) : findings.map((text) => h("p", { class: "warn", key: text }, text)), facts(screen)),
    conspicuous.length > 0 && h("section", { key: "conspicuous" }, h("h3", null, "Conspicuous"), h("ul", { class: "definitions" }, conspicuous.map((item) => row(mine, item)))),
    groups.filter(([, some]) => some.length > 0).map(([words, some]) => h("section", { key: words }, h("h3", null, words, h("span", { class: "count" }, String(some.length))), h("ul", { class: "definitions" }, some.map((item) => row(mine, item))))),
    items.length === 0 && !mine.isUpdate && h("p", { class: "empty", key: "nothing" }, "It offers nothing now."),
    h("div", { class: "decision", key: "decision", "data-covers": true },
      left.length > 0 && h("p", { class: "small", key: "left", role: "status" }, `Not yet shown: ${left.length} of ${many(keys.length, "conspicuous definition")}. `, h("button", { type: "button", class: "quiet", "data-show-next": true, onclick: () => showNext(keys) }, "Show the next")),
      h("div", { class: "buttons even" }, refuse, h("button", { type: "button", "data-accept": true, disabled: left.length > 0 || mine.isSending === true, onclick: accept }, accepts(items, warnings, mine.isUpdate)))),
  ];
}

/** `Accept 3 tools and 1 prompt, and keep the server`. */
function accepts(items, warnings, isUpdate) {
  const counts = Object.entries(KINDS).map(([kind, [one]]) => [one, items.filter((item) => item.kind === kind).length]).filter(([, number]) => number > 0);
  const parts = counts.map(([one, number]) => (one === "instructions" ? "its instructions" : many(number, one)));
  const what = parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}` : parts[0];
  const withWarnings = warnings > 0 ? ` with ${many(warnings, "warning")}` : "";
  if (isUpdate) return what ? `Accept ${what}${withWarnings}, and update` : `Update${withWarnings}`;
  return what ? `Accept ${what}${withWarnings}, and keep it` : "Keep the server";
}

function row(mine, item) {
  const { kind, name, findings, definition } = item;
  const isConspicuous = findings.length > 0;
  const text = kind === "instructions" ? definition?.instructions ?? (typeof definition === "string" ? definition : undefined) : definition?.description;
  const title = definition?.title ?? definition?.annotations?.title;
  return h("li", { class: "definition", key: `${kind} ${name}`, "data-row": true, "data-offered": name },
    h("details", { open: isConspicuous, ontoggle: () => lookSoon() },
      h("summary", { "data-focus": true }, h("span", { class: "mono name" }, name || "instructions"), title && title !== name && h("span", { class: "soft" }, title),
        h("span", { class: "chips" }, effect(item), isConspicuous && h("span", { class: "chip sharp" }, many(findings.length, "warning"))),
        text && h("span", { class: "offered-words soft small" }, text)),
      h("div", { class: "region", "data-see": isConspicuous ? regionOf(mine, item) : null },
        findings.map((one) => h("p", { class: "warn", key: one }, one)),
        definition === null ? h("p", { class: "warn" }, "It is too long to be shown here.") : h("pre", { class: "code whole" }, stringify(definition, 2)))));
}
