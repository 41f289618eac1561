// The checks of a server, as `hospes doctor` makes them: the steps as they end, and what mends the one that fails.

import { path, stream } from "./api.js";
import { announce, h } from "./dom.js";
import { many } from "./format.js";
import { copyButton, inside } from "./parts.js";
import { signInButton } from "./sign_in.js";

/** The checks of this window, by server: `{ checks, isRunning, isWell, problem, request }`. */
const all = new Map();

const SIGNS = { ok: ["✓", "fine"], warning: ["▲", "warning"], ignored: ["–", "ignored"], fault: ["✗", "failed"], not_reached: ["–", "not reached"] };

export const isChecking = (server) => all.get(server)?.isRunning === true;

/** Runs the checks of a server. */
export async function runChecks(server, app) {
  if (isChecking(server)) return;
  const mine = { checks: [], isRunning: true, request: new AbortController() };
  all.set(server, mine);
  announce(`Checking ${server}.`);
  app.render();
  const heard = ({ event, ...said }) => {
    if (event === "check") mine.checks.push(said);
    // The report is the last word: a later step may have found the cause of an earlier one.
    else if (event === "report") [mine.checks, mine.isWell] = [said.checks, said.ok];
    else if (event === "failed") mine.problem = said.message;
    if (all.get(server) === mine) app.render();
  };
  try {
    await stream(`servers/${path(server)}/check`, {}, mine.request.signal, heard);
    if (mine.isWell === undefined) mine.problem ??= "the checks were not completed";
  } catch (error) {
    mine.problem = error.name === "AbortError" ? "the checks were ended" : error.message;
  }
  mine.isRunning = false;
  if (all.get(server) !== mine) return;
  announce(summary(server, mine));
  app.render();
}

/** The button. It stays where the focus is while the checks run. */
export const checkButton = (server, app, what = "Check this server") => h("button", {
  type: "button", class: "quiet", "data-check-server": server, "aria-label": isChecking(server) ? null : `${what}: ${server}`, "aria-disabled": isChecking(server) ? "true" : null, onclick: () => runChecks(server, app),
}, isChecking(server) ? "Checking …" : what);

const found = (mine, status) => mine.checks.filter((check) => check.status === status);

function summary(server, mine) {
  const [fault] = found(mine, "fault");
  if (fault) return `${server} fails at the step “${fault.step}”: ${fault.what}.`;
  if (mine.problem) return `${server}: ${mine.problem}`;
  const warnings = found(mine, "warning").length;
  return warnings > 0 ? `${server} works, with ${many(warnings, "warning")}.` : `Everything that was checked of ${server} is well.`;
}

/** The checks that were run in this window, or nothing. */
export function checkPanel(server, account, app) {
  const mine = all.get(server);
  if (!mine) return null;
  const state = mine.isRunning ? "running" : mine.isWell === true ? (found(mine, "warning").length > 0 ? "warning" : "ok") : "fault";
  return h("section", { class: `card checks ${state}`, key: `checks ${server}`, "data-checks": state, "aria-label": `Checks of ${server}` },
    h("div", { class: "card-head" },
      h("h2", null, mine.isRunning ? `Checking ${server} …` : summary(server, mine)),
      h("div", { class: "card-side" }, mine.isRunning
        ? h("button", { type: "button", class: "quiet", "data-end-checks": server, key: "end", onclick: () => mine.request.abort() }, "Cancel")
        : h("button", { type: "button", class: "quiet", "data-close-checks": server, key: "close", "aria-label": `Close the checks of ${server}`, onclick: () => { all.delete(server); app.render(); document.querySelector(`[data-check-server='${CSS.escape(server)}']`)?.focus(); } }, "Close"))),
    mine.isRunning && h("progress", { key: "bar", "aria-label": "Progress of the checks" }),
    mine.checks.length > 0 && h("ol", { class: "check-list", key: "list" }, mine.checks.map((check, at) => row(check, at, server, account, app))),
    mine.problem && !mine.isRunning && h("p", { class: "problem", key: "problem" }, mine.problem));
}

function row({ code, step, status, what, why, mend, evidence }, at, server, account, app) {
  const [sign, words] = SIGNS[status] ?? ["", status];
  const isFinding = status === "fault" || status === "warning";
  return h("li", { class: `check-step ${status}`, key: `${at} ${code}`, "data-step": code, "data-status": status },
    h("span", { class: "check-sign", "aria-hidden": "true" }, sign),
    h("div", { class: "check-words" },
      h("p", null, h("strong", null, step), status !== "not_reached" && h("span", { class: "unseen" }, ` ${words}`), what && h("span", { class: isFinding ? "" : "soft" }, ` ${what}`), h("span", { class: "soft small" }, ` ${code}`)),
      isFinding && why && h("p", { key: "why" }, h("span", { class: "soft" }, "Why: "), why),
      isFinding && evidence && h("pre", { class: "code", key: "evidence", tabindex: "0", "aria-label": "Text of the server" }, evidence),
      isFinding && mend && h("div", { class: "check-mend", key: "mend" }, remedy(code, mend, server, account, app))));
}

/** The one button or command that mends it. */
function remedy(code, mend, server, account, app) {
  if (account !== undefined && mend.startsWith("hospes auth login") && !/--(scope|client-id|no-browser)/.test(mend)) return signInButton(server, app);
  if (mend.startsWith("hospes pins show")) return inside(`/servers/${path(server)}?show=trust`, { class: "button-link", "data-mend": "pins" }, "Look at what has changed");
  const command = mend.match(/^hospes [^;,]+/)?.[0];
  return [
    h("p", { key: "words" }, h("span", { class: "soft" }, "To mend it: "), command === mend ? h("code", null, mend) : mend),
    command && copyButton(command, `Copy the command ${command}`),
    code === "C01" && inside(`/servers/${path(server)}/settings`, { class: "button-link", key: "settings", "data-mend": "settings" }, "Its settings"),
  ];
}
