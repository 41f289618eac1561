//! PostgreSQL, which several nodes share.
//!
//! A change is one transaction. It first acquires an advisory lock of its [`ChangeScope`]. The changes of one part come
//! one after the other, as on SQLite, and each statement sees what the change before has committed. It stores its
//! attempt: after a connection that broke during the commit, the attempt says whether the change was made, and it is
//! made again only if not. This is certain, because the row of the attempt is unique: a repetition waits for a
//! transaction that still runs.

mod clock;
mod health;
mod metrics;
mod settings;
mod transaction;

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;
use tokio_postgres_rustls::MakeRustlsConnect;

use clock::{measure_clock, read_clock};
pub use metrics::PostgresMetrics;
use metrics::{TransactionCounts, TransactionKind};
pub use settings::{DEFAULT_APPLICATION_NAME, PostgresSettings, PostgresSettingsError};
use transaction::PostgresTransaction;

use crate::clock::DatabaseClock;
use crate::engine::ChangeScope;
use crate::error::DatabaseError;
use crate::sql_values;
use crate::transaction::{SqlError, SqlResult, SqlTransaction};

/// Name of a part and its migration steps, each run once in order. Never change a step; add one.
pub type PostgresPart = (&'static str, &'static [&'static str]);

/// Schema before any part.
const BASE: &str = "
    CREATE TABLE IF NOT EXISTS parts (name text PRIMARY KEY, version bigint NOT NULL);
    CREATE TABLE IF NOT EXISTS part_changes (part text PRIMARY KEY, count bigint NOT NULL);
    CREATE TABLE IF NOT EXISTS attempts (id text PRIMARY KEY, at timestamptz NOT NULL);
    CREATE INDEX IF NOT EXISTS attempts_at ON attempts (at);";

/// Text from which the keys of the advisory locks are computed, before the name of the part.
const LOCK_PREFIX: &str = "hospes state";

/// Time for which attempts are kept. Longer than any change is tried again.
const ATTEMPT_RETENTION: &str = "1 hour";

/// Maximum number of old attempts that a change removes. It adds one.
const FORGOTTEN_ATTEMPTS: usize = 100;

/// Pauses between tries, in milliseconds: the first, and the longest.
const RETRY_PAUSE: (u64, u64) = (20, 500);

/// Failure of PostgreSQL.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// The server answered with an error, or the connection broke.
    #[error("{}", said(.0))]
    Client(Arc<tokio_postgres::Error>),
    /// No connection could be opened, or all are in use.
    #[error("no connection to the database: {0}")]
    Connection(Arc<str>),
    /// No answer came in time.
    #[error("the database did not answer in time")]
    NoAnswer,
}

impl From<tokio_postgres::Error> for PostgresError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Client(Arc::new(error))
    }
}

/// Returns what the server said, or why it was not reached; the client's own texts of both are only "db error" and "error
/// connecting to server".
fn said(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(said), _) => format!("{} ({})", said.message(), said.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

impl PostgresError {
    /// Returns true if the same change may succeed when it is made again.
    fn is_passing(&self) -> bool {
        let Self::Client(error) = self else { return true };
        let Some(code) = error.code() else { return true };
        // Connection exceptions, rolled-back transactions, shortage of resources, and shutdowns.
        matches!(code.code().get(..2), Some("08" | "40" | "53" | "57"))
            || [
                SqlState::LOCK_NOT_AVAILABLE,
                SqlState::READ_ONLY_SQL_TRANSACTION,
                SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            ]
            .contains(code)
    }
}

/// Result of one try to make a change.
enum ChangeTry<T> {
    Done(SqlResult<T>),
    /// It was rolled back, and may succeed when it is made again.
    RolledBack(PostgresError),
    /// The commit was not answered: it was made, with this result, or not.
    Unknown(T, PostgresError),
}

/// Connections to a database, and the counter of its changes.
pub(crate) struct PostgresEngine {
    pool: Pool,
    settings: PostgresSettings,
    changes: Arc<watch::Sender<u64>>,
    clock: DatabaseClock,
    counts: Arc<TransactionCounts>,
    /// Ended with the engine.
    poller: JoinHandle<()>,
}

impl PostgresEngine {
    /// Connects, and migrates every part to its newest step. Parts that this program does not know are left alone.
    /// Leaves the database as it is if there are no parts.
    pub(crate) async fn open(
        settings: PostgresSettings,
        parts: Option<&'static [PostgresPart]>,
    ) -> Result<Arc<Self>, DatabaseError> {
        let pool = create_pool(&settings)?;
        let changes = Arc::new(watch::Sender::new(0));
        let clock = DatabaseClock::default();
        let limit = settings.statement_timeout;
        let (count, watch) =
            (poll(pool.clone(), settings.poll_interval, Arc::clone(&changes)), clock.clone());
        let measure = measure_clock(pool.clone(), limit, watch);
        let poller = tokio::spawn(async move { tokio::join!(count, measure).0 });
        let engine = Arc::new(Self { pool, settings, changes, clock, counts: Arc::default(), poller });
        if let Some(parts) = parts {
            engine.migrate(parts).await?;
        }
        // Before anything is compared with the present.
        read_clock(&engine.pool, limit, &engine.clock).await;
        Ok(engine)
    }

    /// Returns the clock of the database.
    pub(crate) fn clock(&self) -> DatabaseClock {
        self.clock.clone()
    }

    /// Returns the metrics of the connections. `name` says what they are for.
    pub(crate) fn metrics(&self, name: &'static str) -> PostgresMetrics {
        let (counts, pool, clock) = (Arc::clone(&self.counts), self.pool.clone(), self.clock());
        PostgresMetrics { counts, pool, clock, name }
    }

    /// Returns what should be changed in the settings of the server.
    pub(crate) async fn problems(self: &Arc<Self>) -> Result<Vec<String>, DatabaseError> {
        self.read(health::problems).await
    }

    /// Returns a counter of changes, by this and other nodes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Runs `work` in a read transaction: all that it reads is consistent.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl Fn(&mut dyn SqlTransaction) -> SqlResult<T> + Send + Sync + 'static,
    ) -> Result<T, DatabaseError> {
        let work = Arc::new(work);
        self.repeat(TransactionKind::Read, move |engine, client, _| {
            let mut view = engine.begin(client);
            let begun =
                view.batch(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {}", engine.limits()));
            match begun.map_err(SqlError::from).and_then(|_| work(&mut view)) {
                Err(SqlError::Postgres(error)) if error.is_passing() => ChangeTry::RolledBack(error),
                done => {
                    view.end();
                    ChangeTry::Done(done)
                }
            }
        })
        .await
    }

    /// Runs `work` in a write transaction, after the earlier ones that its scope excludes. It completes even if the
    /// caller is dropped, and takes effect once, whatever connections break.
    pub(crate) async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        scope: ChangeScope,
        work: impl Fn(&mut dyn SqlTransaction) -> SqlResult<T> + Send + Sync + 'static,
    ) -> Result<T, DatabaseError> {
        let attempt = attempt_id()?;
        let (engine, work) = (Arc::clone(self), Arc::new(work));
        let done = tokio::spawn(async move {
            engine
                .repeat(TransactionKind::Change, move |engine, client, made| {
                    engine.change(client, &scope, &attempt, made, &*work)
                })
                .await
        });
        done.await.map_err(|_| DatabaseError::Stopped)?
    }

    /// Makes a change once. `made` is the result of an earlier try whose commit was not answered.
    fn change<T>(
        &self,
        client: Object,
        scope: &ChangeScope,
        attempt: &str,
        made: Option<T>,
        work: &dyn Fn(&mut dyn SqlTransaction) -> SqlResult<T>,
    ) -> ChangeTry<T> {
        let failed = |made: Option<T>, error| match made {
            Some(made) => ChangeTry::Unknown(made, error),
            None => ChangeTry::RolledBack(error),
        };
        let mut change = self.begin(client);
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; {} {} {};
             INSERT INTO attempts (id, at) VALUES ('{attempt}', clock_timestamp()) ON CONFLICT DO NOTHING",
            self.limits(),
            self.idle_limit(),
            scope_lock(scope),
        );
        match (change.batch(&begin), made) {
            (Err(error), made) => return failed(made, error),
            (Ok(0), Some(made)) => {
                change.end();
                return ChangeTry::Done(Ok(made));
            }
            (Ok(_), _) => (),
        }
        let made = match work(&mut change) {
            Ok(made) => made,
            Err(SqlError::Postgres(error)) if error.is_passing() => return ChangeTry::RolledBack(error),
            Err(error) => {
                change.end();
                return ChangeTry::Done(Err(error));
            }
        };
        if !change.has_changes {
            change.end();
            return ChangeTry::Done(Ok(made));
        }
        match change.batch(&commit(scope)) {
            Ok(_) => {
                drop(change.into_client());
                if matches!(scope, ChangeScope::Part(_)) {
                    // Before the poll sees it.
                    self.changes.send_modify(|count| *count += 1);
                }
                ChangeTry::Done(Ok(made))
            }
            // Even an error from the server can follow a commit, which a standby has not confirmed.
            Err(error) => ChangeTry::Unknown(made, error),
        }
    }

    /// Repeats `work` until it is done, or the time is over, and measures it.
    async fn repeat<T: Send + 'static>(
        self: &Arc<Self>,
        kind: TransactionKind,
        work: impl Fn(&Self, Object, Option<T>) -> ChangeTry<T> + Send + Sync + 'static,
    ) -> Result<T, DatabaseError> {
        let begun = Instant::now();
        let done = self.repeat_until_done(work).await;
        self.counts.note(kind, begun.elapsed());
        done
    }

    async fn repeat_until_done<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl Fn(&Self, Object, Option<T>) -> ChangeTry<T> + Send + Sync + 'static,
    ) -> Result<T, DatabaseError> {
        let (work, until) = (Arc::new(work), Instant::now() + self.settings.retry_timeout);
        let (mut pause, mut made) = (RETRY_PAUSE.0, None);
        loop {
            let error = match self.pool.get().await {
                Err(error) => connection_error(&error),
                Ok(client) => {
                    let (engine, work, known) = (Arc::clone(self), Arc::clone(&work), made.take());
                    let tried = tokio::task::spawn_blocking(move || work(&engine, client, known)).await;
                    match tried.map_err(|_| DatabaseError::Stopped)? {
                        ChangeTry::Done(done) => {
                            return done.map_err(|error| DatabaseError::Rejected(error.to_string()));
                        }
                        ChangeTry::RolledBack(error) => error,
                        ChangeTry::Unknown(value, error) => {
                            made = Some(value);
                            error
                        }
                    }
                }
            };
            self.counts.note_fault(&error);
            tracing::debug!(%error, is_unknown = made.is_some(), "a transaction is tried again");
            let wait = Duration::from_millis(pause);
            if Instant::now() + wait >= until {
                return Err(DatabaseError::Unavailable {
                    reason: error.to_string(),
                    is_unknown: made.is_some(),
                });
            }
            tokio::time::sleep(wait).await;
            pause = (pause * 2).min(RETRY_PAUSE.1);
        }
    }

    /// Migrates the parts in one transaction. Of several nodes that start together, one does it.
    async fn migrate(self: &Arc<Self>, parts: &'static [PostgresPart]) -> Result<(), DatabaseError> {
        let is_known = self
            .repeat(TransactionKind::Change, move |engine, client, _: Option<bool>| {
                let mut change = engine.begin(client);
                let begun =
                    format!("BEGIN ISOLATION LEVEL READ COMMITTED; {} {};{BASE}", engine.limits(), lock(""));
                let migrated = change.batch(&begun).map_err(SqlError::from);
                match migrated.and_then(|_| migrate_parts(&mut change, parts)) {
                    Ok(true) => match change.batch("COMMIT") {
                        Ok(_) => ChangeTry::Done(Ok(true)),
                        // The steps that were made are not made again.
                        Err(error) => ChangeTry::RolledBack(error),
                    },
                    Err(SqlError::Postgres(error)) if error.is_passing() => ChangeTry::RolledBack(error),
                    done => ChangeTry::Done(done),
                }
            })
            .await?;
        if is_known { Ok(()) } else { Err(DatabaseError::NewerDatabase) }
    }

    fn begin(&self, client: Object) -> PostgresTransaction {
        // Longer than the server's own limit, whose error says more.
        let limit = self.settings.statement_timeout.saturating_mul(2);
        PostgresTransaction::new(client, Handle::current(), limit)
    }

    fn limits(&self) -> String {
        let limit = self.settings.statement_timeout.as_millis();
        format!("SET LOCAL statement_timeout = {limit}; SET LOCAL lock_timeout = {limit};")
    }
}

impl PostgresEngine {
    /// Returns the statement that limits how long the server waits for the next statement of a change. Otherwise a node
    /// that stands still in a change would keep its locks, and all others from changing the same.
    fn idle_limit(&self) -> String {
        // Shorter than others try again.
        let limit = self.settings.statement_timeout.saturating_mul(2).as_millis();
        format!("SET LOCAL idle_in_transaction_session_timeout = {limit};")
    }
}

impl Drop for PostgresEngine {
    fn drop(&mut self) {
        self.poller.abort();
    }
}

/// Returns the statement that acquires the lock of a part until the transaction ends.
fn lock(part: &str) -> String {
    format!("SELECT pg_advisory_xact_lock(hashtextextended('{LOCK_PREFIX} {part}', 0))")
}

/// Returns the statement that acquires the lock of a scope until the transaction ends.
fn scope_lock(scope: &ChangeScope) -> String {
    match scope {
        ChangeScope::Part(part) => lock(part),
        ChangeScope::Named(name) => {
            // In hexadecimal, because a name may have any characters.
            let name: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
            lock(&format!("name {name}"))
        }
        ChangeScope::Rows => "SELECT 1".to_owned(),
    }
}

/// Returns the last statements of a change. Those of other scopes are not counted, because the row of the counter
/// would make the commits of all nodes come one after the other.
fn commit(scope: &ChangeScope) -> String {
    let count = match scope {
        ChangeScope::Part(part) => format!(
            "INSERT INTO part_changes (part, count) VALUES ('{part}', 1)
                 ON CONFLICT (part) DO UPDATE SET count = part_changes.count + 1;"
        ),
        ChangeScope::Named(_) | ChangeScope::Rows => String::new(),
    };
    // A few rows at a time, which no other change waits for.
    format!(
        "{count}
         DELETE FROM attempts WHERE id IN (
             SELECT id FROM attempts WHERE at < clock_timestamp() - interval '{ATTEMPT_RETENTION}'
             ORDER BY at LIMIT {FORGOTTEN_ATTEMPTS} FOR UPDATE SKIP LOCKED
         );
         COMMIT"
    )
}

/// Returns false if a part is newer than its steps.
fn migrate_parts(change: &mut PostgresTransaction, parts: &[PostgresPart]) -> SqlResult<bool> {
    for (name, steps) in parts {
        let view: &mut dyn SqlTransaction = change;
        let done: Option<i64> =
            view.query_value("SELECT version FROM parts WHERE name = ?1", sql_values![*name])?;
        let done = done.map_or(0, |done| usize::try_from(done).unwrap_or(usize::MAX));
        let Some(owed) = steps.get(done..) else { return Ok(false) };
        for step in owed {
            change.batch(step)?;
        }
        let put = "INSERT INTO parts (name, version) VALUES (?1, ?2)
                   ON CONFLICT (name) DO UPDATE SET version = excluded.version";
        let version = i64::try_from(steps.len()).unwrap_or(i64::MAX);
        change.execute(put, sql_values![*name, version])?;
    }
    Ok(true)
}

fn create_pool(settings: &PostgresSettings) -> Result<Pool, DatabaseError> {
    let (config, tls) = settings.client()?;
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = match tls {
        Some(tls) => Manager::from_config(config, MakeRustlsConnect::new(tls), recycling),
        None => Manager::from_config(config, NoTls, recycling),
    };
    let limit = Some(settings.connect_timeout);
    let pool = Pool::builder(manager)
        .max_size(settings.max_connections)
        .runtime(Runtime::Tokio1)
        .wait_timeout(limit)
        .create_timeout(limit)
        .recycle_timeout(limit)
        .build();
    pool.map_err(|error| DatabaseError::Unavailable { reason: error.to_string(), is_unknown: false })
}

/// Counts changes by other nodes. Without an answer the counter stays, and the next answer tells.
async fn poll(pool: Pool, interval: Duration, changes: Arc<watch::Sender<u64>>) {
    let mut known = None;
    loop {
        if changes.receiver_count() > 0
            && let Ok(client) = pool.get().await
        {
            let sum = "SELECT CAST(coalesce(sum(count), 0) AS bigint) FROM part_changes";
            match tokio::time::timeout(interval.saturating_mul(8), client.query_one(sum, &[])).await {
                Ok(Ok(row)) => {
                    let now: Option<i64> = row.try_get(0).ok();
                    // The first answer counts, too: it may have come after a change that nobody has read.
                    if known != now {
                        changes.send_modify(|count| *count += 1);
                    }
                    known = now;
                }
                // A connection without an answer is not used again.
                Ok(Err(_)) | Err(_) => drop(Object::take(client)),
            }
        }
        tokio::time::sleep(interval).await;
    }
}

/// Returns a random id of one change, in hexadecimal.
fn attempt_id() -> Result<String, DatabaseError> {
    let mut id = [0; 16];
    let failed =
        |error: getrandom::Error| DatabaseError::Unavailable { reason: error.to_string(), is_unknown: false };
    getrandom::fill(&mut id).map_err(failed)?;
    Ok(format!("{:032x}", u128::from_be_bytes(id)))
}

fn connection_error(error: &PoolError) -> PostgresError {
    let reason = match error {
        PoolError::Backend(error) => said(error),
        PoolError::Timeout(_) => "none was opened, or became free, in time".to_owned(),
        error => error.to_string(),
    };
    PostgresError::Connection(reason.into())
}
