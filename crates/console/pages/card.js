// What a person decides about: one card, by its kind.

import { coded, escapeHidden, escapeHiddenJson, h, unescapeHidden } from "./dom.js";
import { contentView, isLoading } from "./content.js";
import { count, many } from "./format.js";
import { clone, parse, stringify } from "./json.js";
import { isEqual, objectDiff } from "./diff.js";
import { dataFlow, findings } from "./first_look.js";
import { fields } from "./schema.js";
import { plan } from "./plan.js";
import { serverLabel } from "./sentence.js";
import { effects } from "./servers.js";
import { edit, shown, shownJson, view } from "./values.js";

const WHAT = { tool: "to call the tool", prompt: "to fetch the prompt", resource: "to read" };

/** What a card is about: who wants what, in a few words. */
export function title(matter) {
  const { card } = matter;
  const server = serverLabel(matter);
  switch (card.kind) {
    case "call": return [card.name, server];
    case "result": return [`Result of ${card.name}`, server];
    case "sampling_request": return ["Ask a model", server];
    case "sampling_result": return ["Answer from the model", server];
    case "form": return ["Fill in a form", server];
    case "url": return ["Open a URL", server];
    case "plan": return [card.heading, server];
    default: return [card.kind, server];
  }
}

/** What happens if it is allowed, in a word. */
export function yes({ card }) {
  return { sampling_request: "Send once", sampling_result: "Deliver", result: "Deliver", form: "Send the form", url: "I will open it", plan: "Allow the plan" }[card.kind] ?? "Allow once";
}

/** What has happened once it was allowed. */
export function done({ card }) {
  const words = { sampling_request: "It is sent to the model.", sampling_result: "The server gets the answer.", result: "The result is delivered.", form: "The form is sent.", url: "The server is notified that you open the URL." };
  if (card.kind === "plan") return `Allowed: ${card.heading}.`;
  return words[card.kind] ?? `Allowed once: ${card.name}.`;
}

/** How much there is to lose: `sharp`, `wide` or `calm`. */
export function risk({ card }) {
  if (card.kind === "call") {
    const said = card.effects;
    if (card.data_flow || card.guard || card.summary?.irreversible) return "sharp";
    if (card.what !== "tool" || !said) return "wide";
    // What nobody believes calms nobody.
    if (!said.trusted) return said.destructive && !said.read_only ? "sharp" : "wide";
    if (said.read_only && !said.open_world) return "calm";
    return said.destructive && !said.read_only ? "sharp" : "wide";
  }
  if (card.kind === "plan") return card.calls.some((one) => one.data_flow || one.guard || one.summary.irreversible) ? "sharp" : "wide";
  if (card.kind === "form" && card.secrets.length > 0) return "sharp";
  if (card.kind === "sampling_result" && card.findings.length > 0) return "sharp";
  return "wide";
}

/** What may be changed about it, as it came. */
export function original({ card }) {
  switch (card.kind) {
    case "call": return card.arguments ?? {};
    case "result": case "sampling_result": return card.result;
    case "sampling_request": return card.request;
    case "form": return defaults(card.schema);
    default: return null;
  }
}

function defaults(schema) {
  const properties = Object.entries(schema?.properties ?? {});
  return Object.fromEntries(properties.filter(([, of]) => of.default !== undefined).map(([name, of]) => [name, of.default]));
}

const fact = (name, ...value) => h("div", null, h("dt", null, name), h("dd", null, value));

/** The body of a card. `draft` is what would happen instead, and how it is looked at; `change` is told of every edit. */
export function body(matter, draft, change) {
  const make = { call, result, sampling_request: samplingRequest, sampling_result: samplingResult, form, url, plan }[matter.card.kind];
  return make ? make(matter.card, matter, draft, change) : h("pre", { class: "code whole" }, stringify(matter.card, 2));
}

function facts(matter, ...more) {
  const { principal, application } = matter;
  return h("dl", { class: "facts" },
    fact("Asked by", application ?? "an unnamed application", h("span", { class: "soft" }, application ? " (name not verified)" : "")),
    principal && fact("Signed in", principal), fact("Server", serverLabel(matter)), more);
}

function call(card, matter, draft, change) {
  return [
    values("Arguments", card.input_schema, card.arguments ?? {}, draft, change, card.last_arguments, card.guard?.values, matter),
    findings(card),
    card.guard && card.guard.because !== card.because && h("p", { class: "small", key: "and" }, h("span", { class: "soft" }, "And because: "), coded(card.guard.because)),
    (card.data_flow || card.destinations.length > 0 || card.guard?.targets.length > 1 || (card.what === "tool" && card.effects)) && h("dl", { class: "facts", key: "found" },
      card.data_flow && fact("Take care", dataFlow(card.data_flow)),
      card.destinations.length > 0 && fact("Points to", h("span", { class: "chips" }, card.destinations.map((one) => h("span", { class: "chip mono wide" }, one)))),
      card.guard?.targets.length > 1 && fact("To be remembered", h("span", { class: "chips" }, card.guard.targets.map((one) => h("span", { class: "chip mono wide" }, one)))),
      card.what === "tool" && card.effects && fact("Annotations", h("span", { class: "chips" }, effects({
        readOnlyHint: card.effects.read_only, destructiveHint: card.effects.destructive, openWorldHint: card.effects.open_world, idempotentHint: card.effects.idempotent,
      }, card.effects.trusted), h("span", { class: "chip whole" }, card.effects.trusted ? "trusted server" : "untrusted server: these annotations are not relied on")))),
    h("details", { key: "details", class: "call-details" }, h("summary", null, "Server, tool and session"), facts(matter, fact("Wants", `${WHAT[card.what] ?? card.what} `, h("span", { class: "mono" }, card.name)), matter.session && fact("Session", matter.session))),
    (card.description || card.title) && h("details", { key: "said", class: "said-of" }, h("summary", null, "The server’s description"),
      card.title && h("p", null, h("strong", null, card.title)), h("p", { class: "words" }, card.description ?? "")),
    card.input_schema && h("details", { key: "schema", class: "schema-of" }, h("summary", null, "Schema of the arguments"), fields(card.input_schema)),
  ];
}

/** Values to be looked at, as fields, as JSON, and beside those of the last time. */
function values(name, schema, base, draft, change, last, marks, matter) {
  const now = draft.value ?? base;
  const isEdited = draft.value !== undefined && !isEqual(draft.value, base);
  const changed = last && objectDiff(last, now);
  const tabs = [["form", name], ["raw", "JSON"], last && ["diff", "Compared with the last call"]].filter(Boolean);
  const tab = tabs.some(([one]) => one === draft.tab) ? draft.tab : "form";
  return h("section", { class: "values", key: "values", "data-see": isLoading(matter, draft) ? null : draft.region },
    h("div", { class: "bar" },
      h("div", { class: "tabs", role: "group", "aria-label": name }, tabs.map(([one, words]) => h("button", {
        type: "button", key: one, "data-folds": one === "form" && tab === "diff", "aria-pressed": String(one === tab), class: one === tab ? "here" : "", onclick: () => change({ tab: one }),
      }, words))),
      isEdited && h("span", { class: "chip wide", key: "edited" }, "edited by you"),
      draft.canEdit && tab !== "diff" && h("button", { type: "button", class: "quiet end", key: "edit", "data-edit": true, onclick: () => change({ isEditing: !draft.isEditing, ...(draft.isEditing ? {} : { value: draft.value ?? clone(base) }) }) },
        draft.isEditing ? "Done" : "Edit"),
      isEdited && h("button", { type: "button", class: "quiet", key: "undo", onclick: () => change({ value: undefined, isEditing: false, text: undefined }) }, "Reset")),
    tab === "form" && (draft.isEditing ? edit(schema, now, (value) => change({ value })) : contentView(matter, now, schema, draft, change, marks) ?? view(schema, now, marks)),
    tab === "raw" && (draft.isEditing ? rawEditor(now, draft, change) : h("pre", { class: "code whole" }, shownJson(now, (marks ?? []).map((one) => one.value)))),
    tab === "diff" && (changed ?? h("p", { class: "soft" }, "The same as the last time that it was approved.")),
    isEdited && tab === "form" && !draft.isEditing && h("details", { key: "edits", open: true }, h("summary", { class: "soft small" }, "Your changes"), objectDiff(base, now)));
}

function rawEditor(now, draft, change) {
  return h("textarea", { class: "mono wide-field", rows: 12, spellcheck: "false", "aria-label": "As JSON", key: "raw", value: escapeHiddenJson(draft.text ?? stringify(now, 2)),
    oninput: (event) => {
      try {
        change({ text: event.target.value, value: parse(event.target.value), problem: undefined });
      } catch {
        change({ text: event.target.value, problem: "This is not valid JSON yet." });
      }
    } });
}

function content(block) {
  if (block?.type === "text") return [h("p", { class: "words said" }, block.text), beside(block, ["type", "text"])];
  if (block?.type === "image" || block?.type === "audio") {
    const { data: _data, ...others } = block;
    return [h("p", { class: "soft" }, `${block.type === "image" ? "An image" : "Audio"}, ${block.mimeType ?? "of unknown type"}, ${count(Math.round((block.data?.length ?? 0) * 0.75))} bytes`), beside(others, ["type", "mimeType"])];
  }
  return h("pre", { class: "code whole" }, stringify(block, 2));
}

const blocks = (one) => (Array.isArray(one) ? one : one ? [one] : []).map(content);

/** A place for the text of a block, where it is being changed. */
function textBlocks(list, draft, put) {
  return (Array.isArray(list) ? list : [list]).map((block, index) => (draft.isEditing && block?.type === "text"
    ? h("textarea", { key: index, class: "wide-field", rows: 5, "aria-label": "Text", value: escapeHidden(block.text), oninput: (event) => put(index, { ...block, text: unescapeHidden(event.target.value) }) })
    : content(block)));
}

const replaced = (list, index, block) => (Array.isArray(list) ? list.map((one, at) => (at === index ? block : one)) : block);

function editBar(name, draft, change, base) {
  const isEdited = draft.value !== undefined && !isEqual(draft.value, base);
  return h("div", { class: "bar" }, h("h3", null, name), isEdited && h("span", { class: "chip wide", key: "edited" }, "edited by you"),
    draft.canEdit && h("button", { type: "button", class: "quiet end", "data-edit": true, onclick: () => change({ isEditing: !draft.isEditing, ...(draft.isEditing ? {} : { value: draft.value ?? clone(base) }) }) }, draft.isEditing ? "Done" : "Edit"),
    h("button", { type: "button", class: "quiet", "aria-pressed": String(draft.tab === "raw"), onclick: () => change({ tab: draft.tab === "raw" ? "form" : "raw" }) }, "JSON"));
}

/** What is sent along beside these members, which are shown by themselves. */
function beside(now, names, key) {
  const others = Object.fromEntries(Object.entries(now).filter(([name]) => !names.includes(name)));
  return Object.keys(others).length > 0 && h("pre", { class: "code whole", key }, stringify(others, 2));
}

function result(card, matter, draft, change) {
  const now = draft.value ?? card.result;
  // Structured content says the same again: with other words in the blocks it would say what was taken out of them.
  const put = (index, block) => {
    const { structuredContent: _same, ...others } = now;
    change({ value: { ...others, content: replaced(now.content, index, block) } });
  };
  return [
    facts(matter, fact("Came from", h("span", { class: "mono" }, card.name)), fact("Shown because", coded(card.because))),
    h("section", { class: "values", key: "values", "data-see": draft.region }, editBar("To be sent to the application", draft, change, card.result),
      draft.tab === "raw" ? (draft.isEditing ? rawEditor(now, draft, change) : h("pre", { class: "code whole" }, stringify(now, 2)))
        : Array.isArray(now?.content) ? [textBlocks(now.content, draft, put), beside(now, ["content"], "beside")]
          : h("pre", { class: "code whole" }, stringify(now, 2))),
    h("details", { key: "sent" }, h("summary", { class: "soft" }, "Arguments sent"), view(null, card.arguments ?? {})),
  ];
}

function samplingRequest(card, matter, draft, change) {
  const now = draft.value ?? card.request;
  const put = (more) => change({ value: { ...now, ...more } });
  const [system, most] = [now.systemPrompt, now.maxTokens];
  const isOther = now.model !== undefined && now.model !== card.model;
  return [
    facts(matter, card.cause && fact("In the call of", h("span", { class: "mono" }, card.cause)),
      fact("Model", draft.isEditing && card.models.length > 1
        ? h("select", { "aria-label": "Model", value: now.model ?? card.model, onchange: (event) => put({ model: event.target.value }) },
          card.models.map((name) => h("option", { value: name, selected: name === (now.model ?? card.model) }, name)))
        : h("strong", null, now.model ?? card.model), h("p", { class: "soft small" }, isOther ? `chosen by you instead of ${card.model}` : card.reason)),
      fact("Size", `about ${many(card.tokens, "token")} sent, at most ${count(most ?? card.max_tokens)} back`, card.cost !== undefined && (isOther ? `, at the price of ${now.model}` : `, at most ${card.cost} in the currency of your prices`)),
      fact("Budget left", card.remaining)),
    h("section", { class: "values", key: "values", "data-see": draft.region }, editBar("To be sent to the model", draft, change, card.request),
      draft.tab === "raw" ? (draft.isEditing ? rawEditor(now, draft, change) : h("pre", { class: "code whole" }, stringify(now, 2))) : [
        draft.isEditing && h("div", { class: "field", key: "most" }, h("label", { for: "most" }, "Maximum tokens of the answer"),
          h("input", { id: "most", type: "number", min: 1, max: card.max_tokens, value: String(most ?? card.max_tokens), oninput: (event) => put({ maxTokens: Number(event.target.value) }) })),
        (system || draft.isEditing) && h("div", { class: "message", key: "system" }, h("p", { class: "soft small" }, "system prompt"),
          draft.isEditing ? h("textarea", { class: "wide-field", rows: 3, "aria-label": "System prompt", value: escapeHidden(system ?? ""), oninput: (event) => put({ systemPrompt: unescapeHidden(event.target.value) }) }) : h("p", { class: "words said" }, system)),
        (now.messages ?? []).map((message, at) => h("div", { class: "message", key: at }, h("p", { class: "soft small" }, message.role),
          textBlocks(message.content, draft, (index, block) => put({ messages: now.messages.map((one, other) => (other === at ? { ...one, content: replaced(one.content, index, block) } : one)) })), beside(message, ["role", "content"]))),
        card.context && h("div", { class: "message", key: "context" }, h("p", { class: "soft small" }, "added context"), h("p", { class: "words said" }, card.context)),
        now.tools?.length > 0 && h("p", { class: "soft", key: "tools" }, `Tools that the model may call: ${now.tools.map((one) => one.name).join(", ")}`),
        // The preferences have chosen the model, and are not sent to it.
        beside(now, ["messages", "systemPrompt", "maxTokens", "model", "modelPreferences"], "beside"),
      ]),
  ];
}

function samplingResult(card, matter, draft, change) {
  const now = draft.value ?? card.result;
  return [
    card.findings.map((text) => h("p", { class: "problem", key: text }, text)),
    facts(matter, card.cause && fact("In the call of", h("span", { class: "mono" }, card.cause)), fact("Model", now.model ?? ""),
      card.usage && fact("Size", `${many(card.usage[0], "token")} sent, ${count(card.usage[1])} back`), card.cost !== undefined && fact("Cost", `${card.cost}, in the currency of your prices`)),
    h("section", { class: "values", key: "values", "data-see": draft.region }, editBar("To be sent to the server", draft, change, card.result),
      draft.tab === "raw" ? (draft.isEditing ? rawEditor(now, draft, change) : h("pre", { class: "code whole" }, stringify(now, 2)))
        : [textBlocks(now.content, draft, (index, block) => change({ value: { ...now, content: replaced(now.content, index, block) } })), beside(now, ["role", "content", "model"], "beside")]),
    h("details", { key: "sent" }, h("summary", { class: "soft" }, "Request sent"), (card.request.messages ?? []).map((message) => [h("p", { class: "soft small" }, message.role), blocks(message.content)])),
  ];
}

function form(card, matter, draft, change) {
  return [
    card.secrets.length > 0 && h("p", { class: "problem", key: "secrets" }, `It seems to ask for a secret (${card.secrets.join(", ")}). No server may do that in a form: do not answer.`),
    facts(matter, card.cause && fact("In the call of", h("span", { class: "mono" }, card.cause))),
    h("section", { class: "values", key: "values", "data-see": draft.region }, h("p", { class: "words said" }, card.message),
      edit(card.schema, draft.value ?? original(matter), (value) => change({ value }))),
  ];
}

function url(card, matter, draft) {
  const at = card.host ? card.url.indexOf(card.host) : -1;
  return [
    facts(matter, card.cause && fact("In the call of", h("span", { class: "mono" }, card.cause)), fact("Host", card.host ? h("strong", { class: "mono" }, card.host) : "none")),
    h("section", { class: "values", key: "values", "data-see": draft.region }, h("p", { class: "words said" }, card.message),
      h("p", { class: "code whole" }, at < 0 ? card.url : [card.url.slice(0, at), h("strong", null, card.host), card.url.slice(at + card.host.length)]),
      h("p", { class: "soft small" }, "This URL was not fetched. If you allow it, the application reports that you opened it; open it only if you know this host."),
      /^https?:\/\//.test(card.url) && h("p", null, h("a", { href: card.url, target: "_blank", rel: "noopener noreferrer" }, "Open it in a new tab"))),
  ];
}

export { shown };
