// Talks to the host. The cookie goes by itself; the key beside it lies where only pages of this origin find it.

import { parse, stringify } from "./json.js";

const KEY = "hospes-key";

/** Keeps the key of a session. */
export function keep(key) {
  localStorage.setItem(KEY, key);
}

/** What the host said no with. */
export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Asks the host; what it answers, or throws `Refused`. With `keepalive` it is also sent if the page goes away. */
export async function request(method, path, body, signal, keepalive = false) {
  const headers = { "x-hospes-key": localStorage.getItem(KEY) ?? "" };
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(`/api/${path}`, {
      method, headers, signal, keepalive, body: body === undefined ? undefined : stringify(body), redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "away", "the host does not answer");
  }
  const answer = await response.text().then(parse).catch(() => ({}));
  if (response.ok) return answer;
  const said = answer.error ?? {};
  if (response.status === 401) dispatchEvent(new CustomEvent("hospes:out", { detail: said.code }));
  throw new Refused(response.status, said.code ?? String(response.status), said.message ?? response.statusText);
}

/** Posts, and calls `each` with every line of JSON of the answer as it comes. Ending it with `signal` ends what was asked for. */
export async function stream(path, body, signal, each) {
  const headers = { "x-hospes-key": localStorage.getItem(KEY) ?? "", "content-type": "application/json" };
  let response;
  try {
    response = await fetch(`/api/${path}`, { method: "POST", headers, signal, body: stringify(body), redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "away", "the host does not answer");
  }
  if (!response.ok) {
    const { error: said = {} } = await response.text().then(parse).catch(() => ({}));
    if (response.status === 401) dispatchEvent(new CustomEvent("hospes:out", { detail: said.code }));
    throw new Refused(response.status, said.code ?? String(response.status), said.message ?? response.statusText);
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (text + part.value).split("\n");
    text = lines.pop();
    for (const line of lines) each(parse(line));
  }
}

export const get = (path, signal) => request("GET", path, undefined, signal);
export const post = (path, body = {}) => request("POST", path, body);

/** A path of parts that may hold anything. */
export const path = (...parts) => parts.map(encodeURIComponent).join("/");

/** A query of what is not empty. */
export function query(wanted) {
  const given = Object.entries(wanted).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

/** Milliseconds after which the focus is reported again; the host forgets a window that is silent for three of them. */
const FOCUS_AGAIN = 20_000;

const TOPICS = ["hello", "servers", "activity", "sessions", "approvals", "definitions", "grants", "models", "calls"];

/** Tells the host whether this window has the focus, so that nobody is notified of what they see. */
export function reportFocus() {
  const name = [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  let told;
  const tell = (again, isGone = false) => {
    const focused = !isGone && document.hasFocus() && document.visibilityState === "visible";
    if (focused === told && !again) return;
    told = focused;
    // Without the host there is nobody to notify; with the next stream it is told again.
    request("POST", "focus", { window: name, focused }, undefined, true).catch(() => {});
  };
  for (const event of ["focus", "blur", "pageshow"]) addEventListener(event, () => tell(false));
  addEventListener("pagehide", () => tell(false, true));
  document.addEventListener("visibilitychange", () => tell(false));
  setInterval(() => told && tell(true), FOCUS_AGAIN);
  return () => tell(true);
}

/** The stream of events itself. `over` is called when it cannot be had any more. */
function listen(heard, linked, over) {
  const open = () => {
    const source = new EventSource("/api/events");
    for (const topic of TOPICS) {
      source.addEventListener(topic, () => {
        if (topic === "hello") linked(true);
        heard(topic);
      });
    }
    source.onerror = () => {
      linked(false);
      // The browser goes on by itself unless it was refused; then somebody looks whether the session is over.
      if (source.readyState !== EventSource.CLOSED) return;
      setTimeout(() => get("console").then(open, (error) => (error.status === 401 ? over() : setTimeout(open, 3000))), 1000);
    };
  };
  open();
}

/**
 * Follows what is new: `heard(topic)`, and `linked(isThere)` when the host comes and goes. Of all windows one has the stream
 * and tells the others, because a browser opens only a few connections to one host.
 */
export function follow(heard, linked) {
  const others = new BroadcastChannel("hospes-news");
  let isLinked;
  const tell = (kind, value) => {
    if (kind === "linked") linked(value);
    else heard(value);
  };
  const pass = (kind, value) => {
    if (kind === "linked") isLinked = value;
    tell(kind, value);
    others.postMessage([kind, value]);
  };
  others.onmessage = ({ data: [kind, value] }) => {
    if (kind !== "is it there?") tell(kind, value);
    else if (isLinked !== undefined) others.postMessage(["linked", isLinked]);
  };
  others.postMessage(["is it there?"]);
  heard("hello");
  navigator.locks.request("hospes-news", () => new Promise((over) => {
    listen((topic) => pass("heard", topic), (isThere) => pass("linked", isThere), over);
  }));
}
