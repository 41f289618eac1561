//! Chains of the record: one for each file of a node, and one for the decisions made there.

use std::sync::Arc;

use hospes_sql::{SqlResult, SqlTransaction, sql_values};
use serde::{Deserialize, Serialize};

use super::super::chain::{self, ChainEnd};
use super::super::position::AuditPosition;
use super::super::spool::ChainId;
use super::{MAX_KNOWN_CHAINS, SharedKeys, position};
use crate::hex::from_hex;
use crate::key::AuditKeys;

/// Key with which a chain is sealed, and where it comes from.
#[derive(Debug, Serialize, Deserialize)]
struct SealedChain<'a> {
    /// Key of the file, in hexadecimal digits.
    key: &'a str,
    node: String,
    /// Number of the entry before the first one that was shipped.
    start: u64,
    /// Chain of the same file that could not be continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    follows: Option<String>,
    /// True if its entries are decisions, which are in no file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    decisions: bool,
}

/// A chain as this node knows it.
#[derive(Debug)]
pub(super) struct ChainInfo {
    pub(super) keys: AuditKeys,
    pub(super) node: Arc<str>,
    pub(super) text_id: Arc<str>,
    pub(super) start: u64,
    pub(super) follows: Option<ChainId>,
    /// True if its entries are decisions, which are in no file.
    pub(super) has_decisions: bool,
}

/// A chain that a node begins or continues.
#[derive(Clone, Debug)]
pub(super) struct OwnChain {
    pub(super) id: ChainId,
    pub(super) keys: Arc<AuditKeys>,
    pub(super) node: String,
    /// Position before the first entry.
    pub(super) first: AuditPosition,
    pub(super) follows: Option<ChainId>,
    pub(super) has_decisions: bool,
}

/// Context with which a chain is sealed.
fn context(id: ChainId) -> Vec<u8> {
    [b"chain of the audit record ".as_slice(), &id.0].concat()
}

impl SharedKeys {
    /// Returns a chain. `None` if it is not there, or not sealed with the key of this state.
    pub(super) fn chain(
        &self,
        view: &mut dyn SqlTransaction,
        id: ChainId,
    ) -> SqlResult<Option<Arc<ChainInfo>>> {
        if let Some(known) = self.known.lock().get(&id) {
            return Ok(Some(Arc::clone(known)));
        }
        let sql = "SELECT sealed FROM audit_chains WHERE id = ?1";
        let sealed: Option<Vec<u8>> = view.query_value(sql, sql_values![id.0.to_vec()])?;
        Ok(sealed.and_then(|sealed| self.open_chain(id, &sealed)))
    }

    /// Opens a chain that was read. `None` if it is not sealed with the key of this state.
    pub(super) fn open_chain(&self, id: ChainId, sealed: &[u8]) -> Option<Arc<ChainInfo>> {
        let text = zeroize::Zeroizing::new(self.chains.open(sealed, &context(id)).ok()?);
        let read: SealedChain<'_> = serde_json::from_slice(&text).ok()?;
        let info = Arc::new(ChainInfo {
            keys: AuditKeys::from_bytes(&*from_hex(read.key)?),
            node: read.node.into(),
            text_id: id.to_string().into(),
            start: read.start,
            follows: read.follows.and_then(|id| ChainId::parse(&id)),
            has_decisions: read.decisions,
        });
        let mut known = self.known.lock();
        if known.len() >= MAX_KNOWN_CHAINS {
            known.clear();
        }
        known.insert(id, Arc::clone(&info));
        Some(info)
    }

    fn seal_chain(&self, chain: &OwnChain, start: u64, follows: Option<ChainId>) -> Vec<u8> {
        let (key, node) = (chain.keys.to_text(), chain.node.clone());
        let follows = follows.map(|id| id.to_string());
        let sealed = SealedChain { key: &key, node, start, follows, decisions: chain.has_decisions };
        let text = serde_json::to_vec(&sealed).map(zeroize::Zeroizing::new);
        let text = text.expect("a chain serializes to JSON");
        self.chains.seal(&text, &context(chain.id))
    }
}

/// Shipped part of a chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShippedChain {
    /// Position of the last entry that was shipped.
    pub(super) tail: AuditPosition,
    /// True if the chain has the present name of the node.
    pub(super) is_named: bool,
}

/// Returns what is shipped of a chain. A chain that is not there yet is added.
pub(super) fn begin(
    change: &mut dyn SqlTransaction,
    keys: &SharedKeys,
    own: &OwnChain,
) -> SqlResult<ShippedChain> {
    let id = own.id.0.to_vec();
    let sql = "SELECT last_seq, last_bound, sealed FROM audit_chains WHERE id = ?1 FOR UPDATE";
    if let Some(row) = change.query_first(sql, sql_values![id])? {
        let info = keys.open_chain(own.id, &row.get::<Vec<u8>>(2)?);
        let is_named = info.is_none_or(|info| *info.node == *own.node);
        return Ok(ShippedChain { tail: position(&row, 0)?, is_named });
    }
    let (seq, bound) = (chain::number(own.first.seq), own.first.bound.to_vec());
    let seal = |end| chain::seal(&own.keys, end, own.first).to_vec();
    let insert =
        "INSERT INTO audit_chains (id, sealed, cut_seq, cut_bound, cut_seal, last_seq, last_bound, last_seal,
        last_number) VALUES (?1, ?2, ?3, ?4, ?5, ?3, ?4, ?6, 0)";
    let sealed = keys.seal_chain(own, own.first.seq, own.follows);
    let (first, last) = (seal(ChainEnd::First), seal(ChainEnd::Last));
    change.execute(insert, sql_values![id, sealed, seq, bound, first, last])?;
    Ok(ShippedChain { tail: own.first, is_named: true })
}

/// Gives a chain the present name of the node.
pub(super) fn rename(change: &mut dyn SqlTransaction, keys: &SharedKeys, own: &OwnChain) -> SqlResult<()> {
    let id = own.id.0.to_vec();
    let sql = "SELECT sealed FROM audit_chains WHERE id = ?1 FOR UPDATE";
    let sealed: Option<Vec<u8>> = change.query_value(sql, sql_values![id])?;
    if let Some(info) = sealed.and_then(|sealed| keys.open_chain(own.id, &sealed)) {
        let sealed = keys.seal_chain(own, info.start, info.follows);
        let update = "UPDATE audit_chains SET sealed = ?1 WHERE id = ?2";
        change.execute(update, sql_values![sealed, id])?;
        keys.open_chain(own.id, &sealed);
    }
    Ok(())
}
