// The servers: how they are, what they offer, starting one anew.

import { get, path, post, query } from "./api.js";
import { coded, h, toast } from "./dom.js";
import { stringify } from "./json.js";
import { fileProblems, head, inside, leftOutReason, mistaken, recordProblem, stateOf } from "./parts.js";
import { count, many, span } from "./format.js";
import { currentRow } from "./keys.js";
import { firstSeen, pinnedOf, stand, trust, waits } from "./pins.js";
import { fields } from "./schema.js";
import { undoBar } from "./server_change.js";
import { checkButton, checkPanel, runChecks } from "./checks.js";
import { signInButton, signInPanel, signOutButton } from "./sign_in.js";
import { isTeam } from "./team.js";

const WORDS = { ready: "ready", starting: "starting", retrying: "retrying", withheld: "waits for review", failed: "failed", stopped: "stopped" };
const TRANSPORTS = { stdio: "program", http: "HTTP", builtin: "built in" };

let search = "";
let inner = "";
let tab = "tools";

export const servers = {
  name: "Servers",
  path: "/servers",
  roles: ["admin"],
  icon: ["M4 5h16v5H4zM4 14h16v5H4z", "M7.5 7.5h.01M7.5 16.5h.01"],
  topics: ["servers", "definitions"],
  match(at) {
    if (at === "/servers") return {};
    const name = at.match(/^\/servers\/([^/]+)$/)?.[1];
    return name && { name: decodeURIComponent(name) };
  },
  async load({ name }, signal) {
    if (new URLSearchParams(location.search).get("show") === "trust") {
      tab = "trust";
      history.replaceState(null, "", location.pathname);
    }
    const [status, definitions] = await Promise.all([get(name ? `servers/${path(name)}` : "servers", signal), get("definitions", signal)]);
    return { ...status, pinned: new Map(definitions.servers.map((one) => [one.server, one])) };
  },
  view: (data, { name }, app) => (name ? one(data, app) : all(data, app)),
  keys(data, { name }, app) {
    const of = () => name ?? currentRow()?.dataset.name;
    const keys = [{ keys: ["r"], show: "r", does: "restart the server", run: () => of() && restart(of(), app) }];
    if (name) keys.push({ keys: ["c"], show: "c", does: "check the server", run: () => runChecks(name, app) });
    if (name) keys.push({ keys: ["Escape"], show: "Esc", does: "back to all servers", run: () => app.go("/servers") });
    return keys;
  },
};

async function restart(name, app) {
  try {
    await post(`servers/${path(name)}/restart`);
    toast(`${name} is being restarted.`);
    app.refresh();
  } catch (error) {
    toast(error.message, "bad");
  }
}

const restartButton = (name, app) => h("button", {
  type: "button", class: "quiet restart", "data-restart": name, "aria-label": `Restart ${name}`, title: "Closes its connections and restarts it (r)",
  onclick: () => restart(name, app),
}, "Restart");

const settingsLink = (name) => !isTeam() && inside(`/servers/${path(name)}/settings`, { class: "button-link", "data-settings": name, "aria-label": `Settings of ${name}` }, "Settings");

function all(status, app) {
  const shown = status.servers.filter((server) => `${server.name} ${server.target}`.toLowerCase().includes(search.toLowerCase()));
  const ill = status.servers.filter((server) => stateOf(server) !== "ready").length + mistaken(status).length;
  return [
    head("Servers",
      h("input", {
        type: "search", class: "search", "data-search": true, placeholder: "Find a server  /", "aria-label": "Find a server", value: search,
        oninput: (event) => { search = event.target.value; app.render(); },
      }), !isTeam() && inside("/profiles", { class: "button-link", "data-profiles": true }, status.profiles?.length > 0 ? many(status.profiles.length, "profile") : "Profiles")),
    fileProblems(status),
    recordProblem(status),
    undoBar(null, app),
    h("p", { class: "lead", key: "lead" },
      `hospes ${status.version}, process ${status.pid}, up ${span(status.uptimeMs)}. `,
      ill === 0 ? "Every server is ready." : `${many(ill, "server")} not ready.`),
    h("ul", { class: "cards", key: "cards" }, shown.map((server) => card(server, pinnedOf(status.pinned, server), app))),
    shown.length === 0 && h("p", { class: "empty", key: "none" }, search ? "No server has this name." : "No servers are configured."),
    (status.leftOut?.length ?? 0) > 0 && h("section", { key: "left" }, h("h2", null, "Not started"),
      h("dl", { class: "facts" }, status.leftOut.map(([name, why]) => h("div", null, h("dt", null, inside(`/servers/${path(name)}/settings`, { "data-settings": name }, name)), h("dd", null, coded(leftOutReason(why))))))),
    (status.collisions?.length ?? 0) > 0 && h("section", { key: "collisions" }, h("h2", null, "Name collisions"),
      h("ul", { class: "notes" }, status.collisions.map((text) => h("li", null, text)))),
  ];
}

function card(server, pinned, app) {
  return h("li", { class: `card server ${stateOf(server)}`, key: server.name, "data-row": true, "data-name": server.name },
    h("div", { class: "card-head" },
      state(server),
      h("h2", null, inside(`/servers/${path(server.name)}`, { "data-focus": true, class: "name" }, server.name)),
      pinned && !pinned.isBuiltin && stand(firstSeen(pinned) ? "new" : pinned.state),
      h("div", { class: "card-side" }, settingsLink(server.name), restartButton(server.name, app))),
    h("p", { class: "target" }, server.target),
    h("p", { class: "counts" }, counts(server), chips(server)),
    firstSeen(pinned) && h("p", { class: firstSeen(pinned).found > 0 ? "warn" : "note", key: "new", "data-new": server.name }, firstSeen(pinned).words, " ", inside(`/servers/${path(server.name)}`, {}, "Look at it")),
    waits(pinned) && h("p", { class: "warn", key: "waits" }, waits(pinned), " ", inside(`/servers/${path(server.name)}`, { "data-look": server.name }, "Review")),
    trouble(server, pinned));
}

const state = (server) => h("span", { class: `state ${stateOf(server)}` }, WORDS[stateOf(server)] ?? server.state);

function counts(server) {
  if (server.users !== undefined) return h("span", null, `an account for each user, ${many(server.users, "user")} now`);
  const all = [["tool", server.tools], ["prompt", server.prompts], ["resource", server.resources], ["template", server.templates]];
  const some = all.filter(([, number]) => number > 0).map(([what, number]) => many(number, what));
  if (some.length === 0) return server.state === "ready" ? h("span", null, "offers nothing") : null;
  return h("span", null, some.join(", "));
}

function chips(server) {
  const era = server.revision && (server.revision >= "2026" ? "newest era" : "older era");
  return h("span", { class: "chips" },
    server.transport && h("span", { class: "chip" }, TRANSPORTS[server.transport] ?? server.transport),
    server.revision && h("span", { class: "chip", title: `It speaks the ${era}` }, server.revision),
    server.implementation && h("span", { class: "chip", title: "What it calls itself" }, server.implementation),
    server.connections > 1 && h("span", { class: "chip" }, many(server.connections, "connection")));
}

/** What is wrong with a server. What waits to be accepted is said once, in the words of this page. */
function trouble(server, pinned) {
  const next = server.nextTryMs !== undefined && `Next attempt in ${span(server.nextTryMs)}. `;
  const failures = server.failures > 0 && `Failed ${many(server.failures, "time")} in a row. `;
  return [
    server.problem && h("div", { class: "problem" },
      h("p", null, coded(server.problem.split("\n")[0])),
      h("p", { class: "soft" }, failures, next, server.hint && ["Hint: ", coded(server.hint)]),
      server.problem.includes("\n") && h("details", { key: "details" }, h("summary", null, "Full message"), h("pre", { class: "code" }, server.problem))),
    [...new Set(server.warnings ?? [])].filter((text) => !(waits(pinned) && text.endsWith("accept or reject it there"))).map((text) => h("p", { class: "warn" }, coded(text))),
  ];
}

/** Signs in where that is needed, and out where there are tokens. */
function account({ status, isSignedIn }, app) {
  if (isSignedIn === undefined) return null;
  return [!isSignedIn || needsSignIn(status) ? signInButton(status.name, app) : null, isSignedIn && signOutButton(status.name, app)];
}

/** True if the remedy of the server is a sign-in. */
export const needsSignIn = (server) => server.needsSignIn === true || server.hint?.includes("hospes auth login") === true;

function one({ status, offers, isSignedIn, pinned: all }, app) {
  const pinned = pinnedOf(all, status);
  const tabs = [
    ["tools", "Tools", offers?.tools ?? [], tool], ["prompts", "Prompts", offers?.prompts ?? [], prompt],
    ["resources", "Resources", [...(offers?.resources ?? []), ...(offers?.templates ?? [])], resource],
  ];
  if (pinned && !pinned.isBuiltin) tabs.push(["trust", "Trust", pinned.items, null]);
  const shown = tabs.find(([name]) => name === tab) ?? tabs[0];
  const words = inner.toLowerCase();
  const items = shown[2].filter((item) => `${item.name} ${item.title ?? ""} ${item.uri ?? item.uriTemplate ?? ""}`.toLowerCase().includes(words));
  return [
    h("p", { class: "crumb", key: "crumb" }, inside("/servers", null, "Servers")),
    head(status.name, state(status), inside(`/activity${query({ server: status.name })}`, { class: "soft small" }, "Its activity"), !isTeam() && account({ status, isSignedIn }, app), !isTeam() && checkButton(status.name, app), settingsLink(status.name), restartButton(status.name, app)),
    h("p", { class: "target", key: "target" }, status.target),
    h("p", { class: "counts", key: "counts" }, counts(status), chips(status)),
    waits(pinned) && shown[0] !== "trust" && h("p", { class: "warn", key: "waits" }, waits(pinned), " ", h("button", { type: "button", class: "quiet", "data-trust": true, onclick: () => { tab = "trust"; app.render(); } }, "Review")),
    h("div", { key: "trouble" }, trouble(status, pinned)),
    signInPanel(status.name),
    checkPanel(status.name, isSignedIn, app),
    h("div", { class: "bar", key: "bar" },
      h("div", { class: "tabs", role: "group", "aria-label": "What it offers" }, tabs.map(([name, title, list]) => h("button", {
        type: "button", key: name, "aria-pressed": String(name === shown[0]), class: name === shown[0] ? "here" : "",
        onclick: () => { tab = name; app.render(); },
      }, title, h("span", { class: "count" }, count(list.length))))),
      shown[0] !== "trust" && h("input", {
        key: "find", type: "search", class: "search", "data-search": true, placeholder: "Find  /", "aria-label": `Find among the ${shown[1].toLowerCase()}`, value: inner,
        oninput: (event) => { inner = event.target.value; app.render(); },
      })),
    shown[0] === "trust" && trust(pinned, app),
    shown[0] !== "trust" && offers === null && h("p", { class: "empty", key: "unknown" }, "Its tools, prompts and resources are not known yet."),
    shown[0] !== "trust" && offers !== null && items.length === 0 && h("p", { class: "empty", key: "none" }, "None."),
    shown[0] !== "trust" && h("ul", { class: "definitions", key: `list-${shown[0]}` }, items.map((item) => shown[3](item, status.name))),
  ];
}

/** What a server says of a tool. What speaks for the tool is coloured only where the server's word is believed. */
export function effects(annotations = {}, isTrusted = false) {
  const said = [
    [annotations.readOnlyHint === true, "says: changes nothing", "calm"],
    [annotations.readOnlyHint !== true && annotations.destructiveHint !== false, annotations.destructiveHint ? "says: destructive" : "may destroy", "sharp"],
    [annotations.openWorldHint !== false, annotations.openWorldHint ? "says: reaches outside" : "may reach outside", "wide"],
    [annotations.idempotentHint === true, "says: idempotent", "calm"],
  ];
  return said.filter(([is]) => is).map(([, text, kind]) => h("span", { class: `chip ${kind === "calm" && !isTrusted ? "" : kind}` }, text));
}

const json = (value) => h("details", { class: "raw", key: "raw" }, h("summary", null, "As JSON"), h("pre", { class: "code" }, stringify(value, 2)));

function definition(key, name, title, text, beside, more) {
  return h("li", { class: "definition", key, "data-row": true },
    h("details", { key: "d" },
      h("summary", { "data-focus": true },
        h("span", { class: "mono name" }, name), title && title !== name && h("span", { class: "soft" }, title), h("span", { class: "chips" }, beside)),
      text && h("p", { class: "words" }, text), more));
}

const tool = (item, server) => definition(item.name, item.name, item.title ?? item.annotations?.title, item.description, effects(item.annotations),
  [!isTeam() && h("p", { class: "try-link", key: "try" }, inside(`/servers/${path(server)}/tools/${path(item.name)}`, { class: "button-link", "data-try": item.name }, "Try it")), fields(item.inputSchema), json(item)]);

const prompt = (item) => definition(item.name, item.name, item.title, item.description, [],
  [(item.arguments ?? []).length > 0 && h("dl", { class: "facts" }, item.arguments.map((one) => h("div", null,
    h("dt", null, h("span", { class: "mono" }, one.name), one.required && h("span", { class: "soft" }, " required")), h("dd", null, one.description ?? "")))), json(item)]);

const resource = (item) => definition(item.uri ?? item.uriTemplate, item.uri ?? item.uriTemplate, item.title ?? item.name, item.description,
  [item.mimeType && h("span", { class: "chip" }, item.mimeType)], [json(item)]);
