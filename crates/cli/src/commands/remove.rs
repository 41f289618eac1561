//! `hospes remove`: removes a server from the configuration.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hospes_host::config::import::required_secrets;
use hospes_host::config::{ServerConfig, ServerTransport, remove_server};
use hospes_host::pins::Sha256Digest;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::config_target::ConfigTarget;
use super::file_replace;
use crate::args::RemoveArgs;
use crate::command_lock::CommandLock;
use crate::exit::{CliError, CliResult};
use crate::known_configs::KnownConfigs;
use crate::output::{self, BOLD, CliOutput, DIM, GREEN, one_line, paint, printable};
use crate::packages::{remove_version, removed, version_folder_of};
use crate::paths;
use crate::profiles;
use crate::removed_record;
use crate::secrets::SecretStore;
use crate::server_record::ServerRecord;

pub(crate) fn run(args: &RemoveArgs, output: CliOutput) -> CliResult {
    let _lock = CommandLock::of_server(&args.server, "hospes remove")?;
    let target = ConfigTarget::read(args.config.clone())?;
    let file = paths::display_path(&target.file);
    let digest = Sha256Digest::new(Sha256::digest(&target.text).into());
    if args.seen.is_some_and(|seen| seen != digest) {
        return Err(CliError::usage(format!("{file} is no longer the one that was shown"))
            .hint("nothing was changed; look at the change again"));
    }
    let config = target.config()?;
    let (servers, name) = (&config.servers, args.server.as_str());
    let server = servers.iter().find(|server| server.name == name);
    // An entry with mistakes is removed, too.
    if server.is_none() && !config.rejected.iter().any(|rejected| rejected.name == name) {
        return Err(target.unusable_server(&config, name));
    }
    let profiles = profiles::configured(std::slice::from_ref(&target.file));
    let naming = profiles.iter().filter(|profile| profile.names(name));
    let naming: Vec<&str> = naming.map(|profile| profile.name.as_str()).collect();
    let after = remove_server(&target.file, &target.text, name).map_err(|error| {
        CliError::usage(format!("cannot remove from {file}"))
            .with_cause(&error)
            .hint("nothing was changed; delete the entry by hand")
    })?;
    let mut secrets = server.map(|server| own_secrets(server, servers)).unwrap_or_default();
    // A secret that a profile uses in place of another is not the server's alone.
    let others = KnownConfigs::read_others(&target.file);
    secrets.retain(|name| !others.names_secret(name));
    secrets.retain(|name| profiles.iter().all(|profile| profile.secrets.values().all(|used| used != name)));
    if !args.yes {
        if output.json || !output::is_interactive() {
            return Err(CliError::usage("cannot ask for confirmation without a terminal").hint("add --yes"));
        }
        output::discard_typed_input();
        if !naming.is_empty() {
            output.say_wrapped(format_args!("  These profiles name it, and lose it: {}", naming.join(", ")));
        }
        let shown = paint(BOLD, one_line(name));
        let what =
            server.map_or_else(|| "its entry has mistakes".to_owned(), |server| server.transport.to_string());
        let answer = output.ask(format!("Remove {shown} ({}) from {file}? [y/N] ", one_line(&what)));
        if !answer.is_some_and(|answer| matches!(answer.trim(), "y" | "Y" | "yes")) {
            return Err(CliError::usage("cancelled; nothing was changed"));
        }
    }
    file_replace::replace(&target.file, &target.text, &after)?;
    let folder = remove_packages(name, server, &target.file, args.purge);
    let mut deleted = Vec::new();
    if args.purge
        && !secrets.is_empty()
        && let Some(store) = SecretStore::open_existing()?
    {
        for name in &secrets {
            store.remove(name)?;
            deleted.push(name.clone());
        }
    }
    if output.json {
        output.value(&json!({ "server": name, "deletedSecrets": deleted, "profiles": naming }));
        return Ok(());
    }
    output.say_wrapped(format_args!(
        "  {} {} removed. A running host stops it now.",
        paint(GREEN, "✓"),
        paint(BOLD, printable(name))
    ));
    if !naming.is_empty() {
        let text = format!("    It was taken out of the profiles that named it: {}", naming.join(", "));
        output.say_wrapped(paint(DIM, text));
    }
    if !secrets.is_empty() && deleted.is_empty() {
        let names: Vec<String> = secrets.iter().map(|name| printable(name)).collect();
        let kept = format!(
            "    Its secrets are kept: {} (`hospes secret remove NAME` deletes them)",
            names.join(", ")
        );
        output.say_wrapped(paint(DIM, kept));
    }
    if let Some(folder) = folder {
        let days = removed::KEPT_FOR.as_hours() / 24;
        let kept = format!("    Its files are kept in {} for {days} days", paths::display_path(&folder));
        output.say_wrapped(paint(DIM, kept));
    }
    Ok(())
}

/// Removes the record for updates and the folders into which the server was installed, with `is_purged` at once. Otherwise
/// they are kept aside or marked, and removed after 30 days. Folders that something else uses stay. Returns a folder that
/// stays until then.
fn remove_packages(
    name: &str,
    server: Option<&ServerConfig>,
    file: &Path,
    is_purged: bool,
) -> Option<PathBuf> {
    let mut folders: BTreeSet<PathBuf> = BTreeSet::new();
    if let Some(record) = ServerRecord::read(file, name) {
        if !is_purged && let Err(error) = removed_record::keep(&record, jiff::Timestamp::now()) {
            tracing::warn!(%error, "an undo of the removal will have no record");
        }
        ServerRecord::remove(file, name);
        folders.extend(record.folders().map(Path::to_owned));
    }
    // There is no record of bundles that were files. Their entries name the folder.
    if let Some(ServerTransport::Stdio(stdio)) = server.map(|server| &server.transport) {
        let words =
            std::iter::once(&stdio.command).chain(&stdio.args).map(|word| PathBuf::from(word.reveal()));
        let named = words.chain(stdio.cwd.clone()).filter_map(|path| version_folder_of(&path));
        folders.extend(named);
    }
    // Other entries, also of other configuration files, may use the same folders.
    let known = KnownConfigs::read(file);
    folders.retain(|folder| folder.is_dir() && !known.uses_folder(folder));
    for folder in &folders {
        match is_purged {
            true => remove_version(folder),
            false => removed::mark(folder, jiff::Timestamp::now()),
        }
    }
    folders.first().filter(|_| !is_purged)?.parent().map(Path::to_owned)
}

/// Returns the secrets of a server that no other server uses.
fn own_secrets(server: &ServerConfig, all: &[ServerConfig]) -> BTreeSet<String> {
    let others: BTreeSet<String> =
        all.iter().filter(|other| other.name != server.name).flat_map(required_secrets).collect();
    required_secrets(server).into_iter().filter(|name| !others.contains(name)).collect()
}
