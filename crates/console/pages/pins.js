// What a server offers, beside what was accepted of it.

import { get, path, post, query } from "./api.js";
import { textDiff } from "./diff.js";
import { h, toast } from "./dom.js";
import { parse, stringify } from "./json.js";
import { ago, many } from "./format.js";

/** How something stands: the words for it, and its colour. */
export const STANDS = { new: ["new", "wide"], accepted: ["accepted", "calm"], changed: ["changed", "sharp"], rejected: ["rejected", "sharp"] };
const KINDS = { instructions: "instructions", tool: "tool", prompt: "prompt", template: "template" };
const ORDER = ["changed", "new", "rejected", "accepted"];

const opened = new Map();
const keyOf = (server, item) => `${server} ${item.kind} ${item.name}`;
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
  const key = keyOf(server, item);
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

/** What waits for a person about a server, in few words; nothing where nothing does. */
export function waits(pinned) {
  if (!pinned || pinned.isBuiltin) return null;
  if (pinned.state === "new") return "It was never accepted: nothing of it can be called, and no word of its own is passed on.";
  if (pinned.state === "rejected") return "It was rejected, and is not started.";
  const waiting = pinned.items.filter((item) => item.state === "changed" || item.state === "new").length;
  if (pinned.before) return "It is started with something else than what was accepted.";
  return waiting > 0 ? `${many(waiting, "definition")} waiting for you to accept: until then withheld.` : null;
}

/** The page of what was accepted of a server. */
export function trust(pinned, app) {
  const { server, fingerprint, before } = pinned;
  const items = [...pinned.items].sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state));
  if (pinned.isBuiltin) return h("p", { class: "empty", key: "builtin" }, "It is part of the program, and trusted as the program is.");
  return [
    h("div", { class: "card", key: "whole" },
      h("div", { class: "card-head" }, stand(pinned.state), h("h2", null, "The server itself"),
        h("div", { class: "card-side" },
          pinned.state !== "rejected" && h("button", { type: "button", class: "quiet", "data-reject": "server", onclick: () => decide(server, "reject", {}, app) }, "Reject"),
          waits(pinned) && h("button", { type: "button", class: "yes", "data-accept": "server", onclick: () => decide(server, "accept", { hash: pinned.hash }, app) }, "Accept it with all that it offers"))),
      before ? h("p", { class: "code" }, textDiff(before.shown, fingerprint.shown)) : h("p", { class: "code" }, fingerprint.shown),
      h("dl", { class: "facts" },
        fingerprint.program && h("div", null, h("dt", null, "Program"), h("dd", { class: "mono" }, fingerprint.program)),
        fingerprint.program_hash && h("div", null, h("dt", null, "SHA-256 of it"), h("dd", { class: "mono" }, before?.program_hash && before.program_hash !== fingerprint.program_hash ? textDiff(before.program_hash, fingerprint.program_hash) : fingerprint.program_hash)),
        pinned.decidedAt && h("div", null, h("dt", null, "Decided"), h("dd", null, `${ago(fromMicros(pinned.decidedAt))}${pinned.decidedBy ? `, ${pinned.decidedBy}` : ""}`))),
      lints(pinned.lints)),
    h("ul", { class: "definitions", key: "items" }, items.map((item) => one(pinned, item, app))),
  ];
}

function one(pinned, item, app) {
  const { server } = pinned;
  const of = opened.get(keyOf(server, item));
  const about = { kind: item.kind, name: item.name };
  return h("li", { class: "definition", key: keyOf(server, item), "data-row": true },
    h("details", { key: "d", ontoggle: (event) => event.target.open && look(server, item, app) },
      h("summary", { "data-focus": true }, stand(item.state), h("span", { class: "mono name" }, item.name || "instructions"), h("span", { class: "soft small" }, KINDS[item.kind] ?? item.kind),
        h("span", { class: "chips" }, item.lints?.length > 0 && h("span", { class: "chip wide" }, many(item.lints.length, "sign", "signs")))),
      lints(item.lints),
      of?.difference && [
        of.difference.before !== undefined && of.difference.changes.length > 0
          ? h("dl", { class: "facts", key: "changes" }, of.difference.changes.map((change) => h("div", { key: change.at }, h("dt", null, h("span", { class: "mono" }, change.at || "all of it")),
            h("dd", null, textDiff(change.before ?? "", change.after ?? "")))))
          : of.difference.after !== undefined && h("pre", { class: "code", key: "after" }, stringify(of.difference.after, 2)),
        of.history.length > 1 && h("details", { class: "raw", key: "history" }, h("summary", null, `${many(of.history.length, "version")} so far`),
          h("ol", { class: "history" }, of.history.map((version) => h("li", { key: version.hash },
            h("p", { class: "soft small" }, `first seen ${ago(fromMicros(version.seen_at))}, ${version.state}${version.decided_by ? ` by ${version.decided_by}` : ""}${version.is_current ? ", offered now" : ""}`),
            version.definition && h("pre", { class: "code" }, pretty(version.definition))))))],
      h("div", { class: "buttons", key: "buttons" },
        item.state !== "accepted" && h("button", { type: "button", class: "yes", "data-accept": item.name, onclick: () => decide(server, "accept", { hash: item.hash, item: about }, app) }, "Accept it as it is now"),
        item.state !== "rejected" && h("button", { type: "button", "data-reject": item.name, onclick: () => decide(server, "reject", { item: about }, app) }, "Reject"))));
}

function pretty(text) {
  try {
    return stringify(parse(text), 2);
  } catch {
    return text;
  }
}
