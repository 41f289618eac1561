//! Events of a running host as lines: in words for people, as `key=value` where nobody looks at a terminal, or as JSON.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::output::{self, CliOutput, escape_hidden};

/// Form of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventForm {
    /// Words, for a terminal.
    People,
    /// `TIME event=NAME key=value …`
    KeyValue,
    /// One JSON object a line.
    Json,
}

/// Writer of events on standard error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventWriter {
    output: CliOutput,
    form: EventForm,
}

impl EventWriter {
    /// Selects the form: JSON if it is asked for, words on a terminal, and otherwise `key=value`.
    pub(crate) fn new(output: CliOutput) -> Self {
        let form = match output.json {
            true => EventForm::Json,
            false if output::is_seen() => EventForm::People,
            false => EventForm::KeyValue,
        };
        Self { output, form }
    }

    /// Returns true if events are printed in words.
    pub(crate) fn is_for_people(self) -> bool {
        self.form == EventForm::People
    }

    /// Prints an event whose words depend on the width of the terminal, as of [`CliOutput::say_broken`].
    pub(crate) fn broken_event(
        self,
        name: &str,
        fields: &[(&str, Value)],
        words: impl Fn(Option<usize>) -> String,
    ) {
        match self.form {
            EventForm::People => self.output.say_broken(words),
            _ => self.event(name, fields, String::new),
        }
    }

    /// Prints an event. Fields without a value are left out.
    pub(crate) fn event(self, name: &str, fields: &[(&str, Value)], words: impl FnOnce() -> String) {
        let now = Timestamp::now();
        match self.form {
            EventForm::People => self.output.say(words()),
            EventForm::KeyValue => self.output.say(key_value_line(now, name, fields)),
            EventForm::Json => self.output.say(json_line(now, name, fields)),
        }
    }
}

fn time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn key_value_line(now: Timestamp, name: &str, fields: &[(&str, Value)]) -> String {
    let mut line = format!("{} event={name}", time(now));
    for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        line.push_str(&format!(" {key}={}", bare_or_quoted(value)));
    }
    line
}

/// Returns a value without quotes if it needs none. Quoted ones are JSON strings with hidden characters escaped, so that
/// a line stays a line.
fn bare_or_quoted(value: &Value) -> String {
    let is_bare = |text: &str| {
        let plain = |letter: char| letter.is_ascii_graphic() && !matches!(letter, '"' | '\\' | '=' | '\'');
        !text.is_empty() && text.chars().all(plain)
    };
    match value.as_str() {
        Some(text) if is_bare(text) => text.to_owned(),
        _ => escape_hidden(&value.to_string()),
    }
}

fn json_line(now: Timestamp, name: &str, fields: &[(&str, Value)]) -> String {
    let mut object = Map::new();
    object.insert("time".to_owned(), time(now).into());
    object.insert("event".to_owned(), name.into());
    let present = fields.iter().filter(|(_, value)| !value.is_null());
    object.extend(present.map(|(key, value)| ((*key).to_owned(), value.clone())));
    escape_hidden(&Value::Object(object).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_is_in_it() {
        let at: Timestamp = "2026-11-25T14:02:11.5Z".parse().unwrap();
        let fields = [
            ("server", json!("mail")),
            ("tools", json!(3)),
            ("hint", Value::Null),
            ("problem", json!("two\nlines \u{1b}[2J\u{202e} \"quoted\"")),
        ];
        assert_eq!(
            key_value_line(at, "retry", &fields),
            r#"2026-11-25T14:02:11Z event=retry server=mail tools=3 problem="two\nlines \u001b[2J\u202e \"quoted\"""#
        );
        let line = json_line(at, "retry", &fields);
        assert!(!line.contains(['\n', '\u{1b}', '\u{202e}']), "{line}");
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["event"], "retry");
        assert_eq!(read["problem"], fields[3].1);
        assert!(read.get("hint").is_none());
        // What could be mistaken for another field is quoted.
        assert_eq!(bare_or_quoted(&json!("a b=c")), "\"a b=c\"");
        assert_eq!(bare_or_quoted(&json!("a=c")), "\"a=c\"");
        assert_eq!(bare_or_quoted(&json!("")), "\"\"");
    }
}
