// What waits for a person.

import { get, path, post } from "./api.js";
import { body, done, original, risk, title, yes } from "./card.js";
import { isEqual } from "./diff.js";
import { announce, h, toast } from "./dom.js";
import { callHeading, firstLook, isIrreversible, remembered, targetsOf } from "./first_look.js";
import { ago, many } from "./format.js";
import { gist } from "./gist.js";
import { go, head } from "./parts.js";
import { editRule } from "./rule.js";
import { stringify } from "./json.js";
import { isSeen, lookSoon, onSeen, showNext } from "./seen.js";

/** How long a card is shown before its buttons do anything: nobody presses what has just moved under the pointer. */
const ARMING = 1000;

const drafts = new Map();
let known = new Set();
let shownId;
let armedAt = 0;
let offset = 0;
let isBusy = false;
/** Whether a card is to be chosen by the person: after a decision none comes up by itself while others wait. */
let mustChoose = false;
/** Whether keys decide nothing: from a decision by key until the person chooses a card or touches the page. */
let areKeysOff = false;
/** What was decided last, in words. */
let lastSaid = "";
/** Whether the card that is shown waited when it was drawn. */
let wasOpen = false;
let redraw = () => {};

onSeen(() => redraw());
addEventListener("pointerdown", (event) => {
  // A button is no sign that the card was looked at.
  if (!areKeysOff || event.target.closest?.("button, a, input, textarea, select")) return;
  areKeysOff = false;
  redraw();
});

export const approvals = {
  name: "Approvals",
  path: "/approvals",
  icon: ["M12 3l7 3v5c0 4.6-2.9 8.4-7 10-4.1-1.6-7-5.4-7-10V6z", "M9 12l2.2 2.2L15.2 10"],
  topics: ["approvals", "grants"],
  match(at) {
    if (at === "/approvals") return {};
    const id = at.match(/^\/approvals\/([0-9a-zA-Z-]+)$/)?.[1];
    return id && { id };
  },
  load: async (_, signal) => take(await get("approvals", signal)),
  /** Looked at from every page, for the number beside the name. */
  async heard(app) {
    try {
      const all = take(await get("approvals"));
      app.badge("Approvals", all.open.length);
      const fresh = all.open.filter((one) => !known.has(one.id));
      known = new Set(all.open.map((one) => one.id));
      if (fresh.length > 0) announce(`${many(fresh.length, "new approval")}: ${title(fresh[0]).join(" of ")}. ${all.open.length} waiting.`);
    } catch { /* The page itself says what is wrong. */ }
  },
  view,
  keys: (data, found, app) => {
    const matter = () => chosen(data, found);
    const on = (offered, run) => () => {
      const one = matter();
      if (!one || one.state !== "open" || (offered && !one.offers[offered])) return;
      if (areKeysOff) toast("Keys are off after a decision: choose this card first (j, or a click on it).");
      else run(one, app, true);
    };
    return [
      { keys: ["d"], show: "d", does: "deny", run: on(null, (one) => deny(one, app, false, true)) },
      { keys: ["o"], show: "o", does: "allow once", run: on(null, (one) => allow(one, app, undefined, true)) },
      { keys: ["n"], show: "n", does: "deny a plan, and be asked about its calls one by one", run: on(null, (one) => one.card.kind === "plan" && oneByOne(one, app, true)) },
      { keys: ["t"], show: "t", does: "allow and remember the target", run: on("targets", (one) => allow(one, app, "targets", true)) },
      { keys: ["V"], show: "V", does: "allow: the value is right, for this session", run: on("values", (one) => allow(one, app, "values", true)) },
      { keys: ["s"], show: "s", does: "allow for this session", run: on("session", (one) => allow(one, app, "session", true)) },
      { keys: ["A"], show: "A", does: "allow always (opens the rule editor)", run: on("always", (one) => always(one, app)) },
      { keys: ["e"], show: "e", does: "edit", run: () => document.querySelector("[data-edit]")?.click() },
      { keys: ["v"], show: "v", does: "show as JSON", run: () => { const draft = draftOf(matter()); if (draft) { draft.tab = draft.tab === "raw" ? "form" : "raw"; app.render(); } } },
      { keys: ["r"], show: "r", does: "enter a reason for the denial", run: () => document.getElementById("reason")?.focus() },
      { keys: ["j", "ArrowDown"], show: "j", does: "the next card", run: () => step(data, found, 1) },
      { keys: ["k", "ArrowUp"], show: "k", does: "the previous card", run: () => step(data, found, -1) },
    ];
  },
};

function take(all) {
  offset = new Date(all.now) - Date.now();
  if (all.open.length === 0) mustChoose = false;
  for (const id of drafts.keys()) if (!all.open.some((one) => one.id === id)) drafts.delete(id);
  return all;
}

/** The card that is shown: the one of the address, else the one that was shown already, else the oldest unless the person has to choose. */
function chosen(data, { id }) {
  if (id) return [...data.open, ...data.recent].find((one) => one.id === id);
  const same = data.open.find((one) => one.id === shownId);
  if (same) return same;
  // The card that was looked at is gone: another one in its place would be decided in its stead.
  if (wasOpen && shownId !== undefined && data.open.length > 0) mustChoose = true;
  return mustChoose ? undefined : data.open[0];
}

function draftOf(matter) {
  if (!matter) return null;
  if (!drafts.has(matter.id)) drafts.set(matter.id, { tab: "form", reason: "", region: `matter ${matter.id}`, canEdit: matter.offers.edit && matter.state === "open" });
  return drafts.get(matter.id);
}

function step({ open }, found, by) {
  const at = open.findIndex((one) => one.id === chosen({ open, recent: [] }, found)?.id);
  const next = open[Math.min(open.length - 1, Math.max(0, at + by))];
  if (next) choose(next.id);
}

/** Shows a card that the person has chosen. */
function choose(id) {
  mustChoose = false;
  if (areKeysOff) {
    areKeysOff = false;
    armedAt = performance.now();
    setTimeout(() => redraw(), ARMING + 20);
  }
  go(`/approvals/${id}`);
  redraw();
}

const isArmed = () => performance.now() - armedAt >= ARMING;

function view(data, found, app) {
  const { open } = data;
  const missed = data.recent.filter((one) => one.state === "expired");
  const recent = data.recent.filter((one) => one.state !== "expired");
  redraw = () => app.render();
  lookSoon();
  const matter = chosen(data, found);
  wasOpen = matter?.state === "open";
  if (matter?.id !== shownId) {
    shownId = matter?.id;
    armedAt = performance.now();
    setTimeout(() => app.render(), ARMING + 20);
    // No is what is at hand; but nobody is taken out of what they type.
    if (matter?.state === "open") setTimeout(() => !document.activeElement?.matches?.("input, textarea, select") && document.querySelector("[data-deny]")?.focus({ preventScroll: true }));
  }
  return [
    head("Approvals", open.length > 0 && h("span", { class: "soft" }, many(open.length, "waiting", "waiting"))),
    open.length === 0 && !matter && h("div", { class: "empty", key: "none" }, h("p", null, "No pending approvals."), h("p", { class: "small" }, "Calls that require approval under the policy appear here. Without a policy file, the guard asks only about calls that are unusual.")),
    found.id && !matter && h("p", { class: "problem", key: "gone" }, "This approval was decided long ago or does not exist."),
    open.length > 0 && !matter && !found.id && h("p", { class: "lead", key: "choose", role: "status" }, lastSaid && `${lastSaid} `, `${many(open.length, "other is pending", "others are pending")}: choose the next one (`, h("kbd", null, "j"), " or a click)."),
    (open.length > 0 || matter) && h("div", { class: open.length > 1 && matter ? "desk" : "desk one", key: "desk" },
      (open.length > 1 || !matter) && h("ul", { class: "queue", key: "queue", "aria-label": "Waiting" }, open.map((one) => queued(one, matter))),
      matter && (matter.state === "open" ? card(matter, open, app) : over(matter))),
    missed.length > 0 && h("section", { key: "missed", class: "recent", "data-missed": true }, h("h2", null, "Missed"),
      h("p", { class: "soft small" }, "These were not decided in time and were refused. The requester can ask again."),
      h("ul", { class: "entries" }, missed.slice(0, 12).map(decided))),
    recent.length > 0 && h("section", { key: "recent", class: "recent" }, h("h2", null, "Recent"),
      h("ul", { class: "entries" }, recent.slice(0, 12).map(decided))),
  ];
}

function queued(one, matter) {
  const [what, server] = title(one);
  return h("li", { key: one.id, "data-row": true }, h("a", {
    href: `/approvals/${one.id}`, class: `queued ${risk(one)} ${one.id === matter?.id ? "here" : ""}`, "aria-current": one.id === matter?.id ? "true" : null, "data-focus": true,
    onclick: (event) => { event.preventDefault(); choose(one.id); },
  }, h("span", { class: "mono what" }, what), h("span", { class: "soft small" }, one.application ? `${one.application} · ${server}` : server), gist(one) && h("span", { class: "mono gist" }, gist(one)), h("span", { class: "until", "data-until": one.expires_at }, left(one.expires_at))));
}

function left(until) {
  const seconds = Math.max(0, Math.round((new Date(until) - Date.now() - offset) / 1000));
  return seconds < 600 ? `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}` : `${Math.floor(seconds / 60)} min`;
}

setInterval(() => {
  for (const node of document.querySelectorAll("[data-until]")) {
    const text = left(node.dataset.until);
    if (node.textContent !== text) node.textContent = text;
    node.classList.toggle("soon", new Date(node.dataset.until) - Date.now() - offset < 20_000);
  }
}, 500);

function card(matter, open, app) {
  const draft = draftOf(matter);
  const [what, server] = title(matter);
  const position = open.indexOf(matter) + 1;
  const change = (more) => { Object.assign(draft, { problem: undefined, ...more }); app.render(); };
  const { session, always: lasting, block, targets, values } = matter.offers;
  const waits = !isArmed() || isBusy;
  // Nothing is allowed before what it does was in view.
  const isShown = isSeen(draft.region);
  const holds = waits || !isShown;
  const noEnter = (event) => event.key === "Enter" && event.preventDefault();
  const isCall = matter.card.kind === "call";
  const isPlan = matter.card.kind === "plan";
  const isFinal = isIrreversible(matter);
  const choice = (name, key, words, run, title) => h("button", {
    type: "button", [`data-${name}`]: true, key: name, title, "aria-disabled": String(holds), "aria-keyshortcuts": key.length === 1 && key !== key.toLowerCase() ? `Shift+${key}` : key, onkeydown: noEnter, onclick: run,
  }, words, " ", h("kbd", null, key));
  return h("article", { class: `matter ${risk(matter)} ${isFinal ? "final" : ""}`, key: matter.id, "aria-labelledby": "matter-title" },
    h("header", { class: "matter-head" },
      h("div", null, isFinal && h("p", { class: "final-mark", key: "final" }, "Cannot be undone"),
        h("h2", { id: "matter-title", class: isCall ? "call-heading" : "" }, isCall ? callHeading(matter) : isPlan ? what : [h("span", { class: "mono" }, what), h("span", { class: "soft" }, ` · ${server}`)])),
      h("p", { class: "countdown", title: "No decision counts as a denial" }, h("span", { class: "until", "data-until": matter.expires_at, role: "timer" }, left(matter.expires_at)),
        h("span", { class: "soft small place" }, position > 0 && `${position} of ${open.length}, `, `asked ${ago(new Date(new Date(matter.asked_at) - offset))}`))),
    isCall && firstLook(matter),
    h("div", { class: "matter-body" }, withSuggestion(body(matter, draft, change), suggestion(matter, draft, app, holds))),
    h("footer", { class: "matter-foot", "data-covers": true },
      !isShown && h("p", { class: "small unshown", key: "unshown" }, h("span", null, "Not fully shown yet. "), h("button", { type: "button", class: "quiet", "data-show-next": true, onclick: () => showNext([draft.region]) }, "Show the rest")),
      areKeysOff && h("p", { class: "small soft", key: "keys" }, "Keys are off after a decision. Choose this card first: ", h("kbd", null, "j"), " or a click on it."),
      draft.problem && h("p", { class: "problem", role: "alert", key: "problem" }, draft.problem),
      h("div", { class: "choices", key: "choices" },
        h("button", { type: "button", "data-deny": true, "data-focus": true, key: "deny", disabled: isBusy, "aria-disabled": String(waits), "aria-keyshortcuts": "d", onclick: () => deny(matter, app) }, "Deny ", h("kbd", null, "d")),
        choice("once", "o", yes(matter), () => allow(matter, app)),
        isPlan && h("button", { type: "button", "data-one-by-one": true, key: "one-by-one", disabled: isBusy, "aria-disabled": String(waits), "aria-keyshortcuts": "n", onkeydown: noEnter, onclick: () => oneByOne(matter, app) }, "Ask one by one ", h("kbd", null, "n")),
        targets && choice("targets", "t", ["Allow and remember ", h("span", { class: "mono" }, remembered(matter.card)), " for 30 days"], () => allow(matter, app, "targets"), `You are not asked again because this target is new: ${targetsOf(matter.card).join(", ")}`),
        session && choice("session", "s", "Allow for this session", () => allow(matter, app, "session"), `For ${matter.session ?? "this session"}, with any arguments, unless the rules change`),
        lasting && choice("always", "A", "Always …", () => always(matter, app)),
        // The weakest choice comes last.
        values && choice("values", "V", "This value is right, for this session", () => allow(matter, app, "values"), "Calls that can be undone are not asked about because of this value")),
      h("div", { class: "deny", key: "deny-more" },
        h("input", { id: "reason", class: "reason", placeholder: "Reason for a denial, sent to the model", "aria-label": "Reason for a denial, sent to the model", maxlength: 500, value: draft.reason, autocomplete: "off",
          oninput: (event) => { draft.reason = event.target.value; }, onkeydown: (event) => { if (event.key === "Enter") deny(matter, app); } }),
        block && h("button", { type: "button", class: "quiet", "data-block": true, "aria-disabled": String(waits), onclick: () => deny(matter, app, true), title: "Denies all such requests from now on" }, "Deny and block"))));
}

/** The parts of a card with the suggestion behind the first, which are the arguments. */
const withSuggestion = (parts, suggested) => (suggested ? [parts[0], suggested, ...parts.slice(1)] : parts);

/** The values that a condition of a suggested permission allows. */
const allowedValues = (condition) => (Array.isArray(condition) ? condition : [condition.is]);

/** After like answers: a permission that is no wider than what was approved, and what it would have decided. */
function suggestion(matter, draft, app, holds) {
  const { repeated } = matter.card;
  if (!repeated || !matter.offers.always || draft.value !== undefined) return null;
  if (draft.counted === undefined) {
    draft.counted = null;
    get(`approvals/${path(matter.id)}/repeated`).then((counted) => { draft.counted = counted; app.render(); }, () => {});
  }
  const { counted } = draft;
  const until = new Date(Date.now() + 30 * 86_400_000).toISOString();
  return h("section", { class: "suggestion", key: "suggestion", "data-suggestion": true },
    h("p", null, h("strong", null, `You allowed ${repeated.answers} calls like this one. `), "A permission for these values only, for 30 days, would ask less:"),
    h("dl", { class: "facts" }, Object.entries(repeated.arguments).map(([name, condition]) => h("div", { key: name }, h("dt", null, h("span", { class: "mono" }, name)),
      h("dd", null, allowedValues(condition).map((value, at) => [at > 0 && " or ", h("span", { class: "mono" }, typeof value === "string" ? value : stringify(value))]))))),
    counted && h("p", { class: "soft small", key: "counted" }, `In the last 7 days it would have decided ${counted.isExact ? "" : "up to "}${counted.calls} of ${many(counted.of, "call")} of this tool.`, " What cannot be undone or carries private data after text of others is asked about nevertheless."),
    h("div", { class: "buttons" }, h("button", { type: "button", "data-repeat": true, "aria-disabled": String(holds), onkeydown: (event) => event.key === "Enter" && event.preventDefault(),
      onclick: () => canAllow(matter) && decide(matter, { decision: "allow", scope: { always: { arguments: repeated.arguments, until } } }, `${title(matter)[0]} is allowed with these values for 30 days.`, app).catch(() => {}) }, "Allow these values for 30 days")));
}

const WORDS = { allowed: ["allowed", "well"], denied: ["denied", "refused"], expired: ["expired", "refused"], withdrawn: ["withdrawn", "other"], open: ["pending", "other"] };

function decided(one) {
  const [what, server] = title(one);
  const [word, kind] = WORDS[one.state] ?? [one.state, "other"];
  return h("li", { class: "entry", key: one.id }, h("a", { class: "entry-line decided", href: `/approvals/${one.id}`, onclick: (event) => { event.preventDefault(); go(`/approvals/${one.id}`); } },
    h("span", { class: "when" }, ago(new Date(one.decided?.at ?? one.asked_at))), h("span", { class: `ending ${kind}` }, word),
    h("span", { class: "what" }, h("span", { class: "soft" }, server), " ", h("span", { class: "mono" }, what), gist(one) && h("span", { class: "soft small mono" }, ` ${gist(one)}`)),
    h("span", { class: "who soft" }, one.decided ? [one.decided.by.split(/, browser session|:/)[0], one.decided.edited !== undefined && one.card.kind !== "form" && ", edited"] : "")));
}

function over(matter) {
  const [what, server] = title(matter);
  const [word, kind] = WORDS[matter.state] ?? [matter.state, "other"];
  const { decided: how } = matter;
  return h("article", { class: "matter over", key: matter.id },
    h("header", { class: "matter-head" }, h("div", null, h("h2", { class: matter.card.kind === "call" ? "call-heading" : "" }, matter.card.kind === "call" ? callHeading(matter) : [h("span", { class: "mono" }, what), h("span", { class: "soft" }, ` · ${server}`)]),
      h("p", { class: "small" }, h("span", { class: `ending ${kind}` }, word), how ? ` by ${how.by}, ${ago(new Date(how.at))}` : ", because there was no decision in time or the requester disconnected",
        how?.reason && `: ${how.reason}`))),
    matter.card.kind === "call" && firstLook(matter),
    h("div", { class: "matter-body" }, body(matter, { tab: "form", canEdit: false, value: how?.edited }, () => {})));
}

/** Whether the person can allow this now; brings what was not shown yet into view where it was not. */
function canAllow(matter) {
  if (!isArmed() || isBusy) return false;
  const { region } = draftOf(matter);
  if (isSeen(region)) return true;
  showNext([region]);
  return false;
}

async function decide(matter, decision, said, app, isByKey = false) {
  if (!isArmed() || isBusy) return;
  isBusy = true;
  app.render();
  try {
    await post(`approvals/${path(matter.id)}`, decision);
    toast(said);
    isBusy = false;
    lastSaid = said;
    mustChoose = true;
    areKeysOff ||= isByKey;
    shownId = undefined;
    // Back to the list: the person chooses what comes next.
    if (location.pathname !== "/approvals") go("/approvals");
    else app.refresh();
  } catch (error) {
    isBusy = false;
    const draft = draftOf(matter);
    if (error.code === "over" || error.code === "nothing") {
      toast(error.message, "bad");
      app.refresh();
      return;
    }
    if (draft) draft.problem = error.message;
    app.render();
    throw error;
  }
}

function edited(matter) {
  const draft = draftOf(matter);
  const base = original(matter);
  if (matter.card.kind === "form") return { edited: draft.value ?? base };
  return draft.value !== undefined && !isEqual(draft.value, base) ? { edited: draft.value } : {};
}

function deny(matter, app, block = false, isByKey = false) {
  const reason = draftOf(matter).reason.trim();
  const [what] = title(matter);
  return decide(matter, { decision: "deny", ...(reason && { reason }), ...(block && { block }) }, block ? `${what} is denied from now on.` : `Denied: ${what}.`, app, isByKey).catch(() => {});
}

/** Told to the model when the person wants to decide about each call of a plan by itself. */
const ONE_BY_ONE = "make the calls one by one; the person decides about each";

/** Denies a plan, so that each of its calls is asked about. */
function oneByOne(matter, app, isByKey = false) {
  return decide(matter, { decision: "deny", reason: ONE_BY_ONE }, "You are asked about each call.", app, isByKey).catch(() => {});
}

const SCOPE_WORDS = {
  session: (what) => `${what} is allowed for this session.`,
  targets: (what) => `Allowed once: ${what}. Its target is remembered for 30 days.`,
  values: (what) => `Allowed once: ${what}. The value is right for this session.`,
};

function allow(matter, app, scope, isByKey = false) {
  const [what] = title(matter);
  if (!canAllow(matter)) return undefined;
  if (draftOf(matter).problem?.startsWith("This is not valid JSON")) return undefined;
  return decide(matter, { decision: "allow", ...edited(matter), ...(scope && { scope }) }, SCOPE_WORDS[scope]?.(what) ?? done(matter), app, isByKey).catch(() => {});
}

function always(matter, app) {
  if (!canAllow(matter)) return undefined;
  const [what] = title(matter);
  const { edited: other } = edited(matter);
  return editRule(matter, other ?? original(matter), (permission) => decide(matter, { decision: "allow", ...(other !== undefined && { edited: other }), scope: { always: permission } }, `${what} is allowed within this rule.`, app));
}
