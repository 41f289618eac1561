//! `hospes state migrate`: moves the state of this host into the database of several nodes.

mod report;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hospes_host::config::HostConfig;
use hospes_store::migration::{self, CopySource, HostState, MoveOutcome, TableSummary};
use hospes_store::{PostgresSettings, StoreError};

use self::report::MoveReport;
use super::doctor::running_hosts::running_hosts;
use crate::args::{StateCommand, StateMigrateArgs};
use crate::exit::{CliError, CliResult, FailureCode};
use crate::fleet::{AUTH_PURPOSE, SharedState, postgres_settings, state_secrets};
use crate::output::CliOutput;
use crate::paths;
use crate::settings::load;

/// Name of the connections of this command in the lists of the server. Those of nodes have another one.
const APPLICATION_NAME: &str = "hospes state migrate";
/// Table of the states that were moved.
const MOVED_STATES: &str = "state_migrations";

pub(crate) async fn run(command: StateCommand, output: CliOutput) -> CliResult {
    match command {
        StateCommand::Migrate(args) => migrate(args, output).await,
    }
}

async fn migrate(args: StateMigrateArgs, output: CliOutput) -> CliResult {
    let config = load(&args.files)?.config;
    let Some(fleet) = &config.fleet else {
        return Err(CliError::usage("the configuration has no [fleet], so there is no database to move to")
            .hint(
                "write [fleet] with `secret`, `postgres` and `redis` into it; docs/fleet.md describes them",
            ));
    };
    if let Some(note) = running_hosts().await.first() {
        return Err(CliError::usage(format!("a host runs here, as process {}", note.pid))
            .hint("end it first: what it decides meanwhile would be lost"));
    }
    let source = MoveSource::open(&config)?;
    let mut report = MoveReport::new(&source.files, &source.summaries()?, args.dry_run);
    report.database = database_name(fleet.postgres.reveal());
    let unreadable = report.unreadable();
    if unreadable > 0 && !args.skip_unreadable {
        report.print(output);
        return Err(CliError::usage(format!(
            "{unreadable} records cannot be decrypted: they were changed, or sealed with another key; nothing was moved"
        ))
        .hint("restore the files from a backup, or leave these records out with --skip-unreadable"));
    }
    let mut settings = postgres_settings(fleet)?;
    APPLICATION_NAME.clone_into(&mut settings.application_name);
    // Before anything is made there. It also says with an exit code of its own that the database cannot be reached.
    report.found = found_rows(&source, settings.clone()).await?;
    if args.dry_run {
        report.print(output);
        return if report.found.is_empty() { Ok(()) } else { Err(not_empty(&report.found)) };
    }
    let shared = SharedState::connect_with(fleet, settings).await?;
    let summaries = report.summaries.clone();
    let others = source.others(&shared, &config).await?;
    let moved =
        shared.state.move_here(Arc::clone(&source.host), Arc::new(others), summaries, state_secrets(fleet));
    match moved.await.map_err(|error| failed(&error))? {
        MoveOutcome::Moved => report.is_moved = true,
        MoveOutcome::MovedBefore(at) => report.moved_before = Some(at),
        MoveOutcome::NotEmpty(found) => return Err(not_empty(&found)),
        MoveOutcome::NodesRun(connections) => {
            return Err(CliError::usage(format!(
                "nodes use the database: {connections} connections are open"
            ))
            .hint("end all nodes first; they read the keys of the state at their start"));
        }
        _ => {
            return Err(CliError::usage(
                "the state was not moved, for a reason that this version does not know",
            ));
        }
    }
    report.print(output);
    Ok(())
}

/// Files of the host.
struct MoveSource {
    host: Arc<HostState>,
    files: Vec<PathBuf>,
    /// Records of the authorization server, opened for their summary.
    auth: Option<CopySource>,
}

impl MoveSource {
    fn open(config: &HostConfig) -> CliResult<Self> {
        let no_folder = || CliError::usage("no folder found for the state of the host").hint("set HOME");
        let file = paths::state_file().ok_or_else(no_folder)?;
        if !file.exists() {
            return Err(CliError::usage(format!(
                "there is no state to move: {} does not exist",
                file.display()
            ))
            .hint("a fleet can begin with an empty database: start the nodes"));
        }
        let host = HostState::open(&file).map_err(|error| failed(&error))?;
        let mut files = vec![file];
        let auth = auth_file(config);
        files.extend(auth.clone());
        // The key of the target changes nothing in the summary.
        let auth =
            auth.map(|file| open_records(&file, config, host.secret(AUTH_PURPOSE).as_deref())).transpose()?;
        Ok(Self { host: Arc::new(host), files, auth: auth.flatten() })
    }

    fn summaries(&self) -> CliResult<Vec<TableSummary>> {
        let all = std::iter::once(self.host.source()).chain(&self.auth);
        let all: Result<Vec<_>, _> = all.map(CopySource::summarize).collect();
        Ok(all.map_err(|error| CliError::usage("cannot read the state").with_cause(&error))?.concat())
    }

    fn targets(&self) -> Vec<&'static str> {
        let all = std::iter::once(self.host.source()).chain(&self.auth);
        all.flat_map(CopySource::tables).map(|table| table.target).collect()
    }

    /// Returns the sources beside the state, sealed for the key that the nodes will have.
    async fn others(&self, shared: &SharedState, config: &HostConfig) -> CliResult<Vec<CopySource>> {
        let Some(file) = self.auth.as_ref().and_then(|_| auth_file(config)) else { return Ok(Vec::new()) };
        prepare_records(shared).await?;
        let key = match self.host.secret(AUTH_PURPOSE) {
            Some(key) => key,
            // The state of the fleet keeps its own key.
            None => shared.state.secret(AUTH_PURPOSE).map_err(|error| failed(&error))?,
        };
        Ok(open_records(&file, config, Some(&key))?.into_iter().collect())
    }
}

/// Returns the file of the authorization server, if there is one.
fn auth_file(config: &HostConfig) -> Option<PathBuf> {
    let named = config.auth.as_ref().and_then(|auth| auth.store.clone());
    named.or_else(paths::authorization).filter(|file| file.exists())
}

/// Opens the records of sign-ins. `key` is the secret from which the nodes derive theirs.
#[cfg(feature = "authorization-server")]
fn open_records(file: &Path, config: &HostConfig, key: Option<&[u8; 32]>) -> CliResult<Option<CopySource>> {
    let seals =
        crate::authorization::copy_seals(config.auth.as_ref(), key.map(crate::fleet::auth_key).as_ref())?;
    let opened = hospes_oauth_server::auth_copy::open_records(file, seals);
    opened
        .map(Some)
        .map_err(|error| CliError::usage("cannot read the records of sign-ins").with_cause(&error))
}

#[cfg(not(feature = "authorization-server"))]
fn open_records(_: &Path, _: &HostConfig, _: Option<&[u8; 32]>) -> CliResult<Option<CopySource>> {
    Ok(None)
}

/// Makes the tables of the records.
#[cfg(feature = "authorization-server")]
async fn prepare_records(shared: &SharedState) -> CliResult {
    shared.auth().await.map(drop)
}

#[cfg(not(feature = "authorization-server"))]
async fn prepare_records(_: &SharedState) -> CliResult {
    Ok(())
}

/// Returns the tables of the database that have rows.
async fn found_rows(source: &MoveSource, settings: PostgresSettings) -> CliResult<Vec<(&'static str, u64)>> {
    let mut tables = source.targets();
    tables.push(MOVED_STATES);
    let mut found = migration::inspect(settings, tables).await.map_err(|error| failed(&error))?;
    found.retain(|(_, rows)| *rows > 0);
    Ok(found)
}

fn not_empty(found: &[(&'static str, u64)]) -> CliError {
    let found: Vec<String> = found.iter().map(|(table, rows)| format!("{table} {rows}")).collect();
    let text = format!("the database is not empty: rows in {}; nothing was changed", found.join(", "));
    CliError::usage(text).hint("name a new database in `postgres` of [fleet], or keep the one that is there")
}

fn failed(error: &StoreError) -> CliError {
    let failure = match error.is_unavailable() {
        true => CliError::new(FailureCode::Unreachable, "the database of [fleet] cannot be used"),
        false => CliError::usage("the state cannot be moved"),
    };
    let failure = failure.with_cause(error);
    match error {
        StoreError::Older(_) => {
            failure.hint("`hospes up` of this version updates it: run it once without [fleet], and end it")
        }
        StoreError::Rejected(_) => failure.hint("nothing was changed; the move can be repeated"),
        _ => failure,
    }
}

/// Returns the host and the name of a database, without the user and the password.
fn database_name(url: &str) -> String {
    let known = url::Url::parse(url).ok().and_then(|url| {
        let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
        Some(format!("{}{port}{}", url.host_str()?, url.path()))
    });
    known.map_or_else(|| "the database of [fleet]".to_owned(), |known| format!("PostgreSQL at {known}"))
}
