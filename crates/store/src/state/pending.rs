//! Sign-ins that wait for their redirect, and links that lead to them, which the nodes of a fleet share.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use zeroize::Zeroizing;

use super::credentials::keyed;
use super::store::StatePart;
use crate::error::StoreError;
use crate::key::SealCipher;
use hospes_sql::{SqlError, SqlRow, sql_values};

/// Migration steps. Never change a step; add one.
#[cfg(feature = "postgres")]
pub(super) const POSTGRES: &[&str] = &["
    CREATE TABLE pending_documents (
        key text PRIMARY KEY, kind text NOT NULL, family text NOT NULL, stage bigint NOT NULL, until bigint NOT NULL,
        place bigint GENERATED ALWAYS AS IDENTITY, body bytea NOT NULL
    );
    CREATE INDEX pending_documents_family ON pending_documents (family, place);
    CREATE INDEX pending_documents_kind ON pending_documents (kind, place);
    CREATE INDEX pending_documents_until ON pending_documents (until);
"];

/// Maximum size of a document, in bytes.
pub const MAX_PENDING_BYTES: usize = 128 * 1024;

/// Documents that last for minutes. Each is found by a keyed hash of its secret id, and its text is sealed with the id and
/// the family in it. Stages are set, and documents taken, in a transaction that stores its attempt: so each is used once,
/// and a repetition after a lost connection is no second use.
#[derive(Clone)]
pub struct PendingRecords {
    state: StatePart,
    seal: Arc<SealCipher>,
    names: Arc<hmac::Key>,
}

/// A document to be stored, for [`PendingRecords::add`].
#[derive(Clone)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills in all of it")]
pub struct NewPendingRecord {
    /// Name of the kind, which is not secret.
    pub kind: &'static str,
    /// Secret id.
    pub id: String,
    /// Family, of which documents are listed and removed together.
    pub family: String,
    /// Text.
    pub body: Zeroizing<String>,
    /// Lifetime.
    pub lifetime: Duration,
    /// Maximum number of documents of a family.
    pub most_of_family: usize,
    /// Maximum number of documents of the kind.
    pub most: usize,
    /// True if the oldest is removed at a limit. Otherwise the new one is refused.
    pub removes_oldest: bool,
}

/// Stored document.
#[derive(Clone)]
#[expect(clippy::exhaustive_structs, reason = "the state fills in all of it")]
pub struct PendingRecord {
    /// Id.
    pub id: String,
    /// Family.
    pub family: String,
    /// Stage that was set last; 0 at first.
    pub stage: u8,
    /// Text.
    pub body: Zeroizing<String>,
    /// Remaining lifetime.
    pub left: Duration,
}

// Ids and texts are secrets.
impl fmt::Debug for NewPendingRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewPendingRecord").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl fmt::Debug for PendingRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingRecord").field("stage", &self.stage).finish_non_exhaustive()
    }
}

/// Result of adding a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the caller answers something else to each")]
pub enum PendingAddition {
    /// Stored, without a limit in the way.
    Added,
    /// Stored, after the oldest document of the family was removed.
    AddedForOldestOfFamily,
    /// Stored, after the oldest document of the kind was removed.
    AddedForOldest,
    /// Refused: the family is at its limit.
    TooManyOfFamily,
    /// Refused: the kind is at its limit.
    TooMany,
    /// Refused: the document is larger than [`MAX_PENDING_BYTES`].
    TooLarge,
}

/// Text of a document before it is sealed.
#[derive(Serialize, Deserialize)]
struct SealedText<'a> {
    id: Cow<'a, str>,
    family: Cow<'a, str>,
    body: Cow<'a, str>,
}

/// Row of a document.
struct StoredRow {
    key: String,
    stage: u8,
    until: i64,
    sealed: Vec<u8>,
}

const COLUMNS: &str = "key, stage, until, body";

impl PendingRecords {
    pub(super) fn new(state: StatePart) -> Result<Self, StoreError> {
        let seal = Arc::new(SealCipher::new(&*state.secret("pending documents")?));
        let names = Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &*state.secret("ids of pending documents")?));
        Ok(Self { state, seal, names })
    }

    /// Stores a document.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn add(&self, new: NewPendingRecord) -> Result<PendingAddition, StoreError> {
        let NewPendingRecord { kind, id, family, body, lifetime, most_of_family, most, removes_oldest } = new;
        if body.len() > MAX_PENDING_BYTES {
            return Ok(PendingAddition::TooLarge);
        }
        let (key, family_key) = (self.key(kind, &id), self.family(kind, &family));
        let text = SealedText { id: id.into(), family: family.into(), body: Cow::Borrowed(&body) };
        let text = Zeroizing::new(serde_json::to_string(&text).map_err(|_| StoreError::Sealed)?);
        let body = self.seal.seal(text.as_bytes(), key.as_bytes());
        let now = self.state.now();
        let lifetime = SignedDuration::try_from(lifetime).unwrap_or(SignedDuration::MAX);
        let until = now.saturating_add(lifetime).unwrap_or(Timestamp::MAX).as_microsecond();
        let now = now.as_microsecond();
        let limits = [("family", family_key.clone(), most_of_family), ("kind", kind.to_owned(), most)];
        self.state
            .write(move |change| {
                change.execute("DELETE FROM pending_documents WHERE until <= ?1", sql_values![now])?;
                let mut result = PendingAddition::Added;
                for (column, value, most) in &limits {
                    let is_family = *column == "family";
                    let room = i64::try_from((*most).max(1) - 1).unwrap_or(i64::MAX);
                    let count = format!("SELECT count(*) FROM pending_documents WHERE {column} = ?1");
                    let count: Option<i64> = change.query_value(&count, sql_values![value])?;
                    if count.unwrap_or_default() <= room {
                        continue;
                    }
                    if !removes_oldest {
                        return Ok(match is_family {
                            true => PendingAddition::TooManyOfFamily,
                            false => PendingAddition::TooMany,
                        });
                    }
                    let remove = format!(
                        "DELETE FROM pending_documents WHERE {column} = ?1 AND key NOT IN (
                             SELECT key FROM pending_documents WHERE {column} = ?1 ORDER BY place DESC LIMIT ?2)"
                    );
                    change.execute(&remove, sql_values![value, room])?;
                    result = match is_family {
                        true => PendingAddition::AddedForOldestOfFamily,
                        false => PendingAddition::AddedForOldest,
                    };
                }
                let put = "INSERT INTO pending_documents (key, kind, family, stage, until, body)
                           VALUES (?1, ?2, ?3, 0, ?4, ?5)";
                change.execute(put, sql_values![key, kind, family_key, until, body])?;
                Ok(result)
            })
            .await
    }

    /// Returns the document with this id.
    ///
    /// # Errors
    /// If the state cannot be read, or the document cannot be decrypted.
    pub async fn find(&self, kind: &'static str, id: &str) -> Result<Option<PendingRecord>, StoreError> {
        let (key, now) = (self.key(kind, id), self.state.now().as_microsecond());
        let sql = format!("SELECT {COLUMNS} FROM pending_documents WHERE key = ?1 AND until > ?2");
        let found = self.state.read(move |view| {
            view.query_first(&sql, sql_values![key, now])?.map(|row| stored(&row)).transpose()
        });
        found.await?.map(|row| self.open(&row)).transpose()
    }

    /// Returns the documents of a family, the oldest first.
    ///
    /// # Errors
    /// If the state cannot be read, or a document cannot be decrypted.
    pub async fn list(&self, kind: &'static str, family: &str) -> Result<Vec<PendingRecord>, StoreError> {
        let (family, now) = (self.family(kind, family), self.state.now().as_microsecond());
        let sql = format!(
            "SELECT {COLUMNS} FROM pending_documents WHERE family = ?1 AND until > ?2 ORDER BY place"
        );
        let found = self.state.read(move |view| {
            view.query(&sql, sql_values![family, now])?.iter().map(stored).collect::<Result<Vec<_>, _>>()
        });
        found.await?.iter().map(|row| self.open(row)).collect()
    }

    /// Removes the document with this id, if it is of this family, and returns it. One of several callers gets it.
    ///
    /// # Errors
    /// If it cannot be removed, or cannot be decrypted.
    pub async fn take(
        &self,
        kind: &'static str,
        id: &str,
        family: &str,
    ) -> Result<Option<PendingRecord>, StoreError> {
        let (key, family) = (self.key(kind, id), self.family(kind, family));
        let now = self.state.now().as_microsecond();
        let sql = format!(
            "DELETE FROM pending_documents WHERE key = ?1 AND family = ?2 AND until > ?3 RETURNING {COLUMNS}"
        );
        let taken = self.state.write(move |change| {
            change.query_first(&sql, sql_values![key, family, now])?.map(|row| stored(&row)).transpose()
        });
        taken.await?.map(|row| self.open(&row)).transpose()
    }

    /// Sets the stage of the document with this id, if it is at one of the stages `from`. Returns true for one of several
    /// callers.
    ///
    /// # Errors
    /// If the stage cannot be written.
    pub async fn advance(
        &self,
        kind: &'static str,
        id: &str,
        from: &[u8],
        to: u8,
    ) -> Result<bool, StoreError> {
        Ok(self.set_stage("key", self.key(kind, id), from, to).await? == 1)
    }

    /// Sets the stage of all documents of a family that are at one of the stages `from`.
    ///
    /// # Errors
    /// If the stages cannot be written.
    pub async fn advance_family(
        &self,
        kind: &'static str,
        family: &str,
        from: &[u8],
        to: u8,
    ) -> Result<(), StoreError> {
        self.set_stage("family", self.family(kind, family), from, to).await.map(drop)
    }

    async fn set_stage(
        &self,
        column: &'static str,
        value: String,
        from: &[u8],
        to: u8,
    ) -> Result<u64, StoreError> {
        if from.is_empty() {
            return Ok(0);
        }
        let from = from.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
        let now = self.state.now().as_microsecond();
        let sql = format!(
            "UPDATE pending_documents SET stage = ?3 WHERE {column} = ?1 AND until > ?2 AND stage IN ({from})"
        );
        self.state.write(move |change| change.execute(&sql, sql_values![value, now, i64::from(to)])).await
    }

    /// Removes all documents of a family.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub async fn remove_family(&self, kind: &'static str, family: &str) -> Result<(), StoreError> {
        let family = self.family(kind, family);
        let delete = "DELETE FROM pending_documents WHERE family = ?1";
        self.state.write(move |change| change.execute(delete, sql_values![family]).map(drop)).await
    }

    /// Returns a counter of changes of the state: immediate for this process, within half a second for others. It also
    /// counts changes of other parts.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.state.changes()
    }

    fn key(&self, kind: &str, id: &str) -> String {
        keyed(&self.names, kind, &format!("id {id}"))
    }

    fn family(&self, kind: &str, family: &str) -> String {
        keyed(&self.names, kind, &format!("family {family}"))
    }

    fn open(&self, row: &StoredRow) -> Result<PendingRecord, StoreError> {
        let text = Zeroizing::new(self.seal.open(&row.sealed, row.key.as_bytes())?);
        let SealedText { id, family, body } =
            serde_json::from_slice(&text).map_err(|_| StoreError::Sealed)?;
        let (id, family, body) = (id.into_owned(), family.into_owned(), Zeroizing::new(body.into_owned()));
        let left = row.until.saturating_sub(self.state.now().as_microsecond());
        let left = Duration::from_micros(u64::try_from(left).unwrap_or_default());
        Ok(PendingRecord { id, family, stage: row.stage, body, left })
    }
}

fn stored(row: &SqlRow) -> Result<StoredRow, SqlError> {
    let stage: i64 = row.get(1)?;
    let stage = u8::try_from(stage).map_err(|_| SqlError::Value { column: 1, expected: "a stage" })?;
    Ok(StoredRow { key: row.get(0)?, stage, until: row.get(2)?, sealed: row.get(3)? })
}

impl fmt::Debug for PendingRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PendingRecords").field(&self.state).finish()
    }
}
