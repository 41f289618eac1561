//! The person who decides about an addition: at the terminal, or at a page of the console.

use hospes_console::{AdditionOffer, AdditionPerson, AdditionPlan, OfferedItem};
use hospes_host::pins::ItemKind;

use super::super::InterruptListener;
use super::plan::PlannedServer;
use super::trial::{ServerTrial, TrialReport};
use super::view::Screen;
use super::{ask_start, confirm};
use crate::exit::{CliError, CliResult};
use crate::output::{CliOutput, announce};

/// The person who decides, and who can end the addition.
pub(super) enum AdditionReviewer<'p> {
    Terminal {
        /// False if the command line has answered everything.
        may_ask: bool,
        /// Listens to Ctrl-C once there is something to remove.
        ending: Option<InterruptListener>,
    },
    Page(&'p AdditionPerson),
}

impl AdditionReviewer<'_> {
    /// Runs `work`. Returns `None` if the person ends the addition before it is done.
    pub(super) async fn unless<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        match self {
            Self::Terminal { ending: Some(ending), .. } => ending.unless(work).await,
            Self::Terminal { ending: None, .. } => Some(work.await),
            Self::Page(person) => person.unless_cancelled(work).await,
        }
    }

    /// Returns true if the person can be asked for a grant that the sandbox of the server lacks.
    pub(super) fn may_grant(&self) -> bool {
        matches!(self, Self::Terminal { may_ask: true, .. })
    }

    /// Asks whether the server is started. Returns whether it is confined.
    pub(super) async fn ask_start(
        &mut self,
        planned: &PlannedServer,
        is_confined: bool,
        output: CliOutput,
    ) -> CliResult<bool> {
        match self {
            Self::Terminal { may_ask, ending } => {
                let is_confined = match may_ask {
                    true => {
                        announce(planned.screen.text());
                        ask_start(planned, is_confined, output)?
                    }
                    false => is_confined,
                };
                *ending = Some(InterruptListener::new()?);
                Ok(is_confined)
            }
            Self::Page(person) => {
                let is_confinable = hospes_sandbox::SandboxHelper::is_supported();
                let plan = AdditionPlan {
                    screen: planned.screen.for_page(),
                    server: planned.draft.name.clone(),
                    sandbox: planned
                        .sandbox
                        .as_ref()
                        .filter(|_| is_confinable)
                        .map(|sandbox| sandbox.describe()),
                    is_installed: planned.is_installed_first(),
                    other_packages: planned.other_packages.clone(),
                };
                let answer = person.ask_start(&plan).await;
                answer.ok_or_else(|| CliError::usage("cancelled; nothing was changed"))
            }
        }
    }

    /// Asks whether the definitions are accepted and the server is kept. `None` if the addition is ended instead.
    pub(super) async fn ask_acceptance(
        &mut self,
        trial: &ServerTrial,
        report: &TrialReport,
        screen: &Screen,
        output: CliOutput,
    ) -> Option<bool> {
        match self {
            Self::Terminal { may_ask, .. } => {
                let may_ask = *may_ask;
                if !output.json {
                    output.say(screen.text());
                }
                // In a thread, so that Ctrl-C ends the question and the server.
                let ask = move || confirm("  Accept these definitions and keep the server?", output);
                let answer = async { !may_ask || tokio::task::spawn_blocking(ask).await.unwrap_or(false) };
                self.unless(answer).await
            }
            Self::Page(person) => {
                let offer = offer(trial, report, screen).await;
                Some(person.ask_acceptance(&offer).await.is_some())
            }
        }
    }
}

/// Returns what a server offers, for a page.
async fn offer(trial: &ServerTrial, report: &TrialReport, screen: &Screen) -> AdditionOffer {
    let mut definitions = trial.definitions().await;
    let pinned = report.pinned.as_ref();
    let items = pinned.into_iter().flat_map(|pinned| &pinned.items).map(|item| OfferedItem {
        kind: item.kind.as_str().to_owned(),
        name: item.name.clone(),
        findings: item.lints.iter().map(|lint| lint.text.clone()).collect(),
        definition: definitions
            .remove(&(item.kind, item.name.clone()))
            .filter(|definition| !definition.is_null()),
    });
    let mut items: Vec<OfferedItem> = items.collect();
    let order = |item: &OfferedItem| match item.kind.as_str() {
        kind if kind == ItemKind::Tool.as_str() => 0,
        kind if kind == ItemKind::Prompt.as_str() => 1,
        _ => 2,
    };
    // What is conspicuous comes first.
    items.sort_by_key(|item| (item.findings.is_empty(), order(item)));
    let findings = pinned.map(|pinned| pinned.lints.iter().map(|lint| lint.text.clone()).collect());
    AdditionOffer { screen: screen.for_page(), findings: findings.unwrap_or_default(), items }
}
