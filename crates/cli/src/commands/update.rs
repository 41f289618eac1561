//! `hospes update`: replaces servers that were added from the registry by newer versions, and goes back to the version
//! before.

pub(super) mod automatic;
mod before;
mod check;
mod merge;
pub(super) mod on_page;
mod page;
mod planning;
mod questions;
mod review;
mod risk;
mod rollback;

use crate::shown_commands::shown_command;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hospes_host::config::{ServerConfig, replace_server};
use hospes_host::pins::PinState;
use hospes_registry::ServerEntry;
use secrecy::ExposeSecret as _;
use serde_json::json;

use self::before::BeforeUpdate;
use self::check::{UpdateAvailability, UpdateCandidate};
use self::merge::MergedServer;
use super::add::plan::PlannedServer;
use super::add::reviewer::AdditionReviewer;
use super::add::trial::{ServerTrial, TrialReport};
use super::add::trial_accounts::TrialAccounts;
use super::config_target::ConfigTarget;
use super::{file_replace, interrupted};
use crate::args::UpdateArgs;
use crate::command_lock::CommandLock;
use crate::exit::{CliError, CliResult};
use crate::known_configs::KnownConfigs;
use crate::output::{self, BOLD, CliOutput, GREEN, one_line, paint, printable};
use crate::packages::remove_version;
use crate::progress::StepBar;
use crate::secrets::SecretStore;
use crate::server_record::{RecordedVersion, ServerRecord};
use crate::{deciders, paths, sweep};

/// Text of an interruption, and of a failure.
const UNCHANGED: &str = "nothing was changed";

pub(crate) async fn run(args: UpdateArgs, output: CliOutput) -> CliResult {
    let args = Arc::new(args);
    if args.auto {
        sweep::run(jiff::Timestamp::now());
        return automatic::run(&args, output).await;
    }
    let may_ask = output::is_interactive() && !args.yes && !output.json;
    let mut reviewer = AdditionReviewer::at_terminal(may_ask)?;
    let target = ConfigTarget::read(args.config.clone())?;
    let servers = target.servers()?;
    // Before records are read: that of a server that was removed and is back is put back.
    sweep::run(jiff::Timestamp::now());
    if let Some(name) = &args.server {
        find(&servers, name, &target)?;
        if args.rollback {
            return rollback::run(name, &target, output);
        }
    }
    let wanted = |server: &&ServerConfig| args.server.as_ref().is_none_or(|name| server.name == *name);
    let servers: Vec<&ServerConfig> = servers.iter().filter(wanted).collect();
    let candidates = check::candidates(&servers, &target, &args)?;
    if args.check {
        let checked = reviewer.unless(check::run(candidates, &args, output)).await;
        return checked.unwrap_or_else(|| Err(interrupted(UNCHANGED)));
    }
    let mut first_failure = None;
    for candidate in candidates {
        let name = candidate.server.name;
        let result = Box::pin(update(&name, &args, &mut reviewer, None, output)).await;
        match result {
            Ok(_) => {}
            Err(error) if args.all && !reviewer.was_interrupted() => {
                output.failure(&error);
                first_failure.get_or_insert(error.code);
            }
            Err(error) => return Err(error),
        }
        tracing::debug!(server = %name, "looked for an update");
    }
    first_failure.map_or(Ok(()), |code| Err(CliError::silent(code)))
}

fn find<'s>(servers: &'s [ServerConfig], name: &str, target: &ConfigTarget) -> CliResult<&'s ServerConfig> {
    let found = servers.iter().find(|server| server.name == name);
    found.ok_or_else(|| match target.config() {
        Ok(config) => target.unusable_server(&config, name),
        Err(error) => error,
    })
}

/// Result of an update.
enum UpdateOutcome {
    /// There is no newer version.
    Current,
    Updated {
        from: Option<String>,
        to: String,
    },
}

/// Updates one server, if there is a newer version. `person` is who decides; without it, it is found out.
async fn update(
    name: &str,
    args: &Arc<UpdateArgs>,
    reviewer: &mut AdditionReviewer<'_>,
    person: Option<String>,
    output: CliOutput,
) -> CliResult<UpdateOutcome> {
    let _lock = CommandLock::of_server(name, "hospes update")?;
    // Read under the lock: another update may just have ended.
    let target = ConfigTarget::read(args.config.clone())?;
    let servers = target.servers()?;
    let current = find(&servers, name, &target)?;
    let Some(candidate) = check::candidates(&[current], &target, args)?.pop() else {
        return Ok(UpdateOutcome::Current);
    };
    let bar = StepBar::spinner(&format!("looking for a new version of {}", printable(name)), output);
    let found = reviewer.unless(candidate.look_up(args.version.as_deref())).await;
    drop(bar);
    let found = found.unwrap_or_else(|| Err(interrupted(UNCHANGED)))?;
    match found {
        UpdateAvailability::Available(entry) => {
            let update = Update { candidate, entry: *entry, args: Arc::clone(args), output };
            Box::pin(Arc::new(update).run(reviewer, person)).await
        }
        UpdateAvailability::Current { latest } => {
            let version = candidate.version().unwrap_or(latest);
            match output.json {
                _ if args.auto || reviewer.is_page() => {}
                true => output.value(&json!({ "server": name, "version": version, "updated": false })),
                false => output.say_wrapped(format_args!(
                    "  {} {} is up to date: {}",
                    paint(GREEN, "✓"),
                    paint(BOLD, printable(name)),
                    one_line(&version)
                )),
            }
            Ok(UpdateOutcome::Current)
        }
    }
}

/// The new version and the one in use, as far as they are known before the start.
struct UpdateSubject<'a> {
    planned: &'a PlannedServer,
    /// Grants and effects of the new version that the one before did not have.
    risks: &'a [String],
    merged: &'a MergedServer,
    /// Entry of the new version, without what the person has changed.
    published: &'a ServerConfig,
    /// Entry of the version in use, as it was written. `None` if there is no record of it.
    written: Option<&'a ServerConfig>,
    before: &'a BeforeUpdate,
    notices: &'a [String],
}

/// An update of one server to an entry.
struct Update {
    candidate: UpdateCandidate,
    entry: ServerEntry,
    args: Arc<UpdateArgs>,
    output: CliOutput,
}

impl Update {
    async fn run(
        self: Arc<Self>,
        reviewer: &mut AdditionReviewer<'_>,
        person: Option<String>,
    ) -> CliResult<UpdateOutcome> {
        let (args, output) = (&*self.args, self.output);
        let name = self.candidate.server.name.clone();
        let may_ask = reviewer.may_ask();
        let by = match (may_ask, args.yes) {
            _ if person.is_some() => person,
            _ if args.auto => Some(automatic::DECIDER.to_owned()),
            (true, _) => Some(deciders::decider().await?),
            (false, true) => deciders::decider().await.ok(),
            (false, false) => None,
        };
        let target = ConfigTarget::read(args.config.clone())?;
        let servers = target.servers()?;
        let current = find(&servers, &name, &target)?;
        let before = BeforeUpdate::read(&name).await?;

        let mut planned = self.plan_with(reviewer, &servers).await?;
        if !may_ask && !args.yes && !args.auto {
            // Before anything of the new version is installed or started.
            if !output.json {
                output.say(planned.screen.text());
            }
            return Err(CliError::usage("nothing was changed, because nobody can be asked")
                .hint("add --yes to install and start this, and to accept what it offers"));
        }
        let risks = risk::risks(&self.candidate, &planned)?;
        if args.auto {
            self.check_plan((&planned, &risks), current, before.is_accepted)?;
        }
        let record = self.candidate.record.as_ref();
        let written = record.and_then(|record| merge::read_written(&record.current.written));
        if may_ask {
            reviewer.ask_new_version(&planned, &risks, output).await?;
        }
        let prepared = reviewer.unless(planned.prepare(output)).await;
        let notices = prepared.unwrap_or_else(|| Err(interrupted(UNCHANGED)))?;
        let folders = (
            record.and_then(|record| record.current.folder.as_deref()),
            planned.folder.as_ref().map(|folder| folder.path().to_owned()),
        );
        let new = planned.draft.entry()?;
        let merged = MergedServer::of(written.as_ref(), current, &new, (folders.0, folders.1.as_deref()));
        if args.auto {
            let (old, new) =
                (folders.0.map(Path::to_string_lossy), folders.1.as_deref().map(Path::to_string_lossy));
            self.check_entry(&merged, current, (old.as_deref(), new.as_deref()))?;
        }
        let text = replace_server(&target.file, &target.text, &merged.server).map_err(|error| {
            CliError::usage(format!("cannot change {}", paths::display_path(&target.file)))
                .with_cause(&error)
                .hint("nothing was changed; correct the file, or remove the server and add it again")
        })?;
        let (server, secrets) = self.resolve(&target, &merged.server, &planned)?;
        let accounts = TrialAccounts::open()?;
        let tried = (server, &*servers, by.is_some(), &accounts);
        let about = UpdateSubject {
            planned: &planned,
            risks: &risks,
            merged: &merged,
            published: &new,
            written: written.as_ref(),
            before: &before,
            notices: &notices,
        };
        let reviewed = Box::pin(self.review(tried, &about, reviewer)).await;
        // The server, and where a person signs in to it, may repeat what they were given.
        let reviewed = reviewed
            .map(|(trial, outcome)| (trial, outcome.map_err(|error| error.masked(&secrets))))
            .map_err(|error| error.masked(&secrets));
        let (trial, outcome) = match reviewed {
            Ok(reviewed) => reviewed,
            Err(error) => {
                // The start after a sign-in may be what was not possible.
                accounts.discard().await;
                return Err(error);
            }
        };
        let outcome = match outcome {
            Ok(report) => {
                let accepted = (&report, by.as_deref());
                let end = self.conclude(&planned, &target, (&trial, &accounts), accepted, &text).await;
                end.map(|()| report)
            }
            Err(error) => Err(error),
        };
        trial.end().await;
        if outcome.is_err() {
            accounts.discard().await;
        }
        let report = match outcome {
            Ok(report) => report,
            Err(error) => {
                before.restore(&name).await;
                return Err(error);
            }
        };
        let kept = self.keep(planned, &new, &target.file)?;
        if !args.auto && !reviewer.is_page() {
            self.say(&merged.server, &report, kept.as_deref());
        }
        Ok(UpdateOutcome::Updated { from: self.candidate.version(), to: self.entry.version.clone() })
    }

    /// Accepts what the new version offers, stores its secrets, and writes its entry.
    async fn conclude(
        &self,
        planned: &PlannedServer,
        target: &ConfigTarget,
        (trial, accounts): (&ServerTrial, &TrialAccounts),
        (report, by): (&TrialReport, Option<&str>),
        text: &str,
    ) -> CliResult {
        if self.args.auto {
            self.record_update(planned).await?;
        }
        match (&report.pinned, by) {
            (Some(pinned), Some(by)) => trial.accept(pinned, by).await?,
            (Some(pinned), None) if pinned.state != PinState::Accepted => self.output.warn(format_args!(
                "what it offers waits for a person: {}",
                shown_command("pins accept", &self.candidate.server.name)
            )),
            _ => {}
        }
        if !planned.draft.secrets.is_empty() {
            let store = SecretStore::open_or_create(self.args.credentials_store, self.output)?;
            for (name, value) in &planned.draft.secrets {
                store.write(name, value.expose_secret())?;
            }
        }
        accounts.keep(self.args.credentials_store, self.output).await?;
        file_replace::replace(&target.file, &target.text, text)
    }

    /// Keeps the new folder and the version before, and removes older ones. Returns the version that is kept. `published`
    /// is the entry without the person's own values: the next update must still know them as the person's.
    fn keep(
        &self,
        mut planned: PlannedServer,
        published: &ServerConfig,
        file: &Path,
    ) -> CliResult<Option<String>> {
        let recipe = planned.recipe.take();
        let folder = planned.folder.take();
        let path = folder.as_ref().map(|folder| folder.path().to_owned());
        if let Some(folder) = folder {
            folder.keep();
        }
        let Some(recipe) = recipe else { return Ok(None) };
        let record = self.candidate.record.clone();
        let (previous, oldest) = match record {
            Some(record) => (Some(record.current), record.previous),
            None => (None, None),
        };
        let kept = previous.as_ref().map(|previous| previous.version.clone());
        let current = RecordedVersion::new(recipe, path, published);
        let (name, registry) = (&self.candidate.server.name, self.candidate.registry().unwrap_or_default());
        ServerRecord::new(file, name, registry, current, previous).write()?;
        // Only now, because the record before names it.
        let is_unused = |folder: &PathBuf| !KnownConfigs::read(file).uses_folder(folder);
        if let Some(folder) = oldest.and_then(|oldest| oldest.folder).filter(is_unused) {
            remove_version(&folder);
        }
        Ok(kept)
    }

    fn say(&self, server: &ServerConfig, report: &TrialReport, kept: Option<&str>) {
        let output = self.output;
        let from = self.candidate.version();
        if output.json {
            output.value(&json!({
                "server": server.name,
                "registry": server.origin.registry,
                "from": from,
                "version": self.entry.version,
                "digest": server.origin.digest,
                "tools": report.tools.reads + report.tools.changes,
                "updated": true,
            }));
            return;
        }
        output.say_wrapped(format_args!(
            "  {} {} updated to {}. A running host uses it within a second or two.",
            paint(GREEN, "✓"),
            paint(BOLD, printable(&server.name)),
            one_line(&self.entry.version)
        ));
        if let Some(kept) = kept {
            let back = format!(
                "    Back to {}: {} --rollback",
                one_line(kept),
                shown_command("update", &server.name)
            );
            output.say_wrapped(paint(output::DIM, back));
        }
    }
}
