use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::RecordedEntry;
use super::block;
use super::chain::{self, AtPosition, ChainError};
use super::entry::{AuditEntry, AuditEntryKind};
use super::position::AuditPosition;
use crate::key::AuditKeys;

/// Default number of entries that a search returns.
const DEFAULT_LIMIT: usize = 100;

/// Conditions of a search. Without any condition: the newest 100.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditQuery {
    /// Kind of the entries.
    pub kind: Option<AuditEntryKind>,
    /// Server of the entries.
    pub server: Option<String>,
    /// Tool, prompt, URI or model of the entries.
    pub subject: Option<String>,
    /// Signed-in user of the entries.
    pub principal: Option<String>,
    /// Application of the entries, as it names itself.
    pub application: Option<String>,
    /// Node that recorded the entries. The log of one host has none.
    pub node: Option<String>,
    /// Decision of the entries.
    pub decision: Option<String>,
    /// Text in the server, subject, principal or application, ignoring case.
    pub text: Option<String>,
    /// Earliest time, inclusive.
    pub since: Option<Timestamp>,
    /// Latest time, exclusive.
    pub until: Option<Timestamp>,
    /// Upper bound of the entry numbers, exclusive: the last number of the previous page.
    pub before: Option<u64>,
    /// Maximum number of entries; by default 100.
    pub limit: usize,
}

impl Default for AuditQuery {
    fn default() -> Self {
        Self::new()
    }
}

impl AuditQuery {
    /// Creates a query without conditions.
    #[must_use]
    pub fn new() -> Self {
        Self {
            kind: None,
            server: None,
            subject: None,
            principal: None,
            application: None,
            node: None,
            decision: None,
            text: None,
            since: None,
            until: None,
            before: None,
            limit: DEFAULT_LIMIT,
        }
    }

    /// Limits the search to a kind.
    #[must_use]
    pub fn with_kind(mut self, kind: AuditEntryKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Limits the search to a server.
    #[must_use]
    pub fn with_server(mut self, server: impl Into<String>) -> Self {
        self.server = Some(server.into());
        self
    }

    /// Limits the number of entries.
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Returns the SQL condition for the blocks that can have such an entry, and the values of its placeholders.
    fn condition(&self) -> (String, Vec<Value>) {
        let mut sql = "1".to_owned();
        let mut values: Vec<Value> = Vec::new();
        let mut and = |condition: &str, given: Vec<Value>| {
            sql.push_str(" AND ");
            sql.push_str(condition);
            values.extend(given);
        };
        if let Some(kind) = self.kind {
            and("kinds & ? != 0", vec![kind.bit().into()]);
        }
        if let Some(since) = self.since {
            and("last_at >= ?", vec![since.as_microsecond().into()]);
        }
        if let Some(until) = self.until {
            and("first_at < ?", vec![until.as_microsecond().into()]);
        }
        if let Some(before) = self.before {
            and("first < ?", vec![chain::number(before).into()]);
        }
        match (&self.server, &self.subject) {
            (Some(server), Some(subject)) => and(
                "last IN (SELECT last FROM block_names WHERE server = ? AND subject = ?)",
                vec![server.clone().into(), subject.clone().into()],
            ),
            (Some(server), None) => {
                and("last IN (SELECT last FROM block_names WHERE server = ?)", vec![server.clone().into()]);
            }
            _ => (),
        }
        (sql, values)
    }

    fn matches(&self, seq: u64, entry: &AuditEntry) -> bool {
        self.node.is_none() && self.matches_entry(seq, entry)
    }

    /// Returns true if an entry matches the conditions apart from the node.
    pub(super) fn matches_entry(&self, seq: u64, entry: &AuditEntry) -> bool {
        let is = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        let has = |wanted: &str| {
            let parts = [&entry.server, &entry.subject, &entry.principal, &entry.application];
            parts.into_iter().flatten().any(|part| part.to_lowercase().contains(wanted))
        };
        self.before.is_none_or(|before| seq < before)
            && self.kind.is_none_or(|kind| entry.kind == kind)
            && self.since.is_none_or(|since| entry.at >= since.as_microsecond())
            && self.until.is_none_or(|until| entry.at < until.as_microsecond())
            && is(&self.server, &entry.server)
            && is(&self.subject, &entry.subject)
            && is(&self.principal, &entry.principal)
            && is(&self.application, &entry.application)
            && is(&self.decision, &entry.decision)
            && self.text.as_ref().is_none_or(|text| has(&text.to_lowercase()))
    }
}

/// Returns the matching entries, newest first.
pub(super) fn run(
    connection: &Connection,
    keys: &AuditKeys,
    query: &AuditQuery,
) -> Result<Vec<RecordedEntry>, ChainError> {
    let (condition, values) = query.condition();
    let sql = format!("SELECT {} FROM blocks WHERE {condition} ORDER BY last DESC", block::COLUMNS);
    let mut found = Vec::new();
    let mut rows = connection.prepare_cached(&sql)?;
    let mut rows = rows.query(params_from_iter(values))?;
    while found.len() < query.limit
        && let Some(row) = rows.next()?
    {
        let entries = block::read(row)?.entries(keys).map_err(ChainError::Tampered)?;
        let matching = entries.into_iter().rev().filter(|(place, entry)| query.matches(place.seq, entry));
        found.extend(matching.take(query.limit - found.len()).map(RecordedEntry::from));
    }
    Ok(found)
}

/// Returns entries in order, starting after a number.
pub(super) fn after(
    connection: &Connection,
    keys: &AuditKeys,
    seq: u64,
    limit: usize,
) -> Result<Vec<RecordedEntry>, ChainError> {
    let sql = format!("SELECT {} FROM blocks WHERE last > ? ORDER BY last", block::COLUMNS);
    let mut found = Vec::new();
    let mut rows = connection.prepare_cached(&sql)?;
    let mut rows = rows.query([chain::number(seq)])?;
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        let entries = block::read(row)?.entries(keys).map_err(ChainError::Tampered)?;
        let later = entries.into_iter().filter(|(place, _)| place.seq > seq);
        found.extend(later.take(limit - found.len()).map(RecordedEntry::from));
    }
    Ok(found)
}

impl From<AtPosition<AuditEntry>> for RecordedEntry {
    fn from((AuditPosition { seq, bound }, entry): AtPosition<AuditEntry>) -> Self {
        Self { seq, bound, entry, origin: None }
    }
}
