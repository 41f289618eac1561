//! Rendering of the reference documentation from the table of keys.

use std::fmt::Write as _;

use super::{ALL, ConfigKey, FIRST_RELEASE, KeyTable, KeyType, SERVER};

const INTRODUCTION: &str = "\
<!-- Rendered from crates/host/src/config/keys.rs. To write it anew: HOSPES_WRITE=1 cargo test -p hospes-host config_reference -->

# Configuration reference

Every key of Hospes' own format. [Configuration](configuration.md) has an example and explains how the keys work together.
Each key exists since release 0.1.0 unless its description names a later one.

| Type | Written as |
|---|---|
| boolean | `true` or `false` |
| count | a whole number above zero |
| days | a whole number of days |
| duration | text with units such as `500ms`, `30s`, `2m`, `1h` or `1m30s`, or a number of seconds |
| duration or false | a duration, `true` for the default, or `false` for never |
| address | an address and a port such as `127.0.0.1:7337`, or a port alone |
| path | a file or folder; relative ones begin beside the configuration file, and `~/` is the home folder |
| secret | text that is never printed; usually a variable such as `${TOKEN}` |
| names | a table from names to strings, such as `{ LOG = \"debug\" }` |
| table | a table of its own, described where the key is explained |

Text, URLs, paths, secrets and names may contain [variables](configuration.md#variables).
";

const SPELLINGS: &str = "\
## Spellings of other applications

The same settings of a server in the [files of other applications](configuration.md#the-files-of-other-applications).

| Key of Hospes | Spellings of others |
|---|---|
";

/// Renders the reference of all keys of Hospes' own format, as a page in Markdown.
#[must_use]
pub fn config_reference() -> String {
    let mut page = INTRODUCTION.to_owned();
    for table in ALL {
        let title =
            if table.path.is_empty() { "Top of the file".to_owned() } else { format!("`[{}]`", table.path) };
        let _ = write!(page, "\n## {title}\n\n{}\n\n{}", table.about, rows(table));
    }
    let _ = write!(page, "\n{SPELLINGS}");
    for key in SERVER.keys.iter().filter(|key| !key.foreign.is_empty()) {
        let name = if key.is_own {
            format!("`{}`", key.name)
        } else {
            format!("— ({})", sentence_start(key.about))
        };
        let _ = writeln!(page, "| {name} | `{}` |", key.foreign.join("`, `"));
    }
    page
}

fn rows(table: &KeyTable) -> String {
    let mut rows = "| Key | Type | Default | Description |\n|---|---|---|---|\n".to_owned();
    for key in table.keys.iter().filter(|key| key.is_own) {
        let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
        let _ = writeln!(
            rows,
            "| `{}` | {} | {default} | {}{} |",
            key.name,
            form(key.value),
            key.about,
            since(key)
        );
    }
    rows
}

fn since(key: &ConfigKey) -> String {
    if key.since == FIRST_RELEASE { String::new() } else { format!(" Since {}.", key.since) }
}

fn form(value: KeyType) -> String {
    let form = match value {
        KeyType::Address => "address",
        KeyType::Boolean => "boolean",
        KeyType::Count => "count",
        KeyType::Days => "days",
        KeyType::Duration => "duration",
        KeyType::Interval => "duration or false",
        KeyType::Number => "number",
        KeyType::Text => "text",
        KeyType::Texts => "array of texts",
        KeyType::Command => "text or array of texts",
        KeyType::Path => "path",
        KeyType::Paths => "array of paths",
        KeyType::Secret => "secret",
        KeyType::Names => "names",
        KeyType::Table => "table",
        KeyType::Url => "URL",
        KeyType::OneOf(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
            return words.join(", ");
        }
    };
    form.to_owned()
}

/// Returns the description without its initial capital and full stop, for use in parentheses.
fn sentence_start(about: &str) -> String {
    let mut letters = about.trim_end_matches('.').chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
