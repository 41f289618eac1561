// How servers and applications are added: what the host knows of them, and the commands that add them.

import { get } from "./api.js";
import { h } from "./dom.js";
import { many } from "./format.js";
import { application, command } from "./connections.js";
import { head, inside } from "./parts.js";

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
      command("hospes import"), h("p", null, inside("/welcome?step=1", {}, "Import on a page"))),
    h("p", { class: "soft small", key: "after" }, "The pages here show a new server as soon as the host knows it. ", inside("/servers", {}, "Servers")),
  ],
  keys: (_, __, app) => [{ keys: ["Escape"], show: "Esc", does: "back to Home", run: () => app.go("/") }],
};

export const connect = {
  name: "Connect an application",
  path: "/connect",
  isInner: true,
  parent: "/",
  topics: ["activity"],
  match: (at) => (at === "/connect" ? {} : null),
  title: ({ applications }) => `${many((applications ?? []).filter((one) => one.state === "connected").length, "application")} connected`,
  async load(_, signal) {
    const [{ applications }, { endpoint }, { hasCommands }] = await Promise.all([get("applications", signal), get("home", signal), get("setup", signal)]);
    return { applications, endpoint, hasCommands };
  },
  view: ({ applications, endpoint, hasCommands }, _, app) => [
    h("p", { class: "crumb", key: "crumb" }, inside("/", null, "Home")),
    head("Connect an application", applications?.length > 0 && h("span", { class: "soft" }, `${applications.filter((one) => one.state === "connected").length} of ${applications.length} connected`)),
    applications?.length > 0 && h("ul", { class: "cards", key: "found" }, applications.map((one) => application(one, hasCommands, app))),
    !(applications?.length > 0) && h("div", { class: "empty", key: "none" }, h("p", null, "No application with a known configuration file was found."), h("p", { class: "small" }, "Any application can use the endpoint below.")),
    endpoint && h("section", { class: "card", key: "other" }, h("h2", null, "Any other application"),
      h("p", null, "Give it this address, or the command where it starts programs itself:"), command(endpoint, "Copy the endpoint"), command("hospes stdio")),
  ],
  keys: (_, __, app) => [{ keys: ["Escape"], show: "Esc", does: "back to Home", run: () => app.go("/") }],
};
