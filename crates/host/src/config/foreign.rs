//! The configuration files of other applications.
//!
//! Servers are read from the first of these keys that is present: `mcpServers` (most), `servers` (VS Code),
//! `mcp_servers` (Codex), `mcp.servers` (VS Code settings), `mcp` (OpenCode), `context_servers` (Zed), `extensions`
//! (Goose: YAML only), any key that ends in `.mcpServers`; or the top level, if it contains nothing but servers. In
//! `~/.claude.json`, the servers of the project in the workspace folder take precedence.

use std::path::Path;

use super::document::{ConfigEntry, ConfigNode, ConfigValue};
use super::error::ConfigError;
use super::expand::{ConfigDialect, ExpansionScope};
use super::nearest::nearest;
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
    let is_gemini =
        in_folder(file, ".gemini") || file.file_name().is_some_and(|n| n == "gemini-extension.json");
    if is_gemini { ConfigDialect::Gemini } else { ConfigDialect::Common }
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
            let meant = nearest(&entry.key, SERVER_TABLE_KEYS)?;
            Some(format!("; did you mean `{meant}` by `{}` in line {}?", entry.key, entry.at.line()))
        });
        let error = ConfigError::NoServers { at: root.at.clone(), hint: hint.unwrap_or_default() };
        part.report.errors.push(error);
        return;
    }
    let inputs = found.as_ref().and_then(|found| found.inputs).map(descriptions).unwrap_or_default();
    let dialect = match &found {
        Some(found) if found.is_opencode => ConfigDialect::OpenCode,
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
    let mut seen: Vec<&ConfigEntry> = Vec::new();
    let mut parts: Vec<&ConfigEntry> = Vec::new();
    for (node, is_local) in [(local, true), (found.as_ref().map(|found| found.node), false)] {
        let Some(node) = node else { continue };
        let Some(entries) = node.as_object() else {
            let key = found.as_ref().map_or("mcpServers", |found| found.key).to_owned();
            part.report.wrong_type::<()>(node, None, key, "a table of servers");
            continue;
        };
        // Only the project's own servers shadow others: two of one name in one table are a mistake, found later.
        let shadowing = if is_local { 0 } else { seen.len() };
        for entry in entries {
            if seen[..shadowing].iter().any(|local| local.key == entry.key) {
                continue;
            }
            seen.push(entry);
            if is_part_of_goose(entry, scope.dialect) {
                parts.push(entry);
                continue;
            }
            let before = part.report.errors.len();
            let reading = read_server(&entry.key, entry, scope, ServerDefaults::default(), &mut part.report);
            part.add(entry, reading, before);
        }
    }
    if let Some(first) = parts.first() {
        let names: Vec<String> = parts.iter().map(|entry| format!("`{}`", entry.key)).collect();
        let message = format!("skipped because they are parts of Goose, not servers: {}", names.join(", "));
        part.report.warn(&first.at, None, message);
    }
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
            if let Some(servers) = node.get("servers").filter(|servers| servers.as_object().is_some()) {
                return Some(ServersTable {
                    key,
                    node: servers,
                    inputs: node.get("inputs"),
                    is_opencode: false,
                });
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

/// Returns the ids and descriptions of VS Code's `inputs`.
fn descriptions(inputs: &ConfigNode) -> Vec<(String, String)> {
    let ConfigValue::Array(items) = &inputs.value else { return Vec::new() };
    items
        .iter()
        .filter_map(|item| {
            let text = |key| item.get(key).and_then(ConfigNode::as_str).map(str::to_owned);
            text("id").zip(text("description"))
        })
        .collect()
}
