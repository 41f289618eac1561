//! An audit entry of an action other than a call, until the action has ended.

use std::sync::Arc;
use std::time::Instant;

use hospes_store::{AuditEntry, AuditLog, AuditOutcome, DecisionBasis};

use super::enforcer::PolicyEnforcer;

/// Dropped before it has ended, it is recorded as cancelled.
pub(crate) struct PendingAuditEntry {
    guard: Arc<PolicyEnforcer>,
    begun: Instant,
    entry: Option<AuditEntry>,
}

impl PendingAuditEntry {
    pub(crate) fn new(guard: &Arc<PolicyEnforcer>, entry: AuditEntry) -> Self {
        let entry = guard.audit.is_some().then_some(entry);
        Self { guard: Arc::clone(guard), begun: Instant::now(), entry }
    }

    pub(crate) fn set_decision(&mut self, decision: &str, by: &str, basis: DecisionBasis) {
        if let Some(entry) = &mut self.entry {
            entry.decision = Some(decision.to_owned());
            entry.by = Some(by.to_owned());
            entry.basis = basis;
        }
    }

    pub(crate) fn subject(&mut self, subject: &str) {
        if let Some(entry) = &mut self.entry {
            entry.subject = Some(subject.to_owned());
        }
    }

    /// Ends it where nothing can be waited for.
    pub(crate) fn end_now(mut self, ending: AuditOutcome, code: Option<i64>) {
        // `Drop` hands it over.
        if let Some(entry) = &mut self.entry {
            (entry.ending, entry.code) = (Some(ending), code);
        }
    }

    /// Discards the entry without recording it.
    pub(crate) fn discard(mut self) {
        self.entry = None;
    }

    pub(crate) async fn end(mut self, ending: AuditOutcome, code: Option<i64>) {
        let (Some(entry), Some(audit)) = (&mut self.entry, &self.guard.audit) else { return };
        entry.ending = Some(ending);
        entry.code = code;
        entry.micros = Some(u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX));
        // Somebody was asked, or something was changed: that is on the disk before anybody hears of it.
        let handed_over = audit.submit(entry).await;
        // Taken only now: had the caller gone away before, `Drop` would have recorded it.
        let Some(entry) = self.entry.take() else { return };
        let written = match handed_over {
            Ok(written) => written.place().await,
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::error!(%error, "audit entry could not be written yet");
            later(audit, entry);
        }
    }
}

/// Tries again later to write an entry.
pub(super) fn later(audit: &AuditLog, entry: AuditEntry) {
    if audit.try_enqueue(entry).is_err() {
        tracing::error!("audit entry lost: the write queue is full");
    }
}

impl Drop for PendingAuditEntry {
    fn drop(&mut self) {
        let (Some(mut entry), Some(audit)) = (self.entry.take(), &self.guard.audit) else { return };
        // `end_now` and `end` may have set one already.
        entry.ending.get_or_insert(AuditOutcome::Cancelled);
        if audit.try_enqueue(entry).is_err() {
            tracing::error!("cancelled request not recorded: the audit queue is full");
        }
    }
}
