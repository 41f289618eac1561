//! Values of exported files, and the formats in which they are written.

use std::fmt::Write as _;

use super::own_text;
use super::text_literal::{json_literal, toml_literal};

/// ExportMembers of an object, in their order.
pub(super) type ExportMembers = Vec<(String, ExportValue)>;

/// A value of a file.
#[derive(Clone, Debug)]
pub(super) enum ExportValue {
    Text(String),
    Boolean(bool),
    /// A number as it is written.
    Number(String),
    List(Vec<Self>),
    Object(ExportMembers),
}

impl ExportValue {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    pub(super) fn texts(texts: &[String]) -> Self {
        Self::List(texts.iter().map(|text| Self::text(text)).collect())
    }

    pub(super) fn json(&self, depth: usize) -> String {
        let (inner, outer) = ("  ".repeat(depth + 1), "  ".repeat(depth));
        let block = |open: char, items: Vec<String>, close: char| {
            format!("{open}\n{inner}{}\n{outer}{close}", items.join(&format!(",\n{inner}")))
        };
        match self {
            Self::List(items) if items.iter().all(|item| matches!(item, Self::Text(_))) => {
                let items: Vec<String> = items.iter().map(|item| item.json(0)).collect();
                format!("[{}]", items.join(", "))
            }
            Self::List(items) => block('[', items.iter().map(|item| item.json(depth + 1)).collect(), ']'),
            Self::Object(members) if members.is_empty() => "{}".to_owned(),
            Self::Object(members) => {
                let members = members
                    .iter()
                    .map(|(key, value)| format!("{}: {}", json_literal(key), value.json(depth + 1)));
                block('{', members.collect(), '}')
            }
            Self::Text(text) => json_literal(text),
            Self::Boolean(value) => value.to_string(),
            Self::Number(number) => number.clone(),
        }
    }

    /// Writes YAML. Strings are written as in JSON, which YAML reads in the same way.
    pub(super) fn yaml(&self, depth: usize) -> String {
        let indent = "  ".repeat(depth);
        let mut text = String::new();
        match self {
            Self::Object(members) => {
                for (key, value) in members {
                    let key = if is_plain_yaml(key) { key.clone() } else { json_literal(key) };
                    let _ = match value {
                        Self::Object(inner) if !inner.is_empty() => {
                            write!(text, "{indent}{key}:\n{}", value.yaml(depth + 1))
                        }
                        Self::List(items) if items.iter().any(|item| matches!(item, Self::Object(_))) => {
                            write!(text, "{indent}{key}:\n{}", value.yaml(depth + 1))
                        }
                        _ => writeln!(text, "{indent}{key}: {}", value.json(0)),
                    };
                }
            }
            Self::List(items) => {
                for item in items {
                    // The first line of the item begins after the dash.
                    let item = item.yaml(depth + 1);
                    let _ = write!(text, "{indent}- {}", item.trim_start());
                }
            }
            other => text.push_str(&other.json(0)),
        }
        text
    }

    pub(super) fn toml(&self) -> String {
        match self {
            Self::Text(text) => toml_literal(text),
            Self::Boolean(value) => value.to_string(),
            Self::Number(number) => number.clone(),
            Self::List(items) => {
                format!("[{}]", items.iter().map(Self::toml).collect::<Vec<_>>().join(", "))
            }
            Self::Object(members) => {
                let members =
                    members.iter().map(|(key, value)| format!("{} = {}", own_text::key(key), value.toml()));
                format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Returns true if YAML reads a key without quotes as this text. YAML 1.1 reads more words as other things than 1.2.
fn is_plain_yaml(key: &str) -> bool {
    let is_word = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"]
        .iter()
        .any(|word| key.eq_ignore_ascii_case(word));
    own_text::is_bare(key) && key.starts_with(|first: char| first.is_ascii_alphabetic()) && !is_word
}

/// Writes each server as a table of its own.
pub(super) fn toml_text(root: &ExportValue, path: &[&str]) -> String {
    let mut servers = root;
    for key in path {
        let ExportValue::Object(members) = servers else { return String::new() };
        let Some((_, value)) = members.iter().find(|(name, _)| name == key) else { return String::new() };
        servers = value;
    }
    let ExportValue::Object(servers) = servers else { return String::new() };
    let tables = servers.iter().map(|(name, entry)| {
        let mut table = format!("[{}.{}]\n", path.join("."), own_text::key(name));
        if let ExportValue::Object(members) = entry {
            for (key, value) in members {
                let _ = writeln!(table, "{} = {}", own_text::key(key), value.toml());
            }
        }
        table
    });
    tables.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_yaml_reads_as_other_things_are_quoted() {
        for key in ["on", "No", "12", "1e3", "-", "null", "a b"] {
            let value = ExportValue::Object(vec![(key.to_owned(), ExportValue::Boolean(true))]);
            assert_eq!(value.yaml(0), format!("\"{key}\": true\n"));
        }
        let value = ExportValue::Object(vec![("only-one_2".to_owned(), ExportValue::Boolean(true))]);
        assert_eq!(value.yaml(0), "only-one_2: true\n");
    }
}
