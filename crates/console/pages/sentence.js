// The sentence about an approval, which the host makes: who wants to do what to which thing, and how much of it.

import { h, visible } from "./dom.js";

/** The sentence as a heading: what is done and the things it is done to stand out. */
export function sentenceHeading({ sentence: said }) {
  return [
    h("span", { class: "asker" }, said.who), h("span", { class: "soft" }, ` ${said.modal} `), h("span", { class: "verb" }, said.verb),
    said.targets.length > 0 && said.preposition && h("span", { class: "soft" }, ` ${said.preposition}`),
    said.targets.map((target, at) => [at > 0 && h("span", { class: "soft" }, ","), " ", h("span", { class: "mono goal" }, target)]),
    said.more_targets > 0 && h("span", { class: "soft" }, ` and ${said.more_targets} more`),
    said.amount && h("span", { class: "amount" }, `: ${said.amount}`)];
}

/** The server of an approval as a person knows it, which tells its account: `git`, or `git (profile work)`. */
export const serverLabel = ({ server, profile }) => (profile === undefined ? server : `${server} (profile ${profile})`);

/** The last part of a path or URL, and any other text as it is. */
function lastPart(target) {
  if (!/^[/~]|:\/\//.test(target)) return target;
  return target.replace(/\/+$/, "").split("/").at(-1) || target;
}

/** `edit`, `notes.md`: what tells one row from another. */
export const rowParts = ({ sentence: said }) => [said.verb, said.targets.length > 0 ? lastPart(said.targets[0]) : ""];

/** The same in one text: `Cursor · edit · notes.md`. */
export const rowText = (one) => [one.sentence.who, ...rowParts(one)].filter(Boolean).map((part) => visible(part)).join(" · ");
