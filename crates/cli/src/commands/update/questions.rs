//! The questions of an update, at the terminal and on a page of the console.

use hospes_console::{AdditionOffer, AdditionPlan};
use tokio::task::spawn_blocking;

use super::super::add::confirm;
use super::super::add::plan::PlannedServer;
use super::super::add::reviewer::AdditionReviewer;
use super::super::add::view;
use super::super::interrupted;
use super::UNCHANGED;
use super::page::UpdatePage;
use crate::exit::{CliError, CliResult};
use crate::output::{CliOutput, announce};

fn refused() -> CliError {
    CliError::usage("cancelled; nothing was changed")
}

impl AdditionReviewer<'_> {
    /// Asks whether a new version is started. At the terminal, only one that gets or does more than the version before is
    /// asked about.
    pub(super) async fn ask_new_version(
        &mut self,
        planned: &PlannedServer,
        risks: &[String],
        output: CliOutput,
    ) -> CliResult {
        if let Self::Page(person) = self {
            let mut screen = planned.screen.clone();
            let known = screen.for_page().rows;
            for risk in
                risks.iter().filter(|risk| !known.iter().any(|row| row.is_warning && row.text == **risk))
            {
                screen.warning(risk);
            }
            let plan = AdditionPlan {
                screen: screen.for_page(),
                server: planned.draft.name.clone(),
                // The entry keeps the one that it has.
                sandbox: None,
                is_installed: planned.is_installed_first(),
                other_packages: Vec::new(),
            };
            return person.ask_start(&plan).await.map(drop).ok_or_else(refused);
        }
        if risks.is_empty() {
            return Ok(());
        }
        announce(planned.screen.text());
        announce(view::new_risks(risks));
        let question = "  It asks for more than the version before, or comes from elsewhere. Start it?";
        let answer = self.unless(spawn_blocking(move || confirm(question, output))).await;
        match answer.map(|answer| answer.unwrap_or(false)) {
            None => Err(interrupted(UNCHANGED)),
            Some(false) => Err(refused()),
            Some(true) => Ok(()),
        }
    }

    /// Shows what an update changes, and asks whether it is made.
    pub(super) async fn ask_update(&mut self, page: &UpdatePage<'_>, output: CliOutput) -> CliResult {
        let not_updated = || CliError::usage("not updated; nothing was changed");
        let screen = page.screen();
        if let Self::Page(person) = self {
            let findings = page.report.pinned.iter().flat_map(|pinned| &pinned.lints);
            let findings = findings.map(|lint| lint.text.clone()).collect();
            let offer = AdditionOffer { screen: screen.for_page(), findings, items: page.changed_items() };
            return person.ask_acceptance(&offer).await.ok_or_else(not_updated);
        }
        if !output.json {
            output.say(screen.text());
        }
        if !self.may_ask() {
            return Ok(());
        }
        // In a thread, so that Ctrl-C ends the question and the server.
        let ask = move || confirm("  Accept this and update?", output);
        let answer = async { spawn_blocking(ask).await.unwrap_or(false) };
        match self.unless(answer).await {
            None => Err(interrupted(UNCHANGED)),
            Some(false) => Err(not_updated()),
            Some(true) => Ok(()),
        }
    }
}
