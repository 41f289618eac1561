//! Opening SQLite files.

use std::fs::{Metadata, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::error::StoreError;

/// Maximum time to wait for another process that is writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens the database and migrates it to the newest of the `steps`. A missing file is created, accessible to its owner
/// alone.
pub(crate) fn open(file: &Path, steps: &[&str]) -> Result<Connection, StoreError> {
    // Created here and not by SQLite, which would use the mode from the umask.
    private(OpenOptions::new().create(true).append(true))
        .open(file)
        .and_then(|opened| tighten(&opened, file))
        .map_err(|source| StoreError::File { file: file.to_owned(), source })?;
    let database = |source| StoreError::Database { file: file.to_owned(), source: Arc::new(source) };
    let mut connection = Connection::open(file).map_err(database)?;
    match prepare(&mut connection, steps) {
        Ok(true) => Ok(connection),
        Ok(false) => Err(StoreError::Newer(file.to_owned())),
        Err(source) => Err(database(source)),
    }
}

/// Removes permissions of other users on the file, if there are any. A backup or a copy may have added them. SQLite
/// gives its other files the mode of this one, including existing ones.
#[cfg(unix)]
fn tighten(opened: &std::fs::File, file: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let found = opened.metadata()?;
    if !found.is_file() || is_private(&found) {
        return Ok(());
    }
    tracing::warn!(file = %file.display(), "file was accessible by other users; restricted it to the owner");
    opened.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    for ending in ["-wal", "-shm"] {
        let mut beside = file.as_os_str().to_owned();
        beside.push(ending);
        // A missing file will be created with the mode of this one.
        if let Ok(beside) = OpenOptions::new().read(true).open(beside) {
            beside.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn tighten(_: &std::fs::File, _: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Opens an existing database for reading.
pub(crate) fn open_read_only(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}

/// Opens an existing database for reading, and checks that it is neither damaged nor newer than `steps` steps. Changes
/// nothing.
pub(crate) fn examine(file: &Path, steps: usize) -> Result<Connection, StoreError> {
    let database = |source| StoreError::Database { file: file.to_owned(), source: Arc::new(source) };
    let connection = open_read_only(file).map_err(database)?;
    let version: i64 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(database)?;
    if usize::try_from(version).map_or(true, |version| version > steps) {
        return Err(StoreError::Newer(file.to_owned()));
    }
    // The first fault is enough, and the check ends with it.
    let found: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(database)?;
    if found == "ok" { Ok(connection) } else { Err(StoreError::Damaged { file: file.to_owned(), found }) }
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

/// Sets the mode of a file for its owner alone. SQLite gives its other files the mode of the first.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options
}

/// Returns true if it is a file that only its owner can read or write.
#[cfg(unix)]
pub(crate) fn is_private(found: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    found.is_file() && found.permissions().mode() & 0o077 == 0
}

#[cfg(not(unix))]
pub(crate) fn is_private(found: &Metadata) -> bool {
    found.is_file()
}

#[cfg(all(test, unix))]
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
