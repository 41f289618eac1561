//! Audit entries of decisions. They are written when the decision is made, because its result may come days later or
//! never.

use hospes_store::{AuditEntry, AuditEntryKind, AuditLog, DecisionBasis};

use super::approval::{Approval, ApprovalCard};
use super::decision::ApprovalDecision;
use super::grant::ApprovalScope;
use super::queue::ApprovalQueue;

impl ApprovalQueue {
    /// Records every later decision: the decider, the subject and the scope. Only the first call has an effect.
    pub(crate) fn set_audit(&self, audit: &AuditLog) {
        let _another = self.0.audit.set(audit.clone());
    }

    /// Records the decision about an approval. The entry is on disk before the decision is confirmed to its author.
    pub(super) async fn record(&self, approval: &Approval) {
        let (Some(audit), Some(entry)) = (self.0.audit.get(), decision_entry(approval)) else { return };
        // Cloned, because what cannot be written now is left to be written later.
        if let Err(error) = audit.record(entry.clone()).await {
            tracing::error!(%error, "decision could not be recorded yet");
            if audit.try_enqueue(entry).is_err() {
                tracing::error!("decision not recorded: the audit queue is full");
            }
        }
    }

    /// Records the decision about an approval without waiting.
    pub(super) fn try_record(&self, approval: &Approval) {
        let (Some(audit), Some(entry)) = (self.0.audit.get(), decision_entry(approval)) else { return };
        if audit.try_enqueue(entry).is_err() {
            tracing::error!("decision not recorded: the audit queue is full");
        }
    }

    /// Records that an approval ended without a decision, because its asker no longer waits.
    pub(super) fn record_withdrawn(&self, approval: &Approval, by: &str) {
        let Some(audit) = self.0.audit.get() else { return };
        let mut entry = base_entry(approval);
        entry.decision = Some("withdrawn".to_owned());
        (entry.by, entry.basis) = (Some(by.to_owned()), DecisionBasis::Unanswered);
        if audit.try_enqueue(entry).is_err() {
            tracing::error!("withdrawal not recorded: the audit queue is full");
        }
    }
}

/// Builds the audit entry of a decision; `None` if the approval is undecided. Reasons and edits are left out, because they
/// may contain anything.
fn decision_entry(approval: &Approval) -> Option<AuditEntry> {
    let decided = approval.decided.as_ref()?;
    let mut entry = base_entry(approval);
    entry.at = decided.at.as_microsecond();
    let (decision, scope, is_edited) = match &decided.decision {
        ApprovalDecision::Allow { edited, scope } => {
            let scope = match scope {
                ApprovalScope::Once => "once",
                ApprovalScope::Session => "session",
                ApprovalScope::Targets => "targets",
                ApprovalScope::Values => "values",
                ApprovalScope::Always(_) => "always",
            };
            // A form's content is no edit of anything.
            ("allow", scope, edited.is_some() && !matches!(approval.card, ApprovalCard::Form(_)))
        }
        ApprovalDecision::Deny { block: true, .. } => ("deny", "block", false),
        ApprovalDecision::Deny { .. } => ("deny", "once", false),
    };
    entry.decision = Some(decision.to_owned());
    entry.scope = Some(scope.to_owned());
    let changed = if is_edited { ", with edits" } else { "" };
    entry.by = Some(format!("{}{changed}", decided.by));
    entry.basis = decided.basis;
    Some(entry)
}

fn base_entry(approval: &Approval) -> AuditEntry {
    let mut entry = AuditEntry::new(AuditEntryKind::Decision);
    entry.server = Some(approval.server.clone());
    entry.profile.clone_from(&approval.endpoint_profile);
    entry.subject = Some(subject(&approval.card));
    entry.principal.clone_from(&approval.principal);
    entry.application.clone_from(&approval.application);
    entry.matter = Some(approval.id.clone());
    entry
}

/// Describes the subject of an approval for the audit log: names only, no content.
fn subject(card: &ApprovalCard) -> String {
    let (what, cause) = match card {
        ApprovalCard::Call(card) => return card.name.clone(),
        ApprovalCard::Plan(card) => return format!("a plan of {} calls", card.calls.len()),
        ApprovalCard::Result(card) => return format!("the result of {}", card.name),
        ApprovalCard::SamplingRequest(card) => ("a request to a model", &card.cause),
        ApprovalCard::SamplingResult(card) => ("the answer of a model", &card.cause),
        ApprovalCard::Form(card) => ("a form", &card.cause),
        ApprovalCard::Url(card) => ("an address", &card.cause),
    };
    cause.as_ref().map_or_else(|| what.to_owned(), |cause| format!("{what}, in the call of {cause}"))
}
