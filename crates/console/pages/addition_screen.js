// The rows about a server that is being added, as the terminal has them: what is unusual first.

import { h } from "./dom.js";

/** Labels whose text is a command, a hash or an address. */
const CODE = new Set(["command", "hash", "url"]);

/** What is unusual; nothing where nothing is. */
export function unusual({ rows }) {
  const warnings = rows.filter((row) => row.isWarning);
  return warnings.length > 0 && h("ul", { class: "unusual-list", key: "unusual", "aria-label": "What is unusual" }, warnings.map(({ text }) => h("li", { class: "warn", key: text }, text)));
}

/** The other rows. A row without a label goes on with the one before. */
export function facts({ rows }) {
  const groups = [];
  for (const { label, text, isWarning } of rows) {
    if (isWarning) continue;
    if (label === "" && groups.length > 0) groups.at(-1).texts.push(text);
    else groups.push({ label, texts: [text] });
  }
  return groups.length > 0 && h("dl", { class: "facts", key: "facts" }, groups.map(({ label, texts }) => h("div", { key: label },
    h("dt", null, label), h("dd", { class: CODE.has(label) ? "mono" : null }, texts.map((text, at) => h("p", { key: at }, text))))));
}
