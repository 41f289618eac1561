//! Anchors: the order of the entries of all chains, bound by the anchor before.

use std::time::Duration;

use hospes_sql::{SqlResult, SqlRow, SqlTransaction, sql_values};
use jiff::Timestamp;

use super::super::chain;
use super::super::position::AuditPosition;
use super::super::spool::ChainId;
use super::order::RecordOrder;
use super::{SharedAuditLog, SharedKeys, chain_id, hash, number, order, position};
use crate::error::StoreError;
use crate::hex::{KEY_BYTES, to_hex};

/// An anchor that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditAnchor {
    /// Number of the anchor, and its keyed hash.
    pub position: AuditPosition,
    /// Number of the last entry at this anchor.
    pub entries: u64,
}

/// An anchor as it is stored.
#[derive(Clone, Debug)]
pub(super) struct StoredAnchor {
    pub(super) position: AuditPosition,
    pub(super) at: i64,
    pub(super) entries: u64,
    /// Ends of the chains that have grown since the anchor before: one on each line.
    pub(super) tails: String,
    pub(super) previous: [u8; KEY_BYTES],
}

impl StoredAnchor {
    /// Returns the keyed hash over the anchor and the one before.
    pub(super) fn mac(&self, keys: &SharedKeys) -> [u8; KEY_BYTES] {
        let numbers = (self.position.seq.to_be_bytes(), self.at.to_be_bytes(), self.entries.to_be_bytes());
        keys.anchors.bind(&[
            b"anchor",
            &numbers.0,
            &numbers.1,
            &numbers.2,
            self.tails.as_bytes(),
            &self.previous,
        ])
    }

    /// Returns the ends of the chains. `None` if they are not as this program writes them.
    pub(super) fn tails(&self) -> Option<Vec<(ChainId, AuditPosition)>> {
        let tail = |line: &str| {
            let (id, position) = line.split_once(' ')?;
            Some((ChainId::parse(id)?, position.parse().ok()?))
        };
        self.tails.lines().map(tail).collect()
    }
}

/// Columns that [`read`] reads.
pub(super) const COLUMNS: &str = "n, mac, at, entries, tails, previous";

/// Reads a row of the columns [`COLUMNS`].
pub(super) fn read(row: &SqlRow) -> SqlResult<StoredAnchor> {
    Ok(StoredAnchor {
        position: position(row, 0)?,
        at: row.get(2)?,
        entries: number(row, 3)?,
        tails: row.get(4)?,
        previous: hash(row, 5)?,
    })
}

/// Writes an anchor if there are new entries and the last one is old enough.
pub(super) async fn write(
    log: &SharedAuditLog,
    interval: Duration,
) -> Result<Option<AuditAnchor>, StoreError> {
    let keys = std::sync::Arc::clone(&log.0.keys);
    let now = log.0.part.now();
    // The lock of this name is that of the transaction: one node at a time looks whether an anchor is due.
    log.0.part.write_named("audit anchor", move |change| append(change, &keys, now, interval)).await
}

fn append(
    change: &mut dyn SqlTransaction,
    keys: &SharedKeys,
    now: Timestamp,
    interval: Duration,
) -> SqlResult<Option<AuditAnchor>> {
    let last = format!("SELECT {COLUMNS} FROM audit_anchors ORDER BY n DESC LIMIT 1");
    let last = change.query_first(&last, sql_values![])?.map(|row| read(&row)).transpose()?;
    let interval = i64::try_from(interval.as_micros()).unwrap_or(i64::MAX);
    if last.as_ref().is_some_and(|last| last.at > now.as_microsecond().saturating_sub(interval)) {
        return Ok(None);
    }
    // From here on no block is appended, so that the ends of the chains are those of this number.
    let RecordOrder { entries, cut, .. } = order::lock(change, keys)?;
    let (before, before_entries) =
        last.map_or((cut.anchor, cut.anchor_entries), |last| (last.position, last.entries));
    if entries <= before_entries {
        return Ok(None);
    }
    let grown = "SELECT id, last_seq, last_bound FROM audit_chains WHERE last_number > ?1 ORDER BY id";
    let rows = change.query(grown, sql_values![chain::number(before_entries)])?;
    let tail = |row: &SqlRow| Ok(format!("{} {}", chain_id(row, 0)?, position(row, 1)?));
    let tails = rows.iter().map(tail).collect::<SqlResult<Vec<String>>>()?.join("\n");
    let position = AuditPosition { seq: before.seq + 1, bound: [0; KEY_BYTES] };
    let mut anchor =
        StoredAnchor { position, at: now.as_microsecond(), entries, tails, previous: before.bound };
    anchor.position.bound = anchor.mac(keys);
    let insert =
        "INSERT INTO audit_anchors (n, at, entries, tails, previous, mac) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    change.execute(
        insert,
        sql_values![
            chain::number(anchor.position.seq),
            anchor.at,
            chain::number(entries),
            anchor.tails,
            anchor.previous.to_vec(),
            anchor.position.bound.to_vec(),
        ],
    )?;
    tracing::debug!(
        anchor = anchor.position.seq,
        mac = to_hex(&anchor.position.bound),
        "audit anchor written"
    );
    Ok(Some(AuditAnchor { position: anchor.position, entries }))
}
