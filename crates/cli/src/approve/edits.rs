//! Arguments that describe text edits: the removed and the inserted text.

use hospes::model::RawJson;
use hospes_host::approvals::EDIT_NAMES;
use serde_json::{Map, Value};

/// One edit of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TextEdit {
    pub(super) old: String,
    pub(super) new: String,
    /// Other members as JSON; empty if there are none.
    pub(super) rest: String,
}

/// Parses a value as a list of edits. Returns `None` if the value or one of its elements is anything else.
pub(super) fn text_edits(value: &RawJson) -> Option<Vec<TextEdit>> {
    match value.decode::<Value>().ok()? {
        // An empty list has no edits and would show nothing at all.
        Value::Array(all) if !all.is_empty() => all
            .into_iter()
            .map(|one| if let Value::Object(members) = one { edit(members) } else { None })
            .collect(),
        Value::Object(members) => Some(vec![edit(members)?]),
        _ => None,
    }
}

fn edit(mut members: Map<String, Value>) -> Option<TextEdit> {
    let is_text = |members: &Map<String, Value>, name: &str| members.get(name).is_some_and(Value::is_string);
    let (old, new) =
        EDIT_NAMES.iter().copied().find(|(old, new)| is_text(&members, old) && is_text(&members, new))?;
    let (Value::String(old), Value::String(new)) = (members.remove(old)?, members.remove(new)?) else {
        return None;
    };
    // Numbers may have more digits than `Value` keeps, so an edit with a number is shown as JSON text.
    if members.values().any(|value| !matches!(value, Value::String(_) | Value::Bool(_) | Value::Null)) {
        return None;
    }
    let rest = if members.is_empty() { String::new() } else { Value::Object(members).to_string() };
    Some(TextEdit { old, new, rest })
}
