use std::time::Duration;

use std::path::PathBuf;

use rusqlite::Connection;

use super::engine::{BASE_MIGRATIONS, prepare};
use super::*;
use crate::DatabaseError;
use crate::sql_values;

const ONE: &[SqlitePart] = &[("notes", &["CREATE TABLE notes (text TEXT NOT NULL)"])];

struct Place {
    _folder: tempfile::TempDir,
    file: PathBuf,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    Place { file: folder.path().join("state.db"), _folder: folder }
}

impl Place {
    /// The state with a part of these tests in it.
    fn open(&self) -> SqliteEngine {
        let state = SqliteEngine::open(self.file.clone(), SqliteSchema::Parts(ONE)).unwrap();
        let mut connection = Connection::open(&self.file).unwrap();
        assert!(prepare(&mut connection, ONE).unwrap());
        state
    }
}

async fn note(state: &SqliteEngine, text: &'static str) -> Result<(), DatabaseError> {
    state
        .write(move |change| change.execute("INSERT INTO notes VALUES (?1)", sql_values![text]).map(drop))
        .await
}

async fn notes(state: &SqliteEngine) -> Vec<String> {
    let all = "SELECT text FROM notes ORDER BY rowid";
    state.read(|view| view.query(all, &[])?.iter().map(|row| row.get(0)).collect()).await.unwrap()
}

#[tokio::test]
async fn what_was_written_is_there_after_a_restart_and_for_others() {
    let place = place();
    let (one, other) = (place.open(), place.open());
    note(&one, "a").await.unwrap();
    note(&other, "b").await.unwrap();
    assert_eq!(notes(&one).await, ["a", "b"]);
    drop((one, other));
    assert_eq!(notes(&place.open()).await, ["a", "b"]);
}

#[tokio::test]
async fn what_fails_half_way_is_not_written_at_all() {
    let place = place();
    let state = place.open();
    let failed = state
        .write(|change| {
            change.execute("INSERT INTO notes VALUES ('half')", &[])?;
            change.execute("INSERT INTO nothing VALUES (1)", &[]).map(drop)
        })
        .await;
    assert!(matches!(failed, Err(DatabaseError::Sqlite { .. })), "{failed:?}");
    assert!(notes(&state).await.is_empty());
    note(&state, "whole").await.unwrap();
    assert_eq!(notes(&state).await, ["whole"]);
}

#[tokio::test]
async fn changes_are_noticed_whoever_makes_them() {
    let place = place();
    let (one, other) = (place.open(), place.open());
    let mut changes = one.changes();
    let limit = Duration::from_secs(10);
    note(&one, "own").await.unwrap();
    tokio::time::timeout(limit, changes.changed()).await.expect("its own").unwrap();
    note(&other, "another's").await.unwrap();
    tokio::time::timeout(limit, changes.changed()).await.expect("another process's").unwrap();
    // Reading is no change.
    let seen = *one.changes().borrow();
    notes(&one).await;
    assert_eq!(*one.changes().borrow(), seen);
}

#[test]
fn each_part_has_its_own_version() {
    let place = place();
    let mut connection = file::open(&place.file, BASE_MIGRATIONS).unwrap();
    const OLDER: &[SqlitePart] = &[("a", &["CREATE TABLE a (x INTEGER)"])];
    const NEWER: &[SqlitePart] =
        &[("a", &["CREATE TABLE a (x INTEGER)", "ALTER TABLE a ADD COLUMN y INTEGER"]), ONE[0]];
    assert!(prepare(&mut connection, OLDER).unwrap());
    assert!(prepare(&mut connection, NEWER).unwrap());
    assert!(prepare(&mut connection, NEWER).unwrap(), "nothing is done twice");
    connection.execute("INSERT INTO a (x, y) VALUES (1, 2)", []).unwrap();
    assert!(!prepare(&mut connection, OLDER).unwrap(), "of a newer version");
    assert!(prepare(&mut connection, ONE).unwrap(), "a part that this version does not know is left alone");
}

#[cfg(unix)]
#[tokio::test]
async fn the_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = place();
    let state = place.open();
    note(&state, "a").await.unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let file = format!("{}{suffix}", place.file.display());
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
}

#[test]
fn what_is_no_database_is_refused() {
    let place = place();
    let mut made = hospes_fs::create_private(&place.file).unwrap();
    std::io::Write::write_all(&mut made, b"this is no database, however long it is made to be").unwrap();
    assert!(matches!(
        SqliteEngine::open(place.file.clone(), SqliteSchema::Parts(ONE)),
        Err(DatabaseError::Sqlite { .. })
    ));
}
