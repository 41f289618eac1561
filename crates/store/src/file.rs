//! Opening SQLite files.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

use crate::error::StoreError;

/// How long one process waits for another that is writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens the file, which is made if need be, for its owner alone, and brings it to the newest of the `steps`.
pub(crate) fn open(file: &Path, steps: &[&str]) -> Result<Connection, StoreError> {
    private(OpenOptions::new().create(true).append(true))
        .open(file)
        .map_err(|source| StoreError::File { file: file.to_owned(), source })?;
    let database = |source| StoreError::Database { file: file.to_owned(), source: Arc::new(source) };
    let mut connection = Connection::open(file).map_err(database)?;
    match prepare(&mut connection, steps) {
        Ok(true) => Ok(connection),
        Ok(false) => Err(StoreError::Newer(file.to_owned())),
        Err(source) => Err(database(source)),
    }
}

/// Whether the file is no newer than the steps.
fn prepare(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<bool> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // What was acknowledged is there, even if the power goes.
    connection.pragma_update(None, "synchronous", "full")?;
    let change = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    let version: i64 = change.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let done = usize::try_from(version).unwrap_or(usize::MAX);
    if done > steps.len() {
        return Ok(false);
    }
    for step in &steps[done..] {
        change.execute_batch(step)?;
    }
    change.pragma_update(None, "user_version", i64::try_from(steps.len()).unwrap_or(i64::MAX))?;
    change.commit()?;
    Ok(true)
}

/// A file for its owner alone. SQLite gives its other files the mode of the first.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options
}
