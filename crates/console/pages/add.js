// How servers and applications are added.

import { get, query } from "./api.js";
import { added, addition, begin, cancel, leave } from "./addition.js";
import { h, visible } from "./dom.js";
import { many } from "./format.js";
import { application, command } from "./connections.js";
import { head, inside } from "./parts.js";
import { lookUp, otherWays, registrySearch } from "./registry.js";

/** The server in the address. */
const wanted = () => new URLSearchParams(location.search).get("server");

export const add = {
  name: "Add a server",
  path: "/add",
  isInner: true,
  parent: "/",
  topics: ["servers"],
  match: (at) => (at === "/add" ? {} : null),
  title: () => (wanted() ? `Add ${visible(wanted())}` : "Add a server"),
  async load(_, signal) {
    const [{ servers }, { canAdd }] = await Promise.all([get("servers", signal), get("setup", signal)]);
    return { servers, canAdd };
  },
  /** Another address, or another page: an addition does not go on unseen. */
  leave: () => cancel(),
  view({ servers, canAdd }, _, app) {
    const server = wanted();
    if (added() !== undefined && added() !== server) cancel();
    if (canAdd && !server) lookUp(app);
    const choose = (name) => {
      app.go(`/add${query({ server: name })}`);
      begin(name, app);
    };
    if (canAdd && server) {
      return [
        h("p", { class: "crumb", key: "crumb" }, inside("/", null, "Home"), " / ", h("a", { href: "/add", "data-back": true, onclick: (event) => { event.preventDefault(); leave(app); } }, "Add a server")),
        head(server.split("/").at(-1)),
        h("p", { class: "target addition-name", key: "name" }, server),
        added() === server ? addition(servers, app)
          // A link from elsewhere must not make the host download anything.
          : h("section", { class: "card", key: "ask" }, h("p", null, "Hospes asks the registry about this server, and shows who published it and what would be run. Nothing is started before you say so."),
            h("div", { class: "buttons" }, h("button", { type: "button", class: "yes", "data-begin": true, onclick: () => begin(server, app) }, "Look at this server"), inside("/add", { class: "button-link" }, "Search instead"))),
      ];
    }
    return [
      h("p", { class: "crumb", key: "crumb" }, inside("/", null, "Home")),
      head("Add a server", servers.length > 0 && inside("/servers", { class: "soft small" }, many(servers.length, "server"))),
      canAdd ? registrySearch(choose, app)
        : h("section", { class: "card", key: "registry" }, h("h2", null, "From the registry"),
          h("p", null, "Installs it, starts it in quarantine, shows what it offers, and asks before anything is written."), command("hospes add NAME")),
      otherWays(),
    ];
  },
  keys: (_, __, app) => [wanted() && added()
    ? { keys: ["Escape"], show: "Esc", does: "cancel, and back to the search", run: () => leave(app) }
    : { keys: ["Escape"], show: "Esc", does: "back to Home", run: () => app.go("/") }],
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
