// Importing the servers that applications know: found servers with their conflicts, ticked, then added.

import { post } from "./api.js";
import { announce, h } from "./dom.js";
import { many } from "./format.js";

let found;
let chosen = new Set();
let problem;
let isBusy = false;
let imported;

/** `cursor:github`: the server of one application, where several have a server of this name. */
const nameOf = (one) => (one.state === "conflict" ? `${one.origins[0]?.source}:${one.name}` : one.name);
const isProject = (one) => one.origins.every(({ scope }) => scope === "project");

async function look(app) {
  isBusy = true;
  try {
    found = await post("setup/servers");
    chosen = new Set(found.servers.filter((one) => one.state === "new" && one.selected).map(nameOf));
  } catch (error) {
    problem = error.message;
  }
  isBusy = false;
  app.render();
}

async function run(app) {
  isBusy = true;
  problem = undefined;
  app.render();
  try {
    // What was shown is what is imported.
    const servers = found.servers.filter((one) => chosen.has(nameOf(one))).map((one) => ({ name: nameOf(one), digest: one.digest }));
    imported = await post("setup/import", { servers });
    announce(`${many(chosen.size, "server")} imported.`);
    found = undefined;
  } catch (error) {
    problem = error.message;
    // A server may have changed since it was shown.
    await look(app);
  }
  isBusy = false;
  app.render();
}

/** Ticks a server; of those that have one name, only one. */
function tick(one, isTicked, app) {
  if (one.state === "conflict") for (const other of found.servers.filter(({ name }) => name === one.name)) chosen.delete(nameOf(other));
  if (isTicked) chosen.add(nameOf(one));
  else chosen.delete(nameOf(one));
  app.render();
}

const STATES = { new: "new", present: "already in the configuration", name_taken: "another server of the configuration has this name", conflict: "applications have different ones: choose" };

function row(one, app) {
  const name = nameOf(one);
  const id = `import-${name}`;
  const canTick = one.state === "new" || one.state === "conflict";
  const from = one.origins.map(({ source, scope }) => `${source}${scope === "project" ? " (project)" : ""}`).join(", ");
  return h("li", { class: "card import", key: `${name} ${one.target}`, "data-row": true, "data-import": name },
    h("div", { class: "check" },
      h("input", { type: "checkbox", id, "data-focus": true, disabled: !canTick, checked: chosen.has(name), onchange: (event) => tick(one, event.target.checked, app) }),
      h("label", { for: id }, h("strong", null, one.name), h("span", { class: "soft" }, ` from ${from}`), h("span", { class: `chip ${one.state === "conflict" || one.state === "name_taken" ? "wide" : ""}` }, STATES[one.state] ?? one.state))),
    h("p", { class: "target" }, one.target),
    isProject(one) && h("p", { class: "soft small" }, "From the files of a project, which may come from others."),
    one.secrets.length > 0 && h("p", { class: "soft small" }, `${many(one.secrets.length, "secret")}, stored encrypted and never shown: ${one.secrets.join(", ")}`),
    one.missingSecrets.length > 0 && h("p", { class: "warn" }, `To be stored first: ${one.missingSecrets.map((secret) => `hospes secret set ${secret}`).join("; ")}`));
}

/** The list, and the button that imports what is ticked. */
export function imports(canImport, app) {
  if (!canImport) return h("p", { key: "none" }, "Type ", h("code", null, "hospes import"), " in a terminal.");
  if (imported) {
    return h("p", { class: "calm-line", key: "imported", role: "status", "data-imported": true }, `${many(imported.servers.filter((one) => one.selected).length, "server")} added to ${imported.config}. The host starts them now.`);
  }
  if (found === undefined && problem === undefined) {
    if (!isBusy) look(app);
    return h("p", { class: "soft", key: "looking", role: "status" }, "Reading the files of your applications …");
  }
  const servers = found?.servers ?? [];
  return [
    problem && h("p", { class: "problem", role: "alert", key: "problem" }, problem),
    found && servers.length === 0 && h("p", { class: "empty", key: "none" }, "No application with MCP servers was found."),
    servers.length > 0 && h("ul", { class: "cards", key: "list" }, servers.map((one) => row(one, app))),
    found?.unreadable.map((one) => h("p", { class: "warn", key: `unreadable ${one.file}` }, `${one.file}: ${one.reason}`)),
    found?.refused.map((one) => h("p", { class: "soft small", key: `refused ${one.name}` }, `Not possible: ${one.name}: ${one.reason}`)),
    servers.length > 0 && h("div", { class: "buttons", key: "buttons" },
      chosen.size === 0 ? h("p", { class: "soft", key: "nothing" }, servers.some((one) => one.state === "new" || one.state === "conflict") ? "Tick the servers to import." : "There is nothing to import.")
        : h("button", { type: "button", class: "wraps", "data-run-import": true, title: found.config, disabled: isBusy, onclick: () => run(app) }, isBusy ? "Importing …" : `Import ${many(chosen.size, "server")} into ${found.config.split(/[/\\]/u).at(-1)}`)),
  ];
}
