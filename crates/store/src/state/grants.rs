//! Lasting grants: decisions that apply to later calls.

use jiff::Timestamp;
use tokio::sync::watch;

use super::store::StatePart;
use crate::audit::AuditEntry;
use crate::error::StoreError;
use hospes_sql::{SqlResult, SqlTransaction, sql_values};

/// Migration steps, each run once in order. Never change a step; add one.
pub(super) const SQLITE: &[&str] = &["
    CREATE TABLE grants (
        id TEXT PRIMARY KEY, body TEXT NOT NULL, until INTEGER, used_at INTEGER, uses INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
"];

/// The same in PostgreSQL. Never change a step; add one.
#[cfg(feature = "postgres")]
pub(super) const POSTGRES: &[&str] = &["
    CREATE TABLE grants (
        id text PRIMARY KEY, body text NOT NULL, until bigint, used_at bigint, uses bigint NOT NULL DEFAULT 0
    );
"];

/// Lasting grants, each stored as a text that the host interprets.
#[derive(Clone, Debug)]
pub struct GrantRecords(StatePart);

/// A stored grant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredGrant {
    /// Id of the grant.
    pub id: String,
    /// Text of the grant.
    pub body: String,
    /// Time of the last use.
    pub used_at: Option<Timestamp>,
    /// Number of uses.
    pub uses: u64,
}

/// A grant to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewGrant {
    /// Id of the grant. A stored grant with this id is replaced.
    pub id: String,
    /// Text of the grant.
    pub body: String,
    /// Time until which it is kept; `None` until it is removed.
    pub until: Option<Timestamp>,
}

impl NewGrant {
    /// Creates a grant that is kept until this time, or until it is removed.
    #[must_use]
    pub const fn new(id: String, body: String, until: Option<Timestamp>) -> Self {
        Self { id, body, until }
    }

    /// Stores the grant, and removes expired ones.
    pub(super) fn insert(&self, change: &mut dyn SqlTransaction, now: Timestamp) -> SqlResult<()> {
        let expired = "DELETE FROM grants WHERE until <= ?1";
        change.execute(expired, sql_values![now.as_microsecond()])?;
        let put = "INSERT INTO grants (id, body, until) VALUES (?1, ?2, ?3)
                   ON CONFLICT (id) DO UPDATE
                   SET body = excluded.body, until = excluded.until, used_at = NULL, uses = 0";
        change.execute(put, sql_values![self.id, self.body, self.until.map(Timestamp::as_microsecond)])?;
        Ok(())
    }
}

impl GrantRecords {
    pub(super) fn new(state: StatePart) -> Self {
        Self(state)
    }

    /// Returns all grants that have not expired by `now`.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub async fn all(&self, now: Timestamp) -> Result<Vec<StoredGrant>, StoreError> {
        self.0
            .read(move |view| {
                let all = "SELECT id, body, used_at, uses FROM grants WHERE until IS NULL OR until > ?1 ORDER BY id";
                let rows = view.query(all, sql_values![now.as_microsecond()])?.into_iter();
                rows.map(|row| {
                    let used_at: Option<i64> = row.get(2)?;
                    let uses: i64 = row.get(3)?;
                    Ok(StoredGrant {
                        id: row.get(0)?,
                        body: row.get(1)?,
                        used_at: used_at.and_then(|at| Timestamp::from_microsecond(at).ok()),
                        uses: u64::try_from(uses).unwrap_or_default(),
                    })
                })
                .collect()
            })
            .await
    }

    /// Stores a grant, and removes expired ones. `entry` is recorded with it if the state records decisions.
    ///
    /// # Errors
    /// If the grant cannot be written. Its entry is not recorded then.
    pub async fn insert(&self, grant: NewGrant, entry: Option<AuditEntry>) -> Result<(), StoreError> {
        let (now, decisions) = (self.0.now(), self.0.decisions());
        self.0
            .write(move |change| {
                grant.insert(change, now)?;
                decisions.record(change, entry.as_slice())
            })
            .await
    }

    /// Removes a grant. Returns true if it existed; `entry` is then recorded with the removal if the state records
    /// decisions.
    ///
    /// # Errors
    /// If the removal cannot be written. Its entry is not recorded then.
    pub async fn remove(&self, id: String, entry: Option<AuditEntry>) -> Result<bool, StoreError> {
        let (delete, decisions) = ("DELETE FROM grants WHERE id = ?1", self.0.decisions());
        self.0
            .write(move |change| {
                let existed = change.execute(delete, sql_values![id])? > 0;
                if existed {
                    decisions.record(change, entry.as_slice())?;
                }
                Ok(existed)
            })
            .await
    }

    /// Records the time of the last use and the number of uses of grants. Removed grants are skipped.
    ///
    /// # Errors
    /// If the uses cannot be written.
    pub async fn record_uses(&self, uses: Vec<(String, Timestamp, u64)>) -> Result<(), StoreError> {
        self.0
            .write(move |change| {
                // The larger values, because processes record their uses in any order, and no count may decrease.
                let update = "UPDATE grants
                    SET used_at = CASE WHEN used_at > ?2 THEN used_at ELSE ?2 END,
                        uses = CASE WHEN uses > ?3 THEN uses ELSE ?3 END
                    WHERE id = ?1";
                for (id, at, count) in &uses {
                    let count = i64::try_from(*count).unwrap_or(i64::MAX);
                    change.execute(update, sql_values![id, at.as_microsecond(), count])?;
                }
                Ok(())
            })
            .await
    }

    /// Returns a counter of changes of the state, by this and other processes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes()
    }
}
