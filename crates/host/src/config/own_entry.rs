//! Changes of one server's entry in Hospes' own file.

use std::path::Path;

use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, TomlError};

use super::model::ServerConfig;
use super::own_file::{OwnDocument, OwnFileError, read_own};
use super::own_text::server_toml;

/// Returns the text of Hospes' own file with another entry in place of one of the same name. Keys that stay the same are
/// not touched, so their form and comments stay, too.
///
/// # Errors
/// If the file has no such server or cannot be read, or if anything else would change with it.
pub fn replace_server(file: &Path, text: &str, server: &ServerConfig) -> Result<String, OwnFileError> {
    let read = |text: &str| read_own(file, text).map_err(|errors| failed(errors.to_string()));
    let old = read(text)?;
    let known = old.servers.iter().find(|known| known.name == server.name);
    let expected: Vec<ServerConfig> = old
        .servers
        .iter()
        .map(|known| if known.name == server.name { server.without_source() } else { known.without_source() })
        .collect();
    // Only what differs is written. An entry in a form in which that is not enough is written as a whole.
    let attempts = [known, None];
    let mut problem = "the result would be read differently".to_owned();
    for known in attempts.into_iter().skip(usize::from(known.is_none())) {
        let after = replaced(text, server, known)?;
        match read(&after) {
            Ok(new) => {
                let new_servers = new.servers.iter().map(ServerConfig::without_source);
                if new_servers.eq(expected.iter().cloned()) && old.rejected.len() == new.rejected.len() {
                    return Ok(after);
                }
                if let Some(rejected) = new.rejected.iter().find(|rejected| rejected.name == server.name) {
                    problem = rejected.errors.to_string();
                }
            }
            Err(error) => problem = error.to_string(),
        }
    }
    Err(failed(problem))
}

/// Returns the keys in which two entries of a server differ, as they are written: `command`, `env.TOKEN`, `tools.exclude`.
#[must_use]
pub fn changed_keys(before: &ServerConfig, after: &ServerConfig) -> Vec<String> {
    let (before, after) = (canonical(before), canonical(after));
    let mut keys = Vec::new();
    collect_changes(&before, &after, "", &mut keys);
    keys
}

fn collect_changes(before: &dyn TableLike, after: &dyn TableLike, prefix: &str, keys: &mut Vec<String>) {
    let added = after.iter().map(|(key, _)| key).filter(|key| !before.contains_key(key));
    for key in before.iter().map(|(key, _)| key).chain(added) {
        let (old, new) = (before.get(key), after.get(key));
        let path = format!("{prefix}{key}");
        let table = |item: Option<&Item>| match item {
            Some(item) => item
                .as_table_like()
                .map(|table| table.iter().map(|(k, i)| (k.to_owned(), i.clone())).collect()),
            None => Some(Table::new()),
        };
        let has_table = [old, new].into_iter().flatten().any(Item::is_table_like);
        match (table(old), table(new)) {
            (Some(old), Some(new)) if has_table => collect_changes(&old, &new, &format!("{path}."), keys),
            _ if old.and_then(value_of) != new.and_then(value_of) => keys.push(path),
            _ => {}
        }
    }
}

fn failed(reason: String) -> OwnFileError {
    OwnFileError::NotReplaced { reason }
}

/// Returns the entry of a server as it is written anew.
fn canonical(server: &ServerConfig) -> Table {
    let document: Result<DocumentMut, TomlError> = server_toml(server).parse();
    let mut document = document.expect("a written server is valid TOML");
    let servers = document.get_mut("servers").and_then(Item::as_table_mut);
    let entry = servers.and_then(|servers| servers.remove(&server.name));
    entry.and_then(|entry| entry.into_table().ok()).expect("a written server is a table")
}

/// Writes a server into the text. With what is `known` of its entry, only keys that differ from that are changed.
fn replaced(text: &str, server: &ServerConfig, known: Option<&ServerConfig>) -> Result<String, OwnFileError> {
    let mut edited = OwnDocument::read(text).map_err(failed)?;
    let entry = edited.document.get_mut("servers").and_then(|servers| servers.get_mut(&server.name));
    let entry = entry.ok_or_else(|| failed(format!("it has no server `{}`", server.name)))?;
    let is_short = !entry.is_table_like();
    if is_short {
        // A command line alone is short for a table.
        *entry = Item::Value(InlineTable::new().into());
    }
    let entry = entry.as_table_like_mut().ok_or_else(|| failed("its entry is no table".to_owned()))?;
    let mut new = canonical(server);
    match known.filter(|_| !is_short) {
        Some(known) => {
            let mut old = canonical(known);
            if entry.contains_key("args") {
                split_command(&mut old);
                split_command(&mut new);
            }
            if value_in(&old, "enabled") != value_in(&new, "enabled") {
                // The other spelling of the same setting.
                entry.remove("disabled");
            }
            merge(entry, Some(&old), &new);
        }
        None => merge(entry, None, &new),
    }
    Ok(edited.text())
}

/// Takes the program and its arguments apart, as in an entry that has both.
fn split_command(entry: &mut Table) {
    let words = entry.get("command").and_then(Item::as_array).cloned().unwrap_or_default();
    let mut words = words.iter().cloned().map(|mut word| {
        word.decor_mut().clear();
        word
    });
    let Some(program) = words.next() else { return };
    let arguments: toml_edit::Array = words.collect();
    entry.insert("command", Item::Value(program));
    entry.insert("args", Item::Value(arguments.into()));
}

/// Changes a table into the `new` one. Keys that are the same in `old` and `new` stay as they are written; without `old`,
/// those whose value is the new one.
fn merge(entry: &mut dyn TableLike, old: Option<&dyn TableLike>, new: &dyn TableLike) {
    let keys =
        |table: &dyn TableLike| -> Vec<String> { table.iter().map(|(key, _)| key.to_owned()).collect() };
    let gone = old.map_or_else(|| keys(entry), keys);
    for key in gone.iter().filter(|key| new.get(key).is_none()) {
        entry.remove(key);
    }
    for (key, item) in new.iter() {
        let before = match old {
            Some(old) => old.get(key).and_then(value_of),
            None => entry.get(key).and_then(value_of),
        };
        if before.is_some() && before == value_of(item) {
            continue;
        }
        let Some(value) = item.as_value() else { continue };
        let members = old.and_then(|old| old.get(key)).and_then(Item::as_table_like);
        match entry.get_mut(key) {
            // A table of variables keeps those that stay.
            Some(known) if members.is_some() && known.is_table_like() && value.is_inline_table() => {
                if let (Some(table), Some(new)) = (known.as_table_like_mut(), item.as_table_like()) {
                    merge(table, members, new);
                }
                // Its comments are in the white space, which formatting replaces.
                if let Some(table) =
                    known.as_inline_table_mut().filter(|table| !table.to_string().contains('#'))
                {
                    table.fmt();
                }
            }
            Some(Item::Value(known)) => {
                // The comment after the value stays.
                let decor = known.decor().clone();
                *known = value.clone();
                *known.decor_mut() = decor;
            }
            _ => drop(entry.insert(key, Item::Value(value.clone()))),
        }
    }
}

fn value_in(table: &Table, key: &str) -> Option<toml::Value> {
    table.get(key).and_then(value_of)
}

/// Returns the value of a key, without the form in which it is written.
fn value_of(item: &Item) -> Option<toml::Value> {
    let mut document = DocumentMut::new();
    let mut item = item.clone();
    if let Some(value) = item.as_value_mut() {
        value.decor_mut().clear();
    }
    document.insert("x", item);
    document.to_string().parse::<toml::Table>().ok()?.remove("x")
}

#[cfg(test)]
mod tests {
    use super::super::ServerTransport;
    use super::super::secret::Secret;
    use super::*;

    const FILE: &str = "/c/config.toml";

    #[test]
    fn a_server_is_replaced_and_the_form_of_all_else_stays() {
        let text = "# mine\n[servers.one]\ncommand = [\"a\", \"1.0\"] # the command\n# Token\nenv = { T = \"${secret:t}\" }\n\
            version = \"1.0\"\nroots = [\n  \"/r\",\n]\n[servers.one.sandbox]\nnetwork = 'none' # none\n\n[servers.two]\n\
            url = \"https://e.com\"\n";
        let config = read_own(Path::new(FILE), text).unwrap();
        let mut server = config.servers[0].clone();
        server.origin.version = Some("2.0".to_owned());
        server.origin.digest = Some("sha256:00".to_owned());
        server.transport = ServerTransport::stdio("a", ["2.0"]);
        let expected = "# mine\n[servers.one]\ncommand = [\"a\", \"2.0\"] # the command\nversion = \"2.0\"\nroots = [\n  \"/r\",\n]\n\
            digest = \"sha256:00\"\n[servers.one.sandbox]\nnetwork = 'none' # none\n\n[servers.two]\nurl = \"https://e.com\"\n";
        assert_eq!(replace_server(Path::new(FILE), text, &server).unwrap(), expected);
        let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        let after = replace_server(Path::new(FILE), &windows, &server).unwrap();
        assert_eq!(after, format!("\u{feff}{}", expected.replace('\n', "\r\n")));
        let short = "servers.one = \"a 1.0\"\n";
        let after = replace_server(Path::new(FILE), short, &server).unwrap();
        assert!(read_own(Path::new(FILE), &after).unwrap().servers[0].origin.digest.is_some(), "{after}");
        server.name = "three".to_owned();
        assert!(replace_server(Path::new(FILE), text, &server).is_err());
    }

    #[test]
    fn comments_in_a_table_of_variables_stay() {
        let text = "[servers.one]\ncommand = \"x\"\nenv = { A = \"1\", # one\n  # Two\n  B = \"2\" }\n";
        let mut server = read_own(Path::new(FILE), text).unwrap().servers.remove(0);
        let ServerTransport::Stdio(stdio) = &mut server.transport else { panic!() };
        stdio.env.insert("B".to_owned(), Secret::new("3"));
        let expected = text.replace("\"2\"", "\"3\"");
        assert_eq!(replace_server(Path::new(FILE), text, &server).unwrap(), expected);
    }

    #[test]
    fn only_the_keys_that_differ_are_written() {
        let text = "[servers.one]\ncommand = \"npx\"\nargs = [\n  \"-y\", # yes\n]\ndisabled = true # for now\n\
            [servers.one.env]\n# Mine\nA = \"1\" # one\nB = \"2\"\n";
        let mut server = read_own(Path::new(FILE), text).unwrap().servers.remove(0);
        server.disabled = false;
        let ServerTransport::Stdio(stdio) = &mut server.transport else { panic!() };
        stdio.env.insert("B".to_owned(), Secret::new("3"));
        let before = read_own(Path::new(FILE), text).unwrap().servers.remove(0);
        assert_eq!(changed_keys(&before, &server), ["env.B", "enabled"]);
        let expected = text.replace("disabled = true # for now\n", "").replace("\"2\"", "\"3\"");
        assert_eq!(replace_server(Path::new(FILE), text, &server).unwrap(), expected);
        let ServerTransport::Stdio(stdio) = &mut server.transport else { panic!() };
        stdio.args.push(super::super::ExpandedText::literal("more"));
        let after = replace_server(Path::new(FILE), text, &server).unwrap();
        assert!(after.contains("command = \"npx\"\nargs = [\"-y\", \"more\"]\n"), "{after}");
    }
}
