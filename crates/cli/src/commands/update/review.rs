//! The trial of the new version of a server, and the question whether it is kept.

use hospes_host::config::ServerConfig;
use tokio::task::spawn_blocking;

use super::super::add::plan::PlannedServer;
use super::super::add::trial::{DefinitionMap, ServerTrial, TrialReport};
use super::super::add::trial_accounts::TrialAccounts;
use super::super::add::{confirm, not_started};
use super::super::{InterruptListener, interrupted};
use super::before::BeforeUpdate;
use super::merge::MergedServer;
use super::page::UpdatePage;
use super::{UNCHANGED, Update};
use crate::exit::{CliError, CliResult};
use crate::output::printable;
use crate::progress::StepBar;

impl Update {
    /// Starts the new version, and asks whether it is kept. Returns the trial with the answer. The outer error is that of a start
    /// that was not possible.
    #[allow(clippy::too_many_arguments, reason = "all that the page shows")]
    pub(super) async fn review(
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
}
