//! TOML, JSON and YAML documents as one tree with source positions.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use jsonc_parser::{CollectOptions, ParseOptions, ast, parse_to_ast};
use toml::de::{DeTable, DeValue};

pub(super) use super::error::EMPTY_DOCUMENT;
use super::error::{ConfigError, ConfigSource};
use super::text_parts::{TextPart, text_parts};

/// A value and where it begins.
#[derive(Clone, Debug)]
pub(super) struct ConfigNode {
    pub(super) at: ConfigSource,
    pub(super) value: ConfigValue,
}

#[derive(Clone, Debug)]
pub(super) enum ConfigValue {
    Null,
    Boolean(bool),
    /// The number as written, but in base ten.
    Number(String),
    String(String),
    Array(Vec<ConfigNode>),
    Object(Vec<ConfigEntry>),
    Date,
}

/// A key and its value, in the order of the file.
#[derive(Clone, Debug)]
pub(super) struct ConfigEntry {
    pub(super) at: ConfigSource,
    pub(super) key: String,
    pub(super) node: ConfigNode,
}

impl ConfigNode {
    /// Returns the type, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self.value {
            ConfigValue::Null => "null",
            ConfigValue::Boolean(_) => "a boolean",
            ConfigValue::Number(_) => "a number",
            ConfigValue::String(_) => "a string",
            ConfigValue::Array(_) => "an array",
            ConfigValue::Object(_) => "a table",
            ConfigValue::Date => "a date",
        }
    }

    pub(super) fn as_object(&self) -> Option<&[ConfigEntry]> {
        match &self.value {
            ConfigValue::Object(entries) => Some(entries),
            _ => None,
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match &self.value {
            ConfigValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the names of the stored secrets to which texts refer in this value.
    pub(super) fn secret_names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        self.collect_secret_names(&mut names);
        names
    }

    fn collect_secret_names(&self, names: &mut BTreeSet<String>) {
        match &self.value {
            ConfigValue::String(text) => {
                names.extend(text_parts(text).into_iter().filter_map(|part| match part {
                    TextPart::Secret(name) => Some(name),
                    _ => None,
                }))
            }
            ConfigValue::Array(items) => items.iter().for_each(|item| item.collect_secret_names(names)),
            ConfigValue::Object(entries) => {
                entries.iter().for_each(|entry| entry.node.collect_secret_names(names));
            }
            _ => {}
        }
    }

    /// Returns the value under a key, if this is an object that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfigFormat {
    Toml,
    Json,
    Yaml,
}

/// Finds the format by the file's extension, else by how the text begins.
pub(super) fn format(file: &Path, text: &str) -> ConfigFormat {
    let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or("");
    match extension.to_ascii_lowercase().as_str() {
        "toml" => ConfigFormat::Toml,
        "json" | "jsonc" | "json5" => ConfigFormat::Json,
        "yaml" | "yml" => ConfigFormat::Yaml,
        _ => {
            let text = text.trim_start_matches('\u{feff}').trim_start();
            // `/` begins a comment of JSON, and nothing in the other two formats.
            if text.starts_with(['{', '/']) {
                ConfigFormat::Json
            } else if ["---", "extensions:", "mcpServers:"].iter().any(|head| text.starts_with(head)) {
                ConfigFormat::Yaml
            } else {
                ConfigFormat::Toml
            }
        }
    }
}

/// Liberties that are taken with JSON, as in the files of editors. All others stay off, since other readers would refuse
/// the file.
pub(super) const JSON_OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// No liberties at all.
const STRICT_JSON_OPTIONS: ParseOptions =
    ParseOptions { allow_comments: false, allow_trailing_commas: false, ..JSON_OPTIONS };

pub(super) fn parse(
    file: &Arc<Path>,
    format: ConfigFormat,
    text: &str,
) -> Result<ConfigNode, Box<ConfigError>> {
    // Some editors put a byte order mark at the beginning.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = LocationIndex::new(file, text);
    match format {
        ConfigFormat::Toml => {
            let table = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
                at: lines.at(error.span().map_or(0, |span| span.start)),
                format: "TOML",
                message: error.message().trim_end().replace('\n', ", "),
            })?;
            let at = lines.at(0);
            Ok(ConfigNode { at, value: ConfigValue::Object(lines.table(table.get_ref())) })
        }
        ConfigFormat::Yaml => super::yaml::parse(file, text),
        ConfigFormat::Json => match json_ast(file, text, &JSON_OPTIONS)? {
            Some(value) => Ok(lines.json(&value)),
            None => {
                let message = EMPTY_DOCUMENT.to_owned();
                Err(Box::new(ConfigError::Syntax { at: lines.at(0), format: "JSON", message }))
            }
        },
    }
}

/// Checks that a text is JSON as the standard has it.
pub(super) fn check_strict_json(file: &Arc<Path>, text: &str) -> Result<(), Box<ConfigError>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    json_ast(file, text, &STRICT_JSON_OPTIONS)?;
    // What the first parser lets pass, such as control characters within a string.
    serde_json::from_str::<serde::de::IgnoredAny>(text).map(drop).map_err(|error| {
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let at = ConfigSource::new(file, number(error.line()), number(error.column()));
        let message = error.to_string();
        // Its own location is the same.
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        Box::new(ConfigError::Syntax { at, format: "JSON", message })
    })
}

fn json_ast<'t>(
    file: &Arc<Path>,
    text: &'t str,
    options: &ParseOptions,
) -> Result<Option<ast::Value<'t>>, Box<ConfigError>> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), options).map_err(|error| {
        let message = error.kind().to_string();
        let mut characters = message.chars();
        let first = characters.next().map(|first| first.to_ascii_lowercase());
        let message = first.into_iter().chain(characters).collect();
        let at = LocationIndex::new(file, text).at(error.range().start);
        Box::new(ConfigError::Syntax { at, format: "JSON", message })
    })?;
    Ok(parsed.value)
}

/// Turns byte offsets into lines and columns.
struct LocationIndex<'a> {
    file: &'a Arc<Path>,
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> LocationIndex<'a> {
    fn new(file: &'a Arc<Path>, text: &'a str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(index, _)| index + 1);
        Self { file, text, starts: std::iter::once(0).chain(ends).collect() }
    }

    fn at(&self, offset: usize) -> ConfigSource {
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        // An offset within a character counts as the beginning of its line.
        let before = self.text.get(self.starts[line - 1]..offset.min(self.text.len())).unwrap_or("");
        let column = before.chars().count() + 1;
        ConfigSource::new(
            self.file,
            u32::try_from(line).unwrap_or(u32::MAX),
            u32::try_from(column).unwrap_or(u32::MAX),
        )
    }

    fn table(&self, table: &DeTable<'_>) -> Vec<ConfigEntry> {
        let mut entries: Vec<_> = table.iter().collect();
        // The map is sorted by key; people expect the order they wrote.
        entries.sort_by_key(|(key, _)| key.span().start);
        entries
            .into_iter()
            .map(|(key, value)| ConfigEntry {
                at: self.at(key.span().start),
                key: key.get_ref().to_string(),
                node: self.toml(value.get_ref(), value.span().start),
            })
            .collect()
    }

    fn toml(&self, value: &DeValue<'_>, offset: usize) -> ConfigNode {
        let value = match value {
            DeValue::String(text) => ConfigValue::String(text.to_string()),
            DeValue::Integer(number) => ConfigValue::Number(
                i64::from_str_radix(number.as_str(), number.radix())
                    .map_or_else(|_| number.to_string(), |number| number.to_string()),
            ),
            DeValue::Float(number) => ConfigValue::Number(number.as_str().to_owned()),
            DeValue::Boolean(value) => ConfigValue::Boolean(*value),
            DeValue::Datetime(_) => ConfigValue::Date,
            DeValue::Array(items) => ConfigValue::Array(
                items.iter().map(|item| self.toml(item.get_ref(), item.span().start)).collect(),
            ),
            DeValue::Table(table) => ConfigValue::Object(self.table(table)),
        };
        ConfigNode { at: self.at(offset), value }
    }

    fn json(&self, value: &ast::Value<'_>) -> ConfigNode {
        let (range, value) = match value {
            ast::Value::StringLit(lit) => (lit.range, ConfigValue::String(lit.value.to_string())),
            ast::Value::NumberLit(lit) => (lit.range, ConfigValue::Number(lit.value.to_owned())),
            ast::Value::BooleanLit(lit) => (lit.range, ConfigValue::Boolean(lit.value)),
            ast::Value::NullKeyword(lit) => (lit.range, ConfigValue::Null),
            ast::Value::Array(array) => {
                (array.range, ConfigValue::Array(array.elements.iter().map(|item| self.json(item)).collect()))
            }
            ast::Value::Object(object) => {
                let entries = object.properties.iter().map(|property| ConfigEntry {
                    at: self.at(property.range.start),
                    key: property.name.as_str().to_owned(),
                    node: self.json(&property.value),
                });
                (object.range, ConfigValue::Object(entries.collect()))
            }
        };
        ConfigNode { at: self.at(range.start), value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(file: &str, text: &str) -> Result<ConfigNode, String> {
        let path: Arc<Path> = Path::new(file).into();
        parse(&path, format(&path, text), text).map_err(|error| error.to_string())
    }

    #[test]
    fn both_formats_know_where_things_stand() {
        for (file, text, place) in [
            ("a.toml", "[servers.one]\nargs = [\n  'é', 1]\n", "a.toml:3:8"),
            ("a.json", "{\"servers\": {\"one\": {// x\n\"args\": [\n  \"é\", 1]}}}", "a.json:3:8"),
            ("a", "\u{feff}{\"servers\":{\"one\":{\r\n\"args\":\r\n[ \"é\", 1,]}}}", "a:3:8"),
        ] {
            let tree = tree(file, text).unwrap();
            let args = tree.get("servers").and_then(|n| n.get("one")).and_then(|n| n.get("args")).unwrap();
            let ConfigValue::Array(items) = &args.value else { panic!("{args:?}") };
            assert_eq!(items[1].at.to_string(), place);
            assert!(matches!(&items[1].value, ConfigValue::Number(n) if n == "1"));
        }
    }

    #[test]
    fn toml_keeps_the_order_of_the_file() {
        let tree = tree("a.toml", "[s.b]\n[s.a]\n[t]\n[s.c]\nx = 0x10\n").unwrap();
        let servers = tree.get("s").unwrap();
        let keys: Vec<_> = servers.as_object().unwrap().iter().map(|e| e.key.as_str()).collect();
        assert_eq!(keys, ["b", "a", "c"]);
        let number = servers.get("c").and_then(|c| c.get("x")).unwrap();
        assert!(matches!(&number.value, ConfigValue::Number(n) if n == "16"));
    }

    #[test]
    fn mistakes_name_line_and_column() {
        assert_eq!(
            tree("a.json", "{\n  \"a\": tru\n}").unwrap_err(),
            "a.json:2:8: not valid JSON: unexpected word"
        );
        assert_eq!(
            tree("a.json", "{\"a\": 1\n \"b\": 2}").unwrap_err(),
            "a.json:1:8: not valid JSON: expected comma"
        );
        assert_eq!(tree("a.json", " \n ").unwrap_err(), "a.json:1:1: not valid JSON: the file is empty");
        let error = tree("a.toml", "a = 1\nb = = 2\n").unwrap_err();
        assert!(error.starts_with("a.toml:2:5: not valid TOML: "), "{error}");
        let error = tree("a.toml", "a = 1\na = 2\n").unwrap_err();
        assert!(error.starts_with("a.toml:2:1: not valid TOML: "), "{error}");
    }

    #[test]
    fn yaml_is_known_by_its_extension_or_its_beginning() {
        for (file, text) in
            [("a.yaml", "x"), ("a.YML", "{}"), ("config", "---\na: 1"), ("config", "extensions:\n")]
        {
            assert_eq!(format(Path::new(file), text), ConfigFormat::Yaml, "{file}");
        }
    }

    #[test]
    fn nothing_makes_it_panic() {
        let deep = "[".repeat(100_000);
        for text in ["", "{", "}", "\u{feff}", "{\"a\":", "\"", "/*", "//", "[a", "a.b.c=", "{\"\\u", &deep] {
            for file in ["a.json", "a.toml", "a.yaml"] {
                let _ = tree(file, text);
            }
        }
    }
}
