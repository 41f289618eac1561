//! Offers of servers when they were accepted, and their current offers.
//!
//! A server is known by its name in the configuration *and* by its target: what it is started with or where it is. Each
//! thing it offers is known by its kind, its name and the hash of its definition. What is accepted is accepted with exactly
//! that hash; everything else waits.

mod decide;
mod rows;
mod sightings;
#[cfg(test)]
mod tests;
mod types;

use super::StateStore;
use crate::error::StoreError;
pub use decide::{TrustDecision, TrustDecisionError, TrustDecisionOutcome};
pub use types::{
    ItemDefinition, ItemKind, ItemPinState, ParseDigestError, RecordedDefinition, ServerFingerprint,
    ServerPinState, ServerSighting, Sha256Digest, SightingReport, StoredItem, StoredServer, TrustMode,
};

/// Maximum number of definitions kept of one item, besides the accepted ones.
pub const MAX_HISTORY: usize = 16;

/// The longest definition whose text is kept, in bytes; of a longer one only the hash is.
pub const MAX_TEXT: usize = 256 * 1024;

/// Maximum number of definitions kept of one server.
pub const MAX_DEFINITIONS: usize = 40_000;

/// Maximum number of servers kept; beyond that, servers that were never accepted are removed, the oldest first.
pub const MAX_SERVERS: usize = 2000;

/// Every step is run once, in order. Never change one, add one.
///
/// Of one name the server is `current` that was started last. An item is `current` in what the server offered last; `sight` says to whom it was when it was first offered.
pub(super) const MIGRATIONS: &[&str] = &["
    CREATE TABLE pinned_servers (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, target BLOB NOT NULL, shown TEXT NOT NULL,
        program TEXT, program_hash BLOB, accepted_program BLOB,
        state TEXT NOT NULL, current INTEGER NOT NULL, seen_at INTEGER NOT NULL, decided_at INTEGER, decided_by TEXT,
        UNIQUE (name, target)
    );
    CREATE TABLE pinned_items (
        server INTEGER NOT NULL REFERENCES pinned_servers (id) ON DELETE CASCADE,
        kind TEXT NOT NULL, name TEXT NOT NULL, hash BLOB NOT NULL,
        definition TEXT, state TEXT NOT NULL, current INTEGER NOT NULL, sight TEXT NOT NULL,
        seen_at INTEGER NOT NULL, decided_at INTEGER, decided_by TEXT,
        PRIMARY KEY (server, kind, name, hash)
    ) WITHOUT ROWID;
    CREATE TABLE pinned_sights (
        server INTEGER NOT NULL REFERENCES pinned_servers (id) ON DELETE CASCADE, sight TEXT NOT NULL,
        PRIMARY KEY (server, sight)
    ) WITHOUT ROWID;
"];

/// The pins.
#[derive(Clone, Debug)]
pub struct PinRecords(StateStore);

impl PinRecords {
    pub(super) fn new(state: StateStore) -> Self {
        Self(state)
    }

    /// Records the offer of a server and returns its state. New items are accepted or wait, as `trust` requires; known
    /// items are never accepted by this.
    ///
    /// # Errors
    /// When it cannot be read or written. Then nothing of the server may be used.
    pub async fn record_sighting(
        &self,
        sighting: ServerSighting,
        trust: TrustMode,
    ) -> Result<SightingReport, StoreError> {
        // Both closures need it, and it may hold thousands of definitions.
        let sighting = std::sync::Arc::new(sighting);
        let look = std::sync::Arc::clone(&sighting);
        // Nearly always everything is known, and nothing needs to be written.
        if let Some(seen) = self.0.read(move |view| sightings::report_if_known(view, &look, trust)).await? {
            return Ok(seen);
        }
        self.0.write(move |change| sightings::record_sighting(change, &sighting, trust)).await
    }

    /// One server; none that was never seen.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn server(&self, name: &str, target: Sha256Digest) -> Result<Option<StoredServer>, StoreError> {
        let name = name.to_owned();
        self.0.read(move |view| rows::server(view, &name, &target)).await
    }

    /// All servers that were ever seen, by name; of one name the one that was seen last comes first.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn servers(&self) -> Result<Vec<StoredServer>, StoreError> {
        self.0.read(rows::servers).await
    }

    /// Accepts or rejects what a person has seen, and nothing else: where it is not that any more, nothing is done.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn decide(
        &self,
        decision: TrustDecision,
    ) -> Result<Result<TrustDecisionOutcome, TrustDecisionError>, StoreError> {
        self.0.write(move |change| decide::decide(change, &decision)).await
    }

    /// The definitions that a server has had, of one item or all, the newest first.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn history(
        &self,
        name: &str,
        target: Sha256Digest,
        item: Option<(ItemKind, String)>,
    ) -> Result<Vec<RecordedDefinition>, StoreError> {
        let name = name.to_owned();
        self.0.read(move |view| rows::history(view, &name, &target, item.as_ref())).await
    }

    /// Counts the changes of the state, here and by other processes.
    #[must_use]
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.0.changes()
    }
}
