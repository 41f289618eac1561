use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::AuditReader;
use super::entry::{AuditEntry, AuditEntryKind, AuditOutcome};
use super::search::AuditQuery;
use crate::error::StoreError;

/// End of [`AuditEntry::by`] of a call that was allowed without a question although its conversation had read text that
/// others wrote.
pub const AFTER_UNTRUSTED: &str = "after text that others wrote";

/// Maximum number of entries that a digest counts, the newest first.
const MAX_COUNTED: usize = 20_000;

/// Maximum number of tools that are compared with the log before the range.
const MAX_COMPARED: usize = 200;

/// Digest of a time range: what was called and asked, what passed after text of others, and what was new.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AuditDigest {
    /// Beginning of the range.
    pub since: Timestamp,
    /// End of the range.
    pub until: Timestamp,
    /// True if there are more entries than were counted.
    pub is_cut: bool,
    /// Servers that were called, the most called first.
    pub servers: Vec<ServerDigest>,
    /// Calls that change or reach something and passed without a question after text of others was read.
    pub passed: Vec<PassedCalls>,
    /// Servers that were seen for the first time.
    pub new_servers: Vec<String>,
    /// Tools, prompts and resources that were used for the first time, as server and name.
    pub first_uses: Vec<(String, String)>,
}

/// Calls of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerDigest {
    /// Name of the server.
    pub server: String,
    /// Number of calls.
    pub calls: u64,
    /// Calls that a person was asked about.
    pub asked: u64,
    /// Calls that were sent.
    pub allowed: u64,
    /// Calls that were refused by a rule or a person, or for which nobody decided.
    pub denied: u64,
}

/// Calls of one tool that passed without a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PassedCalls {
    /// Name of the server.
    pub server: String,
    /// Name of the tool.
    pub subject: String,
    /// Number of calls.
    pub calls: u64,
}

impl AuditReader {
    /// Computes the digest of a time range.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub async fn digest(&self, since: Timestamp, until: Timestamp) -> Result<AuditDigest, StoreError> {
        let mut query = AuditQuery::new().with_limit(MAX_COUNTED);
        (query.since, query.until) = (Some(since), Some(until));
        let entries: Vec<AuditEntry> =
            self.search(query).await?.into_iter().map(|found| found.entry).collect();
        let mut digest = count(&entries, since, until);
        let mut used = BTreeSet::new();
        for entry in &entries {
            if let Some((server, subject)) =
                called(entry).filter(|_| entry.ending != Some(AuditOutcome::Refused))
            {
                used.insert((server.to_owned(), subject.to_owned()));
            }
        }
        for (server, subject) in used.into_iter().take(MAX_COMPARED) {
            let mut before = AuditQuery::new().with_server(&*server).with_limit(1);
            (before.subject, before.until) = (Some(subject.clone()), Some(since));
            if self.search(before).await?.is_empty() {
                digest.first_uses.push((server, subject));
            }
        }
        Ok(digest)
    }
}

/// Returns the server and the name of a call.
fn called(entry: &AuditEntry) -> Option<(&str, &str)> {
    let is_call =
        matches!(entry.kind, AuditEntryKind::Call | AuditEntryKind::Prompt | AuditEntryKind::Resource);
    // A question to the application; its answer is an entry of its own.
    let is_whole = is_call && entry.ending != Some(AuditOutcome::Asked);
    entry.server.as_deref().zip(entry.subject.as_deref()).filter(|_| is_whole)
}

fn count(entries: &[AuditEntry], since: Timestamp, until: Timestamp) -> AuditDigest {
    let mut servers: BTreeMap<&str, ServerDigest> = BTreeMap::new();
    let mut passed: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut new_servers = BTreeSet::new();
    for entry in entries {
        let by = entry.by.as_deref().unwrap_or_default();
        if let Some((server, subject)) = called(entry) {
            let digest = servers.entry(server).or_default();
            digest.calls += 1;
            digest.asked += u64::from(entry.is_asked());
            match entry.ending {
                Some(AuditOutcome::Refused) => digest.denied += 1,
                _ => digest.allowed += 1,
            }
            if by.ends_with(AFTER_UNTRUSTED) {
                *passed.entry((server, subject)).or_default() += 1;
            }
        } else if entry.kind == AuditEntryKind::Definition
            && entry.subject.is_none()
            && matches!(by, "first use" | "seen")
            && let Some(server) = &entry.server
        {
            new_servers.insert(server.clone());
        }
    }
    let named =
        servers.into_iter().map(|(server, digest)| ServerDigest { server: server.to_owned(), ..digest });
    let mut servers: Vec<ServerDigest> = named.collect();
    servers.sort_by_key(|digest| std::cmp::Reverse(digest.calls));
    let passed = passed.into_iter().map(|((server, subject), calls)| PassedCalls {
        server: server.to_owned(),
        subject: subject.to_owned(),
        calls,
    });
    AuditDigest {
        since,
        until,
        is_cut: entries.len() >= MAX_COUNTED,
        servers,
        passed: passed.collect(),
        new_servers: new_servers.into_iter().collect(),
        first_uses: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::AuditLog;
    use super::super::entry::DecisionBasis;
    use super::*;

    fn entry(server: &str, tool: &str, by: &str, ending: AuditOutcome) -> AuditEntry {
        let mut entry = AuditEntry::new(AuditEntryKind::Call);
        (entry.server, entry.subject) = (Some(server.to_owned()), Some(tool.to_owned()));
        (entry.by, entry.ending) = (Some(by.to_owned()), Some(ending));
        entry
    }

    #[tokio::test]
    async fn a_digest_counts_what_was_asked_what_passed_and_what_was_new() {
        let folder = tempfile::tempdir().unwrap();
        let audit = AuditLog::open(folder.path().join("audit.db"), folder.path().join("audit.key")).unwrap();
        let mut old = entry("mail", "read", "rule 1", AuditOutcome::Done);
        old.at -= 3_600_000_000;
        audit.record(old).await.unwrap();
        let since = Timestamp::now().checked_sub(jiff::SignedDuration::from_mins(10)).unwrap();
        let person = "the person at the console";
        let granted = format!("granted until the session ends by {person}");
        let passed = format!("no rule; {AFTER_UNTRUSTED}");
        // The words of a decider count for nothing: a rule may be called anything.
        let named = format!("rule 1 (line 1) `no person, {AFTER_UNTRUSTED}`");
        for (server, tool, by, basis, ending) in [
            ("mail", "read", &*named, DecisionBasis::Rule, AuditOutcome::Done),
            ("mail", "send", person, DecisionBasis::Person, AuditOutcome::Refused),
            ("mail", "send", "the guard asks", DecisionBasis::Unanswered, AuditOutcome::Asked),
            ("mail", "send", &format!("approved by {person}"), DecisionBasis::Person, AuditOutcome::Done),
            ("mail", "send", &granted, DecisionBasis::Grant, AuditOutcome::Done),
            ("notes", "append", &passed, DecisionBasis::Default, AuditOutcome::Done),
            ("notes", "append", &passed, DecisionBasis::Default, AuditOutcome::ToolError),
        ] {
            audit.record(AuditEntry { basis, ..entry(server, tool, by, ending) }).await.unwrap();
        }
        let mut seen = AuditEntry::new(AuditEntryKind::Definition);
        (seen.server, seen.decision) = (Some("notes".to_owned()), Some("allow".to_owned()));
        seen.by = Some("first use".to_owned());
        audit.record(seen).await.unwrap();

        let digest = audit.digest(since, Timestamp::MAX).await.unwrap();
        let mail = ServerDigest { server: "mail".to_owned(), calls: 4, asked: 2, allowed: 3, denied: 1 };
        let notes = ServerDigest { server: "notes".to_owned(), calls: 2, asked: 0, allowed: 2, denied: 0 };
        assert_eq!(digest.servers, [mail, notes]);
        let append = PassedCalls { server: "notes".to_owned(), subject: "append".to_owned(), calls: 2 };
        assert_eq!(digest.passed, [append]);
        assert_eq!(digest.new_servers, ["notes"]);
        let firsts: Vec<String> =
            digest.first_uses.iter().map(|(server, tool)| format!("{server} {tool}")).collect();
        assert_eq!(firsts, ["mail send", "notes append"], "`read` was used before");
    }
}
