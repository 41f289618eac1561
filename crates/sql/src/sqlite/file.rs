//! Opening SQLite files.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::error::DatabaseError;

/// Maximum time to wait for another process that is writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens the database and migrates it to the newest of the `steps`. A missing file is created, accessible to its owner
/// alone. Permissions of other users, which a backup or a copy may have added, are removed.
///
/// # Errors
/// If the file cannot be used, or has a newer version.
pub fn open(file: &Path, steps: &[&str]) -> Result<Connection, DatabaseError> {
    let failed = |source| DatabaseError::File { file: file.to_owned(), source };
    // Created here and not by SQLite, which would use the mode from the umask.
    hospes_fs::open_private(file).map_err(failed)?;
    if hospes_fs::restrict(file).map_err(failed)? {
        tracing::warn!(file = %file.display(), "file was accessible by other users; restricted it to the owner");
        hospes_fs::restrict_database_files(file).map_err(failed)?;
    }
    let database = |source| DatabaseError::Sqlite { file: file.to_owned(), source: Arc::new(source) };
    let mut connection = Connection::open(file).map_err(database)?;
    match prepare(&mut connection, steps) {
        Ok(true) => {}
        Ok(false) => return Err(DatabaseError::NewerFile(file.to_owned())),
        Err(source) => return Err(database(source)),
    }
    hospes_fs::restrict_database_files(file).map_err(failed)?;
    Ok(connection)
}

/// Opens an existing database for reading.
pub(super) fn open_read_only(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}

/// Opens an existing database for reading, and checks that it is neither damaged nor newer than `steps` steps. Changes
/// nothing.
///
/// # Errors
/// If it cannot be read, is damaged, or has a newer version.
pub fn examine(file: &Path, steps: usize) -> Result<Connection, DatabaseError> {
    let database = |source| DatabaseError::Sqlite { file: file.to_owned(), source: Arc::new(source) };
    let connection = open_read_only(file).map_err(database)?;
    let version: i64 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(database)?;
    if usize::try_from(version).map_or(true, |version| version > steps) {
        return Err(DatabaseError::NewerFile(file.to_owned()));
    }
    // The first fault is enough, and the check ends with it.
    let found: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(database)?;
    if found == "ok" { Ok(connection) } else { Err(DatabaseError::Damaged { file: file.to_owned(), found }) }
}

/// Migrates the database. Returns false if it is newer than the steps.
fn prepare(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<bool> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Readers can continue while another process writes.
    connection.pragma_update(None, "journal_mode", "wal")?;
    // Acknowledged data survives a power failure.
    connection.pragma_update(None, "synchronous", "full")?;
    // Exclusive, so that two processes that start at the same time do not run the same step twice.
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

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs::{Permissions, metadata, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_others_could_read_they_can_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit.db");
        let steps = ["CREATE TABLE one (two TEXT);"];
        let kept = open(&file, &steps).unwrap();
        kept.execute("INSERT INTO one VALUES ('three')", ()).unwrap();
        let all = ["audit.db", "audit.db-wal", "audit.db-shm"].map(|name| folder.path().join(name));
        for file in &all {
            set_permissions(file, Permissions::from_mode(0o644)).unwrap();
        }
        let again = open(&file, &steps).unwrap();
        let two: String = again.query_row("SELECT two FROM one", (), |row| row.get(0)).unwrap();
        assert_eq!(two, "three");
        for file in &all {
            let mode = metadata(file).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", file.display());
        }
    }
}
