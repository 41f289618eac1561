// What is allowed or denied for longer, and the rules before that.

import { get, path, post } from "./api.js";
import { h, toast } from "./dom.js";
import { stringify } from "./json.js";
import { ago, many, moment, span } from "./format.js";
import { head } from "./parts.js";
import { proposals } from "./proposals.js";
import { ruleList } from "./rule_list.js";
import { has, isTeam } from "./team.js";

let search = "";

export const grants = {
  name: "Grants",
  path: "/grants",
  roles: ["member", "admin"],
  icon: ["M8 12.5a4 4 0 1 1 3.2 3.9L9 18.6H7v2H4v-3l4.3-4.3z", "M15 9h.01"],
  topics: ["grants", "rules"],
  match: (at) => (at === "/grants" ? {} : null),
  load: async (_, signal) => {
    if (isTeam()) {
      const [{ grants: all }, rules] = await Promise.all([get("grants", signal), has("admin") ? get("rules", signal) : undefined]);
      return { all, rules };
    }
    const [{ grants: all }, rules, proposed, setup] = await Promise.all([get("grants", signal), get("rules", signal), get("rules/proposals", signal), get("setup", signal)]);
    return { all, rules, proposed, setup };
  },
  view({ all, rules, proposed, setup }, _, app) {
    const shown = all.filter((one) => `${one.server} ${one.name} ${one.application ?? ""} ${one.principal ?? ""} ${(one.values ?? []).join(" ")}`.toLowerCase().includes(search.toLowerCase()));
    return [
      head(has("admin") ? "Grants and rules" : "Grants", h("input", { type: "search", class: "search", "data-search": true, placeholder: "Find  /", "aria-label": "Find a grant", value: search,
        oninput: (event) => { search = event.target.value; app.render(); } })),
      h("p", { class: "lead", key: "lead" }, "Decisions that you made for more than one call. Revoked grants require approval again."),
      shown.length === 0 && h("p", { class: "empty", key: "none" }, search ? "No matching grants." : "No lasting grants."),
      group("Known targets and values", "You approved these. The guard does not ask because they are new.", shown.filter((one) => one.effect === "known"), app),
      group("Permissions and blocks", null, shown.filter((one) => one.effect !== "known"), app),
      proposed && proposals(proposed, setup, app),
      rules && ruleList(rules, app),
    ];
  },
};

const EFFECTS = { allow: ["allowed", "calm"], deny: ["denied", "sharp"], known: ["known", "wide"], plan: ["plan", "wide"] };

function group(name, words, all, app) {
  return all.length > 0 && h("section", { key: name }, h("h2", null, name), words && h("p", { class: "soft small" }, words),
    h("ul", { class: "cards" }, all.map((one) => grant(one, app))));
}

function grant(one, app) {
  const [word, kind] = EFFECTS[one.effect] ?? [one.effect, ""];
  const isKnown = one.effect === "known";
  const subject = isKnown ? one.values.join(", ") : one.effect === "plan" ? one.name : `${one.name} of ${one.server}`;
  const conditions = [
    ...Object.entries(one.arguments ?? {}).map(([name, condition]) => [name, words(condition)]),
    ...(one.other_arguments ? [["other arguments", one.other_arguments.length > 0 ? `only ${one.other_arguments.join(", ")}` : "none"]] : []),
    ...(one.destinations?.length ? [["points to", one.destinations.join(" or ")]] : []),
  ];
  return h("li", { class: `card grant-${one.effect}`, key: one.id, "data-row": true },
    h("div", { class: "card-head" },
      h("span", { class: `chip ${kind}` }, word),
      h("h2", null, isKnown ? one.values.map((value, at) => [at > 0 && ", ", h("span", { class: "mono" }, value)]) : [h("span", { class: "mono" }, one.name), one.effect !== "plan" && h("span", { class: "soft" }, ` · ${one.server}`)]),
      h("div", { class: "card-side" }, h("button", { type: "button", class: "quiet", "data-focus": true, "data-revoke": one.name, "aria-label": `Revoke ${subject}`, onclick: () => revoke(one, app) }, "Revoke"))),
    conditions.length > 0 && h("dl", { class: "facts" }, conditions.map(([name, text]) => h("div", null, h("dt", null, h("span", { class: "mono" }, name)), h("dd", null, text)))),
    h("p", { class: "soft small" },
      [isKnown && `first for ${one.name} of ${one.server}`, one.any_application ? "for any application" : one.application ? `for ${one.application}` : "for any application", one.principal && `as ${one.principal}`,
        one.until ? `until ${moment(new Date(one.until))} (${span(new Date(one.until) - Date.now())})` : one.effect === "deny" ? "until it is revoked" : "until the session ends",
        one.session && `in the session: ${one.session}`,
        one.uses > 0 ? `used ${many(one.uses, "time")}, last ${ago(new Date(one.used_at))}` : "not used yet",
        `given ${ago(new Date(one.given_at))} by ${one.by}`].filter(Boolean).join(", ")));
}

const KINDS = { is: "is", under: "in", like: "like", at_least: "at least", at_most: "at most", regex: "matches", longer_than: "longer than", present: "present:" };

function words(condition) {
  if (typeof condition !== "object" || condition === null || Array.isArray(condition)) return `is ${stringify(condition)}`;
  return Object.entries(condition).map(([kind, value]) => `${KINDS[kind] ?? kind} ${typeof value === "string" ? value : stringify(value)}`).join(" and ");
}

async function revoke(one, app) {
  try {
    await post(`grants/${path(one.id)}/revoke`);
    toast(`Revoked: ${one.effect === "known" ? one.values.join(", ") : one.effect === "plan" ? one.name : `${one.name} of ${one.server}`}.`);
    app.refresh();
  } catch (error) {
    toast(error.message, "bad");
  }
}
