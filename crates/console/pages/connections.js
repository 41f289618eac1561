// Connecting applications: the change of each file before it is made, and its undo beside it.

import { path, post } from "./api.js";
import { announce, h } from "./dom.js";
import { copyButton } from "./parts.js";

const STATES = { connected: ["connected", "ready"], "not-connected": ["not connected", "stopped"], changed: ["has another entry `hospes`", "retrying"], gone: ["the entry is gone", "retrying"], unreadable: ["cannot be read", "failed"] };

/** By application: the change that would be made, what has happened, and what went wrong. */
const known = new Map();
const of = (id) => known.get(id) ?? {};

async function act(one, action, app) {
  const put = (more) => { known.set(one.id, { ...of(one.id), ...more }); app.render(); };
  put({ isBusy: true, problem: undefined });
  try {
    const answer = await post(`setup/connections/${path(one.id)}/${action}`, action === "connect" ? { digest: of(one.id).digest } : {});
    if (action === "preview") {
      put({ isBusy: false, diff: answer.diff ?? "", digest: answer.digest, takesEffect: answer.takesEffect });
      return;
    }
    put({ isBusy: false, diff: undefined, takesEffect: answer.takesEffect ?? of(one.id).takesEffect, isChanged: action === "connect" });
    announce(action === "connect" ? `${one.name} is connected.` : `${one.name} is disconnected; its file is as it was before.`);
    app.refresh();
  } catch (error) {
    // The file may have changed since its change was shown, so that is shown anew.
    put({ isBusy: false, problem: error.message, diff: undefined });
  }
}

const line = (text, at) => h("span", { key: at, class: `diff-line ${text.startsWith("+") ? "new" : text.startsWith("-") ? "gone" : "same"}` }, text === "" ? "\u00a0" : text);

/** A command to type, with a button that copies it. */
export const command = (text, label) => h("p", { class: "command" }, h("code", null, text), copyButton(text, label ?? `Copy “${text}”`));

/** An application with its state. `canChange` says whether its file can be changed from here. */
export function application(one, canChange, app) {
  const [words, kind] = STATES[one.state] ?? [one.state, "stopped"];
  const { diff, problem, isBusy, isChanged, takesEffect } = of(one.id);
  const isConnected = one.state === "connected";
  const button = (action, text, more = {}) => h("button", { type: "button", key: action, [`data-${action}`]: one.id, "data-focus": true, disabled: isBusy === true, onclick: () => act(one, action, app), ...more }, text);
  return h("li", { class: "card", key: one.id, "data-row": true, "data-application": one.id },
    h("div", { class: "card-head" }, h("h2", null, one.name), h("span", { class: `state ${kind}` }, words)),
    h("p", { class: "target" }, one.file),
    (problem ?? one.problem) && h("p", { class: "warn", key: "problem", role: "alert" }, problem ?? one.problem),
    isConnected && isChanged && takesEffect && h("p", { class: "small", key: "effect", role: "status" }, `In ${one.name}: ${takesEffect}`),
    diff !== undefined && !isConnected && h("div", { key: "diff", role: "region", "aria-label": `Change of ${one.file}`, class: "code whole file-diff", tabindex: "0" }, diff.trimEnd().split("\n").map(line)),
    canChange && h("div", { class: "buttons", key: "do" },
      isConnected ? button("disconnect", "Undo", { "aria-label": `Undo: disconnect ${one.name}` })
        : diff === undefined ? one.state !== "unreadable" && button("preview", "Show the change")
          : [button("connect", `Change the file of ${one.name}`), h("button", { type: "button", key: "not", class: "quiet", onclick: () => { known.delete(one.id); app.render(); } }, "Not now")]),
    h("details", { key: "type" }, h("summary", { class: "soft small", "data-focus": canChange ? null : true }, isConnected ? "Undo in a terminal" : "In a terminal"), command(`hospes ${isConnected ? "disconnect" : "connect"} ${one.id}`)));
}
