// What waits for a person: which card is chosen, and what is decided about it.

import { get, path, post } from "./api.js";
import { frame, over } from "./approval_card.js";
import { decided, queued, setHostTime, sinceLastVisit } from "./approval_rows.js";
import { done, original, title } from "./card.js";
import { lookAtFile } from "./content.js";
import { isEqual } from "./diff.js";
import { announce, h, toast } from "./dom.js";
import { many } from "./format.js";
import { go, head } from "./parts.js";
import { editRule } from "./rule.js";
import { isBegun, isSeen, lookSoon, onSeen, showNext } from "./seen.js";
import { rowText } from "./sentence.js";

/** How long a card is shown before its buttons do anything: nobody presses what has just moved under the pointer. */
const ARMING = 1000;
/** How long the next step of a call is waited for after a decision about the call, in milliseconds. */
const FOLLOW = 10_000;

const drafts = new Map();
let known = new Set();
let shownId;
/** The card that the person has chosen. Keys decide only about this one. */
let chosenId;
/** The card that the address names. */
let addressId;
let armedAt = 0;
let isBusy = false;
/** What was decided last: its call, for the next step of it, and the cards that were beside it. */
let last;
let redraw = () => {};

onSeen(() => redraw());
addEventListener("pointerdown", (event) => {
  // A button is no sign that the card was looked at.
  if (!event.target.closest?.(".matter") || event.target.closest("button, a, input, textarea, select, summary") || chosenId === shownId) return;
  chosenId = shownId;
  redraw();
});

export const approvals = {
  name: "Approvals",
  path: "/approvals",
  roles: ["member", "approver", "admin"],
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
      if (fresh.length > 0) announce(`${many(fresh.length, "new approval")}: ${rowText(fresh[0])}. ${all.open.length} waiting.`);
    } catch { /* The page itself says what is wrong. */ }
  },
  view,
  keys: (data, found, app) => {
    const matter = () => chosen(data, found);
    const on = (offered, run) => () => {
      const one = matter();
      if (!one || one.state !== "open" || (offered === "allow" ? !one.may_allow : offered && !one.offers[offered])) return;
      if (one.id !== chosenId) toast("Choose this card first: j, or a click on it. Keys decide only about a card that you chose.");
      else run(one, app);
    };
    return [
      { keys: ["d"], show: "d", does: "deny", run: on(null, (one) => deny(one, app)) },
      { keys: ["o"], show: "o", does: "allow once", run: on("allow", (one) => allow(one, app)) },
      { keys: ["n"], show: "n", does: "deny a plan, and be asked about its calls one by one", run: on(null, (one) => one.card.kind === "plan" && oneByOne(one, app)) },
      { keys: ["t"], show: "t", does: "allow and remember the target", run: on("targets", (one) => allow(one, app, "targets")) },
      { keys: ["V"], show: "V", does: "allow: the value is right, for this session", run: on("values", (one) => allow(one, app, "values")) },
      { keys: ["s"], show: "s", does: "allow for this session", run: on("session", (one) => allow(one, app, "session")) },
      { keys: ["A"], show: "A", does: "allow always (opens the rule editor)", run: on("always", (one) => always(one, app)) },
      { keys: ["e"], show: "e", does: "edit", run: () => document.querySelector("[data-edit]")?.click() },
      { keys: ["v"], show: "v", does: "show as JSON", run: () => { const draft = draftOf(matter()); if (draft) { draft.tab = draft.tab === "raw" ? "form" : "raw"; app.render(); } } },
      { keys: ["r"], show: "r", does: "enter a reason for the denial", run: () => document.getElementById("reason")?.focus() },
      { keys: ["j", "ArrowDown"], show: "j", does: "choose the card that is shown, then the next one", run: () => step(data, found, 1) },
      { keys: ["k", "ArrowUp"], show: "k", does: "the previous card", run: () => step(data, found, -1) },
    ];
  },
};

function take(all) {
  setHostTime(all.now);
  for (const id of drafts.keys()) if (!all.open.some((one) => one.id === id)) drafts.delete(id);
  return all;
}

/** The call that a card belongs to: its result and what its server asks for are further steps of it. */
const callOf = ({ server, profile, application, card }) => JSON.stringify([server, profile ?? null, application ?? null, card.cause ?? card.name ?? null]);

/** The card that is shown: the one of the address, the next step of the call that was decided last, the one that was shown already, its neighbour, else the oldest. */
function chosen(data, { id }) {
  if (id) return [...data.open, ...data.recent].find((one) => one.id === id);
  const same = data.open.find((one) => one.id === shownId);
  if (same && same.id === chosenId) return same;
  const isFollowing = last !== undefined && performance.now() - last.at < FOLLOW;
  const next = isFollowing ? data.open.find((one) => one.card.kind !== "call" && callOf(one) === last.call && !last.before.has(one.id)) : undefined;
  return next ?? same ?? last?.beside.map((beside) => data.open.find((one) => one.id === beside)).find(Boolean) ?? data.open[0];
}

function draftOf(matter) {
  if (!matter) return null;
  if (!drafts.has(matter.id)) drafts.set(matter.id, { tab: "form", reason: "", region: `matter ${matter.id}`, canEdit: matter.offers.edit && matter.state === "open" });
  return drafts.get(matter.id);
}

function step({ open }, found, by) {
  const now = chosen({ open, recent: [] }, found);
  if (now && now.id !== chosenId) {
    choose(now.id);
    return;
  }
  const at = open.indexOf(now);
  const next = open[Math.min(open.length - 1, Math.max(0, at + by))];
  if (next) choose(next.id);
}

/** Shows a card that the person has chosen. */
function choose(id) {
  chosenId = id;
  // The list has it: a key that follows at once, such as the decision, must not meet a page that is being fetched.
  go(`/approvals/${id}`, true);
}

const isArmed = () => performance.now() - armedAt >= ARMING;

function view(data, found, app) {
  const { open } = data;
  const missed = data.recent.filter((one) => one.state === "expired");
  const recent = data.recent.filter((one) => one.state !== "expired");
  redraw = () => app.render();
  lookSoon();
  const matter = chosen(data, found);
  // An address that was opened is a choice as well.
  if (found.id !== addressId && found.id && matter?.state === "open") chosenId = matter.id;
  addressId = found.id;
  if (matter?.id !== shownId) {
    shownId = matter?.id;
    armedAt = performance.now();
    setTimeout(() => app.render(), ARMING + 20);
    // No is what is at hand; but nobody is taken out of what they type.
    if (matter?.state === "open") setTimeout(() => !document.activeElement?.matches?.("input, textarea, select") && document.querySelector("[data-deny]")?.focus({ preventScroll: true }));
  }
  return [
    head("Approvals", open.length > 0 && h("span", { class: "soft" }, many(open.length, "waiting", "waiting"))),
    sinceLastVisit(data.recent),
    open.length === 0 && !matter && h("div", { class: "empty", key: "none" }, h("p", null, "No pending approvals."), h("p", { class: "small" }, "Calls that require approval under the policy appear here. Without a policy file, the guard asks only about calls that are unusual.")),
    found.id && !matter && h("p", { class: "problem", key: "gone" }, "This approval was decided long ago or does not exist."),
    (open.length > 0 || matter) && h("div", { class: open.length > 1 && matter ? "desk" : "desk one", key: "desk" },
      (open.length > 1 || !matter) && h("ul", { class: "queue", key: "queue", "aria-label": "Waiting" }, open.map((one) => queued(one, matter, choose))),
      matter && (matter.state === "open" ? card(matter, open, app) : over(matter))),
    missed.length > 0 && h("section", { key: "missed", class: "recent", "data-missed": true }, h("h2", null, "Missed"),
      h("p", { class: "soft small" }, "These were not decided in time and were refused. The requester can ask again."),
      h("ul", { class: "entries" }, missed.slice(0, 12).map(decided))),
    recent.length > 0 && h("section", { key: "recent", class: "recent" }, h("h2", null, "Recent"),
      h("ul", { class: "entries" }, recent.slice(0, 12).map(decided))),
  ];
}

function card(matter, open, app) {
  const draft = draftOf(matter);
  const change = (more) => { Object.assign(draft, { problem: undefined, ...more }); app.render(); lookSoon(); };
  lookAtFile(matter, draft, change);
  lookForSigns(matter, draft, app);
  return frame(matter, draft, {
    position: open.indexOf(matter) + 1, count: open.length, isChosen: matter.id === chosenId, isBusy,
    waits: !isArmed() || isBusy, isBegun: isBegun(draft.region), isShown: isSeen(draft.region),
    change, render: () => app.render(),
    deny: (block) => deny(matter, app, block), allow: (scope) => allow(matter, app, scope), always: () => always(matter, app), oneByOne: () => oneByOne(matter, app),
    give: (decision, said) => canAllow(matter) && decide(matter, decision, said, app).catch(() => {}),
  });
}

/** Fetches what is unusual about a call by what was recorded before, once for a card. */
function lookForSigns(matter, draft, app) {
  if (matter.card.kind !== "call" || draft.signs !== undefined) return;
  draft.signs = [];
  get(`approvals/${path(matter.id)}/signs`).then(({ signs }) => { draft.signs = signs; app.render(); }, () => {});
}

/** Whether what a card is about has been on screen, so that it can be decided at all; brings it into view where it was not. */
function canDecide(matter, isWhole) {
  if (!isArmed() || isBusy) return false;
  const { region } = draftOf(matter);
  if (isWhole ? isSeen(region) : isBegun(region)) return true;
  showNext([region]);
  return false;
}

const canAllow = (matter) => canDecide(matter, true);

async function decide(matter, decision, said, app) {
  if (!isArmed() || isBusy) return;
  isBusy = true;
  const open = [...document.querySelectorAll(".queued")].map((row) => row.pathname.split("/").at(-1));
  const at = open.indexOf(matter.id);
  app.render();
  try {
    const { state } = await post(`approvals/${path(matter.id)}`, decision);
    toast(said);
    announce(said);
    isBusy = false;
    // A call that was denied has no next step.
    const call = state === "allowed" ? callOf(matter) : undefined;
    last = { call, at: performance.now(), before: new Set(open), beside: [...open.slice(at + 1), ...open.slice(0, Math.max(0, at)).reverse()] };
    shownId = undefined;
    chosenId = undefined;
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

function deny(matter, app, block = false) {
  if (!canDecide(matter, false)) return undefined;
  const reason = draftOf(matter).reason.trim();
  const [what] = title(matter);
  return decide(matter, { decision: "deny", ...(reason && { reason }), ...(block && { block }) }, block ? `${what} is denied from now on.` : `Denied: ${what}.`, app).catch(() => {});
}

/** Told to the model when the person wants to decide about each call of a plan by itself. */
const ONE_BY_ONE = "make the calls one by one; the person decides about each";

/** Denies a plan, so that each of its calls is asked about. */
function oneByOne(matter, app) {
  return decide(matter, { decision: "deny", reason: ONE_BY_ONE }, "You are asked about each call.", app).catch(() => {});
}

const SCOPE_WORDS = {
  session: (what) => `${what} is allowed for this session.`,
  targets: (what) => `Allowed once: ${what}. Its target is remembered for 30 days.`,
  values: (what) => `Allowed once: ${what}. The value is right for this session.`,
};

function allow(matter, app, scope) {
  const [what] = title(matter);
  if (!canAllow(matter)) return undefined;
  if (draftOf(matter).problem?.startsWith("This is not valid JSON")) return undefined;
  return decide(matter, { decision: "allow", ...edited(matter), ...(scope && { scope }) }, SCOPE_WORDS[scope]?.(what) ?? done(matter), app).catch(() => {});
}

function always(matter, app) {
  if (!canAllow(matter)) return undefined;
  const [what] = title(matter);
  const { edited: other } = edited(matter);
  return editRule(matter, other ?? original(matter), (permission) => decide(matter, { decision: "allow", ...(other !== undefined && { edited: other }), scope: { always: permission } }, `${what} is allowed within this rule.`, app));
}
