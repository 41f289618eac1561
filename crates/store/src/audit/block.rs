//! Blocks of entries: the rows of the audit log.
//!
//! Entries that are written together are one row. To insert a row costs many times what the text of an entry does, so
//! that a busy log is written for a fraction of the cost.

use std::collections::BTreeSet;

use super::chain::{self, AtPosition};
use super::entry::{AuditEntry, AuditEntryKind};
use super::position::AuditPosition;
use super::tamper_evidence::TamperEvidence;
use crate::hex::KEY_BYTES;
use crate::key::AuditKeys;

/// Maximum number of entries of a block.
pub(super) const MAX_BLOCK_ENTRIES: usize = 256;

/// An entry that is to be written: its text, and what its block is found by.
#[derive(Debug)]
pub(super) struct NewEntry {
    text: String,
    kind: AuditEntryKind,
    at: i64,
    name: Option<EntryName>,
}

/// Server and subject of an entry.
pub(super) type EntryName = (String, String);

/// Conditions by which blocks are found without decoding their entries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BlockSummary {
    /// Time of the earliest and of the latest entry, in microseconds since 1970.
    pub(super) at: Option<(i64, i64)>,
    /// One bit for each kind of the entries.
    pub(super) kinds: i64,
    pub(super) names: BTreeSet<EntryName>,
}

/// A row of the log.
#[derive(Debug)]
pub(super) struct EntryBlock {
    /// Position before the first entry.
    pub(super) before: AuditPosition,
    /// Number of the first entry, as it is stored.
    pub(super) first: u64,
    /// Position of the last entry.
    pub(super) last: AuditPosition,
    /// Texts of the entries, one on each line.
    pub(super) entries: String,
}

impl NewEntry {
    /// Encodes an entry. Callers do this, so that the only thread that writes has less to do.
    pub(super) fn new(entry: &AuditEntry) -> Self {
        let name = entry.server.clone().map(|server| (server, entry.subject.clone().unwrap_or_default()));
        // JSON has no line end outside of its strings, and an escaped one in them.
        let text = serde_json::to_string(entry).expect("an audit entry serializes to JSON");
        Self { text, kind: entry.kind, at: entry.at, name }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

impl BlockSummary {
    pub(super) fn add(&mut self, entry: &NewEntry) {
        self.add_parts(entry.kind, entry.at, entry.name.as_ref());
    }

    pub(super) fn add_parts(&mut self, kind: AuditEntryKind, at: i64, name: Option<&EntryName>) {
        let (first, last) = self.at.unwrap_or((at, at));
        self.at = Some((first.min(at), last.max(at)));
        self.kinds |= kind.bit();
        if let Some(name) = name.filter(|name| !self.names.contains(*name)) {
            self.names.insert(name.clone());
        }
    }
}

impl EntryBlock {
    /// Returns the entries in order, with their positions.
    ///
    /// # Errors
    /// If an entry cannot be read, or does not belong here: it was not written by this program.
    pub(super) fn entries(&self, keys: &AuditKeys) -> Result<Vec<AtPosition<AuditEntry>>, TamperEvidence> {
        let mut here = self.before;
        let mut all = Vec::new();
        for text in self.entries.split('\n') {
            here = chain::following(keys, here, text);
            let entry = serde_json::from_str(text).map_err(|_| TamperEvidence::Changed { seq: here.seq })?;
            all.push((here, entry));
        }
        if here.seq != self.last.seq {
            return Err(TamperEvidence::Changed { seq: self.last.seq });
        }
        Ok(all)
    }

    /// Returns the positions of the entries in order.
    pub(super) fn positions(&self, keys: &AuditKeys) -> Vec<AuditPosition> {
        let mut here = self.before;
        let texts = self.entries.split('\n');
        texts
            .map(|text| {
                here = chain::following(keys, here, text);
                here
            })
            .collect()
    }

    /// Returns the summary of the entries. Entries that cannot be read are left out.
    pub(super) fn summary(&self) -> BlockSummary {
        let mut summary = BlockSummary::default();
        for text in self.entries.split('\n') {
            if let Ok(entry) = serde_json::from_str::<AuditEntry>(text) {
                let subject = entry.subject.unwrap_or_default();
                let name = entry.server.map(|server| (server, subject));
                summary.add_parts(entry.kind, entry.at, name.as_ref());
            }
        }
        summary
    }
}

/// Reads a row of the columns [`COLUMNS`]. A hash of another length was not written by this program.
pub(super) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<EntryBlock> {
    let number = |column| row.get::<_, i64>(column).map(|seq| u64::try_from(seq).unwrap_or_default());
    let hash = |column| {
        let bound: Vec<u8> = row.get(column)?;
        Ok::<_, rusqlite::Error>(bound.try_into().unwrap_or([0; KEY_BYTES]))
    };
    let first = number(0)?;
    Ok(EntryBlock {
        before: AuditPosition { seq: first.saturating_sub(1), bound: hash(1)? },
        first,
        last: AuditPosition { seq: number(2)?, bound: hash(3)? },
        entries: row.get(4)?,
    })
}

/// Columns that [`read`] reads.
pub(super) const COLUMNS: &str = "first, before, last, bound, entries";
