//! JSON Schema validation, offline: no schema makes us fetch anything (JSCH-07).

use hospes_model::RawJson;
use serde_json::Value;

use super::bounds::{MAX_SUBSCHEMAS, is_bounded};
use super::composition::CompositionCost;

/// Maximum number of mistakes reported for one value.
const MAX_REPORTED_ERRORS: usize = 5;

/// Checks `value` against the JSON Schema `schema`, which may come from a third party. The schema must be within the
/// limits of [`MAX_SUBSCHEMAS`](crate::server::MAX_SUBSCHEMAS). Nothing is looked up elsewhere.
///
/// # Errors
/// In words: the first five mistakes with their places, or what is wrong with the schema.
pub fn check_against_schema(value: &RawJson, schema: &RawJson) -> Result<(), String> {
    if !is_bounded(schema) {
        return Err("the schema is too large or too deep".to_owned());
    }
    let read = |json: &RawJson| json.decode::<Value>().map_err(|error| error.to_string());
    let (value, schema) = (read(value)?, read(schema)?);
    let compiled = compile(&schema)?;
    let mut told = Vec::new();
    for error in compiled.iter_errors(&value).take(MAX_REPORTED_ERRORS) {
        let place = error.instance_path().as_str();
        let at = if place.is_empty() { String::new() } else { format!("{place}: ") };
        told.push(format!("{at}{error}"));
    }
    if told.is_empty() { Ok(()) } else { Err(told.join("; ")) }
}

/// Compiles a schema under the dialect it names; 2020-12 if it names none (JSCH-01).
///
/// # Errors
/// Why not: it is not valid, names a dialect that is not spoken here (JSCH-04), or refers to something outside of
/// itself (JSCH-10).
pub(crate) fn compile(schema: &Value) -> Result<jsonschema::Validator, String> {
    compile_with(schema, true)
}

/// Compiles a schema as [`compile`] does. Formats are asserted, or are mere annotations as the specification has it.
pub(crate) fn compile_with(schema: &Value, asserts_formats: bool) -> Result<jsonschema::Validator, String> {
    let options = jsonschema::options().with_retriever(NoExternalSchemas);
    let options = if schema.get("$schema").is_none() {
        options.with_draft(jsonschema::Draft::Draft202012)
    } else {
        options
    };
    if let Some(dialect) = schema.get("$schema").and_then(Value::as_str) {
        // The older drafts write their URIs with an empty fragment.
        let known = DIALECTS.contains(&dialect.trim_end_matches('#'));
        if !known {
            let spoken = DIALECTS.join(", ");
            return Err(format!("unsupported schema dialect {dialect}; supported: {spoken}"));
        }
    }
    // Before the schema is built, because its size alone does not tell how long a check takes (JSCH-11).
    let most = MAX_SUBSCHEMAS as u64;
    if CompositionCost::default().cost(schema, schema).is_none_or(|cost| cost > most) {
        return Err(format!(
            "it applies more than {most} schemas to one value, or refers to itself without end"
        ));
    }
    // From 2019-09 on formats are mere annotations unless a validator is told otherwise.
    options.should_validate_formats(asserts_formats).build(schema).map_err(|error| error.to_string())
}

/// The dialects that are spoken here; 2020-12 is the one to write (JSCH-06).
const DIALECTS: [&str; 5] = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-04/schema",
];

/// Finds no schema anywhere.
struct NoExternalSchemas;

impl jsonschema::Retrieve for NoExternalSchemas {
    fn retrieve(
        &self,
        uri: &jsonschema::Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("the schema refers to {uri}, but external schemas are never fetched").into())
    }
}
