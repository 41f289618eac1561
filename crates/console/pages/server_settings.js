// The settings of one server, as they are written in Hospes' own file.

import { begin as beginUpdate } from "./addition.js";
import { get, path, post } from "./api.js";
import { coded, escapeHidden, h, unescapeHidden } from "./dom.js";
import { many } from "./format.js";
import { copyButton, head, inside, leftOutReason, waitsForReview } from "./parts.js";
import { changeOf, changeProblem, changeView, forget, showChange, undoBar } from "./server_change.js";

let draft;
let draftOf;
/** Answer to the question for a newer version. */
let update;
let app;

export const serverSettings = {
  name: "Settings",
  path: "/servers",
  isInner: true,
  parent: "/servers",
  topics: ["servers"],
  match(at) {
    const name = at.match(/^\/servers\/([^/]+)\/settings$/)?.[1];
    return name && { name: decodeURIComponent(name) };
  },
  async load({ name }, signal) {
    const found = await get(`servers/${path(name)}/settings`, signal);
    // What is typed stays while the page is fetched again.
    if (draftOf !== name) begin(found);
    return found;
  },
  leave() {
    again();
    update = undefined;
    forget();
  },
  title: ({ name }) => `Settings of ${name}`,
  view(data, _, page) {
    app = page;
    return view(data);
  },
  keys: (_, { name }, page) => [{ keys: ["Escape"], show: "Esc", does: "back to the server", run: () => page.go(`/servers/${path(name)}`) }],
};

/** Begins with the file anew, once it is fetched. */
const again = () => { draftOf = undefined; };

const values = (list) => (list ?? []).map((one) => ({ ...one, known: one.name, edit: "keep", value: "" }));

function begin({ name, settings: of }) {
  draftOf = name;
  if (!of) {
    draft = {};
    return;
  }
  draft = {
    enabled: of.isEnabled, command: of.command?.text, cwd: of.cwd ?? "", url: of.url,
    args: (of.args ?? []).map(({ text, isHidden }, keep) => ({ keep, text, isHidden, was: text })),
    env: values(of.env), headers: values(of.headers),
    isList: of.tools.include !== null, include: [...(of.tools.include ?? [])], exclude: [...of.tools.exclude],
    sandbox: of.sandbox && {
      kind: of.sandbox.kind, network: of.sandbox.network, isConfined: of.sandbox.files !== null,
      read: (of.sandbox.files?.read ?? []).join("\n"), write: (of.sandbox.files?.write ?? []).join("\n"),
    },
    connectTimeout: of.connectTimeout, requestTimeout: of.requestTimeout,
  };
}

function change(more) {
  Object.assign(draft, more);
  app.render();
}

const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
const isSame = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** What differs from the file. */
function edit(of) {
  const body = {};
  const put = (key, value, was) => { if (!isSame(value, was)) body[key] = value; };
  put("enabled", draft.enabled, of.isEnabled);
  put("command", draft.command, of.command?.text);
  put("cwd", draft.cwd, of.cwd ?? "");
  put("url", draft.url, of.url);
  put("connectTimeout", draft.connectTimeout, of.connectTimeout);
  put("requestTimeout", draft.requestTimeout, of.requestTimeout);
  const args = draft.args.map((one) => (one.keep !== undefined && one.text === one.was ? { keep: one.keep } : { text: one.text }));
  put("args", args, (of.args ?? []).map((_, keep) => ({ keep })));
  for (const key of ["env", "headers"]) {
    const changed = draft[key].filter((one) => one.edit !== "keep" && one.name.trim() !== "");
    if (changed.length > 0) body[key] = Object.fromEntries(changed.map((one) => [one.name.trim(), one.edit === "remove" ? "remove" : { [one.edit]: one.value }]));
  }
  put("tools", { include: draft.isList ? draft.include : null, exclude: draft.exclude }, { include: of.tools.include, exclude: of.tools.exclude });
  if (draft.sandbox) {
    const { kind, network, isConfined, read, write } = draft.sandbox;
    put("sandbox", { kind, network, files: isConfined ? { read: lines(read), write: lines(write) } : null }, { kind: of.sandbox.kind, network: of.sandbox.network, files: of.sandbox.files });
  }
  return body;
}

function view(data) {
  const { name, settings: of, status } = data;
  const crumb = h("p", { class: "crumb", key: "crumb" }, inside("/servers", null, "Servers"), " / ", status ? inside(`/servers/${path(name)}`, null, name) : name);
  const top = [crumb, head(`Settings of ${name}`, h("span", { class: `state ${status?.state ?? "stopped"}`, "data-state": status?.state ?? "off" }, status?.state ?? "off")), undoBar(name, app, data.undo, again)];
  if (changeOf() === name) return [...top, changeView(app, again)];
  return [
    ...top, facts(data),
    of ? form(data) : foreign(data),
    of && more(data),
  ];
}

const fact = (what, ...said) => said.some((one) => one !== null && one !== undefined && one !== false && one !== "") && h("div", { key: what }, h("dt", null, what), h("dd", null, said));

/** What the server is. */
function facts({ name, settings: of, status, permissions, profiles, dependents, running, file, leftOut }) {
  const owner = of?.registry?.match(/^io\.github\.([^/]+)\//)?.[1];
  return h("section", { class: "card", key: "facts" }, h("h2", null, "What it is"), h("dl", { class: "facts" },
    fact(of?.transport === "http" || status?.transport === "http" ? "Address" : "Runs", h("span", { class: "mono" }, status?.process?.command ?? of?.target ?? status?.target)),
    fact("Source", of?.registry && h("span", { class: "mono" }, of.registry)),
    fact("Publisher", owner && `GitHub account ${owner}`),
    fact("Version", of?.version),
    fact("Permissions", permissions),
    fact("State", status ? [waitsForReview(status) ? "waits for review" : status.state, running > 0 && `, ${many(running, "call")} in progress`] : leftOut && coded(leftOutReason(leftOut))),
    fact("Last error", status?.problem),
    fact("Profiles", profiles.length > 0 ? profiles.join(", ") : null),
    fact("Lasting decisions", dependents.grants > 0 && inside("/grants", null, many(dependents.grants, "decision"))),
    fact("Rules that name it", dependents.rules.length > 0 && dependents.rules.map(([number, title]) => title ?? `rule ${number}`).join(", ")),
    fact("File", of && h("span", { class: "mono" }, file))));
}

function foreign({ name, file }) {
  const command = "hospes import";
  return h("section", { class: "card", key: "foreign", "data-foreign": true }, h("h2", null, "Read-only"),
    h("p", null, file === null ? `${name} is not written in a file of Hospes, so it cannot be changed here.`
      : `${name} is not in ${file}: it comes from another file, or is one of the servers that run without a configuration. Take it over to change it here:`),
    file !== null && h("p", { class: "command" }, h("code", null, command), copyButton(command, "Copy the command")));
}

function form(data) {
  const { settings: of, file, name } = data;
  return h("form", { class: "settings", key: "form", autocomplete: "off", onsubmit: (event) => { event.preventDefault(); showChange(name, edit(of), app); } },
    h("section", { class: "card", key: "on" }, check("enabled", draft.enabled, "On: the host starts it, and applications see it", (enabled) => change({ enabled }))),
    of.env && group("env", "Variables", "variable", of),
    of.headers && group("headers", "Headers", "header", of),
    tools(data),
    launch(of),
    draft.sandbox && sandbox(),
    h("section", { class: "card", key: "times" }, h("h2", null, "Time limits"), h("div", { class: "fields" },
      field("connectTimeout", "Of a start, such as 30s; empty for the default"), field("requestTimeout", "Of a request, such as 2m; empty for the default"))),
    changeProblem(),
    h("div", { class: "buttons", key: "buttons" },
      h("button", { type: "submit", class: "yes", "data-preview": true }, "Show the change"),
      h("button", { type: "button", class: "quiet", "data-reset": true, onclick: () => { begin(data); forget(); app.render(); } }, "Reset"),
      h("span", { class: "soft small" }, `Nothing is written to ${file} before you have seen it.`)));
}

const check = (key, checked, label, put) => h("label", { class: "check", key },
  h("input", { type: "checkbox", checked, "data-check": key, onchange: (event) => put(event.target.checked) }), h("span", null, label));

const field = (key, label) => h("div", { class: "field", key }, h("label", { for: `set-${key}`, class: "soft small" }, label),
  h("input", { id: `set-${key}`, value: escapeHidden(draft[key] ?? ""), autocomplete: "off", spellcheck: "false", oninput: (event) => change({ [key]: unescapeHidden(event.target.value) }) }));

/** Variables or headers: names are seen, values are not. */
function group(key, title, one, { passEnv, envFile }) {
  const put = (at, more) => change({ [key]: draft[key].map((value, index) => (index === at ? { ...value, ...more } : value)) });
  return h("section", { class: "card", key }, h("h2", null, title),
    draft[key].length === 0 && h("p", { class: "soft", key: "none" }, "None."),
    h("ul", { class: "values" }, draft[key].map((value, at) => valueRow(key, value, at, one, put))),
    key === "env" && passEnv?.length > 0 && h("p", { class: "soft small", key: "pass" }, `Handed on from the host: ${passEnv.join(", ")}.`),
    key === "env" && envFile && h("p", { class: "soft small", key: "file" }, `More are in ${envFile}.`),
    h("div", { class: "buttons", key: "add" }, h("button", { type: "button", class: "quiet", "data-add-value": key, onclick: () => {
      change({ [key]: [...draft[key], { name: "", edit: "secret", value: "" }] });
      document.getElementById(`${key}-name-${draft[key].length - 1}`)?.focus();
    } }, `Add a ${one}`)));
}

function valueRow(key, value, at, one, put) {
  const isNew = value.known === undefined;
  const id = `${key}-${isNew ? `new-${at}` : value.name}`;
  const label = isNew ? `the new ${one}` : value.name;
  const now = value.secret ? `stored encrypted as ${value.secret}` : value.text === "[redacted]" ? "written in the file, not shown" : value.text;
  const choices = [...(isNew ? [] : [["keep", `Stays: ${now}`]]), ["secret", "New value, stored encrypted"], ["text", "New value, written in the file"], ["remove", "Remove"]];
  return h("li", { class: "value", key: isNew ? `new ${at}` : value.known, "data-value": value.name },
    isNew ? h("div", { class: "field" }, h("label", { for: `${key}-name-${at}`, class: "soft small" }, `Name of the ${one}`),
      h("input", { id: `${key}-name-${at}`, value: value.name, autocomplete: "off", spellcheck: "false", oninput: (event) => put(at, { name: event.target.value }) }))
      : h("span", { class: "mono value-name" }, value.name),
    h("select", { "aria-label": `What becomes of ${label}`, "data-choice": value.name, onchange: (event) => put(at, { edit: event.target.value, value: "" }) },
      choices.map(([word, words]) => h("option", { key: word, value: word, selected: value.edit === word }, words))),
    (value.edit === "secret" || value.edit === "text") && h("input", {
      key: value.edit, id, type: value.edit === "secret" ? "password" : "text", "aria-label": `New value of ${label}`, autocomplete: value.edit === "secret" ? "new-password" : "off", spellcheck: "false",
      value: value.value, "data-new-value": value.name, oninput: (event) => put(at, { value: event.target.value }),
    }));
}

function tools({ tools: known, settings: of }) {
  const patterns = [...draft.include, ...draft.exclude].filter((one) => one.includes("*"));
  const flip = (key, name, isIn) => change({ [key]: isIn ? [...draft[key], name] : draft[key].filter((one) => one !== name) });
  return h("section", { class: "card", key: "tools" }, h("h2", null, "Tools"),
    check("tools-all", !draft.isList, "All tools but those that are not ticked, also new ones", (isAll) => change(isAll
      ? { isList: false, exclude: [...new Set([...draft.exclude, ...known.filter((name) => !draft.include.includes(name) && of.tools.include === null)])] }
      : { isList: true, include: known.filter((name) => !draft.exclude.includes(name)), exclude: draft.exclude.filter((one) => one.includes("*")) })),
    known.length === 0 && h("p", { class: "soft", key: "none" }, "Its tools are not known yet."),
    h("ul", { class: "tool-list" }, known.map((name) => h("li", { key: name }, check(name, draft.isList ? draft.include.includes(name) : !draft.exclude.includes(name), h("span", { class: "mono" }, name),
      (isOn) => (draft.isList ? flip("include", name, isOn) : flip("exclude", name, !isOn)))))),
    patterns.length > 0 && h("p", { class: "soft small", key: "patterns" }, `Patterns of the file also count, and stay: ${patterns.join(", ")}.`));
}

/** What is run, or the address. */
function launch(of) {
  if (of.transport === "http") return h("section", { class: "card", key: "launch" }, h("h2", null, "Address"), field("url", "URL"));
  const put = (at, text) => change({ args: draft.args.map((one, index) => (index === at ? { ...one, text } : one)) });
  return h("section", { class: "card", key: "launch" }, h("h2", null, "What is run"), h("div", { class: "fields" },
    of.command && field("command", "Program"),
    h("fieldset", { class: "arguments", key: "args" }, h("legend", { class: "soft small" }, "Arguments"),
      h("ol", null, draft.args.map((one, at) => h("li", { key: `${one.keep ?? "new"} ${at}` },
        h("input", { "aria-label": `Argument ${at + 1}${one.isHidden ? ", hidden; it stays unless you type" : ""}`, value: escapeHidden(one.text), autocomplete: "off", spellcheck: "false", "data-argument": at, oninput: (event) => put(at, unescapeHidden(event.target.value)) }),
        h("button", { type: "button", class: "quiet", "aria-label": `Remove argument ${at + 1}`, onclick: () => change({ args: draft.args.filter((_, index) => index !== at) }) }, "Remove")))),
      h("button", { type: "button", class: "quiet", "data-add-argument": true, onclick: () => {
        change({ args: [...draft.args, { text: "" }] });
        document.querySelector(`[data-argument='${draft.args.length - 1}']`)?.focus();
      } }, "Add an argument")),
    of.transport === "stdio" && field("cwd", "Working directory, an absolute path; empty for none")));
}

function sandbox() {
  const put = (more) => change({ sandbox: { ...draft.sandbox, ...more } });
  const { kind, network, isConfined, read, write } = draft.sandbox;
  const area = (key, label, value) => h("div", { class: "field", key }, h("label", { for: `set-${key}`, class: "soft small" }, label),
    h("textarea", { id: `set-${key}`, rows: 3, spellcheck: "false", value, oninput: (event) => put({ [key]: event.target.value }) }));
  return h("section", { class: "card", key: "sandbox" }, h("h2", null, "Sandbox"),
    h("div", { class: "field" }, h("label", { for: "set-kind", class: "soft small" }, "Enforced by"),
      h("select", { id: "set-kind", onchange: (event) => put({ kind: event.target.value }) },
        [["auto", "what works here"], ["bubblewrap", "bubblewrap"], ["landlock", "Landlock"], ["off", "nothing"]].map(([word, words]) => h("option", { key: word, value: word, selected: kind === word }, words)))),
    check("network", network, "It may use the network", (is) => put({ network: is })),
    check("confined", isConfined, "It may use only these folders, besides those of the system", (is) => put({ isConfined: is })),
    isConfined && h("div", { class: "fields", key: "files" }, area("read", "To read, one absolute path a line", read), area("write", "To read and write, one absolute path a line", write)));
}

/** Update and removal. */
function more({ name, settings: of }) {
  const look = async () => {
    update = { isBusy: true };
    app.render();
    try {
      [update] = await post(`servers/${path(name)}/update`);
    } catch (error) {
      update = { error: error.message };
    }
    app.render();
  };
  return [
    of.registry && h("section", { class: "card", key: "update" }, h("h2", null, "Update"),
      h("div", { class: "buttons" }, h("button", { type: "button", "data-update": true, disabled: update?.isBusy === true, onclick: look }, "Look for a newer version")),
      update && !update.isBusy && h("p", { role: "status", key: "found", "data-update-state": update.state ?? "failed" },
        update.state === "available" ? `${update.current ?? "?"} → ${update.latest}. You see first what would be run and what changes.`
          : update.state === "current" ? `${update.current} is the newest version.` : update.error),
      update?.state === "available" && h("div", { class: "buttons", key: "show" }, h("a", { class: "button-link", href: `/servers/${path(name)}/update`, "data-show-update": true, onclick: (event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        app.go(`/servers/${path(name)}/update`);
        beginUpdate(name, app, { isUpdate: true });
      } }, "Show the update"))),
    h("section", { class: "card", key: "remove" }, h("h2", null, "Remove"),
      h("p", { class: "soft" }, "You see first what depends on it, and what it makes of the file."),
      h("div", { class: "buttons" }, h("button", { type: "button", class: "no", "data-remove-server": name, onclick: () => showChange(name, undefined, app) }, "Remove …"))),
  ];
}
