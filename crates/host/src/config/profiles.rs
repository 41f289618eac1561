//! Profiles: named sets of servers and tools, the tables `[profiles.NAME]`.

use std::collections::BTreeMap;

use super::document::{ConfigEntry, ConfigNode};
use super::error::{ConfigError, ConfigSource, SettingPath};
use super::keys;
use super::nearest::hint;
use super::reference_values::is_secret_reference;
use super::table::{ConfigReport, SettingsTable};
use super::tool_filter::ToolFilter;

/// The longest name of a profile, in bytes.
pub const MAX_PROFILE_NAME: usize = 32;
/// Maximum number of profiles. Each has an endpoint of its own.
pub const MAX_PROFILES: usize = 64;
/// The longest title, in bytes.
const MAX_TITLE: usize = 128;
/// The longest description, in bytes.
const MAX_DESCRIPTION: usize = 1024;
/// Maximum number of groups.
const MAX_GROUPS: usize = 64;
/// Maximum number of server names that a message lists.
const MAX_LISTED: usize = 12;

/// Description of a valid name of a profile.
pub const PROFILE_NAME_FORM: &str =
    "1 to 32 lower-case letters, digits, `-` and `_`, with a letter or a digit first and last, and no `__`";

/// A named set of servers and tools with an endpoint of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProfileConfig {
    /// Name of the profile, the last segment of its endpoint's path.
    pub name: String,
    /// Title for people.
    pub title: Option<String>,
    /// Description for people.
    pub description: Option<String>,
    /// Servers that the profile shows. None for all.
    pub servers: Option<Vec<String>>,
    /// Servers that the profile does not show.
    pub exclude: Vec<String>,
    /// Filters of tools, by server. They narrow the filters of the servers' own entries.
    pub tools: BTreeMap<String, ToolFilter>,
    /// Groups of the people who may use it. None for everybody.
    pub groups: Option<Vec<String>>,
    /// Secrets that stand in for others: the name in `${secret:NAME}`, and the stored secret.
    pub secrets: BTreeMap<String, String>,
    /// Servers that use such a secret. They run for this profile alone.
    pub own_servers: Vec<String>,
    /// Location of its entry.
    pub source: ConfigSource,
}

impl ProfileConfig {
    /// Creates a profile that shows all servers.
    pub fn new(name: impl Into<String>, source: ConfigSource) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            servers: None,
            exclude: Vec::new(),
            tools: BTreeMap::new(),
            groups: None,
            secrets: BTreeMap::new(),
            own_servers: Vec::new(),
            source,
        }
    }

    /// Returns true if the profile shows the server of this name.
    #[must_use]
    pub fn includes(&self, server: &str) -> bool {
        let is_listed = |names: &Vec<String>| names.iter().any(|name| name == server);
        self.servers.as_ref().is_none_or(is_listed) && !is_listed(&self.exclude)
    }

    /// Returns true if a person who is in these groups may use the profile.
    #[must_use]
    pub fn admits(&self, groups: &[String]) -> bool {
        self.groups.as_ref().is_none_or(|named| named.iter().any(|group| groups.contains(group)))
    }

    /// Returns true if the profile names the server in any of its settings.
    #[must_use]
    pub fn names(&self, server: &str) -> bool {
        let listed = self.servers.iter().flatten().chain(&self.exclude);
        listed.chain(self.tools.keys()).any(|name| name == server)
    }

    /// Returns the profile without its place in a file. Two of these are equal if the profiles are.
    #[must_use]
    pub(crate) fn without_source(&self) -> Self {
        Self { source: ConfigSource::unwritten(""), ..self.clone() }
    }
}

/// Returns true if a text can be the name of a profile. It stands in paths, on command lines and in records.
#[must_use]
pub fn is_profile_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=MAX_PROFILE_NAME).contains(&name.len())
        && name.bytes().all(|byte| is_plain(byte) || matches!(byte, b'-' | b'_'))
        && [name.bytes().next(), name.bytes().next_back()].into_iter().flatten().all(is_plain)
        // The shown id of a task ends its label with the first `__`.
        && !name.contains("__")
}

/// Returns an error's hint for an unknown profile: a similar name, and the known ones.
#[must_use]
pub fn profile_hint(name: &str, known: &[&str]) -> String {
    let all = || format!("known profiles: {}", known.join(", "));
    match super::nearest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`? {}", all()),
        None if known.is_empty() => "no profiles are configured".to_owned(),
        None => all(),
    }
}

/// A profile of one file. Its names of servers can be checked once all files are read.
#[derive(Clone, Debug)]
pub(super) struct ParsedProfile {
    pub(super) config: ProfileConfig,
    /// Names of servers, each with its location and setting.
    names: Vec<(String, ConfigSource, String)>,
}

/// Reads the table `profiles`.
pub(super) fn read_profiles(profiles: &ConfigEntry, report: &mut ConfigReport) -> Vec<ParsedProfile> {
    let Some(entries) = profiles.node.as_object() else {
        report.wrong_type::<()>(&profiles.node, None, profiles.key.clone(), "a table");
        return Vec::new();
    };
    entries.iter().filter_map(|entry| read_profile(entry, report)).collect()
}

fn read_profile(entry: &ConfigEntry, report: &mut ConfigReport) -> Option<ParsedProfile> {
    let path = format!("profiles.{}.", entry.key);
    if !is_profile_name(&entry.key) {
        let near =
            suggest_name(&entry.key).map_or_else(String::new, |name| format!("; for example `{name}`"));
        let expected = format!("a name of {PROFILE_NAME_FORM}");
        invalid(report, &entry.at, path.trim_end_matches('.'), expected, near);
    }
    let mut table = SettingsTable::new(&entry.node, None, &keys::PROFILE, &path, report)?;
    let mut config = ProfileConfig::new(entry.key.clone(), entry.at.clone());
    config.title = short_text(&mut table, "title", MAX_TITLE, report);
    config.description = short_text(&mut table, "description", MAX_DESCRIPTION, report);
    let mut names = Vec::new();
    let mut located = |key: &'static str, table: &mut SettingsTable<'_>, report: &mut ConfigReport| {
        let entry = table.take(key, report)?;
        let texts = table.texts(entry, report)?;
        let mut list: Vec<String> = Vec::with_capacity(texts.len());
        for (index, (text, at)) in texts.into_iter().enumerate() {
            let field = format!("{}[{index}]", table.field(entry));
            if list.iter().any(|known| known == text) {
                invalid(report, at, &field, "each server once".to_owned(), "");
                continue;
            }
            names.push((text.to_owned(), at.clone(), field));
            list.push(text.to_owned());
        }
        Some(list)
    };
    config.servers = located("servers", &mut table, report);
    let exclude = located("exclude", &mut table, report);
    config.exclude = exclude.unwrap_or_default();
    for (name, at, field) in &names {
        if config.servers.as_ref().is_some_and(|servers| servers.contains(name))
            && config.exclude.contains(name)
            && field.contains(".exclude[")
        {
            invalid(report, at, field, "a server that `servers` does not list".to_owned(), "");
        }
    }
    if let Some(tools) = table.take("tools", report) {
        config.tools = read_tools(&table, tools, &mut names, report);
    }
    if let Some(groups) = table.take("groups", report) {
        config.groups = read_groups(&table, groups, report);
    }
    if let Some(secrets) = table.take("secrets", report) {
        config.secrets = read_secrets(&table, secrets, report);
    }
    table.report_unknown_keys(report);
    Some(ParsedProfile { config, names })
}

/// Reads `tools`: a filter for each server, in the form of the filter of a server's entry.
fn read_tools(
    table: &SettingsTable<'_>,
    tools: &ConfigEntry,
    names: &mut Vec<(String, ConfigSource, String)>,
    report: &mut ConfigReport,
) -> BTreeMap<String, ToolFilter> {
    let field = table.field(tools);
    let Some(entries) = tools.node.as_object() else {
        return report.wrong_type(&tools.node, None, field, "a table").unwrap_or_default();
    };
    let mut filters = BTreeMap::new();
    for entry in entries {
        let field = format!("{field}.{}", entry.key);
        names.push((entry.key.clone(), entry.at.clone(), field.clone()));
        let path = format!("{field}.");
        let filter = SettingsTable::new(&entry.node, None, &keys::PROFILE_TOOLS, &path, report);
        let Some(mut filter) = filter else { continue };
        let include = filter.strings("include", report);
        let exclude = filter.strings("exclude", report).unwrap_or_default();
        filter.report_unknown_keys(report);
        filters.insert(entry.key.clone(), ToolFilter { include, exclude });
    }
    filters
}

/// Reads `groups`. A list that cannot be read admits nobody.
fn read_groups(
    table: &SettingsTable<'_>,
    groups: &ConfigEntry,
    report: &mut ConfigReport,
) -> Option<Vec<String>> {
    let field = table.field(groups);
    let Some(texts) = table.texts(groups, report) else { return Some(Vec::new()) };
    let named: Vec<String> = texts.into_iter().map(|(group, _)| group.to_owned()).collect();
    if named.is_empty() || named.len() > MAX_GROUPS || named.iter().any(String::is_empty) {
        invalid(report, &groups.at, &field, format!("1 to {MAX_GROUPS} names of groups"), "");
    }
    Some(named)
}

/// Reads `secrets`: names of stored secrets, by the names in references.
fn read_secrets(
    table: &SettingsTable<'_>,
    secrets: &ConfigEntry,
    report: &mut ConfigReport,
) -> BTreeMap<String, String> {
    let field = table.field(secrets);
    let Some(entries) = secrets.node.as_object() else {
        return report.wrong_type(&secrets.node, None, field, "a table").unwrap_or_default();
    };
    let expected = "the name of a secret: letters, digits, `.`, `_` and `-`";
    let mut found = BTreeMap::new();
    for entry in entries {
        let field = format!("{field}.{}", entry.key);
        if !is_secret_reference(&entry.key) {
            invalid(report, &entry.at, &field, expected.to_owned(), "");
            continue;
        }
        match entry.node.as_str() {
            Some(name) if is_secret_reference(name) => {
                found.insert(entry.key.clone(), name.to_owned());
            }
            Some(_) => invalid(report, &entry.node.at, &field, expected.to_owned(), ""),
            None => drop(report.wrong_type::<()>(&entry.node, None, field, "a string")),
        }
    }
    found
}

/// Reads a text of one line.
fn short_text(
    table: &mut SettingsTable<'_>,
    key: &'static str,
    limit: usize,
    report: &mut ConfigReport,
) -> Option<String> {
    let entry = table.take(key, report)?;
    let field = table.field(entry);
    let text = text(&entry.node, &field, report)?;
    if text.len() > limit || text.chars().any(char::is_control) {
        let expected = format!("a text of at most {limit} bytes on one line");
        invalid(report, &entry.node.at, &field, expected, "");
        return None;
    }
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

fn text<'n>(node: &'n ConfigNode, field: &str, report: &mut ConfigReport) -> Option<&'n str> {
    match node.as_str() {
        Some(text) => Some(text),
        None => report.wrong_type(node, None, field.to_owned(), "a string"),
    }
}

/// Returns a valid name that resembles this one.
fn suggest_name(name: &str) -> Option<String> {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let letters: String = name.chars().map(plain).take(MAX_PROFILE_NAME).collect();
    Some(letters.trim_matches('-').to_owned()).filter(|name| is_profile_name(name))
}

/// Checks profiles, once the names of the `servers` of all files are known. Returns their configuration.
pub(super) fn check_profiles(
    profiles: Vec<ParsedProfile>,
    servers: &[&str],
    errors: &mut Vec<ConfigError>,
) -> Vec<ProfileConfig> {
    if let Some(extra) = profiles.get(MAX_PROFILES) {
        errors.push(ConfigError::Invalid {
            at: extra.config.source.clone(),
            place: SettingPath { server: None, field: "profiles".to_owned() },
            expected: format!("at most {MAX_PROFILES} profiles"),
            hint: String::new(),
        });
    }
    let mut checked: Vec<ProfileConfig> = Vec::with_capacity(profiles.len());
    for profile in profiles {
        let config = profile.config;
        if let Some(first) = checked.iter().find(|known| known.name == config.name) {
            errors.push(ConfigError::DuplicateProfile {
                name: config.name.clone(),
                first: first.source.clone(),
                second: config.source.clone(),
            });
            continue;
        }
        // Each server has an endpoint of its own beside those of the profiles.
        if servers.iter().any(|server| server.eq_ignore_ascii_case(&config.name)) {
            errors
                .push(ConfigError::ProfileIsServer { at: config.source.clone(), name: config.name.clone() });
        }
        for (name, at, field) in profile.names {
            let is_known = servers.contains(&name.as_str());
            let is_filter = field.contains(".tools.");
            if is_known && (!is_filter || config.includes(&name)) {
                continue;
            }
            let (expected, shown): (_, Vec<&str>) = match is_known {
                true => {
                    let shown = servers.iter().filter(|server| config.includes(server)).copied();
                    ("the name of a server that the profile shows", shown.collect())
                }
                false => ("the name of a configured server", servers.to_vec()),
            };
            let near = match hint(&name, shown.iter().copied()) {
                near if !near.is_empty() => near,
                _ if shown.is_empty() => "; there is none".to_owned(),
                _ => {
                    let more = if shown.len() > MAX_LISTED { ", …" } else { "" };
                    format!("; known: {}{more}", shown[..shown.len().min(MAX_LISTED)].join(", "))
                }
            };
            let place = SettingPath { server: None, field };
            errors.push(ConfigError::Invalid { at, place, expected: expected.to_owned(), hint: near });
        }
        checked.push(config);
    }
    checked
}

fn invalid(
    report: &mut ConfigReport,
    at: &ConfigSource,
    field: &str,
    expected: String,
    hint: impl Into<String>,
) {
    report.errors.push(ConfigError::Invalid {
        at: at.clone(),
        place: SettingPath { server: None, field: field.to_owned() },
        expected,
        hint: hint.into(),
    });
}
