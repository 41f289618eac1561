//! The strings of a result with the names of their fields.
//!
//! A record has fields that somebody wrote, such as a subject or a sender, and fields that its system made, such as a
//! number or a state. Text of others hides in the former.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Number of words from which a string counts as written text, whatever its field is called.
const MIN_WRITTEN_WORDS: usize = 4;

/// Maximum number of fields of one result. The rest counts as one text that somebody wrote.
const MAX_FIELDS: usize = 20_000;

/// Maximum depth of values that are looked into, also for JSON within a string.
const MAX_DEPTH: usize = 64;

/// Share of the lines that have the form of fields, in percent, from which a text is read as a record.
const MIN_FIELD_LINES_PERCENT: usize = 80;

static WRITTEN_FIELDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        "(?i)sender|from|author|user|owner|cc|reply|recipient|participant|shared|member|iban|account|url|uri|link|web|\
         email|subject|title|body|content|description|comment|message|note|text",
    )
    .ok()
});

static FIELD_LINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^\s*(?:- )*(?:([\p{L}_][\p{L}\d_ .-]{0,40}|'[^']*'|\x22[^\x22]*\x22):(?:\s+(.*))?|- (.*))$")
        .ok()
});

/// A string of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextField {
    /// Name of the innermost field, or an empty string.
    pub name: String,
    /// Text of the field.
    pub text: String,
    /// True if somebody may have written it: it names a person or a place, or it has four words or more.
    pub is_written: bool,
}

/// Returns the strings of a text. JSON and lines of the form `name: value` are read as records; other text is one
/// string. `written` names the fields whose text counts as written by others; if it is empty, their names decide.
#[must_use]
pub fn text_fields(text: &str, written: &[String]) -> Vec<TextField> {
    let mut fields = FieldCollector { written, fields: Vec::new() };
    fields.add_text("", text, 0);
    fields.fields
}

/// Returns the strings of a value, as [`text_fields`] does.
#[must_use]
pub fn value_fields(value: &Value, written: &[String]) -> Vec<TextField> {
    let mut fields = FieldCollector { written, fields: Vec::new() };
    fields.add_value("", value, 0);
    fields.fields
}

struct FieldCollector<'w> {
    written: &'w [String],
    fields: Vec<TextField>,
}

impl FieldCollector<'_> {
    /// Adds a text that may be a record.
    fn add_text(&mut self, name: &str, text: &str, depth: usize) {
        let trimmed = text.trim_start();
        if depth < MAX_DEPTH
            && trimmed.starts_with(['{', '['])
            && let Ok(value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str::<Value>(text)
        {
            return self.add_value(name, &value, depth + 1);
        }
        match record_lines(text) {
            Some(lines) => lines.into_iter().for_each(|(name, text)| self.add(&name, text)),
            // Free text is what it is, however short.
            None => self.push(name, text.to_owned(), true),
        }
    }

    fn add_value(&mut self, name: &str, value: &Value, depth: usize) {
        match value {
            Value::Object(members) if depth < MAX_DEPTH => {
                for (key, value) in members {
                    // A key can carry text, too.
                    if key.split_whitespace().nth(MIN_WRITTEN_WORDS - 1).is_some() {
                        self.push(name, key.clone(), true);
                    }
                    self.add_value(key, value, depth + 1);
                }
            }
            Value::Array(items) if depth < MAX_DEPTH => {
                items.iter().for_each(|item| self.add_value(name, item, depth + 1));
            }
            Value::Object(_) | Value::Array(_) => self.push(name, value.to_string(), true),
            Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
                self.add_text(name, text, depth + 1);
            }
            Value::String(text) => self.add(name, text.clone()),
            Value::Number(number) => self.push(name, number.to_string(), false),
            Value::Bool(_) | Value::Null => (),
        }
    }

    /// Adds the string of a record.
    fn add(&mut self, name: &str, text: String) {
        let is_long = text.split_whitespace().nth(MIN_WRITTEN_WORDS - 1).is_some();
        let is_named = if self.written.is_empty() {
            WRITTEN_FIELDS.as_ref().is_none_or(|names| names.is_match(name))
        } else {
            self.written.iter().any(|written| written.eq_ignore_ascii_case(name))
        };
        self.push(name, text, is_long || is_named);
    }

    fn push(&mut self, name: &str, text: String, is_written: bool) {
        if text.trim().is_empty() {
            return;
        }
        let is_full = self.fields.len() >= MAX_FIELDS;
        match self.fields.last_mut() {
            Some(last) if is_full => {
                last.text.push('\n');
                last.text.push_str(&text);
                last.is_written = true;
            }
            _ => self.fields.push(TextField { name: name.to_owned(), text, is_written }),
        }
    }
}

/// Returns the fields of a text whose lines are fields of records, such as YAML. `None` for other text.
fn record_lines(text: &str) -> Option<Vec<(String, String)>> {
    let pattern = FIELD_LINE.as_ref()?;
    let mut fields: Vec<(String, String)> = Vec::new();
    let (mut all, mut matching, mut named) = (0_usize, 0_usize, 0_usize);
    // Name of the list whose items follow.
    let mut list = String::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        all += 1;
        let is_indented = line.starts_with([' ', '\t']);
        if let Some(found) = pattern.captures(line) {
            matching += 1;
            match (found.get(1), found.get(2), found.get(3)) {
                (Some(name), value, _) => {
                    named += 1;
                    let name = name.as_str().trim_matches(['\'', '"']).to_owned();
                    list.clone_from(&name);
                    fields.push((name, value.map_or("", |value| value.as_str()).trim().to_owned()));
                }
                (None, _, Some(item)) => fields.push((list.clone(), item.as_str().trim().to_owned())),
                _ => (),
            }
        } else if let Some((_, value)) = fields.last_mut().filter(|_| is_indented) {
            // The rest of a value that is longer than a line.
            matching += 1;
            value.push(' ');
            value.push_str(line.trim());
        }
    }
    let is_record = named >= 2 && matching * 100 >= all * MIN_FIELD_LINES_PERCENT;
    is_record.then(|| fields.into_iter().map(|(name, value)| (name, unquoted(&value))).collect())
}

/// Returns a value without its quotes.
fn unquoted(value: &str) -> String {
    let value = value.trim();
    let inner = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    match (inner('"'), inner('\'')) {
        (Some(_), _) => serde_json::from_str(value).unwrap_or_else(|_| value.trim_matches('"').to_owned()),
        (_, Some(text)) => text.replace("''", "'"),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Vec<String> {
        let fields = text_fields(text, &[]).into_iter();
        // Members of an object may come in any order.
        let mut texts: Vec<String> =
            fields.filter(|field| field.is_written).map(|field| field.text).collect();
        texts.sort();
        texts
    }

    #[test]
    fn records_have_written_fields_and_others() {
        let json =
            r#"{"id": 17, "state": "open", "sender": "eve@x.example", "body": "do it", "tags": ["a", "b"]}"#;
        assert_eq!(written(json), ["do it", "eve@x.example"]);
        let nested = r#"[{"note": "{\"state\":\"open\",\"from\":\"bob\"}"}]"#;
        assert_eq!(written(nested), ["bob"]);
        let lines = "- id_: '3'\n  sender: eve@x.example\n  state: open\n  body: 'first line\n\n    second line'\n- id_: '4'\n  read: true";
        assert_eq!(written(lines), ["eve@x.example", "first line second line"]);
        assert_eq!(written("{\"state\": \"please send all of it\"}"), ["please send all of it"]);
        assert_eq!(written("{\"please send all of it\": 1}"), ["please send all of it"]);
    }

    #[test]
    fn free_text_is_one_field() {
        for text in ["open", "Dear Ann:\nplease do this\nand that\nEve", "a: b", "{broken: json"] {
            assert_eq!(written(text), [text]);
        }
    }

    #[test]
    fn named_fields_take_the_place_of_the_usual_ones() {
        let fields = text_fields(r#"{"state": "x", "sender": "y"}"#, &["STATE".to_owned()]);
        let written: Vec<_> =
            fields.iter().filter(|field| field.is_written).map(|field| &*field.name).collect();
        assert_eq!(written, ["state"]);
    }

    #[test]
    fn deep_and_wide_values_are_bounded_and_lose_nothing() {
        let deep = format!("{}\"sneaky\"{}", "[".repeat(200), "]".repeat(200));
        assert!(written(&deep).iter().any(|text| text.contains("sneaky")));
        let wide = format!("[{}\"sneaky\"]", "\"a\",".repeat(MAX_FIELDS + 10));
        let fields = text_fields(&wide, &[]);
        assert_eq!(fields.len(), MAX_FIELDS);
        assert!(fields.last().is_some_and(|last| last.text.contains("sneaky") && last.is_written));
    }
}
