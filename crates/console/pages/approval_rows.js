// Rows of the approvals page: what waits, what is over, and what was missed.

import { title, risk } from "./card.js";
import { h } from "./dom.js";
import { ago, many } from "./format.js";
import { go } from "./parts.js";
import { rowParts, rowText } from "./sentence.js";

/** Difference between the clocks of the host and of this browser, in milliseconds. */
let offset = 0;

export const setHostTime = (now) => { offset = new Date(now) - Date.now(); };

/** A moment of the host on the clock of this browser. */
export const here = (moment) => new Date(new Date(moment) - offset);

export function left(until) {
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

export const WORDS = { allowed: ["allowed", "well"], denied: ["denied", "refused"], expired: ["expired", "refused"], withdrawn: ["withdrawn", "other"], open: ["pending", "other"] };

/** Whose call it is, if it is somebody else's. */
const otherPerson = (one) => !one.is_own && h("span", { class: "small of-other" }, `for ${one.requester_name ?? one.principal ?? "somebody who is not signed in"}`);

/** A waiting call: application, verb and target, then the tool and its server. */
export function queued(one, matter, choose) {
  const [what, server] = title(one);
  const [verb, target] = rowParts(one);
  return h("li", { key: one.id, "data-row": true }, h("a", {
    href: `/approvals/${one.id}`, class: `queued ${risk(one)} ${one.id === matter?.id ? "here" : ""}`, "aria-current": one.id === matter?.id ? "true" : null, "data-focus": true, title: rowText(one),
    onclick: (event) => { event.preventDefault(); choose(one.id); },
  }, otherPerson(one), h("span", { class: "what" }, h("strong", null, one.sentence.who), h("span", { class: "soft" }, ` · ${verb}`)),
  target && h("span", { class: "mono gist" }, target), h("span", { class: "soft small from" }, `${what} of ${server}`),
  h("span", { class: "until", "data-until": one.expires_at }, left(one.expires_at))));
}

/** An approval that is over. */
export function decided(one) {
  const [what, server] = title(one);
  const [word, kind] = WORDS[one.state] ?? [one.state, "other"];
  return h("li", { class: "entry", key: one.id }, h("a", { class: "entry-line decided", href: `/approvals/${one.id}`, onclick: (event) => { event.preventDefault(); go(`/approvals/${one.id}`); } },
    h("span", { class: "when" }, ago(new Date(one.decided?.at ?? one.asked_at))), h("span", { class: `ending ${kind}` }, word),
    h("span", { class: "what" }, otherPerson(one), !one.is_own && " ", rowText(one), h("span", { class: "soft small mono" }, ` ${what} of ${server}`)),
    h("span", { class: "who soft" }, one.decided ? [one.decided.by.split(/, browser session|:/)[0], one.decided.edited !== undefined && one.card.kind !== "form" && ", edited"] : "")));
}

const VISIT = "hospes-approvals-visit";
/** Time without a look at the page after which another look is another visit, in milliseconds. */
const VISIT_GAP = 60_000;
let lastVisit;
let lastLook = -Infinity;

/** What waited and was refused since the last visit; nothing on the first visit and where nothing did. */
export function sinceLastVisit(recent) {
  const now = Date.now();
  if (now - lastLook > VISIT_GAP) lastVisit = Number(localStorage.getItem(VISIT) ?? Number.NaN);
  lastLook = now;
  if (document.visibilityState === "visible") localStorage.setItem(VISIT, String(now));
  if (Number.isNaN(lastVisit)) return null;
  const waited = recent.filter((one) => here(one.asked_at) > lastVisit);
  const refused = waited.filter((one) => one.state === "expired").length;
  return refused > 0 && h("p", { class: "lead", key: "visit", "data-visit": true },
    `Since your last visit (${ago(new Date(lastVisit))}): ${many(waited.length, "request")} waited, and ${refused === 1 ? "1 was" : `${refused} were`} refused because nobody decided.`);
}
