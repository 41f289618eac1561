// Which parts of the page have been in view. A region counts as seen once its first and its last line were both in view,
// the last one while no part of the region was hidden: folded, or scrolled out of a box of its own.

const starts = new Set();
const ends = new Set();
const listeners = new Set();
let isPlanned = false;

/** Whether the region of this key was seen from its first to its last line. */
export const isSeen = (key) => starts.has(key) && ends.has(key);

/** Whether the first line of the region of this key was seen. */
export const isBegun = (key) => starts.has(key);

/** Forgets a region, so that it has to be shown again. */
export function forgetSeen(key) {
  starts.delete(key);
  ends.delete(key);
}

/** Calls `listener` whenever a region has newly been seen. */
export const onSeen = (listener) => listeners.add(listener);

/** The lowest line of the window that no bar at the bottom of the page covers. */
function floor() {
  const bars = [...document.querySelectorAll("[data-covers]")].map((bar) => bar.getBoundingClientRect())
    .filter((box) => box.height > 0 && box.bottom > innerHeight / 2).map((box) => box.top);
  return Math.min(innerHeight, ...bars);
}

/** What still hides a part of a region, if anything does: a control that unfolds it, or a box that is not at its end. */
function hiding(node) {
  const isCut = (one) => one.scrollTop + one.clientHeight < one.scrollHeight - 8 && getComputedStyle(one).overflowY !== "visible";
  return [...node.querySelectorAll("[data-folds], .code, pre, textarea")].find((one) => one.dataset.folds !== undefined || isCut(one));
}

function measure() {
  isPlanned = false;
  if (document.visibilityState !== "visible" || document.querySelector("dialog[open]")) return;
  const bottom = floor();
  let isNew = false;
  for (const node of document.querySelectorAll("[data-see]")) {
    const key = node.dataset.see;
    if (isSeen(key) || node.getClientRects().length === 0) continue;
    const wasBegun = isBegun(key);
    const box = node.getBoundingClientRect();
    // Half a line of tolerance: a fraction of a pixel must not make a region unreachable.
    if (box.top >= -8 && box.top < bottom) starts.add(key);
    if (box.bottom > 0 && box.bottom <= bottom + 8 && !hiding(node)) ends.add(key);
    isNew ||= isSeen(key) || isBegun(key) !== wasBegun;
  }
  if (isNew) for (const listener of listeners) listener();
}

/** Looks at what is in view with the next frame. */
export function lookSoon() {
  if (isPlanned) return;
  isPlanned = true;
  requestAnimationFrame(measure);
}

/** Brings the first region of these keys that was not seen into view, or the next part of it. */
export function showNext(keys) {
  const next = keys.find((key) => !isSeen(key));
  const node = next !== undefined && [...document.querySelectorAll("[data-see]")].find((one) => one.dataset.see === next);
  if (!node) return;
  const box = node.getBoundingClientRect();
  const bottom = floor();
  // All of it is in view but for what it hides.
  const hides = starts.has(next) && box.bottom <= bottom + 8 && hiding(node);
  if (hides) {
    if (hides.dataset.folds !== undefined) hides.click();
    else hides.scrollBy({ top: Math.max(16, hides.clientHeight * 0.8) });
    lookSoon();
    return;
  }
  // A region that begins in view or above goes on by a page; any other is brought to the top.
  if (starts.has(next) && box.top < bottom / 2 && box.bottom > bottom) scrollBy({ top: Math.min(box.bottom - bottom + 16, bottom * 0.8) });
  else scrollBy({ top: box.top - 16 });
  lookSoon();
}

for (const name of ["scroll", "resize"]) addEventListener(name, lookSoon, { passive: true, capture: true });
addEventListener("visibilitychange", lookSoon);
