//! Conversion of JSON Schema to the fields of a form (ELIC-04, ELIC-17).
//!
//! References are resolved, alternatives of constants become choices, `null` makes a field optional, and unsupported
//! keywords are left out; they are checked when the content is decoded.

use std::fmt;

use hospes_model::{
    BooleanSchema, ElicitSchema, EnumOption, MultiSelectSchema, NumberSchema, PrimitiveSchemaDefinition,
    SingleSelectSchema, StringFormat, StringSchema,
};
use serde_json::{Map, Number, Value};

/// The longest chain of references, and of schemas wrapped in one another, that is followed.
const MAX_REFERENCE_DEPTH: usize = 32;

/// Part of a schema that a form cannot express, with its path.
#[derive(Debug)]
pub(super) struct UnsupportedSchema {
    path: String,
    why: &'static str,
}

impl fmt::Display for UnsupportedSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(self.why) } else { write!(f, "`{}` {}", self.path, self.why) }
    }
}

/// Returns true if the schema is just `null`: the type `()`, a question that is only agreed to.
pub(super) fn is_null(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("null")
}

/// Returns the form for an object schema, or `None` for other schemas.
pub(super) fn object_form(root: &Value) -> Result<Option<ElicitSchema>, UnsupportedSchema> {
    let (schema, _) = flatten_schema(root, root, "")?;
    if schema.get("type").and_then(Value::as_str) != Some("object") && !schema.contains_key("properties") {
        return Ok(None);
    }
    if schema.contains_key("oneOf") || schema.contains_key("anyOf") {
        return Err(UnsupportedSchema { path: String::new(), why: "it is a union of object types" });
    }
    let required = strings(schema.get("required")).unwrap_or_default();
    let mut form = ElicitSchema::new();
    for (name, part) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let (field, optional) = field(root, part, name)?;
        form = if required.contains(name) && !optional {
            form.with_required(name, field)
        } else {
            form.with_optional(name, field)
        };
    }
    Ok(Some(form))
}

/// Returns a field, and true if it is optional.
pub(super) fn field(
    root: &Value,
    schema: &Value,
    path: &str,
) -> Result<(PrimitiveSchemaDefinition, bool), UnsupportedSchema> {
    let error = |why| UnsupportedSchema { path: path.to_owned(), why };
    let (schema, optional) = flatten_schema(root, schema, path)?;
    let text = |name: &str| schema.get(name).and_then(Value::as_str).map(str::to_owned);
    let count = |name: &str| schema.get(name).and_then(Value::as_u64);
    let default = schema.get("default");
    let (title, description) = (text("title"), text("description"));
    let named = schema.get("type").and_then(Value::as_str);
    if matches!(named, None | Some("string"))
        && let Some(options) = choices(root, &schema)
    {
        let mut field = SingleSelectSchema::new(options);
        field.legacy_names = schema.contains_key("enumNames");
        field.default = default.and_then(Value::as_str).map(str::to_owned);
        (field.title, field.description) = (title, description);
        return Ok((field.into(), optional));
    }
    let field = match named {
        Some("string") => {
            let mut field = StringSchema::new();
            field.min_length = count("minLength");
            field.max_length = count("maxLength");
            field.format = text("format").map(|format| StringFormat::from(format.as_str()));
            // A form may name only the formats that the specification lists.
            field.format = field.format.filter(|format| !matches!(format, StringFormat::Other(_)));
            field.default = default.and_then(Value::as_str).map(str::to_owned);
            (field.title, field.description) = (title, description);
            field.into()
        }
        Some(kind @ ("integer" | "number")) => {
            let mut field = if kind == "integer" { NumberSchema::integer() } else { NumberSchema::number() };
            // Forms have no exclusive bounds; for integers the neighbouring inclusive one says the same.
            let beside = |name: &str, step: i64| {
                let bound = schema.get(name).filter(|_| kind == "integer")?.as_i64()?;
                bound.checked_add(step).map(Number::from)
            };
            field.minimum = number(schema.get("minimum")).or_else(|| beside("exclusiveMinimum", 1));
            field.maximum = number(schema.get("maximum")).or_else(|| beside("exclusiveMaximum", -1));
            field.default = number(default);
            (field.title, field.description) = (title, description);
            field.into()
        }
        Some("boolean") => {
            let mut field = BooleanSchema::new();
            field.default = default.and_then(Value::as_bool);
            (field.title, field.description) = (title, description);
            field.into()
        }
        Some("array") => {
            let items = schema.get("items").ok_or_else(|| error("is a list without an item type"))?;
            let (items, _) = flatten_schema(root, items, path)?;
            let options = choices(root, &items)
                .ok_or_else(|| error("is a list of something other than choices (an enum without data)"))?;
            let mut field = MultiSelectSchema::new(options);
            field.min_items = count("minItems");
            field.max_items = count("maxItems");
            field.default = strings(default);
            (field.title, field.description) = (title, description);
            field.into()
        }
        Some("object") => return Err(error("is a nested object, but forms are flat")),
        _ if schema.contains_key("oneOf") || schema.contains_key("anyOf") => {
            return Err(error("is a union of types"));
        }
        _ => return Err(error("has no type that a form can show")),
    };
    Ok((field, optional))
}

/// Resolves references, single alternatives and `null`. Also returns true if `null` is allowed.
fn flatten_schema(
    root: &Value,
    schema: &Value,
    path: &str,
) -> Result<(Map<String, Value>, bool), UnsupportedSchema> {
    let error = |why| UnsupportedSchema { path: path.to_owned(), why };
    let mut schema = schema.as_object().cloned().ok_or_else(|| error("accepts any value"))?;
    let mut optional = false;
    for _ in 0..MAX_REFERENCE_DEPTH {
        if let Some(reference) = schema.remove("$ref") {
            let target = reference.as_str().and_then(|reference| root.pointer(reference.strip_prefix('#')?));
            let target =
                target.and_then(Value::as_object).ok_or_else(|| error("has an unresolvable `$ref`"))?;
            merge_missing_members(&mut schema, target);
            continue;
        }
        if let Some(Value::Array(types)) = schema.get("type") {
            let some: Vec<_> = types.iter().filter(|name| *name != "null").cloned().collect();
            optional |= some.len() < types.len();
            let [one] = some.as_slice() else { return Err(error("has several types")) };
            let one = one.clone();
            schema.insert("type".to_owned(), one);
            continue;
        }
        if let Some(Value::Array(values)) = schema.get_mut("enum")
            && values.contains(&Value::Null)
        {
            values.retain(|value| !value.is_null());
            optional = true;
            continue;
        }
        let Some((word, one)) = take_single_alternative(&mut schema, &mut optional) else {
            return Ok((schema, optional));
        };
        schema.remove(word);
        merge_missing_members(&mut schema, &one);
    }
    Err(error("refers to itself"))
}

/// Strikes `null` from the alternatives; the one that is left, where it is the only one.
fn take_single_alternative(
    schema: &mut Map<String, Value>,
    optional: &mut bool,
) -> Option<(&'static str, Map<String, Value>)> {
    for word in ["allOf", "anyOf", "oneOf"] {
        let Some(Value::Array(parts)) = schema.get_mut(word) else { continue };
        if word != "allOf" {
            let before = parts.len();
            parts.retain(|part| !is_null(part));
            *optional |= parts.len() < before;
        }
        if let [Value::Object(one)] = parts.as_slice() {
            return Some((word, one.clone()));
        }
    }
    None
}

/// Adds the members of `lower` that `upper` has not.
fn merge_missing_members(upper: &mut Map<String, Value>, lower: &Map<String, Value>) {
    for (name, value) in lower {
        if !upper.contains_key(name) {
            upper.insert(name.clone(), value.clone());
        }
    }
}

/// Returns the choices in any notation: `const`, `enum`, `enum` with `enumNames`, or alternatives of these.
fn choices(root: &Value, schema: &Map<String, Value>) -> Option<Vec<EnumOption>> {
    if let Some(Value::String(only)) = schema.get("const") {
        return Some(vec![EnumOption::new(only)]);
    }
    if let Some(values) = strings(schema.get("enum")) {
        let names = strings(schema.get("enumNames")).filter(|names| names.len() == values.len());
        return Some(match names {
            Some(names) => values.into_iter().zip(names).map(|(v, n)| EnumOption::titled(v, n)).collect(),
            None => values.into_iter().map(EnumOption::new).collect(),
        });
    }
    let parts = schema.get("oneOf").or_else(|| schema.get("anyOf"))?.as_array()?;
    let mut options = Vec::new();
    for part in parts {
        let (part, _) = flatten_schema(root, part, "").ok()?;
        let shown = part.get("title").or_else(|| part.get("description")).and_then(Value::as_str);
        for mut option in choices(root, &part)? {
            option.title = shown.map(str::to_owned);
            options.push(option);
        }
    }
    (!options.is_empty()).then_some(options)
}

fn number(value: Option<&Value>) -> Option<Number> {
    match value? {
        Value::Number(number) => Some(number.clone()),
        _ => None,
    }
}

fn strings(value: Option<&Value>) -> Option<Vec<String>> {
    value?.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}
