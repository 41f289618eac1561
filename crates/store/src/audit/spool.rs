//! The file of a node as the spool of the record of all nodes: what was not shipped yet, and the id of its chain.

use std::fmt;
use std::sync::{Arc, Weak};

use aws_lc_rs::rand;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use super::block::{self, EntryBlock};
use super::chain::{self, ChainEnd, ChainError};
use super::position::AuditPosition;
use super::{AuditLog, AuditLogInner};
use crate::error::StoreError;
use crate::hex::{KEY_BYTES, from_hex, to_hex};
use crate::key::AuditKeys;

/// Maximum number of entries of a block that is shipped, unless a row of the file has more. Larger than a row of the file:
/// a transaction of PostgreSQL costs as much as hundreds of entries.
const MAX_SHIPPED_ENTRIES: u64 = 1024;

/// Maximum size of the entries of a block that is shipped, unless a row of the file is larger.
const MAX_BLOCK_BYTES: usize = 1 << 20;

/// Id of the chain of entries of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ChainId(pub(super) [u8; KEY_BYTES]);

impl ChainId {
    pub(super) fn parse(text: &str) -> Option<Self> {
        from_hex(text).map(|bytes| Self(*bytes))
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

/// Entries that follow a position, as they are in the file.
#[derive(Debug)]
pub(super) enum SpoolPage {
    /// There are none.
    Empty,
    /// The next ones.
    Block(EntryBlock),
    /// The file has no entries that follow this position.
    Broken(ChainBreak),
}

/// Reason that a chain cannot be continued from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChainBreak {
    /// Entries after the position are not in the file any more.
    Missing,
    /// The file has other entries up to there, or fewer: it is an older copy.
    Other,
}

/// The log as long as somebody else uses it.
#[derive(Clone, Debug)]
pub(super) struct WeakAuditLog(Weak<AuditLogInner>);

impl WeakAuditLog {
    pub(super) fn upgrade(&self) -> Option<AuditLog> {
        self.0.upgrade().map(AuditLog)
    }
}

impl AuditLog {
    pub(super) fn downgrade(&self) -> WeakAuditLog {
        WeakAuditLog(Arc::downgrade(&self.0))
    }

    /// Returns the keys of the file.
    pub(super) fn keys(&self) -> &Arc<AuditKeys> {
        &self.0.keys
    }

    /// Returns the id of the chain and the position before its first entry. `None` before the first entry. An id that
    /// is `replaced` gives way to a new one.
    pub(super) async fn chain(
        &self,
        replaced: Option<ChainId>,
    ) -> Result<Option<(ChainId, AuditPosition)>, StoreError> {
        self.read_file(move |connection, keys| read_chain(connection, keys, replaced)).await
    }

    /// Returns the entries that follow a position. Entries that wait to be written are not waited for.
    pub(super) async fn spooled(&self, after: AuditPosition) -> Result<SpoolPage, StoreError> {
        self.read_file(move |connection, keys| read_page(connection, keys, after)).await
    }
}

fn read_chain(
    connection: &mut Connection,
    keys: &AuditKeys,
    replaced: Option<ChainId>,
) -> Result<Option<(ChainId, AuditPosition)>, ChainError> {
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Without this end there is no entry yet, and a row beside it would look like one that remained.
    let Some(first) = chain::end(&change, keys, ChainEnd::First)? else { return Ok(None) };
    let seal = |id: ChainId| keys.bind(&[b"chain", &id.0]);
    let sql = "SELECT bound, seal FROM ends WHERE which = 'chain'";
    let found: Option<(Vec<u8>, Vec<u8>)> =
        change.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let found = found.and_then(|(id, sealed)| {
        let id = ChainId::from_bytes(&id)?;
        (chain::is_same(&sealed, &seal(id)) && Some(id) != replaced).then_some(id)
    });
    if let Some(id) = found {
        return Ok(Some((id, first)));
    }
    let mut id = ChainId([0; KEY_BYTES]);
    if rand::fill(&mut id.0).is_err() {
        return Ok(None);
    }
    let sql = "INSERT OR REPLACE INTO ends (which, seq, bound, seal) VALUES ('chain', 0, ?1, ?2)";
    change.execute(sql, params![id.0, seal(id)])?;
    change.commit()?;
    Ok(Some((id, first)))
}

fn read_page(
    connection: &mut Connection,
    keys: &AuditKeys,
    after: AuditPosition,
) -> Result<SpoolPage, ChainError> {
    let view = connection.transaction()?;
    let sql = format!("SELECT {} FROM blocks WHERE last > ?1 ORDER BY last", block::COLUMNS);
    let mut rows = view.prepare_cached(&sql)?;
    let mut rows = rows.query([chain::number(after.seq)])?;
    let mut page: Option<EntryBlock> = None;
    while let Some(row) = rows.next()? {
        let found = block::read(row)?;
        let Some(page) = &mut page else {
            if found.before != after {
                let is_missing = found.before.seq > after.seq;
                return Ok(SpoolPage::Broken(if is_missing {
                    ChainBreak::Missing
                } else {
                    ChainBreak::Other
                }));
            }
            page = Some(found);
            continue;
        };
        let count = |block: &EntryBlock| block.last.seq.saturating_sub(block.before.seq);
        let is_full = count(page) + count(&found) > MAX_SHIPPED_ENTRIES
            || page.entries.len() + found.entries.len() > MAX_BLOCK_BYTES;
        // A row that does not follow is looked at with the next page.
        if is_full || found.before != page.last {
            break;
        }
        page.entries.push('\n');
        page.entries.push_str(&found.entries);
        page.last = found.last;
    }
    if let Some(page) = page {
        return Ok(SpoolPage::Block(page));
    }
    let last = chain::end(&view, keys, ChainEnd::Last)?;
    Ok(match last {
        Some(last) if last == after => SpoolPage::Empty,
        Some(last) if last.seq > after.seq => SpoolPage::Broken(ChainBreak::Missing),
        _ => SpoolPage::Broken(ChainBreak::Other),
    })
}
