// A tool, called by the person: a form for its arguments, its result beside it, and what was called before.

import { get, path, stream } from "./api.js";
import { announce, escapeHiddenJson, h, toast } from "./dom.js";
import { form, required, withoutSecrets } from "./form.js";
import { bytes, many, micros, shell, span, time } from "./format.js";
import { clone, parse, stringify } from "./json.js";
import { copyButton, head, inside } from "./parts.js";
import { resultView } from "./result.js";
import { effects } from "./servers.js";

const HISTORY = "hospes-tried";
const MAX_HISTORY = 20;
/** Time in which the second press for a tool that may destroy something counts, in milliseconds. */
const SECOND_PRESS = 6000;
/** Time for which a second press does not count: nobody confirms with a double click. */
const TOO_SOON = 700;
/** How a host begins to say that a call waits for a decision. */
const WAITS = "waiting for the person";

/** What is typed, runs and came back, by server and tool. Only in the memory of the page. */
const drafts = new Map();
let app;

function draftOf(server, tool) {
  const key = JSON.stringify([server, tool.name]);
  if (!drafts.has(key)) drafts.set(key, { value: required(tool.inputSchema ?? {}), tab: "form", text: undefined, problem: undefined, run: undefined, askedAt: -Infinity });
  return drafts.get(key);
}

export const tryTool = {
  name: "Try a tool",
  path: "/servers",
  isInner: true,
  parent: "/servers",
  topics: ["servers", "definitions"],
  match(at) {
    const found = at.match(/^\/servers\/([^/]+)\/tools\/([^/]+)$/);
    return found && { server: decodeURIComponent(found[1]), tool: decodeURIComponent(found[2]) };
  },
  title: ({ tool }) => (tool ? `${tool.name}: try it` : "Unknown tool"),
  async load({ server, tool }, signal) {
    const found = await get(`servers/${path(server)}`, signal);
    return { ...found, tool: found.offers?.tools.find((one) => one.name === tool) };
  },
  view,
  keys({ tool }, found, page) {
    const draft = tool && draftOf(found.server, tool);
    return [
      { keys: ["x"], show: "x", does: "call the tool", run: () => tool && press(found.server, tool, draft) },
      { keys: ["Escape"], show: "Esc", does: "cancel the call, else back to the server", run: () => (draft?.run?.isRunning ? draft.run.abort() : page.go(`/servers/${path(found.server)}`)) },
    ];
  },
};

const mayDestroy = (tool) => tool.annotations?.readOnlyHint !== true && tool.annotations?.destructiveHint !== false;

function view({ status, endpoint, offers, tool }, { server, tool: wanted }, page) {
  app = page;
  const crumb = h("p", { class: "crumb", key: "crumb" }, inside("/servers", null, "Servers"), " / ", inside(`/servers/${path(server)}`, null, server));
  if (!tool) {
    return [crumb, head(wanted), offers === null
      ? h("p", { class: "empty", key: "unknown" }, `The tools of ${server} are not known yet: it is ${status.state}.`)
      : h("div", { class: "problem", key: "gone", role: "alert" }, `${server} has no tool of this name. `, inside(`/servers/${path(server)}`, {}, "All its tools"))];
  }
  const draft = draftOf(server, tool);
  const change = (more) => { Object.assign(draft, { problem: undefined, ...more }); app.render(); };
  const title = tool.title ?? tool.annotations?.title;
  return [
    crumb,
    head(tool.name, title && title !== tool.name && h("span", { class: "soft" }, title), h("span", { class: "chips" }, effects(tool.annotations))),
    tool.description && h("p", { class: "words lead", key: "words" }, tool.description),
    status.state !== "ready" && h("p", { class: "warn", key: "state" }, `The server is ${status.state}. `, status.problem?.split("\n")[0]),
    h("div", { class: "try", key: "try" },
      h("section", { class: "try-form card", "aria-label": "Arguments" }, argumentsPart(tool, draft, change), callPart(server, tool, draft, endpoint, change)),
      h("section", { class: "try-result card", "aria-label": "Result", "aria-live": "polite" }, resultPart(server, tool, draft))),
    historyPart(server, tool, draft, change),
  ];
}

function argumentsPart(tool, draft, change) {
  const tabs = [["form", "Form"], ["json", "JSON"]];
  return [
    h("div", { class: "bar", key: "bar" }, h("h2", null, "Arguments"), h("div", { class: "tabs end", role: "group", "aria-label": "How the arguments are written" }, tabs.map(([tab, words]) => h("button", {
      type: "button", key: tab, "aria-pressed": String(draft.tab === tab), class: draft.tab === tab ? "here" : "", onclick: () => change({ tab, text: undefined }),
    }, words)))),
    draft.tab === "form" ? h("div", { key: "form", onkeydown: (event) => runs(event, tool, draft) }, form(tool.inputSchema, draft.value, (value) => change({ value })))
      : h("textarea", { key: "json", class: "mono wide-field", rows: 12, spellcheck: "false", "aria-label": "Arguments as JSON", "data-json": true, value: draft.text ?? escapeHiddenJson(stringify(draft.value, 2)), onkeydown: (event) => runs(event, tool, draft),
        oninput: (event) => {
          const text = event.target.value;
          try {
            const value = parse(text);
            if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("object");
            change({ text, value });
          } catch {
            change({ text, problem: "This is not a JSON object yet." });
          }
        } }),
  ];
}

/** Ctrl and Enter call the tool from within a field. */
function runs(event, tool, draft) {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  press(app.found().server, tool, draft);
}

/** The command that makes the same call, for a shell. */
export function commandOf(endpoint, tool, value) {
  if (!endpoint || tool.startsWith("-")) return undefined;
  const given = Object.keys(value).length > 0 ? ` --input-json ${shell(escapeHiddenJson(stringify(value)))}` : "";
  return `hospes call ${shell(endpoint)} ${shell(tool)}${given}`;
}

function callPart(server, tool, draft, endpoint, change) {
  const { run } = draft;
  const isRunning = run?.isRunning === true;
  const isAsked = performance.now() - draft.askedAt < SECOND_PRESS;
  const command = commandOf(endpoint, tool.name, draft.value);
  return h("div", { class: "try-do", key: "do" },
    draft.problem && h("p", { class: "problem", key: "problem", role: "alert" }, draft.problem),
    h("div", { class: "buttons" },
      isRunning ? h("button", { type: "button", key: "cancel", "data-cancel": true, onclick: () => run.abort() }, "Cancel ", h("kbd", null, "Esc"))
        : h("button", { type: "button", key: "call", "data-call": true, class: isAsked ? "no" : "yes", "aria-keyshortcuts": "x Control+Enter", onclick: () => press(server, tool, draft) },
          isAsked ? "Press again: this may destroy something" : "Call", " ", h("kbd", null, "x")),
      command && copyButton(command, "Copy as hospes call, for a shell", "Copy as hospes call"),
      h("button", { type: "button", key: "reset", class: "quiet", onclick: () => change({ value: required(tool.inputSchema ?? {}), text: undefined }) }, "Reset")),
    h("p", { class: "soft small" }, "The call takes the way of an application’s call: your rules, approvals and the audit record apply. Its caller is “you, in the console”."),
    command && h("details", { key: "command" }, h("summary", { class: "soft small" }, "As a command"), h("pre", { class: "code", "data-command": true }, command)));
}

function press(server, tool, draft) {
  if (draft.run?.isRunning || (draft.tab === "json" && draft.problem)) return;
  const since = performance.now() - draft.askedAt;
  if (mayDestroy(tool) && (since > SECOND_PRESS || since < TOO_SOON)) {
    if (since < TOO_SOON) return;
    draft.askedAt = performance.now();
    announce("This may destroy something. Press again to call it.");
    setTimeout(() => app.render(), SECOND_PRESS + 20);
    app.render();
    return;
  }
  draft.askedAt = -Infinity;
  call(server, tool, draft);
}

async function call(server, tool, draft) {
  const ending = new AbortController();
  const run = { isRunning: true, since: Date.now(), abort: () => ending.abort() };
  draft.run = run;
  const given = clone(draft.value);
  const tick = setInterval(() => app.render(), 1000);
  app.render();
  try {
    await stream(`servers/${path(server)}/call`, { tool: tool.name, arguments: given, confirmed: mayDestroy(tool) }, ending.signal, (line) => {
      if (line.event === "progress") Object.assign(run, { progress: line, isWaiting: line.message?.startsWith(WAITS) === true });
      else run.outcome = line;
      app.render();
    });
    run.outcome ??= { event: "failed", message: "the host ended the call without a result" };
  } catch (error) {
    run.outcome = error.name === "AbortError" ? { event: "cancelled" } : { event: "failed", message: error.message };
  }
  clearInterval(tick);
  run.isRunning = false;
  run.took = Date.now() - run.since;
  remember(server, tool, given, run);
  app.render();
}

function resultPart(server, tool, { run }) {
  if (!run) return [h("h2", { key: "title" }, "Result"), h("p", { class: "soft", key: "none" }, "Nothing was called yet. ", h("kbd", null, "x"), " calls the tool, and so does ", h("kbd", null, "Ctrl"), " ", h("kbd", null, "Enter"), " in a field.")];
  if (run.isRunning) {
    const { progress } = run;
    const part = progress?.total > 0 ? Math.min(1, progress.done / progress.total) : undefined;
    return [
      h("div", { class: "bar", key: "bar" }, h("h2", null, "Result"), h("span", { class: "chip wide" }, run.isWaiting ? "waits for a decision" : "running"), h("span", { class: "soft small end", "aria-live": "off" }, span(Date.now() - run.since))),
      run.isWaiting && h("p", { class: "warn", key: "waits" }, "A rule asks about this call. ", inside("/approvals", { "data-decide": true }, "Decide about it")),
      part !== undefined && h("progress", { key: "part", max: 1, value: part, "aria-label": "Progress" }),
      !run.isWaiting && progress?.message && h("p", { class: "soft", key: "message" }, progress.message),
    ];
  }
  const { outcome } = run;
  const [word, kind] = outcome.event === "cancelled" ? ["cancelled", ""] : outcome.event === "failed" ? ["error", "sharp"] : outcome.isError ? ["isError", "sharp"] : ["done", "calm"];
  return [
    h("div", { class: "bar", key: "bar" }, h("h2", null, "Result"), h("span", { class: `chip ${kind}`, "data-outcome": word }, word),
      h("span", { class: "soft small end" }, [outcome.bytes !== undefined && bytes(outcome.bytes), outcome.micros !== undefined ? micros(outcome.micros) : span(run.took)].filter(Boolean).join(", "))),
    outcome.event === "failed" && h("p", { class: "problem", key: "failed", role: "alert" }, outcome.message, outcome.code !== undefined && h("span", { class: "soft" }, ` (${outcome.code})`)),
    outcome.event === "cancelled" && h("p", { class: "soft", key: "cancelled" }, "You ended the call, and the server was told."),
    outcome.event === "done" && (outcome.result === null
      ? h("p", { class: "warn", key: "large" }, `The result is too large to be shown: ${bytes(outcome.bytes)}.`)
      : resultView(outcome.result)),
  ];
}

function history() {
  try {
    return JSON.parse(sessionStorage.getItem(HISTORY) ?? "[]");
  } catch {
    return [];
  }
}

/** Keeps a call for this window, without the secrets in it and without its result. */
function remember(server, tool, value, run) {
  const [kept, hadSecrets] = withoutSecrets(value, tool.inputSchema);
  const { outcome } = run;
  const one = { server, tool: tool.name, text: stringify(kept), hadSecrets, at: run.since, took: outcome.micros ?? run.took * 1000, word: outcome.event === "done" ? (outcome.isError ? "isError" : "done") : outcome.event === "failed" ? "error" : "cancelled" };
  try {
    sessionStorage.setItem(HISTORY, JSON.stringify([one, ...history()].slice(0, MAX_HISTORY)));
  } catch { /* A full store loses the history and nothing else. */ }
}

function historyPart(server, tool, draft, change) {
  const all = history();
  if (all.length === 0) return null;
  const kinds = { done: "well", isError: "failed", error: "failed", cancelled: "other" };
  return h("section", { key: "history", "aria-labelledby": "history-title" },
    h("div", { class: "section-head" }, h("h2", { id: "history-title" }, `Your last ${many(all.length, "call")}`),
      h("button", { type: "button", class: "quiet end", onclick: () => { sessionStorage.removeItem(HISTORY); app.render(); } }, "Forget them")),
    h("ul", { class: "entries" }, all.map((one) => h("li", { class: "entry", key: `${one.at} ${one.text}`, "data-row": true }, h("button", { type: "button", class: "entry-line tried", "data-focus": true, "data-again": one.tool,
      onclick: () => again(one, server, tool, change) },
    h("span", { class: "when" }, time(new Date(one.at))), h("span", { class: `ending ${kinds[one.word]}` }, one.word),
    h("span", { class: "what" }, h("span", { class: "soft" }, one.server), " ", h("span", { class: "mono" }, one.tool), " ", h("span", { class: "soft small mono" }, one.text)), h("span", { class: "took" }, micros(one.took)))))),
    h("p", { class: "soft small" }, "Kept in this window only, without results, and without arguments that look like secrets."));
}

/** Fills the form with an earlier call. */
function again(one, server, tool, change) {
  if (one.hadSecrets) toast("Arguments that look like secrets were not kept: fill them in again.");
  if (one.server === server && one.tool === tool.name) {
    change({ value: parse(one.text), text: undefined });
    return;
  }
  drafts.set(JSON.stringify([one.server, one.tool]), { value: parse(one.text), tab: "form", askedAt: -Infinity });
  app.go(`/servers/${path(one.server)}/tools/${path(one.tool)}`);
}
