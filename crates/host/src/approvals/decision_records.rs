//! Every decision is recorded when it is made: what comes of it may never come back, or come days later.

use hospes_store::{AuditEntry, AuditEntryKind, AuditLog};

use super::ApprovalQueue;
use super::approval::{Approval, ApprovalCard};
use super::decision::ApprovalDecision;
use super::grant::ApprovalScope;

impl ApprovalQueue {
    /// Records every decision from now on: who made it, about what, and for how long. The first such record stays.
    pub(crate) fn set_audit(&self, audit: &AuditLog) {
        let _another = self.0.audit.set(audit.clone());
    }

    /// Records the decision about a matter. The entry is on disk before the decision is confirmed to its author.
    pub(super) async fn record(&self, matter: &Approval) {
        let (Some(audit), Some(entry)) = (self.0.audit.get(), decision_entry(matter)) else { return };
        // Cloned, because what cannot be written now is left to be written later.
        if let Err(error) = audit.record(entry.clone()).await {
            tracing::error!(%error, "decision could not be recorded yet");
            if audit.try_enqueue(entry).is_err() {
                tracing::error!("decision not recorded: the audit queue is full");
            }
        }
    }

    /// Records the decision about a matter without waiting.
    pub(super) fn try_record(&self, matter: &Approval) {
        let (Some(audit), Some(entry)) = (self.0.audit.get(), decision_entry(matter)) else { return };
        if audit.try_enqueue(entry).is_err() {
            tracing::error!("decision not recorded: the audit queue is full");
        }
    }

    /// Records that a matter ended without a decision, because its asker no longer waits.
    pub(super) fn record_withdrawn(&self, matter: &Approval, by: &str) {
        let Some(audit) = self.0.audit.get() else { return };
        let mut entry = base_entry(matter);
        entry.decision = Some("withdrawn".to_owned());
        entry.by = Some(by.to_owned());
        if audit.try_enqueue(entry).is_err() {
            tracing::error!("withdrawal not recorded: the audit queue is full");
        }
    }
}

/// Nothing where nothing was decided. Reasons and edits are not in it: they may hold anything.
fn decision_entry(matter: &Approval) -> Option<AuditEntry> {
    let decided = matter.decided.as_ref()?;
    let mut entry = base_entry(matter);
    entry.at = decided.at.as_microsecond();
    let (decision, scope, is_edited) = match &decided.decision {
        ApprovalDecision::Allow { edited, scope } => {
            let scope = match scope {
                ApprovalScope::Once => "once",
                ApprovalScope::Session => "session",
                ApprovalScope::Always(_) => "always",
            };
            // A form's content is no edit of anything.
            ("allow", scope, edited.is_some() && !matches!(matter.card, ApprovalCard::Form(_)))
        }
        ApprovalDecision::Deny { block: true, .. } => ("deny", "block", false),
        ApprovalDecision::Deny { .. } => ("deny", "once", false),
    };
    entry.decision = Some(decision.to_owned());
    entry.scope = Some(scope.to_owned());
    let changed = if is_edited { ", with edits" } else { "" };
    entry.by = Some(format!("{}{changed}", decided.by));
    Some(entry)
}

fn base_entry(matter: &Approval) -> AuditEntry {
    let mut entry = AuditEntry::new(AuditEntryKind::Decision);
    entry.server = Some(matter.server.clone());
    entry.subject = Some(subject(&matter.card));
    entry.principal.clone_from(&matter.principal);
    entry.application.clone_from(&matter.application);
    entry.matter = Some(matter.id.clone());
    entry
}

/// Describes the subject of a matter for the audit log: names only, no content.
fn subject(card: &ApprovalCard) -> String {
    let (what, cause) = match card {
        ApprovalCard::Call(card) => return card.name.clone(),
        ApprovalCard::Result(card) => return format!("the result of {}", card.name),
        ApprovalCard::SamplingRequest(card) => ("a request to a model", &card.cause),
        ApprovalCard::SamplingResult(card) => ("the answer of a model", &card.cause),
        ApprovalCard::Form(card) => ("a form", &card.cause),
        ApprovalCard::Url(card) => ("an address", &card.cause),
    };
    cause.as_ref().map_or_else(|| what.to_owned(), |cause| format!("{what}, in the call of {cause}"))
}
