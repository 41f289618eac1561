// The rules of the policy file, in order: each can be changed, moved and deleted where the file allows it.

import { post } from "./api.js";
import { announce, h, toast } from "./dom.js";
import { inside } from "./parts.js";

/** Time for which a change can be undone here, and between looks at whether the host has read the file, in milliseconds. */
const UNDO = 10_000;
const LOOK = 250;
/** Number of looks before the page no longer waits for the host. */
const LOOKS = 20;

const WORDS = { up: "moved up", down: "moved down", remove: "deleted" };

/** The list as it was fetched last, the list that is shown until the host has read a change, and the last change. */
let latest;
let held;
let done;

const title = (rule) => (rule.name ? `rule ${rule.number}, ${rule.name}` : `rule ${rule.number}`);

/** Fetches the page until the host has read the file, or no longer waits for it. */
async function settle(app, isRead) {
  for (let look = 0; look < LOOKS; look += 1) {
    await app.refresh();
    if (isRead()) break;
    await new Promise((next) => setTimeout(next, LOOK));
  }
  held = undefined;
  app.render();
}

async function change(rule, action, app) {
  if (held) return;
  held = latest;
  try {
    const { undo, digest } = await post(`rules/${rule.number}/${action}`, { digest: held.digest });
    done = { undo, words: `Rule ${rule.number}${rule.name ? ` (${rule.name})` : ""} is ${WORDS[action]}.` };
    announce(`${done.words} It can be undone for 10 seconds.`);
    const mine = done;
    setTimeout(() => {
      if (done !== mine) return;
      done = undefined;
      app.render();
    }, UNDO);
    await settle(app, () => latest.digest === digest);
    const number = rule.number + { up: -1, down: 1, remove: 0 }[action];
    // The same button of the rule in its new place; at an end of the list, the other one.
    (document.querySelector(`[data-rule-${action}="${number}"]:not(:disabled)`) ?? document.querySelector(`[data-rule-edit="${number}"]`) ?? document.querySelector("[data-new-rule]"))?.focus();
  } catch (error) {
    held = undefined;
    toast(error.message, "bad");
    app.refresh();
  }
}

async function undo(app) {
  const { undo: id } = done;
  const before = latest.digest;
  done = undefined;
  try {
    await post("rules/undo", { id });
    toast("The rules are as they were before.");
    await settle(app, () => latest.digest !== null && latest.digest !== before);
  } catch (error) {
    toast(error.message, "bad");
    app.refresh();
  }
}

function actions(rule, count, app) {
  const button = (action, label, word, isOff) => h("button", { type: "button", class: "quiet", key: action, [`data-rule-${action}`]: String(rule.number), "aria-label": `${word} ${title(rule)}`, disabled: isOff, onclick: () => change(rule, action, app) }, label);
  return h("div", { class: "rule-actions", key: "actions" },
    inside(`/rules/${rule.number}`, { class: "button-link", key: "edit", "data-focus": true, "data-rule-edit": String(rule.number), "aria-label": `Change ${title(rule)}` }, "Change"),
    button("up", "Up", "Move up", rule.number === 1), button("down", "Down", "Move down", rule.number === count), button("remove", "Delete", "Delete", false));
}

function line(rule, { rules, file, digest }, app) {
  return h("li", { key: rule.number, "data-row": true, "data-rule-number": digest === null ? null : String(rule.number) },
    h("div", { class: "rule-line" }, h("span", { class: `chip ${{ deny: "sharp", allow: "calm", ask: "wide" }[rule.decide] ?? ""}` }, rule.decide),
      h("span", null, rule.name && h("strong", null, `${rule.name}: `), rule.conditions.map(([key, text], index) => [index > 0 && h("span", { class: "soft" }, " and "), h("span", { class: "mono" }, key), " ", text]), rule.conditions.length === 0 && "anything"),
      h("span", { class: "soft small end" }, digest === null && file ? `${file}, line ${rule.line}` : `line ${rule.line}`)),
    rule.reason && h("p", { class: "soft small", key: "reason" }, rule.reason),
    digest !== null && actions(rule, rules.length, app));
}

/** The rules of the organisation, which are not changed here. */
function organizationRules(rules) {
  return [
    h("h3", { key: "organization-head" }, "Organisation’s rules"),
    h("p", { class: "soft small", key: "organization-order" }, "Your rules cannot loosen these, unless one says “delegable”. They are not changed here."),
    rules.length > 0 ? h("ol", { class: "rules", key: "organization", "data-organization-rules": true }, rules.map((rule) => line(rule, { rules, file: null, digest: null }, undefined)))
      : h("p", { class: "soft small", key: "organization-none" }, "It has no rules."),
    h("h3", { key: "own-head" }, "Your rules"),
  ];
}

/** The section with the rules. */
export function ruleList(fetched, app) {
  latest = fetched;
  const shown = held ?? fetched;
  const { hasPolicy, rules, trusted, fixed, organization } = shown;
  return h("section", { key: "rules", "data-rules": true },
    h("div", { class: "section-head" }, h("h2", null, "Rules"), h("span", { class: "end" }, inside("/rules/new", { class: "button-link", "data-new-rule": true }, "New rule"))),
    done && h("p", { key: "done", class: "buttons", role: "status" }, h("span", null, `${done.words} It applies within a second.`), h("button", { type: "button", key: "undo", "data-undo-rules": true, onclick: () => undo(app) }, "Undo")),
    !hasPolicy && h("p", { class: "warn", key: "none" }, "There is no policy.toml, so all calls are allowed without approval. See “Who may call what” in the README."),
    organization && organizationRules(organization),
    hasPolicy && h("p", { class: "soft small", key: "order" }, rules.length > 0 ? "The rules of policy.toml, in order. The first rule that matches a call decides, so a rule further up comes first." : "No rules: the defaults apply.",
      trusted.length > 0 && ` Tool annotations are trusted from: ${trusted.join(", ")}.`),
    hasPolicy && fixed && rules.length > 0 && h("p", { class: "soft small", key: "fixed", "data-fixed": true }, `The rules can only be read here: ${fixed}.`),
    rules.length > 0 && h("ol", { class: "rules", key: "list" }, rules.map((rule) => line(rule, shown, app))));
}
