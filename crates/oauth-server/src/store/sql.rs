//! Store in a database: a SQLite file, which the processes of one machine can share, or PostgreSQL, which several nodes
//! can share.

use std::error::Error as _;
use std::fmt;
use std::path::Path;

use hospes_sql::{
    ChangeScope, DatabaseError, SqlEngine, SqlResult, SqlRow, SqlTransaction, SqliteSchema, sql_values,
};
#[cfg(feature = "postgres")]
use hospes_sql::{PostgresMetrics, PostgresSettings};

use super::{
    AuthRecord, AuthStore, AuthStoreError, AuthStoreFuture, RecordKind, RefreshSwapResult, TakeRecordResult,
};

/// Schema migrations of the file by version: each step runs once, in order. Add steps, and never change existing ones.
pub(super) const SQLITE: SqliteSchema = SqliteSchema::Whole(&["
    CREATE TABLE records (
        kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, grant_id TEXT, until INTEGER NOT NULL,
        taken INTEGER NOT NULL DEFAULT 0, note TEXT, swapped_at INTEGER,
        PRIMARY KEY (kind, key)
    ) WITHOUT ROWID;
    CREATE INDEX records_of_grant ON records (grant_id) WHERE grant_id IS NOT NULL;
    CREATE INDEX records_until ON records (until);
    CREATE TABLE revoked (grant_id TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
"]);

/// The same in PostgreSQL, where other parts can be beside it. Keys are in the order of bytes, as in SQLite.
#[cfg(feature = "postgres")]
const POSTGRES: &[hospes_sql::PostgresPart] = &[("auth", &["
    CREATE TABLE auth_records (
        kind text NOT NULL, key text COLLATE \"C\" NOT NULL, value text NOT NULL, grant_id text, until bigint NOT NULL,
        taken bigint NOT NULL DEFAULT 0, note text, swapped_at bigint,
        PRIMARY KEY (kind, key)
    );
    CREATE INDEX auth_records_of_grant ON auth_records (grant_id) WHERE grant_id IS NOT NULL;
    CREATE INDEX auth_records_until ON auth_records (until);
    CREATE TABLE revoked_grants (grant_id text PRIMARY KEY, until bigint NOT NULL);
"])];

/// Columns of a record, in the order of [`record`].
const COLUMNS: &str = "key, value, grant_id, until";

/// Keeps everything in a database.
///
/// A SQLite file is shared by the processes of one machine, whose clock decides whether a record has expired. A
/// PostgreSQL database is shared by several nodes, and its own clock decides. A change is tried again after lost
/// connections and failovers for the `retry_timeout` of its settings, with the attempt of the first try.
pub struct SqlAuthStore {
    engine: SqlEngine,
    dialect: AuthDialect,
}

/// Names and clock of an engine.
#[derive(Clone, Copy)]
struct AuthDialect {
    records: &'static str,
    revoked: &'static str,
    /// Expression of the time, in seconds. The parameter `?1` is the time of this process, or null.
    clock: &'static str,
    /// True if the time of this process counts.
    has_process_clock: bool,
}

impl AuthDialect {
    const SQLITE: Self =
        Self { records: "records", revoked: "revoked", clock: "?1", has_process_clock: true };

    /// The clock is a subquery, so that it is read once in a statement and indexes can be used.
    #[cfg(feature = "postgres")]
    const POSTGRES: Self = Self {
        records: "auth_records",
        revoked: "revoked_grants",
        clock: "(SELECT coalesce(CAST(?1 AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint)))",
        has_process_clock: false,
    };

    /// Returns the parameter `?1` of statements with [`AuthDialect::clock`].
    fn time(&self, now: u64) -> Option<i64> {
        self.has_process_clock.then(|| seconds(now))
    }
}

impl SqlAuthStore {
    /// Opens the store in this file, which is created if it does not exist, accessible to its owner alone.
    ///
    /// # Errors
    /// If the file cannot be opened, or was written by a newer version of this program.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, AuthStoreError> {
        let engine = SqlEngine::open_sqlite(path.as_ref(), SQLITE)?;
        Ok(Self { engine, dialect: AuthDialect::SQLITE })
    }

    /// Connects to the store in a database that several nodes share.
    ///
    /// # Errors
    /// If the settings are not valid, the database cannot be used, or it was written by a newer version of this program.
    #[cfg(feature = "postgres")]
    pub async fn connect(settings: PostgresSettings) -> Result<Self, AuthStoreError> {
        let engine = SqlEngine::connect_postgres(settings, POSTGRES).await?;
        Ok(Self { engine, dialect: AuthDialect::POSTGRES })
    }

    /// Returns the metrics of the connections to a database that several nodes share; `None` for a file.
    #[cfg(feature = "postgres")]
    #[must_use]
    pub fn metrics(&self) -> Option<PostgresMetrics> {
        self.engine.metrics("sign_in")
    }

    /// Has the store compare with the time that callers pass, so that a test can turn the clock.
    #[cfg(all(test, feature = "postgres", target_os = "linux"))]
    pub(crate) const fn with_process_clock(mut self) -> Self {
        self.dialect.has_process_clock = true;
        self
    }

    /// Runs `work` in a read transaction.
    fn read<T: Send + 'static>(
        &self,
        work: impl Fn(AuthDialect, &mut dyn SqlTransaction) -> SqlResult<T> + Send + Sync + 'static,
    ) -> AuthStoreFuture<'_, T> {
        let dialect = self.dialect;
        Box::pin(async move { Ok(self.engine.read(move |view| work(dialect, view)).await?) })
    }

    /// Runs `work` in a write transaction, which takes effect once even if the connection is lost.
    fn write<T: Send + 'static>(
        &self,
        scope: ChangeScope,
        work: impl Fn(AuthDialect, &mut dyn SqlTransaction) -> SqlResult<T> + Send + Sync + 'static,
    ) -> AuthStoreFuture<'_, T> {
        let dialect = self.dialect;
        Box::pin(async move { Ok(self.engine.write(scope, move |change| work(dialect, change)).await?) })
    }
}

/// Returns the scope of a change that depends on whether this grant is revoked.
fn grant_scope(grant: Option<&String>) -> ChangeScope {
    grant.map_or(ChangeScope::Rows, |grant| ChangeScope::Named(format!("auth grant {grant}")))
}

/// Seconds as databases have them.
fn seconds(time: u64) -> i64 {
    // A time that does not fit is that of something that never runs out.
    i64::try_from(time).unwrap_or(i64::MAX)
}

fn record(kind: RecordKind, row: &SqlRow) -> SqlResult<AuthRecord> {
    let until: i64 = row.get(3)?;
    Ok(AuthRecord {
        kind,
        key: row.get(0)?,
        value: row.get(1)?,
        grant: row.get(2)?,
        until: u64::try_from(until).unwrap_or_default(),
    })
}

fn put(dialect: AuthDialect, change: &mut dyn SqlTransaction, record: &AuthRecord) -> SqlResult<bool> {
    let AuthDialect { records, revoked, .. } = dialect;
    let sql = format!(
        "INSERT INTO {records} (kind, key, value, grant_id, until)
         SELECT CAST(?1 AS text), CAST(?2 AS text), CAST(?3 AS text), CAST(?4 AS text), CAST(?5 AS bigint)
         WHERE CAST(?4 AS text) IS NULL OR NOT EXISTS (SELECT 1 FROM {revoked} WHERE grant_id = CAST(?4 AS text))
         ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value, grant_id = excluded.grant_id,
             until = excluded.until, taken = 0, note = NULL, swapped_at = NULL"
    );
    let AuthRecord { kind, key, value, grant, until } = record;
    Ok(change.execute(&sql, sql_values![kind.as_str(), key, value, grant, seconds(*until)])? == 1)
}

/// Refresh token and its successor.
struct RefreshSwap {
    old: String,
    new: AuthRecord,
    note: String,
    now: u64,
    window: u64,
}

impl RefreshSwap {
    fn run(&self, dialect: AuthDialect, change: &mut dyn SqlTransaction) -> SqlResult<RefreshSwapResult> {
        let AuthDialect { records, clock, .. } = dialect;
        let time = dialect.time(self.now);
        let sql = format!(
            "UPDATE {records} SET note = ?3, swapped_at = {clock}
             WHERE kind = 'refresh' AND key = ?2 AND until > {clock} AND swapped_at IS NULL RETURNING {COLUMNS}"
        );
        if let Some(row) = change.query_first(&sql, sql_values![time, self.old, self.note])? {
            // It cannot be refused: of a revoked grant there is no old token left to swap.
            put(dialect, change, &self.new)?;
            return Ok(RefreshSwapResult::Done(record(RecordKind::Refresh, &row)?));
        }
        let sql = format!(
            "SELECT {COLUMNS}, note, swapped_at, {clock} FROM {records}
             WHERE kind = 'refresh' AND key = ?2 AND until > {clock}"
        );
        let Some(row) = change.query_first(&sql, sql_values![time, self.old])? else {
            return Ok(RefreshSwapResult::Unknown);
        };
        let (known, note) = (record(RecordKind::Refresh, &row)?, row.get(4)?);
        let (when, now): (i64, i64) = (row.get(5)?, row.get(6)?);
        let is_fresh = when.saturating_add(seconds(self.window)) > now;
        Ok(if is_fresh { RefreshSwapResult::Replayed(known, note) } else { RefreshSwapResult::Reused(known) })
    }
}

impl AuthStore for SqlAuthStore {
    fn put(&self, record: AuthRecord) -> AuthStoreFuture<'_, bool> {
        let scope = grant_scope(record.grant.as_ref());
        self.write(scope, move |dialect, change| put(dialect, change, &record))
    }

    fn get<'a>(
        &'a self,
        kind: RecordKind,
        key: &'a str,
        now: u64,
    ) -> AuthStoreFuture<'a, Option<AuthRecord>> {
        let key = key.to_owned();
        self.read(move |dialect, view| {
            let AuthDialect { records, clock, .. } = dialect;
            let sql = format!(
                "SELECT {COLUMNS} FROM {records}
                 WHERE kind = ?2 AND key = ?3 AND until > {clock} AND taken = 0 AND swapped_at IS NULL"
            );
            let row = view.query_first(&sql, sql_values![dialect.time(now), kind.as_str(), key])?;
            row.map(|row| record(kind, &row)).transpose()
        })
    }

    fn take<'a>(&'a self, kind: RecordKind, key: &'a str, now: u64) -> AuthStoreFuture<'a, TakeRecordResult> {
        let key = key.to_owned();
        // Only one caller finds it untaken, and those who come too late write nothing. A repetition of this change after a
        // lost connection has its result, since it finds its attempt: it is no second caller.
        self.write(ChangeScope::Rows, move |dialect, change| {
            let AuthDialect { records, clock, .. } = dialect;
            let sql = format!(
                "UPDATE {records} SET taken = 1 WHERE kind = ?2 AND key = ?3 AND until > {clock} AND taken = 0
                 RETURNING {COLUMNS}"
            );
            let (time, kind_name) = (dialect.time(now), kind.as_str());
            if let Some(row) = change.query_first(&sql, sql_values![time, kind_name, key])? {
                return Ok(TakeRecordResult::First(record(kind, &row)?));
            }
            let sql =
                format!("SELECT {COLUMNS} FROM {records} WHERE kind = ?2 AND key = ?3 AND until > {clock}");
            Ok(match change.query_first(&sql, sql_values![time, kind_name, key])? {
                Some(row) => TakeRecordResult::Again(record(kind, &row)?),
                None => TakeRecordResult::Unknown,
            })
        })
    }

    fn claim<'a>(&'a self, key: &'a str, by: &'a str, until: u64, now: u64) -> AuthStoreFuture<'a, bool> {
        let (key, by) = (key.to_owned(), by.to_owned());
        self.write(ChangeScope::Rows, move |dialect, change| {
            let AuthDialect { records, clock, .. } = dialect;
            // One statement also takes over a claim that has run out; one that holds leaves no row changed.
            let sql = format!(
                "INSERT INTO {records} (kind, key, value, until) VALUES ('claim', ?2, ?3, ?4)
                 ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value, grant_id = NULL,
                     until = excluded.until, taken = 0, note = NULL, swapped_at = NULL
                 WHERE {records}.until <= {clock}"
            );
            let changed = change.execute(&sql, sql_values![dialect.time(now), key, by, seconds(until)])?;
            Ok(changed == 1)
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
        let scope = grant_scope(new.grant.as_ref());
        let swap = RefreshSwap { old: old.to_owned(), new, note: note.to_owned(), now, window };
        self.write(scope, move |dialect, change| swap.run(dialect, change))
    }

    fn forget<'a>(&'a self, kind: RecordKind, key: &'a str) -> AuthStoreFuture<'a, bool> {
        let key = key.to_owned();
        self.write(ChangeScope::Rows, move |dialect, change| {
            let sql = format!("DELETE FROM {} WHERE kind = ?1 AND key = ?2", dialect.records);
            Ok(change.execute(&sql, sql_values![kind.as_str(), key])? == 1)
        })
    }

    fn revoke_grant<'a>(&'a self, grant: &'a str, until: u64) -> AuthStoreFuture<'a, Option<AuthRecord>> {
        let grant = grant.to_owned();
        // The scope of the grant keeps out a record that is put meanwhile, which no statement here would see.
        self.write(grant_scope(Some(&grant)), move |dialect, change| {
            let AuthDialect { records, revoked, .. } = dialect;
            let sql = format!(
                "INSERT INTO {revoked} (grant_id, until) VALUES (?1, ?2)
                 ON CONFLICT (grant_id) DO UPDATE SET until = excluded.until"
            );
            change.execute(&sql, sql_values![grant, seconds(until)])?;
            let sql = format!(
                "SELECT {COLUMNS} FROM {records} WHERE kind = 'upstream' AND grant_id = ?1 ORDER BY key LIMIT 1"
            );
            let rested = change.query_first(&sql, sql_values![grant])?;
            change.execute(&format!("DELETE FROM {records} WHERE grant_id = ?1"), sql_values![grant])?;
            rested.map(|row| record(RecordKind::Upstream, &row)).transpose()
        })
    }

    fn count(&self, kind: RecordKind) -> AuthStoreFuture<'_, usize> {
        self.read(move |dialect, view| {
            let sql = format!("SELECT count(*) FROM {} WHERE kind = ?1", dialect.records);
            let count: Option<i64> = view.query_value(&sql, sql_values![kind.as_str()])?;
            Ok(usize::try_from(count.unwrap_or_default()).unwrap_or(usize::MAX))
        })
    }

    fn list(&self, kind: RecordKind, now: u64, most: usize) -> AuthStoreFuture<'_, Vec<AuthRecord>> {
        self.read(move |dialect, view| {
            let AuthDialect { records, clock, .. } = dialect;
            let sql = format!(
                "SELECT {COLUMNS} FROM {records} WHERE kind = ?2 AND until > {clock} ORDER BY key LIMIT ?3"
            );
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let rows = view.query(&sql, sql_values![dialect.time(now), kind.as_str(), most])?;
            rows.iter().map(|row| record(kind, row)).collect()
        })
    }

    fn sweep(&self, now: u64) -> AuthStoreFuture<'_, ()> {
        // One node at a time: two that delete the same rows in another order would wait for each other.
        self.write(ChangeScope::Named("auth sweep".to_owned()), move |dialect, change| {
            let AuthDialect { records, revoked, clock, .. } = dialect;
            for table in [records, revoked] {
                let sql = format!("DELETE FROM {table} WHERE until <= {clock}");
                change.execute(&sql, sql_values![dialect.time(now)])?;
            }
            Ok(())
        })
    }
}

impl From<DatabaseError> for AuthStoreError {
    fn from(error: DatabaseError) -> Self {
        let (mut text, mut cause) = (error.to_string(), error.source());
        while let Some(known) = cause {
            text = format!("{text}: {known}");
            cause = known.source();
        }
        Self(text.into())
    }
}

impl fmt::Debug for SqlAuthStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqlAuthStore").field(&self.engine).finish()
    }
}
