//! Retention of the record.

use std::collections::BTreeMap;
use std::sync::Arc;

use hospes_sql::{SqlResult, SqlTransaction, sql_values};

use super::super::chain::{self, ChainEnd};
use super::super::position::AuditPosition;
use super::super::spool::ChainId;
use super::order::RecordCut;
use super::{SharedAuditLog, SharedKeys, chain_id, number, order, position};
use crate::error::StoreError;

/// Maximum number of blocks that one transaction deletes.
const MAX_BLOCKS: i64 = 200;

/// Deletes the blocks before the first one with an entry from this moment or later.
pub(super) async fn delete_before(log: &SharedAuditLog, before: i64) -> Result<u64, StoreError> {
    let mut deleted = 0;
    loop {
        let keys = Arc::clone(&log.0.keys);
        let gone = log.0.part.write_rows(move |change| delete_page(change, &keys, before)).await?;
        if gone == 0 {
            return Ok(deleted);
        }
        deleted += gone;
    }
}

/// Deletes some blocks and returns the number of their entries.
fn delete_page(change: &mut dyn SqlTransaction, keys: &SharedKeys, before: i64) -> SqlResult<u64> {
    let order = order::lock(change, keys)?;
    // A cut that was tampered with is not sealed anew: verification reports it.
    if !order.is_sealed {
        return Ok(0);
    }
    let page = format!(
        "SELECT last_number, chain, last_seq, bound FROM audit_blocks WHERE last_number < coalesce(
             (SELECT min(last_number) FROM audit_blocks WHERE last_at >= ?1), 9223372036854775807)
         ORDER BY last_number LIMIT {MAX_BLOCKS}"
    );
    let rows = change.query(&page, sql_values![before])?;
    let (mut ends, mut cut) = (BTreeMap::<ChainId, AuditPosition>::new(), order.cut);
    for row in &rows {
        cut.number = number(row, 0)?;
        ends.insert(chain_id(row, 1)?, position(row, 2)?);
    }
    let Some(gone) = cut.number.checked_sub(order.cut.number).filter(|gone| *gone > 0) else { return Ok(0) };
    for (id, end) in ends {
        let Some(info) = keys.chain(change, id)? else { return Ok(0) };
        let update = "UPDATE audit_chains SET cut_seq = ?1, cut_bound = ?2, cut_seal = ?3 WHERE id = ?4";
        let seal = chain::seal(&info.keys, ChainEnd::First, end).to_vec();
        change
            .execute(update, sql_values![chain::number(end.seq), end.bound.to_vec(), seal, id.0.to_vec()])?;
    }
    let number = chain::number(cut.number);
    change.execute("DELETE FROM audit_blocks WHERE last_number <= ?1", sql_values![number])?;
    let anchor = "SELECT n, mac, entries FROM audit_anchors WHERE entries <= ?1 ORDER BY n DESC LIMIT 1";
    if let Some(row) = change.query_first(anchor, sql_values![number])? {
        cut = RecordCut { anchor: position(&row, 0)?, anchor_entries: self::number(&row, 2)?, ..cut };
        let last = chain::number(cut.anchor.seq);
        change.execute("DELETE FROM audit_anchors WHERE n <= ?1", sql_values![last])?;
    }
    let update = "UPDATE audit_order SET cut = ?1, cut_anchor = ?2, cut_mac = ?3, cut_entries = ?4, seal = ?5 WHERE id = 1";
    let (anchor, entries) = (chain::number(cut.anchor.seq), chain::number(cut.anchor_entries));
    change
        .execute(update, sql_values![number, anchor, cut.anchor.bound.to_vec(), entries, cut.seal(keys)])?;
    Ok(gone)
}
