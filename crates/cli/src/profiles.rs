//! Profiles of the configuration, as commands find them without starting a server or reading a secret.

use std::path::PathBuf;

use hospes_host::config::{ConfigLoader, HostConfig, ProfileConfig, ToolFilter, profile_hint};

use crate::exit::{CliError, CliResult};
use crate::output::printable;
use crate::paths;

/// Reads the configuration with its references. `None` if it cannot be read; the default file if none is named.
pub(crate) fn read_config(files: &[PathBuf]) -> Option<HostConfig> {
    let loader = ConfigLoader::new().allow_unset(true).keep_going(true).keep_references(true);
    let named = match files {
        [] => paths::default_config().into_iter().collect(),
        files => files.to_vec(),
    };
    loader.load(&named).ok()
}

/// Returns the profiles of the configuration, and none if it cannot be read.
pub(crate) fn configured(files: &[PathBuf]) -> Vec<ProfileConfig> {
    read_config(files).map(|config| config.profiles).unwrap_or_default()
}

/// Returns the error for a profile that is not configured.
pub(crate) fn unknown_profile(name: &str, known: &[&str]) -> CliError {
    CliError::usage(format!("unknown profile `{}`", printable(name))).hint(profile_hint(name, known))
}

/// Finds a profile by its name.
pub(crate) fn find<'p>(name: &str, profiles: &'p [ProfileConfig]) -> CliResult<&'p ProfileConfig> {
    profiles.iter().find(|profile| profile.name == name).ok_or_else(|| {
        let known: Vec<&str> = profiles.iter().map(|profile| profile.name.as_str()).collect();
        unknown_profile(name, &known)
    })
}

/// Maximum number of tools that a warning names.
const MAX_NAMED_TOOLS: usize = 12;

/// Describes the patterns of a filter that match none of a server's tools. `None` if all of them match one.
pub(crate) fn unmatched_text(filter: &ToolFilter, server: &str, tools: &[impl AsRef<str>]) -> Option<String> {
    let quoted = |pattern: &str| format!("`{}`", printable(pattern));
    let unmatched: Vec<String> = filter.unmatched(tools).into_iter().map(quoted).collect();
    let (matches, patterns) = match unmatched.len() {
        0 => return None,
        1 => ("matches", "pattern"),
        _ => ("match", "patterns"),
    };
    let mut names: Vec<String> =
        tools.iter().take(MAX_NAMED_TOOLS).map(|tool| printable(tool.as_ref())).collect();
    if tools.len() > names.len() {
        names.push(format!("and {} more", tools.len() - names.len()));
    }
    let (unmatched, server, names) = (unmatched.join(", "), printable(server), names.join(", "));
    Some(format!("the {patterns} {unmatched} {matches} no tool of `{server}`, which offers {names}"))
}
