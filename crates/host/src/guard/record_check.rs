//! Verification of the audit log when the host starts.

use std::error::Error as _;

use hospes_store::{AuditEntry, AuditEntryKind, StoreError};

use super::enforcer::PolicyEnforcer;

impl PolicyEnforcer {
    /// Verifies the whole audit log. A fault is returned, kept for the host's status, and recorded. Recording continues
    /// after an entry that reports the fault. Takes about a second for a few hundred thousand entries; calls continue
    /// in the meantime.
    pub async fn examine_record(&self) -> Option<String> {
        let error = self.audit.as_ref()?.verify(None).await.err()?;
        let because = error.source().map(|source| format!(": {source}")).unwrap_or_default();
        let problem = format!("{error}{because}");
        self.record_problem.get_or_init(|| problem.clone());
        // Any other error is about reading, and says nothing of what the record contains.
        if matches!(error, StoreError::Tampered { .. }) {
            let mut entry = AuditEntry::new(AuditEntryKind::Server);
            entry.subject = Some(format!("the audit record failed verification{because}"));
            if let Some(audit) = &self.audit
                && let Err(error) = audit.record(entry).await
            {
                tracing::error!(%error, "the failed verification of the audit record could not be recorded");
            }
        }
        Some(problem)
    }

    /// Returns problems with the audit log: that it cannot be written now, and what [`PolicyEnforcer::examine_record`]
    /// found.
    #[must_use]
    pub fn record_problem(&self) -> Option<String> {
        let failing = self.audit.as_ref().is_some_and(hospes_store::AuditLog::is_failing);
        let failing = failing.then_some(
            "the audit record cannot be written, so calls that may change something are refused; check whether its \
             disk is full or read-only",
        );
        let problems = failing.into_iter().chain(self.record_problem.get().map(String::as_str));
        let problems: Vec<_> = problems.collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use hospes_store::{AuditEntry, AuditEntryKind, AuditLog};

    use super::*;

    #[tokio::test]
    async fn a_record_that_cannot_be_written_is_a_problem_until_it_can() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("db");
        let audit = AuditLog::open(&file, folder.path().join("key")).unwrap();
        let guard = PolicyEnforcer::new(None).with_audit(audit.clone());
        audit.record(AuditEntry::new(AuditEntryKind::Call)).await.unwrap();
        assert_eq!(guard.record_problem(), None);
        let other = rusqlite::Connection::open(&file).unwrap();
        other.execute_batch("ALTER TABLE blocks RENAME TO elsewhere").unwrap();
        audit.record(AuditEntry::new(AuditEntryKind::Call)).await.unwrap_err();
        assert!(guard.record_problem().is_some_and(|problem| problem.contains("cannot be written")));
        other.execute_batch("ALTER TABLE elsewhere RENAME TO blocks").unwrap();
        audit.check_writable().await.unwrap();
        assert_eq!(guard.record_problem(), None);
    }

    #[tokio::test]
    async fn a_record_that_was_changed_is_said_to_be_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("db");
        let open = || AuditLog::open(&file, folder.path().join("key")).unwrap();
        let audit = open();
        for _ in 0..3 {
            audit.record(AuditEntry::new(AuditEntryKind::Call)).await.unwrap();
        }
        let guard = PolicyEnforcer::new(None).with_audit(audit);
        assert_eq!(guard.examine_record().await, None);
        assert_eq!(guard.record_problem(), None);
        drop(guard);
        // Whoever can write the file, and has no key.
        let bytes = std::fs::read(&file).unwrap();
        let wal = std::fs::read(folder.path().join("db-wal")).unwrap_or_default();
        let changed = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            let at = bytes.windows(13).position(|found| found == b"\"kind\":\"call\"");
            let at = at.expect("an entry stands in it as it was written");
            bytes[at + 8..at + 12].copy_from_slice(b"task");
            bytes
        };
        assert!(wal.is_empty(), "closed, everything is in the one file");
        std::fs::write(&file, changed(&bytes)).unwrap();
        let audit = open();
        let guard = PolicyEnforcer::new(None).with_audit(audit.clone());
        let problem = guard.examine_record().await.unwrap();
        assert!(problem.contains("was tampered with: entry "), "{problem}");
        assert_eq!(guard.record_problem().as_deref(), Some(problem.as_str()));
        let newest = audit.after(3, 9).await.unwrap();
        assert!(
            newest[0].entry.subject.as_ref().unwrap().contains("failed verification: entry "),
            "{newest:?}"
        );
    }
}
