// What was recorded: entries, how many, how long, when.

import { get, query } from "./api.js";
import { announce, coded, h, toast } from "./dom.js";
import { stringify } from "./json.js";
import { head, recordProblem } from "./parts.js";
import { KIND_WORDS, latency, timeline, volume } from "./chart.js";
import { bytes, count, many, micros, moment, time } from "./format.js";
import { has } from "./team.js";

const PAGE = 100;
const KINDS = { call: "tool call", prompt: "prompt", resource: "resource", completion: "completion", subscription: "subscription", task: "task", decision: "decision", definition: "definition", server: "server",
  sampling: "sampling", elicitation: "elicitation", roots: "roots", sign_in: "sign-in", policy: "rules" };
const DECISIONS = ["allow", "ask", "deny", "expired", "withdrawn", "started", "not started", "exited", "connected", "not connected", "disconnected"];
const RANGES = [["1h", "1 hour", 3600], ["24h", "24 hours", 86400], ["7d", "7 days", 604800], ["30d", "30 days", 2592000]];
const ENDINGS = { done: "done", tool_error: "tool error", failed: "failed", refused: "refused", cancelled: "cancelled", asked: "asked" };

const SCOPES = { once: "once", session: "for the session", always: "lasting, within a rule", block: "from now on" };

// `of` and `tool` are the server and the name of the tool that the chart of durations is about.
const wanted = { text: "", kind: "", server: "", decision: "", range: "24h", until: "", of: "", tool: "" };
let more = PAGE;
let timer;
const opened = new Map();

function readAddress() {
  const given = new URLSearchParams(location.search);
  for (const name of Object.keys(wanted)) wanted[name] = given.get(name) ?? (name === "range" ? "24h" : "");
}

function look(app, changes) {
  Object.assign(wanted, changes);
  more = PAGE;
  const kept = { ...wanted, range: wanted.range === "24h" ? "" : wanted.range };
  history.replaceState(null, "", `/activity${query(kept)}`);
  app.refresh();
}

const rangeAt = () => Math.max(0, RANGES.findIndex(([name]) => name === wanted.range));

function zoom(app, by) {
  const next = RANGES[Math.min(RANGES.length - 1, Math.max(0, rangeAt() + by))];
  if (next[0] === wanted.range) return;
  announce(`The last ${next[1]}.`);
  look(app, { range: next[0] });
}

/** Moves the range by half of its length; it never ends later than now. */
function shift(app, by) {
  const step = (RANGES[rangeAt()][2] * 1000) / 2;
  const end = Date.parse(wanted.until);
  const next = (Number.isNaN(end) ? Date.now() : end) + by * step;
  // What ends a moment before now ends now: time has passed since the range was moved away.
  const until = next >= Date.now() - step / 10 ? "" : new Date(next).toISOString();
  if (until === wanted.until) return;
  announce(until === "" ? "Up to now." : `Up to ${moment(new Date(until))}.`);
  look(app, { until });
}

/** What others may not see: the state of the servers, and what all did together. */
const NO_STATUS = { servers: [] };
const NO_DIGEST = { servers: [] };

export const activity = {
  name: "Activity",
  path: "/activity",
  roles: ["member", "admin", "auditor"],
  icon: ["M3 12h4l3-8 4 16 3-8h4"],
  topics: ["activity"],
  match: (at) => (at === "/activity" ? {} : null),
  async load(_, signal) {
    readAddress();
    const seconds = (RANGES.find(([name]) => name === wanted.range) ?? RANGES[1])[2];
    const { text, kind, server, decision } = wanted;
    const end = Date.parse(wanted.until);
    const until = Number.isNaN(end) ? new Date() : new Date(end);
    const filter = { text, kind, server, decision, since: new Date(until - seconds * 1000).toISOString(), ...(wanted.until && { until: until.toISOString() }) };
    const [{ entries }, summary, status, digest] = await Promise.all([
      get(`activity${query({ ...filter, limit: Math.min(more, 500), gathered: true })}`, signal),
      get(`activity/summary${query({ ...filter, until: until.toISOString(), fit: true })}`, signal),
      has("admin") ? get("servers", signal) : NO_STATUS,
      has("admin", "auditor") ? get(`activity/digest${query({ since: filter.since, until: until.toISOString() })}`, signal) : NO_DIGEST,
    ]);
    // The chart of one tool has the time range of the others.
    const about = wanted.tool && { ...filter, since: summary.since, until: until.toISOString(), server: wanted.of, subject: wanted.tool };
    const ofTool = about ? await get(`activity/summary${query(about)}`, signal) : undefined;
    return { entries, summary, ofTool, status, digest, servers: status.servers.map((one) => one.name) };
  },
  view,
  keys: (data, _, app) => [
    { keys: ["c"], show: "c", does: "clear the filters", run: () => look(app, { text: "", kind: "", server: "", decision: "" }) },
    { keys: ["+"], show: "+", does: "a shorter time range", run: () => zoom(app, -1) },
    { keys: ["-"], show: "−", does: "a longer time range", run: () => zoom(app, 1) },
    { keys: ["ArrowLeft"], show: "←", does: "earlier", run: () => shift(app, -1) },
    { keys: ["ArrowRight"], show: "→", does: "later", run: () => shift(app, 1) },
  ],
};

function view({ entries, summary, ofTool, status, digest, servers }, _, app) {
  const isFiltered = wanted.text || wanted.kind || wanted.server || wanted.decision;
  return [
    head("Activity", h("div", { class: "segments", role: "group", "aria-label": "Time range" }, RANGES.map(([name, words]) => h("button", {
      type: "button", key: name, "aria-pressed": String(wanted.range === name), onclick: () => look(app, { range: name }),
    }, words)))),
    wanted.until && h("p", { class: "lead", key: "until" }, `Up to ${moment(new Date(wanted.until))}. `, h("button", { type: "button", class: "quiet", "data-now": true, onclick: () => look(app, { until: "" }) }, "Up to now")),
    recordProblem(status),
    h("div", { class: "filters", key: "filters", role: "search" },
      h("input", {
        type: "search", class: "search", "data-search": true, placeholder: "Find  /", "aria-label": "Find in names", value: wanted.text,
        oninput: (event) => {
          clearTimeout(timer);
          const text = event.target.value;
          timer = setTimeout(() => look(app, { text }), 200);
        },
      }),
      select("server", "All servers", [...new Set([...servers, wanted.server].filter(Boolean))].map((name) => [name, name]), app),
      select("kind", "All kinds", Object.entries(KINDS), app),
      select("decision", "All decisions", DECISIONS.map((name) => [name, name]), app),
      isFiltered && h("button", { type: "button", class: "quiet", key: "clear", onclick: () => look(app, { text: "", kind: "", server: "", decision: "" }) }, "Clear")),
    h("dl", { class: "tiles", key: "tiles" },
      tile("Entries", count(summary.counted) + (summary.isCut ? "+" : "")),
      tile("Failed", count((summary.endings.failed ?? 0) + (summary.endings.tool_error ?? 0)), "failed"),
      tile("Refused", count(summary.endings.refused ?? 0), "refused"),
      tile("Median", micros(summary.latency.p50)), tile("95th percentile", micros(summary.latency.p95)), tile("99th percentile", micros(summary.latency.p99))),
    !isFiltered && digest.servers.length > 0 && digestOf(digest),
    summary.counted > 0 && h("div", { class: "charts", key: "charts" },
      figure("Entries over time", ["well", "failed", "refused", "other"].map((kind) => [`bar-${kind}`, KIND_WORDS[kind]]), volume(summary)),
      ofTool && wanted.tool ? figure(`How long ${wanted.tool} of ${wanted.of} took`, [["dot-p50", "median"], ["dot-p95", "95 %"]], durations(ofTool, ["p50", "p95"]))
        : figure("How long calls took", [["dot-p50", "median"], ["dot-p90", "90 %"], ["dot-p99", "99 %"]], durations(summary))),
    wanted.tool && h("p", { class: "lead", key: "of", "data-of-tool": true }, h("button", { type: "button", class: "quiet", "data-all-tools": true, onclick: () => look(app, { of: "", tool: "" }) }, "Show the durations of all calls")),
    entries.length > 0 && h("div", { key: "timeline" }, figure(`The last ${many(entries.length, "entry", "entries")}`, [], timeline(entries, kindOf, (seq) => jump(seq, app)))),
    summary.items.length > 0 && h("details", { class: "by-server", key: "items", "data-items": true, open: wanted.tool !== "" || undefined }, h("summary", null, `By tool, last ${RANGES[rangeAt()][1]}`), byItem(summary.items, app)),
    summary.servers.length > 1 && h("details", { class: "by-server", key: "servers" }, h("summary", null, `By server, last ${RANGES[rangeAt()][1]}`), byServer(summary.servers)),
    entries.length === 0 && h("p", { class: "empty", key: "none" }, isFiltered ? "No matching entries." : "No entries in this time range."),
    h("ul", { class: "entries", key: "entries" }, entries.map((one) => entry(one, app))),
    entries.length >= more && more < 500 && h("div", { class: "buttons", key: "more" },
      h("button", { type: "button", onclick: () => { more = Math.min(500, more + 200); app.refresh(); } }, "Show more")),
  ];
}

/** What was asked, what passed after text of others, and what was new. */
function digestOf(digest) {
  const list = (name, all, none) => h("div", { class: "digest-part", key: name }, h("h2", null, name),
    all.length > 0 ? h("ul", { class: "chips" }, all.slice(0, 24).map((words) => h("li", { class: "chip mono" }, words))) : h("p", { class: "soft small" }, none),
    all.length > 24 && h("p", { class: "soft small" }, `and ${count(all.length - 24)} more`));
  return h("section", { class: "digest boxed", key: "digest", "data-digest": true },
    h("div", { class: "scroll" }, h("table", null,
      h("thead", null, h("tr", null, ["Server", "Calls", "Asked", "Allowed", "Denied"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, digest.servers.map((one) => h("tr", { key: one.server }, h("th", { scope: "row" }, one.server), [one.calls, one.asked, one.allowed, one.denied].map((number) => h("td", null, count(number)))))))),
    h("div", { class: "digest-parts" },
      list("Passed after text of others", digest.passed.map((one) => `${one.server} ${one.subject}${one.calls > 1 ? ` × ${count(one.calls)}` : ""}`), "Nothing: no call with an effect passed unasked after text that others wrote."),
      list("New servers and first uses", [...digest.newServers, ...digest.firstUses.map(([server, name]) => `${server} ${name}`)], "Nothing new."),
      list("Known targets used", digest.knownUsed.map((one) => one.values.join(", ")), "None.")));
}

const tile = (name, value, kind = "") => h("div", { class: `tile ${kind}` }, h("dt", null, name), h("dd", null, value));

const figure = (title, legend, chart) => h("figure", null,
  h("figcaption", null, h("span", { class: "figure-title" }, title), h("span", { class: "legend" }, legend.map(([kind, word]) => h("span", null,
    h("svg", { viewBox: "0 0 10 10", class: "key", "aria-hidden": "true" }, h("circle", { class: kind, cx: 5, cy: 5, r: 4 })), word)))),
  h("div", { class: "chart-box", tabindex: "0", role: "group", "aria-label": title }, chart));

function select(name, none, options, app) {
  return h("select", { key: name, "aria-label": none.replace("All ", "Which "), value: wanted[name], onchange: (event) => look(app, { [name]: event.target.value }) },
    [["", none], ...options].map(([value, text]) => h("option", { value, key: value, selected: value === wanted[name] }, text)));
}

function byServer(servers) {
  return h("div", { class: "scroll" }, h("table", null,
    h("thead", null, h("tr", null, ["Server", "Calls", "Failed", "Refused", "Median", "90 %", "99 %"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", null, servers.map((one) => h("tr", { key: one.server }, h("th", { scope: "row" }, one.server),
      [one.calls, one.failed, one.refused].map((number) => h("td", null, count(number))),
      [one.latency.p50, one.latency.p90, one.latency.p99].map((value) => h("td", null, micros(value))))))));
}

const durations = (summary, lines) => (summary.latency.p50 === null ? h("p", { class: "soft small" }, "No call completed without an approval in this time range.") : latency(summary, lines));

/** Chooses the tool of the chart of durations, or no longer. */
function choose({ server, subject }, app) {
  const isChosen = wanted.of === server && wanted.tool === subject;
  announce(isChosen ? "The chart shows the durations of all calls." : `The chart shows the durations of ${subject} of ${server}.`);
  look(app, isChosen ? { of: "", tool: "" } : { of: server, tool: subject });
}

function byItem(items, app) {
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Calls by tool" }, h("table", null,
    h("thead", null, h("tr", null, ["Tool", "Calls", "Failed", "Refused", "Median", "95 %"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", null, items.map((one) => h("tr", { key: `${one.server} ${one.subject}` }, h("th", { scope: "row" }, h("button", { type: "button", class: "quiet item", "data-item": one.subject, "aria-pressed": String(wanted.of === one.server && wanted.tool === one.subject), "aria-label": `Durations of ${one.subject} of ${one.server}`, onclick: () => choose(one, app) },
        h("span", { class: "soft" }, one.server), " ", h("span", { class: "mono" }, one.subject))),
      [one.calls, one.failed, one.refused].map((number) => h("td", null, count(number))), [one.latency.p50, one.latency.p95].map((value) => h("td", null, micros(value))))))));
}

function kindOf(one) {
  if (one.ending === "done") return "well";
  if (one.ending === "failed" || one.ending === "tool_error") return "failed";
  return one.ending === "refused" ? "refused" : "other";
}

function word(one) {
  if (one.ending === "refused" && one.decision === "expired") return "expired";
  // What became of a server says more than how well that is.
  if (one.kind === "server" && one.decision !== undefined) return one.decision;
  if (one.ending === undefined && one.decision !== undefined) return one.decision;
  return ENDINGS[one.ending] ?? one.ending ?? KINDS[one.kind] ?? one.kind;
}

function entry(recorded, app) {
  const { seq, entry: one, count: times } = recorded;
  const at = new Date(one.at / 1000);
  const isOpen = opened.has(seq);
  return h("li", { class: `entry ${kindOf(one)}`, key: seq, "data-row": true, "data-seq": seq, id: `entry-${seq}` },
    h("button", { type: "button", class: "entry-line", "data-focus": true, "aria-expanded": String(isOpen), onclick: () => toggle(seq, app) },
      h("span", { class: "when", title: moment(at) }, time(at)),
      h("span", { class: `ending ${kindOf(one)}` }, word(one)),
      h("span", { class: "what" }, h("span", { class: "soft" }, one.server ?? KINDS[one.kind] ?? one.kind), " ", h("span", { class: "mono" }, one.subject ?? ""),
        times > 1 && h("span", { class: "soft times" }, ` ${count(times)} times since ${moment(new Date(recorded.firstAt / 1000))}`)),
      h("span", { class: "took" }, one.micros === undefined ? "" : micros(one.micros)),
      h("span", { class: "who soft" }, (one.kind === "decision" ? one.by?.split(/, browser session|:/)[0] : one.kind === "server" ? one.how ?? one.by : undefined) ?? one.principal ?? one.application ?? (one.by && coded(one.by)) ?? "")),
    isOpen && details(recorded, opened.get(seq), app));
}

function details({ seq, bound, node, entry: one, count: times, firstAt }, more, app) {
  const facts = [
    ["Number", count(seq)], ["When", moment(new Date(one.at / 1000))], ["Times", times > 1 && `${count(times)}, each with the same outcome; the first ${moment(new Date(firstAt / 1000))}`], ["Node", node], ["Kind", KINDS[one.kind] ?? one.kind], ["Server", one.server], ["What", one.subject],
    ["Application", one.application], ["Profile", one.profile], ["Who", one.principal], ["Decision", one.decision], ["How", one.how], ["By", one.by], ["For", SCOPES[one.scope]], ["Approval", one.matter], ["Outcome", ENDINGS[one.ending]],
    ["Access", one.sandbox], ["Hash of its command or URL", one.target], ["Error", one.code], ["Took", one.micros !== undefined && micros(one.micros)], ["Sent", one.sent !== undefined && bytes(one.sent)],
    ["Received", one.received !== undefined && bytes(one.received)], ["Call", one.call], ["Chain hash", bound.slice(0, 16)],
  ].filter(([, value]) => value !== undefined && value !== false && value !== null);
  return h("div", { class: "entry-more" },
    h("dl", { class: "facts tight" }, facts.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, coded(value))))),
    one.sealed && (more.arguments === undefined
      ? h("button", { type: "button", class: "quiet", onclick: () => unseal(seq, app) }, "Show its arguments")
      : h("pre", { class: "code" }, stringify(more.arguments, 2))));
}

function toggle(seq, app) {
  if (!seq) return;
  if (!opened.delete(seq)) opened.set(seq, {});
  app.render();
}

function jump(seq, app) {
  opened.set(seq, opened.get(seq) ?? {});
  app.render();
  const row = document.getElementById(`entry-${seq}`);
  row?.scrollIntoView({ block: "center" });
  row?.querySelector("[data-focus]")?.focus({ preventScroll: true });
}

async function unseal(seq, app) {
  try {
    opened.set(seq, await get(`activity/${seq}/arguments`));
    app.render();
  } catch (error) {
    toast(error.message, "bad");
  }
}
