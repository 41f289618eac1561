// The frame of a card: the sentence, what is unusual and why it is asked beside the content, and the decisions.

import { left, here, WORDS } from "./approval_rows.js";
import { body, risk, yes } from "./card.js";
import { coded, h } from "./dom.js";
import { firstLook, isIrreversible, remembered, targetsOf } from "./first_look.js";
import { ago } from "./format.js";
import { showNext } from "./seen.js";
import { sentenceHeading } from "./sentence.js";
import { suggestion } from "./suggestion.js";

const noEnter = (event) => event.key === "Enter" && event.preventDefault();

/** The content on the left, what is said about it on the right; one below the other where there is no room. */
function columns(matter, parts, draft, suggested) {
  const [content, ...others] = parts;
  return h("div", { class: "matter-body", key: "body" },
    matter.card.kind === "call" && firstLook(matter, draft.signs),
    h("div", { class: "content", key: "content" }, content, suggested),
    h("div", { class: "about", key: "about" }, others));
}

/** The parts of a card, the content first. */
function partsOf(matter, draft, change) {
  const parts = body(matter, draft, change).flat().filter(Boolean);
  const at = Math.max(0, parts.findIndex((part) => part.classList?.contains("values")));
  return [parts[at], ...parts.slice(0, at), ...parts.slice(at + 1)];
}

/** Number of groups of a person that a card shows. */
const MOST_GROUPS = 8;

/** Whose call it is, where it is not the reader's own: the first thing that an approver reads. */
function ofOther({ is_own: isOwn, principal, requester_name: name, groups }) {
  if (isOwn) return null;
  const person = principal ?? "somebody who is not signed in";
  return h("p", { class: "of-other", key: "other", "data-of-other": true }, h("span", { class: "soft" }, "For "), h("strong", null, name ?? person),
    name !== undefined && h("span", { class: "soft small mono" }, ` ${person}`),
    (groups ?? []).slice(0, MOST_GROUPS).map((group) => h("span", { class: "chip", key: group }, group)),
    groups?.length > MOST_GROUPS && h("span", { class: "soft small", key: "more" }, `and ${groups.length - MOST_GROUPS} more groups`));
}

/** Who can allow a call that its own person cannot. */
function waitsFor({ waits_for: groups, may_allow: mayAllow }) {
  if (groups === undefined) return null;
  return h("p", { class: "small waits-for", key: "waits-for", "data-waits-for": true }, "Waits for a member of ", coded(groups), mayAllow ? "." : ". You can deny it, and not allow it.");
}

/** The card of something that waits. `to` says how it stands, and what decides about it. */
export function frame(matter, draft, to) {
  const { session, always, block, targets, values } = matter.offers;
  const holds = to.waits || !to.isShown;
  const holdsAll = to.waits || !to.isBegun;
  const isPlan = matter.card.kind === "plan";
  const isFinal = isIrreversible(matter);
  const choice = (name, key, words, run, title) => h("button", {
    type: "button", [`data-${name}`]: true, key: name, title, "aria-disabled": String(holds), "aria-keyshortcuts": key.length === 1 && key !== key.toLowerCase() ? `Shift+${key}` : key, onkeydown: noEnter, onclick: run,
  }, words, " ", h("kbd", null, key));
  return h("article", { class: `matter ${risk(matter)} ${isFinal ? "final" : ""} ${to.isChosen ? "chosen" : ""}`, key: matter.id, "aria-labelledby": "matter-title" },
    h("header", { class: "matter-head" },
      h("div", null, isFinal && h("p", { class: "final-mark", key: "final" }, "Cannot be undone"),
        ofOther(matter),
        h("h2", { id: "matter-title", class: "call-heading" }, sentenceHeading(matter)), waitsFor(matter)),
      h("p", { class: "countdown", title: "No decision counts as a denial" }, h("span", { class: "until", "data-until": matter.expires_at, role: "timer" }, left(matter.expires_at)),
        h("span", { class: "soft small place" }, to.position > 0 && `${to.position} of ${to.count}, `, `asked ${ago(here(matter.asked_at))}`))),
    columns(matter, partsOf(matter, draft, to.change), draft, suggestion(matter, draft, holds, to)),
    h("footer", { class: "matter-foot", "data-covers": true },
      !to.isShown && h("p", { class: "small unshown", key: "unshown" }, h("span", null, "Not fully shown yet. "), h("button", { type: "button", class: "quiet", "data-show-next": true, onclick: () => showNext([draft.region]) }, "Show the rest")),
      draft.problem && h("p", { class: "problem", role: "alert", key: "problem" }, draft.problem),
      h("div", { class: "choices", key: "choices" },
        h("button", { type: "button", "data-deny": true, "data-focus": true, key: "deny", disabled: to.isBusy, "aria-disabled": String(holdsAll), "aria-keyshortcuts": "d", onclick: () => to.deny() }, "Deny ", h("kbd", null, "d")),
        matter.may_allow && choice("once", "o", yes(matter), () => to.allow()),
        isPlan && h("button", { type: "button", "data-one-by-one": true, key: "one-by-one", disabled: to.isBusy, "aria-disabled": String(to.waits), "aria-keyshortcuts": "n", onkeydown: noEnter, onclick: () => to.oneByOne() }, "Ask one by one ", h("kbd", null, "n")),
        targets && choice("targets", "t", ["Allow and remember ", h("span", { class: "mono" }, remembered(matter.card)), " for 30 days"], () => to.allow("targets"), `You are not asked again because this target is new: ${targetsOf(matter.card).join(", ")}`),
        session && choice("session", "s", "Allow for this session", () => to.allow("session"), `For ${matter.session ?? "this session"}, with any arguments, unless the rules change`),
        // The weakest choice comes last.
        values && choice("values", "V", "This value is right, for this session", () => to.allow("values"), "Calls that can be undone are not asked about because of this value")),
      h("div", { class: "deny", key: "deny-more" },
        h("input", { id: "reason", class: "reason", placeholder: "Reason for a denial, sent to the model", "aria-label": "Reason for a denial, sent to the model", maxlength: 500, value: draft.reason, autocomplete: "off",
          oninput: (event) => { draft.reason = event.target.value; }, onkeydown: (event) => { if (event.key === "Enter") to.deny(); } }),
        block && h("button", { type: "button", class: "quiet", "data-block": true, "aria-disabled": String(holdsAll), onclick: () => to.deny(true), title: "Denies all such requests from now on" }, "Deny and block"),
        always && h("button", { type: "button", class: "link", "data-always": true, "aria-disabled": String(holds), "aria-keyshortcuts": "Shift+A", onkeydown: noEnter, onclick: () => to.always() }, "Always …")),
      !to.isChosen && h("p", { class: "small soft choose-first", key: "keys" }, h("kbd", null, "j"), " or a click on the card chooses it; then keys decide.")));
}

/** The card of something that was decided. */
export function over(matter) {
  const [word, kind] = WORDS[matter.state] ?? [matter.state, "other"];
  const { decided: how } = matter;
  const draft = { tab: "form", canEdit: false, value: how?.edited };
  return h("article", { class: "matter over", key: matter.id },
    h("header", { class: "matter-head" }, h("div", null, ofOther(matter), h("h2", { class: "call-heading" }, sentenceHeading(matter)),
      h("p", { class: "small" }, h("span", { class: `ending ${kind}` }, word), how ? ` by ${how.by}, ${ago(new Date(how.at))}` : matter.node_ended ? ", because the node at which the call waited has ended" : ", because there was no decision in time or the requester disconnected",
        how?.reason && `: ${how.reason}`))),
    columns(matter, partsOf(matter, draft, () => {}), draft, null));
}
