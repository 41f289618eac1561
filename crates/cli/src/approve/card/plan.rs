//! The card of a plan: its calls in order, then for each where its values come from and its arguments.

use hospes_host::approvals::{Approval, CallSummary, PlanCard, PlanGroup, PlannedCall};
use hospes_host::pins::PinnedServer;
use hospes_policy::{CallEffect, visible_line};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::call::MAX_SOURCES;
use super::page::CardPage;
use super::{bad, bold, dim};
use crate::approve::draft::ApprovalDraft;
use crate::approve::text;

impl CardPage {
    pub(super) fn plan(
        &mut self,
        card: &PlanCard,
        approval: &Approval,
        draft: &ApprovalDraft,
        pins: Option<&[PinnedServer]>,
    ) {
        for line in text::lines(&card.heading.to_uppercase(), self.width) {
            self.lines.push(Line::styled(line, bold()));
        }
        card.groups.iter().for_each(|group| self.plan_group(group));
        self.styled("", "The plan ends if anything differs.", dim());
        for (index, call) in card.calls.iter().enumerate() {
            self.planned_call(index + 1, call, draft);
        }
        // All of it is needed: each call is one that the decision covers.
        self.needed = Some(self.lines.len());
        self.part("Why it is asked", "");
        self.who(approval, pins);
        if approval.offers.targets {
            self.fact("t remembers", &card.targets().join(", "));
        }
        for (index, call) in card.calls.iter().enumerate() {
            let because = call.because.as_deref().unwrap_or("it would not be asked about by itself");
            self.fact(&format!("call {}", index + 1), because);
        }
    }

    fn plan_group(&mut self, group: &PlanGroup) {
        let times = if group.count > 1 { format!("{} × ", group.count) } else { String::new() };
        let words = format!(
            "{}. {times}{}: {}  ({})",
            group.numbers(),
            visible_line(&group.server),
            reach(&group.summary),
            match group.is_unusual {
                true => format!("{}; unusual, see below", group.undo),
                false => group.undo.clone(),
            }
        );
        let style = if group.summary.irreversible { bad() } else { bold() };
        for line in text::lines(&words, self.width) {
            self.lines.push(Line::styled(line, style));
        }
    }

    fn planned_call(&mut self, number: usize, call: &PlannedCall, draft: &ApprovalDraft) {
        self.lines.push(Line::default());
        let name = format!("{number}. {} of {}", visible_line(&call.name), visible_line(&call.server));
        for line in text::lines(&name, self.width) {
            self.lines.push(Line::from(Span::styled(line, bold())));
        }
        let style = if call.effect == CallEffect::Irreversible { bad() } else { dim() };
        self.styled("", call.undo(), style);
        if !call.summary.unusual.is_empty() {
            self.styled("", &call.summary.unusual, Style::new().fg(Color::Yellow));
        }
        if let Some(flow) = &call.data_flow {
            self.styled("", &format!("{flow}; this call can send data out"), bad());
        }
        let values = call.guard.as_ref().map(|guard| guard.values.as_slice()).unwrap_or_default();
        for value in values.iter().filter(|value| value.source.is_some()).take(MAX_SOURCES) {
            self.source(value);
        }
        self.marks = values.iter().map(|value| visible_line(&value.value)).collect();
        if draft.is_raw {
            self.raw(&call.arguments);
        } else {
            self.object(&call.arguments);
        }
        self.marks.clear();
    }
}

/// Describes what calls do and to whom, in one line.
pub(crate) fn reach(summary: &CallSummary) -> String {
    let mut words = summary.verb.to_uppercase();
    if !summary.targets.is_empty() {
        let between =
            if summary.preposition.is_empty() { String::new() } else { format!("{} ", summary.preposition) };
        words.push_str(&format!(" {between}{}", summary.listed_targets(visible_line)));
    }
    words
}
