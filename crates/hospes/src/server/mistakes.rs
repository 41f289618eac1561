//! Descriptions of mistakes in a tool's arguments, so that a model can correct them: each path, the expected value, and
//! the given one (TOOL-18).

use std::fmt::Write as _;

use hospes_model::RawJson;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Error;
use crate::server::arguments::ArgumentRules;
use crate::server::suggest::did_you_mean;

/// Maximum number of mistakes reported at once.
pub(crate) const MAX_REPORTED_MISTAKES: usize = 20;
/// The most characters of a wrong value that are shown.
const MAX_SHOWN_CHARS: usize = 80;

/// Something wrong, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ToolArgumentMistake {
    /// `a.b[0]`; empty for the whole.
    path: String,
    text: String,
}

impl ToolArgumentMistake {
    /// At a JSON pointer.
    pub(crate) fn at(pointer: &str, text: String) -> Self {
        Self { path: format_pointer(pointer), text }
    }

    /// At a member of what is at a JSON pointer.
    pub(crate) fn at_member(pointer: &str, name: &str, text: String) -> Self {
        let mut path = format_pointer(pointer);
        push_name(&mut path, name);
        Self { path, text }
    }

    /// A value that is not what was wanted.
    #[cfg(feature = "validate")]
    pub(crate) fn wrong(pointer: &str, wanted: &str, given: &Value) -> Self {
        Self::at(
            pointer,
            format!("expected {wanted}, got {}", shortened(&given.to_string(), MAX_SHOWN_CHARS)),
        )
    }
}

/// The error that tells what is wrong with `raw`, which has been refused.
pub(crate) fn explain_decode_failure<T: DeserializeOwned>(rules: &ArgumentRules, raw: &RawJson) -> Error {
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
        None => rules
            .explainer
            .get_or_init(|| crate::server::validate::SchemaValidator::new(&rules.schema).ok())
            .as_ref(),
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

/// At most `most` characters of `text`.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// `/a/0/b~1c` as `a[0].b/c`.
fn format_pointer(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        // In this order (RFC 6901, section 4): `~01` stands for `~1`, and not for `/`.
        let name = part.replace("~1", "/").replace("~0", "~");
        if !path.is_empty() && !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit()) {
            let _ = write!(path, "[{name}]");
        } else {
            push_name(&mut path, &name);
        }
    }
    path
}

fn push_name(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(&shortened(name, MAX_SHOWN_CHARS));
}

/// Removes the position: lines and columns are meaningless to a model that wrote no text.
fn without_position(message: &str) -> String {
    message.split(" at line ").next().unwrap_or(message).to_owned()
}
