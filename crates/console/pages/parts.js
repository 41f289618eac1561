// What pages are put together from.

import { h } from "./dom.js";

/** The head of a page. */
export function head(title, ...beside) {
  return h("div", { class: "head", key: "head" }, h("h1", null, title), beside.length > 0 && h("div", { class: "head-side" }, beside));
}

/** What is wrong with the audit record, if anything is. */
export function recordProblem(status) {
  return status.recordProblem && h("div", { class: "problem", key: "record-problem", role: "alert", "data-record-problem": true }, `Audit record: ${status.recordProblem}`);
}

/** Goes to another page of the console. */
export function go(path) {
  dispatchEvent(new CustomEvent("hospes:go", { detail: path }));
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
