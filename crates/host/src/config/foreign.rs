//! The configuration files of other applications.
//!
//! Servers are read from the first of these keys that is present: `mcpServers` (most), `servers` (VS Code),
//! `mcp_servers` (Codex), `mcp.servers` (VS Code settings, OpenCode 2), `mcp` (OpenCode 1, Crush), `context_servers`
//! (Zed), `extensions` (Goose: YAML only), any key that ends in `.mcpServers`; or the top level, if it contains nothing but servers. In
//! `~/.claude.json`, the servers of the project in the workspace folder take precedence.

use std::path::Path;

use super::document::{ConfigEntry, ConfigNode, ConfigValue};
use super::error::{ConfigError, ConfigSource, SettingPath};
use super::expand::{ConfigDialect, ExpansionScope};
use super::model::{ConfigInput, RejectedServer};
use super::nearest::misspelt_key;
use super::partial::PartialConfig;
use super::server::{ServerDefaults, read_server};

const SERVER_TABLE_KEYS: [&str; 5] = ["mcpServers", "servers", "mcp_servers", "mcp", "context_servers"];

/// Returns true if a TOML file belongs to another application.
pub(super) fn is_foreign_toml(file: &Path, root: &ConfigNode) -> bool {
    let has = |key| root.get(key).is_some();
    // What is in the file comes before where it lies.
    let ours = has("servers") || has("endpoint") || has("defaults");
    !ours && (has("mcp_servers") || has("mcpServers") || in_folder(file, ".codex"))
}

/// Returns the dialect of a JSON file, as far as its path determines it.
pub(super) fn dialect(file: &Path) -> ConfigDialect {
    let is_named = |names: &[&str]| {
        file.file_name().and_then(|name| name.to_str()).is_some_and(|name| names.contains(&name))
    };
    let is_below = |folder: &str| file.ancestors().skip(1).any(|above| above.ends_with(folder));
    let is_antigravity =
        is_named(&["mcp_config.json"]) && (is_below(".gemini") || in_folder(file, ".agents"));
    if in_folder(file, ".gemini") || is_named(&["gemini-extension.json"]) || is_antigravity {
        ConfigDialect::Gemini
    } else if is_named(&["crush.json", ".crush.json"]) {
        ConfigDialect::Crush
    } else if is_named(&["opencode.json", "opencode.jsonc"]) {
        ConfigDialect::OpenCode
    } else if is_below(".continue") {
        ConfigDialect::Continue
    } else {
        ConfigDialect::Common
    }
}

/// Returns the dialect of a YAML file.
pub(super) fn yaml_dialect(file: &Path, root: &ConfigNode) -> ConfigDialect {
    let is_list = root.get("mcpServers").is_some_and(|node| matches!(node.value, ConfigValue::Array(_)));
    let is_below = file.ancestors().skip(1).any(|above| above.ends_with(".continue"));
    if is_list || is_below { ConfigDialect::Continue } else { ConfigDialect::Goose }
}

fn in_folder(file: &Path, name: &str) -> bool {
    file.parent().is_some_and(|folder| folder.file_name().is_some_and(|folder| folder == name))
}

/// Reads a file that is not in Hospes' own format.
pub(super) fn read_foreign(root: &ConfigNode, scope: &ExpansionScope<'_>, part: &mut PartialConfig) {
    let found = find_servers(root, scope.dialect);
    let local = find_project_servers(root, scope.workspace);
    if found.is_none() && local.is_none() {
        let keys = root.as_object().unwrap_or_default();
        let hint = keys.iter().find_map(|entry| {
            let meant = misspelt_table(entry, scope.dialect)?;
            Some(format!("; did you mean `{meant}` by `{}` in line {}?", entry.key, entry.at.line()))
        });
        let error = ConfigError::NoServers { at: root.at.clone(), hint: hint.unwrap_or_default() };
        part.report.errors.push(error);
        return;
    }
    part.inputs = found.as_ref().and_then(|found| found.inputs).map(read_inputs).unwrap_or_default();
    let described = part.inputs.iter().filter(|input| !input.description.is_empty());
    let inputs: Vec<_> = described.map(|input| (input.id.clone(), input.description.clone())).collect();
    let dialect = match (&found, scope.dialect) {
        (Some(found), ConfigDialect::Common) if found.is_opencode => ConfigDialect::OpenCode,
        _ => scope.dialect,
    };
    let scope = &ExpansionScope { dialect, inputs: &inputs, ..*scope };
    if let Some(found) = &found {
        let mut same = root.as_object().unwrap_or_default().iter().filter(|entry| entry.key == found.key);
        // Readers of JSON differ in which of the two they take.
        if let (Some(first), Some(second)) = (same.next(), same.next()) {
            part.report.report_repeated_key(second, None, found.key.to_owned(), first);
            return;
        }
        for other in other_server_tables(root, found.key) {
            let message =
                format!("the servers under `{}` are ignored because `{}` is present", other.key, found.key);
            part.report.warn(&other.at, None, message);
        }
    }
    let mut seen: Vec<String> = Vec::new();
    let mut parts: Vec<(ConfigSource, String)> = Vec::new();
    for (node, is_local) in [(local, true), (found.as_ref().map(|found| found.node), false)] {
        let Some(node) = node else { continue };
        // As a key without a value in YAML.
        if matches!(node.value, ConfigValue::Null) {
            continue;
        }
        let listed = list_entries(node, part);
        // An empty list in a file of these keys may be meant as servers, or as something else.
        if is_empty_list(node) && scope.dialect == ConfigDialect::Common {
            let key = found.as_ref().map_or("mcpServers", |found| found.key);
            part.report.warn(
                &node.at,
                None,
                format!("`{key}` is an empty list; expected a table of servers"),
            );
        }
        let Some(entries) = node.as_object().or(listed.as_deref()) else {
            let key = found.as_ref().map_or("mcpServers", |found| found.key).to_owned();
            part.report.wrong_type::<()>(node, None, key, "a table of servers");
            continue;
        };
        // Only the project's own servers shadow others: two of one name in one table are a mistake, found later.
        let shadowing = if is_local { 0 } else { seen.len() };
        for entry in entries {
            if seen[..shadowing].contains(&entry.key) {
                continue;
            }
            seen.push(entry.key.clone());
            if is_part_of_goose(entry, scope.dialect) {
                parts.push((entry.at.clone(), format!("`{}`", entry.key)));
                continue;
            }
            let before = part.report.errors.len();
            let reading = read_server(&entry.key, entry, scope, ServerDefaults::default(), &mut part.report);
            part.add(entry, reading, before);
        }
    }
    if let Some((first, _)) = parts.first() {
        let names: Vec<&str> = parts.iter().map(|(_, name)| name.as_str()).collect();
        let message = format!("skipped because they are parts of Goose, not servers: {}", names.join(", "));
        part.report.warn(first, None, message);
    }
}

fn is_empty_list(node: &ConfigNode) -> bool {
    matches!(&node.value, ConfigValue::Array(items) if items.is_empty())
}

/// Returns the key under which the servers belong, if the entry was most likely meant to contain them.
fn misspelt_table(entry: &ConfigEntry, dialect: ConfigDialect) -> Option<&'static str> {
    let known = SERVER_TABLE_KEYS.into_iter().filter(|key| !is_settings_key(key, dialect));
    if is_settings_key(&entry.key, dialect) {
        return are_servers(&entry.node).then_some("mcpServers");
    }
    misspelt_key(&entry.key, known)
}

/// Returns true if the application has settings under a key that contains servers elsewhere.
fn is_settings_key(key: &str, dialect: ConfigDialect) -> bool {
    dialect == ConfigDialect::Gemini && key == "mcp"
}

/// Returns true if the entry is a feature of Goose itself, which it lists among the servers.
fn is_part_of_goose(entry: &ConfigEntry, dialect: ConfigDialect) -> bool {
    let kind = entry.node.get("type").and_then(ConfigNode::as_str);
    dialect == ConfigDialect::Goose
        && matches!(kind, Some("builtin" | "platform" | "frontend" | "inline_python"))
}

struct ServersTable<'n> {
    key: &'n str,
    node: &'n ConfigNode,
    inputs: Option<&'n ConfigNode>,
    is_opencode: bool,
}

fn find_servers(root: &ConfigNode, dialect: ConfigDialect) -> Option<ServersTable<'_>> {
    let inputs = root.get("inputs");
    // Elsewhere extensions are something else.
    let extensions = (dialect == ConfigDialect::Goose).then_some("extensions");
    for key in SERVER_TABLE_KEYS.into_iter().chain(extensions) {
        let Some(node) = root.get(key) else { continue };
        if key == "mcp" {
            if let Some(servers) = node.get("servers").filter(|servers| has_only_tables(servers)) {
                return Some(ServersTable {
                    key,
                    node: servers,
                    inputs: node.get("inputs"),
                    is_opencode: is_opencode(servers),
                });
            }
            if is_settings_key(key, dialect) {
                continue;
            }
            return Some(ServersTable { key, node, inputs, is_opencode: true });
        }
        return Some(ServersTable { key, node, inputs, is_opencode: false });
    }
    let entries = root.as_object()?;
    if let Some(entry) = entries.iter().find(|entry| entry.key.ends_with(".mcpServers")) {
        return Some(ServersTable { key: &entry.key, node: &entry.node, inputs, is_opencode: false });
    }
    are_servers(root).then_some(ServersTable {
        key: "the file",
        node: root,
        inputs: None,
        is_opencode: false,
    })
}

/// Returns true if all entries of an object are objects, as servers are.
fn has_only_tables(node: &ConfigNode) -> bool {
    let are_tables = |entries: &[ConfigEntry]| entries.iter().all(|entry| entry.node.as_object().is_some());
    node.as_object().is_some_and(are_tables)
}

/// Returns true if servers are written as OpenCode writes them.
fn is_opencode(servers: &ConfigNode) -> bool {
    servers.as_object().unwrap_or_default().iter().any(|entry| {
        let kind = entry.node.get("type").and_then(ConfigNode::as_str);
        let command = entry.node.get("command").map(|command| &command.value);
        matches!(kind, Some("local" | "remote")) || matches!(command, Some(ConfigValue::Array(_)))
    })
}

/// Returns the entries of a list of servers, each with the name that it states. An entry without one is rejected.
fn list_entries(node: &ConfigNode, part: &mut PartialConfig) -> Option<Vec<ConfigEntry>> {
    let ConfigValue::Array(items) = &node.value else { return None };
    let mut entries = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        match item.get("name").and_then(ConfigNode::as_str) {
            Some(name) => {
                entries.push(ConfigEntry { at: item.at.clone(), key: name.to_owned(), node: item.clone() });
            }
            None => {
                let name = format!("mcpServers[{index}]");
                let place = SettingPath { server: Some(name.clone()), field: "name".to_owned() };
                let expected = "a table with `name`".to_owned();
                let error =
                    ConfigError::Invalid { at: item.at.clone(), place, expected, hint: String::new() };
                let secrets = item.secret_names();
                part.rejected.push(RejectedServer {
                    name,
                    source: item.at.clone(),
                    errors: error.into(),
                    secrets,
                });
            }
        }
    }
    Some(entries)
}

/// Returns other keys of the file that contain servers.
fn other_server_tables<'n>(root: &'n ConfigNode, chosen: &str) -> impl Iterator<Item = &'n ConfigEntry> {
    let entries = root.as_object().unwrap_or_default();
    entries.iter().filter(move |entry| {
        entry.key != chosen && SERVER_TABLE_KEYS.contains(&entry.key.as_str()) && are_servers(&entry.node)
    })
}

/// Returns true if all entries of a table look like servers.
fn are_servers(node: &ConfigNode) -> bool {
    let entries = node.as_object().unwrap_or_default();
    let looks_right = |entry: &ConfigEntry| {
        ["command", "url", "httpUrl", "serverUrl", "baseUrl"].iter().any(|key| entry.node.get(key).is_some())
    };
    !entries.is_empty() && entries.iter().all(looks_right)
}

/// Returns the servers that Claude Code has for one project in the user's file.
fn find_project_servers<'n>(root: &'n ConfigNode, workspace: &Path) -> Option<&'n ConfigNode> {
    let projects = root.get("projects")?.as_object()?;
    projects.iter().find(|entry| Path::new(&entry.key) == workspace)?.node.get("mcpServers")
}

/// Reads the `inputs` of VS Code.
fn read_inputs(inputs: &ConfigNode) -> Vec<ConfigInput> {
    let ConfigValue::Array(items) = &inputs.value else { return Vec::new() };
    let read = |item: &ConfigNode| {
        let text = |key| item.get(key).and_then(ConfigNode::as_str).map(str::to_owned);
        let options = match item.get("options").map(|options| &options.value) {
            Some(ConfigValue::Array(options)) => {
                let value = |option: &ConfigNode| {
                    option.as_str().or_else(|| option.get("value")?.as_str()).map(str::to_owned)
                };
                options.iter().filter_map(value).collect()
            }
            _ => Vec::new(),
        };
        Some(ConfigInput {
            id: text("id")?,
            description: text("description").unwrap_or_default(),
            is_secret: matches!(
                item.get("password").map(|node| &node.value),
                Some(ConfigValue::Boolean(true))
            ),
            options,
            default: text("default"),
        })
    };
    items.iter().filter_map(read).collect()
}
