//! Arguments that are strings on the wire (a prompt's, a URI template's), decoded into typed structs.

use std::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::server::mistakes::shortened;

/// Named strings, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateVariables(Vec<(Box<str>, VariableValue)>);

/// The value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "RFC 6570 has these three kinds of value")]
pub enum VariableValue {
    /// A string.
    Text(String),
    /// A list of strings.
    List(Vec<String>),
    /// Strings by name.
    Map(Vec<(String, String)>),
}

impl TemplateVariables {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&VariableValue> {
        self.0.iter().find(|(known, _)| **known == *name).map(|(_, value)| value)
    }

    /// The value of a variable that is a plain string.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            VariableValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Sets a variable.
    pub fn set(&mut self, name: impl Into<Box<str>>, value: impl Into<VariableValue>) {
        let (name, value) = (name.into(), value.into());
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// The names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &VariableValue)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Returns the number of variables.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no variables.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: Into<Box<str>>, V: Into<VariableValue>> FromIterator<(N, V)> for TemplateVariables {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let mut all = Self::new();
        for (name, value) in variables {
            all.set(name, value);
        }
        all
    }
}

impl From<&str> for VariableValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for VariableValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<String>> for VariableValue {
    fn from(items: Vec<String>) -> Self {
        Self::List(items)
    }
}

impl Serialize for TemplateVariables {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl Serialize for VariableValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

/// Decodes the variables into `T`.
///
/// # Errors
/// Which one does not fit, what was wanted and what was given.
pub(crate) fn decode_variables<T: DeserializeOwned>(
    variables: &TemplateVariables,
) -> Result<T, VariableError> {
    let members = variables.0.iter().map(|(name, value)| (&**name, VariableDeserializer { name, value }));
    T::deserialize(VariablesDeserializer(MapDeserializer::new(members), variables.is_empty()))
}

/// A variable that does not fit.
#[derive(Debug)]
pub(crate) struct VariableError(String);

impl VariableError {
    fn of(name: &str, wanted: impl fmt::Display, given: &str) -> Self {
        Self(format!("{name}: expected {wanted}, got {:?}", shortened(given, 80)))
    }
}

impl fmt::Display for VariableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for VariableError {}

impl de::Error for VariableError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// All the variables.
struct VariablesDeserializer<M>(M, bool);

impl<'de, M> Deserializer<'de> for VariablesDeserializer<M>
where
    M: Deserializer<'de, Error = VariableError>,
{
    type Error = VariableError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, VariableError> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, VariableError> {
        if self.1 { visitor.visit_unit() } else { self.0.deserialize_any(visitor) }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, VariableError> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, VariableError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, VariableError> {
        visitor.visit_some(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

/// One variable.
#[derive(Clone, Copy)]
struct VariableDeserializer<'v> {
    name: &'v str,
    value: &'v VariableValue,
}

impl<'de> IntoDeserializer<'de, VariableError> for VariableDeserializer<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl VariableDeserializer<'_> {
    fn text(&self, wanted: &str) -> Result<&str, VariableError> {
        match self.value {
            VariableValue::Text(text) => Ok(text),
            VariableValue::List(items) => Err(VariableError::of(self.name, wanted, &items.join(","))),
            VariableValue::Map(_) => Err(VariableError::of(self.name, wanted, "several values")),
        }
    }

    /// The string read as JSON: what is neither a string, a number nor a list can only have been written so.
    fn json(&self, wanted: &str) -> Result<serde_json::Value, VariableError> {
        let text = self.text(wanted)?;
        serde_json::from_str(text)
            .map_err(|_| VariableError::of(self.name, format_args!("{wanted}, as JSON"), text))
    }

    fn misread(&self, error: &serde_json::Error) -> VariableError {
        VariableError(format!("{}: {error}", self.name))
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident $type:ty, $wanted:literal;)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, VariableError> {
            let text = self.text($wanted)?;
            match text.trim().parse::<$type>() {
                Ok(value) => visitor.$visit(value),
                Err(_) => Err(VariableError::of(self.name, $wanted, text)),
            }
        }
    )* };
}

impl<'de> Deserializer<'de> for VariableDeserializer<'_> {
    type Error = VariableError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, VariableError> {
        match self.value {
            VariableValue::Text(text) => visitor.visit_str(text),
            VariableValue::List(_) => self.deserialize_seq(visitor),
            VariableValue::Map(_) => self.deserialize_map(visitor),
        }
    }

    parsed! {
        deserialize_bool visit_bool bool, "true or false";
        deserialize_i8 visit_i8 i8, "a whole number from -128 to 127";
        deserialize_i16 visit_i16 i16, "a whole number from -32768 to 32767";
        deserialize_i32 visit_i32 i32, "a whole number";
        deserialize_i64 visit_i64 i64, "a whole number";
        deserialize_i128 visit_i128 i128, "a whole number";
        deserialize_u8 visit_u8 u8, "a whole number from 0 to 255";
        deserialize_u16 visit_u16 u16, "a whole number from 0 to 65535";
        deserialize_u32 visit_u32 u32, "a whole number, 0 or more";
        deserialize_u64 visit_u64 u64, "a whole number, 0 or more";
        deserialize_u128 visit_u128 u128, "a whole number, 0 or more";
        deserialize_f32 visit_f32 f32, "a number";
        deserialize_f64 visit_f64 f64, "a number";
        deserialize_char visit_char char, "one character";
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, VariableError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, VariableError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, VariableError> {
        let text = self.text("a keyword")?;
        if !variants.contains(&text) {
            let wanted = format!("one of {}", variants.join(", "));
            return Err(VariableError::of(self.name, wanted, text));
        }
        visitor.visit_enum(text.into_deserializer())
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, VariableError> {
        match self.value {
            VariableValue::List(items) => {
                let items: Vec<VariableValue> =
                    items.iter().map(|item| VariableValue::Text(item.clone())).collect();
                let each = items.iter().map(|value| VariableDeserializer { name: self.name, value });
                visitor.visit_seq(SeqDeserializer::new(each))
            }
            // A prompt's arguments are strings (PRM-05), so that a list comes as JSON.
            VariableValue::Text(text) if text.trim_start().starts_with('[') => {
                self.json("a list")?.deserialize_seq(visitor).map_err(|error| self.misread(&error))
            }
            // In a URI a list of one item looks like a single value (RFC 6570).
            VariableValue::Text(_) => visitor.visit_seq(SeqDeserializer::new(std::iter::once(self))),
            VariableValue::Map(_) => Err(VariableError::of(self.name, "a list", "several values by name")),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, VariableError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, VariableError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, VariableError> {
        match self.value {
            VariableValue::Map(members) => {
                let members: Vec<(&str, VariableValue)> = members
                    .iter()
                    .map(|(name, value)| (name.as_str(), VariableValue::Text(value.clone())))
                    .collect();
                let each = members.iter().map(|(name, value)| (*name, VariableDeserializer { name, value }));
                visitor.visit_map(MapDeserializer::new(each))
            }
            _ => self.json("an object")?.deserialize_map(visitor).map_err(|error| self.misread(&error)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, VariableError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, VariableError> {
        visitor.visit_unit()
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, VariableError> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, VariableError> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! { str string bytes byte_buf identifier }
}
