//! Reading of entries, by their numbers in the record.

use std::sync::Arc;

use hospes_sql::{SqlResult, SqlRow, SqlTransaction, SqlValue};

use super::super::block::{EntryBlock, MAX_BLOCK_ENTRIES};
use super::super::chain;
use super::super::entry::AuditEntry;
use super::super::position::AuditPosition;
use super::super::spool::ChainId;
use super::super::{AuditQuery, EntryOrigin, RecordedEntry};
use super::append::{join_names, principal_name, server_name, subject_name};
use super::{SharedAuditLog, SharedKeys, chain_id, hash, number, position};
use crate::error::StoreError;

/// Number of blocks that are read at once.
pub(super) const PAGE_BLOCKS: i64 = 8;

/// A block of the record.
#[derive(Debug)]
pub(super) struct SharedBlock {
    pub(super) first_number: u64,
    pub(super) last_number: u64,
    pub(super) chain: ChainId,
    pub(super) block: EntryBlock,
}

/// Columns that [`read_block`] reads.
pub(super) const COLUMNS: &str =
    "first_number, last_number, chain, first_seq, before, last_seq, bound, entries";

/// Reads a row of the columns [`COLUMNS`].
pub(super) fn read_block(row: &SqlRow) -> SqlResult<SharedBlock> {
    let first = number(row, 3)?;
    let entries = row.get::<Vec<u8>>(7)?;
    Ok(SharedBlock {
        first_number: number(row, 0)?,
        last_number: number(row, 1)?,
        chain: chain_id(row, 2)?,
        block: EntryBlock {
            before: AuditPosition { seq: first.saturating_sub(1), bound: hash(row, 4)? },
            first,
            last: position(row, 5)?,
            // What is no text was not written by this program, and is not bound like this either.
            entries: String::from_utf8_lossy(&entries).into_owned(),
        },
    })
}

/// Returns the entries of a block. What a newer version wrote and this one cannot read is left out, as is what cannot be
/// bound because its chain is unknown: verification reports it.
fn entries(
    view: &mut dyn SqlTransaction,
    keys: &SharedKeys,
    found: &SharedBlock,
) -> SqlResult<Vec<RecordedEntry>> {
    let Some(info) = keys.chain(view, found.chain)? else { return Ok(Vec::new()) };
    let mut here = found.block.before;
    let mut all = Vec::new();
    for (place, text) in found.block.entries.split('\n').enumerate() {
        here = chain::following(&info.keys, here, text);
        if let Ok(entry) = serde_json::from_str::<AuditEntry>(text) {
            let (node, chain) = (Arc::clone(&info.node), Arc::clone(&info.text_id));
            let origin = Some(EntryOrigin { node, chain, seq: here.seq });
            let seq = found.first_number.saturating_add(place as u64);
            all.push(RecordedEntry { seq, bound: here.bound, entry, origin });
        }
    }
    Ok(all)
}

/// Returns the matching entries, newest first.
pub(super) async fn search(
    log: &SharedAuditLog,
    query: AuditQuery,
) -> Result<Vec<RecordedEntry>, StoreError> {
    let (limit, mut found, mut page) = (query.limit, Vec::new(), query);
    while found.len() < limit {
        let (keys, wanted) = (Arc::clone(&log.0.keys), page.clone());
        let (matching, next) = log.0.part.read(move |view| search_page(view, &keys, &wanted)).await?;
        found.extend(matching.into_iter().take(limit - found.len()));
        let Some(next) = next else { break };
        page.before = Some(next);
    }
    Ok(found)
}

/// Returns the matching entries of the next blocks, and the number before which the following page begins.
fn search_page(
    view: &mut dyn SqlTransaction,
    keys: &SharedKeys,
    query: &AuditQuery,
) -> SqlResult<(Vec<RecordedEntry>, Option<u64>)> {
    let mut sql = format!("SELECT {COLUMNS} FROM audit_blocks WHERE true");
    let mut values: Vec<SqlValue<'_>> = Vec::new();
    let mut and = |condition: &str, value: SqlValue<'static>| {
        values.push(value);
        sql.push_str(" AND ");
        sql.push_str(&condition.replace('#', &format!("?{}", values.len())));
    };
    if let Some(kind) = query.kind {
        and("kinds & # <> 0", SqlValue::Integer(kind.bit()));
    }
    if let Some(since) = query.since {
        and("last_at >= #", SqlValue::Integer(since.as_microsecond()));
    }
    if let Some(until) = query.until {
        and("first_at < #", SqlValue::Integer(until.as_microsecond()));
    }
    if let Some(before) = query.before {
        and("first_number < #", SqlValue::Integer(chain::number(before)));
        // So that the index of the last numbers finds the place: no block is longer.
        let last = chain::number(before.saturating_add(MAX_BLOCK_ENTRIES as u64));
        and("last_number < #", SqlValue::Integer(last));
    }
    let mut names = Vec::new();
    match (&query.server, &query.subject) {
        (Some(server), Some(subject)) => names.push(subject_name(server, subject)),
        (Some(server), None) => names.push(server_name(server)),
        (None, _) => (),
    }
    names.extend(query.principal.as_ref().map(|principal| principal_name(principal)));
    if !names.is_empty() {
        let names = join_names(names.iter().map(String::as_str));
        and("names @> string_to_array(#, ' ')", SqlValue::Text(names.into()));
    }
    let blocks = usize::try_from(PAGE_BLOCKS).unwrap_or(1).min(query.limit.max(1));
    sql.push_str(&format!(" ORDER BY last_number DESC LIMIT {blocks}"));
    let rows = view.query(&sql, &values)?;
    let (mut found, mut next) = (Vec::new(), None);
    for row in &rows {
        let block = read_block(row)?;
        next = Some(block.first_number);
        let entries = entries(view, keys, &block)?.into_iter().rev();
        let is_of_node = |one: &RecordedEntry| {
            let node = one.origin.as_ref().map(|origin| &*origin.node);
            query.node.is_none() || node == query.node.as_deref()
        };
        found.extend(entries.filter(|one| is_of_node(one) && query.matches_entry(one.seq, &one.entry)));
    }
    Ok((found, next))
}

/// Returns entries in order, starting after a number.
pub(super) async fn after(
    log: &SharedAuditLog,
    mut number: u64,
    limit: usize,
) -> Result<Vec<RecordedEntry>, StoreError> {
    let mut found = Vec::new();
    while found.len() < limit {
        let keys = Arc::clone(&log.0.keys);
        let page = log.0.part.read(move |view| page_after(view, &keys, number)).await?;
        let Some((entries, last)) = page else { break };
        let later = entries.into_iter().filter(|one| one.seq > number);
        found.extend(later.take(limit - found.len()));
        number = last;
    }
    Ok(found)
}

/// Returns the entries of the next blocks, and the number of the last one. `None` at the end.
fn page_after(
    view: &mut dyn SqlTransaction,
    keys: &SharedKeys,
    number: u64,
) -> SqlResult<Option<(Vec<RecordedEntry>, u64)>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM audit_blocks WHERE last_number > ?1 ORDER BY last_number LIMIT {PAGE_BLOCKS}"
    );
    let rows = view.query(&sql, &[SqlValue::Integer(chain::number(number))])?;
    let mut page = None;
    for row in &rows {
        let block = read_block(row)?;
        let (all, last) = page.get_or_insert_with(|| (Vec::new(), 0));
        all.extend(entries(view, keys, &block)?);
        *last = block.last_number;
    }
    Ok(page)
}
