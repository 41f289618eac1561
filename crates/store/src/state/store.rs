//! The state database: its file, its connections and the migration of its parts.

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};
use tokio::sync::{Mutex, watch as watched};
use zeroize::Zeroizing;

use super::change_watch::ChangeWatch;
use crate::error::StoreError;
use crate::sql::{SqlError, SqlResult, SqlTransaction};
use crate::{file, key};

/// Name of a part and its migration steps, each run once in order. Never change a step; add one.
pub(super) type SchemaPart = (&'static str, &'static [&'static str]);

/// Schema of the file before any part.
const BASE_MIGRATIONS: &[&str] =
    &["CREATE TABLE parts (name TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;"];

/// The host's state: a SQLite file that several processes of one machine can share.
///
/// Cheap to clone. Written data is on disk when the call returns.
#[derive(Clone)]
pub struct StateStore(Arc<StateStoreInner>);

struct StateStoreInner {
    file: PathBuf,
    /// Lock for writers, so that they wait here and not inside SQLite.
    writer: Arc<Mutex<Connection>>,
    reader: Arc<Mutex<Connection>>,
    watch: ChangeWatch,
}

impl StateStore {
    /// Opens the state in this file and migrates its `parts`. A missing file is created, accessible to its owner alone.
    ///
    /// # Errors
    /// If the file cannot be used, is accessible to other users, or has a newer version.
    pub(super) fn open_parts(file: PathBuf, parts: &[SchemaPart]) -> Result<Self, StoreError> {
        // Checked before any content is trusted. A missing file is created for its owner alone.
        if matches!(file::is_private(&file), Ok(false)) {
            return Err(StoreError::Exposed(file));
        }
        let mut writer = file::open(&file, BASE_MIGRATIONS)?;
        match prepare(&mut writer, parts) {
            Ok(true) => (),
            Ok(false) => return Err(StoreError::Newer(file)),
            Err(source) => return Err(StoreError::Database { file, source: Arc::new(source) }),
        }
        let reader = file::open(&file, BASE_MIGRATIONS)?;
        let watch = ChangeWatch::new(file.clone());
        let (writer, reader) = (Arc::new(Mutex::new(writer)), Arc::new(Mutex::new(reader)));
        Ok(Self(Arc::new(StateStoreInner { file, writer, reader, watch })))
    }

    pub(super) fn examine_parts(file: &Path, parts: &[SchemaPart]) -> Result<(), StoreError> {
        let connection = file::examine(file, BASE_MIGRATIONS.len())?;
        let database = |source| StoreError::Database { file: file.to_owned(), source: Arc::new(source) };
        for (name, steps) in parts {
            let version = part_version(&connection, name).map_err(database)?;
            if version.is_some_and(|done| done > steps.len()) {
                return Err(StoreError::Newer(file.to_owned()));
            }
        }
        Ok(())
    }

    /// Returns a secret for one purpose, the same for all processes that share this state and after restarts. It is
    /// derived from the key in the file `state.key` beside `state.db`, which is created if it is missing.
    ///
    /// # Errors
    /// If the key file cannot be used, is malformed, or is accessible to other users.
    pub fn secret(&self, purpose: &str) -> Result<Zeroizing<[u8; 32]>, StoreError> {
        let key = key::read(&self.0.file.with_extension("key"), true)?;
        Ok(key::derive_key("hospes state", &key, purpose))
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.0.file
    }

    /// Returns a counter of changes: immediate for this process, within half a second for other processes.
    #[must_use]
    pub fn changes(&self) -> watched::Receiver<u64> {
        self.0.watch.subscribe()
    }

    /// Runs `work` in a read transaction on a blocking thread. All that it reads is consistent.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn SqlTransaction) -> SqlResult<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        // The guard of this mutex can move to the blocking thread, and no runtime thread blocks on it.
        let mut connection = Arc::clone(&self.0.reader).lock_owned().await;
        let done = tokio::task::spawn_blocking(move || work(&mut connection.transaction()?));
        self.flatten_result(done.await)
    }

    /// Runs `work` in a write transaction, which is rolled back on failure. `work` may be run again if it was rolled back. Once started it completes, even if the
    /// caller is dropped.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn SqlTransaction) -> SqlResult<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        // The guard moves into the work, which continues with it if this future is dropped.
        let mut connection = Arc::clone(&self.0.writer).lock_owned().await;
        let inner = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || {
            let before = connection.total_changes();
            // Immediate, so that the data that `work` reads cannot change before it writes.
            let mut change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let made = work(&mut change)?;
            change.commit()?;
            // Statements that changed no row are not reported to subscribers.
            if connection.total_changes() != before {
                inner.watch.notify_change();
            }
            Ok(made)
        });
        self.flatten_result(done.await)
    }

    fn flatten_result<T>(&self, done: Result<SqlResult<T>, tokio::task::JoinError>) -> Result<T, StoreError> {
        let file = || self.0.file.clone();
        done.map_err(|_| StoreError::Closed)?.map_err(|error| match error {
            SqlError::Sqlite(source) => StoreError::Database { file: file(), source },
            found => StoreError::Contents { file: file(), found: found.to_string() },
        })
    }
}

impl fmt::Debug for StateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StateStore").field(&self.0.file).finish()
    }
}

/// Returns the number of steps that a part has made.
fn part_version(connection: &Connection, name: &str) -> rusqlite::Result<Option<usize>> {
    let version = "SELECT version FROM parts WHERE name = ?1";
    let version: Option<i64> = connection.query_row(version, [name], |row| row.get(0)).optional()?;
    Ok(version.map(|version| usize::try_from(version).unwrap_or(usize::MAX)))
}

/// Migrates every part to its newest step. Returns false if a part is newer than that. Unknown parts are left alone:
/// they belong to a newer program, which may run beside this one.
fn prepare(connection: &mut Connection, parts: &[SchemaPart]) -> rusqlite::Result<bool> {
    let change = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    for (name, steps) in parts {
        let done = part_version(&change, name)?.unwrap_or(0);
        if done > steps.len() {
            return Ok(false);
        }
        for step in &steps[done..] {
            change.execute_batch(step)?;
        }
        if done < steps.len() {
            let version = i64::try_from(steps.len()).unwrap_or(i64::MAX);
            let put = "INSERT OR REPLACE INTO parts (name, version) VALUES (?1, ?2)";
            Connection::execute(&change, put, (name, version))?;
        }
    }
    change.commit()?;
    Ok(true)
}
