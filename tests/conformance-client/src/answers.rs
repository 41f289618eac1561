//! Answers of a simulated person and a simulated model.

use hospes::model::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, PrimitiveSchemaDefinition,
    SamplingMessageContentBlock,
};
use hospes::prelude::*;
use serde_json::{Map, Value};

/// Agrees to everything: fields with a default are left to the client itself, the others get what fits.
pub(crate) async fn fill_in(question: ElicitParams) -> Result<ElicitResult> {
    let ElicitParams::Form(form) = question else { return Ok(ElicitResult::decline()) };
    let fields = form.requested_schema.properties.0.iter();
    let content: Map<String, Value> =
        fields.filter_map(|(name, field)| Some((name.clone(), value(field)?))).collect();
    Ok(ElicitResult::accept(Value::Object(content).into()))
}

/// A value for a field that has no default.
fn value(field: &PrimitiveSchemaDefinition) -> Option<Value> {
    match field {
        PrimitiveSchemaDefinition::String(text) if text.default.is_none() => Some(json!("something")),
        PrimitiveSchemaDefinition::Number(number) if number.default.is_none() => Some(json!(1)),
        PrimitiveSchemaDefinition::Boolean(boolean) if boolean.default.is_none() => Some(json!(true)),
        PrimitiveSchemaDefinition::SingleSelect(select) if select.default.is_none() => {
            select.options.first().map(|option| json!(option.value))
        }
        PrimitiveSchemaDefinition::MultiSelect(select) if select.default.is_none() => Some(json!([])),
        _ => None,
    }
}

/// Returns the same result for every request.
pub(crate) async fn sample(_question: CreateMessageParams) -> Result<CreateMessageResult> {
    let answer = SamplingMessageContentBlock::text("An answer.");
    Ok(CreateMessageResult::new("scripted", answer))
}

/// Arguments that fit a tool's schema: what is required, and nothing else.
pub(crate) fn arguments(schema: &RawJson) -> Result<Value> {
    let schema = schema.to_value()?;
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let argument = |name: &Value| {
        let name = name.as_str()?;
        let kind = schema.pointer(&format!("/properties/{name}/type")).and_then(Value::as_str);
        let value = match kind {
            Some("number" | "integer") => json!(1),
            Some("boolean") => json!(true),
            Some("array") => json!([]),
            Some("object") => json!({}),
            Some("null") => Value::Null,
            _ => json!("something"),
        };
        Some((name.to_owned(), value))
    };
    Ok(Value::Object(required.iter().filter_map(argument).collect()))
}
