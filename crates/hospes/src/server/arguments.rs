//! The rules for a tool's arguments: decode straight into the type where that is enough, check against the schema
//! where it is not, and explain every mistake.

use std::cell::Cell;
use std::fmt::{self, Write as _};

use hospes_model::RawJson;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::Value;

use crate::error::Error;
use crate::server::mistakes::{MAX_REPORTED_MISTAKES, ToolArgumentMistake};
use crate::server::suggest::did_you_mean;
#[cfg(feature = "validate")]
use crate::server::validate::SchemaValidator;

/// Rules for the arguments of one tool.
pub(crate) struct ArgumentRules {
    pub(crate) tool: Box<str>,
    /// The input schema; always an object.
    #[cfg(feature = "validate")]
    pub(crate) schema: Value,
    /// The only arguments there are; none where the schema is open.
    pub(crate) known: Option<Box<[Box<str>]>>,
    /// Validator of schemas that need more than the checks of decoding.
    #[cfg(feature = "validate")]
    pub(crate) validator: Option<SchemaValidator>,
    /// Validator of the other schemas, compiled once there is a mistake to explain.
    #[cfg(feature = "validate")]
    pub(crate) explainer: std::sync::OnceLock<Option<SchemaValidator>>,
}

impl ArgumentRules {
    /// Decodes the arguments into `T`.
    ///
    /// # Errors
    /// Mistakes in the arguments, described so that a model can correct them (TOOL-18).
    pub(crate) fn decode<T: DeserializeOwned>(&self, raw: &RawJson) -> Result<T, Error> {
        // Checked already against the whole schema, if that is needed: what is left to find is what the type refuses.
        let unknown = Cell::new(false);
        let known = KnownMembers { names: self.known.as_deref(), unknown: &unknown };
        let mut json = serde_json::Deserializer::from_slice(raw.as_bytes());
        match T::deserialize(MemberWatcher { inner: &mut json, known, at: WatchPosition::Object }) {
            Ok(value) if !unknown.get() => Ok(value),
            // What is wrong is worked out only now: most arguments
            // are right, and a full check of each would be slow.
            _ => Err(explain_decode_failure::<T>(self, raw)),
        }
    }

    /// Checks what decoding into the type would not.
    ///
    /// # Errors
    /// Mistakes in the arguments, as in [`ArgumentRules::decode`].
    pub(crate) fn check(&self, raw: &RawJson) -> Result<(), Error> {
        #[cfg(feature = "validate")]
        if let Some(validator) = &self.validator {
            let fits = raw.to_value().is_ok_and(|value| validator.is_valid(&value));
            if !fits {
                return Err(explain_decode_failure::<IgnoredAny>(self, raw));
            }
        }
        let _ = raw;
        Ok(())
    }

    /// Refuses any argument at all.
    ///
    /// # Errors
    /// Mistakes in the arguments, as in [`ArgumentRules::decode`].
    pub(crate) fn check_empty(&self, raw: &RawJson) -> Result<(), Error> {
        // The usual case takes no deserializer.
        if raw.as_bytes() == b"{}" { Ok(()) } else { self.decode::<IgnoredAny>(raw).map(drop) }
    }
}

impl fmt::Debug for ArgumentRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArgumentRules").field("tool", &self.tool).finish_non_exhaustive()
    }
}

/// The error that tells what is wrong with `raw`, which has been refused.
fn explain_decode_failure<T: DeserializeOwned>(rules: &ArgumentRules, raw: &RawJson) -> Error {
    let mut mistakes = Vec::new();
    match raw.to_value() {
        Ok(value) => by_schema(rules, &value, &mut mistakes),
        Err(error) => mistakes.push(ToolArgumentMistake::at("", error.to_string())),
    }
    if mistakes.is_empty() {
        // The type asks for more than its schema says.
        let mut json = serde_json::Deserializer::from_slice(raw.as_bytes());
        let text = match serde_path_to_error::deserialize::<_, T>(&mut json) {
            Ok(_) => ToolArgumentMistake::at("", "does not match the tool's input type".to_owned()),
            Err(error) => {
                let path = error.path().to_string();
                let path = if path == "." { String::new() } else { path };
                ToolArgumentMistake { path, text: without_position(&error.into_inner().to_string()) }
            }
        };
        mistakes.push(text);
    }
    let mut text = format!("invalid arguments for {}:", rules.tool);
    for mistake in mistakes.iter().take(MAX_REPORTED_MISTAKES) {
        // Writing to a string cannot fail.
        let _ = if mistake.path.is_empty() {
            write!(text, "\n- {}", mistake.text)
        } else {
            write!(text, "\n- {}: {}", mistake.path, mistake.text)
        };
    }
    if mistakes.len() > MAX_REPORTED_MISTAKES {
        text.push_str("\n- and more");
    }
    Error::msg(text)
}

#[cfg(feature = "validate")]
fn by_schema(rules: &ArgumentRules, value: &Value, mistakes: &mut Vec<ToolArgumentMistake>) {
    let compiled = match &rules.validator {
        Some(validator) => Some(validator),
        None => rules.explainer.get_or_init(|| SchemaValidator::new(&rules.schema).ok()).as_ref(),
    };
    match compiled {
        Some(validator) => mistakes.extend(validator.find_mistakes(value, &rules.schema)),
        None => find_unknown_arguments(rules, value, mistakes),
    }
}

#[cfg(not(feature = "validate"))]
fn by_schema(rules: &ArgumentRules, value: &Value, mistakes: &mut Vec<ToolArgumentMistake>) {
    find_unknown_arguments(rules, value, mistakes);
}

/// The arguments that the tool does not have.
fn find_unknown_arguments(rules: &ArgumentRules, value: &Value, mistakes: &mut Vec<ToolArgumentMistake>) {
    let (Some(known), Value::Object(members)) = (&rules.known, value) else { return };
    for name in members.keys().filter(|name| known.iter().all(|known| **known != ***name)) {
        let meant = did_you_mean(name, known.iter().map(|known| &**known));
        mistakes.push(ToolArgumentMistake::at_member("", name, format!("unknown property{meant}")));
    }
}

/// Removes the position: lines and columns are meaningless to a model that wrote no text.
fn without_position(message: &str) -> String {
    message.split(" at line ").next().unwrap_or(message).to_owned()
}

/// The members that an object may have, and whether another one was met.
#[derive(Clone, Copy)]
struct KnownMembers<'k> {
    names: Option<&'k [Box<str>]>,
    unknown: &'k Cell<bool>,
}

impl KnownMembers<'_> {
    fn check_name(self, name: &str) {
        if self.names.is_some_and(|names| names.iter().all(|known| **known != *name)) {
            self.unknown.set(true);
        }
    }
}

/// A deserializer, a visitor, a map or a seed on the way to the names of the outermost object's members.
struct MemberWatcher<'k, T> {
    inner: T,
    known: KnownMembers<'k>,
    at: WatchPosition,
}

/// Kind of value that is being visited.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WatchPosition {
    /// The object whose members' names count.
    Object,
    /// One of these names.
    Name,
}

impl<'k, T> MemberWatcher<'k, T> {
    /// Wraps another value with the same state.
    fn with<U>(&self, inner: U) -> MemberWatcher<'k, U> {
        MemberWatcher { inner, known: self.known, at: self.at }
    }
}

macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => { $(
        fn $method<V: Visitor<'de>>(self $(, $argument: $type)*, visitor: V) -> Result<V::Value, D::Error> {
            let visitor = self.with(visitor);
            self.inner.$method($($argument,)* visitor)
        }
    )* };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for MemberWatcher<'_, D> {
    type Error = D::Error;

    forward! {
        deserialize_any(); deserialize_bool(); deserialize_i8(); deserialize_i16(); deserialize_i32();
        deserialize_i64(); deserialize_i128(); deserialize_u8(); deserialize_u16(); deserialize_u32();
        deserialize_u64(); deserialize_u128(); deserialize_f32(); deserialize_f64(); deserialize_char();
        deserialize_str(); deserialize_string(); deserialize_bytes(); deserialize_byte_buf();
        deserialize_option(); deserialize_unit(); deserialize_seq(); deserialize_map();
        deserialize_identifier();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_struct(name: &'static str, fields: &'static [&'static str]);
    }

    /// An enumeration's value is no object of members; its names are checked by the schema.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_enum(name, variants, visitor)
    }

    /// To look at the names, even what is ignored has to be walked through.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.with(visitor);
        match self.at {
            WatchPosition::Object => self.inner.deserialize_map(visitor),
            WatchPosition::Name => self.inner.deserialize_str(visitor),
        }
    }
}

macro_rules! visit {
    ($($method:ident($type:ty);)*) => { $(
        fn $method<E: de::Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        }
    )* };
}

macro_rules! visit_name {
    ($($method:ident($type:ty);)*) => { $(
        fn $method<E: de::Error>(self, name: $type) -> Result<V::Value, E> {
            if self.at == WatchPosition::Name {
                self.known.check_name(&name);
            }
            self.inner.$method(name)
        }
    )* };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for MemberWatcher<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    visit_name! { visit_str(&str); visit_borrowed_str(&'de str); visit_string(String); }
    visit! { visit_bool(bool); visit_i64(i64); visit_u64(u64); visit_f64(f64); }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let map = self.with(map);
        self.inner.visit_map(map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(seq)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        let deserializer = self.with(deserializer);
        self.inner.visit_newtype_struct(deserializer)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        let deserializer = self.with(deserializer);
        self.inner.visit_some(deserializer)
    }

    fn visit_unit<E: de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_none<E: de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for MemberWatcher<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let seed = MemberWatcher { inner: seed, known: self.known, at: WatchPosition::Name };
        self.inner.next_key_seed(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        self.inner.next_value_seed(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for MemberWatcher<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        let deserializer = self.with(deserializer);
        self.inner.deserialize(deserializer)
    }
}
