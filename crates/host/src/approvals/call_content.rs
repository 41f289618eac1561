//! The kind of content that a call carries, recognized by the names of its arguments: an edit, a file, a message, a
//! command.

use serde::Serialize;
use serde_json::{Map, Value};

use super::approval::{ApprovalCallKind, CallCard};

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

/// Maximum number of references of a schema that are followed, one after the other.
const MAX_REFERENCES: usize = 8;

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
    /// Recognizes the content of a call by those of its arguments that the schema of the tool declares. Others are
    /// nothing that the tool is known to read, and say nothing about the call. `Other` if nothing or more than one kind
    /// fits, because then a name alone does not tell what the tool does.
    #[must_use]
    pub fn of(card: &CallCard) -> Self {
        if card.what != ApprovalCallKind::Tool {
            return Self::Other;
        }
        let (arguments, schema) = declared_arguments(card);
        let kinds = [edit(&arguments, &schema), write(&arguments), message(&arguments), command(&arguments)];
        let mut found = kinds.into_iter().flatten();
        match (found.next(), found.next()) {
            (Some(only), None) => only,
            _ => Self::Other,
        }
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

/// Returns the arguments of a call that the schema of its tool declares, and the schema.
pub(super) fn declared_arguments(card: &CallCard) -> (Map<String, Value>, Value) {
    let schema = card.input_schema.as_ref().and_then(|schema| schema.to_value().ok()).unwrap_or_default();
    let declared = declared_members(&schema, &schema);
    let given = match card.arguments.decode::<Value>() {
        Ok(Value::Object(arguments)) => arguments,
        _ => Map::new(),
    };
    let declared = |name: &String| declared.is_some_and(|declared| declared.contains_key(name));
    (given.into_iter().filter(|(name, _)| declared(name)).collect(), schema)
}

/// Returns the members that a part of a schema declares. References are followed within the whole schema.
fn declared_members<'s>(mut part: &'s Value, schema: &'s Value) -> Option<&'s Map<String, Value>> {
    for _ in 0..MAX_REFERENCES {
        let Some(reference) = part.get("$ref") else { break };
        part = schema.pointer(reference.as_str()?.strip_prefix('#')?)?;
    }
    part.get("properties")?.as_object()
}

/// Returns the one of these names under which an argument satisfies `is_fit`, as it is written there. `None` if several
/// do: a second one might be there to be taken for the first.
fn named(arguments: &Map<String, Value>, names: &[&str], is_fit: impl Fn(&Value) -> bool) -> Option<String> {
    let is_named = |given: &String| names.iter().any(|name| given.eq_ignore_ascii_case(name));
    let mut found = arguments.iter().filter(|(given, value)| is_named(given) && is_fit(value));
    let (name, _) = found.next()?;
    found.next().is_none().then(|| name.clone())
}

fn edit(arguments: &Map<String, Value>, schema: &Value) -> Option<CallContent> {
    let mut counts = pair(arguments);
    // A list of edits stands under any name.
    for (name, list) in arguments {
        let Some(list) = list.as_array().filter(|list| !list.is_empty()) else { continue };
        let items = schema.pointer("/properties").and_then(|declared| declared.get(name)?.get("items"));
        let Some(declared) = items.and_then(|items| declared_members(items, schema)) else { continue };
        let pairs = list.iter().map(|edit| {
            let is_declared = |(name, _): &(&String, &Value)| declared.contains_key(*name);
            let members = edit.as_object()?.iter().filter(is_declared);
            pair(&members.map(|(name, value)| (name.clone(), value.clone())).collect())
        });
        if let Some(pairs) = pairs.collect::<Option<Vec<_>>>() {
            let sum = pairs.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            counts = Some(counts.map_or(sum, |more| (sum.0 + more.0, sum.1 + more.1)));
        }
    }
    let (added, removed) = counts?;
    Some(CallContent::Edit { path: named(arguments, PATH_NAMES, Value::is_string), added, removed })
}

/// Counts the lines that an edit adds and removes. `None` if there is no pair of texts, or more than one.
fn pair(object: &Map<String, Value>) -> Option<(usize, usize)> {
    let mut pairs = EDIT_NAMES
        .iter()
        .filter_map(|(old, new)| Some((object.get(*old)?.as_str()?, object.get(*new)?.as_str()?)));
    let (old, new) = pairs.next()?;
    pairs.next().is_none().then(|| changed_lines(old, new))
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

    /// A schema that declares the names of these arguments, and those of the items of lists.
    fn schema_of(arguments: &Value) -> Value {
        let names = |value: &Value| -> Vec<String> {
            value.as_object().map(|members| members.keys().cloned().collect()).unwrap_or_default()
        };
        let mut schema = json!({ "type": "object", "properties": {} });
        for name in names(arguments) {
            schema["properties"][&name] = json!({});
            for item in arguments[&name].as_array().into_iter().flatten() {
                for inner in names(item) {
                    schema["properties"][&name]["items"]["properties"][inner] = json!({});
                }
            }
        }
        schema
    }

    fn of_tool(schema: &Value, arguments: &Value) -> CallContent {
        let card = json!({ "what": "tool", "name": "t", "input_schema": schema, "arguments": arguments, "because": "" });
        CallContent::of(&serde_json::from_value(card).unwrap())
    }

    fn content(arguments: &Value) -> CallContent {
        of_tool(&schema_of(arguments), arguments)
    }

    #[test]
    fn an_edit_counts_only_the_lines_that_differ() {
        let edits = json!({ "path": "/a", "edits": [
            { "oldText": "a\nb\nc", "newText": "a\nB\nB2\nc" }, { "oldText": "x", "newText": "" } ] });
        let found = content(&edits);
        assert_eq!(found, CallContent::Edit { path: Some("path".into()), added: 2, removed: 2 });
        assert_eq!(found.amount(), "+2 −2 lines");
        assert_eq!(content(&json!({ "old_string": "a", "new_string": "a" })).amount(), "+0 −0 lines");
        // The form in which Python servers declare their lists.
        let schema = json!({ "properties": { "path": {}, "edits": { "items": { "$ref": "#/$defs/Edit" } } },
            "$defs": { "Edit": { "properties": { "oldText": {}, "newText": {} } } } });
        assert_eq!(of_tool(&schema, &edits), found);
        let endless = json!({ "properties": { "edits": { "items": { "$ref": "#/$defs/E" } } }, "$defs": { "E": { "$ref": "#/$defs/E" } } });
        assert_eq!(of_tool(&endless, &edits), CallContent::Other);
    }

    #[test]
    fn a_list_with_something_else_in_it_is_no_edit() {
        let edits = json!({ "path": "/a", "edits": [{ "old": "a", "new": "b" }, { "delete": "all" }] });
        assert_eq!(content(&edits), CallContent::Other);
    }

    /// Arguments that the tool does not declare change nothing about what is said of the others.
    #[test]
    fn undeclared_arguments_determine_nothing() {
        let write = json!({ "path": "/x", "content": "a\nb" });
        let edit = json!({ "path": "/x", "edits": [{ "oldText": "a", "newText": "b\nc" }] });
        let (of_write, of_edit) = (content(&write), content(&edit));
        assert!(matches!(of_write, CallContent::Write { .. }) && matches!(of_edit, CallContent::Edit { .. }));
        for (decoy, value) in [
            ("old", json!("")),
            ("new", json!("")),
            ("old_text", json!("")),
            ("new_text", json!("")),
            ("text", json!("")),
            ("file", json!("/harmless")),
            ("to", json!("me@x.example")),
            ("body", json!("hi")),
            ("command", json!("ls")),
            ("changes", json!([{ "old": "", "new": "" }])),
        ] {
            for (arguments, expected) in [(&write, &of_write), (&edit, &of_edit)] {
                let schema = schema_of(arguments);
                let mut arguments = arguments.clone();
                // With its partner, where it needs one.
                (arguments["old"], arguments["new"]) = (json!(""), json!(""));
                arguments[decoy] = value.clone();
                assert_eq!(of_tool(&schema, &arguments), *expected, "{decoy}");
            }
        }
        let mut inner = edit.clone();
        (inner["edits"][0]["old_text"], inner["edits"][0]["new_text"]) = (json!(""), json!(""));
        assert_eq!(of_tool(&schema_of(&edit), &inner), of_edit);
        for nothing in [json!(null), json!({}), json!({ "type": "object" }), json!({ "properties": {} })] {
            assert_eq!(of_tool(&nothing, &write), CallContent::Other, "{nothing}");
        }
    }

    /// A tool that declares all of them may do either.
    #[test]
    fn what_fits_two_kinds_or_names_is_neither() {
        for both in [
            json!({ "path": "/x", "content": "a", "old": "", "new": "" }),
            json!({ "path": "/x", "content": "a", "text": "" }),
            json!({ "path": "/x", "file": "/y", "content": "a" }),
            json!({ "path": "/x", "old": "a", "new": "b", "old_text": "", "new_text": "" }),
            json!({ "path": "/x", "edits": [{ "old": "a", "new": "b", "oldText": "", "newText": "" }] }),
            json!({ "to": "a", "body": "a", "message": "" }),
            json!({ "path": "/x", "content": "a", "command": "ls" }),
        ] {
            assert_eq!(content(&both), CallContent::Other, "{both}");
        }
    }

    #[test]
    fn files_messages_and_commands_are_recognized_by_their_names() {
        let write = content(&json!({ "Path": "/a", "content": "é\nb\n" }));
        assert_eq!(write.amount(), "2 lines, 5 bytes");
        let mail =
            content(&json!({ "to": ["a@x.example"], "bcc": "e@x.example", "subject": "s", "body": "é" }));
        let CallContent::Message { to, subject, .. } = &mail else { panic!("{mail:?}") };
        assert_eq!((to.len(), subject.as_deref(), &*mail.amount()), (2, Some("subject"), "1 character"));
        let run = content(&json!({ "command": "npm", "args": ["test"] }));
        assert_eq!(run, CallContent::Command { command: "command".into(), arguments: Some("args".into()) });
        for other in [json!({}), json!({ "path": 7, "content": "x" }), json!({ "to": [7], "body": "x" })] {
            assert_eq!(content(&other), CallContent::Other);
        }
    }
}
