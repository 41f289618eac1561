// Profiles: sets of servers and tools with an endpoint each. They are listed, made, changed and deleted here, in Hospes' own file.

import { get, path, post } from "./api.js";
import { dialog, escapeHidden, h, toast, unescapeHidden } from "./dom.js";
import { many } from "./format.js";
import { copyButton, go, head, inside } from "./parts.js";

/** The address of a profile that does not exist yet; no profile has this name. */
const NEW = "+";

let draft;
/** Name of the profile that the draft is of. */
let draftOf;
let problem;
let isSaving = false;
let app;

export const profiles = {
  name: "Profiles",
  path: "/profiles",
  isInner: true,
  parent: "/servers",
  topics: ["servers"],
  match(at) {
    if (at === "/profiles") return {};
    const name = at.match(/^\/profiles\/([^/]+)$/)?.[1];
    return name && { name: decodeURIComponent(name) };
  },
  async load({ name }, signal) {
    const found = await get("profiles", signal);
    // What is typed stays while the page is fetched again.
    if (name !== undefined && (draft === undefined || draftOf !== name)) begin(name, found);
    if (name === undefined) draft = undefined;
    return found;
  },
  title: ({ profiles: all }) => many(all.length, "profile"),
  view(data, { name }, page) {
    app = page;
    return name === undefined ? list(data) : editor(data, name);
  },
  keys: (_, { name }, page) => [{ keys: ["Escape"], show: "Esc", does: name === undefined ? "back to the servers" : "back to all profiles", run: () => page.go(name === undefined ? "/servers" : "/profiles") }],
};

function begin(name, { profiles: all }) {
  const known = all.find((one) => one.name === name);
  draftOf = name;
  problem = undefined;
  draft = {
    name: name === NEW ? "" : name,
    title: known?.title ?? "",
    description: known?.description ?? "",
    // A new profile shows nothing that nobody has chosen.
    isList: known ? known.servers !== null : true,
    servers: [...(known?.servers ?? [])],
    exclude: [...(known?.exclude ?? [])],
    tools: Object.fromEntries(Object.entries(known?.tools ?? {}).map(([server, { include, exclude }]) => [server, { include: include === null ? null : include.join(", "), exclude: exclude.join(", ") }])),
  };
}

function list({ file, profiles: all, servers }) {
  return [
    h("p", { class: "crumb", key: "crumb" }, inside("/servers", null, "Servers")),
    head("Profiles", file !== null && servers.length > 0 && inside(`/profiles/${NEW}`, { class: "button-link", "data-new-profile": true }, "New profile")),
    h("p", { class: "lead", key: "lead" }, "A profile shows some of the servers and tools at an address of its own. Rules and accepted definitions are the same everywhere."),
    all.length === 0 && h("p", { class: "empty", key: "none" }, "No profiles. Every application sees all servers."),
    h("ul", { class: "cards", key: "cards" }, all.map(card)),
    h("p", { class: "soft small", key: "file" }, file === null ? "Profiles are shown here, and written in the configuration file." : ["Saved in ", h("span", { class: "mono" }, file), "; everything else of the file stays as it is."]),
  ];
}

function card(one) {
  const hidden = Object.entries(one.tools).map(([server, filter]) => `${server}: ${words(filter)}`);
  const secrets = Object.entries(one.secrets).map(([name, stored]) => `${name} is ${stored}`);
  return h("li", { class: "card", key: one.name, "data-row": true, "data-profile": one.name },
    h("div", { class: "card-head" },
      h("h2", null, h("span", { class: "mono" }, one.name), one.title && h("span", { class: "soft" }, ` · ${one.title}`)),
      one.isWritable && h("div", { class: "card-side" },
        inside(`/profiles/${path(one.name)}`, { class: "button-link", "data-edit-profile": one.name, "data-focus": true, "aria-label": `Edit ${one.name}` }, "Edit"),
        h("button", { type: "button", class: "quiet", "data-remove-profile": one.name, "aria-label": `Delete ${one.name}`, onclick: () => remove(one) }, "Delete"))),
    one.description && h("p", null, one.description),
    one.endpoint && h("p", { class: "command" }, h("code", { "data-endpoint": true }, one.endpoint), copyButton(one.endpoint, `Copy the endpoint of ${one.name}`)),
    h("dl", { class: "facts" },
      h("div", null, h("dt", null, "Servers"), h("dd", null, one.shown.length > 0 ? one.shown.join(", ") : "none")),
      hidden.length > 0 && h("div", null, h("dt", null, "Tools"), h("dd", null, hidden.join("; "))),
      one.groups && h("div", null, h("dt", null, "Groups"), h("dd", null, one.groups.join(", "))),
      secrets.length > 0 && h("div", null, h("dt", null, "Secrets"), h("dd", null, secrets.join(", ")))));
}

function words({ include, exclude }) {
  return [include !== null && `only ${include.join(", ") || "none"}`, exclude.length > 0 && `without ${exclude.join(", ")}`].filter(Boolean).join(", ");
}

function change(more) {
  Object.assign(draft, more);
  app.render();
}

const isShown = (server) => (draft.isList ? draft.servers.includes(server) : !draft.exclude.includes(server));

/** Shows a server, or does not. */
function toggle(server) {
  const without = (names) => names.filter((one) => one !== server);
  const wasShown = isShown(server);
  if (draft.isList) draft.servers = wasShown ? without(draft.servers) : [...draft.servers, server];
  else draft.exclude = wasShown ? [...draft.exclude, server] : without(draft.exclude);
  app.render();
}

function editor({ file, profiles: all, servers }, name) {
  const isNew = name === NEW;
  const known = all.find((one) => one.name === name);
  if (!isNew && !known) return [h("p", { class: "crumb", key: "crumb" }, inside("/profiles", null, "Profiles")), head("Profiles"), h("p", { class: "empty", key: "none" }, "There is no profile of this name.")];
  const isWritable = file !== null && (isNew || known.isWritable);
  return [
    h("p", { class: "crumb", key: "crumb" }, inside("/profiles", null, "Profiles")),
    head(isNew ? "New profile" : name),
    h("form", { class: "card profile-editor", key: "form", onsubmit: (event) => { event.preventDefault(); save(isNew, servers); } },
      h("div", { class: "fields" },
        isNew && field("name", "Name, the end of its address", { placeholder: "work", required: true, pattern: "[a-z0-9][a-z0-9_\\-]{0,31}", maxlength: 32, title: "lower-case letters, digits, - and _" }),
        field("title", "Title", { maxlength: 128 }),
        field("description", "Description", { maxlength: 1024 })),
      h("fieldset", { class: "profile-servers", key: "servers" }, h("legend", null, "Servers"),
        choice("list", true, "Those that are chosen here"), choice("all", false, "All but those that are not chosen, also new ones"),
        h("ul", { class: "profile-list" }, servers.map((server) => h("li", { key: server },
          h("label", { class: "check" }, h("input", { type: "checkbox", checked: isShown(server), "data-server": server, onchange: () => toggle(server) }), h("span", { class: "mono" }, server)),
          isShown(server) && tools(server))))),
      problem && h("p", { class: "problem", role: "alert", key: "problem" }, problem),
      h("div", { class: "buttons", key: "buttons" },
        h("button", { type: "submit", class: "yes", "data-save": true, disabled: !isWritable || isSaving }, isNew ? "Create the profile" : "Save the profile"),
        inside("/profiles", { class: "button-link" }, "Cancel"),
        !isWritable && h("span", { class: "soft small" }, "This profile is written in a file that cannot be changed here."))),
  ];
}

const field = (name, label, more) => h("div", { class: "field", key: name }, h("label", { for: `profile-${name}`, class: "soft" }, label),
  h("input", { id: `profile-${name}`, value: escapeHidden(draft[name]), autocomplete: "off", spellcheck: "false", "data-field": name, oninput: (event) => change({ [name]: unescapeHidden(event.target.value) }), ...more }));

const choice = (key, isList, label) => h("label", { class: "check", key }, h("input", { type: "radio", name: "profile-kind", checked: draft.isList === isList, "data-kind": key, onchange: () => change({ isList }) }), label);

/** The filter of the tools of a server. */
function tools(server) {
  const filter = draft.tools[server] ?? { include: null, exclude: "" };
  const put = (more) => change({ tools: { ...draft.tools, [server]: { ...filter, ...more } } });
  return h("details", { key: "tools", open: filter.include !== null || filter.exclude !== "" || undefined }, h("summary", { class: "soft small" }, "Tools"),
    h("div", { class: "fields" },
      h("div", { class: "field" }, h("label", { for: `include-${server}`, class: "soft small" }, "Only these, with * for any text; all without an entry"),
        h("input", { id: `include-${server}`, value: escapeHidden(filter.include ?? ""), placeholder: "read_*, list", autocomplete: "off", spellcheck: "false", "data-include": server, oninput: (event) => put({ include: event.target.value === "" ? null : unescapeHidden(event.target.value) }) })),
      h("div", { class: "field" }, h("label", { for: `exclude-${server}`, class: "soft small" }, "Never these"),
        h("input", { id: `exclude-${server}`, value: escapeHidden(filter.exclude), placeholder: "delete_*", autocomplete: "off", spellcheck: "false", "data-exclude": server, oninput: (event) => put({ exclude: unescapeHidden(event.target.value) }) }))));
}

const patterns = (text) => text.split(",").map((one) => one.trim()).filter(Boolean);

async function save(isNew, servers) {
  const filters = Object.entries(draft.tools).filter(([server]) => isShown(server));
  const known = (names) => names.filter((one) => servers.includes(one));
  const body = {
    isNew, title: draft.title, description: draft.description,
    servers: draft.isList ? known(draft.servers) : null,
    exclude: draft.isList ? [] : known(draft.exclude),
    tools: Object.fromEntries(filters.map(([server, { include, exclude }]) => [server, { include: include === null ? null : patterns(include), exclude: patterns(exclude) }])),
  };
  isSaving = true;
  app.render();
  try {
    await post(`profiles/${path(draft.name)}`, body);
    toast(`${draft.name} is saved. The host follows within a second.`);
    draft = undefined;
    isSaving = false;
    go("/profiles");
  } catch (error) {
    isSaving = false;
    problem = error.message;
    app.render();
  }
}

async function remove(one) {
  const isSure = await dialog(`Delete ${one.name}`, (close) => [
    h("h2", null, `Delete the profile ${one.name}?`),
    h("p", null, "Its address answers no more, and the sessions of its applications end. The servers stay."),
    h("div", { class: "buttons" },
      h("button", { type: "button", class: "no", "data-sure": true, onclick: () => close(true) }, "Delete"),
      h("button", { type: "button", class: "quiet", onclick: () => close(false) }, "Cancel")),
  ]);
  if (!isSure) return;
  try {
    await post(`profiles/${path(one.name)}/remove`);
    toast(`${one.name} is deleted.`);
    app.refresh();
  } catch (error) {
    toast(error.message, "bad");
  }
}
