// Charts in SVG, drawn from what the host has counted.

import { h } from "./dom.js";
import { count, micros, time } from "./format.js";

const WIDTH = 460;
const WHOLE = 980;
const HEIGHT = 150;
// Room for the widest label of an axis: `1,000,000`, `0.01 ms`.
const LEFT = 64;
const BOTTOM = 20;
const TOP = 8;

const x = (index, spans) => LEFT + ((WIDTH - LEFT - 4) * index) / spans;
const number = (value) => Math.round(value * 100) / 100;

/** A round number not below this one. */
function ceiling(value) {
  if (value <= 4) return 4;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= value);
}

function frame(label, since, until, most, say, inner) {
  const y = (part) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - part);
  const lines = [0, 0.5, 1].map((part) => [
    h("line", { class: "grid", x1: LEFT, x2: WIDTH - 4, y1: y(part), y2: y(part) }),
    h("text", { class: "tick", x: LEFT - 6, y: y(part) + 4, "text-anchor": "end" }, say(most * part)),
  ]);
  const from = new Date(since).getTime();
  const length = new Date(until).getTime() - from;
  const times = [0, 0.5, 1].map((part) => h("text", {
    class: "tick", x: LEFT + (WIDTH - LEFT - 4) * part, y: HEIGHT - 4, "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle",
  }, time(new Date(from + length * part), length < 20 * 60_000)));
  return h("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label }, lines, times, inner(y));
}

const KINDS = ["well", "failed", "refused", "other"];
export const KIND_WORDS = { well: "done", failed: "failed", refused: "refused", other: "other" };

/** How much there was, stacked by how it ended. */
export function volume({ spans, since, until, counted }) {
  const most = ceiling(Math.max(...spans.map((span) => KINDS.reduce((sum, kind) => sum + span[kind], 0)), 1));
  const width = (WIDTH - LEFT - 4) / spans.length;
  return frame(`${count(counted)} entries over time`, since, until, most, (value) => count(Math.round(value)), (y) => spans.map((span, index) => {
    let below = 0;
    return KINDS.filter((kind) => span[kind] > 0).map((kind) => {
      const [from, to] = [below / most, (below + span[kind]) / most];
      below += span[kind];
      return h("rect", {
        class: `bar-${kind}`, x: number(x(index, spans.length) + 0.5), y: number(y(to)), width: number(Math.max(1, width - 1)),
        height: number(Math.max(1, y(from) - y(to))),
      }, h("title", null, `${count(span[kind])} ${KIND_WORDS[kind]}`));
    });
  }));
}

const LINES = ["p50", "p90", "p99"];

const SAID = { p50: "Half of all calls took up to", p90: "nine in ten up to", p95: "95 in 100 up to", p99: "99 in 100 up to" };

/** How long calls took, on a scale of powers of ten, with a line for each of these percentiles. */
export function latency({ spans, since, until, latency: whole }, lines = LINES) {
  const measured = spans.flatMap((span) => lines.map((line) => span.latency[line])).filter((value) => value !== null);
  const low = Math.floor(Math.log10(Math.max(10, Math.min(...measured, 1e9))));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(100, ...measured))));
  const part = (value) => (Math.log10(Math.max(value, 1)) - low) / (high - low);
  const label = lines.map((line) => `${SAID[line]} ${micros(whole[line])}`).join(", ");
  const say = (value) => micros(10 ** (low + value * (high - low)));
  return frame(label, since, until, 1, say, (y) => lines.map((line) => {
    const points = spans.map((span, index) => [x(index + 0.5, spans.length), span.latency[line]]);
    const runs = [];
    for (const [at, value] of points) {
      if (value === null) runs.push([]);
      else (runs.at(-1) ?? runs[runs.push([]) - 1]).push([number(at), number(y(Math.min(1, Math.max(0, part(value)))))]);
    }
    return runs.filter((run) => run.length > 0).map((run) => (run.length === 1
      ? h("circle", { class: `dot-${line}`, cx: run[0][0], cy: run[0][1], r: 2.4 })
      : h("polyline", { class: `line-${line}`, points: run.map((point) => point.join(",")).join(" ") })));
  }));
}

/** One lane for each server, one mark for each entry: where it begins, and how long it took. */
export function timeline(entries, kindOf, open) {
  const begun = ({ entry }) => entry.at / 1000 - (entry.micros ?? 0) / 1000;
  const lanes = [...new Set(entries.map(({ entry }) => entry.server ?? "hospes"))];
  const [from, to] = [Math.min(...entries.map(begun)), Math.max(...entries.map(({ entry }) => entry.at / 1000))];
  const length = Math.max(1000, to - from);
  const [lane, label] = [24, 130];
  const height = lanes.length * lane + BOTTOM + 4;
  const at = (moment) => label + ((WHOLE - label - 8) * (moment - from)) / length;
  return h("svg", { class: "chart timeline", viewBox: `0 0 ${WHOLE} ${height}`, role: "img", "aria-label": `The last ${entries.length} entries, a lane for each of ${lanes.length} servers` },
    lanes.map((name, index) => [
      h("line", { class: "grid", x1: label, x2: WHOLE - 4, y1: index * lane + lane / 2 + 2, y2: index * lane + lane / 2 + 2 }),
      h("text", { class: "lane", x: 0, y: index * lane + lane / 2 + 6 }, name.length > 18 ? `${name.slice(0, 17)}…` : name),
    ]),
    entries.map((one) => {
      const row = lanes.indexOf(one.entry.server ?? "hospes");
      const [start, end] = [at(begun(one)), at(one.entry.at / 1000)];
      return h("rect", {
        class: `mark bar-${kindOf(one.entry)}`, x: number(start), y: row * lane + 6, width: number(Math.max(3, end - start)), height: lane - 8, rx: 2,
        onclick: () => open(one.seq),
      }, h("title", null, `${one.entry.subject ?? one.entry.kind}, ${micros(one.entry.micros)}`));
    }),
    [0, 0.5, 1].map((part) => h("text", {
      class: "tick", x: label + (WHOLE - label - 8) * part, y: height - 4, "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle",
    }, time(new Date(from + length * part)))));
}
