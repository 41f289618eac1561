//! Values that a person fills in: arguments, environment variables and headers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::read;

/// A value that a person fills in, or that is fixed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EntryInput {
    /// Text that explains the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Is true if the server does not work without it.
    #[serde(default, deserialize_with = "read::null_as_default", skip_serializing_if = "is_false")]
    pub is_required: bool,
    /// Is true for passwords and keys.
    #[serde(default, deserialize_with = "read::null_as_default", skip_serializing_if = "is_false")]
    pub is_secret: bool,
    /// Kind of the value.
    #[serde(default, deserialize_with = "read::null_as_default", skip_serializing_if = "is_string")]
    pub format: InputFormat,
    /// Fixed value, which is not asked for. `{name}` stands for a variable.
    #[serde(default, deserialize_with = "read::scalar_text", skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Value that is used without an answer.
    #[serde(default, deserialize_with = "read::scalar_text", skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Example of a value.
    #[serde(default, deserialize_with = "read::scalar_text", skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
    /// The permitted values, if there are any.
    #[serde(default, deserialize_with = "read::scalar_texts", skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Variables of `value`, by name.
    #[serde(default, deserialize_with = "read::null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, Self>,
    /// Fields that this version of the format does not define.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Kind of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum InputFormat {
    /// Any text.
    #[default]
    String,
    /// A decimal number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A file or a folder on this machine.
    Filepath,
    /// A kind that this version does not know. It is treated as text.
    #[serde(untagged)]
    Other(String),
}

/// An environment variable or an HTTP header.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KeyValueInput {
    /// Name of the variable or header.
    pub name: String,
    /// Its value.
    #[serde(flatten, deserialize_with = "read::flattened")]
    pub input: EntryInput,
}

/// An argument of a command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EntryArgument {
    /// Positional or named.
    #[serde(rename = "type")]
    pub kind: ArgumentKind,
    /// Name of a named argument, with its dashes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Identifier of a positional argument, which is not part of the command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_hint: Option<String>,
    /// Is true if the argument may be given several times.
    #[serde(default, deserialize_with = "read::null_as_default", skip_serializing_if = "is_false")]
    pub is_repeated: bool,
    /// Its value.
    #[serde(flatten, deserialize_with = "read::flattened")]
    pub input: EntryInput,
}

/// Kind of an argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ArgumentKind {
    /// A value in its place.
    Positional,
    /// A flag with a value.
    Named,
    /// A kind that this version does not know. Packages with such an argument cannot be started.
    #[serde(untagged)]
    Other(String),
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_string(format: &InputFormat) -> bool {
    *format == InputFormat::String
}
