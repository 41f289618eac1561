// The first steps: five of them, each of which can be skipped. How far it is, is kept by the host.

import { get, post, query } from "./api.js";
import { application } from "./connections.js";
import { announce, h, toast } from "./dom.js";
import { ago, many } from "./format.js";
import { imports } from "./imports.js";
import { applicationName } from "./map.js";
import { copyButton, head, inside } from "./parts.js";
import { recordingSwitch } from "./recording.js";

const STEPS = ["Servers that you have", "Connect applications", "When to ask", "Notifications", "Make a call"];
const PERSON = "you, in the console";

/** What each preset asks about, in one conversation. The rows are those of the guard's documentation. */
const EXAMPLES = [
  ["read a note", { cautious: "allows", balanced: "allows", open: "allows" }],
  ["write a file, before anything of others was read", { cautious: "asks", balanced: "allows", open: "allows" }],
  ["after reading an e-mail: send a message to an address in it", { cautious: "asks", balanced: "asks", open: "asks" }],
  ["after reading an e-mail: send a message to somebody new, whom the e-mail does not name", { cautious: "asks", balanced: "asks", open: "allows" }],
];
const PRESETS = ["cautious", "balanced", "open"];

let undo;
let notified;

const stepOf = (address, progress) => {
  const given = Number(new URLSearchParams(address).get("step"));
  return Number.isInteger(given) && given >= 1 && given <= STEPS.length ? given : progress?.step ?? 1;
};

export const welcome = {
  name: "First steps",
  path: "/welcome",
  isInner: true,
  parent: "/",
  topics: ["activity", "servers", "rules"],
  match: (at) => (at === "/welcome" ? { query: location.search } : null),
  title: ({ setup }) => `First steps, ${stepOf(location.search, setup.progress)} of ${STEPS.length}`,
  async load(_, signal) {
    const [setup, home, { applications }] = await Promise.all([get("setup", signal), get("home", signal), get("applications", signal)]);
    return { setup, home, applications: applications ?? [] };
  },
  view,
  keys: (data, _, app) => {
    const at = stepOf(location.search, data.setup.progress);
    return [
      { keys: ["n"], show: "n", does: "the next step", run: () => go(at + 1, app) },
      { keys: ["p"], show: "p", does: "the previous step", run: () => at > 1 && go(at - 1, app) },
      { keys: ["Escape"], show: "Esc", does: "back to Home, to go on later", run: () => app.go("/") },
    ];
  },
};

/** Goes to a step and keeps it; after the last one all is done. */
async function go(step, app) {
  const isDone = step > STEPS.length;
  try {
    await post("setup/progress", { step: Math.min(step, STEPS.length), isDone });
  } catch (error) {
    toast(error.message, "bad");
  }
  if (isDone) {
    app.go("/");
    return;
  }
  announce(`Step ${step} of ${STEPS.length}: ${STEPS[step - 1]}`);
  app.go(`/welcome${query({ step: String(step) })}`);
}

function view(data, _, app) {
  const at = stepOf(location.search, data.setup.progress);
  const make = [servers, connect, rules, notify, firstCall][at - 1];
  const isLast = at === STEPS.length;
  return [
    h("p", { class: "crumb", key: "crumb" }, inside("/", null, "Home")),
    head("First steps", h("span", { class: "soft" }, `${at} of ${STEPS.length}`)),
    h("ol", { class: "steps", key: "steps", "aria-label": "Steps" }, STEPS.map((name, index) => h("li", { key: name, class: index + 1 === at ? "here" : index + 1 < at ? "past" : "" },
      inside(`/welcome${query({ step: String(index + 1) })}`, { "aria-current": index + 1 === at ? "step" : null }, name)))),
    h("section", { key: `step ${at}`, "data-step": String(at), "aria-labelledby": "step-title" }, h("h2", { id: "step-title" }, STEPS[at - 1]), make(data, app)),
    h("div", { class: "buttons step-buttons", key: "buttons" },
      at > 1 && h("button", { type: "button", class: "quiet", key: "back", "data-back": true, onclick: () => go(at - 1, app) }, "Back"),
      h("button", { type: "button", key: "next", "data-next": true, onclick: () => go(at + 1, app) }, isLast ? "Finish" : "Next ", !isLast && h("kbd", null, "n")),
      h("button", { type: "button", class: "quiet", key: "skip", "data-skip": true, onclick: () => go(STEPS.length + 1, app) }, "Skip all of it")),
  ];
}

function servers({ setup }, app) {
  return [h("p", { class: "soft", key: "lead" }, "Servers that your applications are configured with. Their files are only read. Tick what Hospes is to have as well."), imports(setup.hasCommands, app)];
}

function connect({ applications, setup }, app) {
  return [
    h("p", { class: "soft", key: "lead" }, "An application that is connected uses your servers through Hospes. You see the change of its file first, and can undo it here."),
    applications.length > 0 ? h("ul", { class: "cards", key: "list" }, applications.map((one) => application(one, setup.hasCommands, app))) : h("p", { class: "empty", key: "none" }, "No application with a known configuration file was found."),
  ];
}

/** Time after which the host has read a changed policy file, in milliseconds. */
const RELOAD = 1500;

function settle(app) {
  app.refresh();
  setTimeout(() => app.refresh(), RELOAD);
}

async function choose(preset, app) {
  try {
    ({ undo } = await post("setup/preset", { preset }));
    announce(`The preset is ${preset}.`);
  } catch (error) {
    toast(error.message, "bad");
  }
  settle(app);
}

async function takeBack(app) {
  try {
    await post("rules/undo", { id: undo });
    toast("The preset is as it was before.");
  } catch (error) {
    toast(error.message, "bad");
  }
  undo = undefined;
  settle(app);
}

function rules({ setup }, app) {
  return [
    h("p", { class: "soft", key: "lead" }, "A text that an agent reads can tell it what to do. A preset says when you are asked; your own rules come before it."),
    h("div", { class: "scroll", key: "table", tabindex: "0", role: "group", "aria-label": "What each preset asks about" }, h("table", { class: "names presets" },
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "An agent wants to"), PRESETS.map((preset) => h("th", { scope: "col", key: preset }, preset)))),
      h("tbody", null, EXAMPLES.map(([what, said]) => h("tr", { key: what }, h("th", { scope: "row" }, what), PRESETS.map((preset) => h("td", { key: preset, class: said[preset] === "asks" ? "asks" : "" }, said[preset]))))))),
    h("div", { class: "buttons", key: "presets", role: "group", "aria-label": "Preset" }, PRESETS.map((preset) => h("button", { type: "button", key: preset, "data-preset": preset, "aria-pressed": String(setup.preset === preset), class: setup.preset === preset ? "here" : "", onclick: () => setup.preset !== preset && choose(preset, app) }, preset)),
      undo && h("button", { type: "button", class: "quiet", key: "undo", "data-undo": true, onclick: () => takeBack(app) }, "Undo")),
    h("p", { class: "soft small", key: "now" }, setup.preset ? `Now: ${setup.preset}.` : "Now: no preset, only your rules."),
    recordingSwitch(setup, app),
  ];
}

async function ring(app) {
  try {
    await post("setup/notification");
    notified = "It was sent. If you see none, this desktop shows no notifications: keep this page open instead.";
  } catch (error) {
    notified = error.message;
  }
  app.render();
}

function notify({ setup }, app) {
  return [
    h("p", { class: "soft", key: "lead" }, "When a call waits and you do not look, a notification on the desktop says so. It shows who wants to do what, and decides nothing."),
    setup.hasCommands && h("div", { class: "buttons", key: "buttons" }, h("button", { type: "button", "data-notify": true, onclick: () => ring(app) }, "Show a test notification")),
    notified && h("p", { key: "said", role: "status", "data-notified": true }, notified),
    h("p", { class: "soft small", key: "off" }, "Off with ", h("code", null, "desktop = false"), " below ", h("code", null, "[notify]"), " in the configuration."),
  ];
}

function firstCall({ home }) {
  const calls = home.edges.filter((edge) => edge.application !== PERSON).sort((a, b) => new Date(b.lastAt) - new Date(a.lastAt));
  const [last] = calls;
  return h("div", { key: "call", "aria-live": "polite" }, last
    ? h("p", { class: "calm-line", key: "came", "data-first-call": true }, h("strong", null, applicationName(last.application)), " has called ", h("strong", null, last.server), ` ${ago(new Date(last.lastAt))}: ${many(last.calls, "call")} today. All is set up.`)
    : [h("p", { key: "wait", class: "waits" }, "Ask an application that you connected to use a server, such as “What time is it in Tokyo?”. The first call is shown here."),
      home.endpoint && h("p", { class: "command", key: "endpoint" }, h("code", null, home.endpoint), copyButton(home.endpoint, "Copy the endpoint"))]);
}

/** The line on Home that leads here, until all is done. */
export function welcomeLine(setup, app) {
  const { progress } = setup;
  if (!progress || progress.isDone) return null;
  return h("section", { class: "card welcome-line", key: "welcome", "aria-label": "First steps", "data-welcome": true },
    h("p", null, h("strong", null, "First steps"), h("span", { class: "soft" }, ` · ${progress.step} of ${STEPS.length}: ${STEPS[progress.step - 1]}`)),
    h("div", { class: "buttons" }, inside("/welcome", { class: "button-link" }, progress.step > 1 ? "Go on" : "Begin"),
      h("button", { type: "button", class: "quiet", "data-skip": true, onclick: async () => { await post("setup/progress", { ...progress, isDone: true }); app.refresh(); } }, "Skip")));
}
