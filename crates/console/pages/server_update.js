// The update of a server: what is run and what changes, as `hospes update` shows it, with the same questions as adding one.

import { get, path } from "./api.js";
import { addition, begin, cancel, leave, updated } from "./addition.js";
import { h } from "./dom.js";
import { shell } from "./format.js";
import { copyButton, head, inside } from "./parts.js";

export const serverUpdate = {
  name: "Update",
  path: "/servers",
  isInner: true,
  parent: "/servers",
  topics: ["servers"],
  match(at) {
    const name = at.match(/^\/servers\/([^/]+)\/update$/)?.[1];
    return name && { name: decodeURIComponent(name) };
  },
  async load(_, signal) {
    const [{ servers }, { canAdd }] = await Promise.all([get("servers", signal), get("setup", signal)]);
    return { servers, canAdd };
  },
  /** Another page: an update does not go on unseen. */
  leave: () => cancel(),
  title: () => "Update of a server",
  view({ servers, canAdd }, { name }, app) {
    const command = `hospes update ${shell(name)}`;
    return [
      h("p", { class: "crumb", key: "crumb" }, inside("/servers", null, "Servers"), " / ", inside(`/servers/${path(name)}`, null, name)),
      head(`Update of ${name}`),
      !canAdd ? h("p", { class: "command", key: "command" }, h("code", null, command), copyButton(command, "Copy the command"))
        : updated() === name ? addition(servers, app)
          // A link from elsewhere must not make the host download anything.
          : h("section", { class: "card", key: "ask" }, h("p", null, "Hospes looks for a newer version, and shows what would be run and what changes. Nothing is started before you say so, and the old version stays for one step back."),
            h("div", { class: "buttons" }, h("button", { type: "button", class: "yes", "data-begin-update": true, onclick: () => begin(name, app, { isUpdate: true }) }, "Look at the update"), inside(`/servers/${path(name)}`, { class: "button-link" }, "Back to the server"))),
    ];
  },
  keys: (_, { name }, app) => [updated() === name
    ? { keys: ["Escape"], show: "Esc", does: "cancel, and back to the server", run: () => leave(app) }
    : { keys: ["Escape"], show: "Esc", does: "back to the server", run: () => app.go(`/servers/${path(name)}`) }],
};
