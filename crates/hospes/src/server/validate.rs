//! Descriptions of mistakes in a value.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::{Map, Value, json};

use crate::json_schema::{compile, compile_with};
use crate::server::mistakes::{MAX_REPORTED_MISTAKES, ToolArgumentMistake, shortened};
use crate::server::schema::resolve;
use crate::server::suggest::did_you_mean;

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct SchemaValidator {
    compiled: jsonschema::Validator,
}

impl SchemaValidator {
    /// Compiles a schema under the dialect it names; 2020-12 if it names none (JSCH-01).
    ///
    /// # Errors
    /// Why not: it is not valid, names a dialect that is not spoken here (JSCH-04), or refers to something outside of
    /// itself (JSCH-10).
    pub(crate) fn new(schema: &Value) -> Result<Self, String> {
        let compiled = compile(schema)?;
        Ok(Self { compiled })
    }

    /// Compiles a schema as [`new`](Self::new) does, without asserting formats.
    pub(crate) fn without_formats(schema: &Value) -> Result<Self, String> {
        let compiled = compile_with(schema, false)?;
        Ok(Self { compiled })
    }

    /// Returns true if `value` is valid.
    pub(crate) fn is_valid(&self, value: &Value) -> bool {
        self.compiled.is_valid(value)
    }

    /// Returns true if each mistake in `value` is a member that the schema does not list.
    pub(crate) fn has_only_extra_members(&self, value: &Value) -> bool {
        self.compiled.iter_errors(value).all(|error| is_extra_member(&error))
    }

    /// Returns the mistakes in `value`.
    pub(crate) fn find_mistakes(&self, value: &Value, schema: &Value) -> Vec<ToolArgumentMistake> {
        let nothing = Map::new();
        let root = schema.as_object().unwrap_or(&nothing);
        let mut mistakes = Vec::new();
        for error in self.compiled.iter_errors(value) {
            // One more than is shown, so that the report can say that there are more.
            if mistakes.len() > MAX_REPORTED_MISTAKES {
                break;
            }
            collect_mistakes(&error, schema, root, &mut mistakes);
        }
        mistakes
    }
}

/// Returns true if an object has a member that its schema does not list, and nothing else is wrong. Of several schemas one
/// has to fit but for such members.
fn is_extra_member(error: &ValidationError<'_>) -> bool {
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { .. }
        | ValidationErrorKind::UnevaluatedProperties { .. } => true,
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            context.iter().any(|errors| errors.iter().all(is_extra_member))
        }
        _ => false,
    }
}

/// Collects a mistake. For a choice among several schemas, collects the mistakes against the nearest one.
fn collect_mistakes(
    error: &ValidationError<'_>,
    schema: &Value,
    root: &Map<String, Value>,
    mistakes: &mut Vec<ToolArgumentMistake>,
) {
    // The schema that holds the failed keyword.
    let holder = error.schema_path().as_str().rsplit_once('/').map_or("", |(holder, _)| holder);
    let holder = schema.pointer(holder).unwrap_or(schema);
    let path = error.instance_path().as_str();
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let property = holder.get("properties").and_then(|all| all.get(name));
            let what = property.map_or_else(|| "a value".to_owned(), |schema| describe_schema(schema, root));
            mistakes.push(ToolArgumentMistake::at_member(path, name, format!("missing; expected {what}")));
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let properties = holder.get("properties").and_then(Value::as_object);
            for name in unexpected {
                let known = || properties.into_iter().flat_map(Map::keys).map(String::as_str);
                let mut text = format!("unknown property{}", did_you_mean(name, known()));
                if !text.ends_with('?') {
                    let all = known().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ");
                    text += &if all.is_empty() {
                        "; no properties are allowed".to_owned()
                    } else {
                        format!("; known properties: {all}")
                    };
                }
                mistakes.push(ToolArgumentMistake::at_member(path, name, text));
            }
        }
        // First, because a wrong tag is the reason that no variant fits.
        ValidationErrorKind::AnyOf { .. } | ValidationErrorKind::OneOfNotValid { .. }
            if let Some(mistake) = find_tag_mistake(holder, root, path, error.instance()) =>
        {
            mistakes.push(mistake);
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }
            if error.instance().is_object() && nearest_error(context, path).is_some() =>
        {
            for error in nearest_error(context, path).into_iter().flatten() {
                collect_mistakes(error, schema, root, mistakes);
            }
        }
        kind => {
            let wanted = match kind {
                ValidationErrorKind::Type { kind: TypeKind::Single(_) | TypeKind::Multiple(_) }
                | ValidationErrorKind::Enum { .. }
                | ValidationErrorKind::Constant { .. }
                | ValidationErrorKind::AnyOf { .. }
                | ValidationErrorKind::OneOfNotValid { .. } => describe_schema(holder, root),
                ValidationErrorKind::Minimum { limit } => format!("at least {limit}"),
                ValidationErrorKind::Maximum { limit } => format!("at most {limit}"),
                ValidationErrorKind::ExclusiveMinimum { limit } => format!("more than {limit}"),
                ValidationErrorKind::ExclusiveMaximum { limit } => format!("less than {limit}"),
                ValidationErrorKind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
                ValidationErrorKind::MinLength { limit } => format!("{limit} characters or more"),
                ValidationErrorKind::MaxLength { limit } => format!("{limit} characters or fewer"),
                ValidationErrorKind::MinItems { limit } => format!("{limit} items or more"),
                ValidationErrorKind::MaxItems { limit } => format!("{limit} items or fewer"),
                ValidationErrorKind::UniqueItems => "unique items".to_owned(),
                ValidationErrorKind::Pattern { pattern } => format!("text that matches {pattern}"),
                ValidationErrorKind::Format { format } => format!("text in the format {format}"),
                ValidationErrorKind::OneOfMultipleValid { .. } => {
                    let text = "matches more than one of the allowed schemas".to_owned();
                    return mistakes.push(ToolArgumentMistake::at(path, text));
                }
                _ => return mistakes.push(ToolArgumentMistake::at(path, shortened(&error.to_string(), 300))),
            };
            mistakes.push(ToolArgumentMistake::wrong(path, &wanted, error.instance()));
        }
    }
}

/// The mistake in the member that tells the variants of a tagged type apart: it names none of them, or is missing. None where
/// the variants have no such member, or it is right.
fn find_tag_mistake(
    holder: &Value,
    root: &Map<String, Value>,
    path: &str,
    given: &Value,
) -> Option<ToolArgumentMistake> {
    let given = given.as_object()?;
    let parts = ["oneOf", "anyOf"].iter().find_map(|key| holder.get(key)?.as_array())?;
    let variants = parts.iter().filter_map(|part| resolve(part, root)?.get("properties")?.as_object());
    let variants: Vec<_> = variants.collect();
    let value = |variant: &'_ Map<String, Value>, name: &str| {
        resolve(variant.get(name)?, root)?.get("const").cloned()
    };
    let values = |name: &str| variants.iter().map(|variant| value(variant, name)).collect::<Option<Vec<_>>>();
    let (name, tags) = variants.first()?.keys().find_map(|name| Some((name, values(name)?)))?;
    if tags.len() < 2 {
        return None;
    }
    let wanted = describe_schema(&json!({ "enum": tags }), root);
    match given.get(name) {
        None => Some(ToolArgumentMistake::at_member(path, name, format!("missing; expected {wanted}"))),
        Some(tag) if !tags.contains(tag) => {
            // The tilde first (RFC 6901, section 3): that of an escaped slash must not be escaped again.
            let place = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
            Some(ToolArgumentMistake::wrong(&place, &wanted, tag))
        }
        Some(_) => None,
    }
}

/// Returns the nearest of several schemas that an object does not fit. Members with exact values (which distinguish the
/// variants of a type) count first, then the number of mistakes. None if all of them require another type.
fn nearest_error<'e>(
    branches: &'e [Vec<ValidationError<'static>>],
    path: &str,
) -> Option<&'e Vec<ValidationError<'static>>> {
    let of_another_kind = |error: &ValidationError<'_>| {
        matches!(error.kind(), ValidationErrorKind::Type { .. }) && error.instance_path().as_str() == path
    };
    let exact = |error: &&ValidationError<'_>| {
        matches!(error.kind(), ValidationErrorKind::Constant { .. } | ValidationErrorKind::Enum { .. })
    };
    let possible = branches.iter().filter(|errors| !errors.iter().any(of_another_kind));
    possible.min_by_key(|errors| (errors.iter().filter(exact).count(), errors.len()))
}

/// Describes a schema in few words: `integer`, `one of "a", "b"`, `array of string`.
fn describe_schema(schema: &Value, root: &Map<String, Value>) -> String {
    let Some(schema) = resolve(schema, root) else { return "another value".into() };
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let all: Vec<_> = values.iter().take(20).map(Value::to_string).collect();
        return format!("one of {}", all.join(", "));
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(parts) = schema.get(key).and_then(Value::as_array) {
            let mut all: Vec<_> = parts.iter().take(8).map(|part| describe_schema(part, root)).collect();
            all.dedup();
            return all.join(" or ");
        }
    }
    let one = |kind: &str| match kind {
        "array" => match schema.get("items") {
            Some(items) if items.is_object() => format!("array of {}", describe_schema(items, root)),
            _ => "array".into(),
        },
        "string" => match schema.get("format").and_then(Value::as_str) {
            Some(format) => format!("string in the format {format}"),
            None => "string".into(),
        },
        other => other.to_owned(),
    };
    match schema.get("type") {
        Some(Value::String(kind)) => one(kind),
        Some(Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).map(one).collect::<Vec<_>>().join(" or ")
        }
        _ => "another value".into(),
    }
}
