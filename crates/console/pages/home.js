// The first page: what needs a person, what runs between applications and servers, and what went wrong today.

import { get, path, query } from "./api.js";
import { coded, h } from "./dom.js";
import { ago, count, many, shell, time } from "./format.js";
import { applicationName, isChosen, map } from "./map.js";
import { copyButton, fileProblems, head, inside, leftOutReason, mistaken, recordProblem, waitsForReview } from "./parts.js";
import { checkButton, checkPanel } from "./checks.js";
import { needsSignIn } from "./servers.js";
import { signInButton, signInPanel } from "./sign_in.js";
import { sentenceHeading } from "./sentence.js";
import { welcomeLine } from "./welcome.js";

/** Maximum number of waiting calls that are shown here; the others are on their page. */
const MAX_WAITING = 4;

const PRESETS = { cautious: "asks about every effect", balanced: "asks about effects that a text of others may have caused", open: "asks about values that stand in a text of others" };

let running = [];

/** The beginning of the day here. */
function midnight() {
  const at = new Date();
  at.setHours(0, 0, 0, 0);
  return at.toISOString();
}

function chosenOf(address) {
  const given = new URLSearchParams(address);
  return { application: given.get("application") ?? undefined, server: given.get("server") ?? undefined };
}

export const home = {
  name: "Home",
  path: "/",
  icon: ["M4 11l8-7 8 7", "M6 9.5V20h12V9.5", "M10 20v-5h4v5"],
  topics: ["activity", "approvals", "servers", "definitions"],
  match: (at) => (at === "/" ? {} : null),
  title: (data) => (needs(data).length > 0 ? `${many(needs(data).length, "thing needs", "things need")} you` : "Home"),
  async load(_, signal) {
    const [about, approvals, status, calls, setup] = await Promise.all([get(`home${query({ since: midnight() })}`, signal), get("approvals", signal), get("servers", signal), get("calls", signal), get("setup", signal)]);
    running = calls.calls;
    return { ...about, approvals, status, setup };
  },
  view,
  /** Running calls come and go: they are fetched by themselves, and nothing else is. */
  async heard(app, topic) {
    if (app.page() !== home || (topic !== "calls" && topic !== "hello")) return;
    try {
      running = (await get("calls")).calls;
      app.render();
    } catch { /* The page itself says what is wrong. */ }
  },
  hears: ["calls"],
  keys: (data, _, app) => [
    { keys: ["c"], show: "c", does: "show all on the map again", run: () => choose({ application: undefined, server: undefined }, app) },
    { keys: ["a"], show: "a", does: "go to what waits for you", run: () => app.go("/approvals") },
  ],
};

function choose(more, app) {
  const chosen = { ...chosenOf(location.search), ...more };
  history.replaceState(null, "", `/${query(chosen)}`);
  app.render();
}

function needs({ approvals, servers, status }) {
  const held = servers.filter(waitsForReview);
  return [...approvals.open.map((one) => ["call", one]), ...servers.filter(needsSignIn).map((one) => ["sign-in", one]), ...held.map((one) => ["accept", one]), ...mistaken(status).map((one) => ["start", one]), ...(status.recordProblem ? [["record", status]] : [])];
}

function view(data, _, app) {
  const chosen = chosenOf(location.search);
  const waiting = needs(data);
  const asked = data.edges.reduce((all, edge) => all + edge.asked, data.approvals.open.length);
  const failures = data.failures.filter((one) => chosen.server === undefined || chosen.server === one.server);
  const missed = data.missed.filter((one) => isChosen(chosen, { server: one.server, application: one.application ?? "" }));
  const isFiltered = chosen.application !== undefined || chosen.server !== undefined;
  return [
    head("Home", data.endpoint && h("span", { class: "endpoint", key: "endpoint" }, h("span", { class: "soft small" }, "endpoint"), h("code", null, data.endpoint), copyButton(data.endpoint, "Copy the endpoint"))),
    h("p", { class: "rules-line", key: "rules" }, h("span", { class: "soft" }, "Rules: "), h("strong", null, data.preset ?? (data.rules === null ? "none" : "your own")),
      h("span", { class: "soft" }, data.preset ? ` · ${PRESETS[data.preset] ?? ""}` : data.rules === null ? " · every call is allowed" : ""),
      data.rules > 0 && h("span", { class: "soft" }, data.preset ? ` · ${many(data.rules, "rule")} of your own before that` : ` · ${many(data.rules, "rule")}`), " ", inside("/grants", {}, "Change")),
    fileProblems(data.status),
    recordProblem(data.status),
    welcomeLine(data.setup, app),
    h("section", { key: "needs", class: "needs", "aria-labelledby": "needs-title" },
      h("h2", { id: "needs-title" }, "Needs you", waiting.length > 0 && h("span", { class: "badge" }, count(waiting.length))),
      h("div", { "aria-live": "polite" }, waiting.length === 0
        ? h("p", { class: "calm-line", key: "none" }, "Nothing waits for you.")
        : h("ul", { class: "need-list", key: "list" }, waiting.slice(0, MAX_WAITING).map((one) => need(one, app)))),
      waiting.length > MAX_WAITING && h("p", { class: "small", key: "more" }, inside("/approvals", {}, `${count(waiting.length - MAX_WAITING)} more`))),
    h("section", { key: "map", "aria-labelledby": "map-title" },
      h("div", { class: "section-head" }, h("h2", { id: "map-title" }, "Today"),
        isFiltered && h("span", { class: "chip wide", key: "filter" }, `only ${applicationName(chosen.application ?? chosen.server)}`),
        isFiltered && h("button", { type: "button", class: "quiet", key: "all", "data-all": true, onclick: () => choose({ application: undefined, server: undefined }, app) }, "Show all ", h("kbd", null, "c")),
        h("span", { class: "end" }, inside(`/activity${query({ server: chosen.server, text: chosen.application })}`, { class: "small" }, "In Activity"))),
      data.isCut && h("p", { class: "soft small", key: "cut" }, "There are more calls than are counted here; these are the last ones."),
      map(data, running, chosen, (more) => choose(more, app), asked)),
    h("section", { key: "wrong", "aria-labelledby": "wrong-title" },
      h("h2", { id: "wrong-title" }, "Went wrong today"),
      failures.length + missed.length === 0
        ? h("p", { class: "calm-line", key: "none" }, isFiltered ? "Nothing of what is shown." : "Nothing.")
        : h("ul", { class: "cards mishaps", key: "list" }, failures.map((one) => failure(one, data, app)), missed.map((one) => missedCall(one, data)))),
    h("section", { key: "add", "aria-labelledby": "add-title" },
      h("h2", { id: "add-title" }, "Add"),
      h("div", { class: "add-links" },
        inside("/add", { class: "add-link", "data-add": "server" }, h("strong", null, "A server"), h("span", { class: "soft small" }, "from the registry, or one that you know")),
        inside("/connect", { class: "add-link", "data-add": "application" }, h("strong", null, "An application"), h("span", { class: "soft small" }, "so that it uses these servers")),
        inside("/add#import", { class: "add-link", "data-add": "import" }, h("strong", null, "What you have"), h("span", { class: "soft small" }, "servers that other applications know")))),
  ];
}

function need([kind, one], app) {
  if (kind === "call") {
    return h("li", { key: one.id, "data-row": true }, inside(`/approvals/${path(one.id)}`, { class: "need", "data-focus": true, "data-need": "call" },
      h("span", { class: "need-what" }, sentenceHeading(one), one.sentence.origin && h("span", { class: "soft mono small need-gist" }, one.sentence.origin)),
      h("span", { class: "until", "data-until": one.expires_at }, ""), h("span", { class: "need-do" }, "Decide")));
  }
  if (kind === "record") return h("li", { key: "record", class: "need plain" }, h("span", { class: "need-what" }, "The audit record has a problem; see above."));
  if (kind === "start") {
    const [name, why] = one;
    const mends = why.match(/`(hospes secret set [^`]+)`/u)?.[1];
    return h("li", { key: `start ${name}`, "data-row": true }, h("div", { class: "need plain", "data-not-started": name },
      h("span", { class: "need-what" }, inside(`/servers/${path(name)}/settings`, { "data-focus": true }, h("strong", null, name)), " was not started: ", coded(leftOutReason(why))),
      mends ? copyButton(mends, `Copy the command that mends ${name}`) : inside(`/servers/${path(name)}/settings`, { class: "need-do" }, "Look")));
  }
  const [words, does] = kind === "accept" ? [one.state === "withheld" ? "has changed and waits to be accepted" : "waits for your review: none of its tools can be called", "Review"] : ["needs you to sign in", "Look"];
  // The account of a profile is signed in to by a command.
  const command = kind === "sign-in" && one.hint?.match(/hospes auth login \S+ --profile \S+/)?.[0];
  return h("li", { key: `${kind} ${one.name}`, "data-row": true },
    h("div", { class: "need plain" },
      h("span", { class: "need-what" }, inside(`/servers/${path(one.name)}`, { "data-focus": true }, h("strong", null, one.name)), ` ${words}`, command && h("code", { class: "small" }, ` ${command}`)),
      command ? copyButton(command, `Copy the command that signs in to ${one.name}`) : kind === "sign-in" ? signInButton(one.name, app) : inside(`/servers/${path(one.name)}`, { class: "need-do" }, does)),
    kind === "sign-in" && signInPanel(one.name));
}

function failure(one, { servers }, app) {
  const isThere = servers.some((server) => server.name === one.server);
  const parts = [one.calls > 0 && many(one.calls, "failed call"), one.starts > 0 && many(one.starts, "failed start")].filter(Boolean).join(" and ");
  const since = one.firstAt === one.lastAt ? "" : ` since ${time(new Date(one.firstAt), false)}`;
  const sentence = one.problem?.split("\n")[0] ?? (one.starts > 0 ? one.how : undefined);
  const command = `hospes doctor ${shell(one.server)}`;
  return h("li", { key: `failure ${one.server}`, class: "card mishap", "data-row": true, "data-failure": one.server },
    h("div", { class: "card-head" }, h("h3", null, inside(`/servers/${path(one.server)}`, { "data-focus": true }, one.server)),
      h("span", { class: "soft small" }, `${parts}${since}, last ${ago(new Date(one.lastAt))}`),
      h("div", { class: "card-side" }, inside(`/activity${query({ server: one.server })}`, { class: "small" }, "Show"), isThere && checkButton(one.server, app))),
    sentence && h("p", { class: "mishap-words" }, coded(sentence)),
    !sentence && one.subject && h("p", { class: "mishap-words soft" }, "The last one was ", h("span", { class: "mono" }, one.subject), "; the server itself works."),
    one.hint && h("p", { class: "soft small" }, coded(one.hint)),
    one.starts > 0 && h("p", { class: "command", key: "doctor" }, h("code", null, command), copyButton(command, `Copy the command that examines ${one.server}`)),
    checkPanel(one.server, undefined, app));
}

function missedCall(one, { savesRules }) {
  const to = `/rules/new${query({ decide: "allow", server: one.server, tool: one.subject, application: one.application })}`;
  return h("li", { key: `missed ${one.server} ${one.subject} ${one.application}`, class: "card mishap", "data-row": true, "data-missed": one.subject },
    h("div", { class: "card-head" }, h("h3", null, h("span", { class: "mono" }, one.subject), h("span", { class: "soft" }, ` · ${one.server}`)),
      h("span", { class: "soft small" }, `${many(one.calls, "call")} of ${applicationName(one.application ?? "")} refused because nobody was here, last ${ago(new Date(one.lastAt))}`),
      h("div", { class: "card-side" }, savesRules && inside(to, { class: "button-link", "data-focus": true, "data-allow-next": one.subject }, "Allow next time …"))));
}
