//! A SQLite file that is only read.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;

use super::engine::{SqliteSchema, part_version};
use super::file;
use crate::error::DatabaseError;
use crate::transaction::{SqlError, SqlResult, SqlTransaction};

/// A SQLite file that is opened for reading alone, for a copy of what it has.
pub struct SqliteSnapshot {
    file: PathBuf,
    connection: Mutex<Connection>,
}

impl SqliteSnapshot {
    /// Opens an existing file, which must not be damaged and must have exactly this schema. Changes nothing.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or was written by another version.
    pub fn open(file: &Path, schema: SqliteSchema) -> Result<Self, DatabaseError> {
        let database = |source| DatabaseError::Sqlite { file: file.to_owned(), source: Arc::new(source) };
        let (steps, parts) = schema.split();
        let connection = file::examine(file, steps.len())?;
        let version: i64 =
            connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(database)?;
        if usize::try_from(version) != Ok(steps.len()) {
            return Err(DatabaseError::OlderFile(file.to_owned()));
        }
        for (name, steps) in parts {
            let done = part_version(&connection, name).map_err(database)?.unwrap_or_default();
            match done.cmp(&steps.len()) {
                std::cmp::Ordering::Less => return Err(DatabaseError::OlderFile(file.to_owned())),
                std::cmp::Ordering::Greater => return Err(DatabaseError::NewerFile(file.to_owned())),
                std::cmp::Ordering::Equal => (),
            }
        }
        Ok(Self { file: file.to_owned(), connection: Mutex::new(connection) })
    }

    /// Path of the file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Runs `work` in a read transaction on this thread. All that it reads is consistent.
    ///
    /// # Errors
    /// If the file cannot be read, or `work` fails.
    pub fn read<T>(&self, work: impl FnOnce(&mut dyn SqlTransaction) -> SqlResult<T>) -> SqlResult<T> {
        work(&mut self.connection.lock().transaction()?)
    }

    /// Returns the error of a reading as one of this file.
    #[must_use]
    pub fn failure(&self, error: SqlError) -> DatabaseError {
        match error {
            SqlError::Sqlite(source) => DatabaseError::Sqlite { file: self.file.clone(), source },
            found => DatabaseError::Contents { file: self.file.clone(), found: found.to_string() },
        }
    }
}

impl fmt::Debug for SqliteSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteSnapshot").field(&self.file).finish()
    }
}
