// The search in the registry: a field, and results with what the registry says of them.

import { get, query } from "./api.js";
import { announce, h } from "./dom.js";
import { ago, many } from "./format.js";
import { command } from "./connections.js";
import { inside } from "./parts.js";

/** Where a server runs, by the kinds of its packages. */
const PLACES = {
  npm: "npm package, on this machine", pypi: "PyPI package, on this machine", nuget: "NuGet package, on this machine", oci: "container, on this machine",
  mcpb: "bundle, on this machine", cargo: "crate, compiled on this machine", go: "Go module, compiled on this machine", remote: "runs elsewhere",
};

/** Minimum number of characters that are sent to the registry. */
const MIN_WORDS = 2;
/** Milliseconds without another key after which is asked. */
const PAUSE = 150;

/** What is typed, and what was asked for last with what came of it. */
let words = "";
let asked = "";
let results;
let problem;
/** The request under way: at most one, because the next one ends it. */
let running;
let pause;

/** The words in the address. */
const wanted = () => new URLSearchParams(location.search).get("q")?.trim() ?? "";

const isShort = (text) => [...text].length < MIN_WORDS;

/** Asks the registry for the words in the address, unless this was done. */
export function lookUp(app) {
  const next = wanted();
  if (next === asked) return;
  [words, asked] = [next, next];
  // Not within the making of the page that this is called from.
  queueMicrotask(() => ask(next, app));
}

/** Asks for words. An answer that comes late, or of words before these, is dropped. */
async function ask(next, app) {
  clearTimeout(pause);
  running?.abort();
  const mine = new AbortController();
  [running, asked, problem] = [mine, next, undefined];
  if (isShort(next)) {
    [running, results] = [undefined, undefined];
    app.render();
    return;
  }
  app.render();
  try {
    const found = await get(`registry/servers${query({ words: next })}`, mine.signal);
    if (running !== mine) return;
    results = found;
    announce(found.servers.length === 0 ? "No server found." : `${many(found.servers.length, "server")} found.`);
  } catch (error) {
    if (error.name === "AbortError" || running !== mine) return;
    [problem, results] = [error.message, undefined];
  }
  running = undefined;
  app.render();
}

/** Asks once nothing more is typed for a moment. The address keeps what was asked last. */
function typed(text, app) {
  words = text;
  clearTimeout(pause);
  pause = setTimeout(() => {
    const next = words.trim();
    if (location.pathname !== "/add" || new URLSearchParams(location.search).has("server") || next === asked) return;
    history.replaceState(null, "", `/add${query({ q: next })}`);
    ask(next, app);
  }, PAUSE);
}

/** Searches for what is typed at once: also again, if it failed. */
function search(app) {
  const next = words.trim();
  if (isShort(next)) {
    announce(`Type at least ${MIN_WORDS} characters.`);
    return;
  }
  if (next === asked && (running || (results && !problem))) return;
  history.replaceState(null, "", `/add${query({ q: next })}`);
  ask(next, app);
}

/** What the search does now, for those who do not see it. */
function searchState() {
  const text = words.trim();
  if (running) return "Asking the registry …";
  if (text !== "" && isShort(text)) return `Type at least ${MIN_WORDS} characters.`;
  return "";
}

/** The field and the results. `choose(server)` begins to add one. */
export function registrySearch(choose, app) {
  return h("section", { key: "registry", "aria-labelledby": "registry-title" },
    h("h2", { id: "registry-title" }, "From the registry"),
    h("form", { class: "registry-search", role: "search", onsubmit: (event) => { event.preventDefault(); search(app); } },
      h("input", { type: "search", "data-search": true, "data-registry": true, value: words, maxlength: 100, placeholder: "What should it do? Such as: calendar", "aria-label": "Words to search for in the registry", autocomplete: "off", spellcheck: "false",
        oninput: (event) => typed(event.target.value, app) }),
      h("button", { type: "submit", class: "yes", "data-run-search": true }, "Search")),
    h("p", { class: "soft small", key: "about" }, "What you type is sent to the registry. Nothing is installed before you say so."),
    h("p", { class: "soft search-state", key: "busy", role: "status", "data-searching": running ? "yes" : "no" }, searchState()),
    problem && h("p", { class: "problem", key: "problem", role: "alert" }, problem),
    results && h("div", { key: "results", "aria-busy": running ? "true" : null }, found(results, choose)));
}

function found({ servers, total, registryHost, source, ageSeconds, offline }, choose) {
  if (servers.length === 0) {
    return h("div", { class: "empty", key: "none" }, h("p", null, `No server in ${registryHost} has all these words.`), h("p", { class: "small" }, "Try one word, or a part of the name."));
  }
  const age = source === "cache" ? `, as of ${ago(new Date(Date.now() - ageSeconds * 1000))}` : "";
  return h("div", { key: "found", class: "results" },
    h("p", { class: "soft small", key: "count" }, `${servers.length < total ? `The best ${servers.length} of ${total}` : many(total, "server")} in ${registryHost}${age}. Titles and descriptions are written by the publishers; nobody has audited the servers.`),
    offline && h("p", { class: "warn", key: "offline" }, offline),
    h("ul", { class: "cards", key: "list" }, servers.map((one) => result(one, registryHost, choose))));
}

function result(one, registry, choose) {
  const title = one.title?.trim() || one.name.split("/").at(-1);
  const published = one.publishedAt && `published ${ago(new Date(one.publishedAt))}`;
  return h("li", { class: "card result", key: one.name, "data-row": true, "data-result": one.name },
    h("div", { class: "card-head" },
      h("h3", null, h("a", { href: `/add${query({ server: one.name })}`, "data-focus": true, class: "name", onclick: (event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        choose(one.name);
      } }, title)),
      h("span", { class: "chips" }, one.status !== "active" && h("span", { class: "chip sharp" }, one.status), one.kinds.map((kind) => h("span", { class: "chip", key: kind }, PLACES[kind] ?? kind)))),
    h("p", { class: "target" }, `${one.name} ${one.version}`),
    one.description && h("p", { class: "result-words" }, one.description),
    h("p", { class: "soft small" }, [one.publisher && `From ${one.publisher}${one.isPublisherChecked ? `, checked by ${registry}` : ": a claim that the registry does not say it has checked"}`, published].filter(Boolean).join(" · ")),
    one.kinds.length === 0 && h("p", { class: "warn" }, "The entry names no package and no address, so it cannot be started."),
    one.warnings.map((text) => h("p", { class: "unusual-sign", key: text }, text)));
}

/** The other ways to add a server. */
export const otherWays = () => h("section", { key: "others", "aria-labelledby": "others-title" }, h("h2", { id: "others-title" }, "Other ways"),
  h("div", { class: "card", key: "import", id: "import" }, h("h3", null, "What other applications know"),
    h("p", null, "Shows the servers of your applications, and imports those that you tick. ", inside("/welcome?step=1", {}, "Import on a page"))),
  h("div", { class: "card", key: "own" }, h("h3", null, "One that you know"),
    h("p", null, "A package, a bundle, an address or a command is added in a terminal, with the same questions:"),
    command("hospes add npm:@scope/name@1.2.3"), command("hospes add https://server.example/mcp"), command("hospes add --name notes -- node server.js")));
