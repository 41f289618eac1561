//! The steps of an addition that the terminal and the page of the console share: plan, install, start, ask, keep.

use std::path::Path;
use std::time::Instant;

use hospes_host::config::{ServerConfig, add_servers, servers_text};
use hospes_host::pins::PinState;
use hospes_registry::{is_local_registry, local_name};
use secrecy::ExposeSecret as _;

use super::super::config_target::ConfigTarget;
use super::super::{file_replace, interrupted};
use super::answers::{AnswerMap, Asker};
use super::draft::ServerDraft;
use super::find::FoundServer;
use super::plan::{self, ChosenEntry, PlanRequest, PlannedServer};
use super::reviewer::{AcceptanceAnswer, AdditionReviewer};
use super::trial::{ServerTrial, TrialReport};
use super::trial_accounts::TrialAccounts;
use super::{bundle, card, denied, denied_host, not_started};
use crate::command_lock::CommandLock;
use crate::credentials::CredentialsStore;
use crate::exit::{CliError, CliResult};
use crate::output::{CliOutput, printable};
use crate::paths;
use crate::progress::StepBar;
use crate::secrets::SecretStore;
use crate::server_record::{RecordedVersion, ServerRecord};
use crate::shown_commands::shown_command;

/// Text of an interruption, and of a failure.
const NOTHING_ADDED: &str = "nothing was added";

/// Choices about an addition, besides the server.
pub(super) struct ServerAddition<'a> {
    pub(super) target: &'a ConfigTarget,
    /// Servers that the configuration has.
    pub(super) existing: &'a [ServerConfig],
    /// Base URL of the registry.
    pub(super) registry: String,
    /// Name of the server in the configuration, if one is demanded.
    pub(super) local_name: Option<&'a str>,
    /// Headers of a server at a URL, with the sources of their values.
    pub(super) headers: &'a [String],
    pub(super) package: Option<&'a str>,
    pub(super) set: &'a [String],
    pub(super) secret: &'a [String],
    /// SHA-256 that a bundle must have.
    pub(super) sha256: Option<&'a str>,
    pub(super) installs: bool,
    /// Author of the decision. `None` if the rules decide about the definitions.
    pub(super) by: Option<String>,
    pub(super) credentials_store: CredentialsStore,
    pub(super) output: CliOutput,
}

impl ServerAddition<'_> {
    /// Plans the start: which package, with which answers, and what the person is shown. What is `known` is not asked.
    pub(super) async fn plan(
        &self,
        found: FoundServer,
        known: AnswerMap,
        asker: Asker<'_>,
    ) -> CliResult<PlannedServer> {
        let is_taken = |name: &str| self.existing.iter().any(|server| server.name == name);
        let named =
            |full: &str| self.local_name.map_or_else(|| local_name(full, is_taken), ToOwned::to_owned);
        let request = PlanRequest {
            package: self.package,
            set: self.set,
            secret: self.secret,
            sha256: self.sha256,
            known,
            installs: self.installs,
            is_registry_local: is_local_registry(&self.registry),
            asker,
            output: self.output,
        };
        let planned = match found {
            FoundServer::Bundle(file) => bundle::plan((&file, None), None, |_| {}, &named, &request).await,
            FoundServer::Entry { entry, registry } => {
                let known: Vec<&str> = self
                    .existing
                    .iter()
                    .map(|server| server.origin.registry.as_deref().unwrap_or(&server.name))
                    .collect();
                let chosen =
                    ChosenEntry { entry: &entry, registry: registry.as_deref(), known, previous: None };
                plan::plan(&chosen, &request, &named).await
            }
            FoundServer::Url(url) => card::plan(&url, self.headers, &named, &request).await,
            FoundServer::Command(words) => {
                let program = Path::new(&words[0]);
                let stem = program.file_stem().map(|stem| stem.to_string_lossy().into_owned());
                let name = named(&format!("command/{}", stem.unwrap_or_default()));
                PlannedServer::of_draft(ServerDraft::of_command(&name, &words), &name, |_| {})
            }
        }?;
        self.check_is_new(&planned)?;
        Ok(planned)
    }

    /// Checks that the configuration does not have the same server already, unless a name for another of it is demanded.
    fn check_is_new(&self, planned: &PlannedServer) -> CliResult {
        let new = planned.draft.entry()?;
        let is_same = |known: &&ServerConfig| {
            known.transport == new.transport
                || new.origin.digest.is_some() && known.origin.digest == new.origin.digest
        };
        match self.existing.iter().find(is_same) {
            Some(known) if self.local_name.is_none() => Err(CliError::usage(format!(
                "`{}` is this server already; {NOTHING_ADDED}",
                printable(&known.name)
            ))
            .hint("to run it a second time, give it another name: --name NAME")),
            _ => Ok(()),
        }
    }

    /// Installs and starts the server, asks whether it is kept, and keeps it. Returns what it offers, or `None` if the person
    /// refuses that. Of a no, a failure and an interruption nothing stays.
    pub(super) async fn carry_out(
        &self,
        planned: &mut PlannedServer,
        is_confined: bool,
        reviewer: &mut AdditionReviewer<'_>,
    ) -> CliResult<Option<TrialReport>> {
        let _lock = CommandLock::of_server(&planned.draft.name, "hospes add")?;
        let accounts = TrialAccounts::open()?;
        let outcome = Box::pin(self.try_out(planned, is_confined, reviewer, &accounts)).await;
        if !matches!(outcome, Ok(Some(_))) {
            accounts.discard().await;
        }
        // Removed under the lock, if it was not kept.
        planned.folder = None;
        outcome
    }

    async fn try_out(
        &self,
        planned: &mut PlannedServer,
        is_confined: bool,
        reviewer: &mut AdditionReviewer<'_>,
        accounts: &TrialAccounts,
    ) -> CliResult<Option<TrialReport>> {
        let output = self.output;
        let prepared = reviewer.unless(planned.prepare(output)).await;
        let notices = prepared.unwrap_or_else(|| Err(interrupted(NOTHING_ADDED)))?;
        planned.confine(is_confined);
        let begun = Instant::now();
        let name = planned.draft.name.clone();
        let mut grants = 0;
        let (server, trial, reported) = loop {
            let server = planned.draft.resolved()?;
            let trial =
                ServerTrial::start(server.clone(), self.existing, self.by.is_some(), accounts).await?;
            let work = async {
                let bar = StepBar::spinner(&format!("starting {}", printable(&name)), output);
                let report = trial.report().await;
                drop(bar);
                report
            };
            let reported = reviewer.unless(work).await;
            let may_grant = is_confined && reviewer.may_grant() && grants < denied::MAX_GRANTS;
            match &reported {
                Some(Ok(Err(status))) if status.needs_sign_in && !accounts.is_signed_in() => {
                    trial.discard().await;
                    let login = server.transport.to_string();
                    let signed_in =
                        reviewer.sign_in(&server, accounts, (&login, NOTHING_ADDED), output).await;
                    // The server may repeat what it was given.
                    signed_in.map_err(|error| error.masked(&planned.draft.secret_values(&server)))?;
                    continue;
                }
                Some(Ok(Err(status))) if may_grant && planned.offer_grant(status, output) => grants += 1,
                _ => break (server, trial, reported),
            }
            trial.discard().await;
        };
        let outcome = match reported {
            None => Err(interrupted(NOTHING_ADDED)),
            Some(Err(failure)) => Err(failure),
            Some(Ok(Err(mut status))) => {
                // The server may repeat what it was given.
                let secrets = planned.draft.secret_values(&server);
                status.problem = status.problem.map(|problem| secrets.mask(&problem));
                let sandbox = planned.sandbox.as_ref().filter(|_| is_confined);
                Err(denied_host(
                    not_started(&planned.draft.entry()?, &status, &notices, is_confined, NOTHING_ADDED),
                    &status,
                    sandbox,
                ))
            }
            Some(Ok(Ok(report))) => {
                let screen = super::view::report(&report, &notices, begun.elapsed().as_secs_f32());
                match reviewer.ask_acceptance(&report, &screen, output).await {
                    None => Err(interrupted(NOTHING_ADDED)),
                    Some(AcceptanceAnswer::Refuse) => Ok(None),
                    Some(answer) => {
                        if answer == AcceptanceAnswer::KeepOff {
                            planned.draft.switch_off();
                        }
                        self.conclude(planned, &trial, accounts, report).await.map(Some)
                    }
                }
            }
        };
        match outcome {
            Ok(Some(report)) => {
                trial.end().await;
                self.record(planned)?;
                Ok(Some(report))
            }
            other => {
                trial.discard().await;
                other
            }
        }
    }

    /// Accepts what the server offers unless it is kept switched off, stores its secrets, and writes its entry.
    async fn conclude(
        &self,
        planned: &PlannedServer,
        trial: &ServerTrial,
        accounts: &TrialAccounts,
        report: TrialReport,
    ) -> CliResult<TrialReport> {
        let server = planned.draft.entry()?;
        // Read again, because the person may have taken minutes, and other windows and programs write the file too.
        let target = ConfigTarget::read(Some(self.target.file.clone()))?;
        let file = paths::display_path(&target.file);
        if target.servers()?.iter().any(|known| known.name == server.name) {
            let name = printable(&server.name);
            return Err(CliError::usage(format!("{file} has a server `{name}` by now"))
                .hint("nothing was added; add it again under another name"));
        }
        let entries = [(server, comment(&planned.draft))];
        let text = add_servers(&target.file, &target.text, &entries).map_err(|error| {
            CliError::usage(format!("cannot add to {file}")).with_cause(&error).hint(format!(
                "nothing was changed; write `[servers]` as a table of its own, or add this by hand:\n{}",
                servers_text(&entries)
            ))
        })?;
        match (&report.pinned, &self.by) {
            _ if planned.draft.is_switched_off() => {}
            (Some(pinned), Some(by)) => trial.accept(pinned, by).await?,
            (Some(pinned), None) if pinned.state != PinState::Accepted => self.output.warn(format_args!(
                "what it offers waits for a person: {}",
                shown_command("pins accept", &planned.draft.name)
            )),
            _ => {}
        }
        // First the secrets: a file that refers to missing ones would be worse than secrets that nothing refers to.
        if !planned.draft.secrets.is_empty() {
            let (store, output) = (self.credentials_store, self.output);
            let secrets = planned.draft.secrets.clone();
            // In a thread, because a keyring may ask the person before it answers.
            let stored = tokio::task::spawn_blocking(move || {
                let store = SecretStore::open_or_create(store, output)?;
                secrets.iter().try_for_each(|(name, value)| store.write(name, value.expose_secret()))
            });
            stored
                .await
                .map_err(|error| CliError::usage("cannot store the secrets").with_cause(&error))??;
        }
        accounts.keep(self.credentials_store, self.output).await?;
        file_replace::replace(&target.file, &target.text, &text)?;
        Ok(report)
    }

    /// Keeps the folder of the server, and records what a later update has to know.
    fn record(&self, planned: &mut PlannedServer) -> CliResult {
        let recipe = planned.recipe.take();
        let folder = planned.folder.take();
        let path = folder.as_ref().map(|folder| folder.path().to_owned());
        if let Some(folder) = folder {
            folder.keep();
        }
        if let Some(recipe) = recipe {
            let current = RecordedVersion::new(recipe, path, &planned.draft.entry()?);
            let (file, name) = (&self.target.file, &planned.draft.name);
            // The server works without it.
            if let Err(error) = ServerRecord::new(file, name, &self.registry, current, None).write() {
                self.output.warn(error);
            }
        }
        Ok(())
    }
}

/// Returns the comment of an entry in the configuration.
pub(super) fn comment(draft: &ServerDraft) -> String {
    match &draft.origin.registry {
        Some(name) => format!("{name}, from the registry"),
        None => "Added with `hospes add`".to_owned(),
    }
}

/// Returns the error of a server that the person refuses.
pub(super) fn not_added() -> CliError {
    CliError::usage("not added; nothing was changed")
}
