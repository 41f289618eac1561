//! Changes of the profiles in Hospes' own file, in which comments, order and form of all else stay.

use std::collections::BTreeMap;
use std::path::Path;

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::ConfigLoader;
use super::model::{HostConfig, ServerConfig};
use super::own_file::{OwnDocument, OwnFileError};
use super::profiles::{ProfileConfig, is_profile_name};
use super::tool_filter::ToolFilter;

/// Names that the other configuration files of a host define. A profile may name their servers, and must not have one of
/// these names itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtherFileNames {
    /// Names of servers.
    pub servers: Vec<String>,
    /// Names of profiles.
    pub profiles: Vec<String>,
}

/// Returns the text of Hospes' own file with this profile: a new one at the end, or in place of the one of its name. Keys
/// that do not change keep their text, and its groups and secrets stay as they are.
///
/// # Errors
/// If the result is not the old configuration with this profile, because the file has a form in which the profile cannot
/// be written, or if the host could not load it together with the other files: a name is not known, or is taken.
pub fn set_profile(
    file: &Path,
    text: &str,
    profile: &ProfileConfig,
    others: &OtherFileNames,
) -> Result<String, OwnFileError> {
    let failed = |reason: String| OwnFileError::NotWritten { reason };
    if !is_profile_name(&profile.name) {
        return Err(failed(format!("expected a name of {}", super::PROFILE_NAME_FORM)));
    }
    let mut edited = OwnDocument::read(text).map_err(failed)?;
    let old = read(file, text).map_err(failed)?;
    let before = old.profile(&profile.name).cloned();
    let kept = before.clone().unwrap_or_else(|| profile.without_source());
    let wanted = ProfileConfig { groups: kept.groups, secrets: kept.secrets, ..profile.without_source() };
    write_profile(&mut edited.document, &wanted, before.as_ref()).map_err(failed)?;
    let after = edited.text();
    let mut expected: Vec<ProfileConfig> = old.profiles.iter().map(ProfileConfig::without_source).collect();
    match expected.iter_mut().find(|known| known.name == wanted.name) {
        Some(known) => *known = wanted,
        None => expected.push(wanted),
    }
    check(file, &old, &after, expected).map_err(failed)?;
    if others.profiles.contains(&profile.name) {
        let name = &profile.name;
        return Err(failed(format!("the profile `{name}` is described in another configuration file")));
    }
    let errors = loader().check_profiles_of(file, &after, &others.servers);
    errors.map_err(|errors| failed(errors.to_string()))?;
    Ok(after)
}

/// Returns the text of Hospes' own file without a profile: its table, the tables below it, and the comment above. All else
/// stays as it is.
///
/// # Errors
/// If the file has no such profile or cannot be read, or if anything else would change with it.
pub fn remove_profile(file: &Path, text: &str, name: &str) -> Result<String, OwnFileError> {
    let failed = |reason: String| OwnFileError::NotRemoved { reason };
    let mut edited = OwnDocument::read(text).map_err(failed)?;
    let old = read(file, text).map_err(failed)?;
    let profiles = edited.document.get_mut("profiles").and_then(Item::as_table_like_mut);
    let profiles = profiles.ok_or_else(|| failed("it has no table `profiles`".to_owned()))?;
    profiles.remove(name).ok_or_else(|| failed(format!("it has no profile `{name}`")))?;
    let after = edited.text();
    let others = old.profiles.iter().filter(|profile| profile.name != name);
    check(file, &old, &after, others.map(ProfileConfig::without_source).collect()).map_err(failed)?;
    Ok(after)
}

/// Takes a server out of all profiles that name it.
pub(super) fn forget_server(document: &mut DocumentMut, server: &str) {
    let Some(profiles) = document.get_mut("profiles").and_then(Item::as_table_like_mut) else { return };
    for (_, profile) in profiles.iter_mut() {
        let Some(profile) = profile.as_table_like_mut() else { continue };
        for key in ["servers", "exclude"] {
            if let Some(names) = profile.get_mut(key).and_then(Item::as_array_mut) {
                names.retain(|name| name.as_str() != Some(server));
            }
        }
        if let Some(tools) = profile.get_mut("tools").and_then(Item::as_table_like_mut) {
            tools.remove(server);
        }
    }
}

fn loader() -> ConfigLoader<'static> {
    ConfigLoader::new().keep_references(true).keep_going(true).allow_unset(true)
}

pub(super) fn read(file: &Path, text: &str) -> Result<HostConfig, String> {
    loader().parse(file, text).map_err(|errors| errors.to_string())
}

/// Checks that a new text is read as the old servers and the expected profiles.
pub(super) fn check(
    file: &Path,
    old: &HostConfig,
    after: &str,
    expected: Vec<ProfileConfig>,
) -> Result<(), String> {
    let new = read(file, after)?;
    let servers = |config: &HostConfig| -> Vec<ServerConfig> {
        config.servers.iter().map(ServerConfig::without_source).collect()
    };
    let profiles: Vec<ProfileConfig> = new.profiles.iter().map(ProfileConfig::without_source).collect();
    let is_same = servers(old) == servers(&new) && old.rejected.len() == new.rejected.len();
    let by_name = |profiles: Vec<ProfileConfig>| -> BTreeMap<String, ProfileConfig> {
        profiles.into_iter().map(|profile| (profile.name.clone(), profile)).collect()
    };
    if is_same && by_name(profiles) == by_name(expected) {
        Ok(())
    } else {
        Err("the result would be read differently".to_owned())
    }
}

fn write_profile(
    document: &mut DocumentMut,
    wanted: &ProfileConfig,
    before: Option<&ProfileConfig>,
) -> Result<(), String> {
    let profiles = document.entry("profiles").or_insert_with(|| {
        // Without a header of its own: its tables have one each.
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let profiles = profiles.as_table_like_mut().ok_or("`profiles` is not a table")?;
    if before.is_none() {
        let mut table = Table::new();
        table.decor_mut().set_prefix("\n");
        profiles.insert(&wanted.name, Item::Table(table));
    }
    let table = profiles.get_mut(&wanted.name).and_then(Item::as_table_like_mut);
    let table = table.ok_or("the profile is not a table")?;
    let nothing = ProfileConfig::new(wanted.name.clone(), wanted.source.clone());
    let before = before.unwrap_or(&nothing);
    if before.title != wanted.title {
        set(table, "title", wanted.title.as_deref().map(Value::from));
    }
    if before.description != wanted.description {
        set(table, "description", wanted.description.as_deref().map(Value::from));
    }
    if before.servers != wanted.servers {
        set(table, "servers", wanted.servers.as_deref().map(list));
    }
    if before.exclude != wanted.exclude {
        set(table, "exclude", Some(&*wanted.exclude).filter(|names| !names.is_empty()).map(list));
    }
    if before.tools != wanted.tools {
        write_tools(table, &before.tools, &wanted.tools)?;
    }
    Ok(())
}

fn write_tools(
    profile: &mut dyn TableLike,
    before: &BTreeMap<String, ToolFilter>,
    wanted: &BTreeMap<String, ToolFilter>,
) -> Result<(), String> {
    if wanted.is_empty() {
        profile.remove("tools");
        return Ok(());
    }
    if profile.get("tools").is_none() {
        let mut table = Table::new();
        // Written as `tools.NAME = { … }` below the keys of the profile.
        table.set_dotted(true);
        profile.insert("tools", Item::Table(table));
    }
    let tools = profile.get_mut("tools").and_then(Item::as_table_like_mut).ok_or("`tools` is not a table")?;
    for server in before.keys().filter(|server| !wanted.contains_key(*server)) {
        tools.remove(server);
    }
    for (server, filter) in wanted.iter().filter(|(server, filter)| before.get(*server) != Some(*filter)) {
        let mut table = InlineTable::new();
        if let Some(include) = &filter.include {
            table.insert("include", list(include));
        }
        if !filter.exclude.is_empty() {
            table.insert("exclude", list(&filter.exclude));
        }
        set(tools, server, Some(table.into()));
    }
    Ok(())
}

/// Sets a key, or removes it. The comment behind its value stays.
pub(super) fn set(table: &mut dyn TableLike, key: &str, value: Option<Value>) {
    let Some(mut value) = value else {
        table.remove(key);
        return;
    };
    match table.get_mut(key) {
        Some(item) => {
            if let Some(before) = item.as_value() {
                *value.decor_mut() = before.decor().clone();
            }
            *item = Item::Value(value);
        }
        None => drop(table.insert(key, Item::Value(value))),
    }
}

fn list(names: &[String]) -> Value {
    let mut array = Array::new();
    names.iter().for_each(|name| array.push(name.as_str()));
    Value::Array(array)
}

#[cfg(test)]
mod tests {
    use super::super::error::ConfigSource;
    use super::super::own_file::remove_server;
    use super::*;

    const FILE: &str = "/c/config.toml";
    const TEXT: &str = "# mine\n[servers.one] # first\ncommand = [\"a\"]\n[servers.two]\ncommand = [\"b\"]\n\n\
        # Work\n[profiles.work]\ntitle = \"Work\" # shown\nservers = [\"one\", \"two\"] # both\n\
        tools.two = { include = [\"read_*\"] }\nsecrets = { a = \"b\" }\ngroups = [\"it\"]\n\n# Home\n[profiles.home]\n";

    fn profile(name: &str) -> ProfileConfig {
        ProfileConfig::new(name, ConfigSource::unwritten(""))
    }

    /// Another file has the servers `one` and `far`, and the profile `away`.
    fn others() -> OtherFileNames {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        OtherFileNames { servers: names(&["one", "far"]), profiles: names(&["away"]) }
    }

    fn set_in(text: &str, profile: &ProfileConfig) -> String {
        set_profile(Path::new(FILE), text, profile, &others()).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_changed_profile_keeps_its_comments_groups_and_secrets() {
        let mut work = profile("work");
        work.title = Some("Work".to_owned());
        work.servers = Some(vec!["one".to_owned()]);
        work.tools.insert("one".to_owned(), ToolFilter { include: None, exclude: vec!["x".to_owned()] });
        let after = set_in(TEXT, &work);
        let expected = TEXT
            .replace("servers = [\"one\", \"two\"] # both", "servers = [\"one\"] # both")
            .replace("tools.two = { include = [\"read_*\"] }", "tools.one = { exclude = [\"x\"] }");
        assert_eq!(after, expected);
        work.title = None;
        work.servers = None;
        work.tools.clear();
        let after = set_in(&after, &work);
        assert!(
            after.contains("# Work\n[profiles.work]\nsecrets = { a = \"b\" }\ngroups = [\"it\"]\n"),
            "{after}"
        );
        let windows = TEXT.replace('\n', "\r\n");
        assert!(!set_in(&windows, &work).replace("\r\n", "").contains('\n'));
    }

    #[test]
    fn a_new_profile_stands_at_the_end() {
        let mut play = profile("play");
        play.description = Some("a \"b\"".to_owned());
        play.exclude = vec!["one".to_owned()];
        play.tools
            .insert("two".to_owned(), ToolFilter { include: Some(vec!["say".to_owned()]), exclude: vec![] });
        let others = OtherFileNames { servers: vec!["one".to_owned(), "two".to_owned()], ..others() };
        for text in [TEXT, "", "[servers.one]\ncommand = \"x\"", "profiles = { home = {} }\n"] {
            let Ok(after) = set_profile(Path::new(FILE), text, &play, &others) else {
                assert!(text.starts_with("profiles"), "{text}");
                continue;
            };
            assert!(text.starts_with("profiles") || after.starts_with(text), "{after}");
            assert!(after.contains("play"), "{after}");
            assert_eq!(remove_profile(Path::new(FILE), &after, "play").unwrap().trim_end(), text.trim_end());
        }
        assert!(set_profile(Path::new(FILE), TEXT, &profile("../x"), &others).is_err());
        assert!(set_profile(Path::new(FILE), "a = ", &play, &others).is_err());
    }

    #[test]
    fn a_profile_that_the_host_would_not_load_is_not_written() {
        let refused = |name: &str, change: fn(&mut ProfileConfig)| {
            let mut wanted = profile(name);
            change(&mut wanted);
            set_profile(Path::new(FILE), TEXT, &wanted, &others()).unwrap_err().to_string()
        };
        let unknown = refused("play", |play| play.servers = Some(vec!["three".to_owned()]));
        assert!(
            unknown.contains("`profiles.play.servers[0]`: expected the name of a configured"),
            "{unknown}"
        );
        let unknown = refused("play", |play| play.exclude = vec!["three".to_owned()]);
        assert!(unknown.contains("`profiles.play.exclude[0]`"), "{unknown}");
        let hidden = refused("play", |play| {
            play.exclude = vec!["one".to_owned()];
            play.tools.insert("one".to_owned(), ToolFilter { include: None, exclude: vec!["x".to_owned()] });
        });
        assert!(hidden.contains("a server that the profile shows"), "{hidden}");
        for server in ["one", "two", "far"] {
            let taken = refused(server, |_| {});
            assert!(taken.contains(&format!("profile `{server}` has the name of a server")), "{taken}");
        }
        let twice = refused("away", |_| {});
        assert!(twice.contains("the profile `away` is described in another configuration file"), "{twice}");
        // A profile may name servers of other files.
        let mut play = profile("play");
        play.servers = Some(vec!["far".to_owned()]);
        assert!(set_in(TEXT, &play).contains("servers = [\"far\"]"));
        // Whatever is wrong with a file, a profile can be taken out of it.
        let wrong = format!("{TEXT}[profiles.one]\n[profiles.play]\nservers = [\"three\"]\n");
        let after = remove_profile(Path::new(FILE), &wrong, "one").unwrap();
        assert!(!after.contains("[profiles.one]") && after.contains("[profiles.play]"), "{after}");
    }

    #[test]
    fn a_profile_is_taken_out_and_all_else_stays() {
        let expected = TEXT.replace("\n# Home\n[profiles.home]\n", "");
        assert_eq!(remove_profile(Path::new(FILE), TEXT, "home").unwrap(), expected);
        assert!(remove_profile(Path::new(FILE), TEXT, "none").is_err());
    }

    #[test]
    fn a_server_that_is_removed_leaves_the_profiles() {
        let after = remove_server(Path::new(FILE), TEXT, "two").unwrap();
        assert!(!after.contains("two"), "{after}");
        assert!(after.contains("servers = [\"one\"] # both"), "{after}");
        assert!(after.contains("# Work\n[profiles.work]\n"), "{after}");
    }
}
