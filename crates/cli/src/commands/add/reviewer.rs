//! The person who decides about an addition or an update: at the terminal, or at a page of the console.

use std::io;
use std::pin::pin;

use hospes_console::{AdditionOffer, AdditionPerson, AdditionPlan, AdditionSignIn, OfferedItem};
use hospes_host::config::ServerConfig;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use url::Url;

use super::super::{InterruptListener, interrupted};
use super::plan::PlannedServer;
use super::screen::Screen;
use super::trial::TrialReport;
use super::trial_accounts::{TrialAccounts, host_of};
use super::{NOT_UNDERSTOOD, ask_start, definitions};
use crate::exit::{CliError, CliResult};
use crate::output::{CliOutput, announce, discard_typed_input};

/// The person who decides, and who can end the addition or the update.
pub(in crate::commands) enum AdditionReviewer<'p> {
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
    pub(in crate::commands) async fn unless<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        match self {
            Self::Terminal { ending: Some(ending), .. } => ending.unless(work).await,
            Self::Terminal { ending: None, .. } => Some(work.await),
            Self::Page(person) => person.unless_cancelled(work).await,
        }
    }

    /// Creates the person at the terminal, who can end the work with Ctrl-C from now on.
    pub(in crate::commands) fn at_terminal(may_ask: bool) -> CliResult<Self> {
        Ok(Self::Terminal { may_ask, ending: Some(InterruptListener::new()?) })
    }

    /// Returns true if the person can be asked anything.
    pub(in crate::commands) fn may_ask(&self) -> bool {
        matches!(self, Self::Terminal { may_ask: true, .. } | Self::Page(_))
    }

    pub(in crate::commands) fn is_page(&self) -> bool {
        matches!(self, Self::Page(_))
    }

    /// Returns true if the person at the terminal has interrupted something.
    pub(in crate::commands) fn was_interrupted(&self) -> bool {
        matches!(self, Self::Terminal { ending: Some(ending), .. } if ending.was_interrupted())
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

    /// Signs the person in to a server that requires it. Nothing is stored yet. `login` is the target of `hospes auth login`.
    ///
    /// # Errors
    /// If nobody can be asked, or the person does not sign in.
    pub(in crate::commands) async fn sign_in(
        &mut self,
        server: &ServerConfig,
        accounts: &TrialAccounts,
        (login, end): (&str, &str),
        output: CliOutput,
    ) -> CliResult {
        match self {
            Self::Terminal { may_ask, ending } => {
                let asked = (*may_ask, ending.as_mut());
                accounts.sign_in_at_terminal(server, asked, (login, end), output).await
            }
            Self::Page(person) => {
                let (send, mut pages) = mpsc::channel(1);
                let show = move |page: &Url| send.try_send(page.clone()).map_err(io::Error::other);
                let host = host_of(server);
                let work = async {
                    let mut signing = pin!(accounts.sign_in(server, show, output));
                    loop {
                        tokio::select! {
                            signed = &mut signing => return signed,
                            Some(page) = pages.recv() => {
                                let (host, url) = (host.clone(), page.into());
                                person.show_sign_in(&AdditionSignIn { host, url }).await;
                            }
                        }
                    }
                };
                person.unless_cancelled(work).await.unwrap_or_else(|| Err(interrupted(end)))
            }
        }
    }

    /// Asks whether the definitions are accepted and the server is kept. `None` if the addition is ended instead.
    pub(super) async fn ask_acceptance(
        &mut self,
        report: &TrialReport,
        screen: &Screen,
        output: CliOutput,
    ) -> Option<AcceptanceAnswer> {
        match self {
            Self::Terminal { may_ask, .. } => {
                let may_ask = *may_ask;
                if !output.json {
                    output.say(screen.text());
                }
                let offers = report.offers.clone();
                // In a thread, so that Ctrl-C ends the question and the server.
                let ask = move || ask_at_terminal(&offers, output);
                let answer = async {
                    match may_ask {
                        false => AcceptanceAnswer::Keep,
                        true => spawn_blocking(ask).await.unwrap_or(AcceptanceAnswer::Refuse),
                    }
                };
                self.unless(answer).await
            }
            Self::Page(person) => {
                let findings = report.pinned.as_ref().map(|pinned| &pinned.lints);
                let findings = findings.into_iter().flatten().map(|lint| lint.text.clone()).collect();
                let offer =
                    AdditionOffer { screen: screen.for_page(), findings, items: report.offers.clone() };
                let answer = person.ask_acceptance(&offer).await;
                Some(answer.map_or(AcceptanceAnswer::Refuse, |()| AcceptanceAnswer::Keep))
            }
        }
    }
}

/// Answer of the person to what a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcceptanceAnswer {
    /// The definitions are accepted, and the server is used.
    Keep,
    /// The server is kept switched off, and its definitions are not accepted.
    KeepOff,
    /// The server is not added, and nothing of it is kept.
    Refuse,
}

fn ask_at_terminal(offers: &[OfferedItem], output: CliOutput) -> AcceptanceAnswer {
    let question = "\n  Accept these definitions and keep the server?\n  \
                    [Enter keep · v all definitions · q keep it switched off · r remove] ";
    loop {
        discard_typed_input();
        match output.ask(question).as_deref().map(str::trim) {
            Some("" | "y" | "Y" | "yes") => return AcceptanceAnswer::Keep,
            Some("q" | "Q") => return AcceptanceAnswer::KeepOff,
            Some("v" | "V") => definitions::page(offers, output),
            Some("r" | "R") | None => return AcceptanceAnswer::Refuse,
            Some(_) => announce(NOT_UNDERSTOOD),
        }
    }
}
