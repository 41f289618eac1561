// The models that servers may ask, what they may spend, and what was chosen lately.

import { get } from "./api.js";
import { h } from "./dom.js";
import { ago, count, many, moment, span } from "./format.js";
import { head, inside } from "./parts.js";

const opened = new Set();

export const models = {
  name: "Models",
  path: "/models",
  roles: ["admin"],
  icon: ["M12 3l8 4.5v9L12 21l-8-4.5v-9z", "M4 7.5l8 4.5 8-4.5M12 12v9"],
  topics: ["models", "servers"],
  match: (at) => (at === "/models" ? {} : null),
  load: (_, signal) => get("models", signal),
  view(all, _, app) {
    if (!all.isOffered) {
      return [head("Models and budgets"), h("div", { class: "empty", key: "none" }, h("p", null, "No model is configured, so servers cannot use one."),
        h("p", { class: "small" }, "Add one with a table [models.NAME] in the configuration; [sampling] sets what servers may spend."))];
    }
    return [
      head("Models and budgets"),
      h("p", { class: "lead", key: "lead" }, "Servers may request a model’s answer if the application offers no model. You review each request and each answer, each within ",
        patience(all.reviewTimeoutMs), ", unless a rule says otherwise."),
      h("section", { key: "budgets", "aria-label": "Budgets" }, h("h2", null, "Budgets"), h("p", { class: "soft small" }, whole(all)),
        h("ul", { class: "cards" }, all.budgets.map(budget))),
      h("section", { key: "models", "aria-label": "Models" }, h("h2", null, "Models"), h("ul", { class: "cards pair" }, all.models.map(model))),
      h("section", { key: "names", "aria-label": "Names" }, h("h2", null, "Names that match"), names(all.models)),
      h("section", { key: "lately", "aria-label": "Recent choices" }, h("h2", null, "Recent choices"),
        all.lately.length === 0 ? h("p", { class: "empty" }, "No model was chosen since the host started.")
          : h("ul", { class: "entries" }, all.lately.map((one) => chosen(one, app)))),
    ];
  },
};

/** A time that is not rounded: a person counts on it. */
const patience = (millis) => (millis % 60_000 === 0 || millis < 60_000 ? span(millis) : `${many(Math.round(millis / 1000), "second")}`);

const within = (allowance) => `within ${span(allowance.windowMs)}`;

/** An allowance in words. */
function words(allowance) {
  const limits = [allowance.tokens !== null && many(allowance.tokens, "token"), allowance.money !== null && `${allowance.money} of money (in the currency of your prices)`].filter(Boolean);
  const rate = allowance.calls !== null && `at most ${many(allowance.calls, "request")} in ${span(allowance.perMs)}`;
  return [limits.length > 0 ? `${limits.join(" and ")} ${within(allowance)}` : "an unlimited amount", rate].filter(Boolean).join(", ");
}

function whole({ everyServer, isKept }) {
  return [
    everyServer ? `A server without a budget of its own may spend ${words(everyServer)}.` : "A server without a budget of its own may spend nothing.",
    isKept ? " Spending persists across restarts." : " Spending is lost when the host stops, because it has no state folder.",
  ];
}

const part = (of, limit) => (Number(limit) > 0 ? Math.min(1, Math.max(0, Number(of) / Number(limit))) : 1);

/** How much of a limit is spent and set aside. */
function meter(name, spent, reserved, left, limit, say) {
  const [used, held] = [part(spent, limit), part(reserved, limit)];
  const text = `${say(spent)} of ${say(limit)} spent${Number(reserved) > 0 ? `, ${say(reserved)} set aside` : ""}, ${say(left)} left`;
  return h("div", { class: `meter ${used + held >= 0.9 ? "full" : ""}`, key: name },
    h("div", { class: "meter-head" }, h("span", { class: "meter-name" }, name), h("span", null, h("strong", null, say(left)), " left"),
      h("span", { class: "soft end" }, `${say(spent)} spent${Number(reserved) > 0 ? `, ${say(reserved)} set aside` : ""}, of ${say(limit)}`)),
    h("div", { class: "meter-bar", role: "meter", "aria-label": `${name}: ${text}`, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round((used + held) * 100) },
      h("span", { class: "meter-used", style: { width: `${used * 100}%` } }), h("span", { class: "meter-held", style: { width: `${Math.min(held, 1 - used) * 100}%` } })));
}

const same = (value) => String(value);

function budget(one) {
  const [kind, ...rest] = one.account.split(":");
  const name = rest.join(":");
  const { allowance } = one;
  const spent = Number(one.spentTokens) > 0 || Number(one.reservedTokens) > 0;
  return h("li", { class: "card", key: one.account, "data-row": true, "data-account": one.account },
    h("div", { class: "card-head" },
      h("h2", null, kind === "server" ? inside(`/servers/${encodeURIComponent(name)}`, { class: "name", "data-focus": true }, name) : h("span", { tabindex: "0", "data-focus": true }, name)),
      h("span", { class: "chip" }, kind === "server" ? "server" : "signed in"),
      allowance && h("span", { class: "soft small end" }, within(allowance))),
    !allowance && h("p", { class: "soft" }, "No budget: it may not use any model."),
    allowance && allowance.tokens !== null && meter("Tokens", one.spentTokens, one.reservedTokens, one.leftTokens, allowance.tokens, count),
    allowance && allowance.money !== null && meter("Money, in the currency of your prices", one.spentMoney, one.reservedMoney, one.leftMoney, allowance.money, same),
    allowance && allowance.tokens === null && allowance.money === null && h("p", null, "Unlimited."),
    (!allowance || allowance.tokens === null) && spent && h("p", { class: "soft small" },
      `${many(one.spentTokens, "token")} spent${Number(one.reservedTokens) > 0 ? `, ${count(one.reservedTokens)} set aside` : ""}`, Number(one.spentMoney) > 0 && `, for ${one.spentMoney} in the currency of your prices`),
    allowance?.calls !== null && allowance?.calls !== undefined && h("p", { class: "soft small" }, `At most ${many(allowance.calls, "request")} in ${span(allowance.perMs)}.`));
}

const SCORES = [["cost", "Cheap"], ["speed", "Fast"], ["intelligence", "Capable"]];

function model(one) {
  const takes = ["text", one.images && "images", one.audio && "audio", one.tools && "tools"].filter(Boolean);
  return h("li", { class: "card model", key: one.name, "data-row": true, "data-model": one.name },
    h("div", { class: "card-head" }, h("h2", null, h("span", { tabindex: "0", "data-focus": true }, one.name)), h("span", { class: "chip" }, one.provider)),
    h("p", { class: "target" }, one.model),
    h("dl", { class: "scores" }, SCORES.map(([key, name]) => h("div", { key },
      h("dt", null, name), h("dd", null, h("span", { class: "meter-bar", "aria-hidden": "true" }, h("span", { class: "meter-used", style: { width: `${Number(one[key]) * 100}%` } })), h("span", { class: "number" }, String(one[key])))))),
    h("dl", { class: "facts tight one" },
      h("div", null, h("dt", null, "Supports"), h("dd", null, takes.join(", "))),
      h("div", null, h("dt", null, "Price"), h("dd", null, one.prices ? `${one.prices[0]} in, ${one.prices[1]} out, for a million tokens, in the currency of your prices` : "unknown")),
      (one.context !== null || one.maxOutput !== null) && h("div", null, h("dt", null, "Limits"), h("dd", null,
        [one.context !== null && many(one.context, "token"), one.maxOutput !== null && `answers of ${count(one.maxOutput)}`].filter(Boolean).join(", ")))));
}

function names(all) {
  const rows = all.flatMap((one) => [[one.name, one, "its name"], ...(one.model === one.name ? [] : [[one.model, one, "the provider’s name for it"]]), ...one.aliases.map((alias) => [alias, one, "alias"])]);
  return [
    h("p", { class: "soft small" }, "A server’s hint matches a model if it is a substring of one of these names, ignoring case. The first hint that matches decides; then the server’s priorities do."),
    h("div", { class: "scroll boxed" }, h("table", { class: "names" },
      h("thead", null, h("tr", null, ["Name", "Model", "Reason"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, rows.map(([name, one, why]) => h("tr", { key: `${one.name} ${name} ${why}` }, h("th", { scope: "row", class: "mono" }, name), h("td", null, one.name), h("td", { class: "soft" }, why)))))),
  ];
}

const STATES = { under_way: ["under way", "other"], answered: ["answered", "well"], refused: ["refused", "refused"], failed: ["failed", "failed"], cancelled: ["cancelled", "other"] };

function chosen(one, app) {
  const [word, kind] = STATES[one.state] ?? [one.state, "other"];
  const isOpen = opened.has(one.number);
  const toggle = () => {
    if (!opened.delete(one.number)) opened.add(one.number);
    app.render();
  };
  return h("li", { class: `entry ${kind}`, key: one.number, "data-row": true },
    h("button", { type: "button", class: "entry-line", "data-focus": true, "aria-expanded": String(isOpen), onclick: toggle },
      h("span", { class: "when" }, ago(new Date(one.at))), h("span", { class: `ending ${kind}` }, word),
      h("span", { class: "what" }, h("strong", null, one.model), h("span", { class: "soft" }, ` for ${one.server}`)),
      h("span", { class: "took" }, one.usage ? many(Number(one.usage[0]) + Number(one.usage[1]), "token") : ""),
      h("span", { class: "who soft", title: "in the currency of your prices" }, one.cost ? `cost ${one.cost}` : "")),
    isOpen && h("div", { class: "entry-more" }, h("dl", { class: "facts" },
      [["When", moment(new Date(one.at))], ["In the call of", one.cause], ["Chosen because", one.reason], ["Chosen by", one.isNamed && "the user, instead"],
        ["Tokens", one.usage && `${count(one.usage[0])} sent, ${count(one.usage[1])} received`], ["Cost", one.cost && `${one.cost}, in the currency of your prices`]]
        .filter(([, value]) => value).map(([name, value]) => h("div", { key: name }, h("dt", null, name), h("dd", null, value))))));
}
