//! Updates without a person: corrections that change nothing that the person has seen.

use std::collections::BTreeSet;
use std::sync::Arc;

use hospes_host::config::{ServerConfig, ServerTransport};
use hospes_registry::{EntryStatus, is_patch};
use hospes_store::{AuditEntry, AuditEntryKind};
use serde_json::{Value, json};

use super::super::add::plan::PlannedServer;
use super::super::add::reviewer::AdditionReviewer;
use super::super::add::trial::DefinitionMap;
use super::merge::{MergedServer, is_changed_by_hand, read_written};
use super::{BeforeUpdate, ConfigTarget, Update, UpdateOutcome, update};
use crate::args::UpdateArgs;
use crate::enforcement;
use crate::exit::{CliError, CliResult, FailureCode};
use crate::output::{BOLD, CliOutput, DIM, GREEN, YELLOW, one_line, paint};

/// Name of the decider in the record and with the accepted definitions.
pub(super) const DECIDER: &str = "automatic update";

/// Makes the updates that the configuration allows, and lists those that wait for a person.
///
/// # Errors
/// With code 6 if an update waits, or with that of the first failure.
pub(super) async fn run(args: &Arc<UpdateArgs>, output: CliOutput) -> CliResult {
    let target = ConfigTarget::read(args.config.clone())?;
    let servers = target.servers()?;
    let mut reviewer = AdditionReviewer::at_terminal(false)?;
    let (mut rows, mut code) = (Vec::new(), None);
    let meant = if target.file.is_file() { target.auto_updated()? } else { BTreeSet::new() };
    let is_meant = |server: &&ServerConfig| meant.contains(&server.name) && server.origin.registry.is_some();
    for server in servers.iter().filter(is_meant) {
        let name = &server.name;
        let row = |state: &str, why: Option<&str>| json!({ "server": name, "state": state, "why": why });
        rows.push(match Box::pin(update(name, args, &mut reviewer, None, output)).await {
            Ok(UpdateOutcome::Current) => row("current", None),
            Ok(UpdateOutcome::Updated { from, to }) => {
                json!({ "server": name, "state": "updated", "from": from, "version": to })
            }
            Err(error) => {
                let is_waiting = error.code == FailureCode::Outdated;
                code = code.filter(|code| *code != FailureCode::Outdated).or(Some(error.code));
                row(if is_waiting { "waits" } else { "failed" }, Some(&error.message))
            }
        });
        if reviewer.was_interrupted() {
            break;
        }
    }
    if output.json {
        output.value(&rows);
    } else {
        rows.iter().for_each(|row| output.result_wrapped(line(row)));
    }
    code.map_or(Ok(()), |code| Err(CliError::silent(code)))
}

/// Formats a result, as `run` prints it, in words.
pub(in crate::commands) fn line(row: &Value) -> String {
    let text = |key: &str| one_line(row[key].as_str().unwrap_or_default());
    let name = paint(BOLD, text("server"));
    match row["state"].as_str() {
        Some("updated") => {
            format!("  {} {name} updated: {} → {}", paint(GREEN, "✓"), text("from"), text("version"))
        }
        Some("current") => format!("  {} {name} {}", paint(GREEN, "✓"), paint(DIM, "up to date")),
        _ => format!("  {} {name} not updated: {}", paint(YELLOW, "!"), text("why")),
    }
}

/// Creates the result of an update that a person has to look at.
fn waits(from: &str, to: &str, why: impl std::fmt::Display) -> CliError {
    let text = format!("{} → {} waits for you: {why}", one_line(from), one_line(to));
    CliError::new(FailureCode::Outdated, text).hint("`hospes update SERVER` shows all that changes")
}

impl Update {
    /// Checks before anything of the new version is installed or started that it is an update without a person's eyes.
    pub(super) fn check_plan(
        &self,
        (planned, risks): (&PlannedServer, &[String]),
        current: &ServerConfig,
        is_accepted: bool,
    ) -> CliResult {
        let record = self.candidate.record.as_ref().map(|record| &record.current);
        let from = self.candidate.version().unwrap_or_default();
        let to = &self.entry.version;
        let Some(record) = record else {
            return Err(waits(&from, to, "there is no record of how it was added"));
        };
        let written = read_written(&record.written);
        let new_permissions: Vec<&str> = planned.permissions.iter().map(|(text, _)| text.as_str()).collect();
        let is_unproved = self.candidate.registry().is_none()
            && (record.recipe.publisher.is_none()
                || planned.recipe.as_ref().is_none_or(|recipe| recipe.publisher.is_none()));
        let is_compiled = matches!(record.recipe.kind.as_str(), "cargo" | "go");
        let is_elsewhere = matches!(current.transport, ServerTransport::Http(_));
        let obstacles = [
            (!is_patch(&from, to), "it is more than a correction of the version in use"),
            (planned.has_other_owner, "it is published by somebody else"),
            (is_unproved, "its index does not say who published it"),
            (is_compiled, "it is compiled on this machine, which runs code of its publisher"),
            (self.entry.status() != EntryStatus::Active, "its entry is not active any more"),
            (record.recipe.permissions != new_permissions, "its command line grants other things"),
            (
                written.is_none_or(|written| is_changed_by_hand(&written.transport, &current.transport)),
                "its entry in the configuration was changed by hand",
            ),
            (!is_accepted, "the version in use is not accepted"),
            (planned.draft.origin.digest.is_none() && !is_elsewhere, "its package has no hash"),
        ];
        let why = obstacles.iter().find_map(|(is_one, why)| is_one.then_some(*why));
        match why.or_else(|| risks.first().map(String::as_str)) {
            Some(why) => Err(waits(&from, to, one_line(why))),
            None => Ok(()),
        }
    }

    /// Checks that the entry of the new version differs from the one in use by its folder, version and hash only.
    pub(super) fn check_entry(
        &self,
        merged: &MergedServer,
        current: &ServerConfig,
        folders: (Option<&str>, Option<&str>),
    ) -> CliResult {
        let from = self.candidate.version().unwrap_or_default();
        let package_version = |server: &ServerConfig| server.origin.version.clone().unwrap_or_default();
        let of = |server: &ServerConfig, folder: Option<&str>| {
            let text = format!("{:?}", server.transport);
            let text = folder.map_or_else(|| text.clone(), |folder| text.replace(folder, "{folder}"));
            match package_version(server) {
                version if version.is_empty() => text,
                // `NAME@VERSION` and `NAME==VERSION` of launchers.
                version => ["@", "=="].iter().fold(text, |text, sign| {
                    text.replace(&format!("{sign}{version}\""), &format!("{sign}{{version}}\""))
                }),
            }
        };
        if of(current, folders.0) == of(&merged.server, folders.1) && merged.replaced.is_empty() {
            return Ok(());
        }
        Err(waits(&from, &self.entry.version, "its command, its values or its URL change"))
    }

    /// Checks that the new version offers exactly what the one before did.
    pub(super) fn check_definitions(&self, before: &BeforeUpdate, offered: &DefinitionMap) -> CliResult {
        let from = self.candidate.version().unwrap_or_default();
        let why = match (before.definitions.is_empty(), before.definitions == *offered) {
            (true, _) => "what the version in use offers is not known",
            (false, false) => "what it offers changes",
            (false, true) => return Ok(()),
        };
        Err(waits(&from, &self.entry.version, why))
    }

    /// Records the update in the audit log, before it is made.
    ///
    /// # Errors
    /// If the log cannot be written: without a record there is no automatic update.
    pub(super) async fn record_update(&self, planned: &PlannedServer) -> CliResult {
        let nowhere = || CliError::usage("no folder found for the audit log").hint("set HOME");
        let audit = enforcement::open_audit()?.ok_or_else(nowhere)?;
        let mut entry = AuditEntry::new(AuditEntryKind::Server);
        entry.server = Some(self.candidate.server.name.clone());
        entry.decision = Some("updated".to_owned());
        entry.by = Some(DECIDER.to_owned());
        let from = self.candidate.version().unwrap_or_default();
        let digest = planned.draft.origin.digest.as_deref().unwrap_or("none");
        entry.how = Some(format!("{from} to {}, hash {digest}", self.entry.version));
        audit.record(entry).await.map(drop).map_err(|error| enforcement::audit_error(&error))
    }
}
