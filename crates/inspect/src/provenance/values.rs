//! Values of arguments that can show where a call comes from.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

/// Maximum number of values of one call. A call with more is treated as if some value came from an untrusted text.
pub const MAX_VALUES: usize = 512;

/// Maximum length of a text that is one value as a whole, in bytes.
const MAX_WHOLE: usize = 200;

/// Length of the beginning of a longer text that is a value, in bytes.
const LONG_TEXT_BEGINNING: usize = 120;

/// Maximum length and number of words of a short text.
const SHORT_TEXT: (usize, usize) = (64, 5);

/// Minimum length of a short text, and of one that is a single word without digits.
const MIN_SHORT: usize = 3;
const MIN_WORD: usize = 8;

/// Minimum length of an identifier that counts as private.
const MIN_PRIVATE_IDENTIFIER: usize = 7;

/// Maximum depth of arguments that are looked into.
const MAX_DEPTH: usize = 64;

/// Kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValueKind {
    /// An e-mail address.
    Email,
    /// A URL.
    Url,
    /// A host name.
    Host,
    /// An international bank account number.
    Iban,
    /// A telephone or card number.
    Phone,
    /// A path with two or more parts.
    Path,
    /// A number.
    Number,
    /// A text of few words.
    Short,
    /// A longer text, or its beginning.
    Text,
    /// A word with a digit, of at least seven characters. It is compared with private results only.
    Identifier,
}

/// A value of a call's arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ArgumentValue {
    /// JSON pointer of the string in the arguments (RFC 6901).
    pub pointer: String,
    /// Name of the argument at the top.
    pub argument: String,
    /// Name of the innermost field.
    pub field: String,
    /// Kind of the value.
    pub kind: ValueKind,
    /// The value as it stands in the arguments.
    pub text: String,
    /// True if the value is the whole string.
    pub is_whole: bool,
}

impl ArgumentValue {
    /// Returns true if the value can show that a call follows an untrusted text. Dates, short numbers and single short
    /// words stand in too many texts.
    #[must_use]
    pub fn is_telling(&self) -> bool {
        let text = self.text.trim();
        match self.kind {
            ValueKind::Number | ValueKind::Identifier => false,
            ValueKind::Short => {
                let is_word = text.chars().all(char::is_alphabetic);
                let length = text.chars().count();
                !is_date(text) && length >= if is_word { MIN_WORD } else { MIN_SHORT }
            }
            _ => !is_date(text),
        }
    }

    /// Returns true if the value names somebody or something by its form alone.
    #[must_use]
    pub fn is_target(&self) -> bool {
        matches!(
            self.kind,
            ValueKind::Email | ValueKind::Url | ValueKind::Iban | ValueKind::Phone | ValueKind::Path
        ) && !is_date(self.text.trim())
    }

    /// Returns true if the value, found in a private result, is an identifier or number of the person.
    #[must_use]
    pub fn is_private_kind(&self) -> bool {
        let has_digit = || self.text.chars().any(|character| character.is_ascii_digit());
        match self.kind {
            ValueKind::Identifier => !is_date(&self.text),
            ValueKind::Iban | ValueKind::Phone | ValueKind::Path | ValueKind::Short => {
                self.text.chars().count() >= MIN_PRIVATE_IDENTIFIER
                    && has_digit()
                    && !is_date(self.text.trim())
            }
            _ => false,
        }
    }
}

fn pattern(text: &str) -> Option<Regex> {
    Regex::new(text).ok()
}

static EMAIL: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"));
static URL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(r#"(?i)(?:\b[a-z][a-z0-9+.-]{1,20}://|\bwww\.|\bmailto:|\bdata:)[^\s"'<>)\]]+"#)
});
static IBAN: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"\b[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]{4}){2,7}(?:[ -]?[A-Za-z0-9]{1,3})?\b"));
static HOST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(r"(?i)\b(?:[\p{L}\d](?:[\p{L}\d-]*[\p{L}\d])?\.)+(?:\p{L}{2,18}|xn--[a-z0-9-]+)\b")
});
static PHONE: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"\+?\d[\d ()/-]{7,}\d"));
static PATH: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w.-]+(?:[/\\][\w.-]+)+"));
static IDENTIFIER: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"[\w-]{7,}"));
static DATE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"^(?:\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?|\d\d?:\d\d(?::\d\d)?|\d{1,2}[./]\d{1,2}[./]\d{2,4})$",
    )
});

/// Endings of file names that look like a host.
const FILE_ENDINGS: [&str; 24] = [
    "txt", "md", "pdf", "csv", "json", "xml", "yaml", "yml", "toml", "html", "htm", "png", "jpg", "jpeg",
    "gif", "svg", "docx", "xlsx", "pptx", "doc", "xls", "log", "zip", "rs",
];

/// Returns true for a date, a time, or both.
fn is_date(text: &str) -> bool {
    DATE.as_ref().is_some_and(|date| date.is_match(text))
}

/// Returns the values of arguments. Values that repeat are returned once.
#[must_use]
pub fn argument_values(arguments: &Map<String, Value>) -> Vec<ArgumentValue> {
    let mut found = ValueCollector::default();
    for (name, value) in arguments {
        let at = ValuePlace { pointer: String::new(), whole: "", argument: name, field: name };
        found.add(&at.member(name, name), value, 0);
    }
    found.values
}

/// Place of a value in the arguments.
struct ValuePlace<'a> {
    pointer: String,
    /// The string that the values are from, without the white space around it.
    whole: &'a str,
    argument: &'a str,
    field: &'a str,
}

impl<'a> ValuePlace<'a> {
    fn member(&self, segment: &str, field: &'a str) -> Self {
        let segment = segment.replace('~', "~0").replace('/', "~1");
        Self { pointer: format!("{}/{segment}", self.pointer), whole: "", argument: self.argument, field }
    }
}

#[derive(Default)]
struct ValueCollector {
    values: Vec<ArgumentValue>,
}

impl ValueCollector {
    fn add(&mut self, at: &ValuePlace<'_>, value: &Value, depth: usize) {
        match value {
            Value::Object(members) if depth < MAX_DEPTH => {
                for (key, value) in members {
                    let at = at.member(key, key);
                    // A key is chosen by the caller as well.
                    self.add_string(&at, key);
                    self.add(&at, value, depth + 1);
                }
            }
            Value::Array(items) if depth < MAX_DEPTH => {
                for (index, item) in items.iter().enumerate() {
                    self.add(&at.member(&index.to_string(), at.field), item, depth + 1);
                }
            }
            Value::Object(_) | Value::Array(_) => self.add_string(at, &value.to_string()),
            Value::String(text) => self.add_string(at, text),
            Value::Number(number) => self.push(at, ValueKind::Number, &number.to_string()),
            Value::Bool(_) | Value::Null => (),
        }
    }

    fn add_string(&mut self, at: &ValuePlace<'_>, text: &str) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let at = &ValuePlace { pointer: at.pointer.clone(), whole: text, ..*at };
        if text.parse::<f64>().is_ok() {
            self.push(at, ValueKind::Number, text);
        } else {
            self.add_tokens(at, text);
            let is_short = text.len() <= SHORT_TEXT.0 && text.split_whitespace().count() <= SHORT_TEXT.1;
            if is_short {
                self.push(at, ValueKind::Short, text);
            } else {
                self.push(at, ValueKind::Text, if text.len() <= MAX_WHOLE { text } else { beginning(text) });
            }
        }
        for word in all(&IDENTIFIER, text).filter(|word| word.contains(|ch: char| ch.is_ascii_digit())) {
            self.push(at, ValueKind::Identifier, word);
        }
    }

    /// Adds the values within a text.
    fn add_tokens(&mut self, at: &ValuePlace<'_>, text: &str) {
        let begin = self.values.len();
        let ended = |token: &'_ str| token.trim_end_matches(['.', ',', ';', ':', '!', '?']).to_owned();
        for (kind, tokens) in [
            (ValueKind::Email, &EMAIL),
            (ValueKind::Url, &URL),
            (ValueKind::Iban, &IBAN),
            (ValueKind::Path, &PATH),
        ] {
            all(tokens, text).for_each(|token| self.push(at, kind, &ended(token)));
        }
        let is_within = |values: &[ArgumentValue], kinds: &[ValueKind], token: &str| {
            values.iter().any(|value| kinds.contains(&value.kind) && value.text.contains(token))
        };
        for token in all(&HOST, text) {
            // The host of an address or a URL says no more than these.
            let known = self.values.get(begin..).unwrap_or_default();
            let is_file = token
                .rsplit_once('.')
                .is_some_and(|(_, ending)| FILE_ENDINGS.iter().any(|file| ending.eq_ignore_ascii_case(file)));
            let kinds = [ValueKind::Email, ValueKind::Url, ValueKind::Path];
            if !is_file && !is_within(known, &kinds, token) {
                self.push(at, ValueKind::Host, token);
            }
        }
        for token in all(&PHONE, text) {
            let known = self.values.get(begin..).unwrap_or_default();
            let is_date_like = token.get(..10).is_some_and(is_date);
            if !is_date_like && !is_within(known, &[ValueKind::Iban, ValueKind::Url, ValueKind::Path], token)
            {
                self.push(at, ValueKind::Phone, token);
            }
        }
    }

    fn push(&mut self, at: &ValuePlace<'_>, kind: ValueKind, text: &str) {
        if self.values.len() > MAX_VALUES || text.is_empty() {
            return;
        }
        let is_known = self.values.iter().any(|known| {
            known.kind == kind
                && known.text == text
                && known.argument == at.argument
                && known.field == at.field
        });
        if !is_known {
            self.values.push(ArgumentValue {
                pointer: at.pointer.clone(),
                argument: at.argument.to_owned(),
                field: at.field.to_owned(),
                kind,
                is_whole: text == at.whole,
                text: text.to_owned(),
            });
        }
    }
}

fn all<'t>(regex: &'static LazyLock<Option<Regex>>, text: &'t str) -> impl Iterator<Item = &'t str> {
    regex.as_ref().into_iter().flat_map(move |regex| regex.find_iter(text)).map(|found| found.as_str())
}

/// Returns the beginning of a long text.
fn beginning(text: &str) -> &str {
    let end = (0..=LONG_TEXT_BEGINNING).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(json: &str) -> Vec<(ValueKind, String)> {
        let arguments: Map<String, Value> = serde_json::from_str(json).unwrap();
        argument_values(&arguments).into_iter().map(|value| (value.kind, value.text)).collect()
    }

    fn has(json: &str, kind: ValueKind, text: &str) -> bool {
        values(json).iter().any(|value| *value == (kind, text.to_owned()))
    }

    #[test]
    fn addresses_stand_out_of_a_text() {
        let json = r#"{"body": "Write to eve@x.example, see https://y.example/a?b=c. Pay GB29 NWBK 6016 1331 9268 19 or call +41 79 123 45 67; it is in ~/a/b.txt at z.example"}"#;
        for (kind, text) in [
            (ValueKind::Email, "eve@x.example"),
            (ValueKind::Url, "https://y.example/a?b=c"),
            (ValueKind::Iban, "GB29 NWBK 6016 1331 9268 19"),
            (ValueKind::Phone, "+41 79 123 45 67"),
            (ValueKind::Path, "~/a/b.txt"),
            (ValueKind::Host, "z.example"),
        ] {
            assert!(has(json, kind, text), "{kind:?} {text}: {:?}", values(json));
        }
        assert!(!has(json, ValueKind::Host, "x.example"), "it says no more than the address");
        assert!(!has(json, ValueKind::Host, "b.txt"));
    }

    #[test]
    fn nested_values_and_keys_are_values() {
        let json = r#"{"a": {"eve@x.example": ["one two", 17]}}"#;
        assert!(has(json, ValueKind::Email, "eve@x.example"));
        assert!(has(json, ValueKind::Short, "one two"));
        assert!(has(json, ValueKind::Number, "17"));
        let arguments: Map<String, Value> = serde_json::from_str(r#"{"a": {"b/c": ["", "x y"]}}"#).unwrap();
        let short = argument_values(&arguments).into_iter().find(|value| value.text == "x y").unwrap();
        assert_eq!((&*short.pointer, &*short.argument, &*short.field), ("/a/b~1c/1", "a", "b/c"));
    }

    #[test]
    fn what_stands_everywhere_tells_nothing() {
        let telling = |text: &str| {
            let arguments = Map::from_iter([("a".to_owned(), Value::from(text))]);
            argument_values(&arguments).iter().any(ArgumentValue::is_telling)
        };
        for text in ["2024-05-15", "2024-05-15 10:00", "10:00", "general", "Charlie", "17", "3.50", "ab"] {
            assert!(!telling(text), "{text}");
        }
        for text in ["Riverside View", "secretive", "x17", "eve@x.example", "DE89370400440532013000"] {
            assert!(telling(text), "{text}");
        }
    }

    #[test]
    fn many_values_are_bounded() {
        let many: Vec<String> = (0..10_000).map(|number| format!("word{number} of")).collect();
        let arguments = Map::from_iter([("a".to_owned(), Value::from(many))]);
        assert_eq!(argument_values(&arguments).len(), MAX_VALUES + 1);
    }
}
