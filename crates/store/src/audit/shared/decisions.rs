//! Decisions, which are recorded in the transactions that make them.
//!
//! The decisions that are made at a node are a chain of their own beside that of its file. Their key and the id of the
//! chain are derived from the key of the state and the name of the node, so that every process of the node continues the
//! same chain, and nothing has to be stored before the first decision.

use std::sync::Arc;

use hospes_sql::{SqlError, SqlResult, SqlTransaction, sql_values};

use super::super::block::{EntryBlock, NewEntry};
use super::super::chain::{self, ChainEnd};
use super::super::entry::AuditEntry;
use super::super::spool::ChainId;
use super::append::{AppendResult, append};
use super::chains::{OwnChain, begin};
use super::{SharedAuditLog, SharedKeys, order};
use crate::error::StoreError;
use crate::key::AuditKeys;

/// Refusal of a decision whose chain cannot be continued.
const MODIFIED: &str = "the end of the recorded decisions was modified; `hospes audit verify` says where";

/// Chain of the decisions that are made at one node.
pub(crate) struct DecisionChain {
    keys: Arc<SharedKeys>,
    own: OwnChain,
}

impl DecisionChain {
    /// Creates the handle of a node's chain. `node` is its name for people.
    pub(crate) fn new(log: &SharedAuditLog, node: &str) -> Result<Self, StoreError> {
        let derived = AuditKeys::from_bytes(&*log.0.part.secret("audit decisions")?);
        let id = ChainId(derived.bind(&[b"chain", node.as_bytes()]));
        let keys = Arc::new(AuditKeys::from_bytes(&derived.bind(&[b"key", &id.0])));
        let own = OwnChain {
            id,
            keys,
            node: node.to_owned(),
            first: chain::NOTHING,
            follows: None,
            has_decisions: true,
        };
        Ok(Self { keys: Arc::clone(&log.0.keys), own })
    }

    /// Appends entries within the transaction of their decision, at its end: the lock of the order is held until the
    /// commit.
    pub(crate) fn append(&self, change: &mut dyn SqlTransaction, entries: &[AuditEntry]) -> SqlResult<()> {
        if entries.is_empty() {
            return Ok(());
        }
        // Before the chain, as all others who lock both.
        order::lock(change, &self.keys)?;
        let before = begin(change, &self.keys, &self.own)?.tail;
        let seal = "SELECT last_seal FROM audit_chains WHERE id = ?1";
        let seal: Option<Vec<u8>> = change.query_value(seal, sql_values![self.own.id.0.to_vec()])?;
        let expected = chain::seal(&self.own.keys, ChainEnd::Last, before);
        // Continued, a chain that was cut off would have a valid end again.
        if !seal.is_some_and(|seal| chain::is_same(&seal, &expected)) {
            return Err(SqlError::Refused(MODIFIED));
        }
        let texts: Vec<String> = entries.iter().map(|entry| NewEntry::new(entry).text().to_owned()).collect();
        let last = texts.iter().fold(before, |here, text| chain::following(&self.own.keys, here, text));
        let block = EntryBlock { before, first: before.seq + 1, last, entries: texts.join("\n") };
        match append(change, (&self.keys, &self.own.keys), self.own.id, &block)? {
            AppendResult::Appended => Ok(()),
            AppendResult::EndsAt(_) | AppendResult::NoChain => Err(SqlError::Missing),
        }
    }
}
