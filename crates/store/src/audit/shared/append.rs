//! Appending of blocks, each once and in order.

use std::borrow::Cow;
use std::collections::BTreeSet;

use aws_lc_rs::digest::{SHA256, digest};
use hospes_sql::{SqlResult, SqlTransaction, sql_values};
use serde::Deserialize;

use super::super::block::{BlockSummary, EntryBlock};
use super::super::chain::{self, ChainEnd};
use super::super::entry::AuditEntryKind;
use super::super::position::AuditPosition;
use super::super::spool::ChainId;
use super::{SharedKeys, order, position};
use crate::hex::to_hex;
use crate::key::AuditKeys;

/// Result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AppendResult {
    /// The block is there; it may have been there before.
    Appended,
    /// The chain ends at another position.
    EndsAt(AuditPosition),
    /// The chain is not there.
    NoChain,
}

/// Values by which a block is found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SharedSummary {
    /// Time of the earliest and of the latest entry, and a bit for each kind.
    pub(super) block: BlockSummary,
    /// Names as they are stored.
    pub(super) names: BTreeSet<String>,
    /// True if an entry cannot be read: a newer version wrote it.
    pub(super) has_unreadable: bool,
}

/// Part of an entry by which it is found.
#[derive(Deserialize)]
struct EntryPeek<'a> {
    at: i64,
    kind: AuditEntryKind,
    #[serde(borrow, default)]
    server: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    subject: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    principal: Option<Cow<'a, str>>,
}

impl SharedSummary {
    /// Reads the entries of a block. A busy node does it for each call, so that only what is looked for is read, and the
    /// few names are hashed once.
    pub(super) fn of(entries: &str) -> Self {
        let mut summary = Self::default();
        let (mut subjects, mut principals) = (BTreeSet::new(), BTreeSet::new());
        for text in entries.split('\n') {
            let Ok(entry) = serde_json::from_str::<EntryPeek<'_>>(text) else {
                summary.has_unreadable = true;
                continue;
            };
            summary.block.add_parts(entry.kind, entry.at, None);
            subjects.extend(entry.server.map(|server| (server, entry.subject)));
            principals.extend(entry.principal);
        }
        for (server, subject) in &subjects {
            summary.names.insert(server_name(server));
            summary.names.extend(subject.as_ref().map(|subject| subject_name(server, subject)));
        }
        summary.names.extend(principals.iter().map(|principal| principal_name(principal)));
        summary
    }

    pub(super) fn names_text(&self) -> String {
        join_names(self.names.iter().map(String::as_str))
    }
}

/// Joins names for `string_to_array`.
pub(super) fn join_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(" ")
}

pub(super) fn server_name(server: &str) -> String {
    hashed(&["server", server])
}

pub(super) fn subject_name(server: &str, subject: &str) -> String {
    hashed(&["subject", server, subject])
}

pub(super) fn principal_name(principal: &str) -> String {
    hashed(&["principal", principal])
}

fn hashed(parts: &[&str]) -> String {
    let mut text = Vec::new();
    for part in parts {
        text.extend((part.len() as u64).to_be_bytes());
        text.extend(part.as_bytes());
    }
    to_hex(&digest(&SHA256, &text).as_ref()[..16])
}

/// Appends a block to the end of its chain. A block that is there already is not appended again.
pub(super) fn append(
    change: &mut dyn SqlTransaction,
    (keys, own): (&SharedKeys, &AuditKeys),
    id: ChainId,
    block: &EntryBlock,
) -> SqlResult<AppendResult> {
    // Before the chain, as all others who lock both. Numbers become visible in their order, because the lock is held
    // until the commit.
    let order = order::lock(change, keys)?;
    let (chain, before, last) = (id.0.to_vec(), block.before, block.last);
    let count = last.seq.saturating_sub(before.seq);
    let number = order.entries + count;
    let update = "UPDATE audit_chains SET last_seq = ?1, last_bound = ?2, last_seal = ?3, last_number = ?4
        WHERE id = ?5 AND last_seq = ?6 AND last_bound = ?7";
    let seal = chain::seal(own, ChainEnd::Last, last).to_vec();
    let (last_seq, bound) = (chain::number(last.seq), last.bound.to_vec());
    let (before_seq, before_bound) = (chain::number(before.seq), before.bound.to_vec());
    if change.execute(
        update,
        sql_values![last_seq, bound, seal, chain::number(number), chain, before_seq, before_bound],
    )? == 0
    {
        let sql = "SELECT last_seq, last_bound FROM audit_chains WHERE id = ?1";
        let Some(row) = change.query_first(sql, sql_values![chain])? else {
            return Ok(AppendResult::NoChain);
        };
        let sql = "SELECT CAST(1 AS bigint) FROM audit_blocks
            WHERE chain = ?1 AND first_seq = ?2 AND last_seq = ?3 AND bound = ?4";
        let is_known = change
            .query_first(sql, sql_values![chain, chain::number(before.seq + 1), last_seq, bound])?
            .is_some();
        return Ok(if is_known { AppendResult::Appended } else { AppendResult::EndsAt(position(&row, 0)?) });
    }
    let update = "UPDATE audit_order SET entries = ?1 WHERE id = 1";
    change.execute(update, sql_values![chain::number(number)])?;
    let summary = SharedSummary::of(&block.entries);
    let (first_at, last_at) = summary.block.at.unwrap_or_default();
    let insert = "INSERT INTO audit_blocks (last_number, first_number, chain, first_seq, before, last_seq, bound, first_at,
        last_at, kinds, names, entries)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, string_to_array(?11, ' '), ?12)";
    change.execute(
        insert,
        sql_values![
            chain::number(number),
            chain::number(order.entries + 1),
            chain,
            chain::number(before.seq + 1),
            before_bound,
            last_seq,
            bound,
            first_at,
            last_at,
            summary.block.kinds,
            summary.names_text(),
            block.entries.as_bytes().to_vec(),
        ],
    )?;
    Ok(AppendResult::Appended)
}
