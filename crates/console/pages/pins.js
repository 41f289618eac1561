// What a server offers, beside what was accepted of it.

import { get, path, post, query } from "./api.js";
import { textDiff } from "./diff.js";
import { h, toast, visible } from "./dom.js";
import { parse, stringify } from "./json.js";
import { ago, many } from "./format.js";
import { isSeen, lookSoon, onSeen, showNext } from "./seen.js";

/** How something stands: the words for it, and its colour. */
export const STANDS = { new: ["new", "wide"], accepted: ["accepted", "calm"], changed: ["changed", "sharp"], rejected: ["rejected", "sharp"] };
const KINDS = { instructions: "instructions", tool: "tool", prompt: "prompt", template: "template" };
const ORDER = ["changed", "new", "rejected", "accepted"];

const opened = new Map();
const keyOf = (server, item) => `${server} ${item.kind} ${item.name}`;
/** What has to be shown before an item is accepted: the item as it is now. */
const regionOf = (server, item) => `pin ${keyOf(server, item)} ${item.hash}`;
/** What has to be shown before a server is accepted: what it is started with. */
const serverRegion = ({ server, hash }) => `pin ${server} ${hash}`;
const mustShow = (item) => item.state !== "accepted";
const isWaiting = (item) => item.state === "changed" || item.state === "new";
const isConspicuous = (item) => item.lints?.length > 0;
/** What "accept" of the whole server would accept beside what was accepted already. */
const wouldAccept = ({ items }) => items.filter(mustShow);
let redraw = () => {};

onSeen(() => redraw());
const fromMicros = (at) => new Date(at / 1000);

export const stand = (state) => {
  const [word, kind] = STANDS[state] ?? [state, ""];
  return h("span", { class: `chip ${kind}` }, word);
};

async function decide(server, what, body, app) {
  try {
    await post(`definitions/${path(server)}/${what}`, body);
    toast(`${body.item ? body.item.name || "The instructions" : server}: ${what}ed.`);
    opened.clear();
    app.refresh();
  } catch (error) {
    toast(error.message, "bad");
    if (error.code === "changed") app.refresh();
  }
}

async function look(server, item, app) {
  const key = regionOf(server, item);
  if (opened.has(key)) return;
  opened.set(key, {});
  const asked = query({ kind: item.kind, name: item.name });
  try {
    const [difference, { history }] = await Promise.all([
      get(`definitions/${path(server)}/difference${asked}`), get(`definitions/${path(server)}/history${asked}`)]);
    opened.set(key, { difference, history });
    app.render();
  } catch (error) {
    opened.delete(key);
    toast(error.message, "bad");
  }
}

const lints = (all) => all?.length > 0 && h("ul", { class: "lints" }, all.map((one) => h("li", { class: "warn" },
  one.at && [h("span", { class: "mono" }, one.at), " "], one.text)));

const NEW_MILLIS = 24 * 3600 * 1000;

/** What a server that was accepted as it was first seen has brought, for a day or until a person accepts it; nothing otherwise. */
export function firstSeen(pinned) {
  if (!pinned || pinned.isBuiltin || pinned.decidedBy !== "first use" || Date.now() - fromMicros(pinned.decidedAt) > NEW_MILLIS) return null;
  const tools = pinned.items.filter((item) => item.kind === "tool").length;
  const found = pinned.items.reduce((sum, item) => sum + (item.lints?.length ?? 0), pinned.lints?.length ?? 0);
  return { found, words: `New: accepted as it was first seen ${ago(fromMicros(pinned.decidedAt))}, with ${many(tools, "tool")} and ${found > 0 ? many(found, "warning") : "no warnings"}.` };
}

/** What is pinned of a server. One that runs for a profile alone is pinned under the name that it has in the configuration. */
export const pinnedOf = (all, { name }) => all.get(name) ?? all.get(name.replace(/ \(profile [a-z0-9_-]+\)$/, ""));

/** What waits for a person about a server, in few words; nothing where nothing does. */
export function waits(pinned) {
  if (!pinned || pinned.isBuiltin) return null;
  if (pinned.state === "new") return "It was never accepted: none of its tools can be called, and its texts are withheld.";
  if (pinned.state === "rejected") return "It was rejected and is not started.";
  const waiting = pinned.items.filter(isWaiting).length;
  if (pinned.before) return "Its command, URL or program has changed since it was accepted.";
  return waiting > 0 ? `${many(waiting, "definition")} waiting for you to accept: until then withheld.` : null;
}

const sum = (items) => items.reduce((all, item) => all + (item.lints?.length ?? 0), 0);
const warned = (warnings) => (warnings > 0 ? ` with ${many(warnings, "warning")}` : "");

/** `1 changed tool with 2 warnings: send_email`, `3 new tools`: what accepting a server is about, named where it is few. */
function accepts(pinned) {
  const groups = new Map();
  for (const item of wouldAccept(pinned)) {
    const group = `${item.state} ${item.kind}`;
    groups.set(group, [...(groups.get(group) ?? []), item]);
  }
  const parts = [...groups.values()].map((items) => {
    const [{ state, kind }] = items;
    if (kind === "instructions") return `its ${state} instructions${warned(sum(items))}`;
    const names = items.length <= 2 ? `: ${items.map((item) => visible(item.name)).join(", ")}` : "";
    return `${many(items.length, `${state} ${KINDS[kind] ?? kind}`)}${warned(sum(items))}${names}`;
  });
  const isServerNew = pinned.state === "new" || pinned.state === "rejected" || pinned.before;
  return [isServerNew && `the server${warned(pinned.lints?.length ?? 0)}`, ...parts].filter(Boolean).join(" and ") || "the server";
}

/** The page of what was accepted of a server. */
export function trust(pinned, app) {
  const { server, fingerprint, before } = pinned;
  // What waits and has a sign comes first, whatever its state.
  const order = (item) => (mustShow(item) && isConspicuous(item) ? 0 : 10) + ORDER.indexOf(item.state) * 2 + (isConspicuous(item) ? 0 : 1);
  const items = [...pinned.items].sort((a, b) => order(a) - order(b));
  if (pinned.isBuiltin) return h("p", { class: "empty", key: "builtin" }, "It is part of Hospes and needs no acceptance.");
  redraw = () => app.render();
  lookSoon();
  return [
    h("div", { class: "card", key: "whole", "data-see": serverRegion(pinned) },
      h("div", { class: "card-head" }, stand(pinned.state), h("h2", null, "The server itself")),
      before ? h("p", { class: "code whole" }, textDiff(before.shown, fingerprint.shown)) : h("p", { class: "code whole" }, fingerprint.shown),
      h("dl", { class: "facts" },
        fingerprint.program && h("div", null, h("dt", null, "Program"), h("dd", { class: "mono" }, fingerprint.program)),
        fingerprint.program_hash && h("div", null, h("dt", null, "SHA-256"), h("dd", { class: "mono" }, before?.program_hash && before.program_hash !== fingerprint.program_hash ? textDiff(before.program_hash, fingerprint.program_hash) : fingerprint.program_hash)),
        pinned.decidedAt && h("div", null, h("dt", null, "Decided"), h("dd", null, `${ago(fromMicros(pinned.decidedAt))}${pinned.decidedBy ? `, ${pinned.decidedBy}` : ""}`))),
      lints(pinned.lints)),
    h("ul", { class: "definitions", key: "items" }, items.map((item) => one(pinned, item, app))),
    decision(pinned, app),
  ];
}

/** The bar with what is decided about the whole server: nothing is accepted before all of it was in view. */
function decision(pinned, app) {
  const { server } = pinned;
  const all = wouldAccept(pinned);
  const keys = [serverRegion(pinned), ...all.map((item) => regionOf(server, item))];
  const left = keys.filter((key) => !isSeen(key));
  const isWhole = waits(pinned) !== null;
  if (!isWhole && pinned.state === "rejected") return null;
  return h("div", { class: "decision", key: "decision", "data-covers": true },
    isWhole && left.length > 0 && h("p", { class: "small", key: "left", role: "status" }, `Not yet shown: ${left.length} of ${keys.length}. `,
      h("button", { type: "button", class: "quiet", "data-show-next": true, onclick: () => showNext(ordered(keys)) }, "Show the next")),
    h("div", { class: "buttons even" },
      pinned.state !== "rejected" && h("button", { type: "button", "data-reject": "server", onclick: () => decide(server, "reject", {}, app) }, "Reject the server"),
      isWhole && h("button", { type: "button", "data-accept": "server", disabled: left.length > 0,
        onclick: () => left.length === 0 && decide(server, "accept", { hash: pinned.hash, seen: all.map((item) => item.hash) }, app) }, `Accept ${accepts(pinned)}`)));
}

/** Keys in the order in which their regions stand on the page. */
function ordered(keys) {
  const wanted = new Set(keys);
  return [...document.querySelectorAll("[data-see]")].map((node) => node.dataset.see).filter((key) => wanted.has(key));
}

function one(pinned, item, app) {
  const { server } = pinned;
  const of = opened.get(regionOf(server, item));
  const about = { kind: item.kind, name: item.name };
  const isOwed = mustShow(item);
  const region = regionOf(server, item);
  const isShown = isSeen(region);
  if (isOwed || isConspicuous(item)) look(server, item, app);
  return h("li", { class: "definition", key: keyOf(server, item), "data-row": true },
    h("details", { key: "d", open: isOwed || isConspicuous(item), ontoggle: (event) => { if (event.target.open) look(server, item, app); lookSoon(); } },
      h("summary", { "data-focus": true }, stand(item.state), h("span", { class: "mono name" }, item.name || "instructions"), h("span", { class: "soft small" }, KINDS[item.kind] ?? item.kind),
        h("span", { class: "chips" }, isOwed && !isShown && h("span", { class: "chip" }, "not yet shown"), item.lints?.length > 0 && h("span", { class: "chip wide" }, many(item.lints.length, "warning")))),
      // The region is there only once its content is.
      of?.difference && h("div", { class: "region", key: "region", "data-see": region },
        lints(item.lints),
        of.difference.before !== undefined && of.difference.changes.length > 0
          ? h("dl", { class: "facts", key: "changes" }, of.difference.changes.map((change) => h("div", { key: change.at }, h("dt", null, h("span", { class: "mono" }, change.at || "everything")),
            h("dd", null, textDiff(change.before ?? "", change.after ?? "")))))
          : of.difference.after !== undefined ? h("pre", { class: "code whole", key: "after" }, stringify(of.difference.after, 2))
            : h("p", { class: "warn", key: "long" }, "It is too long to be stored and cannot be shown here.")),
      of?.difference && of.history.length > 1 && h("details", { class: "raw", key: "history" }, h("summary", null, `${many(of.history.length, "version")} so far`),
        h("ol", { class: "history" }, of.history.map((version) => h("li", { key: version.hash },
          h("p", { class: "soft small" }, `first seen ${ago(fromMicros(version.seen_at))}, ${version.state}${version.decided_by ? ` by ${version.decided_by}` : ""}${version.is_current ? ", offered now" : ""}`),
          version.definition && h("pre", { class: "code" }, pretty(version.definition)))))),
      h("div", { class: "buttons even", key: "buttons" },
        item.state !== "rejected" && h("button", { type: "button", "data-reject": item.name, onclick: () => decide(server, "reject", { item: about }, app) }, "Reject"),
        isOwed && h("button", { type: "button", "data-accept": item.name, disabled: !isShown,
          onclick: () => isSeen(region) && decide(server, "accept", { hash: item.hash, item: about, seen: [item.hash] }, app) },
        `Accept ${item.name ? visible(item.name) : "the instructions"} as it is now`))));
}

function pretty(text) {
  try {
    return stringify(parse(text), 2);
  } catch {
    return text;
  }
}
