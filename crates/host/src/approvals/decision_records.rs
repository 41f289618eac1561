//! Audit entries of decisions. They are written when the decision is made, because its result may come days later or
//! never. A state that records decisions does it in the transaction that makes them.

use hospes_store::{AuditEntry, AuditEntryKind, AuditLog, DecisionBasis, StateStore};
use jiff::Timestamp;

use super::approval::{Approval, ApprovalCard};
use super::decision::{ApprovalDecision, DecisionRecord};
use super::grant::{ApprovalGrant, ApprovalScope};
use super::queue::ApprovalQueue;
use crate::deciders::DecisionAuthor;

impl ApprovalQueue {
    /// Records every later decision: the decider, the subject and the scope. Only the first call has an effect.
    pub(crate) fn set_audit(&self, audit: &AuditLog) {
        let _another = self.0.audit.set(audit.clone());
    }

    /// Returns true if the state records its decisions, each in the transaction that makes it. Decisions that change
    /// nothing in the state are recorded in the audit log even then.
    pub(super) fn records_in_state(&self) -> bool {
        self.0.store.as_ref().is_some_and(StateStore::records_decisions)
    }

    /// Records a decision. The entry is on disk before the decision is confirmed to its author.
    pub(super) async fn record(&self, entry: AuditEntry) {
        let Some(audit) = self.0.audit.get() else { return };
        // Cloned, because what cannot be written now is left to be written later.
        if let Err(error) = audit.record(entry.clone()).await {
            tracing::error!(%error, "decision could not be recorded yet");
            self.try_record(entry);
        }
    }

    /// Records a decision without waiting.
    pub(super) fn try_record(&self, entry: AuditEntry) {
        let Some(audit) = self.0.audit.get() else { return };
        if audit.try_enqueue(entry).is_err() {
            tracing::error!("decision not recorded: the audit queue is full");
        }
    }

    /// Records that an approval ended without a decision, because its asker no longer waits.
    pub(super) fn record_withdrawn(&self, approval: &Approval, by: &str) {
        let Some(audit) = self.0.audit.get() else { return };
        let mut entry = base_entry(approval);
        entry.at = self.now().as_microsecond();
        entry.decision = Some("withdrawn".to_owned());
        (entry.by, entry.basis) = (Some(by.to_owned()), DecisionBasis::Unanswered);
        if audit.try_enqueue(entry).is_err() {
            tracing::error!("withdrawal not recorded: the audit queue is full");
        }
    }
}

/// Builds the audit entry of a decision about an approval. Reasons and edits are left out, because they may contain
/// anything.
pub(super) fn decision_entry(approval: &Approval, decided: &DecisionRecord) -> AuditEntry {
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
    entry
}

/// Builds the audit entry of the revocation of a grant.
pub(super) fn revocation_entry(
    grant: &ApprovalGrant,
    DecisionAuthor { by, basis, .. }: DecisionAuthor,
    at: Timestamp,
) -> AuditEntry {
    let mut entry = AuditEntry::new(AuditEntryKind::Decision);
    entry.at = at.as_microsecond();
    (entry.server, entry.subject) = (Some(grant.server.clone()), Some(grant.name.clone()));
    (entry.principal, entry.application) = (grant.principal.clone(), grant.application.clone());
    entry.decision = Some("revoke".to_owned());
    (entry.by, entry.basis) = (Some(by), basis);
    entry
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
