// The frame: which page is shown, what is new, light and dark.

import { follow, get, reportFocus } from "./api.js";
import { h, patch, toast } from "./dom.js";
import { help, setPageKeys, setPages } from "./keys.js";
import { head } from "./parts.js";
import { home } from "./home.js";
import { approvals } from "./approvals.js";
import { servers } from "./servers.js";
import { serverSettings } from "./server_settings.js";
import { serverUpdate } from "./server_update.js";
import { grants } from "./grants.js";
import { activity } from "./activity.js";
import { models } from "./models.js";
import { sessions } from "./sessions.js";
import { add, connect } from "./add.js";
import { ruleEditor } from "./rules.js";
import { profiles } from "./profiles.js";
import { tryTool } from "./try.js";
import { welcome } from "./welcome.js";
import { door, has, isTeam, take } from "./team.js";

/**
 * A page: `name`, `path` and `icon` for the list of pages; `match(path)` says whether an address is its, and what stands in
 * it; `load(found, signal)` fetches what it shows; `view(data, found, app)` makes it; `topics` are the news after which it is
 * fetched again; `keys(data, found, app)` is what it has on the keyboard; `title(data)` what stands on the
 * tab of the window, with the number that matters. A page with `isInner` is not in the list; `parent` is the path of the page that is
 * marked there instead. With a team, the list has the pages with `roles` of which somebody has one.
 */
let pages = [home, approvals, servers, activity, grants, models, sessions];
const inner = [add, connect, welcome, tryTool, ruleEditor, profiles, serverSettings, serverUpdate];
let every = [...inner, ...pages];

const main = document.getElementById("main");
let page;
let found;
let data;
let loading;
let isOut = false;
const badges = new Map();

const app = {
  go,
  /** Fetches the page again. */
  refresh: () => load(),
  page: () => page,
  /** What stands in the address. */
  found: () => found,
  /** Makes it again from what is there. */
  render: () => draw(),
  badge(name, number) {
    if (badges.get(name) === number) return;
    badges.set(name, number);
    drawNav();
    setTitle();
  },
};

function go(path, isBack = false, isKept = false) {
  if (!isBack && path !== location.pathname + location.search) history.pushState(null, "", path);
  const next = every.find((one) => one.match(location.pathname)) ?? pages[0];
  const isOther = next !== page || JSON.stringify(next.match(location.pathname)) !== JSON.stringify(found);
  const isDrawn = isKept && next === page && data !== undefined;
  if (isOther && !isDrawn) page?.leave?.();
  page = next;
  found = next.match(location.pathname) ?? {};
  if (isDrawn) draw();
  else if (isOther) {
    data = undefined;
    setPageKeys([]);
    patch(main, h("p", { class: "soft", key: "loading" }, "Loading …"));
    setTitle();
    scrollTo(0, 0);
    if (!isBack) main.focus({ preventScroll: true });
  }
  drawNav();
  return load();
}

async function load() {
  if (isOut) return;
  loading?.abort();
  const mine = new AbortController();
  loading = mine;
  const [asked, of] = [page, found];
  try {
    const fresh = await asked.load(of, mine.signal);
    if (loading !== mine) return;
    data = fresh;
    draw();
    setTitle();
  } catch (error) {
    if (error.name === "AbortError" || loading !== mine || isOut) return;
    if (data !== undefined && error.status === 0) return;
    patch(main, head(asked.name), h("div", { class: "problem", key: "problem", role: "alert" }, error.message));
  }
}

function draw() {
  if (data === undefined || isOut) return;
  patch(main, page.view(data, found, app));
  setPageKeys(page.keys?.(data, found, app) ?? []);
}

/** The name of the page, with what waits: it is seen on the tab of a window that nobody looks at. */
function setTitle() {
  const waiting = badges.get("Approvals") ?? 0;
  document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${(data !== undefined && page?.title?.(data)) || (page?.name ?? "Console")} · hospes`;
}

const isHere = (one) => one === page || (page?.isInner === true && page.parent === one.path);

function drawNav() {
  patch(document.getElementById("nav"), pages.map((one, index) => {
    const number = badges.get(one.name) ?? 0;
    return h("a", {
      key: one.path, href: one.path, class: isHere(one) ? "here" : "", "aria-current": isHere(one) ? "page" : null,
      onclick: (event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        go(one.path);
      },
    },
    h("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, one.icon.map((d) => h("path", { d }))),
    h("span", { class: "nav-name" }, one.name),
    number > 0 && h("span", { class: "badge", "aria-label": `${number} waiting` }, String(number)),
    h("kbd", { "aria-hidden": "true" }, String(index)));
  }));
}

const THEMES = ["auto", "light", "dark"];

function theme(next) {
  const now = next ?? localStorage.getItem("hospes-theme") ?? "auto";
  if (next) localStorage.setItem("hospes-theme", next);
  if (now === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = now;
  const button = document.getElementById("theme");
  button.textContent = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" }[now];
  button.onclick = () => theme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
}

function out({ detail: code }) {
  if (isOut) return;
  isOut = true;
  setPageKeys([]);
  document.body.classList.add("is-out");
  document.title = "hospes";
  patch(document.getElementById("nav"));
  if (code === "sign-in") {
    door(main);
    return;
  }
  patch(main, h("div", { class: "door", key: "out" },
    h("h1", null, "This browser is not signed in"),
    h("p", null, "The console opens with a one-time link. “hospes up” shows one when it starts; this command creates a new one:"),
    h("pre", { class: "code" }, "hospes console"),
    h("p", { class: "soft" }, "A session ends after 12 hours without use, when it is ended in the console, and when the host stops.")));
}

addEventListener("hospes:out", out);
addEventListener("hospes:go", ({ detail: { path, isKept } }) => go(path, false, isKept));
addEventListener("popstate", () => go(location.pathname, true));
document.getElementById("help").onclick = help;
theme();

const state = document.getElementById("link-state");
let wasAway = false;

function linked(isThere) {
  state.className = `link-state ${isThere ? "on" : "off"}`;
  state.textContent = isThere ? "live" : "the host does not answer";
  if (isThere && wasAway) toast("The host answers again.");
  wasAway = !isThere;
}

const tellFocus = reportFocus();

function heard(topic) {
  if (topic === "hello") tellFocus();
  for (const one of every) if (one.heard && (topic === "hello" || (one.hears ?? one.topics).includes(topic))) one.heard(app, topic);
  if (page && (topic === "hello" ? data !== undefined : page.topics.includes(topic))) load();
}

try {
  const about = await get("console");
  take(about);
  if (isTeam()) every = pages = pages.filter((one) => one.roles && has(...one.roles));
  setPages(pages, go);
  document.getElementById("link-state").title = `hospes ${about.version}, process ${about.pid}`;
  follow(heard, linked);
  await go(location.pathname + location.search, true);
} catch (error) {
  if (error.status !== 401) patch(main, h("div", { class: "problem", role: "alert" }, error.message));
}
