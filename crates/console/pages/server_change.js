// A change of a server: what it makes of the file, then saving it, and its undo.

import { get, path, post } from "./api.js";
import { announce, h, toast } from "./dom.js";
import { fileDiff } from "./file_diff.js";
import { many } from "./format.js";
import { go } from "./parts.js";

/** The change that is shown: `{ server, edit, preview }`, without `edit` for a removal. */
let shown;
let problem;
let isBusy = false;
/** The last change of this window: `{ server, id, what }`. */
let last;

/** The server whose change is shown. */
export const changeOf = () => shown?.server;

export function forget() {
  shown = undefined;
  problem = undefined;
}

/** Says what is wrong with what was typed. */
export const changeProblem = () => problem && h("p", { class: "problem", role: "alert", key: "change-problem", "data-change-problem": true }, problem);

async function work(app, does) {
  if (isBusy) return;
  isBusy = true;
  problem = undefined;
  app.render();
  try {
    await does();
  } catch (error) {
    problem = error.message;
    // What was shown is no longer what would be done.
    if (error.code === "other-file" && shown) await show(shown.server, shown.edit, app).catch(() => { shown = undefined; });
  }
  isBusy = false;
  app.render();
}

async function show(server, edit, app) {
  const preview = edit ? await post(`servers/${path(server)}/settings/preview`, { edit }) : await get(`servers/${path(server)}/removal`);
  shown = { server, edit, preview };
  app.render();
  document.getElementById("change-title")?.focus();
}

/** Shows what a change, or without one a removal, makes of the file. */
export const showChange = (server, edit, app) => work(app, () => show(server, edit, app));

function save(app, done) {
  const { server, edit, preview } = shown;
  return work(app, async () => {
    const answer = await post(`servers/${path(server)}/${edit ? "settings" : "removal"}`, edit ? { edit, digest: preview.digest } : { digest: preview.digest });
    last = { server, id: answer.undo, what: edit ? [...preview.keys, ...preview.secrets].join(", ") : "removed" };
    forget();
    toast(edit ? `The settings of ${server} are saved. The host follows within a second.` : `${server} is removed.`);
    done();
    if (!edit) return go("/servers");
    // A button that is off takes no focus.
    isBusy = false;
    await app.refresh();
    document.querySelector("[data-undo-change]")?.focus();
  });
}

async function undo({ server, id }, app, done) {
  try {
    await post(`servers/${path(server)}/settings/undo`, { id });
    toast(`The last change of ${server} is undone.`);
    done();
  } catch (error) {
    toast(error.message, "bad");
  }
  last = undefined;
  await app.refresh();
  document.getElementById("main").focus({ preventScroll: true });
}

/** The last change, with its undo: of a server, or without one a removal. */
export function undoBar(server, app, known, done = () => {}) {
  const one = known ? { server, ...known } : last;
  if (!one || (server === null ? one.what !== "removed" : one.server !== server)) return null;
  return h("p", { class: "undo-bar", key: "undo", role: "status" },
    h("span", null, one.what === "removed" ? `${one.server} was removed.` : `Last change: ${one.what}.`),
    h("button", { type: "button", class: "quiet", "data-undo-change": one.server, disabled: isBusy, onclick: () => undo(one, app, done) }, "Undo"));
}

const names = (list) => list.join(", ");

function dependents({ profiles, rules, grants, secrets, hasSignIn }, server) {
  const rows = [
    profiles.length > 0 && ["Profiles", `${names(profiles)}: the server is taken out of them`],
    rules.length > 0 && ["Rules", `${names(rules.map(([number, name]) => (name ? `${number} (${name})` : String(number))))}: they stay, and match nothing`],
    grants > 0 && ["Lasting decisions", `${many(grants, "decision")}: they stay until you revoke them`],
    secrets.length > 0 && ["Secrets", `${names(secrets)}: they stay stored; “hospes secret remove NAME” deletes them`],
    hasSignIn && ["Sign-in", `if you signed in to it, “hospes auth logout ${server}” deletes the tokens; do so first`],
  ].filter(Boolean);
  return rows.length === 0 ? h("p", { class: "soft" }, "No profile, rule, secret or sign-in depends on it.")
    : h("dl", { class: "facts", "data-dependents": true }, rows.map(([what, words]) => h("div", null, h("dt", null, what), h("dd", null, words))));
}

/** The change before it is made. `done` is called once it is. */
export function changeView(app, done) {
  const { server, edit, preview } = shown;
  const { node, added, removed } = fileDiff(preview.before, preview.after);
  const back = () => {
    forget();
    app.render();
    announce("Nothing was changed.");
    document.querySelector("[data-preview]")?.focus();
  };
  return h("section", { class: "card change", key: "change", "data-change": server },
    h("h2", { id: "change-title", tabindex: "-1" }, edit ? `Change of ${server}` : `Remove ${server}`),
    h("p", { class: "change-effect", "data-effect": true }, preview.effect),
    preview.secrets.length > 0 && h("p", { key: "secrets" }, `Stored encrypted, and not written in the file: ${names(preview.secrets)}.`),
    preview.warnings.map((text) => h("p", { class: "warn", key: text }, text)),
    preview.dependents && dependents(preview.dependents, server),
    added + removed === 0 ? h("p", { class: "soft", key: "same" }, `The text of ${preview.file} stays the same.`)
      : [h("h3", { key: "file" }, preview.file, h("span", { class: "soft" }, ` ${many(added, "line")} added, ${removed} removed`)), node],
    changeProblem(),
    h("div", { class: "buttons", key: "buttons" },
      h("button", { type: "button", class: edit ? "yes" : "no", "data-save-change": true, disabled: isBusy, onclick: () => save(app, done) }, edit ? "Save" : `Remove ${server}`),
      h("button", { type: "button", "data-back-change": true, onclick: back }, "Back")));
}
