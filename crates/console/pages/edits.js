// Which arguments are an edit of a text.

/** Pairs of names under which tools take the text that goes and the text that comes. */
const PAIRS = [["old_text", "new_text"], ["oldText", "newText"], ["old_string", "new_string"], ["old_str", "new_str"], ["oldString", "newString"],
  ["old", "new"], ["before", "after"], ["search", "replace"], ["find", "replace"]];

/** The names of a pair of texts in an object, the one that goes first; nothing where it has none. */
export function editPair(value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  return PAIRS.find((pair) => pair.every((name) => Object.hasOwn(value, name) && typeof value[name] === "string"));
}

/** Whether a value is an edit of a text, or a list of nothing but such edits. */
export const isEdit = (value) => editPair(value) !== undefined || (Array.isArray(value) && value.length > 0 && value.every((one) => editPair(one) !== undefined));
