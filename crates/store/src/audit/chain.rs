//! Rows of the audit log: each bound to the one before, with both ends sealed.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use subtle::ConstantTimeEq as _;

use super::position::AuditPosition;
use super::tamper_evidence::TamperEvidence;
use crate::error::StoreError;
use crate::hex::KEY_BYTES;
use crate::key::AuditKeys;

/// Schema of the file, by version: each step is run once, in order. Never change a step; add one.
///
/// Searched columns are computed from the bound text, so that there is nothing beside it to be changed. `ends` holds
/// the entry before the first one, because older entries may have been deleted, and the last entry.
pub(super) const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE audit (
        seq INTEGER PRIMARY KEY, entry TEXT NOT NULL, bound BLOB NOT NULL,
        at INTEGER GENERATED ALWAYS AS (json_extract(entry, '$.at')) VIRTUAL,
        kind TEXT GENERATED ALWAYS AS (json_extract(entry, '$.kind')) VIRTUAL,
        server TEXT GENERATED ALWAYS AS (json_extract(entry, '$.server')) VIRTUAL,
        subject TEXT GENERATED ALWAYS AS (json_extract(entry, '$.subject')) VIRTUAL,
        principal TEXT GENERATED ALWAYS AS (json_extract(entry, '$.principal')) VIRTUAL,
        application TEXT GENERATED ALWAYS AS (json_extract(entry, '$.application')) VIRTUAL,
        decision TEXT GENERATED ALWAYS AS (json_extract(entry, '$.decision')) VIRTUAL
    );
    CREATE INDEX audit_at ON audit (at);
    CREATE INDEX audit_server ON audit (server, subject);
    CREATE INDEX audit_kind ON audit (kind);
    CREATE TABLE ends (which TEXT PRIMARY KEY, seq INTEGER NOT NULL, bound BLOB NOT NULL, seal BLOB NOT NULL) WITHOUT ROWID;
    CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
        BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
    CREATE TRIGGER audit_is_not_cut BEFORE DELETE ON audit
        WHEN OLD.seq > (SELECT seq FROM ends WHERE which = 'first')
        BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
"];

/// Position before the very first entry.
const NOTHING: AuditPosition = AuditPosition { seq: 0, bound: [0; KEY_BYTES] };

#[derive(Clone, Copy)]
enum ChainEnd {
    First,
    Last,
}

impl ChainEnd {
    fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
        }
    }
}

/// Result of a successful verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifiedLog {
    /// Number of entries.
    pub entries: u64,
    /// Number of older entries that were deleted after their retention time.
    pub cut: u64,
    /// Position of the last entry. Noted elsewhere, it later proves that the log up to here was not created anew.
    pub last: Option<AuditPosition>,
}

/// Errors of a connection; the caller adds the file.
#[derive(Clone, Debug)]
pub(super) enum ChainError {
    Database(Arc<rusqlite::Error>),
    Tampered(TamperEvidence),
}

impl From<rusqlite::Error> for ChainError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(Arc::new(error))
    }
}

impl ChainError {
    pub(super) fn at(self, file: &Path) -> StoreError {
        match self {
            Self::Database(source) => StoreError::Database { file: file.to_owned(), source },
            Self::Tampered(found) => StoreError::Tampered { file: file.to_owned(), found },
        }
    }
}

/// Returns true if any entry was ever recorded.
pub(super) fn has_begun(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .query_row("SELECT EXISTS (SELECT 1 FROM ends) OR EXISTS (SELECT 1 FROM audit)", [], |row| row.get(0))
}

/// Number of entries after which a thread that is in no hurry lets others run. On one processor, a large batch would
/// otherwise delay all calls by milliseconds.
const ENTRIES_PER_TURN: usize = 8;

/// Appends all entries or none. Other processes may have appended entries in the meantime. Other threads run in between
/// while `may_yield` returns true.
pub(super) fn append<'a>(
    connection: &mut Connection,
    keys: &AuditKeys,
    texts: impl ExactSizeIterator<Item = &'a str>,
    may_yield: impl Fn() -> bool,
) -> Result<Vec<AuditPosition>, ChainError> {
    // Immediate, because the last end must not change between being read here and being replaced below.
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut last = match end(&change, keys, ChainEnd::Last)? {
        Some(last) => last,
        // There are entries, or the other end, so this end was removed.
        None if has_begun(&change)? => return Err(ChainError::Tampered(TamperEvidence::End)),
        None => {
            set_end(&change, keys, ChainEnd::First, NOTHING)?;
            NOTHING
        }
    };
    let mut places = Vec::with_capacity(texts.len());
    // The statement borrows the transaction and has to be dropped before the commit.
    {
        let mut insert =
            change.prepare_cached("INSERT INTO audit (seq, entry, bound) VALUES (?1, ?2, ?3)")?;
        for (count, text) in texts.enumerate() {
            if count % ENTRIES_PER_TURN == ENTRIES_PER_TURN - 1 && may_yield() {
                std::thread::yield_now();
            }
            last = following(keys, last, text);
            insert.execute(params![number(last.seq), text, last.bound])?;
            places.push(last);
        }
    }
    set_end(&change, keys, ChainEnd::Last, last)?;
    change.commit()?;
    Ok(places)
}

/// Deletes all entries before a moment and seals the new beginning. Returns the number of deleted entries.
pub(super) fn delete_before(
    connection: &mut Connection,
    keys: &AuditKeys,
    before: i64,
) -> Result<u64, ChainError> {
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let Some(first) = end(&change, keys, ChainEnd::First)? else { return Ok(0) };
    // Up to the first entry that stays, so that the order is kept even if a clock was set back.
    let sql = "SELECT seq, bound FROM audit WHERE seq < ifnull((SELECT min(seq) FROM audit WHERE at >= ?1), 1 << 62)
        ORDER BY seq DESC LIMIT 1";
    let last_gone = change.query_row(sql, [before], place).optional()?;
    let Some(last_gone) = last_gone else { return Ok(0) };
    // The end first, because the trigger allows deleting only entries up to the sealed beginning.
    set_end(&change, keys, ChainEnd::First, last_gone)?;
    change.execute("DELETE FROM audit WHERE seq <= ?1", [number(last_gone.seq)])?;
    change.commit()?;
    Ok(last_gone.seq - first.seq)
}

/// Verifies the whole log. `noted` is a position that was written down elsewhere. A person with the key and the file
/// can create a new log, but not one with that position in it.
pub(super) fn verify(
    connection: &mut Connection,
    keys: &AuditKeys,
    noted: Option<AuditPosition>,
) -> Result<VerifiedLog, ChainError> {
    // A consistent view, while others write.
    let view = connection.transaction()?;
    let tampered = |found| Err(ChainError::Tampered(found));
    let (first, last) = (end(&view, keys, ChainEnd::First)?, end(&view, keys, ChainEnd::Last)?);
    let (first, last) = match (first, last) {
        (Some(first), Some(last)) => (first, last),
        (None, None) if !has_begun(&view)? => (NOTHING, NOTHING),
        _ => return tampered(TamperEvidence::End),
    };
    // Entries deleted since then can no longer be compared.
    let mut noted = noted.filter(|noted| noted.seq > first.seq);
    let mut here = first;
    let mut rows = view.prepare("SELECT seq, bound, entry FROM audit ORDER BY seq")?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let (found, text) = (place(row)?, row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?);
        let wanted = following(keys, here, text);
        if found.seq != wanted.seq {
            return tampered(TamperEvidence::Missing { seq: wanted.seq });
        }
        if !is_same(&found.bound, &wanted.bound) {
            return tampered(TamperEvidence::Changed { seq: wanted.seq });
        }
        if noted.is_some_and(|noted| noted.seq == found.seq && noted.bound != found.bound) {
            return tampered(TamperEvidence::NotAsNoted { seq: found.seq });
        }
        noted = noted.filter(|noted| noted.seq != found.seq);
        here = found;
    }
    if here.seq < last.seq {
        return tampered(TamperEvidence::Missing { seq: here.seq + 1 });
    }
    if here.seq > last.seq || !is_same(&here.bound, &last.bound) {
        return tampered(TamperEvidence::End);
    }
    if let Some(noted) = noted {
        return tampered(TamperEvidence::Missing { seq: noted.seq });
    }
    Ok(VerifiedLog { entries: last.seq - first.seq, cut: first.seq, last: (last.seq > 0).then_some(last) })
}

/// Returns the position of the entry that follows `before`.
fn following(keys: &AuditKeys, before: AuditPosition, text: &str) -> AuditPosition {
    let seq = before.seq + 1;
    AuditPosition { seq, bound: keys.bind(&[b"entry", &seq.to_be_bytes(), &before.bound, text.as_bytes()]) }
}

fn seal(keys: &AuditKeys, which: ChainEnd, at: AuditPosition) -> [u8; KEY_BYTES] {
    keys.bind(&[b"end", which.as_str().as_bytes(), &at.seq.to_be_bytes(), &at.bound])
}

fn end(
    connection: &Connection,
    keys: &AuditKeys,
    which: ChainEnd,
) -> Result<Option<AuditPosition>, ChainError> {
    let mut query = connection.prepare_cached("SELECT seq, bound, seal FROM ends WHERE which = ?1")?;
    let found =
        query.query_row([which.as_str()], |row| Ok((place(row)?, row.get::<_, Vec<u8>>(2)?))).optional()?;
    match found {
        Some((at, sealed)) if is_same(&sealed, &seal(keys, which, at)) => Ok(Some(at)),
        Some(_) => Err(ChainError::Tampered(TamperEvidence::End)),
        None => Ok(None),
    }
}

fn set_end(
    connection: &Connection,
    keys: &AuditKeys,
    which: ChainEnd,
    at: AuditPosition,
) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO ends (which, seq, bound, seal) VALUES (?1, ?2, ?3, ?4)";
    let sealed = seal(keys, which, at);
    connection
        .prepare_cached(sql)?
        .execute(params![which.as_str(), number(at.seq), at.bound, sealed])
        .map(drop)
}

/// Reads a row that begins with a number and its keyed hash. A hash of another length was not written by this program.
fn place(row: &rusqlite::Row<'_>) -> rusqlite::Result<AuditPosition> {
    let seq: i64 = row.get(0)?;
    let bound: Vec<u8> = row.get(1)?;
    Ok(AuditPosition {
        seq: u64::try_from(seq).unwrap_or_default(),
        bound: bound.try_into().unwrap_or([0; KEY_BYTES]),
    })
}

fn is_same(one: &[u8], other: &[u8]) -> bool {
    bool::from(one.ct_eq(other))
}

/// Converts a number to SQLite's integer type.
pub(super) fn number(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}
