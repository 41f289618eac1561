// The person of a team who is signed in, and the sign-in.

import { keep, post } from "./api.js";
import { h, patch } from "./dom.js";

/** Who is signed in: `{ name, principal, roles }`. Nothing on the console of one person. */
let person;

export const isTeam = () => person !== undefined;

/** Whether somebody has one of these roles. Without a team, the one person has all. The host looks as well. */
export const has = (...roles) => person === undefined || roles.some((role) => person.roles.includes(role));

/** Takes over who is signed in, out of what the host says about itself. */
export function take({ person: known }) {
  if (!known) return;
  person = known;
  keep(known.key);
  document.body.classList.add("is-team");
  patch(document.getElementById("who"),
    h("p", { class: "signed-in-name", title: known.principal }, known.name),
    h("p", { class: "signed-in-roles" }, known.roles.join(", ")),
    h("button", { type: "button", class: "quiet", id: "sign-out", onclick: signOut }, "Sign out"));
}

async function signOut() {
  await post("sessions/end").catch(() => {});
  keep("");
  // What is in the memory of the page goes with it.
  location.assign("/");
}

/** The page of somebody who is not signed in. */
export function door(main) {
  let problem;
  const draw = () => patch(main, h("div", { class: "door", key: "out" },
    h("h1", null, "Sign in"),
    h("p", null, "This console is for a team. You sign in with the account of your organisation, and see what is yours."),
    h("p", { class: "buttons" }, h("button", { type: "button", class: "yes", id: "sign-in", onclick: go }, "Sign in")),
    problem && h("p", { class: "problem", role: "alert" }, problem)));
  const go = async () => {
    try {
      const { url } = await post("sign-in");
      location.assign(url);
    } catch (error) {
      problem = error.message;
      draw();
    }
  };
  draw();
}
