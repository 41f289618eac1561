//! One of the engines.

use std::fmt;
use std::path::{Path, PathBuf};
#[cfg(feature = "postgres")]
use std::sync::Arc;

use tokio::sync::watch;

use crate::clock::DatabaseClock;
use crate::error::DatabaseError;
#[cfg(feature = "postgres")]
use crate::postgres::{PostgresEngine, PostgresMetrics, PostgresPart, PostgresSettings};
use crate::sqlite::{SqliteEngine, SqliteSchema};
use crate::transaction::{SqlResult, SqlTransaction};

/// Changes that a change excludes while it is made. In SQLite each change excludes all others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeScope {
    /// All changes of this part. Subscribers of [`SqlEngine::changes`] are told of it.
    Part(&'static str),
    /// Changes of the same name, for statements that depend on several rows.
    Named(String),
    /// Changes of the same rows, for a single statement.
    Rows,
}

/// A SQLite file that the processes of one machine share, or a PostgreSQL database that several nodes share.
pub struct SqlEngine(Engine);

enum Engine {
    Sqlite(SqliteEngine),
    #[cfg(feature = "postgres")]
    Postgres(Arc<PostgresEngine>),
}

impl SqlEngine {
    /// Opens the file and migrates it. A missing file is created, accessible to its owner alone.
    ///
    /// # Errors
    /// If the file cannot be used, or has a newer version.
    pub fn open_sqlite(file: impl Into<PathBuf>, schema: SqliteSchema) -> Result<Self, DatabaseError> {
        Ok(Self(Engine::Sqlite(SqliteEngine::open(file.into(), schema)?)))
    }

    /// Checks an existing file without changing it.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or has a newer version.
    pub fn examine_sqlite(file: &Path, schema: SqliteSchema) -> Result<(), DatabaseError> {
        SqliteEngine::examine(file, schema)
    }

    /// Connects to a database and migrates these parts. Others are left alone.
    ///
    /// # Errors
    /// If the settings are not valid, the database cannot be used, or a part of it is newer than this program.
    #[cfg(feature = "postgres")]
    pub async fn connect_postgres(
        settings: PostgresSettings,
        parts: &'static [PostgresPart],
    ) -> Result<Self, DatabaseError> {
        Ok(Self(Engine::Postgres(PostgresEngine::open(settings, Some(parts)).await?)))
    }

    /// Connects to a database and leaves its schema as it is, for reading.
    ///
    /// # Errors
    /// If the settings are not valid.
    #[cfg(feature = "postgres")]
    pub async fn inspect_postgres(settings: PostgresSettings) -> Result<Self, DatabaseError> {
        Ok(Self(Engine::Postgres(PostgresEngine::open(settings, None).await?)))
    }

    /// Returns true for a database that other nodes share, with a clock of its own.
    #[must_use]
    pub const fn is_postgres(&self) -> bool {
        match &self.0 {
            Engine::Sqlite(_) => false,
            #[cfg(feature = "postgres")]
            Engine::Postgres(_) => true,
        }
    }

    /// Returns the clock of the database, which several nodes share.
    #[must_use]
    pub fn clock(&self) -> DatabaseClock {
        match &self.0 {
            Engine::Sqlite(_) => DatabaseClock::default(),
            #[cfg(feature = "postgres")]
            Engine::Postgres(engine) => engine.clock(),
        }
    }

    /// Returns the metrics of the connections to a PostgreSQL database; `None` for a file. `name` is the value of their label
    /// `pool`.
    #[cfg(feature = "postgres")]
    #[must_use]
    pub fn metrics(&self, name: &'static str) -> Option<PostgresMetrics> {
        match &self.0 {
            Engine::Sqlite(_) => None,
            Engine::Postgres(engine) => Some(engine.metrics(name)),
        }
    }

    /// Returns what should be changed in the settings of a PostgreSQL server so that it keeps what it acknowledges, as
    /// sentences. Empty for a file.
    ///
    /// # Errors
    /// If the database cannot be used.
    #[cfg(feature = "postgres")]
    pub async fn problems(&self) -> Result<Vec<String>, DatabaseError> {
        match &self.0 {
            Engine::Sqlite(_) => Ok(Vec::new()),
            Engine::Postgres(engine) => engine.problems().await,
        }
    }

    /// Runs `work` in a read transaction on a blocking thread. All that it reads is consistent.
    ///
    /// # Errors
    /// If the database cannot be used, or `work` fails.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn SqlTransaction) -> SqlResult<T> + Send + Sync + 'static,
    ) -> Result<T, DatabaseError> {
        match &self.0 {
            Engine::Sqlite(engine) => engine.read(work).await,
            #[cfg(feature = "postgres")]
            Engine::Postgres(engine) => engine.read(work).await,
        }
    }

    /// Runs `work` in a write transaction, which is rolled back on failure and may then be run again. Once started it
    /// completes, even if the caller is dropped.
    ///
    /// # Errors
    /// If the database cannot be used, or `work` fails.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(unused_variables, clippy::needless_pass_by_value, reason = "SQLite has one lock")
    )]
    pub async fn write<T: Send + 'static>(
        &self,
        scope: ChangeScope,
        work: impl Fn(&mut dyn SqlTransaction) -> SqlResult<T> + Send + Sync + 'static,
    ) -> Result<T, DatabaseError> {
        match &self.0 {
            Engine::Sqlite(engine) => engine.write(work).await,
            #[cfg(feature = "postgres")]
            Engine::Postgres(engine) => engine.write(scope, work).await,
        }
    }

    /// Returns a counter of changes: immediate for this process, within half a second for others.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        match &self.0 {
            Engine::Sqlite(engine) => engine.changes(),
            #[cfg(feature = "postgres")]
            Engine::Postgres(engine) => engine.changes(),
        }
    }
}

impl fmt::Debug for SqlEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_postgres() { "SqlEngine(PostgreSQL)" } else { "SqlEngine(SQLite)" })
    }
}
