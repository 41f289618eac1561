//! JSON Schemas of Rust types, made fit for tools: 2020-12, an object at the root, closed unless the type is open.

use hospes_model::RawJson;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The schema of what `T` reads.
pub(crate) fn input_schema_of<T: JsonSchema>() -> Value {
    // Without `$schema` a schema is taken for 2020-12 (JSCH-01), and every tool's is shorter.
    let settings = SchemaSettings::draft2020_12().for_deserialize().with(|s| s.meta_schema = None);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// The schema of what `T` writes.
pub(crate) fn output_schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|s| s.meta_schema = None);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Value::Object(root) = &mut schema {
        root.remove("title");
    }
    strip_number_formats(&mut schema);
    schema
}

/// The schema of a tool that takes nothing.
pub(crate) fn no_arguments() -> Value {
    json!({ "type": "object", "properties": {}, "additionalProperties": false })
}

/// The schema of a tool that takes any arguments as they come.
pub(crate) fn any_arguments() -> Value {
    json!({ "type": "object", "additionalProperties": true })
}

/// Input schema of a tool, derived from the schema of a type.
pub(crate) struct ToolInputSchema {
    pub(crate) schema: Value,
    /// Doc comment of the type.
    pub(crate) description: Option<String>,
    /// True if the schema requires more than decoding into the type checks.
    pub(crate) exacting: bool,
    /// The only arguments there are, where the schema is closed at its root.
    pub(crate) known: Option<Box<[Box<str>]>>,
}

/// Converts the schema of a type into that of a tool's arguments.
///
/// # Errors
/// When the type is not an object, so that its values cannot be arguments.
pub(crate) fn build_input_schema(schema: Value) -> Result<ToolInputSchema, NotAnObjectError> {
    let Value::Object(mut root) = schema else { return Err(NotAnObjectError) };
    if root.get("type").and_then(Value::as_str) == Some("null") {
        // `Args<()>`: a tool that takes nothing.
        root.clear();
        root.insert("type".into(), json!("object"));
        root.insert("properties".into(), json!({}));
    }
    match root.get("type") {
        Some(Value::String(kind)) if kind == "object" => {}
        None if is_object_by_its_parts(&root) => {
            root.insert("type".into(), json!("object"));
        }
        _ => return Err(NotAnObjectError),
    }
    root.remove("title");
    let description = match root.remove("description") {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    if can_forbid_additional(&root) {
        root.entry("properties").or_insert_with(|| json!({}));
        root.insert("additionalProperties".into(), json!(false));
    }
    let known = closed_property_names(&root);
    let mut schema = Value::Object(root);
    // Before the formats are removed: they tell a type's own bounds from those that were set by hand.
    let exacting = needs_validation(&schema);
    strip_number_formats(&mut schema);
    Ok(ToolInputSchema { schema, description, exacting, known })
}

/// The schema describes something that is no JSON object.
#[derive(Debug)]
pub(crate) struct NotAnObjectError;

/// The names of the properties, where no others are allowed.
pub(crate) fn closed_property_names(root: &Map<String, Value>) -> Option<Box<[Box<str>]>> {
    if root.get("additionalProperties") != Some(&Value::Bool(false)) || root.contains_key("patternProperties")
    {
        return None;
    }
    let properties = root.get("properties").and_then(Value::as_object);
    Some(properties.map(|all| all.keys().map(|key| key.as_str().into()).collect()).unwrap_or_default())
}

/// An enumeration of structs, a reference to a struct: objects all the same.
fn is_object_by_its_parts(root: &Map<String, Value>) -> bool {
    let is_object = |part: &Value| {
        resolve(part, root).is_some_and(|part| {
            part.get("type").and_then(Value::as_str) == Some("object") || is_object_by_its_parts_of(part)
        })
    };
    if root.contains_key("properties") {
        return true;
    }
    if let Some(reference) = root.get("$ref") {
        return is_object(&json!({ "$ref": reference }));
    }
    let any = |key: &str| root.get(key).and_then(Value::as_array);
    ["oneOf", "anyOf", "allOf"]
        .into_iter()
        .filter_map(any)
        .any(|parts| !parts.is_empty() && parts.iter().all(is_object))
}

fn is_object_by_its_parts_of(part: &Value) -> bool {
    part.get("properties").is_some()
}

/// `schema`, or what it refers to within the document `root`.
pub(crate) fn resolve<'a>(schema: &'a Value, root: &'a Map<String, Value>) -> Option<&'a Value> {
    let mut schema = schema;
    // Few hops: references to references are rare, and a circle must end.
    for _ in 0..8 {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str) else { return Some(schema) };
        let name = reference.strip_prefix("#/$defs/")?;
        schema = root.get("$defs")?.get(name)?;
    }
    None
}

/// Returns true if `additionalProperties: false` adds nothing to the type's own rules: it must see all the properties.
fn can_forbid_additional(root: &Map<String, Value>) -> bool {
    const OPEN: [&str; 11] = [
        "additionalProperties",
        "unevaluatedProperties",
        "patternProperties",
        "propertyNames",
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "$ref",
        "$dynamicRef",
        "dependentSchemas",
    ];
    OPEN.iter().all(|key| !root.contains_key(*key))
}

/// Number formats are schemars' own; some readers of schemas refuse what they do not know.
fn strip_number_formats(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.get("format").and_then(Value::as_str).is_some_and(is_number_format) {
                members.remove("format");
            }
            for (key, member) in members {
                // What stands under these is data, not a schema.
                if !matches!(key.as_str(), "default" | "const" | "enum" | "examples") {
                    strip_number_formats(member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(strip_number_formats),
        _ => {}
    }
}

fn is_number_format(format: &str) -> bool {
    matches!(
        format,
        "int"
            | "int8"
            | "int16"
            | "int32"
            | "int64"
            | "int128"
            | "uint"
            | "uint8"
            | "uint16"
            | "uint32"
            | "uint64"
            | "uint128"
            | "float"
            | "double"
    )
}

/// Returns true if the schema of a type, as schemars made it, has keywords that decoding into the type does not
/// enforce.
fn needs_validation(schema: &Value) -> bool {
    let Value::Object(members) = schema else { return false };
    let format = members.get("format").and_then(Value::as_str).unwrap_or_default();
    members.iter().any(|(key, value)| match key.as_str() {
        // The bounds of an integer type are the type's own, and decoding keeps them.
        "minimum" | "maximum" => !is_bound_of_a_type(format, key, value),
        "exclusiveMinimum"
        | "exclusiveMaximum"
        | "multipleOf"
        | "minLength"
        | "maxLength"
        | "pattern"
        | "minItems"
        | "maxItems"
        | "uniqueItems"
        | "contains"
        | "minContains"
        | "maxContains"
        | "minProperties"
        | "maxProperties"
        | "patternProperties"
        | "propertyNames"
        | "dependentRequired"
        | "dependentSchemas"
        | "allOf"
        | "if"
        | "not"
        | "unevaluatedProperties"
        | "unevaluatedItems"
        | "contentEncoding" => true,
        // Types that decode from a string with a format (dates, addresses, ids) check it by decoding; a plain
        // `String` with a format does not.
        "format" => !value.as_str().is_some_and(is_number_format),
        "default" | "const" | "enum" | "examples" | "title" | "description" | "required" | "type"
        | "$ref" => false,
        "properties" | "$defs" => value.as_object().is_some_and(|all| all.values().any(needs_validation)),
        "oneOf" | "anyOf" | "prefixItems" => {
            value.as_array().is_some_and(|all| all.iter().any(needs_validation))
        }
        _ => needs_validation(value),
    })
}

fn is_bound_of_a_type(format: &str, key: &str, value: &Value) -> bool {
    let bound = match (format, key) {
        ("uint" | "uint8" | "uint16" | "uint32" | "uint64" | "uint128", "minimum") => 0,
        ("uint8", _) => i64::from(u8::MAX),
        ("uint16", _) => i64::from(u16::MAX),
        ("int8", "minimum") => i64::from(i8::MIN),
        ("int8", _) => i64::from(i8::MAX),
        ("int16", "minimum") => i64::from(i16::MIN),
        ("int16", _) => i64::from(i16::MAX),
        _ => return false,
    };
    value.as_i64() == Some(bound)
}

/// Returns true if the root of a schema has the type object.
pub(crate) fn is_of_object(schema: &RawJson) -> bool {
    // Of repeated members the last one counts, as it does for the parsers that read the schema.
    let kind = schema.members().filter(|member| member.key() == "type").last();
    kind.and_then(|kind| kind.text()).as_deref() == Some("object")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Plain {
        small: u8,
        signed: i8,
        port: u16,
        short: i16,
        count: usize,
        wide: u128,
        offset: i64,
        ratio: Option<f32>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Bounded {
        #[schemars(range(min = 1))]
        line: Option<u64>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Narrow {
        #[schemars(range(max = 255))]
        wide: u32,
    }

    /// A type's own bounds are left to decoding. Bounds that a person wrote are checked, even if the number looks like
    /// the bound of another type.
    #[test]
    fn bounds_by_hand_are_checked() {
        assert!(
            !build_input_schema(input_schema_of::<Plain>()).unwrap_or_else(|_| panic!("an object")).exacting
        );
        assert!(
            build_input_schema(input_schema_of::<Bounded>()).unwrap_or_else(|_| panic!("an object")).exacting
        );
        assert!(
            build_input_schema(input_schema_of::<Narrow>()).unwrap_or_else(|_| panic!("an object")).exacting
        );
    }

    #[test]
    fn the_root_says_object_or_it_does_not() {
        for (schema, is) in [
            (r#"{"type":"object"}"#, true),
            (r#"{"properties":{"type":"string"},"t\u0079pe":"object"}"#, true),
            (r#"{"type":"object","type":"array"}"#, false),
            (r#"{"type":["object"]}"#, false),
            (r#"{"properties":{"type":"object"}}"#, false),
            (r#""object""#, false),
        ] {
            assert_eq!(is_of_object(&RawJson::parse(schema).unwrap()), is, "{schema}");
        }
    }
}
