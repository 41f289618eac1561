//! Arguments of a call against the input schema of its tool.

use hospes_model::{RawJson, Tool};
use hospes_policy::nearest;
use serde_json::{Map, Value};

use super::CallChecks;
use crate::config::ArgumentCheck;

/// Keywords beside `properties` that may allow further properties.
const OPEN_KEYWORDS: [&str; 12] = [
    "additionalProperties",
    "unevaluatedProperties",
    "patternProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "$ref",
    "$dynamicRef",
    "if",
    "dependentSchemas",
    "dependencies",
    "extends",
];

/// Maximum depth at which optional members that are `null` are removed.
const MAX_DEPTH: usize = 16;

impl CallChecks {
    /// Checks the arguments of a call against the input schema of its tool.
    ///
    /// # Errors
    /// The mistakes with their places, so that a model can correct them.
    pub(crate) fn check_arguments(
        &self,
        mode: ArgumentCheck,
        tool: &Tool,
        arguments: Option<&RawJson>,
    ) -> Result<(), String> {
        if mode == ArgumentCheck::Off {
            return Ok(());
        }
        let Some(schema) = self.schemas.get(&tool.input_schema) else { return Ok(()) };
        let mut value = match arguments.filter(|arguments| !arguments.is_null()) {
            Some(arguments) => arguments.to_value().map_err(|error| error.to_string())?,
            None => Value::Object(Map::new()),
        };
        let is_lax = mode == ArgumentCheck::Lax;
        let mut mistakes = if is_lax { Vec::new() } else { find_unlisted(schema.schema(), &value) };
        if !schema.is_valid(&value) {
            // Applications and models write an optional argument that they leave out as `null`.
            remove_optional_nulls(schema.schema(), &mut value, 0);
            if is_lax {
                read_texts(schema.schema(), &mut value);
            }
            if !schema.is_valid(&value) {
                mistakes.extend(schema.find_mistakes(&value));
            }
        }
        if mistakes.is_empty() { Ok(()) } else { Err(mistakes.join("; ")) }
    }
}

/// Finds properties that the schema does not list, if it lists any and nothing in it allows others.
fn find_unlisted(schema: &Value, value: &Value) -> Vec<String> {
    let (Some(schema), Some(members)) = (schema.as_object(), value.as_object()) else { return Vec::new() };
    let Some(listed) = schema.get("properties").and_then(Value::as_object) else { return Vec::new() };
    // With a value for it, validation decides.
    if listed.is_empty() || OPEN_KEYWORDS.iter().any(|keyword| schema.contains_key(*keyword)) {
        return Vec::new();
    }
    let unlisted = members.keys().filter(|name| !listed.contains_key(*name));
    let told = unlisted.map(|name| {
        let shown = hospes_policy::visible_line(&name.chars().take(80).collect::<String>());
        match nearest(name, listed.keys().map(String::as_str)) {
            Some(meant) => format!("{shown}: unknown property; did you mean `{meant}`?"),
            None => {
                let known: Vec<_> = listed.keys().map(|known| format!("`{known}`")).collect();
                format!("{shown}: unknown property; known properties: {}", known.join(", "))
            }
        }
    });
    told.take(20).collect()
}

/// Removes the members that are `null` and not required.
fn remove_optional_nulls(schema: &Value, value: &mut Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(members) => {
            let required = |name: &str| {
                let required = schema.get("required").and_then(Value::as_array);
                required.is_some_and(|required| required.iter().any(|one| one == name))
            };
            let listed = schema.get("properties").and_then(Value::as_object);
            members.retain(|name, member| {
                !member.is_null() || required(name) || !listed.is_some_and(|listed| listed.contains_key(name))
            });
            for (name, member) in members {
                if let Some(schema) = listed.and_then(|listed| listed.get(name)) {
                    remove_optional_nulls(schema, member, depth + 1);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| remove_optional_nulls(schema, item, depth + 1));
            }
        }
        _ => {}
    }
}

/// Replaces the arguments that are written as text although the schema has another type: `"5"`, `"true"`, `"[1]"`.
fn read_texts(schema: &Value, value: &mut Value) {
    let (Some(listed), Some(members)) =
        (schema.get("properties").and_then(Value::as_object), value.as_object_mut())
    else {
        return;
    };
    for (name, member) in members {
        let Some(kind) = listed.get(name).and_then(|schema| schema.get("type")).and_then(Value::as_str)
        else {
            continue;
        };
        match (kind, &*member) {
            ("integer" | "number" | "boolean" | "array" | "object", Value::String(text)) => {
                if let Ok(read @ (Value::Number(_) | Value::Bool(_) | Value::Array(_) | Value::Object(_))) =
                    serde_json::from_str(text)
                {
                    *member = read;
                }
            }
            ("string", Value::Number(_) | Value::Bool(_)) => *member = Value::String(member.to_string()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(mode: ArgumentCheck, schema: Value, arguments: Value) -> Result<(), String> {
        let tool = Tool::new("x", RawJson::from(schema));
        CallChecks::default().check_arguments(mode, &tool, Some(&RawJson::from(arguments)))
    }

    fn mail() -> Value {
        json!({
            "type": "object",
            "properties": {
                "to": { "type": "string", "format": "email" },
                "count": { "type": "integer", "minimum": 1 },
                "kind": { "enum": ["a", "b"] },
                "host": { "type": "string", "pattern": "^[a-z.]+$" },
                "options": { "type": "object", "properties": { "deep": { "type": "boolean" } } },
            },
            "required": ["to"],
        })
    }

    #[test]
    fn arguments_that_fit_pass() {
        for arguments in [
            json!({ "to": "a" }),
            json!({ "to": "a", "count": 2, "kind": "a", "options": { "deep": true, "other": 1 } }),
            json!({ "to": "a", "count": null, "kind": null, "options": { "deep": null } }),
            json!({ "to": "not a mail address" }),
        ] {
            assert_eq!(check(ArgumentCheck::Strict, mail(), arguments.clone()), Ok(()), "{arguments}");
        }
        let tool = Tool::new("x", RawJson::parse(r#"{"type":"object"}"#).unwrap());
        let checks = CallChecks::default();
        assert_eq!(checks.check_arguments(ArgumentCheck::Strict, &tool, None), Ok(()));
        assert_eq!(checks.check_arguments(ArgumentCheck::Strict, &tool, Some(&RawJson::null())), Ok(()));
    }

    #[test]
    fn violations_name_the_place_and_the_reason() {
        for (arguments, why) in [
            (json!({}), "to: missing"),
            (json!({ "to": null }), "to: expected string"),
            (json!({ "to": "a", "count": "2" }), "count: expected integer"),
            (json!({ "to": "a", "count": 0 }), "count: expected at least 1"),
            (json!({ "to": "a", "kind": ["a"] }), "kind: expected one of"),
            (json!({ "to": "a", "host": "a.example; id" }), "host: expected text that matches"),
            (json!({ "to": "a", "cuont": 1 }), "cuont: unknown property; did you mean `count`?"),
            (json!({ "to": "a", "__exec": "id" }), "__exec: unknown property; known properties: `to`"),
        ] {
            let error = check(ArgumentCheck::Strict, mail(), arguments.clone()).unwrap_err();
            assert!(error.contains(why), "{arguments}: {error}");
        }
    }

    #[test]
    fn unlisted_properties_pass_where_the_schema_is_open() {
        for (schema, passes) in [
            (json!({ "type": "object" }), true),
            (json!({ "type": "object", "properties": {} }), true),
            (json!({ "type": "object", "properties": {}, "additionalProperties": false }), false),
            (json!({ "type": "object", "properties": { "a": {} } }), false),
            (json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": false }), false),
            (json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": true }), true),
            (json!({ "type": "object", "properties": { "a": {} }, "patternProperties": { "^z": {} } }), true),
            (
                json!({ "type": "object", "properties": { "a": {} }, "anyOf": [{ "properties": { "z": {} } }] }),
                true,
            ),
        ] {
            let result = check(ArgumentCheck::Strict, schema.clone(), json!({ "z": 1 }));
            assert_eq!(result.is_ok(), passes, "{schema}: {result:?}");
        }
    }

    #[test]
    fn a_lax_server_gets_other_properties_and_texts_but_no_other_violation() {
        for (arguments, passes) in [
            (json!({ "to": "a", "other": 1 }), true),
            (json!({ "to": "a", "count": "2", "options": "{\"deep\":true}" }), true),
            (json!({ "to": 5 }), true),
            (json!({ "to": "a", "count": "two" }), false),
            (json!({ "to": "a", "count": "0" }), false),
            (json!({ "count": 1 }), false),
        ] {
            assert_eq!(check(ArgumentCheck::Lax, mail(), arguments.clone()).is_ok(), passes, "{arguments}");
            assert_eq!(check(ArgumentCheck::Off, mail(), arguments), Ok(()));
        }
    }

    #[test]
    fn an_unusable_schema_stops_no_call() {
        for schema in [json!({ "$ref": "https://example.com/x.json" }), json!({ "type": 5 })] {
            assert_eq!(check(ArgumentCheck::Strict, schema, json!({ "a": 1 })), Ok(()));
        }
    }
}
