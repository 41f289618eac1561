//! The schema of a form: flat, and of primitive fields only (ELIC-04).

use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Number;

use crate::RawJson;
use crate::types::lenient::or_default;

/// The fields of a form, in display order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitSchema {
    /// JSON Schema dialect (from 2025-11-25).
    #[serde(default, rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub dialect: Option<String>,
    #[serde(default)]
    r#type: ObjectType,
    /// The fields.
    pub properties: FormProperties,
    /// Names of the required fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub required: Vec<String>,
}

impl ElicitSchema {
    /// Creates a form without fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an optional field.
    #[must_use]
    pub fn with_optional(
        mut self,
        name: impl Into<String>,
        field: impl Into<PrimitiveSchemaDefinition>,
    ) -> Self {
        self.properties.0.push((name.into(), field.into()));
        self
    }

    /// Adds a required field.
    #[must_use]
    pub fn with_required(
        mut self,
        name: impl Into<String>,
        field: impl Into<PrimitiveSchemaDefinition>,
    ) -> Self {
        let name = name.into();
        self.required.push(name.clone());
        self.properties.0.push((name, field.into()));
        self
    }
}

/// The type of every form schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ObjectType {
    #[default]
    Object,
}

/// Fields by name, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a newtype that gives a list the shape of an object")]
pub struct FormProperties(pub Vec<(String, PrimitiveSchemaDefinition)>);

impl FormProperties {
    /// Returns the field with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&PrimitiveSchemaDefinition> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, field)| field)
    }
}

impl Serialize for FormProperties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, field)| (name, field)))
    }
}

impl<'de> Deserialize<'de> for FormProperties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FormPropertiesVisitor;
        impl<'de> Visitor<'de> for FormPropertiesVisitor {
            type Value = FormProperties;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the fields of a form, an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FormProperties, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(FormProperties(fields))
            }
        }
        deserializer.deserialize_map(FormPropertiesVisitor)
    }
}

/// Schema of a form field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrimitiveSchemaDefinition {
    /// Text.
    String(StringSchema),
    /// A number.
    Number(NumberSchema),
    /// A boolean.
    Boolean(BooleanSchema),
    /// One value from a list.
    SingleSelect(SingleSelectSchema),
    /// Several values from a list (from 2025-11-25).
    MultiSelect(MultiSelectSchema),
    /// A kind of field that the specification does not define: the whole schema, unchanged.
    Unknown(RawJson),
}

macro_rules! from_kind {
    ($($type:ident => $variant:ident),+) => {$(
        impl From<$type> for PrimitiveSchemaDefinition {
            fn from(schema: $type) -> Self {
                Self::$variant(schema)
            }
        }
    )+};
}

from_kind!(
    StringSchema => String, NumberSchema => Number, BooleanSchema => Boolean,
    SingleSelectSchema => SingleSelect, MultiSelectSchema => MultiSelect
);

open_enum! {
    /// Format of a text.
    StringFormat {
        /// E-mail address.
        Email = "email",
        /// URI.
        Uri = "uri",
        /// Date.
        Date = "date",
        /// Date and time.
        DateTime = "date-time",
    }
}

/// Text field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StringSchema {
    /// Display name.
    pub title: Option<String>,
    /// Description of the field.
    pub description: Option<String>,
    /// Minimum number of characters.
    pub min_length: Option<u64>,
    /// Maximum number of characters.
    pub max_length: Option<u64>,
    /// Format of the text.
    pub format: Option<StringFormat>,
    /// Default value (from 2025-11-25).
    pub default: Option<String>,
}

impl StringSchema {
    /// Creates a field for any text.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(StringSchema {
    some with_title(title: String);
    some with_description(description: String);
    some with_min_length(min_length: u64);
    some with_max_length(max_length: u64);
    some with_format(format: StringFormat);
    some with_default(default: String);
});

/// Number field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NumberSchema {
    /// True if the number must be an integer.
    pub integer: bool,
    /// Display name.
    pub title: Option<String>,
    /// Description of the field.
    pub description: Option<String>,
    /// Minimum value.
    pub minimum: Option<Number>,
    /// Maximum value.
    pub maximum: Option<Number>,
    /// Default value (from 2025-11-25).
    pub default: Option<Number>,
}

impl NumberSchema {
    /// Creates a field for any number.
    #[must_use]
    pub fn number() -> Self {
        Self::default()
    }

    /// Creates a field for any integer.
    #[must_use]
    pub fn integer() -> Self {
        Self { integer: true, ..Self::default() }
    }
}

setters!(NumberSchema {
    some with_title(title: String);
    some with_description(description: String);
    some with_minimum(minimum: Number);
    some with_maximum(maximum: Number);
    some with_default(default: Number);
});

/// Boolean field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BooleanSchema {
    /// Display name.
    pub title: Option<String>,
    /// Description of the field.
    pub description: Option<String>,
    /// Default value.
    pub default: Option<bool>,
}

impl BooleanSchema {
    /// Creates a boolean field.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(BooleanSchema {
    some with_title(title: String);
    some with_description(description: String);
    some with_default(default: bool);
});

/// An option of a select field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnumOption {
    /// The value.
    pub value: String,
    /// Display name.
    pub title: Option<String>,
}

impl EnumOption {
    /// Creates a value without a title; it is shown unchanged.
    pub fn new(value: impl Into<String>) -> Self {
        Self { value: value.into(), title: None }
    }

    /// Creates a value with a title to show.
    pub fn titled(value: impl Into<String>, title: impl Into<String>) -> Self {
        Self { value: value.into(), title: Some(title.into()) }
    }
}

impl From<&str> for EnumOption {
    fn from(value: &str) -> Self {
        Self::new(value)
    }
}

/// Field to select one of several values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SingleSelectSchema {
    /// Display name.
    pub title: Option<String>,
    /// Description of the field.
    pub description: Option<String>,
    /// Available options.
    pub options: Vec<EnumOption>,
    /// True if titles are written as `enumNames`, the only form that 2025-06-18 has.
    pub legacy_names: bool,
    /// Default value (from 2025-11-25).
    pub default: Option<String>,
}

impl SingleSelectSchema {
    /// Creates a field to select one of these options.
    #[must_use]
    pub fn new(options: Vec<EnumOption>) -> Self {
        Self { title: None, description: None, options, legacy_names: false, default: None }
    }
}

setters!(SingleSelectSchema {
    some with_title(title: String);
    some with_description(description: String);
    some with_default(default: String);
});

/// Field to select several values (from 2025-11-25).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MultiSelectSchema {
    /// Display name.
    pub title: Option<String>,
    /// Description of the field.
    pub description: Option<String>,
    /// Available options.
    pub options: Vec<EnumOption>,
    /// Minimum number of selected values.
    pub min_items: Option<u64>,
    /// Maximum number of selected values.
    pub max_items: Option<u64>,
    /// Values selected by default.
    pub default: Option<Vec<String>>,
}

impl MultiSelectSchema {
    /// Creates a field to select several of these options.
    #[must_use]
    pub fn new(options: Vec<EnumOption>) -> Self {
        Self { title: None, description: None, options, min_items: None, max_items: None, default: None }
    }
}

setters!(MultiSelectSchema {
    some with_title(title: String);
    some with_description(description: String);
    some with_min_items(min_items: u64);
    some with_max_items(max_items: u64);
    some with_default(default: Vec<String>);
});

#[derive(Deserialize)]
struct TitledValue {
    #[serde(rename = "const")]
    value: String,
    title: Option<String>,
}

impl From<TitledValue> for EnumOption {
    fn from(titled: TitledValue) -> Self {
        Self { value: titled.value, title: titled.title }
    }
}

/// All keywords that the schema of a field may have.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FieldKeywords {
    r#type: String,
    title: Option<String>,
    description: Option<String>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    format: Option<StringFormat>,
    minimum: Option<Number>,
    maximum: Option<Number>,
    r#enum: Option<Vec<String>>,
    enum_names: Option<Vec<String>>,
    one_of: Option<Vec<TitledValue>>,
    items: Option<ItemsKeywords>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    default: Option<RawJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemsKeywords {
    r#enum: Option<Vec<String>>,
    any_of: Option<Vec<TitledValue>>,
}

impl PrimitiveSchemaDefinition {
    fn from_keywords(k: FieldKeywords) -> Option<Self> {
        fn default<T: de::DeserializeOwned>(raw: Option<&RawJson>) -> Option<Option<T>> {
            // A default of another type makes the field unknown, so that it is passed on unchanged.
            raw.map_or(Some(None), |raw| raw.decode().ok().map(Some))
        }
        let (title, description) = (k.title, k.description);
        Some(match (k.r#type.as_str(), k.r#enum, k.one_of) {
            ("string", Some(values), None) => {
                let legacy_names = k.enum_names.is_some();
                let mut names = k.enum_names.unwrap_or_default().into_iter();
                let options =
                    values.into_iter().map(|value| EnumOption { value, title: names.next() }).collect();
                let default = default(k.default.as_ref())?;
                Self::SingleSelect(SingleSelectSchema { title, description, options, legacy_names, default })
            }
            ("string", None, Some(options)) => {
                let options = options.into_iter().map(EnumOption::from).collect();
                let default = default(k.default.as_ref())?;
                let legacy_names = false;
                Self::SingleSelect(SingleSelectSchema { title, description, options, legacy_names, default })
            }
            ("string", None, None) => Self::String(StringSchema {
                title,
                description,
                min_length: k.min_length,
                max_length: k.max_length,
                format: k.format,
                default: default(k.default.as_ref())?,
            }),
            (kind @ ("number" | "integer"), None, None) => Self::Number(NumberSchema {
                integer: kind == "integer",
                title,
                description,
                minimum: k.minimum,
                maximum: k.maximum,
                default: default(k.default.as_ref())?,
            }),
            ("boolean", None, None) => {
                Self::Boolean(BooleanSchema { title, description, default: default(k.default.as_ref())? })
            }
            ("array", None, None) => {
                let options = match k.items? {
                    ItemsKeywords { r#enum: Some(values), any_of: None } => {
                        values.into_iter().map(EnumOption::new).collect()
                    }
                    ItemsKeywords { r#enum: None, any_of: Some(options) } => {
                        options.into_iter().map(EnumOption::from).collect()
                    }
                    _ => return None,
                };
                Self::MultiSelect(MultiSelectSchema {
                    title,
                    description,
                    options,
                    min_items: k.min_items,
                    max_items: k.max_items,
                    default: default(k.default.as_ref())?,
                })
            }
            _ => return None,
        })
    }
}

impl<'de> Deserialize<'de> for PrimitiveSchemaDefinition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawJson::deserialize(deserializer)?;
        let known = raw.decode::<FieldKeywords>().ok().and_then(Self::from_keywords);
        Ok(known.unwrap_or(Self::Unknown(raw)))
    }
}

impl Serialize for PrimitiveSchemaDefinition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn some<M: SerializeMap, T: Serialize>(
            map: &mut M,
            key: &str,
            value: Option<&T>,
        ) -> Result<(), M::Error> {
            value.map_or(Ok(()), |value| map.serialize_entry(key, value))
        }
        let (kind, title, description) = match self {
            Self::String(s) => ("string", &s.title, &s.description),
            Self::Number(n) => (if n.integer { "integer" } else { "number" }, &n.title, &n.description),
            Self::Boolean(b) => ("boolean", &b.title, &b.description),
            Self::SingleSelect(s) => ("string", &s.title, &s.description),
            Self::MultiSelect(m) => ("array", &m.title, &m.description),
            Self::Unknown(raw) => return raw.serialize(serializer),
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", kind)?;
        some(&mut map, "title", title.as_ref())?;
        some(&mut map, "description", description.as_ref())?;
        match self {
            Self::String(s) => {
                some(&mut map, "minLength", s.min_length.as_ref())?;
                some(&mut map, "maxLength", s.max_length.as_ref())?;
                some(&mut map, "format", s.format.as_ref())?;
                some(&mut map, "default", s.default.as_ref())?;
            }
            Self::Number(n) => {
                some(&mut map, "minimum", n.minimum.as_ref())?;
                some(&mut map, "maximum", n.maximum.as_ref())?;
                some(&mut map, "default", n.default.as_ref())?;
            }
            Self::Boolean(b) => some(&mut map, "default", b.default.as_ref())?,
            Self::SingleSelect(s) => {
                let titled = s.options.iter().any(|o| o.title.is_some());
                if titled && !s.legacy_names {
                    map.serialize_entry("oneOf", &titles(&s.options))?;
                } else {
                    map.serialize_entry("enum", &values(&s.options))?;
                    if titled {
                        // Names belong to values by position, so a value without a name must not be left out.
                        let names: Vec<&str> =
                            s.options.iter().map(|o| o.title.as_deref().unwrap_or(&o.value)).collect();
                        map.serialize_entry("enumNames", &names)?;
                    }
                }
                some(&mut map, "default", s.default.as_ref())?;
            }
            Self::MultiSelect(m) => {
                if m.options.iter().any(|o| o.title.is_some()) {
                    map.serialize_entry("items", &TitledItems { any_of: titles(&m.options) })?;
                } else {
                    map.serialize_entry(
                        "items",
                        &UntitledItems { r#type: "string", r#enum: values(&m.options) },
                    )?;
                }
                some(&mut map, "minItems", m.min_items.as_ref())?;
                some(&mut map, "maxItems", m.max_items.as_ref())?;
                some(&mut map, "default", m.default.as_ref())?;
            }
            Self::Unknown(_) => {}
        }
        map.end()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TitledItems<'a> {
    any_of: Vec<TitledRef<'a>>,
}

#[derive(Serialize)]
struct UntitledItems<'a> {
    r#type: &'static str,
    r#enum: Vec<&'a str>,
}

#[derive(Serialize)]
struct TitledRef<'a> {
    #[serde(rename = "const")]
    value: &'a str,
    title: &'a str,
}

fn titles(options: &[EnumOption]) -> Vec<TitledRef<'_>> {
    options
        .iter()
        .map(|o| TitledRef { value: &o.value, title: o.title.as_deref().unwrap_or(&o.value) })
        .collect()
}

fn values(options: &[EnumOption]) -> Vec<&str> {
    options.iter().map(|o| o.value.as_str()).collect()
}
