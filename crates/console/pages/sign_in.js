// The sign-in to a server that requires one: at its authorization server, in a tab of its own.

import { path, post, stream } from "./api.js";
import { announce, h, toast } from "./dom.js";

/** The sign-ins of this window, by server: `{ stage, host, url, problem, request }`. */
const all = new Map();

const isPage = (url) => /^https?:\/\//.test(url ?? "");

/** Opens the tab while the press still counts, so that no browser takes it for a window that nobody wants. */
function openTab() {
  const tab = open("", "_blank");
  if (tab) {
    // The page of another site must not reach this one.
    tab.opener = null;
    tab.document.title = "Sign in";
    tab.document.body.textContent = "Asking the server where you sign in …";
  }
  return tab;
}

async function signIn(server, app) {
  if (all.get(server)?.stage === "running") return;
  const mine = { stage: "running", request: new AbortController() };
  all.set(server, mine);
  const tab = openTab();
  app.render();
  const heard = ({ event, ...said }) => {
    if (event === "signIn" && isPage(said.url)) {
      Object.assign(mine, { host: said.host, url: said.url });
      // A tab that was closed meanwhile leaves the link on this page.
      if (tab && !tab.closed) tab.location.replace(said.url);
      announce(`Sign in at ${new URL(said.url).host}, in the new tab.`);
    } else if (event === "done") mine.stage = "done";
    else if (event === "failed") Object.assign(mine, { stage: "failed", problem: said.message });
    app.render();
  };
  try {
    await stream(`servers/${path(server)}/sign-in`, {}, mine.request.signal, heard);
    if (mine.stage === "running") Object.assign(mine, { stage: "failed", problem: "the host has ended the sign-in" });
  } catch (error) {
    if (error.name === "AbortError") all.delete(server);
    else Object.assign(mine, { stage: "failed", problem: error.message });
  }
  if (mine.url === undefined) tab?.close();
  if (mine.stage === "done") toast(`Signed in to ${server}.`);
  else if (mine.stage === "failed") announce(`Not signed in to ${server}.`);
  await app.refresh();
  app.render();
}

async function signOut(server, app) {
  try {
    const { revoked } = await post(`servers/${path(server)}/sign-out`);
    all.delete(server);
    toast(revoked ? `Signed out of ${server}; its tokens are revoked.` : `Signed out of ${server}; its tokens are deleted.`);
  } catch (error) {
    toast(error.message, "bad");
  }
  await app.refresh();
  document.querySelector(`[data-sign-in-to='${CSS.escape(server)}']`)?.focus();
}

export const signInButton = (server, app) => h("button", {
  type: "button", class: "yes sign-in", key: "sign-in", "data-sign-in-to": server, "aria-label": `Sign in to ${server}, in a new tab`, "aria-disabled": all.get(server)?.stage === "running" ? "true" : null, onclick: () => signIn(server, app),
}, "Sign in");

export const signOutButton = (server, app) => h("button", {
  type: "button", class: "quiet", key: "sign-out", "data-sign-out-of": server, "aria-label": `Sign out of ${server}`, title: "Revokes and deletes its tokens", onclick: () => signOut(server, app),
}, "Sign out");

/** How the sign-in of this window goes, or nothing. */
export function signInPanel(server) {
  const mine = all.get(server);
  if (!mine) return null;
  if (mine.stage === "done") return h("p", { class: "note", key: `signed ${server}`, role: "status", "data-sign-in-state": "done" }, `You are signed in to ${server}.`);
  if (mine.stage === "failed") return h("p", { class: "problem", key: `signed ${server}`, role: "alert", "data-sign-in-state": "failed" }, `Not signed in: ${mine.problem}`);
  return h("section", { class: "card", key: `signing ${server}`, "data-sign-in-state": "running", "aria-label": `Sign-in to ${server}` },
    h("p", { role: "status" }, mine.url === undefined ? "Asking the server where you sign in …" : `Waiting for your sign-in at ${new URL(mine.url).host}, in the new tab.`),
    h("p", { class: "soft small" }, "The tab has to be in a browser on the machine of the host. The tokens are stored encrypted."),
    h("div", { class: "buttons" },
      h("button", { type: "button", class: "quiet", key: "cancel", "data-cancel-sign-in": server, onclick: () => mine.request.abort() }, "Cancel"),
      mine.url !== undefined && h("a", { class: "button-link", key: "again", href: mine.url, target: "_blank", rel: "noopener noreferrer", "data-sign-in-link": true }, "Open the page again")));
}
