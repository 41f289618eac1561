//! Store in a SQLite file, which several processes of one machine can share.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, TransactionBehavior, params};

use super::{
    AuthRecord, AuthStore, AuthStoreError, AuthStoreFuture, RecordKind, RefreshSwapResult, TakeRecordResult,
};

/// Maximum time to wait for another process that is writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Schema migrations by version: each step runs once, in order. Add steps, and never change existing ones.
const STEPS: [&str; 1] = ["
    CREATE TABLE records (
        kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, grant_id TEXT, until INTEGER NOT NULL,
        taken INTEGER NOT NULL DEFAULT 0, note TEXT, swapped_at INTEGER,
        PRIMARY KEY (kind, key)
    ) WITHOUT ROWID;
    CREATE INDEX records_of_grant ON records (grant_id) WHERE grant_id IS NOT NULL;
    CREATE INDEX records_until ON records (until);
    CREATE TABLE revoked (grant_id TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
"];

/// Keeps everything in a file of SQLite.
pub struct SqliteAuthStore(Arc<Mutex<Connection>>);

impl SqliteAuthStore {
    /// Opens the store in this file, which is created if it does not exist, accessible to its owner alone.
    ///
    /// # Errors
    /// If the file cannot be opened, or was written by a newer version of this program.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, AuthStoreError> {
        let path = path.as_ref();
        // Before SQLite creates the file, which would then get the mode that the umask leaves.
        let failed = |error: std::io::Error| AuthStoreError(error.to_string().into());
        hospes_fs::open_private(path).map_err(failed)?;
        let opened = Self::prepare(Connection::open(path)?)?;
        hospes_fs::restrict_database_files(path).map_err(failed)?;
        Ok(opened)
    }

    fn prepare(mut connection: Connection) -> Result<Self, AuthStoreError> {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        // Readers then go on while another process writes.
        connection.pragma_update(None, "journal_mode", "wal")?;
        // A code that was redeemed stays so, even if the power goes.
        connection.pragma_update(None, "synchronous", "full")?;
        // Exclusive, so that two processes that start at once do not run the same step twice.
        let change = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
        let version: i64 = change.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let done = usize::try_from(version).unwrap_or(usize::MAX);
        if done > STEPS.len() {
            return Err(AuthStoreError("the file was written by a newer version of hospes".into()));
        }
        for step in &STEPS[done..] {
            change.execute_batch(step)?;
        }
        change.pragma_update(None, "user_version", STEPS.len() as i64)?;
        change.commit()?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    /// Runs `work` on a thread where blocking is allowed. It must be one statement or one transaction, so that it
    /// cannot be half done.
    fn run<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> AuthStoreFuture<'a, T> {
        let connection = Arc::clone(&self.0);
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || {
                // A panic leaves no half of a change behind: a transaction that is dropped is rolled back.
                work(&mut connection.lock())
            });
            Ok(done.await.map_err(|error| AuthStoreError(error.to_string().into()))??)
        })
    }
}

impl From<rusqlite::Error> for AuthStoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self(error.to_string().into())
    }
}

/// Seconds as SQLite has them.
fn seconds(time: u64) -> i64 {
    // A time that does not fit is that of something that never runs out.
    i64::try_from(time).unwrap_or(i64::MAX)
}

const COLUMNS: &str = "key, value, grant_id, until";

fn record(kind: RecordKind, row: &Row<'_>) -> rusqlite::Result<AuthRecord> {
    let until: i64 = row.get(3)?;
    Ok(AuthRecord {
        kind,
        key: row.get(0)?,
        value: row.get(1)?,
        grant: row.get(2)?,
        until: u64::try_from(until).unwrap_or_default(),
    })
}

fn put(connection: &Connection, record: &AuthRecord) -> rusqlite::Result<bool> {
    let sql = "INSERT OR REPLACE INTO records (kind, key, value, grant_id, until)
        SELECT ?1, ?2, ?3, ?4, ?5 WHERE ?4 IS NULL OR NOT EXISTS (SELECT 1 FROM revoked WHERE grant_id = ?4)";
    let AuthRecord { kind, key, value, grant, until } = record;
    let rows = connection.prepare_cached(sql)?.execute(params![
        kind.as_str(),
        key,
        value,
        grant,
        seconds(*until)
    ])?;
    Ok(rows == 1)
}

fn swap(
    change: &Transaction<'_>,
    old: &str,
    new: &AuthRecord,
    note: &str,
    now: u64,
    window: u64,
) -> rusqlite::Result<RefreshSwapResult> {
    let sql = format!(
        "UPDATE records SET note = ?2, swapped_at = ?3
         WHERE kind = 'refresh' AND key = ?1 AND until > ?3 AND swapped_at IS NULL RETURNING {COLUMNS}"
    );
    let done = change
        .query_row(&sql, params![old, note, seconds(now)], |row| record(RecordKind::Refresh, row))
        .optional()?;
    if let Some(done) = done {
        // It cannot be refused: of a revoked grant there is no old token left to swap.
        put(change, new)?;
        return Ok(RefreshSwapResult::Done(done));
    }
    let sql = format!(
        "SELECT {COLUMNS}, note, swapped_at FROM records WHERE kind = 'refresh' AND key = ?1 AND until > ?2"
    );
    let known = change
        .query_row(&sql, params![old, seconds(now)], |row| {
            Ok((record(RecordKind::Refresh, row)?, row.get::<_, String>(4)?, row.get::<_, i64>(5)?))
        })
        .optional()?;
    Ok(match known {
        None => RefreshSwapResult::Unknown,
        Some((known, note, when)) if when.saturating_add(seconds(window)) > seconds(now) => {
            RefreshSwapResult::Replayed(known, note)
        }
        Some((known, ..)) => RefreshSwapResult::Reused(known),
    })
}

impl AuthStore for SqliteAuthStore {
    fn put(&self, record: AuthRecord) -> AuthStoreFuture<'_, bool> {
        self.run(move |connection| put(connection, &record))
    }

    fn get<'a>(
        &'a self,
        kind: RecordKind,
        key: &'a str,
        now: u64,
    ) -> AuthStoreFuture<'a, Option<AuthRecord>> {
        let key = key.to_owned();
        self.run(move |connection| {
            let sql = format!(
                "SELECT {COLUMNS} FROM records
                 WHERE kind = ?1 AND key = ?2 AND until > ?3 AND taken = 0 AND swapped_at IS NULL"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_row(params![kind.as_str(), key, seconds(now)], |row| record(kind, row)).optional()
        })
    }

    fn take<'a>(&'a self, kind: RecordKind, key: &'a str, now: u64) -> AuthStoreFuture<'a, TakeRecordResult> {
        let key = key.to_owned();
        self.run(move |connection| {
            // Counted and read in one statement, so that only one caller sees the 1.
            let sql = format!(
                "UPDATE records SET taken = taken + 1 WHERE kind = ?1 AND key = ?2 AND until > ?3
                 RETURNING {COLUMNS}, taken"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let taken = statement
                .query_row(params![kind.as_str(), key, seconds(now)], |row| {
                    Ok((record(kind, row)?, row.get::<_, i64>(4)?))
                })
                .optional()?;
            Ok(match taken {
                None => TakeRecordResult::Unknown,
                Some((record, 1)) => TakeRecordResult::First(record),
                Some((record, _)) => TakeRecordResult::Again(record),
            })
        })
    }

    fn claim<'a>(&'a self, key: &'a str, by: &'a str, until: u64, now: u64) -> AuthStoreFuture<'a, bool> {
        let (key, by) = (key.to_owned(), by.to_owned());
        self.run(move |connection| {
            // One statement also takes over a claim that has run out; one that holds leaves no row changed.
            let sql = "INSERT INTO records (kind, key, value, until) VALUES ('claim', ?1, ?4, ?2)
                ON CONFLICT DO UPDATE SET until = excluded.until, value = excluded.value
                WHERE records.until <= ?3";
            let rows =
                connection.prepare_cached(sql)?.execute(params![key, seconds(until), seconds(now), by])?;
            Ok(rows == 1)
        })
    }

    fn swap_refresh<'a>(
        &'a self,
        old: &'a str,
        new: AuthRecord,
        note: &'a str,
        now: u64,
        window: u64,
    ) -> AuthStoreFuture<'a, RefreshSwapResult> {
        let (old, note) = (old.to_owned(), note.to_owned());
        self.run(move |connection| {
            // Immediate: the write lock is taken before the token is read, so that no other process swaps
            // it in between.
            let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let swapped = swap(&change, &old, &new, &note, now, window)?;
            change.commit()?;
            Ok(swapped)
        })
    }

    fn forget<'a>(&'a self, kind: RecordKind, key: &'a str) -> AuthStoreFuture<'a, bool> {
        let key = key.to_owned();
        self.run(move |connection| {
            let sql = "DELETE FROM records WHERE kind = ?1 AND key = ?2";
            Ok(connection.prepare_cached(sql)?.execute(params![kind.as_str(), key])? == 1)
        })
    }

    fn revoke_grant<'a>(&'a self, grant: &'a str, until: u64) -> AuthStoreFuture<'a, Option<AuthRecord>> {
        let grant = grant.to_owned();
        self.run(move |connection| {
            let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            change.execute(
                "INSERT OR REPLACE INTO revoked (grant_id, until) VALUES (?1, ?2)",
                params![grant, seconds(until)],
            )?;
            let sql = format!("SELECT {COLUMNS} FROM records WHERE kind = 'upstream' AND grant_id = ?1");
            let rested =
                change.query_row(&sql, params![grant], |row| record(RecordKind::Upstream, row)).optional()?;
            change.execute("DELETE FROM records WHERE grant_id = ?1", params![grant])?;
            change.commit()?;
            Ok(rested)
        })
    }

    fn count(&self, kind: RecordKind) -> AuthStoreFuture<'_, usize> {
        self.run(move |connection| {
            let sql = "SELECT count(*) FROM records WHERE kind = ?1";
            let count: i64 = connection.query_row(sql, params![kind.as_str()], |row| row.get(0))?;
            Ok(usize::try_from(count).unwrap_or(usize::MAX))
        })
    }

    fn list(&self, kind: RecordKind, now: u64, most: usize) -> AuthStoreFuture<'_, Vec<AuthRecord>> {
        self.run(move |connection| {
            let sql =
                format!("SELECT {COLUMNS} FROM records WHERE kind = ?1 AND until > ?2 ORDER BY key LIMIT ?3");
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let mut statement = connection.prepare(&sql)?;
            let rows =
                statement.query_map(params![kind.as_str(), seconds(now), most], |row| record(kind, row))?;
            rows.collect()
        })
    }

    fn sweep(&self, now: u64) -> AuthStoreFuture<'_, ()> {
        self.run(move |connection| {
            let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            change.execute("DELETE FROM records WHERE until <= ?1", params![seconds(now)])?;
            change.execute("DELETE FROM revoked WHERE until <= ?1", params![seconds(now)])?;
            change.commit()
        })
    }
}

impl fmt::Debug for SqliteAuthStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SqliteAuthStore")
    }
}
