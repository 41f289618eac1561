// The map: applications, the host and the servers, with a line for each that is used. Beside it a table says the same.

import { h } from "./dom.js";
import { ago, count, many } from "./format.js";
import { inside, stateOf } from "./parts.js";

/** Maximum number of rows on each side; of more, the number is said. */
const MAX_ROWS = 10;

const UNNAMED = "an unnamed application";
const SIGNS = { ready: "●", starting: "◐", retrying: "○", failed: "▲", withheld: "◍", stopped: "○" };

/** Words for states that are not called by their names. */
const STATES = { withheld: "waits for review" };

/** The name of an application, for people. */
export const applicationName = (name) => (name === "" ? UNNAMED : name);

const sum = (edges, what) => edges.reduce((all, edge) => all + edge[what], 0);
const latest = (edges) => edges.reduce((found, edge) => (!found || edge.lastAt > found.lastAt ? edge : found), undefined);

/** Whether a connection is part of what was chosen. */
export const isChosen = (chosen, { application, server }) => (chosen.application === undefined || chosen.application === application)
  && (chosen.server === undefined || chosen.server === server);

/** The applications and servers, with what is running between them. */
export function sides({ edges, servers }, running, chosen) {
  const names = [...new Set([...running.map((call) => call.application), ...edges.map((edge) => edge.application)])];
  // Counted are the calls of what was chosen on the other side.
  const other = { application: "server", server: "application" };
  const of = (name, side) => edges.filter((edge) => edge[side] === name && isChosen({ [other[side]]: chosen[other[side]] }, edge));
  const runs = (name, side) => running.filter((call) => call[side] === name).length;
  const row = (name, side, more) => {
    const own = of(name, side);
    return { name, calls: sum(own, "calls"), refused: sum(own, "refused"), isRefused: latest(own)?.isRefused === true, running: runs(name, side),
      isDim: isAny(chosen) && chosen[side] !== name && (chosen[side] !== undefined || own.length === 0), ...more };
  };
  const left = names.map((name) => row(name, "application", {}));
  const known = servers.map((server) => row(server.name, "server", { state: stateOf(server) }));
  // A server that is no longer configured may have been called today.
  const gone = [...new Set(edges.map((edge) => edge.server))].filter((name) => !servers.some((server) => server.name === name));
  return [left, [...known, ...gone.map((name) => row(name, "server", { state: "stopped" }))]];
}

const isAny = (chosen) => chosen.application !== undefined || chosen.server !== undefined;

function lines(rows, isLeft) {
  const height = Math.max(1, rows.length);
  return h("svg", { class: "map-lines", viewBox: `0 0 100 ${height * 10}`, preserveAspectRatio: "none", "aria-hidden": "true" }, rows.map((row, at) => {
    const [outer, inner] = [at * 10 + 5, height * 5];
    const d = isLeft ? `M0 ${outer} C50 ${outer} 50 ${inner} 100 ${inner}` : `M0 ${inner} C50 ${inner} 50 ${outer} 100 ${outer}`;
    const kind = [row.running > 0 ? "flows" : "", row.isRefused ? "refused" : "", row.calls === 0 && row.running === 0 ? "idle" : "", row.isDim ? "dim" : ""];
    return h("path", { key: row.name, d, class: `map-line ${kind.join(" ")}` });
  }));
}

function node(row, side, chosen, choose) {
  const name = side === "application" ? applicationName(row.name) : row.name;
  const isHere = chosen[side] === row.name;
  return h("li", { key: row.name, class: row.isDim ? "dim" : "" }, h("button", {
    type: "button", class: `map-node ${side}`, "aria-pressed": String(isHere), "data-node": row.name,
    title: isHere ? "Show all again" : `Show only ${name}`, onclick: () => choose({ [side]: isHere ? undefined : row.name }),
  },
  side === "server" && h("span", { class: `map-state ${row.state}`, "aria-hidden": "true" }, SIGNS[row.state] ?? "○"),
  h("span", { class: "map-name" }, name),
  row.running > 0 && h("span", { class: "chip calm", key: "running" }, `${count(row.running)} running`),
  row.refused > 0 && h("span", { class: "chip sharp", key: "refused" }, `${count(row.refused)} refused`),
  h("span", { class: "map-count" }, row.calls > 0 ? count(row.calls) : "–"), h("span", { class: "unseen" }, [row.calls === 1 ? " call" : " calls", side === "server" ? `, ${STATES[row.state] ?? row.state}` : ""])));
}

function side(rows, name, label, chosen, choose, none) {
  return h("ul", { class: `map-side ${name}`, "aria-label": label },
    rows.length === 0 && h("li", { key: "none", class: "map-none soft small" }, none),
    rows.map((row) => node(row, name, chosen, choose)));
}

/** The map. `choose` is given the application or the server that a person chooses. */
export function map(data, running, chosen, choose, asked) {
  const [left, right] = sides(data, running, chosen);
  const cut = (rows) => [rows.slice(0, MAX_ROWS), rows.length - MAX_ROWS];
  const [[applications, moreLeft], [servers, moreRight]] = [cut(left), cut(right)];
  const rows = Math.max(applications.length, servers.length, 2);
  return h("div", { class: "map-box", key: "map" },
    h("div", { class: "map", style: { "--rows": rows } },
      side(applications, "application", "Applications", chosen, choose, "No application has called today."),
      lines(applications, true),
      h("div", { class: "map-host" }, h("strong", null, "Hospes"), h("span", { class: "soft small" }, asked > 0 ? `${count(asked)} asked` : "none asked")),
      lines(servers, false),
      side(servers, "server", "Servers", chosen, choose, "No server is configured.")),
    (moreLeft > 0 || moreRight > 0) && h("p", { class: "soft small", key: "more" },
      [moreLeft > 0 && many(moreLeft, "more application"), moreRight > 0 && many(moreRight, "more server")].filter(Boolean).join(" and "), " that are not shown. ", moreRight > 0 && [inside("/servers", {}, "All servers"), moreLeft > 0 && ", "], moreLeft > 0 && inside("/activity", {}, "all calls"), "."),
    table(data, running, chosen));
}

/** The same as a table: for screen readers, and for narrow windows. */
function table(data, running, chosen) {
  const runs = (edge) => running.filter((call) => call.application === edge.application && call.server === edge.server).length;
  const shown = data.edges.filter((edge) => isChosen(chosen, edge));
  const idle = data.servers.filter((server) => !data.edges.some((edge) => edge.server === server.name) && isChosen(chosen, { server: server.name, application: chosen.application }));
  return h("div", { class: "map-table" }, h("table", null,
    h("caption", { class: "unseen" }, "Calls of each application to each server today"),
    h("thead", null, h("tr", null, ["Application", "Server", "Calls", "Refused", "Last"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", null,
      shown.map((edge) => h("tr", { key: `${edge.application} ${edge.server}` },
        h("th", { scope: "row" }, applicationName(edge.application)), h("td", null, edge.server),
        h("td", null, count(edge.calls), runs(edge) > 0 && `, ${count(runs(edge))} running`),
        h("td", { class: edge.refused > 0 ? "bad" : "" }, count(edge.refused)), h("td", null, ago(new Date(edge.lastAt))))),
      idle.map((server) => h("tr", { key: ` ${server.name}`, class: "soft" }, h("th", { scope: "row" }, "–"), h("td", null, server.name), h("td", null, "0"), h("td", null, "0"), h("td", null, STATES[stateOf(server)] ?? server.state))))));
}
