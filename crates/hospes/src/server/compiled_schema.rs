//! Compiled JSON Schemas of other servers' tools, for programs between them and applications.

use hospes_model::RawJson;
use serde_json::Value;

use crate::json_schema::is_bounded;
use crate::server::mistakes::MAX_REPORTED_MISTAKES;
use crate::server::validate::SchemaValidator;

/// A compiled JSON Schema of a third party, within the limits of [`MAX_SUBSCHEMAS`](crate::server::MAX_SUBSCHEMAS).
/// References to other documents are never fetched. The keyword `format` is not asserted.
#[derive(Debug)]
pub struct CompiledSchema {
    schema: Value,
    validator: SchemaValidator,
}

impl CompiledSchema {
    /// Compiles a schema under the dialect it names; 2020-12 if it names none.
    ///
    /// # Errors
    /// If the schema is invalid, too large, of an unknown dialect, or refers to another document.
    pub fn new(schema: &RawJson) -> Result<Self, String> {
        if !is_bounded(schema) {
            return Err("the schema is too large or too deep".to_owned());
        }
        let schema = schema.to_value().map_err(|error| error.to_string())?;
        let validator = SchemaValidator::without_formats(&schema)?;
        Ok(Self { schema, validator })
    }

    /// Returns the schema as a value.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Returns true if the value is valid.
    #[must_use]
    pub fn is_valid(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// Returns true if the value is valid but for members that the schema does not list.
    #[must_use]
    pub fn is_valid_with_extra_members(&self, value: &Value) -> bool {
        self.validator.has_only_extra_members(value)
    }

    /// Describes the mistakes in a value, each with its place, so that a model can correct them. At most 20.
    #[must_use]
    pub fn find_mistakes(&self, value: &Value) -> Vec<String> {
        let mistakes = self.validator.find_mistakes(value, &self.schema);
        let told = mistakes.into_iter().take(MAX_REPORTED_MISTAKES).map(|mistake| {
            if mistake.path.is_empty() { mistake.text } else { format!("{}: {}", mistake.path, mistake.text) }
        });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compiled(schema: Value) -> CompiledSchema {
        CompiledSchema::new(&RawJson::from(schema)).unwrap()
    }

    #[test]
    fn mistakes_are_described_and_formats_are_not_asserted() {
        let schema = compiled(json!({
            "type": "object",
            "properties": { "to": { "type": "string", "format": "email" }, "count": { "type": "integer" } },
            "required": ["to"],
            "additionalProperties": false
        }));
        assert!(schema.is_valid(&json!({ "to": "no mail address", "count": 1 })));
        let value = json!({ "count": "one", "cuont": 1 });
        let mistakes = schema.find_mistakes(&value);
        assert!(
            mistakes.iter().any(|one| one == "to: missing; expected string in the format email"),
            "{mistakes:?}"
        );
        assert!(mistakes.iter().any(|one| one == "count: expected integer, got \"one\""), "{mistakes:?}");
        assert!(
            mistakes.iter().any(|one| one.starts_with("cuont: unknown property; did you mean")),
            "{mistakes:?}"
        );
        assert!(!schema.is_valid_with_extra_members(&value));
    }

    #[test]
    fn extra_members_are_told_apart_from_other_mistakes() {
        let closed = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "additionalProperties": false });
        let either = json!({ "anyOf": [closed.clone(), { "type": "string" }] });
        for (schema, value, valid) in [
            (closed.clone(), json!({ "a": 1, "b": 2 }), true),
            (closed.clone(), json!({ "a": "x", "b": 2 }), false),
            (json!({ "type": "array", "items": closed }), json!([{ "a": 1 }, { "c": 2 }]), true),
            (either.clone(), json!({ "b": 2 }), true),
            (either, json!({ "a": "x" }), false),
        ] {
            let schema = compiled(schema);
            assert!(!schema.is_valid(&value) || valid);
            assert_eq!(schema.is_valid_with_extra_members(&value), valid, "{value}");
        }
    }

    #[test]
    fn schemas_that_refer_elsewhere_or_are_too_large_are_refused() {
        let refused = |schema: Value| CompiledSchema::new(&RawJson::from(schema)).unwrap_err();
        assert!(refused(json!({ "$ref": "https://example.com/schema.json" })).contains("never fetched"));
        assert!(refused(json!({ "allOf": vec![json!({}); 10_001] })).contains("too large"));
        assert!(!refused(json!({ "type": 5 })).is_empty());
    }
}
