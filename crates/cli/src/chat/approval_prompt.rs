//! Prompts for pending approvals in a chat: the card of `hospes approve`, and a letter as the answer.

use std::sync::Arc;

use hospes::model::{ElicitAction, ElicitFormParams, ElicitResult};
use hospes_host::approvals::{
    Approval, ApprovalCard, ApprovalDecision, ApprovalQueue, ApprovalScope, ApprovalState, DecideError,
    ONE_BY_ONE_REASON,
};
use hospes_host::deciders::DecisionAuthor;
use hospes_policy::visible;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line as Row;
use tokio::sync::oneshot;

use super::input::InputLines;
use crate::approve::{ARMING_DELAY, ApprovalDraft, ApprovalRisk, card, done, edit, ending, original, title};
use crate::output::{
    BOLD, CYAN, CliOutput, DIM, announce, discard_typed_input, paint, print_message_part, talk_width,
};
use crate::prompt;

/// Decider recorded in the audit log.
const DECIDED_BY: &str = "the person in the chat";

/// Maximum width of a card, in columns.
const MAX_WIDTH: usize = 100;

/// Asks the person in the chat about pending approvals.
pub(super) struct ChatApprover {
    pub(super) queue: ApprovalQueue,
    pub(super) lines: Arc<InputLines>,
    pub(super) output: CliOutput,
}

/// Answer to a pending approval, parsed from a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ApprovalReply {
    Decide(ApprovalDecision),
    Fill,
    Edit,
    Undo,
    Raw,
    /// Unrecognized input.
    Other,
}

impl ApprovalReply {
    /// Parses a line. An empty line neither allows nor denies, and text that does not begin with a known letter is
    /// ignored.
    pub(super) fn of(line: &str, approval: &Approval, draft: &ApprovalDraft) -> Self {
        let line = line.trim();
        let (letter, rest) = line.split_once(' ').unwrap_or((line, ""));
        let reason = Some(rest.trim().to_owned()).filter(|reason| !reason.is_empty());
        let allow = |scope| Self::Decide(ApprovalDecision::Allow { edited: draft.edited.clone(), scope });
        let offers = approval.offers;
        match (letter, rest) {
            ("d", _) => Self::Decide(ApprovalDecision::Deny { reason, block: false }),
            ("n", "") if matches!(approval.card, ApprovalCard::Plan(_)) => {
                Self::Decide(ApprovalDecision::deny_because(ONE_BY_ONE_REASON))
            }
            ("b", _) if offers.block => Self::Decide(ApprovalDecision::Deny { reason, block: true }),
            // A letter that allows must stand alone, because the words after it could contradict it.
            ("o", "") => allow(ApprovalScope::Once),
            ("t", "") if offers.targets => allow(ApprovalScope::Targets),
            ("s", "") if offers.session => allow(ApprovalScope::Session),
            ("V", "") if offers.values => allow(ApprovalScope::Values),
            ("f", "") if matches!(approval.card, ApprovalCard::Form(_)) => Self::Fill,
            ("e", "") if offers.edit => Self::Edit,
            ("u", "") if draft.edited.is_some() || draft.broken.is_some() => Self::Undo,
            ("v", "") => Self::Raw,
            _ => Self::Other,
        }
    }
}

impl ChatApprover {
    /// Asks the person about each pending approval. Never returns.
    pub(super) async fn attend(&self) -> std::convert::Infallible {
        loop {
            self.wait_for_approval().await;
            self.ask_next().await;
        }
    }

    /// Waits until an approval is pending.
    pub(super) async fn wait_for_approval(&self) {
        // Subscribed before the first look, so that no approval that arrives in between is missed.
        let mut changes = self.queue.subscribe();
        while self.next().is_none() {
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the oldest approval that is pending in this process. Approvals of another host with the same state are
    /// not part of the chat, whatever its application calls itself.
    fn next(&self) -> Option<Approval> {
        self.queue.pending_unpersisted().into_iter().next()
    }

    /// Asks about the oldest pending approval until it is decided or over.
    pub(super) async fn ask_next(&self) {
        let Some(approval) = self.next() else { return };
        let mut draft = ApprovalDraft::default();
        announce(shown(&approval, &draft));
        loop {
            // Text typed before the question appeared is not an answer to it.
            discard_typed_input();
            let (name, server) = title(&approval);
            let what = paint(BOLD, format!("{name} ({server})"));
            print_message_part(&format!("\n{what}\n{}{} ", keys(&approval, &draft), paint(CYAN, " >")));
            // `over` first, because an answer to an approval that is over must not be used. `InputLines` keeps a
            // read that is dropped here for the next question.
            let line = tokio::select! {
                biased;
                over = self.over(&approval.id) => {
                    announce(paint(DIM, format!("\n  {}", ending(&over.unwrap_or(approval)))));
                    // Keys being typed were meant for this approval, not for the next one.
                    tokio::time::sleep(ARMING_DELAY).await;
                    return;
                }
                line = self.lines.next() => line,
            };
            let word = match line {
                Some(Ok(line)) => ApprovalReply::of(&line, &approval, &draft),
                Some(Err(_)) => ApprovalReply::Other,
                // Input has ended, so nobody can decide any more.
                None => ApprovalReply::Decide(ApprovalDecision::deny()),
            };
            let decision = match word {
                ApprovalReply::Decide(decision) => Some(decision),
                ApprovalReply::Fill => self.fill(&approval, &mut draft).await,
                ApprovalReply::Edit => {
                    self.edit(&approval, &mut draft).await;
                    None
                }
                ApprovalReply::Undo => {
                    draft = ApprovalDraft { is_raw: draft.is_raw, ..ApprovalDraft::default() };
                    None
                }
                ApprovalReply::Raw => {
                    draft.is_raw = !draft.is_raw;
                    None
                }
                ApprovalReply::Other => continue,
            };
            match decision {
                None => announce(shown(&approval, &draft)),
                Some(decision) => match self.decide(&approval, &draft, decision).await {
                    Ok(said) => return announce(paint(DIM, format!("  {said}"))),
                    // The error may quote text from a server.
                    Err(why) => self.output.warn(visible(&why)),
                },
            }
        }
    }

    /// Denies the oldest pending approval.
    pub(super) async fn refuse_next(&self) {
        let Some(approval) = self.next() else { return };
        let said = self.decide(&approval, &ApprovalDraft::default(), ApprovalDecision::deny()).await;
        announce(paint(DIM, format!("\n  {}", said.unwrap_or_else(|why| why))));
    }

    /// Opens the requested action in the person's editor.
    async fn edit(&self, approval: &Approval, draft: &mut ApprovalDraft) {
        let text = draft.text(&original(approval));
        let edited = tokio::task::spawn_blocking(move || edit(&text)).await;
        match edited.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(text) => draft.take(text, &original(approval)),
            Err(why) => self.output.warn(visible(&why)),
        }
    }

    /// Waits until an approval is no longer pending and returns it with its outcome.
    async fn over(&self, id: &str) -> Option<Approval> {
        // Subscribed before the approval is read, so that its end cannot fall in between.
        let mut changes = self.queue.subscribe();
        loop {
            match self.queue.get(id) {
                Some(approval) if approval.state == ApprovalState::Open => {
                    let left = approval.expires_at.duration_since(jiff::Timestamp::now());
                    let left = std::time::Duration::try_from(left).unwrap_or_default();
                    // The sleep is never zero: until the queue notices the expiry this would be a busy loop.
                    tokio::select! {
                        changed = changes.changed() => if changed.is_err() { return None },
                        () = tokio::time::sleep(left.max(std::time::Duration::from_millis(1))) => {}
                    }
                }
                over => return over,
            }
        }
    }

    async fn decide(
        &self,
        approval: &Approval,
        draft: &ApprovalDraft,
        decision: ApprovalDecision,
    ) -> Result<String, String> {
        let name = title(approval).0;
        let words = match &decision {
            ApprovalDecision::Deny { block: true, .. } => format!("denied, now and in future: {name}"),
            ApprovalDecision::Deny { .. } => format!("denied: {name}"),
            ApprovalDecision::Allow { scope: ApprovalScope::Session, .. } => {
                format!("allowed for {}: {name}", approval.session.as_deref().unwrap_or("this session"))
            }
            ApprovalDecision::Allow { .. } if draft.broken.is_some() => {
                return Err("the edited text is not valid JSON; e: edit again, u: undo".to_owned());
            }
            ApprovalDecision::Allow { scope: ApprovalScope::Targets, .. } => {
                format!("allowed once, target remembered for 30 days: {name}")
            }
            ApprovalDecision::Allow { scope: ApprovalScope::Values, .. } => {
                format!("allowed once, value right for this session: {name}")
            }
            ApprovalDecision::Allow { edited: None, .. }
                if matches!(approval.card, ApprovalCard::Form(_)) =>
            {
                return Err("fill in the form first: f here, or e in your editor".to_owned());
            }
            ApprovalDecision::Allow { .. } => format!("{}: {name}", done(approval)),
        };
        match self.queue.decide(&approval.id, decision, DecisionAuthor::person(DECIDED_BY)).await {
            Ok(_) => Ok(words),
            // The approval was decided elsewhere in the meantime, which ends this question as well.
            Err(error @ (DecideError::Over | DecideError::Unknown)) => Ok(error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Asks for the fields of a form and stores the answers in the draft, or returns the person's refusal.
    async fn fill(&self, approval: &Approval, draft: &mut ApprovalDraft) -> Option<ApprovalDecision> {
        let ApprovalCard::Form(card) = &approval.card else { return None };
        let Ok(form) = card.schema.decode().map(|schema| ElicitFormParams::new("", schema)) else {
            self.output.warn("this form cannot be filled in field by field; e opens it in your editor");
            return None;
        };
        // `held` is dropped together with this future, which ends the question in the blocking thread.
        let (held, mut given_up) = oneshot::channel::<()>();
        let (runtime, lines, output) =
            (tokio::runtime::Handle::current(), Arc::clone(&self.lines), self.output);
        // `prompt::fill` is synchronous and waits for each line, so that it needs a thread of its own.
        let filled = tokio::task::spawn_blocking(move || {
            prompt::fill(&form, output, &mut |question: &str| {
                print_message_part(question);
                runtime.block_on(async {
                    tokio::select! {
                        biased;
                        _ = &mut given_up => None,
                        line = lines.next() => line?.ok(),
                    }
                })
            })
        });
        let filled = filled.await;
        drop(held);
        match filled {
            Ok(ElicitResult { action: ElicitAction::Accept, content, .. }) => {
                *draft = ApprovalDraft { edited: content, is_raw: draft.is_raw, ..ApprovalDraft::default() };
                None
            }
            Ok(ElicitResult { action: ElicitAction::Decline, .. }) => Some(ApprovalDecision::deny()),
            _ => None,
        }
    }
}

/// Formats the card as text with colours.
fn shown(approval: &Approval, draft: &ApprovalDraft) -> String {
    let width = talk_width().unwrap_or(80).min(MAX_WIDTH).saturating_sub(2).max(20);
    let seconds = approval.expires_at.duration_since(jiff::Timestamp::now()).as_secs().max(0);
    let mark = painted(Style::new().fg(ApprovalRisk::of(approval).color()), "●");
    let mut text =
        format!("\n{mark} {}  {}\n", paint(BOLD, "pending approval"), paint(DIM, format!("{seconds} s")));
    for row in card(approval, draft, None, width) {
        text.push('\n');
        if row.width() > 0 {
            text.push_str("  ");
            text.push_str(&colored(&row));
        }
    }
    text
}

fn colored(row: &Row<'_>) -> String {
    row.spans.iter().map(|span| painted(row.style.patch(span.style), &span.content)).collect()
}

fn painted(style: Style, text: &str) -> String {
    let mut codes = Vec::new();
    for (modifier, code) in [(Modifier::BOLD, "1"), (Modifier::DIM, "2"), (Modifier::REVERSED, "7")] {
        codes.extend(style.add_modifier.contains(modifier).then_some(code));
    }
    codes.extend(match style.fg {
        Some(Color::Red) => Some("31"),
        Some(Color::Green) => Some("32"),
        Some(Color::Yellow) => Some("33"),
        Some(Color::Cyan) => Some("36"),
        _ => None,
    });
    if codes.is_empty() { text.to_owned() } else { paint(&codes.join(";"), text) }
}

/// Formats the keys that apply to the approval in its present state.
fn keys(approval: &Approval, draft: &ApprovalDraft) -> String {
    let offers = approval.offers;
    let allows = match approval.card {
        ApprovalCard::SamplingRequest(_) | ApprovalCard::Form(_) => "send",
        ApprovalCard::SamplingResult(_) | ApprovalCard::Result(_) => "deliver",
        ApprovalCard::Url(_) => "visited",
        ApprovalCard::Plan(_) => "allow the plan",
        _ => "once",
    };
    let is_changed = draft.edited.is_some() || draft.broken.is_some();
    let all = [
        ("d", "deny (with reason)", true),
        ("b", "deny always", offers.block),
        ("f", "fill in", matches!(approval.card, ApprovalCard::Form(_))),
        ("o", allows, approval.approvers.is_none()),
        ("n", "ask one by one", matches!(approval.card, ApprovalCard::Plan(_))),
        ("t", "once, remember target", offers.targets),
        ("s", "session", offers.session),
        ("V", "value is right", offers.values),
        ("e", "edit", offers.edit),
        ("u", "undo edit", is_changed),
        (
            "v",
            if draft.is_raw { "summary" } else { "as JSON" },
            !matches!(approval.card, ApprovalCard::Url(_)),
        ),
    ];
    let key = |(key, does, _): &(&str, &str, bool)| format!("{} {}", paint(BOLD, key), paint(DIM, does));
    all.iter().filter(|(_, _, is_there)| *is_there).map(key).collect::<Vec<_>>().join("  ")
}
