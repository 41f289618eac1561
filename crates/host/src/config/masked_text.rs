//! The text of Hospes' own file for display, without values that may be secrets.

use std::collections::HashSet;

use toml_edit::{Item, TableLike, Value};

use super::own_file::{OwnDocument, OwnFileError};
use super::reference_values::is_secret_reference;
use super::secret::{HIDDEN, is_reference, is_secret_name, redact_argument, redact_url, redact_words};
use super::text_parts::{TextPart, text_parts};

/// Text in place of a comment in which a value may stand.
const HIDDEN_COMMENT: &str = "# …";

/// Returns the texts of Hospes' own file before and after a change, without values that may be secrets: those of variables
/// and headers, of keys and command line options that are named like a secret, credentials in URLs, and comments with an
/// assignment. Names, references such as `${secret:NAME}` and the form of the file stay. A value that is hidden and was
/// not there before is marked as new.
///
/// # Errors
/// If one of the texts is not valid TOML.
pub fn masked_change(before: &str, after: &str) -> Result<(String, String), OwnFileError> {
    let failed = |reason: String| OwnFileError::NotReplaced { reason };
    let (mut old, mut new) =
        (OwnDocument::read(before).map_err(failed)?, OwnDocument::read(after).map_err(failed)?);
    let mut mask = TextMask::default();
    mask.mask_table(old.document.as_table_mut(), ValueKind::Plain);
    mask.marks_new = true;
    mask.mask_table(new.document.as_table_mut(), ValueKind::Plain);
    Ok((without_assignments(&old.text()), without_assignments(&new.text())))
}

/// Hides comments of whole lines in which a value may stand.
fn without_assignments(text: &str) -> String {
    let line = |line: &str| {
        let body = line.trim_start();
        let is_hidden = body.starts_with('#') && body.contains(['=', ':']);
        let end = if line.ends_with('\n') { "\n" } else { "" };
        if is_hidden { format!("{HIDDEN_COMMENT}{end}") } else { line.to_owned() }
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Meaning of the texts below a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    Plain,
    /// The values of variables and headers, and of keys that are named like a secret.
    Secret,
    /// Words of a command line.
    Command,
    Url,
    /// Names of stored secrets.
    SecretNames,
}

impl ValueKind {
    fn of(key: &str, around: Self) -> Self {
        match key {
            _ if around == Self::Secret || around == Self::SecretNames => around,
            "env" | "headers" => Self::Secret,
            "secrets" => Self::SecretNames,
            "command" | "args" => Self::Command,
            "url" | "base_url" | "webhook" => Self::Url,
            key if is_secret_name(key) => Self::Secret,
            _ => Self::Plain,
        }
    }
}

/// Hides values, and remembers those of the first text.
#[derive(Default)]
struct TextMask {
    known: HashSet<String>,
    /// True for the second text.
    marks_new: bool,
}

impl TextMask {
    fn mask_table(&mut self, table: &mut dyn TableLike, kind: ValueKind) {
        for (key, item) in table.iter_mut() {
            self.mask_item(item, ValueKind::of(key.get(), kind));
        }
    }

    fn mask_item(&mut self, item: &mut Item, kind: ValueKind) {
        match item {
            Item::Value(value) => self.mask_value(value, kind),
            Item::Table(table) => self.mask_table(table, kind),
            Item::ArrayOfTables(tables) => tables.iter_mut().for_each(|table| self.mask_table(table, kind)),
            Item::None => {}
        }
    }

    fn mask_value(&mut self, value: &mut Value, kind: ValueKind) {
        let has_assignment = |text: Option<&str>| {
            text.and_then(|text| text.split_once('#')).is_some_and(|(_, words)| words.contains(['=', ':']))
        };
        if has_assignment(value.decor().suffix().and_then(|suffix| suffix.as_str())) {
            value.decor_mut().set_suffix(format!(" {HIDDEN_COMMENT}"));
        }
        match value {
            Value::String(text) => {
                let shown = self.shown(text.value(), kind);
                if shown != *text.value() {
                    let decor = value.decor().clone();
                    *value = Value::from(shown);
                    *value.decor_mut() = decor;
                }
            }
            Value::Array(items) => {
                let texts: Vec<String> =
                    items.iter().map(|item| item.as_str().unwrap_or_default().to_owned()).collect();
                // The value of an option is the word after it.
                let shown = redact_words(texts.iter().map(String::as_str));
                for ((item, text), shown) in items.iter_mut().zip(&texts).zip(shown) {
                    if kind == ValueKind::Command && item.is_str() && shown != *text {
                        let decor = item.decor().clone();
                        *item = Value::from(self.marked(text, shown));
                        *item.decor_mut() = decor;
                    } else {
                        self.mask_value(item, kind);
                    }
                }
            }
            Value::InlineTable(table) => self.mask_table(table, kind),
            // A number may be a password, too.
            _ if kind == ValueKind::Secret => {
                let text = self.marked(&value.to_string(), HIDDEN.to_owned());
                let decor = value.decor().clone();
                *value = Value::from(text);
                *value.decor_mut() = decor;
            }
            _ => {}
        }
    }

    fn shown(&mut self, text: &str, kind: ValueKind) -> String {
        let shown = match kind {
            ValueKind::Secret => hide_literals(text),
            ValueKind::SecretNames if is_secret_reference(text) => text.to_owned(),
            ValueKind::SecretNames => HIDDEN.to_owned(),
            ValueKind::Url => redact_url(text),
            // A command line in one text.
            ValueKind::Command => {
                let words: Vec<&str> = text.split(' ').collect();
                redact_words(words).join(" ")
            }
            ValueKind::Plain => redact_argument(text),
        };
        if shown == text { shown } else { self.marked(text, shown) }
    }

    /// Marks a text in which something is hidden if it was not there before.
    fn marked(&mut self, text: &str, shown: String) -> String {
        if !self.marks_new {
            self.known.insert(text.to_owned());
        } else if !self.known.contains(text) {
            return format!("{shown} (new)");
        }
        shown
    }
}

/// Hides all of a value but its references and the name of an authorization scheme before one.
#[must_use]
pub fn hide_literals(text: &str) -> String {
    if text.is_empty() || is_reference(text) && !text.contains(":-") {
        return text.to_owned();
    }
    let parts = text_parts(text).into_iter().map(|part| match part {
        TextPart::Literal(literal) if ["Bearer ", "Basic ", "token "].contains(&literal.as_str()) => literal,
        TextPart::Literal(_) | TextPart::Other(_) => HIDDEN.to_owned(),
        TextPart::Variable { name, .. } => format!("${{{name}}}"),
        TextPart::Secret(name) => format!("${{secret:{name}}}"),
        TextPart::Input(id) => format!("${{input:{id}}}"),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_that_may_be_a_secret_is_shown() {
        let text = "# mine\n# old: hunter2\n[servers.one] # one\ncommand = [\"x\", \"--token\", \"hunter2\", \"--key=hunter2\"]\n\
            env = { A = \"hunter2\", B = \"${secret:b}\", C = \"Bearer ${T:-hunter2}\", D = 4711 }\n[servers.two]\n\
            url = \"https://u:hunter2@e.com/?k=hunter2\" # was=hunter2\n[servers.two.headers]\nX = \"hunter2\" # mine\n\
            [servers.three]\ncommand = \"x --password hunter2 y\"\n[models.m]\napi_key = \"hunter2\"\nmodel = \"m\"\n\
            [profiles.w.secrets]\n\"a.token\" = \"b.token\"\n";
        let after = text.replace("A = \"hunter2\"", "A = \"hunter3\"");
        let (old, new) = masked_change(text, &after).unwrap();
        for shown in [&old, &new] {
            assert!(!shown.contains("hunter") && !shown.contains("4711"), "{shown}");
            for kept in [
                "# mine\n",
                "\"${secret:b}\"",
                "Bearer ${T}",
                "model = \"m\"",
                "\"b.token\"",
                "--token",
                " y\"",
            ] {
                assert!(shown.contains(kept), "{kept}: {shown}");
            }
        }
        let changed: Vec<_> = old.lines().zip(new.lines()).filter(|(old, new)| old != new).collect();
        assert_eq!(changed.len(), 1, "{changed:?}");
        assert!(changed[0].1.contains("A = \"[redacted] (new)\""), "{changed:?}");
    }
}
