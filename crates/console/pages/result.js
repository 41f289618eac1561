// The result of a tool: texts, structured content, images and the rest, as what they are.

import { h } from "./dom.js";
import { bytes } from "./format.js";
import { isEqual } from "./diff.js";
import { parse, stringify } from "./json.js";

/** Maximum number of blocks that are shown. */
const MAX_BLOCKS = 200;
/** Maximum number of pixels of an image that is drawn. */
const MAX_PIXELS = 40_000_000;
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/avif"]);

const sizeOf = (data) => Math.round((data?.length ?? 0) * 0.75);

/** Draws an image. The policy of the page lets no image in by an address, so its pixels are drawn. */
async function draw(canvas, data, type) {
  const note = canvas.nextElementSibling;
  try {
    const raw = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
    const image = await createImageBitmap(new Blob([raw], { type }));
    if (image.width * image.height > MAX_PIXELS) throw new Error(`it has ${image.width} × ${image.height} pixels`);
    [canvas.width, canvas.height] = [image.width, image.height];
    canvas.getContext("2d").drawImage(image, 0, 0);
    canvas.dataset.drawn = "true";
    if (note) note.textContent = `${type}, ${image.width} × ${image.height}, ${bytes(raw.length)}`;
  } catch (error) {
    if (note) note.textContent = `${type}, ${bytes(sizeOf(data))}: this image cannot be shown (${error.message})`;
  }
}

function image(block, key) {
  const type = block.mimeType ?? "unknown type";
  if (!IMAGES.has(type)) return h("p", { class: "soft", key }, `An image of ${type}, ${bytes(sizeOf(block.data))}; it is not shown.`);
  const canvas = h("canvas", { class: "result-image", role: "img", "aria-label": "An image of the result", "data-own": true });
  const figure = h("figure", { class: "result-figure", key, "data-own": true }, canvas, h("figcaption", { class: "soft small" }, type));
  draw(canvas, block.data ?? "", type);
  return figure;
}

function text(value, key) {
  return h("pre", { class: "code whole said", key, tabindex: "0", "aria-label": "Text of the result" }, value === "" ? h("span", { class: "soft" }, "empty text") : value);
}

function block(one, at, drawn) {
  const key = `block ${at}`;
  switch (one?.type) {
    case "text": return text(one.text, key);
    // Drawn once for a result: what is on a canvas stays where the page is made anew.
    case "image": return drawn.get(at) ?? drawn.set(at, image(one, key)).get(at);
    case "audio": return h("p", { class: "soft", key }, `Audio of ${one.mimeType ?? "unknown type"}, ${bytes(sizeOf(one.data))}.`);
    case "resource_link": return h("p", { key, class: "result-link" }, h("span", { class: "mono" }, one.uri), one.name && h("span", { class: "soft" }, ` ${one.name}`));
    case "resource": return h("div", { key }, h("p", { class: "soft small mono" }, one.resource?.uri), one.resource?.text !== undefined ? text(one.resource.text, "text") : h("p", { class: "soft" }, `Binary data, ${bytes(sizeOf(one.resource?.blob))}.`));
    default: return h("pre", { class: "code whole", key }, stringify(one, 2));
  }
}

const drawnOf = new WeakMap();

/** Whether a block of text says the same as the structured content. */
function isSame(one, structured) {
  if (one?.type !== "text") return false;
  try {
    return isEqual(parse(one.text), structured);
  } catch {
    return false;
  }
}

/** All of a result. */
export function resultView(result) {
  // Many servers send the same twice, because older applications read the text only.
  const isTwice = result.structuredContent !== undefined && result.content?.length === 1 && isSame(result.content[0], result.structuredContent);
  if (!drawnOf.has(result)) drawnOf.set(result, new Map());
  const blocks = Array.isArray(result.content) ? result.content : [];
  const { content: _content, structuredContent, isError: _isError, ...others } = result;
  return [
    blocks.length === 0 && structuredContent === undefined && h("p", { class: "soft", key: "empty" }, "The result is empty."),
    isTwice && h("pre", { class: "code whole", key: "structured", "data-structured": true, tabindex: "0", "aria-label": "Structured content of the result" }, stringify(structuredContent, 2)),
    isTwice ? h("details", { key: "text" }, h("summary", { class: "soft small" }, "The same as text"), text(blocks[0].text, "text")) : blocks.slice(0, MAX_BLOCKS).map((one, at) => block(one, at, drawnOf.get(result))),
    blocks.length > MAX_BLOCKS && h("p", { class: "warn", key: "more" }, `and ${blocks.length - MAX_BLOCKS} more parts, which are not shown`),
    structuredContent !== undefined && !isTwice && h("details", { key: "structured", open: true }, h("summary", { class: "soft small" }, "Structured content"), h("pre", { class: "code whole", "data-structured": true }, stringify(structuredContent, 2))),
    Object.keys(others).length > 0 && h("details", { key: "others" }, h("summary", { class: "soft small" }, "Other members"), h("pre", { class: "code whole" }, stringify(others, 2))),
  ];
}
