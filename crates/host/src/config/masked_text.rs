//! The text of Hospes' own file for display, without values that may be secrets.

use std::collections::HashSet;

use toml_edit::{Decor, Item, RawString, TableLike, Value};

use super::command_line::split_command;
use super::own_file::{OwnDocument, OwnFileError};
use super::reference_values::is_secret_reference;
use super::secret::{
    HIDDEN, is_reference, is_secret_name, redact_argument, redact_command, redact_url, redact_words,
};
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
    mask.mask_table(old.document.as_table_mut(), ValueKind::Root);
    mask.marks_new = true;
    mask.mask_table(new.document.as_table_mut(), ValueKind::Root);
    Ok((without_assignments(&old.text()), without_assignments(&new.text())))
}

/// Hides comments of whole lines in which a value may stand.
fn without_assignments(text: &str) -> String {
    let line = |line: &str| match line.trim_start().strip_prefix('#') {
        Some(words) if may_hold_value(words) => {
            let end = &line[line.trim_end_matches(['\r', '\n']).len()..];
            format!("{HIDDEN_COMMENT}{end}")
        }
        _ => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Returns true if a value may stand in the words of a comment.
fn may_hold_value(words: &str) -> bool {
    let parts = || words.split_whitespace();
    words.contains(['=', ':']) || !redact_words(parts()).iter().map(String::as_str).eq(parts())
}

/// Returns white space of a file, with the comments in it, without those in which a value may stand. `None` if all stay.
fn masked_comments(space: &str) -> Option<String> {
    let lines = space.split_inclusive('\n').map(|line| match line.split_once('#') {
        Some((before, words)) if may_hold_value(words) => {
            let end = if line.ends_with('\n') { "\n" } else { "" };
            format!("{before}{HIDDEN_COMMENT}{end}")
        }
        _ => line.to_owned(),
    });
    let shown: String = lines.collect();
    (shown != space).then_some(shown)
}

fn mask_decor(decor: &mut Decor) {
    if let Some(shown) = decor.prefix().and_then(RawString::as_str).and_then(masked_comments) {
        decor.set_prefix(shown);
    }
    if let Some(shown) = decor.suffix().and_then(RawString::as_str).and_then(masked_comments) {
        decor.set_suffix(shown);
    }
}

/// Meaning of the texts below a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    /// The whole file.
    Root,
    Plain,
    /// The values of variables and headers, and of keys that are named like a secret.
    Secret,
    /// A command line: its words, or all of it in one text.
    Command,
    /// One word of a command line.
    Word,
    /// The table of the servers, whose keys are names.
    Servers,
    /// A server: its table, or its command line alone.
    Entry,
    Url,
    /// Names of stored secrets.
    SecretNames,
}

impl ValueKind {
    fn of(key: &str, around: Self) -> Self {
        match key {
            _ if around == Self::Secret || around == Self::SecretNames => around,
            _ if around == Self::Servers => Self::Entry,
            "servers" if around == Self::Root => Self::Servers,
            "env" | "headers" => Self::Secret,
            "secrets" => Self::SecretNames,
            "command" | "args" => Self::Command,
            "url" | "base_url" | "webhook" => Self::Url,
            key if is_secret_name(key) => Self::Secret,
            _ => Self::Plain,
        }
    }

    /// The kind of the items of an array. Servers in one have keys of their own, though the host reads none of them.
    fn of_item(self) -> Self {
        if self == Self::Servers { Self::Entry } else { self }
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
        for (mut key, item) in table.iter_mut() {
            mask_decor(key.leaf_decor_mut());
            mask_decor(key.dotted_decor_mut());
            self.mask_item(item, ValueKind::of(key.get(), kind));
        }
    }

    fn mask_item(&mut self, item: &mut Item, kind: ValueKind) {
        match item {
            Item::Value(value) => self.mask_value(value, kind),
            Item::Table(table) => {
                mask_decor(table.decor_mut());
                self.mask_table(table, kind);
            }
            Item::ArrayOfTables(tables) => {
                for table in tables.iter_mut() {
                    mask_decor(table.decor_mut());
                    self.mask_table(table, kind.of_item());
                }
            }
            Item::None => {}
        }
    }

    fn mask_value(&mut self, value: &mut Value, kind: ValueKind) {
        mask_decor(value.decor_mut());
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
                if let Some(shown) = items.trailing().as_str().and_then(masked_comments) {
                    items.set_trailing(shown);
                }
                items.iter_mut().for_each(|item| mask_decor(item.decor_mut()));
                let texts: Vec<String> =
                    items.iter().map(|item| item.as_str().unwrap_or_default().to_owned()).collect();
                let is_command = matches!(kind, ValueKind::Command | ValueKind::Entry);
                let kind = if is_command { ValueKind::Word } else { kind.of_item() };
                // The value of an option is the word after it.
                let shown = redact_words(texts.iter().map(String::as_str));
                for ((item, text), shown) in items.iter_mut().zip(&texts).zip(shown) {
                    if is_command && item.is_str() && shown != *text {
                        let decor = item.decor().clone();
                        *item = Value::from(self.marked(text, shown));
                        *item.decor_mut() = decor;
                    } else {
                        self.mask_value(item, kind);
                    }
                }
            }
            Value::InlineTable(table) => {
                if let Some(shown) = table.trailing().as_str().and_then(masked_comments) {
                    table.set_trailing(shown);
                }
                self.mask_table(table, kind);
            }
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
            ValueKind::Command | ValueKind::Entry => shown_command(text),
            ValueKind::Word => shown_word(text),
            ValueKind::Root | ValueKind::Servers | ValueKind::Plain => redact_argument(text),
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

/// Hides secrets in a command line in one text. One in which nothing is hidden stays as it is written.
fn shown_command(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    match split_command(text) {
        Ok(words) => without_secrets(text, &words),
        // Without its words, where a secret ends is not known.
        Err(_) => HIDDEN.to_owned(),
    }
}

/// Hides secrets in a word of a command line, which may be a command line for a shell.
fn shown_word(text: &str) -> String {
    let shown = redact_argument(text);
    if shown != text || !text.contains(char::is_whitespace) {
        return shown;
    }
    let words = split_command(text);
    let words = words.unwrap_or_else(|_| text.split_whitespace().map(str::to_owned).collect());
    // Without options it is one value, such as a header with its reference.
    if words.iter().any(|word| word.starts_with('-')) { without_secrets(text, &words) } else { shown }
}

fn without_secrets(text: &str, words: &[String]) -> String {
    let words = || words.iter().map(String::as_str);
    if redact_words(words()).iter().map(String::as_str).eq(words()) {
        text.to_owned()
    } else {
        redact_command(words())
    }
}

/// Hides all of a value but its references and the name of an authorization scheme before one.
#[must_use]
pub fn hide_literals(text: &str) -> String {
    if text.is_empty() || is_reference(text) {
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

    #[test]
    fn comments_in_which_a_value_may_stand_are_hidden_wherever_they_are() {
        let text = "# --token hunter2\n[servers.one] # was: hunter2\nargs = [ \"-y\", # --token=hunter2\n  # yes\n  \
            \"--key\", # key: hunter2\n  \"hunter3\" # = hunter2\n  , # --token hunter2\n] # a = hunter2\n\
            env = { A = \"1\", # A = hunter2\n  # two: hunter2\n  B = \"2\", # mine\n  # C = hunter2\n}\n\
            [[other]] # x = hunter2\na = 1\n# end: hunter2\n";
        let (shown, _) = masked_change(text, text).unwrap();
        assert!(!shown.contains("hunter"), "{shown}");
        assert!(shown.contains("[servers.one] # …\nargs = [ \"-y\", # …\n  # yes\n"), "{shown}");
        assert!(shown.contains("# mine\n") && shown.contains("[[other]] # …\n"), "{shown}");
        assert!(shown.parse::<toml_edit::DocumentMut>().is_ok(), "{shown}");
        let windows = text.replace('\n', "\r\n");
        assert_eq!(masked_change(&windows, &windows).unwrap().0, shown.replace('\n', "\r\n"));
    }

    #[test]
    fn a_command_line_in_one_text_is_read_as_the_host_reads_it() {
        for (text, shown) in [
            ("[servers]\none = \"x --token hunter2\"\n", "[servers]\none = \"x --token [redacted]\"\n"),
            ("servers.one = 'x  --token=hunter2'\n", "servers.one = \"x --token=[redacted]\"\n"),
            (
                "[servers.one]\ncommand = \"npx mcp-remote https://e.com --header 'Authorization: Bearer hunter2'\"\n",
                "[servers.one]\ncommand = 'npx mcp-remote https://e.com --header \"Authorization: [redacted]\"'\n",
            ),
            (
                "[servers.one]\ncommand = \"x --token  hunter2\"\n",
                "[servers.one]\ncommand = \"x --token [redacted]\"\n",
            ),
            (
                "[servers.one]\ncommand = \"x --token\\thunter2\"\n",
                "[servers.one]\ncommand = \"x --token [redacted]\"\n",
            ),
            (
                "[servers.one]\ncommand = \"x --token 'hunter2\"\n",
                "[servers.one]\ncommand = \"[redacted]\"\n",
            ),
            (
                "[servers.env]\nargs = [\"-c\", \"y --token hunter2\"]\n",
                "[servers.env]\nargs = [\"-c\", \"y --token [redacted]\"]\n",
            ),
            ("[[servers]]\nenv = { A = \"hunter2\" }\n", "[[servers]]\nenv = { A = \"[redacted]\" }\n"),
            (
                "servers = { one = ['x', '--key', 'hunter2'] }\n",
                "servers = { one = ['x', '--key', \"[redacted]\"] }\n",
            ),
        ] {
            assert_eq!(masked_change(text, text).unwrap().0, shown);
        }
        let plain = "[servers]\none = \"x  'a b'\"\ntwo.command = \"y --root ${ROOT}\"\n\
            three.args = [\"-H\", \"X-Kind: ${KIND}\", \"it's\"]\n[profiles.w]\nservers = [\"one\"]\n";
        assert_eq!(masked_change(plain, plain).unwrap().0, plain);
    }
}
