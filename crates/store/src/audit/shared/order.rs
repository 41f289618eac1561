//! Order of the record: the number of its last entry, and where it begins.

use hospes_sql::{SqlError, SqlResult, SqlRow, SqlTransaction, sql_values};

use super::super::chain;
use super::super::position::AuditPosition;
use super::{SharedKeys, number, position};
use crate::hex::KEY_BYTES;

/// The row of the order.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordOrder {
    /// Number of the last entry.
    pub(super) entries: u64,
    pub(super) cut: RecordCut,
    /// True if the cut is as it was sealed.
    pub(super) is_sealed: bool,
}

/// Deleted part of the record, before the first entry and the first anchor.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordCut {
    /// Number of the last entry that was deleted.
    pub(super) number: u64,
    /// Last anchor that was deleted.
    pub(super) anchor: AuditPosition,
    /// Number of the last entry at this anchor.
    pub(super) anchor_entries: u64,
}

impl RecordCut {
    /// Cut of a record from which nothing was deleted.
    pub(super) const NOTHING: Self =
        Self { number: 0, anchor: AuditPosition { seq: 0, bound: [0; KEY_BYTES] }, anchor_entries: 0 };

    pub(super) fn seal(&self, keys: &SharedKeys) -> Vec<u8> {
        let numbers = [self.number, self.anchor.seq, self.anchor_entries].map(u64::to_be_bytes);
        let [cut, anchor, entries] = &numbers;
        keys.anchors.bind(&[b"cut", cut, anchor, entries, &self.anchor.bound]).to_vec()
    }
}

const SELECT: &str =
    "SELECT entries, cut, cut_anchor, cut_mac, cut_entries, seal FROM audit_order WHERE id = 1";

/// Reads the order. `None` before the first entry.
pub(super) fn read(view: &mut dyn SqlTransaction, keys: &SharedKeys) -> SqlResult<Option<RecordOrder>> {
    view.query_first(SELECT, sql_values![])?.map(|row| of_row(&row, keys)).transpose()
}

/// Reads the order and excludes other appends, anchors and deletions until the transaction ends.
pub(super) fn lock(change: &mut dyn SqlTransaction, keys: &SharedKeys) -> SqlResult<RecordOrder> {
    let select = format!("{SELECT} FOR UPDATE");
    if let Some(row) = change.query_first(&select, sql_values![])? {
        return of_row(&row, keys);
    }
    let cut = RecordCut::NOTHING;
    let insert = "INSERT INTO audit_order (id, entries, cut, cut_anchor, cut_mac, cut_entries, seal)
        VALUES (1, 0, 0, 0, ?1, 0, ?2) ON CONFLICT DO NOTHING";
    change.execute(insert, sql_values![cut.anchor.bound.to_vec(), cut.seal(keys)])?;
    // Another node may have been first.
    let row = change.query_first(&select, sql_values![])?.ok_or(SqlError::Missing)?;
    of_row(&row, keys)
}

fn of_row(row: &SqlRow, keys: &SharedKeys) -> SqlResult<RecordOrder> {
    let cut =
        RecordCut { number: number(row, 1)?, anchor: position(row, 2)?, anchor_entries: number(row, 4)? };
    let is_sealed = chain::is_same(&row.get::<Vec<u8>>(5)?, &cut.seal(keys));
    Ok(RecordOrder { entries: number(row, 0)?, cut, is_sealed })
}
