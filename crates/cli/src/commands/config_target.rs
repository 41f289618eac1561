//! Hospes' own configuration file, to which servers are added.

use std::collections::BTreeSet;
use std::path::PathBuf;

use hospes_host::config::{AutoUpdate, ConfigLoader, HostConfig, ServerConfig, nearest};

use super::file_replace;
use crate::args::ConfigFileArgs;
use crate::exit::{CliError, CliResult};
use crate::output::printable;
use crate::paths;
use crate::settings::{check_startable, load_without_secrets};
use crate::shown_commands::shown_command;

/// The configuration file that servers are added to.
pub(super) struct ConfigTarget {
    pub(super) file: PathBuf,
    /// Its text; empty if it does not exist.
    pub(super) text: String,
}

impl ConfigTarget {
    /// Reads the named file, or the default one, which need not exist.
    pub(super) fn read(named: Option<PathBuf>) -> CliResult<Self> {
        let file = match named {
            Some(file) => file,
            None => paths::new_config_path().ok_or_else(|| {
                CliError::usage("no home folder found in which to store the configuration").hint("set HOME")
            })?,
        };
        if file.extension().is_none_or(|extension| extension != "toml") {
            return Err(CliError::usage(format!(
                "{} is not a configuration file of Hospes: expected the extension `.toml`",
                paths::display_path(&file)
            ))
            .hint("--config names the file that the servers are added to"));
        }
        let text = file_replace::read_text(&file)?;
        Ok(Self { file, text })
    }

    /// Returns the base URL of the registry that the file names.
    pub(super) fn registry(&self) -> Option<String> {
        self.config().ok()?.registry
    }

    /// Returns the servers that the file has, with their references.
    pub(super) fn servers(&self) -> CliResult<Vec<ServerConfig>> {
        Ok(self.config()?.servers)
    }

    /// Returns the names of the servers that are updated without a person. The defaults of the file count, which are not
    /// applied to [`ConfigTarget::servers`].
    pub(super) fn auto_updated(&self) -> CliResult<BTreeSet<String>> {
        let files = ConfigFileArgs { config: vec![self.file.clone()], allow_unset: true, strict: false };
        let servers = load_without_secrets(&files)?.config.servers.into_iter();
        let is_meant = |server: &ServerConfig| server.auto_update != AutoUpdate::Off && !server.disabled;
        Ok(servers.filter(is_meant).map(|server| server.name).collect())
    }

    /// Checks that a host starts with the file, as it is now.
    ///
    /// # Errors
    /// If the host refuses the file, or none of its servers can be used.
    pub(super) fn check_startable(&self) -> CliResult {
        check_startable(&self.file)
    }

    /// Returns the error for a server that the file does not have, or whose entry has mistakes.
    pub(super) fn unusable_server(&self, config: &HostConfig, name: &str) -> CliError {
        let file = paths::display_path(&self.file);
        if let Some(rejected) = config.rejected.iter().find(|rejected| rejected.name == name) {
            return CliError::usage(format!(
                "the entry of the server `{}` has mistakes: {}",
                printable(name),
                rejected.errors.full_text().replace('\n', "; ")
            ))
            .hint(format!("correct the entry in {file}, or remove it: {}", shown_command("remove", name)));
        }
        let rejected = config.rejected.iter().map(|rejected| rejected.name.as_str());
        let names: Vec<&str> =
            config.servers.iter().map(|server| server.name.as_str()).chain(rejected).collect();
        unknown_server(format!("{file} has no server `{}`", printable(name)), name, &names)
    }

    /// Reads the file with its references.
    pub(super) fn config(&self) -> CliResult<HostConfig> {
        let loader = ConfigLoader::new().keep_references(true).keep_going(true).allow_unset(true);
        loader.parse(&self.file, &self.text).map_err(|errors| {
            CliError::usage(errors.full_text()).hint("nothing was changed; correct the file and try again")
        })
    }
}

/// Maximum number of servers that a hint names.
const MAX_NAMED_SERVERS: usize = 12;

/// Adds a hint with a similar name, or with the names that there are, to an error about an unknown server.
pub(super) fn unknown_server(problem: String, name: &str, known: &[&str]) -> CliError {
    let problem = CliError::usage(problem);
    if let Some(meant) = nearest(name, known.iter().copied()) {
        return problem.hint(format!("did you mean `{}`?", printable(meant)));
    }
    let mut shown: Vec<String> = known.iter().take(MAX_NAMED_SERVERS).map(|name| printable(name)).collect();
    if known.len() > shown.len() {
        shown.push(format!("and {} more", known.len() - shown.len()));
    }
    match shown.is_empty() {
        true => problem.hint("there are no servers; `hospes add` adds one"),
        false => problem.hint(format!("known servers: {}", shown.join(", "))),
    }
}

/// Returns the base URL of the registry that the default configuration names. A file with mistakes names none.
pub(super) fn configured_registry() -> Option<String> {
    let named = std::env::var_os("HOSPES_CONFIG").map(PathBuf::from);
    let named = named.filter(|file| file.extension().is_some_and(|extension| extension == "toml"));
    ConfigTarget::read(named).ok()?.registry()
}
