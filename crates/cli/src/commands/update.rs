//! `hospes update`: replaces servers that were added from the registry by newer versions, and goes back to the version
//! before.

pub(super) mod automatic;
mod before;
mod check;
mod merge;
pub(super) mod on_page;
mod page;
mod review;
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
use super::add::not_started;
use super::add::plan::{self, ChosenEntry, PlanRequest, PlannedServer};
use super::add::reviewer::AdditionReviewer;
use super::add::trial::{DefinitionMap, ServerTrial, TrialReport};
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
    if let Some(name) = &args.server {
        find(&servers, name, &target)?;
        if args.rollback {
            return rollback::run(name, &target, output);
        }
    }
    sweep::run(jiff::Timestamp::now());
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
        let result = update(&name, &args, &mut reviewer, None, output).await;
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
        let server = self.resolve(&target, &merged.server, &planned)?;
        let accounts = TrialAccounts::open()?;
        let tried = (server, by.is_some(), &accounts);
        let about = UpdateSubject {
            planned: &planned,
            risks: &risks,
            merged: &merged,
            published: &new,
            written: written.as_ref(),
            before: &before,
            notices: &notices,
        };
        let reviewed = self.review(tried, &about, reviewer).await;
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
        if !args.auto && !reviewer.is_page() {
            self.say(&merged.server, &report, kept.as_deref());
        }
        Ok(UpdateOutcome::Updated { from: self.candidate.version(), to: self.entry.version.clone() })
    }

    /// Plans the update. The person is asked for values that the new version needs.
    async fn plan_with(
        self: &Arc<Self>,
        reviewer: &mut AdditionReviewer<'_>,
        servers: &[ServerConfig],
    ) -> CliResult<PlannedServer> {
        if let AdditionReviewer::Page(person) = reviewer {
            let planned = person.unless_cancelled(self.plan(servers, Asker::Page(person))).await;
            let planned = planned.unwrap_or_else(|| Err(interrupted(UNCHANGED)))?;
            // The server may repeat what it is given, also what was typed earlier.
            planned.draft.secrets.values().for_each(|secret| person.hide(secret.expose_secret()));
            return Ok(planned);
        }
        // In a thread, because it asks for values, and Ctrl-C ends these questions, too.
        let asker = if reviewer.may_ask() { Asker::Terminal } else { Asker::Nobody };
        let (this, servers, runtime) = (Arc::clone(self), servers.to_vec(), Handle::current());
        let plan = spawn_blocking(move || runtime.block_on(this.plan(&servers, asker)));
        let planned = reviewer.unless(plan).await.ok_or_else(|| interrupted(UNCHANGED))?;
        planned.map_err(|error| CliError::usage("cannot plan the update").with_cause(&error))?
    }

    async fn plan(&self, servers: &[ServerConfig], asker: Asker<'_>) -> CliResult<PlannedServer> {
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
            asker,
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
    async fn review(
        &self,
        (server, is_reviewed, accounts): (ServerConfig, bool, &TrialAccounts),
        about: &UpdateSubject<'_>,
        reviewer: &mut AdditionReviewer<'_>,
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
            let reported = match reviewer.unless(work).await {
                None => Err(interrupted(UNCHANGED)),
                Some((Err(error), _)) => Err(error),
                Some((Ok(Err(status)), _)) if status.needs_sign_in && !accounts.is_signed_in() => {
                    match reviewer.sign_in(&server, accounts, (name, UNCHANGED), self.output).await {
                        Ok(()) => {
                            trial.end().await;
                            continue;
                        }
                        Err(error) => Err(error),
                    }
                }
                Some((Ok(Err(status)), _)) => {
                    let merged = about.merged;
                    Err(not_started(&merged.server, &status, about.notices, merged.is_confined(), UNCHANGED))
                }
                Some((Ok(Ok(report)), offered)) => Ok((report, offered)),
            };
            let outcome = match reported {
                Ok(reported) => self.ask(about, reported, reviewer).await,
                Err(error) => Err(error),
            };
            return Ok((trial, outcome));
        }
    }

    /// Shows what changes, and asks whether the new version is kept.
    async fn ask(
        &self,
        about: &UpdateSubject<'_>,
        (report, offered): (TrialReport, DefinitionMap),
        reviewer: &mut AdditionReviewer<'_>,
    ) -> CliResult<TrialReport> {
        if self.args.auto {
            self.check_definitions(about.before, &offered)?;
            return Ok(report);
        }
        let page = UpdatePage {
            candidate: &self.candidate,
            entry: &self.entry,
            about,
            report: &report,
            offered: &offered,
        };
        reviewer.ask_update(&page, self.output).await?;
        Ok(report)
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
