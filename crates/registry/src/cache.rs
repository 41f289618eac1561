//! Cache of a registry: the list of servers and single answers, in SQLite. It holds only copies, so a damaged file is
//! replaced.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::entry::{EntryStatus, ServerEntry};
use crate::error::RegistryError;
use crate::rank::{MatchTier, SearchQuery};
use crate::version::compare_versions;

/// Version of the tables. A file of another version is replaced.
const SCHEMA_VERSION: i32 = 1;
/// Time that other processes may hold the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of single answers of one registry.
const MAX_ANSWERS: u32 = 400;

const SCHEMA: &str = "
    CREATE TABLE registries (base TEXT PRIMARY KEY, full_at INTEGER, changed_at INTEGER) WITHOUT ROWID;
    CREATE TABLE entries (
        base TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL, deprecated INTEGER NOT NULL,
        title TEXT NOT NULL, description TEXT NOT NULL, json TEXT NOT NULL, generation INTEGER NOT NULL,
        PRIMARY KEY (base, name)
    );
    CREATE TABLE answers (
        base TEXT NOT NULL, target TEXT NOT NULL, etag TEXT, body BLOB NOT NULL, fetched_at INTEGER NOT NULL,
        PRIMARY KEY (base, target)
    );
";

/// Cache in a file, or in memory. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct RegistryCache {
    connection: Arc<Mutex<Connection>>,
    file: PathBuf,
}

/// When the list of a registry was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListTimes {
    /// Start of the last complete reading.
    pub(crate) full_at: Timestamp,
    /// Start of the last reading of changes.
    pub(crate) changed_at: Timestamp,
}

/// A stored answer.
#[derive(Clone, Debug)]
pub(crate) struct StoredAnswer {
    pub(crate) etag: Option<String>,
    pub(crate) body: Vec<u8>,
    pub(crate) fetched_at: Timestamp,
}

/// Changes that a page made.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageChanges {
    pub(crate) stored: usize,
    /// Names whose newest version was deleted.
    pub(crate) removed: Vec<String>,
}

impl RegistryCache {
    /// Opens a cache. A file that is no usable cache is replaced.
    pub(crate) fn open(file: Option<PathBuf>) -> Result<Self, RegistryError> {
        let path = file.clone().unwrap_or_else(|| PathBuf::from(":memory:"));
        let failed = |what: String| RegistryError::Cache { file: path.display().to_string(), what };
        let Some(file) = file else {
            let connection = Connection::open_in_memory().and_then(prepare);
            let connection = connection.map_err(|error| failed(error.to_string()))?;
            return Ok(Self { connection: Arc::new(Mutex::new(connection)), file: path });
        };
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(|error| failed(error.to_string()))?;
        }
        let connection = match Connection::open(&file).and_then(prepare) {
            Ok(connection) => connection,
            Err(error) if is_unusable(&error) => {
                tracing::info!(file = %file.display(), %error, "replaced the cache of the registry");
                for suffix in ["", "-wal", "-shm"] {
                    let mut name = file.as_os_str().to_owned();
                    name.push(suffix);
                    let _absent = fs::remove_file(name);
                }
                Connection::open(&file).and_then(prepare).map_err(|error| failed(error.to_string()))?
            }
            Err(error) => return Err(failed(error.to_string())),
        };
        Ok(Self { connection: Arc::new(Mutex::new(connection)), file: path })
    }

    /// Runs a step on a thread for blocking work.
    async fn run<T: Send + 'static>(
        &self,
        step: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, RegistryError> {
        let connection = Arc::clone(&self.connection);
        let done = tokio::task::spawn_blocking(move || step(&mut connection.lock())).await;
        let failed = |what: String| RegistryError::Cache { file: self.file.display().to_string(), what };
        match done {
            Ok(done) => done.map_err(|error| failed(error.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Returns when the list was read completely, if it was.
    pub(crate) async fn list_times(&self, base: &str) -> Result<Option<ListTimes>, RegistryError> {
        let base = base.to_owned();
        self.run(move |connection| {
            let select = "SELECT full_at, changed_at FROM registries WHERE base = ?1 AND full_at IS NOT NULL";
            let times =
                connection.query_row(select, [base], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
            Ok(times.map(|(full_at, changed_at)| ListTimes {
                full_at: time(full_at),
                changed_at: time(changed_at),
            }))
        })
        .await
    }

    /// Stores a page of the list. `generation` marks the entries that this reading has seen.
    pub(crate) async fn store_page(
        &self,
        base: &str,
        entries: Vec<ServerEntry>,
        generation: Timestamp,
    ) -> Result<PageChanges, RegistryError> {
        let base = base.to_owned();
        self.run(move |connection| {
            let change = connection.transaction()?;
            let mut changes = PageChanges::default();
            for entry in entries {
                store_entry(&change, &base, &entry, generation, &mut changes)?;
            }
            change.commit()?;
            Ok(changes)
        })
        .await
    }

    /// Ends a reading of the list. After a complete one, entries that it has not seen are dropped.
    pub(crate) async fn end_reading(
        &self,
        base: &str,
        started: Timestamp,
        is_full: bool,
    ) -> Result<usize, RegistryError> {
        let base = base.to_owned();
        self.run(move |connection| {
            let change = connection.transaction()?;
            let started = started.as_second();
            let mut dropped = 0;
            if is_full {
                let delete = "DELETE FROM entries WHERE base = ?1 AND generation <> ?2";
                dropped = change.execute(delete, params![base, started])?;
                let upsert = "INSERT INTO registries (base, full_at, changed_at) VALUES (?1, ?2, ?2)
                    ON CONFLICT (base) DO UPDATE SET full_at = ?2, changed_at = ?2";
                change.execute(upsert, params![base, started])?;
            } else {
                let update = "UPDATE registries SET changed_at = ?2 WHERE base = ?1";
                change.execute(update, params![base, started])?;
            }
            change.commit()?;
            Ok(dropped)
        })
        .await
    }

    /// Returns the number of entries.
    pub(crate) async fn count(&self, base: &str) -> Result<usize, RegistryError> {
        let base = base.to_owned();
        self.run(move |connection| {
            let count = "SELECT count(*) FROM entries WHERE base = ?1";
            connection
                .query_row(count, [base], |row| row.get::<_, i64>(0))
                .map(|count| count.unsigned_abs() as usize)
        })
        .await
    }

    /// Finds the entries that have all words of a query, best first, and their number.
    pub(crate) async fn search(
        &self,
        base: &str,
        query: SearchQuery,
        limit: usize,
    ) -> Result<(Vec<ServerEntry>, usize), RegistryError> {
        let base = base.to_owned();
        self.run(move |connection| {
            let mut select = connection
                .prepare_cached("SELECT name, title, description, deprecated FROM entries WHERE base = ?1")?;
            let mut rows = select.query([&base])?;
            let mut found: Vec<(MatchTier, bool, String)> = Vec::new();
            while let Some(row) = rows.next()? {
                let text = |index| row.get_ref(index).and_then(|value| Ok(value.as_str()?));
                if let Some(tier) = query.tier(text(0)?, text(1)?, text(2)?) {
                    found.push((tier, row.get(3)?, text(0)?.to_owned()));
                }
            }
            found.sort_unstable();
            let total = found.len();
            let mut get =
                connection.prepare_cached("SELECT json FROM entries WHERE base = ?1 AND name = ?2")?;
            let mut entries = Vec::new();
            for (_, _, name) in found.into_iter().take(limit) {
                let json: String = get.query_row([&base, &name], |row| row.get(0))?;
                // A row that cannot be read is of another version of this program.
                entries.extend(ServerEntry::read(&json).ok());
            }
            Ok((entries, total))
        })
        .await
    }

    /// Returns the newest version of a server, as the list has it.
    pub(crate) async fn listed(&self, base: &str, name: &str) -> Result<Option<ServerEntry>, RegistryError> {
        let key = [base.to_owned(), name.to_owned()];
        self.run(move |connection| {
            let select = "SELECT json FROM entries WHERE base = ?1 AND name = ?2";
            let json: Option<String> = connection.query_row(select, key, |row| row.get(0)).optional()?;
            Ok(json.and_then(|json| ServerEntry::read(&json).ok()))
        })
        .await
    }

    /// Removes a server from the list.
    pub(crate) async fn forget(&self, base: &str, name: &str) -> Result<(), RegistryError> {
        let key = [base.to_owned(), name.to_owned()];
        self.run(move |connection| {
            connection.execute("DELETE FROM entries WHERE base = ?1 AND name = ?2", key).map(drop)
        })
        .await
    }

    /// Returns the stored answer of a request.
    pub(crate) async fn answer(
        &self,
        base: &str,
        target: &str,
    ) -> Result<Option<StoredAnswer>, RegistryError> {
        let key = [base.to_owned(), target.to_owned()];
        self.run(move |connection| {
            let select = "SELECT etag, body, fetched_at FROM answers WHERE base = ?1 AND target = ?2";
            let read = |row: &rusqlite::Row<'_>| {
                Ok(StoredAnswer { etag: row.get(0)?, body: row.get(1)?, fetched_at: time(row.get(2)?) })
            };
            connection.query_row(select, key, read).optional()
        })
        .await
    }

    /// Stores the answer of a request. The oldest ones beyond the limit are dropped.
    pub(crate) async fn store_answer(
        &self,
        base: &str,
        target: &str,
        answer: StoredAnswer,
    ) -> Result<(), RegistryError> {
        let (base, target) = (base.to_owned(), target.to_owned());
        self.run(move |connection| {
            let upsert =
                "INSERT INTO answers (base, target, etag, body, fetched_at) VALUES (?1, ?2, ?3, ?4, ?5)
                ON CONFLICT (base, target) DO UPDATE SET etag = ?3, body = ?4, fetched_at = ?5";
            let fetched_at = answer.fetched_at.as_second();
            connection.execute(upsert, params![base, target, answer.etag, answer.body, fetched_at])?;
            let trim = "DELETE FROM answers WHERE base = ?1 AND target NOT IN
                (SELECT target FROM answers WHERE base = ?1 ORDER BY fetched_at DESC LIMIT ?2)";
            connection.execute(trim, params![base, MAX_ANSWERS]).map(drop)
        })
        .await
    }

    /// Drops the stored answer of a request.
    pub(crate) async fn forget_answer(&self, base: &str, target: &str) -> Result<(), RegistryError> {
        let key = [base.to_owned(), target.to_owned()];
        self.run(move |connection| {
            connection.execute("DELETE FROM answers WHERE base = ?1 AND target = ?2", key).map(drop)
        })
        .await
    }
}

fn store_entry(
    change: &Connection,
    base: &str,
    entry: &ServerEntry,
    generation: Timestamp,
    changes: &mut PageChanges,
) -> rusqlite::Result<()> {
    let mut select =
        change.prepare_cached("SELECT version, generation FROM entries WHERE base = ?1 AND name = ?2")?;
    let known: Option<(String, i64)> =
        select.query_row([base, &entry.name], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    if entry.status() == EntryStatus::Deleted {
        if known.is_some_and(|(version, _)| version == entry.version) {
            change.execute("DELETE FROM entries WHERE base = ?1 AND name = ?2", [base, &entry.name])?;
            changes.removed.push(entry.name.clone());
        }
        return Ok(());
    }
    let is_latest = entry.official.as_ref().and_then(|official| official.is_latest);
    let is_older = match (is_latest, &known) {
        (Some(is_latest), _) => !is_latest,
        // A registry that does not say which version is the newest.
        (None, Some((version, seen))) => {
            *seen == generation.as_second() && compare_versions(&entry.version, version).is_lt()
        }
        (None, None) => false,
    };
    if is_older {
        return Ok(());
    }
    let upsert = "INSERT INTO entries (base, name, version, deprecated, title, description, json, generation)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
        ON CONFLICT (base, name) DO UPDATE SET version = ?3, deprecated = ?4, title = ?5, description = ?6,
            json = ?7, generation = ?8";
    let title = entry.title.as_deref().unwrap_or_default();
    let is_deprecated = entry.status() == EntryStatus::Deprecated;
    let json = entry.to_response().to_string();
    let mut upsert = change.prepare_cached(upsert)?;
    upsert.execute(params![
        base,
        entry.name,
        entry.version,
        is_deprecated,
        title,
        entry.description,
        json,
        generation.as_second()
    ])?;
    changes.stored += 1;
    Ok(())
}

fn prepare(connection: Connection) -> rusqlite::Result<Connection> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // Only copies are stored, so a power cut may cost the last page.
    connection.pragma_update(None, "synchronous", "off")?;
    let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    match version {
        SCHEMA_VERSION => {}
        0 => {
            let create = format!("BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;");
            if let Err(error) = connection.execute_batch(&create) {
                // Another process may have been first.
                let _none = connection.execute_batch("ROLLBACK");
                let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
                if version != SCHEMA_VERSION {
                    return Err(error);
                }
            }
        }
        _ => return Err(rusqlite::Error::InvalidQuery),
    }
    Ok(connection)
}

/// Returns true if the file is damaged, no database, or of another version.
fn is_unusable(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error, rusqlite::Error::InvalidQuery)
        || matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}

fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
}
