//! Offers of servers when they were accepted, and their current offers.
//!
//! A server is identified by its name in the configuration *and* its target, that is, its command line or URL. Each
//! item that it offers is identified by its kind, its name and the hash of its definition. Acceptance applies to
//! exactly that hash; everything else waits.

mod decide;
mod rows;
mod sightings;
#[cfg(test)]
mod tests;
mod types;

use super::store::StatePart;
use crate::audit::AuditEntry;
use crate::error::StoreError;
pub use decide::{TrustDecision, TrustDecisionError, TrustDecisionOutcome};
pub use sightings::{MAX_DEFINITIONS, MAX_HISTORY, MAX_SERVERS, MAX_TEXT};
pub use types::{
    ItemDefinition, ItemKind, ItemPinState, ParseDigestError, RecordedDefinition, SMALL_CHANGE,
    ServerFingerprint, ServerPinState, ServerSighting, Sha256Digest, SightingReport, StoredItem,
    StoredServer, TrustMode,
};

/// Migration steps, each run once in order. Never change a step; add one.
///
/// Of servers with one name, the one that was started last is `current`. An item is `current` if the server offered it
/// last; `sight` is the audience to which it was first offered.
pub(super) const SQLITE: &[&str] = &["
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

/// The same in PostgreSQL. Never change a step; add one.
#[cfg(feature = "postgres")]
///
/// Names are compared by their bytes, as SQLite does, so that lists have the same order on all nodes.
pub(super) const POSTGRES: &[&str] = &["
    CREATE TABLE pinned_servers (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text COLLATE \"C\" NOT NULL, target bytea NOT NULL,
        shown text NOT NULL, program text, program_hash bytea, accepted_program bytea,
        state text NOT NULL, current boolean NOT NULL, seen_at bigint NOT NULL, decided_at bigint, decided_by text,
        UNIQUE (name, target)
    );
    CREATE TABLE pinned_items (
        server bigint NOT NULL REFERENCES pinned_servers (id) ON DELETE CASCADE,
        kind text COLLATE \"C\" NOT NULL, name text COLLATE \"C\" NOT NULL, hash bytea NOT NULL,
        definition text, state text NOT NULL, current boolean NOT NULL, sight text NOT NULL,
        seen_at bigint NOT NULL, decided_at bigint, decided_by text,
        PRIMARY KEY (server, kind, name, hash)
    );
    CREATE TABLE pinned_sights (
        server bigint NOT NULL REFERENCES pinned_servers (id) ON DELETE CASCADE, sight text NOT NULL,
        PRIMARY KEY (server, sight)
    );
"];

/// Pins of servers and of the items they offer.
#[derive(Clone, Debug)]
pub struct PinRecords(StatePart);

impl PinRecords {
    pub(super) fn new(state: StatePart) -> Self {
        Self(state)
    }

    /// Returns true if several nodes share the pins, in a database that may be away.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    /// Returns true if the state records decisions, each in the transaction that makes it.
    #[must_use]
    pub fn records_decisions(&self) -> bool {
        self.0.decisions().is_on()
    }

    /// Records the offer of a server and returns its state. New items are accepted or wait, as `trust` requires; known
    /// items are never accepted by this.
    ///
    /// # Errors
    /// If the state cannot be read or written. The server must not be used then.
    pub async fn record_sighting(
        &self,
        sighting: ServerSighting,
        trust: TrustMode,
    ) -> Result<SightingReport, StoreError> {
        self.record_audited_sighting(sighting, trust, |_| Vec::new()).await
    }

    /// Records the offer of a server as [`PinRecords::record_sighting`] does. What is new is recorded in the same
    /// transaction if the state records decisions: the entries that `entries` returns.
    ///
    /// # Errors
    /// If the state cannot be read or written. The server must not be used then.
    pub async fn record_audited_sighting(
        &self,
        sighting: ServerSighting,
        trust: TrustMode,
        entries: impl Fn(&SightingReport) -> Vec<AuditEntry> + Send + Sync + 'static,
    ) -> Result<SightingReport, StoreError> {
        // Shared, because both closures need it, and it may have thousands of definitions.
        let sighting = std::sync::Arc::new(sighting);
        let look = std::sync::Arc::clone(&sighting);
        // Nearly always everything is known, and nothing needs to be written.
        if let Some(seen) = self.0.read(move |view| sightings::report_if_known(view, &look, trust)).await? {
            return Ok(seen);
        }
        let decisions = self.0.decisions();
        self.0
            .write(move |change| {
                let seen = sightings::record_sighting(change, &sighting, trust)?;
                if decisions.is_on() {
                    decisions.record(change, &entries(&seen))?;
                }
                Ok(seen)
            })
            .await
    }

    /// Returns a server, or `None` if it was never seen.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub async fn server(&self, name: &str, target: Sha256Digest) -> Result<Option<StoredServer>, StoreError> {
        let name = name.to_owned();
        self.0.read(move |view| rows::server(view, &name, &target)).await
    }

    /// Returns all servers that were ever seen, sorted by name. Of servers with one name, the one seen last comes
    /// first.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub async fn servers(&self) -> Result<Vec<StoredServer>, StoreError> {
        self.0.read(|view| rows::servers(view)).await
    }

    /// Accepts or rejects exactly the definitions that a person has seen. If they have changed since, nothing is
    /// decided, and nothing recorded.
    ///
    /// # Errors
    /// If the decision cannot be written.
    pub async fn decide(
        &self,
        decision: TrustDecision,
    ) -> Result<Result<TrustDecisionOutcome, TrustDecisionError>, StoreError> {
        let decisions = self.0.decisions();
        self.0
            .write(move |change| {
                let decided = decide::decide(change, &decision)?;
                if decided.is_ok() {
                    decisions.record(change, decision.entry.as_slice())?;
                }
                Ok(decided)
            })
            .await
    }

    /// Makes items of a server wait for a person that were accepted without one. `items` are their kinds, names and
    /// hashes; those that a person has decided about stay as they are. Returns the number of items that wait from now
    /// on. If there are any, `entries` are recorded with the change if the state records decisions.
    ///
    /// # Errors
    /// If the state cannot be written.
    pub async fn withdraw_unreviewed(
        &self,
        server: &str,
        target: Sha256Digest,
        items: Vec<(ItemKind, String, Sha256Digest)>,
        entries: Vec<AuditEntry>,
    ) -> Result<u64, StoreError> {
        let (server, decisions) = (server.to_owned(), self.0.decisions());
        self.0
            .write(move |change| {
                let count = decide::withdraw_unreviewed(change, &server, &target, &items)?;
                if count > 0 {
                    decisions.record(change, &entries)?;
                }
                Ok(count)
            })
            .await
    }

    /// Removes what is stored of a server about which nobody has decided. A server that was accepted or rejected stays.
    ///
    /// # Errors
    /// If the state cannot be written.
    pub async fn forget_undecided(&self, name: &str) -> Result<(), StoreError> {
        let name = name.to_owned();
        self.0.write(move |change| sightings::forget_undecided(change, &name)).await
    }

    /// Returns all known definitions of a server, of one item or all, newest first.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub async fn history(
        &self,
        name: &str,
        target: Sha256Digest,
        item: Option<(ItemKind, String)>,
    ) -> Result<Vec<RecordedDefinition>, StoreError> {
        let name = name.to_owned();
        self.0.read(move |view| rows::history(view, &name, &target, item.as_ref())).await
    }

    /// Returns a counter of changes of the state, by this and other processes.
    #[must_use]
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.0.changes()
    }
}
