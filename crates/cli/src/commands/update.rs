//! `hospes update`: replaces servers that were added from the registry by newer versions, and goes back to the version
//! before.

pub(super) mod automatic;
mod before;
mod check;
mod merge;
mod page;
mod risk;
mod rollback;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hospes_host::config::{ConfigLoader, ServerConfig, nearest, replace_server};
use hospes_host::pins::PinState;
use hospes_registry::{ServerEntry, is_local_registry};
use secrecy::ExposeSecret as _;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use self::before::{BeforeUpdate, known_answers};
use self::check::{UpdateAvailability, UpdateCandidate};
use self::merge::MergedServer;
use self::page::UpdatePage;
use super::add::answers::Asker;
use super::add::plan::{self, ChosenEntry, PlanRequest, PlannedServer};
use super::add::trial::{DefinitionMap, ServerTrial, TrialReport};
use super::add::trial_accounts::TrialAccounts;
use super::add::{confirm, not_started, view};
use super::config_target::ConfigTarget;
use super::{InterruptListener, file_replace, interrupted};
use crate::args::UpdateArgs;
use crate::command_lock::CommandLock;
use crate::exit::{CliError, CliResult};
use crate::known_configs::KnownConfigs;
use crate::output::{self, BOLD, CliOutput, GREEN, announce, one_line, paint, printable};
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
    let mut ending = InterruptListener::new()?;
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
        let checked = ending.unless(check::run(candidates, &args, output)).await;
        return checked.unwrap_or_else(|| Err(interrupted(UNCHANGED)));
    }
    let mut first_failure = None;
    for candidate in candidates {
        let name = candidate.server.name;
        let result = update(&name, &args, &mut ending, output).await;
        match result {
            Ok(_) => {}
            Err(error) if args.all && !ending.was_interrupted() => {
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
    servers.iter().find(|server| server.name == name).ok_or_else(|| {
        let file = paths::display_path(&target.file);
        let problem = CliError::usage(format!("{file} has no server `{}`", printable(name)));
        match nearest(name, servers.iter().map(|server| server.name.as_str())) {
            Some(meant) => problem.hint(format!("did you mean `{}`?", printable(meant))),
            None => problem.hint("`hospes status` lists the servers"),
        }
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

/// Updates one server, if there is a newer version.
async fn update(
    name: &str,
    args: &Arc<UpdateArgs>,
    ending: &mut InterruptListener,
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
    let found = ending.unless(candidate.look_up(args.version.as_deref())).await;
    drop(bar);
    let found = found.unwrap_or_else(|| Err(interrupted(UNCHANGED)))?;
    match found {
        UpdateAvailability::Available(entry) => {
            let update = Update { candidate, entry: *entry, args: Arc::clone(args), output };
            Box::pin(Arc::new(update).run(ending)).await
        }
        UpdateAvailability::Current { latest } => {
            let version = candidate.version().unwrap_or(latest);
            match output.json {
                _ if args.auto => {}
                true => output.value(&json!({ "server": name, "version": version, "updated": false })),
                false => output.say(format_args!(
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

/// An update of one server to an entry.
struct Update {
    candidate: UpdateCandidate,
    entry: ServerEntry,
    args: Arc<UpdateArgs>,
    output: CliOutput,
}

impl Update {
    async fn run(self: Arc<Self>, ending: &mut InterruptListener) -> CliResult<UpdateOutcome> {
        let (args, output) = (&*self.args, self.output);
        let name = self.candidate.server.name.clone();
        let may_ask = output::is_interactive() && !args.yes && !output.json && !args.auto;
        let by = match (may_ask, args.yes) {
            _ if args.auto => Some(automatic::DECIDER.to_owned()),
            (true, _) => Some(deciders::decider().await?),
            (false, true) => deciders::decider().await.ok(),
            (false, false) => None,
        };
        let target = ConfigTarget::read(args.config.clone())?;
        let servers = target.servers()?;
        let current = find(&servers, &name, &target)?;
        let before = BeforeUpdate::read(&name).await?;

        // In a thread, because it asks for values, and Ctrl-C ends these questions, too.
        let (this, servers_before, runtime) = (Arc::clone(&self), servers.clone(), Handle::current());
        let plan = spawn_blocking(move || runtime.block_on(this.plan(&servers_before, may_ask)));
        let planned = ending.unless(plan).await.ok_or_else(|| interrupted(UNCHANGED))?;
        let mut planned =
            planned.map_err(|error| CliError::usage("cannot plan the update").with_cause(&error))??;
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
        if may_ask && !risks.is_empty() {
            announce(planned.screen.text());
            announce(view::new_risks(&risks));
            let question = "  It asks for more than the version before, or comes from elsewhere. Start it?";
            let answer = ending.unless(spawn_blocking(move || confirm(question, output))).await;
            match answer.map(|answer| answer.unwrap_or(false)) {
                None => return Err(interrupted(UNCHANGED)),
                Some(false) => return Err(CliError::usage("cancelled; nothing was changed")),
                Some(true) => {}
            }
        }
        let prepared = ending.unless(planned.prepare(output)).await;
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
        let server = self.resolve(&target, &merged.server, &planned)?;
        let accounts = TrialAccounts::open()?;
        let tried = (server, by.is_some(), &accounts);
        let reviewed =
            self.review(tried, (&planned, &risks), &merged, &before, &notices, may_ask, ending).await;
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
        let kept = self.keep(planned, &merged.server, &target.file)?;
        if !args.auto {
            self.say(&merged.server, &report, kept.as_deref());
        }
        Ok(UpdateOutcome::Updated { from: self.candidate.version(), to: self.entry.version.clone() })
    }

    async fn plan(&self, servers: &[ServerConfig], may_ask: bool) -> CliResult<PlannedServer> {
        let (candidate, args) = (&self.candidate, &*self.args);
        let name = &candidate.server.name;
        let others = servers.iter().filter(|server| server.name != *name);
        let known = others.map(|server| server.origin.registry.as_deref().unwrap_or(&server.name)).collect();
        let version = candidate.record.as_ref().map(|record| &record.current);
        let previous = version.and_then(|version| ServerEntry::from_value(version.recipe.entry.clone()).ok());
        let kind = args.package.as_deref().or_else(|| version.map(|version| version.recipe.kind.as_str()));
        // A server that was added with its launcher keeps it.
        let is_launched = version.is_some_and(|version| {
            version.folder.is_none() && matches!(version.recipe.kind.as_str(), "npm" | "pypi")
        });
        let request = PlanRequest {
            package: kind,
            set: &args.set,
            secret: &args.secret,
            sha256: None,
            known: known_answers(version)?,
            installs: !args.no_install && (!is_launched || args.package.is_some()),
            is_registry_local: candidate.registry().is_some_and(is_local_registry),
            asker: if may_ask { Asker::Terminal } else { Asker::Nobody },
            output: self.output,
        };
        let host = candidate.host();
        let chosen =
            ChosenEntry { entry: &self.entry, registry: host.as_deref(), known, previous: previous.as_ref() };
        let mut planned = plan::plan(&chosen, &request, &|_: &str| name.clone()).await?;
        let publishers = (
            version.and_then(|version| version.recipe.publisher.as_deref()),
            planned.recipe.as_ref().and_then(|recipe| recipe.publisher.as_deref()),
        );
        if let (Some(before), Some(now)) = publishers
            && before != now
        {
            let warning = format!("published by the account {now}; the version before by {before}");
            planned.screen.warning(&warning);
            planned.warnings.push(warning);
            planned.has_other_owner = true;
        }
        Ok(planned)
    }

    /// Returns the merged server as it is started for the trial, with its secrets.
    fn resolve(
        &self,
        target: &ConfigTarget,
        merged: &ServerConfig,
        planned: &PlannedServer,
    ) -> CliResult<ServerConfig> {
        let mut merged = merged.clone();
        // Secrets of a server that is switched off are not looked up.
        merged.disabled = false;
        let text = replace_server(&target.file, &target.text, &merged)
            .map_err(|error| CliError::usage("the new entry cannot be read").with_cause(&error))?;
        let given = planned.draft.secrets.clone();
        let stored = crate::secrets::look_up();
        let loader = ConfigLoader::new().keep_going(true).secrets(move |name| match given.get(name) {
            Some(value) => Ok(Some(value.expose_secret().to_owned())),
            None => stored(name),
        });
        let config =
            loader.parse(&target.file, &text).map_err(|errors| CliError::usage(errors.to_string()))?;
        let rejected = config.rejected.iter().find(|rejected| rejected.name == merged.name);
        if let Some(rejected) = rejected {
            return Err(CliError::usage(rejected.errors.to_string()).hint(UNCHANGED));
        }
        let found = config.servers.into_iter().find(|server| server.name == merged.name);
        found.ok_or_else(|| CliError::usage("the new entry cannot be read"))
    }

    /// Starts the new version, and asks whether it is kept. Returns the trial with the answer. The outer error is that of a start
    /// that was not possible.
    #[allow(clippy::too_many_arguments, reason = "all that the page shows")]
    async fn review(
        &self,
        (server, is_reviewed, accounts): (ServerConfig, bool, &TrialAccounts),
        about: (&PlannedServer, &[String]),
        merged: &MergedServer,
        before: &BeforeUpdate,
        notices: &[String],
        may_ask: bool,
        ending: &mut InterruptListener,
    ) -> CliResult<(ServerTrial, CliResult<TrialReport>)> {
        let name = &self.candidate.server.name;
        loop {
            let trial = ServerTrial::start(server.clone(), is_reviewed, accounts)?;
            let work = async {
                let bar = StepBar::spinner(&format!("starting {}", printable(name)), self.output);
                let report = trial.report().await;
                let offered = trial.definitions().await;
                drop(bar);
                (report, offered)
            };
            let reported = match ending.unless(work).await {
                None => Err(interrupted(UNCHANGED)),
                Some((Err(error), _)) => Err(error),
                Some((Ok(Err(status)), _)) if status.needs_sign_in && !accounts.is_signed_in() => {
                    let asked = (may_ask, Some(&mut *ending));
                    match accounts.sign_in_at_terminal(&server, asked, (name, UNCHANGED), self.output).await {
                        Ok(()) => {
                            trial.end().await;
                            continue;
                        }
                        Err(error) => Err(error),
                    }
                }
                Some((Ok(Err(status)), _)) => {
                    Err(not_started(&merged.server, &status, notices, merged.is_confined(), UNCHANGED))
                }
                Some((Ok(Ok(report)), offered)) => Ok((report, offered)),
            };
            let outcome = match reported {
                Ok(reported) => self.ask(about, merged, before, notices, reported, may_ask, ending).await,
                Err(error) => Err(error),
            };
            return Ok((trial, outcome));
        }
    }

    /// Shows what changes, and asks whether the new version is kept.
    #[allow(clippy::too_many_arguments, reason = "all that the page shows")]
    async fn ask(
        &self,
        (planned, risks): (&PlannedServer, &[String]),
        merged: &MergedServer,
        before: &BeforeUpdate,
        notices: &[String],
        (report, offered): (TrialReport, DefinitionMap),
        may_ask: bool,
        ending: &mut InterruptListener,
    ) -> CliResult<TrialReport> {
        let output = self.output;
        if self.args.auto {
            self.check_definitions(before, &offered)?;
            return Ok(report);
        }
        let page = UpdatePage {
            candidate: &self.candidate,
            entry: &self.entry,
            planned,
            risks,
            merged,
            report: &report,
            definitions: (&before.definitions, &offered),
            notices,
        };
        if !output.json {
            output.say(page.text());
        }
        if !may_ask {
            return Ok(report);
        }
        // In a thread, so that Ctrl-C ends the question and the server.
        let ask = move || confirm("  Accept this and update?", output);
        let answer = async { spawn_blocking(ask).await.unwrap_or(false) };
        match ending.unless(answer).await {
            None => Err(interrupted(UNCHANGED)),
            Some(false) => Err(CliError::usage("not updated; nothing was changed")),
            Some(true) => Ok(report),
        }
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
                "what it offers waits for a person: hospes pins accept {}",
                printable(&self.candidate.server.name)
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

    /// Keeps the new folder and the version before, and removes older ones. Returns the version that is kept.
    fn keep(
        &self,
        mut planned: PlannedServer,
        written: &ServerConfig,
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
        let current = RecordedVersion::new(recipe, path, written);
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
        output.say(format_args!(
            "  {} {} updated to {}. A running host uses it within a second or two.",
            paint(GREEN, "✓"),
            paint(BOLD, printable(&server.name)),
            one_line(&self.entry.version)
        ));
        if let Some(kept) = kept {
            let back = format!(
                "    Back to {}: hospes update {} --rollback",
                one_line(kept),
                printable(&server.name)
            );
            output.say(paint(output::DIM, back));
        }
    }
}
