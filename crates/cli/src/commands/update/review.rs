//! The trial of the new version of a server, and the question whether it is kept.

use hospes_host::config::ServerConfig;

use super::super::add::not_started;
use super::super::add::reviewer::AdditionReviewer;
use super::super::add::trial::{DefinitionMap, ServerTrial, TrialReport};
use super::super::add::trial_accounts::TrialAccounts;
use super::super::interrupted;
use super::page::UpdatePage;
use super::{UNCHANGED, Update, UpdateSubject};
use crate::exit::CliResult;
use crate::output::printable;
use crate::progress::StepBar;

impl Update {
    /// Starts the new version, and asks whether it is kept. Returns the trial with the answer. The outer error is that of a start
    /// that was not possible.
    pub(super) async fn review(
        &self,
        (server, existing, is_reviewed, accounts): (ServerConfig, &[ServerConfig], bool, &TrialAccounts),
        about: &UpdateSubject<'_>,
        reviewer: &mut AdditionReviewer<'_>,
    ) -> CliResult<(ServerTrial, CliResult<TrialReport>)> {
        let name = &self.candidate.server.name;
        loop {
            let trial = ServerTrial::start(server.clone(), existing, is_reviewed, accounts).await?;
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
}
