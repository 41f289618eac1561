// What pages are put together from.

import { announce, coded, h, toast } from "./dom.js";
import { time } from "./format.js";

/** The head of a page. */
export function head(title, ...beside) {
  return h("div", { class: "head", key: "head" }, h("h1", null, title), beside.length > 0 && h("div", { class: "head-side" }, beside));
}

/** Files that were changed and could not be used: the mistakes, and since when. */
export function fileProblems(status) {
  return (status.fileProblems ?? []).map((one) => h("div", { class: "problem", key: `file ${one.file}`, role: "alert", "data-file-problem": one.file },
    h("p", null, h("span", { class: "mono" }, one.file), ` has had a mistake since ${time(new Date(one.since), false)}, and what it said before remains in effect:`), h("p", null, coded(one.problem))));
}

/** The reason for which a server was not started, with its place in the file last. */
export function leftOutReason(why) {
  return why.split("\n").map((line) => line.replace(/^(.+?:\d+:\d+): (.*)$/u, "$2 ($1)")).join("; ");
}

/** Servers that were not started because of a mistake: name and reason. Those that are disabled are not among them. */
export const mistaken = (status) => (status.leftOut ?? []).filter(([, why]) => why !== "disabled");

/** True if nothing of the server can be used until a person has reviewed it. */
export const waitsForReview = (server) => server.needsReview === true || server.state === "withheld";

/** The state of a server, as the style sheets name it. */
export const stateOf = (server) => (waitsForReview(server) ? "withheld" : server.state);

/** What is wrong with the audit record, if anything is. */
export function recordProblem(status) {
  return status.recordProblem && h("div", { class: "problem", key: "record-problem", role: "alert", "data-record-problem": true }, `Audit record: ${status.recordProblem}`);
}

/**
 * Goes to another page of the console. With `isKept` the address is of the page that is shown, and so is what it is about: it
 * is drawn at once, and its keys work on.
 */
export function go(path, isKept = false) {
  dispatchEvent(new CustomEvent("hospes:go", { detail: { path, isKept } }));
}

/** A link to another page of the console. */
export function inside(path, props, ...children) {
  return h("a", {
    ...props, href: path,
    onclick: (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      go(path);
    },
  }, ...children);
}

/** A button that copies a text, exactly as it is. */
export function copyButton(text, label, words = "Copy") {
  return h("button", { type: "button", class: "quiet copy", "aria-label": label, title: label, "data-copy": text, onclick: async (event) => {
    const button = event.currentTarget;
    try {
      await navigator.clipboard.writeText(text);
      announce("Copied.");
      button.classList.add("is-done");
      setTimeout(() => button.classList.remove("is-done"), 1500);
    } catch {
      toast("The browser does not let this page copy. Select the text instead.", "bad");
    }
  } }, h("span", { class: "copy-words" }, words), h("span", { class: "copied", "aria-hidden": "true" }, "Copied"));
}
