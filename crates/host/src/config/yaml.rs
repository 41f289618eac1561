//! YAML documents as the same tree. Only the types of JSON are supported (core schema of YAML 1.2).

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag};

use super::document::{ConfigEntry, ConfigNode, ConfigValue, EMPTY_DOCUMENT};
use super::error::{ConfigError, ConfigSource};

/// Maximum depth of nested tables and lists.
pub(super) const MAX_DEPTH: usize = 64;

/// Reads a file's one document.
pub(super) fn parse(file: &Arc<Path>, text: &str) -> Result<ConfigNode, Box<ConfigError>> {
    let mut tree = YamlTreeBuilder { file, open: Vec::new(), root: None };
    for event in Parser::new_from_str(text) {
        let done = event.map_err(YamlError::from).and_then(|(event, span)| tree.handle_event(event, span));
        done.map_err(|YamlError { at, message }| ConfigError::Syntax {
            at: place(file, &at),
            format: "YAML",
            message,
        })?;
    }
    let empty = || {
        let at = ConfigSource::end_of(file, "");
        ConfigError::Syntax { at, format: "YAML", message: EMPTY_DOCUMENT.to_owned() }.into()
    };
    tree.root.ok_or_else(empty)
}

struct YamlError {
    at: Marker,
    message: String,
}

impl YamlError {
    fn new<T>(at: Marker, message: impl Into<String>) -> Result<T, Self> {
        Err(Self { at, message: message.into() })
    }
}

impl From<ScanError> for YamlError {
    fn from(error: ScanError) -> Self {
        Self { at: *error.marker(), message: error.info().to_owned() }
    }
}

/// Builder of the tree: open collections, and the finished root.
struct YamlTreeBuilder<'a> {
    file: &'a Arc<Path>,
    open: Vec<OpenCollection>,
    root: Option<ConfigNode>,
}

enum OpenCollection {
    List { at: ConfigSource, items: Vec<ConfigNode> },
    Table { at: ConfigSource, entries: Vec<ConfigEntry>, key: Option<(String, ConfigSource)> },
}

impl YamlTreeBuilder<'_> {
    fn handle_event(&mut self, event: Event<'_>, span: Span) -> Result<(), YamlError> {
        let at = || place(self.file, &span.start);
        let open = match event {
            Event::Scalar(text, style, _, tag) => {
                return self.scalar(text, style, tag.as_deref(), span.start);
            }
            Event::SequenceStart(..) => OpenCollection::List { at: at(), items: Vec::new() },
            Event::MappingStart(..) => OpenCollection::Table { at: at(), entries: Vec::new(), key: None },
            Event::SequenceEnd | Event::MappingEnd => {
                let node = match self.open.pop() {
                    Some(OpenCollection::List { at, items }) => {
                        ConfigNode { at, value: ConfigValue::Array(items) }
                    }
                    Some(OpenCollection::Table { at, entries, .. }) => {
                        ConfigNode { at, value: ConfigValue::Object(entries) }
                    }
                    None => return Ok(()),
                };
                self.put(node);
                return Ok(());
            }
            Event::DocumentStart(_) if self.root.is_some() => {
                return YamlError::new(span.start, "there is more than one document");
            }
            // They would make a small file large.
            Event::Alias(_) => {
                return YamlError::new(
                    span.start,
                    "aliases (`*name`) are not supported; write the value out",
                );
            }
            _ => return Ok(()),
        };
        if let Some(OpenCollection::Table { key: None, .. }) = self.open.last() {
            return YamlError::new(span.start, "a key must be text");
        }
        // The tree is read by recursion, which takes stack for each level.
        if self.open.len() == MAX_DEPTH {
            return YamlError::new(
                span.start,
                format!("tables and lists nested more than {MAX_DEPTH} levels deep"),
            );
        }
        self.open.push(open);
        Ok(())
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
        start: Marker,
    ) -> Result<(), YamlError> {
        let at = place(self.file, &start);
        if let Some(OpenCollection::Table { key: key @ None, entries, .. }) = self.open.last_mut() {
            if entries.iter().any(|entry| entry.key == *text) {
                return YamlError::new(start, "duplicate key");
            }
            *key = Some((text.into_owned(), at));
            return Ok(());
        }
        // Only plain scalars have other types than text; what a tag says is not looked at.
        let value = match style {
            ScalarStyle::Plain if tag.is_none() => resolve_plain_scalar(&text),
            _ => ConfigValue::String(text.into_owned()),
        };
        self.put(ConfigNode { at, value });
        Ok(())
    }

    fn put(&mut self, node: ConfigNode) {
        match self.open.last_mut() {
            Some(OpenCollection::List { items, .. }) => items.push(node),
            Some(OpenCollection::Table { entries, key, .. }) => {
                if let Some((key, at)) = key.take() {
                    entries.push(ConfigEntry { at, key, node });
                }
            }
            None => self.root = Some(node),
        }
    }
}

fn place(file: &Arc<Path>, at: &Marker) -> ConfigSource {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    // The parser counts lines from 1 and columns from 0.
    ConfigSource::new(file, number(at.line()), number(at.col() + 1))
}

/// Resolves a plain scalar (YAML 1.2.2, section 10.3.2).
fn resolve_plain_scalar(text: &str) -> ConfigValue {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => ConfigValue::Null,
        "true" | "True" | "TRUE" => ConfigValue::Boolean(true),
        "false" | "False" | "FALSE" => ConfigValue::Boolean(false),
        _ => {
            let digits = text.trim_start_matches(['+', '-', '.']);
            // Rust also reads `inf`, `nan` and the like as numbers, which are text here.
            let is_number = digits.starts_with(|c: char| c.is_ascii_digit()) && text.parse::<f64>().is_ok();
            if is_number {
                ConfigValue::Number(text.to_owned())
            } else {
                ConfigValue::String(text.to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Result<ConfigNode, String> {
        parse(&Path::new("a.yaml").into(), text).map_err(|error| error.to_string())
    }

    #[test]
    fn values_have_the_types_of_json() {
        let root =
            tree("a: [1, -2.5, 1e3, '1', yes, true, ~, 1.2.3, +, \"x\\n\"]\nb: |\n  two\n  lines\nc:\n")
                .unwrap();
        let Some(ConfigValue::Array(items)) = root.get("a").map(|node| &node.value) else {
            panic!("{root:?}")
        };
        let shown: Vec<String> = items.iter().map(|item| format!("{:?}", item.value)).collect();
        let expected = [
            "Number(\"1\")",
            "Number(\"-2.5\")",
            "Number(\"1e3\")",
            "String(\"1\")",
            "String(\"yes\")",
            "Boolean(true)",
            "Null",
            "String(\"1.2.3\")",
            "String(\"+\")",
            "String(\"x\\n\")",
        ];
        assert_eq!(shown, expected);
        assert_eq!(root.get("b").and_then(ConfigNode::as_str), Some("two\nlines\n"));
        assert_eq!(root.get("c").map(ConfigNode::kind), Some("null"));
    }

    #[test]
    fn things_know_where_they_stand() {
        let root = tree("# x\nextensions:\n  é: {cmd: a}\n  b:\n    args:\n      - é\n").unwrap();
        let entries = root.get("extensions").and_then(ConfigNode::as_object).unwrap();
        assert_eq!(entries[0].at.to_string(), "a.yaml:3:3");
        assert_eq!(entries[0].node.get("cmd").unwrap().at.to_string(), "a.yaml:3:12");
        let Some(ConfigValue::Array(items)) = entries[1].node.get("args").map(|node| &node.value) else {
            panic!()
        };
        assert_eq!(items[0].at.to_string(), "a.yaml:6:9");
    }

    #[test]
    fn mistakes_name_line_and_column() {
        let deep = format!("a: {}", "[".repeat(MAX_DEPTH + 1));
        for (text, expected) in [
            ("", "a.yaml:1:1: not valid YAML: the file is empty"),
            ("a: 1\na: 2\n", "a.yaml:2:1: not valid YAML: duplicate key"),
            (
                "a: &x 1\nb: *x\n",
                "a.yaml:2:4: not valid YAML: aliases (`*name`) are not supported; write the value out",
            ),
            ("a: 1\n---\nb: 2\n", "a.yaml:2:1: not valid YAML: there is more than one document"),
            ("? [a]\n: 1\n", "a.yaml:1:3: not valid YAML: a key must be text"),
            (&deep, "a.yaml:1:67: not valid YAML: tables and lists nested more than 64 levels deep"),
        ] {
            assert_eq!(tree(text).unwrap_err(), expected, "{text}");
        }
        let error = tree("a:\n\t- b\n").unwrap_err();
        assert!(error.starts_with("a.yaml:2:2: not valid YAML: "), "{error}");
    }

    #[test]
    fn nothing_makes_it_panic() {
        let deep = "[".repeat(100_000);
        let block = "- ".repeat(100_000);
        for text in [
            "{", "}", "[a", "- ", "? ", ": ", "&", "*", "!!", "%YAML", "'", "\"\\x", "|", "a: b: c", &deep,
            &block,
        ] {
            let _ = tree(text);
        }
    }
}
