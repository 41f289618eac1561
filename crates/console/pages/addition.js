// A server that is being added or updated: its state, and what the person answers. It lives as long as a request to the host;
// ending the request ends the addition, and the host removes what it made.

import { path, post, stream } from "./api.js";
import { announce, h, toast } from "./dom.js";
import { copyButton, inside } from "./parts.js";
import { acceptance } from "./addition_offer.js";
import { questions } from "./addition_questions.js";
import { bytes, shell } from "./format.js";
import { facts, unusual } from "./addition_screen.js";

const STEPS = [["questions", "What it asks for"], ["plan", "What is run"], ["offer", "What it offers"]];

/** The addition of this window, or nothing. */
let current;
let app;

/** The name of the server that is being added here. */
export const added = () => (current?.isUpdate ? undefined : current?.server);

/** The name of the server that is being updated here. */
export const updated = () => (current?.isUpdate ? current.server : undefined);

/** Begins to add a server, or with `isUpdate` to update it. `values` are answers that were given before. */
export function begin(server, page, more = {}) {
  cancel();
  app = page;
  const mine = { server, stage: "working", step: more.isUpdate ? "Looking for the new version" : "Asking the registry", values: {}, isConfined: false, request: new AbortController(), ...more };
  current = mine;
  page.render();
  const body = { server, ...(mine.package ? { package: mine.package } : {}) };
  stream(mine.isUpdate ? "updates" : "additions", body, mine.request.signal, (line) => current === mine && heard(mine, line)).then(
    () => current === mine && !isOver(mine) && fail(mine, mine.isUpdate ? "the host has ended the update; nothing was changed" : "the host has ended the addition; nothing was added"),
    (error) => {
      if (error.name === "AbortError" || current !== mine) return;
      if (error.code === "adding") change(mine, { stage: "other", message: error.message });
      else fail(mine, error.message);
    });
}

/** Ends the addition; nothing of it stays. */
export function cancel() {
  current?.request.abort();
  current = undefined;
}

const isOver = (one) => one.stage === "added" || one.stage === "failed" || one.stage === "other";

function heard(mine, { event, ...said }) {
  mine.lines = (mine.lines ?? 0) + 1;
  if (event === "begun") mine.id = said.id;
  else if (event === "step") change(mine, { stage: "working", step: said.text, done: undefined, total: undefined });
  else if (event === "bytes") change(mine, { done: said.done, total: said.total });
  else if (event === "failed") fail(mine, said.message, said.hint);
  else change(mine, { stage: event, [event]: said, isSending: false });
}

function fail(mine, message, hint) {
  change(mine, { stage: "failed", message, hint });
}

const titleOf = (mine) => (mine.isUpdate ? { ...TITLES, added: "The server is updated", failed: "It was not updated", offer: "What changes" } : TITLES)[mine.stage];

const TITLES = { questions: "What it asks for", plan: "What is run", signIn: "Sign in to the server", offer: "What it offers", added: "The server is added", failed: "It was not added", other: "Another server is being added", working: "" };

function change(mine, more) {
  const isNext = more.stage !== undefined && more.stage !== mine.stage;
  Object.assign(mine, more);
  app.render();
  if (!isNext) return;
  if (titleOf(mine)) announce(`${titleOf(mine)}.`);
  // The next part begins at its heading, also for those who do not see it.
  const heading = document.getElementById("addition-part");
  heading?.focus({ preventScroll: true });
  scrollTo(0, 0);
}

async function send(action, body) {
  const mine = current;
  const lines = mine.lines;
  change(mine, { isSending: true });
  try {
    await post(`additions/${path(mine.id)}/${action}`, body);
    // What comes next may have been heard before this answer.
    if (current === mine && mine.lines === lines) change(mine, { stage: "working", step: action === "answers" ? "Planning the start" : action === "start" ? "Preparing the start" : "Accepting the definitions", done: undefined });
  } catch (error) {
    toast(error.message, "bad");
    if (current === mine) change(mine, { isSending: false });
  }
}

/** Leaves the addition for the search, and an update for the page of the server. */
export function leave(page) {
  const wasRunning = current !== undefined && !isOver(current);
  const to = current?.isUpdate ? `/servers/${path(current.server)}` : "/add";
  const what = current?.isUpdate ? "changed" : "added";
  cancel();
  if (wasRunning) toast(`Cancelled; nothing was ${what}.`);
  page.go(to);
}

const heading = (text) => h("h2", { id: "addition-part", tabindex: "-1", key: "part" }, text);

/** The page of the addition. `servers` are those of the host. */
export function addition(servers, page) {
  app = page;
  const mine = current;
  const make = { working, questions: asks, plan, signIn, offer, added: done, failed, other }[mine.stage];
  const at = STEPS.findIndex(([stage]) => stage === mine.stage);
  return [
    at >= 0 && h("ol", { class: "steps", key: "steps", "aria-label": "Steps" }, STEPS.map(([stage, words], index) => h("li", { key: stage, class: index === at ? "here" : "", "aria-current": index === at ? "step" : null }, stage === "offer" && mine.isUpdate ? "What changes" : words))),
    h("div", { class: "addition", key: `stage ${mine.stage}`, "data-stage": mine.stage }, make(mine, servers, page)),
  ];
}

const cancelButton = (page, words = "Cancel") => h("button", { type: "button", key: "cancel", "data-cancel": true, onclick: () => leave(page) }, words);

function working(mine, _, page) {
  const isMeasured = mine.done !== undefined;
  return h("section", { class: "card working", key: "working" }, heading("Working"),
    h("p", { role: "status", key: "step", class: "working-step" }, `${mine.step} …`),
    h("progress", { key: "bar", "aria-label": "Progress", ...(isMeasured && mine.total ? { value: mine.done, max: mine.total } : {}) }),
    h("p", { class: "soft small", key: "bytes" }, isMeasured ? `${bytes(mine.done)}${mine.total ? ` of ${bytes(mine.total)}` : ""}` : "Leaving the page ends this, and nothing stays."),
    h("div", { class: "buttons", key: "buttons" }, cancelButton(page)));
}

function asks(mine, _, page) {
  const { screen } = mine.questions;
  return [
    h("section", { class: "card", key: "who" }, h("h2", null, screen.title), unusual(screen), facts(screen)),
    questions(mine, heading, (answers) => send("answers", { answers }), cancelButton(page)),
  ];
}

function plan(mine, _, page) {
  const { screen, sandbox, isInstalled, otherPackages, server } = mine.plan;
  return h("form", { class: "addition", key: "plan", onsubmit: (event) => { event.preventDefault(); if (!mine.isSending) send("start", { isConfined: mine.isConfined }); } },
    h("section", { class: "card", key: "what" }, heading(screen.title), unusual(screen), facts(screen)),
    sandbox && h("fieldset", { class: "card group sandbox", key: "sandbox" }, h("legend", null, "Sandbox"),
      option(mine, false, "None", "It may use all your files and the network."),
      option(mine, true, "The proposed one", sandbox)),
    otherPackages.length > 0 && h("p", { class: "soft small", key: "others" }, "Other ways to run it: ", otherPackages.map((kind) => [h("button", { type: "button", class: "quiet", key: kind, "data-package": kind, onclick: () => begin(mine.server, page, { package: kind, values: mine.values }) }, kind), " "])),
    h("div", { class: "decision", key: "decision" },
      h("p", { class: "small" }, `${mine.isUpdate ? "The new version" : "It"} is started once as “${server}”, alone${sandbox ? (mine.isConfined ? ", in the proposed sandbox" : ", without a sandbox") : ""}. ${mine.isUpdate ? "Nothing changes" : "Nothing that it offers can be called"} before your last yes.`),
      h("div", { class: "buttons even" }, cancelButton(page), h("button", { type: "submit", "data-start": true, disabled: mine.isSending === true }, isInstalled ? "Install and start it" : "Start it"))));
}

/** The sign-in at the server. The link opens a window of its own; the host hears of the end by itself. */
function signIn(mine, _, page) {
  const { host, url } = mine.signIn;
  const isPage = /^https?:\/\//.test(url);
  return h("section", { class: "card", key: "sign-in" }, heading("Sign in to the server"),
    h("p", null, h("strong", null, host), " asks you to sign in. Its tokens are stored encrypted once the server is ", mine.isUpdate ? "updated" : "added", "; otherwise they are given back."),
    h("p", { class: "soft small" }, "After the sign-in this page goes on by itself. The browser has to run on the machine of the host."),
    h("div", { class: "buttons even" }, cancelButton(page),
      isPage && h("a", { class: "button-link", href: url, target: "_blank", rel: "noopener noreferrer", "data-sign-in": true }, `Sign in at ${new URL(url).host}`)));
}

function option(mine, isConfined, words, about) {
  const id = `sandbox-${isConfined}`;
  return h("label", { class: "check choice", key: id, for: id },
    h("input", { type: "radio", id, name: "sandbox", checked: mine.isConfined === isConfined, "data-sandbox": String(isConfined), onchange: () => change(mine, { isConfined }) }),
    h("span", null, h("strong", null, words), h("span", { class: "soft" }, ` ${about}`)));
}

function offer(mine, _, page) {
  return acceptance(mine, heading, () => send("accept", {}), cancelButton(page, mine.isUpdate ? "Keep the old version" : "Do not keep it"), () => page.render());
}

function done(mine, servers, page) {
  const { server, file, example } = mine.added;
  const status = servers.find((one) => one.name === server);
  const isReady = status?.state === "ready";
  return h("section", { class: "card", key: "done", "data-added": server }, heading(`${server} is ${mine.isUpdate ? "updated" : "added"}`),
    h("p", null, "Its entry is in ", h("span", { class: "mono" }, file), "."),
    mine.isUpdate && h("p", { class: "command", key: "back" }, h("span", { class: "soft" }, "Back to the version before: "), h("code", null, `hospes update ${shell(server)} --rollback`), copyButton(`hospes update ${shell(server)} --rollback`, "Copy the command")),
    h("p", { role: "status", key: "state" }, isReady ? h("span", { class: "state ready", "data-ready": server }, "ready: applications see it now") : h("span", { class: `state ${status?.state ?? "starting"}` }, status?.problem?.split("\n")[0] ?? "the host starts it …")),
    h("div", { class: "buttons" },
      isReady && example && inside(`/servers/${path(server)}/tools/${path(example)}`, { class: "button-link", "data-try": example }, `Try ${example}`),
      inside(`/servers/${path(server)}`, { class: "button-link", "data-show-server": server }, "Show the server"),
      !mine.isUpdate && h("button", { type: "button", class: "quiet", "data-another": true, onclick: () => leave(page) }, "Add another one")));
}

function failed(mine, _, page) {
  return h("section", { class: "card", key: "failed" }, heading(`It was not ${mine.isUpdate ? "updated" : "added"}`),
    h("p", { class: "problem failure-words", role: "alert", "data-failed": true }, mine.message),
    mine.hint && h("p", { key: "hint" }, mine.hint),
    h("p", { class: "soft small" }, mine.isUpdate ? "The version in use stays as it is." : "Nothing of it is kept."),
    h("div", { class: "buttons" },
      h("button", { type: "button", "data-again": true, onclick: () => begin(mine.server, page, { values: mine.values, package: mine.package, isUpdate: mine.isUpdate }) }, "Try again"),
      h("button", { type: "button", class: "quiet", "data-cancel": true, onclick: () => leave(page) }, mine.isUpdate ? "Back to the server" : "Back to the search")));
}

function other(mine, _, page) {
  const end = async () => {
    try {
      await post("additions/end");
      begin(mine.server, page, { values: mine.values, package: mine.package, isUpdate: mine.isUpdate });
    } catch (error) {
      toast(error.message, "bad");
    }
  };
  return h("section", { class: "card", key: "other" }, heading("Another server is being added"),
    h("p", null, "Another window of this browser adds or updates a server. It is in front of that question, or is installing."),
    h("div", { class: "buttons" }, h("button", { type: "button", "data-end-other": true, onclick: end }, "End that one, and begin here"), cancelButton(page)));
}

addEventListener("hospes:out", cancel);
