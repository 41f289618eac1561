//! Structured output that is not an object, for revisions that require one. The value is wrapped in an object as its
//! member `result`. Other SDKs do the same, and [`CallToolResult::parse`](crate::CallToolResult::parse) unwraps it.

use serde_json::{Map, Value, json};

use crate::RawJson;

/// Keywords that stay at the root of the schema: targets of references, and the dialect.
const OF_THE_ROOT: [&str; 3] = ["$schema", "$defs", "definitions"];

/// Wraps the value in an object.
pub(super) fn value(value: &RawJson) -> RawJson {
    let text = format!("{{\"result\":{}}}", value.as_str());
    RawJson::parse(text).unwrap_or_else(|_| RawJson::empty_object())
}

/// Returns the schema of the wrapping object. `None` if the value may be an object, which would not be wrapped, or if a
/// reference would no longer point to its target.
pub(super) fn schema(schema: &RawJson) -> Option<RawJson> {
    let Value::Object(mut inner) = schema.to_value().ok()? else { return None };
    // With `$id`, references are relative to another base than the new root.
    if !excludes_objects(inner.get("type")?) || inner.contains_key("$id") {
        return None;
    }
    let mut outer = Map::new();
    for key in OF_THE_ROOT {
        if let Some(member) = inner.remove(key) {
            outer.insert(key.to_owned(), member);
        }
    }
    let inner = Value::Object(inner);
    if !has_only_definition_references(&inner) || !outer.values().all(has_only_definition_references) {
        return None;
    }
    outer.insert("type".to_owned(), json!("object"));
    outer.insert("properties".to_owned(), json!({ "result": inner }));
    outer.insert("required".to_owned(), json!(["result"]));
    Some(RawJson::from(Value::Object(outer)))
}

fn excludes_objects(kind: &Value) -> bool {
    match kind {
        Value::String(kind) => kind != "object",
        Value::Array(kinds) => !kinds.iter().any(|kind| kind == "object"),
        _ => false,
    }
}

/// Returns true if every reference into the schema itself points to one of its definitions.
fn has_only_definition_references(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().all(|(key, member)| match member.as_str() {
            Some(place) if key == "$ref" || key == "$dynamicRef" => {
                !place.starts_with('#')
                    || place.starts_with("#/$defs/")
                    || place.starts_with("#/definitions/")
            }
            _ => has_only_definition_references(member),
        }),
        Value::Array(items) => items.iter().all(has_only_definition_references),
        _ => true,
    }
}
