//! The kind of content that a call carries, recognized by the names of its arguments: an edit, a file, a message, a
//! command.

use serde::Serialize;
use serde_json::{Map, Value};

/// Names of arguments with the path of a file.
const PATH_NAMES: &[&str] = &["path", "file_path", "filepath", "file", "filename", "target_file"];
/// Names of arguments with the whole text of a file.
const TEXT_NAMES: &[&str] = &["content", "contents", "text", "file_text", "data"];
/// Pairs of names of arguments under which tools take the replaced and the new text of an edit.
pub const EDIT_NAMES: &[(&str, &str)] = &[
    ("old_text", "new_text"),
    ("oldText", "newText"),
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    ("oldString", "newString"),
    ("old", "new"),
    ("before", "after"),
    ("search", "replace"),
    ("find", "replace"),
];
/// Names of arguments with the recipients of a message.
const RECIPIENT_NAMES: &[&str] = &["to", "recipient", "recipients", "cc", "bcc"];
/// Names of arguments with the subject of a message.
const SUBJECT_NAMES: &[&str] = &["subject", "title"];
/// Names of arguments with the text of a message.
const BODY_NAMES: &[&str] = &["body", "message", "text", "content"];
/// Names of arguments with a command line.
const COMMAND_NAMES: &[&str] = &["command", "cmd", "argv", "command_line"];

/// Content of a call. Names are those of its arguments, so that a viewer shows the arguments themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallContent {
    /// Texts that replace others.
    Edit {
        /// Argument with the path of the file, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// Number of added lines.
        added: usize,
        /// Number of removed lines.
        removed: usize,
    },
    /// The whole text of a file.
    Write {
        /// Argument with the path of the file.
        path: String,
        /// Argument with the text.
        text: String,
        /// Size of the text in bytes.
        bytes: usize,
        /// Number of lines of the text.
        lines: usize,
    },
    /// A message to somebody.
    Message {
        /// Arguments with the recipients.
        to: Vec<String>,
        /// Argument with the subject.
        #[serde(skip_serializing_if = "Option::is_none")]
        subject: Option<String>,
        /// Argument with the text.
        body: String,
        /// Length of the text in characters.
        characters: usize,
    },
    /// A command line.
    Command {
        /// Argument with the command: a text, or a list of words.
        command: String,
        /// Argument with a list of further words.
        #[serde(skip_serializing_if = "Option::is_none")]
        arguments: Option<String>,
    },
    /// Any other content.
    #[default]
    Other,
}

impl CallContent {
    /// Recognizes the content of a call by its arguments.
    #[must_use]
    pub fn of(arguments: &Map<String, Value>) -> Self {
        edit(arguments)
            .or_else(|| write(arguments))
            .or_else(|| message(arguments))
            .or_else(|| command(arguments))
            .unwrap_or_default()
    }

    /// Returns how much there is of it: `+3 −1 lines`. Empty if there is nothing to count.
    #[must_use]
    pub fn amount(&self) -> String {
        let plural = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            count => format!("{count} {what}s"),
        };
        match self {
            Self::Edit { added, removed, .. } => format!("+{added} −{removed} lines"),
            Self::Write { bytes, lines, .. } => {
                format!("{}, {}", plural(*lines, "line"), plural(*bytes, "byte"))
            }
            Self::Message { characters, .. } => plural(*characters, "character"),
            Self::Command { .. } | Self::Other => String::new(),
        }
    }
}

/// Returns the first of these names under which an argument satisfies `is_fit`, as it is written there.
fn named(arguments: &Map<String, Value>, names: &[&str], is_fit: impl Fn(&Value) -> bool) -> Option<String> {
    names.iter().find_map(|name| {
        let found = arguments.iter().find(|(given, value)| given.eq_ignore_ascii_case(name) && is_fit(value));
        found.map(|(given, _)| given.clone())
    })
}

fn edit(arguments: &Map<String, Value>) -> Option<CallContent> {
    let mut counts = pair(arguments);
    // A list of edits stands under any name.
    for list in arguments.values().filter_map(Value::as_array).filter(|list| !list.is_empty()) {
        let pairs = list.iter().map(|edit| edit.as_object().and_then(pair));
        if let Some(pairs) = pairs.collect::<Option<Vec<_>>>() {
            let sum = pairs.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            counts = Some(counts.map_or(sum, |more| (sum.0 + more.0, sum.1 + more.1)));
        }
    }
    let (added, removed) = counts?;
    Some(CallContent::Edit { path: named(arguments, PATH_NAMES, Value::is_string), added, removed })
}

/// Counts the lines that an edit adds and removes.
fn pair(object: &Map<String, Value>) -> Option<(usize, usize)> {
    EDIT_NAMES
        .iter()
        .find_map(|(old, new)| Some(changed_lines(object.get(*old)?.as_str()?, object.get(*new)?.as_str()?)))
}

/// Counts the lines between the equal lines at the beginning and at the end: those added, and those removed.
fn changed_lines(old: &str, new: &str) -> (usize, usize) {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |(one, other): &(&&str, &&str)| one == other;
    let head = old.iter().zip(&new).take_while(same).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(same).count();
    (new.len() - head - tail, old.len() - head - tail)
}

fn write(arguments: &Map<String, Value>) -> Option<CallContent> {
    let path = named(arguments, PATH_NAMES, Value::is_string)?;
    let name = named(arguments, TEXT_NAMES, Value::is_string)?;
    let text = arguments.get(&name)?.as_str()?;
    Some(CallContent::Write { bytes: text.len(), lines: text.lines().count(), path, text: name })
}

fn message(arguments: &Map<String, Value>) -> Option<CallContent> {
    let is_recipient = |value: &Value| {
        value.is_string()
            || value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_string))
    };
    let to: Vec<String> =
        RECIPIENT_NAMES.iter().filter_map(|name| named(arguments, &[name], is_recipient)).collect();
    let name = named(arguments, BODY_NAMES, Value::is_string)?;
    let characters = arguments.get(&name)?.as_str()?.chars().count();
    let subject = named(arguments, SUBJECT_NAMES, Value::is_string);
    (!to.is_empty()).then_some(CallContent::Message { to, subject, body: name, characters })
}

fn command(arguments: &Map<String, Value>) -> Option<CallContent> {
    let is_words = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
    let command = named(arguments, COMMAND_NAMES, |value| value.is_string() || is_words(value))?;
    Some(CallContent::Command { command, arguments: named(arguments, &["args", "arguments"], is_words) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn content(arguments: Value) -> CallContent {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        CallContent::of(&arguments)
    }

    #[test]
    fn an_edit_counts_only_the_lines_that_differ() {
        let edits = json!({ "path": "/a", "edits": [
            { "oldText": "a\nb\nc", "newText": "a\nB\nB2\nc" }, { "oldText": "x", "newText": "" } ] });
        let found = content(edits);
        assert_eq!(found, CallContent::Edit { path: Some("path".into()), added: 2, removed: 2 });
        assert_eq!(found.amount(), "+2 −2 lines");
        assert_eq!(content(json!({ "old_string": "a", "new_string": "a" })).amount(), "+0 −0 lines");
    }

    #[test]
    fn a_list_with_something_else_in_it_is_no_edit() {
        let edits = json!({ "path": "/a", "edits": [{ "old": "a", "new": "b" }, { "delete": "all" }] });
        assert_eq!(content(edits), CallContent::Other);
    }

    #[test]
    fn files_messages_and_commands_are_recognized_by_their_names() {
        let write = content(json!({ "Path": "/a", "content": "é\nb\n" }));
        assert_eq!(write.amount(), "2 lines, 5 bytes");
        let mail =
            content(json!({ "to": ["a@x.example"], "bcc": "e@x.example", "subject": "s", "body": "é" }));
        let CallContent::Message { to, subject, .. } = &mail else { panic!("{mail:?}") };
        assert_eq!((to.len(), subject.as_deref(), &*mail.amount()), (2, Some("subject"), "1 character"));
        let run = content(json!({ "command": "npm", "args": ["test"] }));
        assert_eq!(run, CallContent::Command { command: "command".into(), arguments: Some("args".into()) });
        for other in [json!({}), json!({ "path": 7, "content": "x" }), json!({ "to": [7], "body": "x" })] {
            assert_eq!(content(other), CallContent::Other);
        }
    }
}
