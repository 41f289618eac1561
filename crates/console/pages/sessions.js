// The browsers that are let in.

import { get, path, post } from "./api.js";
import { h, toast } from "./dom.js";
import { help } from "./keys.js";
import { head } from "./parts.js";
import { ago, moment, span } from "./format.js";
import { has, isTeam } from "./team.js";

/** A browser in a few words, out of what it calls itself. */
function browser(agent) {
  const names = [["Firefox/", "Firefox"], ["Edg/", "Edge"], ["OPR/", "Opera"], ["HeadlessChrome/", "Chromium, headless"], ["Chrome/", "Chrome or Chromium"], ["Safari/", "Safari"]];
  const systems = [["Android", "Android"], ["iPhone", "iPhone"], ["iPad", "iPad"], ["Mac OS X", "macOS"], ["Windows", "Windows"], ["Linux", "Linux"]];
  const of = (list) => list.find(([mark]) => agent.includes(mark))?.[1];
  return [of(names) ?? "A browser", of(systems) && `on ${of(systems)}`].filter(Boolean).join(" ");
}

async function end(id, isThis, app) {
  try {
    await post(isThis ? "sessions/end" : `sessions/${path(id)}/end`);
    if (isThis) dispatchEvent(new CustomEvent("hospes:out", { detail: isTeam() ? "sign-in" : "no-session" }));
    else {
      toast("The session was ended.");
      app.refresh();
    }
  } catch (error) {
    toast(error.message, "bad");
  }
}

export const sessions = {
  name: "Sessions",
  path: "/sessions",
  roles: ["member", "admin", "auditor"],
  icon: ["M4 5h16v11H4z", "M9 20h6M12 16v4"],
  topics: ["sessions"],
  match: (at) => (at === "/sessions" ? {} : null),
  load: (_, signal) => get("sessions", signal),
  view: ({ sessions: all, current }, _, app) => [
    head("Sessions", h("button", { type: "button", class: "quiet", onclick: () => document.getElementById("theme").click() }, "Light or dark"), h("button", { type: "button", class: "quiet", onclick: help }, "Keys")),
    h("p", { class: "lead", key: "lead" }, isTeam() ? (has("admin") ? "Browsers in which people of the team are signed in, at any node." : "Browsers in which you are signed in.") : "Browsers signed in to this console. “hospes console” creates a one-time link for another one, valid for ten minutes."),
    h("ul", { class: "cards", key: "cards" }, all.map((one) => {
      const isThis = one.id === current;
      return h("li", { class: "card", key: one.id, "data-row": true },
        h("div", { class: "card-head" },
          h("h2", null, browser(one.browser)), isThis && h("span", { class: "chip calm" }, "this browser"),
          h("div", { class: "card-side" }, h("button", {
            type: "button", class: "quiet", "data-focus": true, "data-end": one.id, onclick: () => end(one.id, isThis, app),
          }, isThis ? "Sign out" : "End"))),
        h("p", { class: "soft" }, `Signed in ${moment(new Date(one.opened))}, last used ${ago(new Date(one.seen))}, ends in ${span(new Date(one.ends) - Date.now())} unless it is used.`),
        one.name && h("p", { class: "session-person" }, one.name, " ", h("span", { class: "target" }, one.person)),
        h("p", { class: "target" }, one.browser));
    })),
  ],
};
