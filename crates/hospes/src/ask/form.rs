//! Forms derived from a type, filled in by a user, and decoded as the type.

use hospes_model::{ElicitSchema, PrimitiveSchemaDefinition, RawJson, StringFormat};
use iri_string::types::IriStr;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::form_schema;

/// The field under which a form asks for a value that is no object, where the author names no other.
pub const DEFAULT_FIELD: &str = "value";

/// The type, or the schema, is more than a form can ask for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a form cannot ask for {what}: {why}")]
pub struct FormError {
    what: String,
    why: String,
}

/// Error of form content that does not fit the form. The message names the field and what it requires.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FormContentError(String);

impl FormContentError {
    pub(super) fn new(why: String) -> Self {
        Self(why)
    }
}

/// Derives the form for `T`: the fields of a struct, no field for `()`, else one field named `value`.
///
/// The specification allows strings, numbers, booleans and choices in a flat form, so that every client can show it
/// (ELIC-04). Unsupported keywords of the type's schema are left out and checked when the content is decoded.
///
/// # Errors
/// If `T` has a part that forms do not support: a nested object, a list of anything but choices, an enumeration with
/// data.
pub fn form_for<T: JsonSchema>() -> Result<ElicitSchema, FormError> {
    AnswerForm::of::<T>(DEFAULT_FIELD).map(|form| form.schema)
}

/// Checks the content that a person filled in. All required fields are present, and every present field fits (ELIC-14).
/// Members that the form does not ask for are not checked.
///
/// # Errors
/// The first field that does not fit.
pub fn check_content(form: &ElicitSchema, content: &Map<String, Value>) -> Result<(), FormContentError> {
    for (name, field) in &form.properties.0 {
        match content.get(name) {
            // A field left empty is sent as null by some clients, and not at all by others.
            None | Some(Value::Null) if form.required.contains(name) => {
                return Err(FormContentError(format!("`{name}` is missing")));
            }
            None | Some(Value::Null) => {}
            Some(value) => check(field, value).map_err(|why| FormContentError(format!("`{name}` {why}")))?,
        }
    }
    Ok(())
}

/// A form, and how its content becomes the answer.
#[derive(Clone, Debug)]
pub(super) struct AnswerForm {
    pub(super) schema: ElicitSchema,
    kind: AnswerShape,
}

#[derive(Clone, Copy, Debug)]
enum AnswerShape {
    /// The content is the answer.
    Whole,
    /// The one field is the answer; no field is `null`.
    Wrapped,
    /// A form by hand: the content, or the one field, whichever decodes.
    ByHand,
}

impl AnswerForm {
    pub(super) fn of<T: JsonSchema>(field: &str) -> Result<Self, FormError> {
        let mut schema = SchemaGenerator::new(SchemaSettings::draft2020_12()).into_root_schema_for::<T>();
        // The name of the type where the author gives no title; a person has no use for it.
        if schema.get("title").and_then(Value::as_str) == Some(&T::schema_name()) {
            schema.remove("title");
        }
        Self::build(&Value::from(schema), field)
            .map_err(|why| FormError { what: format!("`{}`", T::schema_name()), why: why.to_string() })
    }

    fn build(schema: &Value, field: &str) -> Result<Self, form_schema::UnsupportedSchema> {
        if form_schema::is_null(schema) {
            return Ok(Self { schema: ElicitSchema::new(), kind: AnswerShape::Wrapped });
        }
        if let Some(schema) = form_schema::object_form(schema)? {
            return Ok(Self { schema, kind: AnswerShape::Whole });
        }
        let (only, optional) = form_schema::field(schema, schema, field)?;
        let form = ElicitSchema::new();
        let schema = if optional { form.with_optional(field, only) } else { form.with_required(field, only) };
        Ok(Self { schema, kind: AnswerShape::Wrapped })
    }

    pub(super) fn from_schema(schema: ElicitSchema) -> Self {
        Self { schema, kind: AnswerShape::ByHand }
    }

    /// Parses a hand-written JSON Schema as a form.
    pub(super) fn parse(schema: &RawJson) -> Result<Self, FormError> {
        let error = |why: String| FormError { what: "this schema".to_owned(), why };
        let value = schema.to_value().map_err(|why| error(why.to_string()))?;
        match form_schema::object_form(&value) {
            Ok(Some(schema)) => Ok(Self::from_schema(schema)),
            Ok(None) => Err(error("it must be an object with properties".to_owned())),
            Err(why) => Err(error(why.to_string())),
        }
    }

    /// Validates and decodes the content. Members that the form does not have are ignored.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        mut content: Map<String, Value>,
    ) -> Result<T, FormContentError> {
        check_content(&self.schema, &content)?;
        content.retain(|name, value| self.schema.properties.get(name).is_some() && !value.is_null());
        let only = || match (content.len(), content.values().next()) {
            (1, Some(value)) => value.clone(),
            _ => Value::Null,
        };
        let misfit = |why: serde_json::Error| FormContentError(why.to_string());
        match self.kind {
            AnswerShape::Wrapped => serde_json::from_value(only()).map_err(misfit),
            AnswerShape::Whole => serde_json::from_value(Value::Object(content)).map_err(misfit),
            AnswerShape::ByHand => {
                let only = only();
                let whole = serde_json::from_value(Value::Object(content));
                whole.or_else(|why| serde_json::from_value(only).map_err(|_| misfit(why)))
            }
        }
    }
}

/// Checks a value against a field. The error message is to follow the field's name.
fn check(field: &PrimitiveSchemaDefinition, value: &Value) -> Result<(), String> {
    match (field, value) {
        (PrimitiveSchemaDefinition::String(field), Value::String(text)) => {
            // JSON Schema counts characters, not bytes.
            let length = text.chars().count() as u64;
            check_range(length, field.min_length, field.max_length, "characters")?;
            match field.format {
                Some(StringFormat::Email) if !is_email(text) => Err("must be an e-mail address".to_owned()),
                Some(StringFormat::Uri) if IriStr::new(text).is_err() => {
                    Err("must be an absolute URI".to_owned())
                }
                Some(StringFormat::Date) if !is_date(text) => Err("must be a date, YYYY-MM-DD".to_owned()),
                _ => Ok(()),
            }
        }
        (PrimitiveSchemaDefinition::Number(field), Value::Number(number)) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            // For JSON Schema 1.0 is an integer, too.
            if field.integer && number.fract() != 0.0 {
                return Err("must be a whole number".to_owned());
            }
            let bound =
                |bound: &Option<serde_json::Number>| bound.as_ref().and_then(serde_json::Number::as_f64);
            if let Some(least) = bound(&field.minimum).filter(|least| number < *least) {
                return Err(format!("must be at least {least}"));
            }
            if let Some(most) = bound(&field.maximum).filter(|most| number > *most) {
                return Err(format!("must be at most {most}"));
            }
            Ok(())
        }
        (PrimitiveSchemaDefinition::Boolean(_), Value::Bool(_)) => Ok(()),
        (PrimitiveSchemaDefinition::SingleSelect(field), Value::String(text)) => {
            check_choice(&field.options, text)
        }
        (PrimitiveSchemaDefinition::MultiSelect(field), Value::Array(items)) => {
            check_range(items.len() as u64, field.min_items, field.max_items, "choices")?;
            items.iter().try_for_each(|item| match item.as_str() {
                Some(text) => check_choice(&field.options, text),
                None => Err("must be a list of strings".to_owned()),
            })
        }
        (PrimitiveSchemaDefinition::String(_) | PrimitiveSchemaDefinition::SingleSelect(_), _) => {
            Err("must be a string".to_owned())
        }
        (PrimitiveSchemaDefinition::Number(_), _) => Err("must be a number".to_owned()),
        (PrimitiveSchemaDefinition::Boolean(_), _) => Err("must be true or false".to_owned()),
        (PrimitiveSchemaDefinition::MultiSelect(_), _) => Err("must be a list of choices".to_owned()),
        // A kind of field that only its author knows.
        _ => Ok(()),
    }
}

fn check_range(count: u64, least: Option<u64>, most: Option<u64>, unit: &str) -> Result<(), String> {
    match (least, most) {
        (Some(least), _) if count < least => Err(format!("must have at least {least} {unit}")),
        (_, Some(most)) if count > most => Err(format!("must have at most {most} {unit}")),
        _ => Ok(()),
    }
}

fn check_choice(options: &[hospes_model::EnumOption], text: &str) -> Result<(), String> {
    if options.iter().any(|option| option.value == text) {
        return Ok(());
    }
    let values: Vec<_> = options.iter().map(|option| option.value.as_str()).collect();
    Err(format!("must be one of {}", values.join(", ")))
}

fn is_email(text: &str) -> bool {
    // Only the shape is checked, because stricter rules refuse addresses that exist.
    text.split_once('@')
        .is_some_and(|(name, host)| !name.is_empty() && !host.is_empty() && !host.contains('@'))
}

/// Returns true if the text has the shape of RFC 3339's `full-date`. The calendar is not checked here; that is left to
/// the type.
fn is_date(text: &str) -> bool {
    let fits =
        |(at, byte): (usize, u8)| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() == 10 && text.bytes().enumerate().all(fits)
}
