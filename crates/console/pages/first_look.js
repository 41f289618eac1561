// What a card about a call says first: what it does and to whom, what is unusual, and where the values come from. The words
// are those of Hospes; the targets, values and excerpts of others stand apart from them.

import { coded, h } from "./dom.js";
import { time } from "./format.js";
import { serverLabel } from "./sentence.js";

/** How many values are shown with their source before the rest of the card. */
const MAX_SOURCES = 2;

const FINDINGS = {
  untrusted: "in a text that somebody else wrote", unknown: "not approved before", private: "from private data", secret: "a secret of another server",
  address: "a private or local address", shell: "has characters that a shell interprets",
};

/** A text with every occurrence of these values marked. */
export function highlighted(text, values) {
  const wanted = [...new Set(values)].filter((value) => value !== "").sort((a, b) => b.length - a.length);
  const parts = [];
  let rest = text;
  while (rest !== "") {
    const found = wanted.map((value) => [rest.indexOf(value), value]).filter(([at]) => at >= 0).sort((a, b) => a[0] - b[0])[0];
    if (!found) break;
    const [at, value] = found;
    parts.push(rest.slice(0, at), h("mark", null, value));
    rest = rest.slice(at + value.length);
  }
  return [...parts, rest];
}

/** The values to be marked in a member of the arguments, by the JSON pointers of the card. */
export function marksOf(marks, name) {
  const at = `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  return (marks ?? []).filter((one) => one.pointer === at || one.pointer.startsWith(`${at}/`)).map((one) => one.value);
}

/** Whether what the card is about cannot be undone. */
export const isIrreversible = ({ card }) => (card.kind === "plan" ? card.calls.some((one) => one.summary.irreversible) : card.kind === "call" && card.summary?.irreversible === true);

/** The heading: the verb in words of ours, and the targets in full. */
export function callHeading({ card }) {
  const { verb, preposition, targets = [], more_targets: more = 0 } = card.summary ?? {};
  return [h("span", { class: "verb" }, verb || "Call a tool"), preposition && targets.length > 0 && h("span", { class: "soft" }, ` ${preposition}`),
    targets.map((target, at) => [at > 0 && h("span", { class: "soft" }, ","), " ", h("span", { class: "mono goal" }, target)]),
    more > 0 && h("span", { class: "soft" }, ` and ${more} more`)];
}

/** What is unusual, with the sources of the values that are, and why it is asked. `signs` are what earlier calls show. */
export function firstLook(matter, signs = []) {
  const { card, application } = matter;
  const values = card.guard?.values ?? [];
  const withSource = values.filter((one) => one.source);
  const shown = withSource.slice(0, MAX_SOURCES);
  const more = withSource.length - shown.length;
  const { unusual } = card.summary ?? {};
  return h("section", { class: "first-look", key: "first-look", "aria-label": "Why you are asked" },
    unusual && h("p", { class: "unusual", "data-unusual": true, key: "unusual" }, unusual),
    signs.length > 0 && h("ul", { class: "signs", key: "signs", "data-signs": true }, signs.map((sign) => h("li", { key: sign }, sign))),
    shown.map((one) => source(one)),
    h("p", { class: "because", key: "because" }, h("span", { class: "soft" }, "Asked because: "), coded(card.because)),
    h("p", { class: "soft small by", key: "by" }, h("code", null, card.name), ` of ${serverLabel(matter)}, asked by ${application ?? "an unnamed application"}`, application && " (name not verified)",
      more > 0 && `. ${more} more ${more === 1 ? "value" : "values"} below.`));
}

/** A value in the text in which it stands. */
export function source({ value, source: from, pointer }) {
  const { server, name, at, before = "", found = "", after = "" } = from;
  return h("figure", { class: "origin", key: `${pointer} ${value}`, "data-origin": value },
    h("blockquote", null, found === "" ? [h("mark", null, value), h("span", { class: "soft" }, " in an encoded form")] : ["… ", before, h("mark", null, found), after, " …"]),
    h("figcaption", { class: "soft small" }, "from ", h("strong", null, server), " · ", h("span", { class: "mono" }, name), " · ", time(new Date(at))));
}

/** All values that the guard points out: below the arguments. */
export function findings({ guard }) {
  if (!guard || guard.values.length === 0) return null;
  return h("section", { key: "findings" }, h("h3", null, "What was found"), h("ul", { class: "findings" }, guard.values.map((one) => h("li", { key: `${one.pointer} ${one.value}` },
    h("mark", { class: "mono" }, one.value), h("span", { class: "soft" }, ` at ${one.pointer}: ${FINDINGS[one.finding] ?? one.finding}`, one.source && `, from ${one.source.server} · ${one.source.name}`)))));
}

/** The targets that "remember" would remember. */
export const targetsOf = (card) => (card.kind === "plan" ? [...new Set(card.calls.flatMap((one) => one.guard?.targets ?? []))] : card.guard?.targets ?? []);

/** What "remember" would remember, in full where it is one. */
export function remembered(card) {
  const targets = targetsOf(card);
  return targets.length === 1 ? targets[0] : `these ${targets.length} targets`;
}

/** What the session has read that a call could send out. */
export function dataFlow(read) {
  const names = (all) => all.map((name, at) => [at > 0 && ", ", h("span", { class: "mono" }, name)]);
  return h("span", { class: "data-flow" }, "this session has read private data from ", names(read.private), " and untrusted text from ", names(read.untrusted), "; this can send things out");
}
