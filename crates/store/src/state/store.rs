//! The state and its engine.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "postgres")]
use hospes_sql::PostgresMetrics;
use hospes_sql::{ChangeScope, SqlEngine, SqlResult, SqlTransaction};
use jiff::Timestamp;
use tokio::sync::watch;
use zeroize::Zeroizing;

use super::clock::StateClock;
use super::decisions::DecisionRecorder;
use crate::error::StoreError;
use crate::key;

/// The host's state: a SQLite file that the processes of one machine share, or a PostgreSQL database that several nodes
/// share.
///
/// Cheap to clone. Written data is permanent when the call returns.
#[derive(Clone)]
pub struct StateStore {
    pub(super) database: Arc<StateDatabase>,
    pub(super) decisions: DecisionRecorder,
}

/// Database with the key of its secrets.
pub(super) struct StateDatabase {
    pub(super) engine: SqlEngine,
    pub(super) key: StateKey,
}

/// Key of the secrets of a state.
pub(super) enum StateKey {
    /// In a file beside this one.
    Beside(PathBuf),
    /// Key that all nodes have.
    #[cfg(feature = "postgres")]
    Shared(Zeroizing<[u8; 32]>),
}

impl StateStore {
    pub(super) fn new(database: StateDatabase) -> Self {
        Self { database: Arc::new(database), decisions: DecisionRecorder::default() }
    }

    /// Returns a secret for one purpose, the same for all who share this state and after restarts. In a file, it is
    /// derived from the key in the file `state.key` beside `state.db`, which is created if it is missing; in a
    /// database, from the key that all nodes have.
    ///
    /// # Errors
    /// If the key file cannot be used, is malformed, or is accessible to other users.
    pub fn secret(&self, purpose: &str) -> Result<Zeroizing<[u8; 32]>, StoreError> {
        let of = |key: &[u8; 32]| key::derive_key("hospes state", key, purpose);
        match &self.database.key {
            StateKey::Beside(file) => Ok(of(&*key::read(&file.with_extension("key"), true)?)),
            #[cfg(feature = "postgres")]
            StateKey::Shared(key) => Ok(of(key)),
        }
    }

    /// Returns a counter of changes: immediate for this process, within half a second for others.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.database.engine.changes()
    }

    /// Returns what should be changed in the settings of a database server, as [`StateStore::server_problems`]; nothing for
    /// a file.
    ///
    /// # Errors
    /// If the database cannot be used.
    #[cfg(feature = "postgres")]
    pub async fn problems(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.database.engine.problems().await?)
    }

    /// Returns the metrics of the connections to a database that several nodes share; `None` for a file.
    #[cfg(feature = "postgres")]
    #[must_use]
    pub fn metrics(&self) -> Option<PostgresMetrics> {
        self.database.engine.metrics("state")
    }

    /// Returns the clock by which the times of this state are compared with the present.
    #[must_use]
    pub fn clock(&self) -> StateClock {
        StateClock::new(self.database.engine.clock())
    }

    /// Returns the part with this name.
    pub(super) fn part(&self, name: &'static str) -> StatePart {
        StatePart { state: self.clone(), name }
    }
}

impl fmt::Debug for StateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.database.key {
            StateKey::Beside(file) => f.debug_tuple("StateStore").field(file).finish(),
            #[cfg(feature = "postgres")]
            StateKey::Shared(_) => f.write_str("StateStore(PostgreSQL)"),
        }
    }
}

/// A part of the state: tables that change together.
#[derive(Clone, Debug)]
pub(crate) struct StatePart {
    state: StateStore,
    /// Name in the list of parts. Changes of a part come one after the other; in SQLite, those of all parts.
    name: &'static str,
}

impl StatePart {
    /// Runs `work` in a read transaction on a blocking thread. All that it reads is consistent.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn SqlTransaction) -> SqlResult<T> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        Ok(self.state.database.engine.read(work).await?)
    }

    /// Runs `work` in a write transaction, which is rolled back on failure and may then be run again. Once started it
    /// completes, even if the caller is dropped.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn SqlTransaction) -> SqlResult<T> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        Ok(self.state.database.engine.write(ChangeScope::Part(self.name), work).await?)
    }

    /// Runs `work` in a write transaction that excludes others by the rows it locks.
    pub(crate) async fn write_rows<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn SqlTransaction) -> SqlResult<T> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        Ok(self.state.database.engine.write(ChangeScope::Rows, work).await?)
    }

    /// Runs `work` in a write transaction that excludes others of the same name.
    #[cfg(feature = "postgres")]
    pub(crate) async fn write_named<T: Send + 'static>(
        &self,
        name: &str,
        work: impl Fn(&mut dyn SqlTransaction) -> SqlResult<T> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        Ok(self.state.database.engine.write(ChangeScope::Named(name.to_owned()), work).await?)
    }

    /// Returns the recorder of decisions.
    pub(super) fn decisions(&self) -> DecisionRecorder {
        self.state.decisions.clone()
    }

    /// Returns the present time by the clock of the state.
    pub(crate) fn now(&self) -> Timestamp {
        self.state.clock().now()
    }

    /// Returns true if several nodes share the state, over a network.
    pub(crate) fn is_shared(&self) -> bool {
        self.state.database.engine.is_postgres()
    }

    /// Returns a counter of changes of the state, by this and other processes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.state.changes()
    }

    /// Returns a secret for one purpose.
    pub(crate) fn secret(&self, purpose: &str) -> Result<Zeroizing<[u8; 32]>, StoreError> {
        self.state.secret(purpose)
    }
}
