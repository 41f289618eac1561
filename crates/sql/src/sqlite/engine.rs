//! A database in a SQLite file: its connections and the migration of its parts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};
use tokio::sync::{Mutex, watch as watched};

use super::change_watch::ChangeWatch;
use super::file;
use crate::error::DatabaseError;
use crate::transaction::{SqlError, SqlResult, SqlTransaction};

/// Name of a part and its migration steps, each run once in order. Never change a step; add one.
pub type SqlitePart = (&'static str, &'static [&'static str]);

/// Schema of a file, as migration steps that are each run once in order. Never change a step; add one.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum SqliteSchema {
    /// Steps of the file as a whole, counted in its `user_version`.
    Whole(&'static [&'static str]),
    /// Parts with steps of their own. Parts that this program does not know are left alone.
    Parts(&'static [SqlitePart]),
}

impl SqliteSchema {
    /// Returns the steps of the file before any part, and the parts.
    pub(super) const fn split(self) -> (&'static [&'static str], &'static [SqlitePart]) {
        match self {
            Self::Whole(steps) => (steps, &[]),
            Self::Parts(parts) => (BASE_MIGRATIONS, parts),
        }
    }
}

/// Schema of the file before any part.
pub(super) const BASE_MIGRATIONS: &[&str] =
    &["CREATE TABLE parts (name TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;"];

/// A SQLite file that several processes of one machine can share. Written data is on disk when the call returns.
pub(crate) struct SqliteEngine {
    file: PathBuf,
    /// Lock for writers, so that they wait here and not inside SQLite.
    writer: Arc<Mutex<Connection>>,
    reader: Arc<Mutex<Connection>>,
    watch: Arc<ChangeWatch>,
}

impl SqliteEngine {
    /// Opens the file and migrates it. A missing file is created, accessible to its owner alone.
    ///
    /// # Errors
    /// If the file cannot be used, or has a newer version.
    pub(crate) fn open(file: PathBuf, schema: SqliteSchema) -> Result<Self, DatabaseError> {
        let (steps, parts) = schema.split();
        let mut writer = file::open(&file, steps)?;
        match prepare(&mut writer, parts) {
            Ok(true) => (),
            Ok(false) => return Err(DatabaseError::NewerFile(file)),
            Err(source) => return Err(DatabaseError::Sqlite { file, source: Arc::new(source) }),
        }
        let reader = file::open(&file, steps)?;
        let watch = Arc::new(ChangeWatch::new(file.clone()));
        let (writer, reader) = (Arc::new(Mutex::new(writer)), Arc::new(Mutex::new(reader)));
        Ok(Self { file, writer, reader, watch })
    }

    /// Checks an existing file without changing it: it is not damaged, and no part is newer.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or has a newer part.
    pub(crate) fn examine(file: &Path, schema: SqliteSchema) -> Result<(), DatabaseError> {
        let (steps, parts) = schema.split();
        let connection = file::examine(file, steps.len())?;
        let database = |source| DatabaseError::Sqlite { file: file.to_owned(), source: Arc::new(source) };
        for (name, steps) in parts {
            let version = part_version(&connection, name).map_err(database)?;
            if version.is_some_and(|done| done > steps.len()) {
                return Err(DatabaseError::NewerFile(file.to_owned()));
            }
        }
        Ok(())
    }

    /// Returns a counter of changes: immediate for this process, within half a second for other processes.
    pub(crate) fn changes(&self) -> watched::Receiver<u64> {
        self.watch.subscribe()
    }

    /// Runs `work` in a read transaction on a blocking thread. All that it reads is consistent.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn SqlTransaction) -> SqlResult<T> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        // The guard of this mutex can move to the blocking thread, and no runtime thread blocks on it.
        let mut connection = Arc::clone(&self.reader).lock_owned().await;
        let done = tokio::task::spawn_blocking(move || work(&mut connection.transaction()?));
        self.flatten_result(done.await)
    }

    /// Runs `work` in a write transaction, which is rolled back on failure. Once started it completes, even if the
    /// caller is dropped.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn SqlTransaction) -> SqlResult<T> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        // The guard moves into the work, which continues with it if this future is dropped.
        let mut connection = Arc::clone(&self.writer).lock_owned().await;
        let watch = Arc::clone(&self.watch);
        let done = tokio::task::spawn_blocking(move || {
            let before = connection.total_changes();
            // Immediate, so that the data that `work` reads cannot change before it writes.
            let mut change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let made = work(&mut change)?;
            change.commit()?;
            // Statements that changed no row are not reported to subscribers.
            if connection.total_changes() != before {
                watch.notify_change();
            }
            Ok(made)
        });
        self.flatten_result(done.await)
    }

    fn flatten_result<T>(
        &self,
        done: Result<SqlResult<T>, tokio::task::JoinError>,
    ) -> Result<T, DatabaseError> {
        let file = || self.file.clone();
        done.map_err(|_| DatabaseError::Stopped)?.map_err(|error| match error {
            SqlError::Sqlite(source) => DatabaseError::Sqlite { file: file(), source },
            found => DatabaseError::Contents { file: file(), found: found.to_string() },
        })
    }
}

/// Returns the number of steps that a part has made.
pub(super) fn part_version(connection: &Connection, name: &str) -> rusqlite::Result<Option<usize>> {
    let version = "SELECT version FROM parts WHERE name = ?1";
    let version: Option<i64> = connection.query_row(version, [name], |row| row.get(0)).optional()?;
    Ok(version.map(|version| usize::try_from(version).unwrap_or(usize::MAX)))
}

/// Migrates every part to its newest step. Returns false if a part is newer than that. Unknown parts are left alone:
/// they belong to a newer program, which may run beside this one.
pub(super) fn prepare(connection: &mut Connection, parts: &[SqlitePart]) -> rusqlite::Result<bool> {
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
