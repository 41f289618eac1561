//! Record of all nodes of a fleet, in PostgreSQL.
//!
//! Each node has its own file, whose entries are one chain. The [`AuditShipper`] of the node appends them in blocks, with
//! the hashes that they have in the file. There is one chain for each file and not one for each start of a process, because
//! a block is then the same in the file and in the record, and nothing has to be bound twice. The key of each chain is
//! stored with it, sealed with the key of the state, so that each node can verify all chains.
//!
//! Decisions are made in this database. Their entries are appended in the transactions that make them, in a chain of its
//! own for each node.
//!
//! Blocks get numbers in the order in which they are appended. Anchors bind this order: each has the number of the
//! last entry, the ends of the chains that have grown since the anchor before, and a keyed hash over these and the
//! anchor before.

mod anchors;
mod append;
mod chains;
mod decisions;
mod order;
mod records;
mod retention;
mod shipper;
mod verify;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hospes_sql::{SqlError, SqlResult, SqlRow};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::position::AuditPosition;
use super::spool::ChainId;
use super::{AuditQuery, RecordedEntry};
use crate::error::StoreError;
use crate::hex::KEY_BYTES;
use crate::key::{AuditKeys, SealCipher};
use crate::state::StatePart;
pub use anchors::AuditAnchor;
use chains::ChainInfo;
pub(crate) use decisions::DecisionChain;
pub use shipper::AuditShipper;
pub use verify::{SharedTamperEvidence, VerifiedChain, VerifiedSharedLog};

/// Migration steps. Never change a step; add one.
///
/// `audit_order` has one row: the number of the last entry, and where the record begins. The names of a block are hashes
/// of the servers, subjects and principals of its entries, because an index holds only short texts.
pub(crate) const POSTGRES: &[&str] = &["
    CREATE TABLE audit_order (
        id bigint PRIMARY KEY, entries bigint NOT NULL, cut bigint NOT NULL, cut_anchor bigint NOT NULL,
        cut_mac bytea NOT NULL, cut_entries bigint NOT NULL, seal bytea NOT NULL
    );
    CREATE TABLE audit_chains (
        id bytea PRIMARY KEY, sealed bytea NOT NULL,
        cut_seq bigint NOT NULL, cut_bound bytea NOT NULL, cut_seal bytea NOT NULL,
        last_seq bigint NOT NULL, last_bound bytea NOT NULL, last_seal bytea NOT NULL, last_number bigint NOT NULL
    );
    CREATE TABLE audit_blocks (
        last_number bigint PRIMARY KEY, first_number bigint NOT NULL UNIQUE,
        chain bytea NOT NULL REFERENCES audit_chains (id), first_seq bigint NOT NULL, before bytea NOT NULL,
        last_seq bigint NOT NULL, bound bytea NOT NULL, first_at bigint NOT NULL, last_at bigint NOT NULL,
        kinds bigint NOT NULL, names text[] NOT NULL, entries bytea NOT NULL, UNIQUE (chain, first_seq)
    );
    CREATE INDEX audit_blocks_at ON audit_blocks (last_at);
    CREATE INDEX audit_blocks_names ON audit_blocks USING gin (names);
    CREATE TABLE audit_anchors (
        n bigint PRIMARY KEY, at bigint NOT NULL, entries bigint NOT NULL, tails text NOT NULL, previous bytea NOT NULL,
        mac bytea NOT NULL
    );
"];

/// Maximum number of chains whose keys are kept in memory.
const MAX_KNOWN_CHAINS: usize = 4096;

/// Record of all nodes. Cheap to clone.
#[derive(Clone)]
pub struct SharedAuditLog(Arc<SharedAuditInner>);

struct SharedAuditInner {
    part: StatePart,
    keys: Arc<SharedKeys>,
}

/// Keys of the record.
struct SharedKeys {
    /// Binds anchors.
    anchors: AuditKeys,
    /// Seals the keys of chains.
    chains: SealCipher,
    known: Mutex<HashMap<ChainId, Arc<ChainInfo>>>,
}

impl SharedAuditLog {
    pub(crate) fn new(part: StatePart) -> Result<Self, StoreError> {
        // From the key of the state, which stays the same when the secret of the fleet changes.
        let anchors = AuditKeys::from_bytes(&*part.secret("audit anchors")?);
        let chains = SealCipher::new(&*part.secret("audit chains")?);
        let keys = Arc::new(SharedKeys { anchors, chains, known: Mutex::default() });
        Ok(Self(Arc::new(SharedAuditInner { part, keys })))
    }

    /// Returns the matching entries, newest first.
    ///
    /// # Errors
    /// If the database cannot be used.
    pub async fn search(&self, query: AuditQuery) -> Result<Vec<RecordedEntry>, StoreError> {
        records::search(self, query).await
    }

    /// Returns entries in order, starting after a number. An entry never gets a number before one that was returned.
    ///
    /// # Errors
    /// If the database cannot be used.
    pub async fn after(&self, number: u64, limit: usize) -> Result<Vec<RecordedEntry>, StoreError> {
        records::after(self, number, limit).await
    }

    /// Returns the number of the last entry, 0 if there is none.
    ///
    /// # Errors
    /// If the database cannot be used.
    pub async fn last_number(&self) -> Result<u64, StoreError> {
        let keys = Arc::clone(&self.0.keys);
        let order = self.0.part.read(move |view| order::read(view, &keys)).await?;
        Ok(order.map_or(0, |order| order.entries))
    }

    /// Decrypts the arguments of an entry. Returns `None` if there are none.
    ///
    /// # Errors
    /// If they were encrypted with another key or for another entry, or the database cannot be used.
    pub async fn unseal(&self, recorded: &RecordedEntry) -> Result<Option<String>, StoreError> {
        let (Some(sealed), Some(origin)) = (&recorded.entry.sealed, &recorded.origin) else {
            return Ok(None);
        };
        let id = ChainId::parse(&origin.chain).ok_or(StoreError::Sealed)?;
        let keys = Arc::clone(&self.0.keys);
        let info = self.0.part.read(move |view| keys.chain(view, id)).await?;
        let info = info.ok_or(StoreError::Sealed)?;
        super::unseal(&info.keys, &recorded.entry, sealed).map(Some)
    }

    /// Writes an anchor if entries were added since the last one, and this is at least `interval` ago. Of several nodes
    /// that try, one writes it.
    ///
    /// # Errors
    /// If the database cannot be used.
    pub async fn anchor(&self, interval: Duration) -> Result<Option<AuditAnchor>, StoreError> {
        anchors::write(self, interval).await
    }

    /// Verifies the whole record. `noted` is the position of an anchor that was recorded elsewhere.
    ///
    /// # Errors
    /// [`StoreError::SharedTampered`] with the first fault, or an error if the database cannot be used.
    pub async fn verify(&self, noted: Option<AuditPosition>) -> Result<VerifiedSharedLog, StoreError> {
        let keys = Arc::clone(&self.0.keys);
        let verified = self.0.part.read(move |view| verify::verify(view, &keys, noted)).await?;
        verified.map_err(StoreError::SharedTampered)
    }

    /// Deletes the blocks whose entries are all from before a moment, up to the first one that stays, and returns the
    /// number of entries. The new beginning of the record and of each chain is sealed.
    ///
    /// # Errors
    /// If the database cannot be used.
    pub async fn delete_before(&self, before: Timestamp) -> Result<u64, StoreError> {
        retention::delete_before(self, before.as_microsecond()).await
    }
}

impl fmt::Debug for SharedAuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedAuditLog")
    }
}

/// Reads a number, which is never negative.
fn number(row: &SqlRow, column: usize) -> SqlResult<u64> {
    row.get::<i64>(column).map(|number| u64::try_from(number).unwrap_or_default())
}

/// Reads a keyed hash. One of another length was not written by this program.
fn hash(row: &SqlRow, column: usize) -> SqlResult<[u8; KEY_BYTES]> {
    Ok(row.get::<Vec<u8>>(column)?.try_into().unwrap_or([0; KEY_BYTES]))
}

/// Reads a position from two columns.
fn position(row: &SqlRow, column: usize) -> SqlResult<AuditPosition> {
    Ok(AuditPosition { seq: number(row, column)?, bound: hash(row, column + 1)? })
}

/// Reads the id of a chain.
fn chain_id(row: &SqlRow, column: usize) -> SqlResult<ChainId> {
    let expected = "the id of a chain";
    ChainId::from_bytes(&row.get::<Vec<u8>>(column)?).ok_or(SqlError::Value { column, expected })
}
