// The rule editor: a sentence, what it would have decided, and the lines that are saved.

import { get, post, query } from "./api.js";
import { announce, escapeHidden, h, toast, unescapeHidden } from "./dom.js";
import { count, many, time } from "./format.js";
import { head, inside } from "./parts.js";
import { words } from "./rule_effect.js";

const DECISIONS = [["ask", "ask me"], ["allow", "allow it"], ["deny", "deny it"]];
/** What a rule does with calls. */
const DECIDED = { ask: "asks about", allow: "allows", deny: "denies" };
const KINDS = [["is", "is"], ["under", "is in the folder"], ["like", "matches"], ["one_of", "is one of"]];
const FIELDS = ["decide", "application", "server", "tool", "name", "reason"];
/** Time for which a saved rule can be undone, in milliseconds. */
const UNDO = 10_000;

let draft;
let preview;
let problem;
let timer;
let saved;
let app;

/** The rule that an address describes. */
function fromAddress() {
  const given = new URLSearchParams(location.search);
  const rule = Object.fromEntries(FIELDS.map((name) => [name, given.get(name) ?? ""]));
  if (!DECISIONS.some(([name]) => name === rule.decide)) rule.decide = "ask";
  return { ...rule, place: given.get("place") === "first" ? "first" : "last", conditions: [], others: undefined, of: undefined };
}

/** A rule of the file: `of` is where it is, and what the editor does not change. */
function fromFile({ rule, kept, number, line, file, digest }) {
  const conditions = Object.entries(rule.arguments).map(([name, condition]) => {
    const [[kind, value]] = Object.entries(condition);
    return { name, kind, value: kind === "one_of" ? value.join(", ") : String(value), written: value };
  });
  return { ...Object.fromEntries(FIELDS.map((name) => [name, rule[name] ?? ""])), place: "last", conditions, others: rule.other_arguments, of: { kept, number, line, file, digest } };
}

/** The value of a condition. What was not typed is as it is in the file, whatever its kind. */
function valueOf({ kind, value, written }) {
  if (kind === "one_of") return Array.isArray(written) && value === written.join(", ") ? written : value.split(",").map((one) => one.trim()).filter(Boolean);
  if (kind === "is" && written !== undefined && typeof written !== "string" && !Array.isArray(written)) {
    if (value === String(written)) return written;
    if (typeof written === "number" && /^-?\d{1,15}$/u.test(value)) return Number(value);
    if (typeof written === "boolean" && (value === "true" || value === "false")) return value === "true";
  }
  return value;
}

/** Why the conditions would not be saved as they are shown; `null` if they would. */
function openCondition() {
  const { conditions } = draft;
  const twice = conditions.find((one, at) => one.name !== "" && conditions.findIndex((other) => other.name === one.name) < at);
  if (twice) return `Two conditions are about the argument “${escapeHidden(twice.name)}”. A rule has one for each: change or remove one of them.`;
  const isEmpty = (one) => one.written === undefined && (one.kind === "one_of" ? valueOf(one).length === 0 : one.value === "");
  const unnamed = conditions.find((one) => one.name === "" && !isEmpty(one));
  if (unnamed) return "A condition has no name of an argument. Type it, or remove the condition.";
  const open = conditions.find((one) => one.name !== "" && isEmpty(one));
  return open ? `The condition on the argument “${escapeHidden(open.name)}” has no value. Type it, or remove the condition.` : null;
}

const body = () => {
  const { place, conditions, others, of, ...rule } = draft;
  const given = conditions.filter((one) => one.name !== "" && (one.value !== "" || one.written !== undefined)).map((one) => [one.name, { [one.kind]: valueOf(one) }]);
  const asked = { rule: { ...rule, arguments: Object.fromEntries(given), ...(others && { other_arguments: others }) } };
  return of ? { ...asked, replaces: { number: of.number, digest: of.digest } } : { ...asked, place };
};

async function look() {
  const asked = draft && body();
  if (!asked) return;
  try {
    const found = await post("rules/preview", asked);
    if (draft === undefined || JSON.stringify(asked) !== JSON.stringify(body())) return;
    preview = found;
    problem = undefined;
    const { effect } = found;
    announce(found.mistakes.length > 0 ? found.mistakes[0] : `Of the last ${many(effect.of, "call")}: ${words(effect)}.`);
  } catch (error) {
    problem = error.message;
  }
  app?.render();
}

function change(more) {
  Object.assign(draft, more);
  saved = undefined;
  clearTimeout(timer);
  timer = setTimeout(look, 150);
  if (draft.of) {
    app.render();
    return;
  }
  const kept = Object.fromEntries([...FIELDS, "place"].map((name) => [name, (name === "place" && draft.place === "last") ? "" : draft[name]]));
  history.replaceState(null, "", `/rules/new${query(kept)}`);
  lastAddress = location.search;
  app.render();
}

export const ruleEditor = {
  name: "New rule",
  path: "/rules/new",
  isInner: true,
  parent: "/grants",
  topics: ["servers"],
  match: (at) => (at === "/rules/new" ? { query: location.search } : /^\/rules\/\d{1,6}$/u.test(at) ? { number: at.slice("/rules/".length) } : null),
  title: () => (draft?.of ? `Rule ${draft.of.number}` : "New rule"),
  async load({ number }, signal) {
    const [{ servers }, { edges }] = await Promise.all([get("servers", signal), get("home", signal)]);
    // Another address is another rule; what is typed stays while the page is fetched again.
    const isOther = number ? String(draft?.of?.number) !== number : draft === undefined || draft.of !== undefined || lastAddress !== location.search;
    if (isOther) {
      draft = number ? fromFile(await get(`rules/${number}`, signal)) : fromAddress();
      preview = undefined;
      problem = undefined;
      saved = undefined;
    }
    lastAddress = location.search;
    const tools = draft.server && servers.some((one) => one.name === draft.server) ? (await get(`servers/${encodeURIComponent(draft.server)}`, signal)).offers?.tools ?? [] : [];
    if (preview === undefined) look();
    return { servers, tools, applications: [...new Set(edges.map((edge) => edge.application))].filter(Boolean) };
  },
  /** A rule of the file is read anew the next time. */
  leave() {
    clearTimeout(timer);
    draft = undefined;
  },
  view,
  keys: (_, __, page) => [{ keys: ["Escape"], show: "Esc", does: "back to the rules", run: () => page.go("/grants") }],
};

let lastAddress;

const text = (name, label, list, more = {}) => h("span", { class: "sentence-part", key: name }, h("label", { for: `rule-${name}`, class: "soft" }, label),
  h("input", { id: `rule-${name}`, list: list && `rule-${name}-list`, value: escapeHidden(draft[name]), autocomplete: "off", spellcheck: "false", "data-rule": name, oninput: (event) => change({ [name]: unescapeHidden(event.target.value) }), ...more }),
  list && h("datalist", { id: `rule-${name}-list` }, list.map((one) => h("option", { value: one, key: one }))));

function view({ servers, tools, applications }, _, page) {
  app = page;
  const { of } = draft;
  const lists = new Set(of?.kept.map((one) => one.split(" = ")[0]));
  const any = (name, words) => ({ placeholder: lists.has(name) ? "as in the file" : words });
  const open = openCondition();
  const isBlocked = open !== null || preview === undefined || preview.mistakes.length > 0 || preview.file === null;
  return [
    h("p", { class: "crumb", key: "crumb" }, inside("/grants", null, "Grants and rules")),
    head(of ? `Change rule ${of.number}` : "New rule"),
    of && h("p", { class: "soft small", key: "where" }, `${of.file}, line ${of.line}. The first rule that matches a call decides.`),
    h("form", { class: "card rule-editor", key: "form", onsubmit: (event) => { event.preventDefault(); save(); } },
      h("div", { class: "sentence" },
        text("application", "When", applications, any("application", "any application")),
        text("tool", "calls", tools.map((tool) => tool.name), any("tool", "any tool")),
        text("server", "of", servers.map((one) => one.name), any("server", "any server")),
        h("span", { class: "sentence-part", key: "decide" }, h("label", { for: "rule-decide", class: "soft" }, "then"),
          h("select", { id: "rule-decide", value: draft.decide, "data-rule": "decide", onchange: (event) => change({ decide: event.target.value }) }, DECISIONS.map(([name, label]) => h("option", { value: name, selected: name === draft.decide }, label))))),
      h("div", { class: "conditions", key: "conditions" }, draft.conditions.map(condition),
        h("button", { type: "button", class: "quiet", "data-add-condition": true, onclick: () => change({ conditions: [...draft.conditions, { name: "", kind: "is", value: "" }] }) }, "Only with an argument …"),
        (draft.conditions.length > 0 || draft.others) && h("label", { class: "check", key: "others" }, h("input", { type: "checkbox", "data-no-others": true, checked: Boolean(draft.others), onchange: (event) => change({ others: event.target.checked ? [] : undefined }) }),
          draft.others?.length > 0 ? `no other arguments than these and ${draft.others.join(", ")}` : "no other arguments")),
      of?.kept.length > 0 && h("div", { key: "kept" }, h("p", { class: "soft small" }, "Also in this rule. It stays as it is; change it in the file:"), h("pre", { class: "code", "data-kept": true }, of.kept.join("\n"))),
      h("details", { key: "more", open: Boolean(draft.name || draft.reason || draft.place === "first") || undefined }, h("summary", { class: "soft small" }, of ? "Name and reason" : "Name, reason and place"),
        h("div", { class: "fields" }, text("name", "Name", null), draft.decide === "deny" && text("reason", "Reason, told to the model", null),
          !of && h("span", { class: "sentence-part", key: "place" }, h("label", { for: "rule-place", class: "soft" }, "Place"),
            h("select", { id: "rule-place", value: draft.place, onchange: (event) => change({ place: event.target.value }) },
              [["last", "behind all other rules"], ["first", "before all other rules"]].map(([name, label]) => h("option", { value: name, selected: name === draft.place }, label)))))),
      open && h("p", { class: "warn", role: "status", key: "open", "data-open-condition": true }, open),
      problem && h("p", { class: "problem", role: "alert", key: "problem" }, problem),
      preview?.mistakes.map((one) => h("p", { class: "problem", key: `mistake ${one}`, role: "alert" }, one)),
      preview?.unmatched.map((one) => h("p", { class: "warn", key: `unmatched ${one}`, "data-unmatched": true }, one)),
      preview?.conflicts.map((one) => h("p", { class: "warn", key: `conflict ${one.number}`, "data-conflict": one.number }, `Rule ${one.number}${one.name ? ` (${one.name})` : ""} in line ${one.line} comes first. It ${DECIDED[one.decide] ?? one.decide} ${many(one.calls, "of these calls", "of these calls")}. `,
        of ? "Move this rule up in the list to let it decide." : h("button", { type: "button", class: "quiet", onclick: () => change({ place: "first" }) }, "Put the new rule first"))),
      draft.decide === "allow" && !draft.tool && !draft.server && !lists.has("tool") && !lists.has("server") && h("p", { class: "warn", key: "wide" }, "This allows every tool of every server. A narrower rule is safer."),
      h("div", { class: "buttons", key: "buttons" },
        saved ? h("button", { type: "button", key: "undo", "data-undo": true, onclick: undo }, "Undo") : h("button", { type: "submit", class: "yes", key: "save", "data-save": true, disabled: isBlocked }, of ? "Save the change" : "Save the rule"),
        saved ? h("span", { class: "soft", key: "saved", role: "status" }, "Saved. It applies within a second.") : preview?.file === null && h("span", { class: "soft small", key: "none" }, "This host has no policy file that can be changed here."))),
    preview && preview.mistakes.length === 0 && effectPart(preview.effect),
    preview && h("section", { key: "toml" }, h("h2", null, "In the file"), preview.file && h("p", { class: "target" }, preview.file), h("pre", { class: "code", "data-toml": true }, preview.toml)),
  ];
}

function condition(one, at) {
  const put = (more) => change({ conditions: draft.conditions.map((other, index) => (index === at ? { ...other, ...more } : other)) });
  return h("div", { class: "condition", key: at },
    h("input", { "aria-label": "Name of the argument", placeholder: "argument", value: one.name, autocomplete: "off", spellcheck: "false", oninput: (event) => put({ name: event.target.value }) }),
    h("select", { "aria-label": "Kind of condition", value: one.kind, onchange: (event) => put({ kind: event.target.value }) }, KINDS.map(([kind, label]) => h("option", { value: kind, selected: kind === one.kind }, label))),
    h("input", { "aria-label": "Value", value: escapeHidden(one.value), autocomplete: "off", spellcheck: "false", oninput: (event) => put({ value: unescapeHidden(event.target.value) }) }),
    h("button", { type: "button", class: "quiet", "aria-label": "Remove this condition", onclick: () => change({ conditions: draft.conditions.filter((_, other) => other !== at) }) }, "Remove"));
}

function effectPart(effect) {
  return h("section", { key: "effect", "aria-labelledby": "effect-title" }, h("h2", { id: "effect-title" }, effect.of === 0 ? "Effect" : `On the last ${many(effect.of, "call")}`),
    h("p", { "data-effect": true }, effect.of === 0 ? "No call is recorded yet, so there is nothing to compare with." : effect.calls.length === 0 ? "This rule would have decided none of them." : `This rule ${words(effect)}.`),
    !effect.isExact && effect.of > 0 && h("p", { class: "soft small", key: "inexact" }, "Arguments are not recorded (", h("code", null, "[audit] arguments = true"), "), so conditions on them fit no recorded call."),
    effect.allowed > 0 && h("p", { class: "soft small", key: "guard" }, "The guard still asks about a call that a text of others may have caused, if a preset applies."),
    effect.calls.length > 0 && h("details", { key: "calls" }, h("summary", { class: "soft small" }, `Show ${many(effect.calls.length, "call")}`),
      h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Calls that the rule would decide" }, h("table", { class: "names" },
        h("thead", null, h("tr", null, ["When", "Application", "Call", "Was", "Becomes"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", null, effect.calls.map((one) => h("tr", { key: one.seq }, h("td", null, time(new Date(one.at))), h("td", null, one.application ?? "–"),
          h("td", null, h("span", { class: "soft" }, one.server), " ", h("span", { class: "mono" }, one.subject)), h("td", null, one.was), h("td", null, one.becomes))))))));
}

async function save() {
  // A form without a button to save can still be sent by a key.
  if (openCondition() !== null) return;
  try {
    saved = await post("rules", body());
    // The next change is one of the file as it is now.
    if (draft.of) draft.of = { ...draft.of, digest: saved.digest, digestBefore: draft.of.digest };
    announce("The rule is saved. It can be undone for 10 seconds.");
    const mine = saved;
    setTimeout(() => {
      if (saved === mine && app.page() === ruleEditor) app.go("/grants");
    }, UNDO);
  } catch (error) {
    problem = error.message;
  }
  app.render();
}

async function undo() {
  try {
    await post("rules/undo", { id: saved.undo });
    toast(draft.of ? "The rule is as it was before." : "The rule is removed again.");
    if (draft.of) draft.of = { ...draft.of, digest: draft.of.digestBefore };
    saved = undefined;
    problem = undefined;
    look();
  } catch (error) {
    problem = error.message;
  }
  app.render();
}
