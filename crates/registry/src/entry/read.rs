//! Lenient reading of entries, within limits.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{OFFICIAL_META, OfficialMeta, ServerEntry};

/// Maximum length of an entry, in bytes of JSON.
pub const MAX_ENTRY_BYTES: usize = 512 * 1024;
/// Maximum length of a text in an entry, in bytes.
const MAX_TEXT_BYTES: usize = 16 * 1024;
/// Maximum number of items of a list, and of members of an object.
const MAX_ITEMS: usize = 512;
/// Maximum number of values in an entry.
const MAX_VALUES: usize = 20_000;

/// Reasons an entry cannot be read. Texts of the entry are quoted with hidden characters escaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// It is not JSON.
    #[error("it is not valid JSON: {0}")]
    Json(String),
    /// A field is missing or has a wrong type.
    #[error("{path}: {what}")]
    Field {
        /// Path of the field, such as `packages[0].transport`.
        path: String,
        /// Description of the problem.
        what: String,
    },
    /// A field has its name of before 2025-09-16.
    #[error("{path}: this field was renamed on 2025-09-16; its name is `{new}`")]
    Renamed {
        /// Path of the field.
        path: String,
        /// Name that it has now.
        new: &'static str,
    },
    /// A limit is exceeded.
    #[error("{path}: more than {limit} {unit}")]
    TooLarge {
        /// Path of the value.
        path: String,
        /// The limit.
        limit: usize,
        /// Name of the counted items.
        unit: &'static str,
    },
}

/// Names of before 2025-09-16, and the present ones.
const RENAMED: &[(&str, &str)] = &[
    ("registry_name", "registryType"),
    ("registry_type", "registryType"),
    ("registry_base_url", "registryBaseUrl"),
    ("file_sha256", "fileSha256"),
    ("runtime_hint", "runtimeHint"),
    ("runtime_arguments", "runtimeArguments"),
    ("package_arguments", "packageArguments"),
    ("environment_variables", "environmentVariables"),
    ("transport_type", "type"),
    ("is_required", "isRequired"),
    ("is_secret", "isSecret"),
    ("is_repeated", "isRepeated"),
    ("value_hint", "valueHint"),
    ("website_url", "websiteUrl"),
    ("version_detail", "version"),
];

/// Reads JSON from bytes.
pub(crate) fn read_json(text: &[u8]) -> Result<Value, EntryError> {
    if text.len() > MAX_ENTRY_BYTES {
        return Err(EntryError::TooLarge {
            path: "the entry".to_owned(),
            limit: MAX_ENTRY_BYTES,
            unit: "bytes",
        });
    }
    serde_json::from_slice(text).map_err(|error| EntryError::Json(error.to_string()))
}

/// Splits a registry's answer into `server.json` and the registry's `_meta`. A bare `server.json` has no such `_meta`,
/// except from older sub-registries that put it inside.
pub(crate) fn split_response(value: Value) -> (Value, Option<Value>) {
    let is_wrapped = value.get("server").is_some_and(Value::is_object) && value.get("name").is_none();
    match value {
        Value::Object(mut members) if is_wrapped => {
            let meta = members.get_mut("_meta").and_then(|meta| meta.get_mut(OFFICIAL_META)).map(Value::take);
            (members.remove("server").unwrap_or_default(), meta)
        }
        other => {
            let meta = other.get("_meta").and_then(|meta| meta.get(OFFICIAL_META)).cloned();
            (other, meta)
        }
    }
}

pub(super) fn entry(value: Value) -> Result<ServerEntry, EntryError> {
    let (server, official) = split_response(value);
    check_limits(&server)?;
    check_names(&server, &mut String::new())?;
    let mut entry: ServerEntry = typed(server)?;
    entry.official = match official {
        Some(official) if !official.is_null() => {
            check_limits(&official)?;
            Some(typed::<OfficialMeta>(official)?)
        }
        _ => None,
    };
    Ok(entry)
}

/// Converts JSON to a type. The error names the field.
fn typed<T: DeserializeOwned>(value: Value) -> Result<T, EntryError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let (mut path, what) = (error.path().to_string(), error.inner().to_string());
        let inner = what.strip_prefix(FLATTENED_PATH).and_then(|rest| rest.split_once(FLATTENED_PATH));
        let what = match inner {
            Some((field, what)) => {
                path = format!("{path}.{field}");
                what
            }
            None => &what,
        };
        let path = if path == "." { "the entry".to_owned() } else { escape(&path) };
        EntryError::Field { path, what: escape(what) }
    })
}

/// Sign around the path in the error of a flattened struct.
const FLATTENED_PATH: char = '\u{1}';

/// Reads a struct whose members are among those of another one. Serde reads such members only after all others, when their
/// path is no longer known, so the error has it.
pub(super) fn flattened<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let members = Map::deserialize(deserializer)?;
    serde_path_to_error::deserialize(Value::Object(members)).map_err(|error| {
        let path = error.path().to_string();
        let text = error.inner();
        serde::de::Error::custom(match path.as_str() {
            "." => text.to_string(),
            path => format!("{FLATTENED_PATH}{path}{FLATTENED_PATH}{text}"),
        })
    })
}

fn check_limits(value: &Value) -> Result<(), EntryError> {
    let mut left = MAX_VALUES;
    check_value(value, &mut String::new(), &mut left)
}

fn check_value(value: &Value, path: &mut String, left: &mut usize) -> Result<(), EntryError> {
    let too_large = |path: &str, limit, unit| {
        let path = if path.is_empty() { "the entry".to_owned() } else { escape(path) };
        Err(EntryError::TooLarge { path, limit, unit })
    };
    match left.checked_sub(1) {
        Some(rest) => *left = rest,
        None => return too_large("the entry", MAX_VALUES, "values"),
    }
    match value {
        Value::String(text) if text.len() > MAX_TEXT_BYTES => too_large(path, MAX_TEXT_BYTES, "bytes"),
        Value::Array(items) if items.len() > MAX_ITEMS => too_large(path, MAX_ITEMS, "items"),
        Value::Object(members) if members.len() > MAX_ITEMS => too_large(path, MAX_ITEMS, "members"),
        Value::Object(members) if members.keys().any(|key| key.len() > MAX_TEXT_BYTES) => {
            too_large(path, MAX_TEXT_BYTES, "bytes of a name")
        }
        Value::Array(_) | Value::Object(_) => {
            for_each_child(value, path, &mut |child, path| check_value(child, path, left))
        }
        _ => Ok(()),
    }
}

/// Refuses old names, except in data of others.
fn check_names(value: &Value, path: &mut String) -> Result<(), EntryError> {
    if let Value::Object(members) = value {
        // A variable may be called as it likes.
        let is_free = path.ends_with(".variables");
        for (old, new) in RENAMED {
            if !is_free && members.contains_key(*old) {
                let dot = if path.is_empty() { "" } else { "." };
                return Err(EntryError::Renamed { path: format!("{}{dot}{old}", escape(path)), new });
            }
        }
    }
    for_each_child(value, path, &mut |child, path| {
        if path.ends_with("_meta") { Ok(()) } else { check_names(child, path) }
    })
}

fn for_each_child(
    value: &Value,
    path: &mut String,
    visit: &mut dyn FnMut(&Value, &mut String) -> Result<(), EntryError>,
) -> Result<(), EntryError> {
    let length = path.len();
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                visit(item, path)?;
                path.truncate(length);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                if length > 0 {
                    path.push('.');
                }
                path.push_str(name);
                visit(member, path)?;
                path.truncate(length);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Makes hidden characters of a text from an entry visible, and shortens it.
pub(crate) fn escape(text: &str) -> String {
    const MAX_QUOTED: usize = 300;

    let mut safe = String::new();
    for letter in text.chars().take(MAX_QUOTED) {
        if letter.is_control() || hospes_policy::is_hidden(letter) {
            safe.extend(letter.escape_default());
        } else {
            safe.push(letter);
        }
    }
    if text.chars().nth(MAX_QUOTED).is_some() {
        safe.push('…');
    }
    safe
}

/// Reads `null` as the default, because registries written in Go send it for empty lists.
pub(super) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a text, or a number or truth value as its text, because publishers write `"default": 8080`.
pub(super) fn scalar_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    scalar(Value::deserialize(deserializer)?)
}

pub(super) fn scalar_texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let items: Option<Vec<Value>> = Option::deserialize(deserializer)?;
    let texts = items.unwrap_or_default().into_iter().map(scalar::<D::Error>);
    Ok(texts.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

fn scalar<E: serde::de::Error>(value: Value) -> Result<Option<String>, E> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        Value::Bool(truth) => Ok(Some(truth.to_string())),
        Value::Number(number) => Ok(Some(number.to_string())),
        Value::Array(_) => Err(E::custom("expected a text, found a list")),
        Value::Object(_) => Err(E::custom("expected a text, found an object")),
    }
}

/// Reads a time. A text that is none is ignored, because no decision depends on the time alone.
pub(super) fn lenient_time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    let text: Option<String> = Option::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()))
}
