// How servers and applications are added: what the host knows of them, and the commands that add them.

import { get } from "./api.js";
import { h } from "./dom.js";
import { many } from "./format.js";
import { copyButton, head, inside } from "./parts.js";

const command = (text, label) => h("p", { class: "command" }, h("code", null, text), copyButton(text, label ?? `Copy “${text}”`));

export const add = {
  name: "Add a server",
  path: "/add",
  isInner: true,
  parent: "/",
  topics: ["servers"],
  match: (at) => (at === "/add" ? {} : null),
  load: (_, signal) => get("servers", signal),
  view: ({ servers }) => [
    h("p", { class: "crumb", key: "crumb" }, inside("/", null, "Home")),
    head("Add a server", servers.length > 0 && inside("/servers", { class: "soft small" }, many(servers.length, "server"))),
    h("section", { class: "card", key: "registry" }, h("h2", null, "From the registry"),
      h("p", null, "Downloads it, starts it in quarantine, shows what it offers and what it may touch, and asks before anything is written."),
      command("hospes add NAME")),
    h("section", { class: "card", key: "own" }, h("h2", null, "One that you know"),
      h("p", null, "A program or an address in the configuration file. Look at what it offers first, without adding it:"),
      command("hospes list https://server.example/mcp"), command("hospes list -- program argument")),
    h("section", { class: "card", key: "import", id: "import" }, h("h2", null, "What other applications know"),
      h("p", null, "Finds the servers of your applications and shows what would be imported. Nothing is changed without a yes."),
      command("hospes import")),
    h("p", { class: "soft small", key: "after" }, "The pages here show a new server as soon as the host knows it. ", inside("/servers", {}, "Servers")),
  ],
  keys: (_, __, app) => [{ keys: ["Escape"], show: "Esc", does: "back to Home", run: () => app.go("/") }],
};

const STATES = { connected: ["connected", "ready"], "not-connected": ["not connected", "stopped"], changed: ["has another entry `hospes`", "retrying"], gone: ["the entry is gone", "retrying"], unreadable: ["cannot be read", "failed"] };

export const connect = {
  name: "Connect an application",
  path: "/connect",
  isInner: true,
  parent: "/",
  topics: ["activity"],
  match: (at) => (at === "/connect" ? {} : null),
  title: ({ applications }) => `${many((applications ?? []).filter((one) => one.state === "connected").length, "application")} connected`,
  async load(_, signal) {
    const [{ applications }, { endpoint }] = await Promise.all([get("applications", signal), get("home", signal)]);
    return { applications, endpoint };
  },
  view: ({ applications, endpoint }) => [
    h("p", { class: "crumb", key: "crumb" }, inside("/", null, "Home")),
    head("Connect an application", applications?.length > 0 && h("span", { class: "soft" }, `${applications.filter((one) => one.state === "connected").length} of ${applications.length} connected`)),
    applications?.length > 0 && h("ul", { class: "cards", key: "found" }, applications.map(application)),
    !(applications?.length > 0) && h("div", { class: "empty", key: "none" }, h("p", null, "No application with a known configuration file was found."), h("p", { class: "small" }, "Any application can use the endpoint below.")),
    endpoint && h("section", { class: "card", key: "other" }, h("h2", null, "Any other application"),
      h("p", null, "Give it this address, or the command where it starts programs itself:"), command(endpoint, "Copy the endpoint"), command("hospes stdio")),
  ],
  keys: (_, __, app) => [{ keys: ["Escape"], show: "Esc", does: "back to Home", run: () => app.go("/") }],
};

function application(one) {
  const [words, kind] = STATES[one.state] ?? [one.state, "stopped"];
  return h("li", { class: "card", key: one.id, "data-row": true, "data-application": one.id },
    h("div", { class: "card-head" }, h("h2", null, one.name), h("span", { class: `state ${kind}` }, words)),
    h("p", { class: "target" }, one.file),
    one.problem && h("p", { class: "warn" }, one.problem),
    one.state === "connected" ? h("details", { key: "undo" }, h("summary", { class: "soft small", "data-focus": true }, "Undo"), command(`hospes disconnect ${one.id}`))
      : h("div", { key: "do" }, h("p", { class: "soft small" }, "Shows the change of the file, and undoes it exactly with ", h("code", null, "hospes disconnect"), "."), command(`hospes connect ${one.id}`)));
}
