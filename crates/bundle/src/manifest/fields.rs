//! Typed access to the members of JSON objects. Each wrong member becomes an issue with its path.

use std::fmt;

use serde_json::{Map, Value};

use super::{MAX_ELEMENTS, MAX_ISSUES};

/// Part of a manifest that the format does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ManifestIssue {
    /// Path of the part, for example `server.mcp_config.args[0]`.
    pub path: String,
    /// Description of the problem, and the expected value.
    pub message: String,
}

impl fmt::Display for ManifestIssue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Collected issues.
#[derive(Debug)]
pub(super) struct Issues {
    pub(super) listed: Vec<ManifestIssue>,
    pub(super) more: usize,
    /// True if keys that the format does not have are accepted.
    pub(super) is_loose: bool,
    pub(super) unknown_keys: Vec<String>,
}

impl Issues {
    pub(super) fn new(is_loose: bool) -> Self {
        Self { listed: Vec::new(), more: 0, is_loose, unknown_keys: Vec::new() }
    }

    pub(super) fn add(&mut self, path: &str, message: impl Into<String>) {
        if self.listed.len() < MAX_ISSUES {
            self.listed.push(ManifestIssue { path: path.to_owned(), message: message.into() });
        } else {
            self.more += 1;
        }
    }

    fn expected(&mut self, path: &str, expected: &str, found: &Value) {
        self.add(path, format!("expected {expected}, found {}", kind_of(found)));
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Reads a value at a path. Returns `None` after it has added an issue.
pub(super) type ReadValue<'r, T> = &'r dyn Fn(&mut Issues, &str, &Value) -> Option<T>;

/// Members of one object. [`Fields::finish`] reports those that were not asked for.
pub(super) struct Fields<'i, 'v> {
    pub(super) issues: &'i mut Issues,
    path: String,
    map: &'v Map<String, Value>,
    known: Vec<&'static str>,
}

impl<'i, 'v> Fields<'i, 'v> {
    pub(super) fn of(issues: &'i mut Issues, path: &str, value: &'v Value) -> Option<Self> {
        let Value::Object(map) = value else {
            issues.expected(path, "an object", value);
            return None;
        };
        Some(Self { issues, path: path.to_owned(), map, known: Vec::new() })
    }

    pub(super) fn optional<T>(&mut self, key: &'static str, read: ReadValue<'_, T>) -> Option<T> {
        self.known.push(key);
        let value = self.map.get(key)?;
        read(self.issues, &member(&self.path, key), value)
    }

    pub(super) fn required<T>(&mut self, key: &'static str, read: ReadValue<'_, T>) -> Option<T> {
        if !self.map.contains_key(key) {
            self.issues.add(&member(&self.path, key), "missing, but required");
        }
        self.optional(key, read)
    }

    /// Returns the members that were not asked for.
    pub(super) fn others(&self) -> Vec<(&'v String, &'v Value)> {
        self.map.iter().filter(|(key, _)| !self.known.contains(&key.as_str())).collect()
    }

    /// Reports unknown keys.
    pub(super) fn finish(self) {
        for (key, _) in self.others() {
            let path = member(&self.path, key);
            if !self.issues.is_loose {
                self.issues.add(&path, "the format has no such key; remove it");
            } else if self.issues.unknown_keys.len() < MAX_ISSUES {
                self.issues.unknown_keys.push(path);
            }
        }
    }
}

/// Formats the path of a member. A key that is no plain word is quoted and escaped.
pub(crate) fn member(path: &str, key: &str) -> String {
    let is_plain =
        !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$'));
    match (path.is_empty(), is_plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{key:?}]"),
    }
}

pub(super) fn text(issues: &mut Issues, path: &str, value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        other => {
            issues.expected(path, "a text", other);
            None
        }
    }
}

/// Reads a text of a form. `form` says what is expected.
pub(super) fn text_of(
    issues: &mut Issues,
    path: &str,
    value: &Value,
    has_form: fn(&str) -> bool,
    form: &str,
) -> Option<String> {
    let text = text(issues, path, value)?;
    if !has_form(&text) {
        issues.add(path, format!("expected {form}, found {:?}", shortened(&text)));
        return None;
    }
    Some(text)
}

/// Shortens a foreign text for a message.
pub(super) fn shortened(text: &str) -> String {
    const MAX_SHOWN: usize = 60;

    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

pub(super) fn boolean(issues: &mut Issues, path: &str, value: &Value) -> Option<bool> {
    let found = value.as_bool();
    if found.is_none() {
        issues.expected(path, "true or false", value);
    }
    found
}

pub(super) fn number(issues: &mut Issues, path: &str, value: &Value) -> Option<f64> {
    let found = value.as_f64();
    if found.is_none() {
        issues.expected(path, "a number", value);
    }
    found
}

/// Reads one of a list of words.
pub(super) fn one_of<T: Copy>(
    issues: &mut Issues,
    path: &str,
    value: &Value,
    words: &[(&str, T)],
) -> Option<T> {
    let text = text(issues, path, value)?;
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
    if found.is_none() {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        issues.add(path, format!("expected one of {}, found {:?}", known.join(", "), shortened(&text)));
    }
    found
}

/// Reads an array. Returns the elements that could be read.
pub(super) fn list<T>(
    issues: &mut Issues,
    path: &str,
    value: &Value,
    read: ReadValue<'_, T>,
) -> Option<Vec<T>> {
    let Value::Array(elements) = value else {
        issues.expected(path, "an array", value);
        return None;
    };
    if is_too_long(issues, path, elements.len()) {
        return None;
    }
    let read = |(index, element)| read(issues, &format!("{path}[{index}]"), element);
    Some(elements.iter().enumerate().filter_map(read).collect())
}

fn is_too_long(issues: &mut Issues, path: &str, count: usize) -> bool {
    let is_too_long = count > MAX_ELEMENTS;
    if is_too_long {
        issues.add(path, format!("it has {count} elements; at most {MAX_ELEMENTS} are read"));
    }
    is_too_long
}

pub(super) fn texts(issues: &mut Issues, path: &str, value: &Value) -> Option<Vec<String>> {
    list(issues, path, value, &text)
}

/// Reads an object with any keys. Returns the members that could be read, in their order.
pub(super) fn record<T>(
    issues: &mut Issues,
    path: &str,
    value: &Value,
    read: ReadValue<'_, T>,
) -> Option<Vec<(String, T)>> {
    let Value::Object(members) = value else {
        issues.expected(path, "an object", value);
        return None;
    };
    if is_too_long(issues, path, members.len()) {
        return None;
    }
    let read =
        |(key, value): (&String, &Value)| Some((key.clone(), read(issues, &member(path, key), value)?));
    Some(members.iter().filter_map(read).collect())
}

pub(super) fn object(issues: &mut Issues, path: &str, value: &Value) -> Option<Map<String, Value>> {
    let Value::Object(members) = value else {
        issues.expected(path, "an object", value);
        return None;
    };
    Some(members.clone())
}
