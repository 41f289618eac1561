//! Entries of the audit log: each bound to the one before, with both ends sealed.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use subtle::ConstantTimeEq as _;

use super::block::{self, BlockSummary, EntryBlock, MAX_BLOCK_ENTRIES, NewEntry};
use super::position::AuditPosition;
use super::tamper_evidence::TamperEvidence;
use crate::error::StoreError;
use crate::hex::KEY_BYTES;
use crate::key::AuditKeys;

/// Schema of the file, by version: each step is run once, in order. Never change a step; add one.
///
/// `ends` holds the entry before the first one, because older entries may have been deleted, and the last entry.
///
/// The second step replaces a row for each entry by one for each [`EntryBlock`]. What stands beside the texts of its entries
/// only serves to find it, and verification compares it with them.
pub(super) const MIGRATIONS: [&str; 2] = [
    "
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
",
    "
    CREATE TABLE blocks (
        last INTEGER PRIMARY KEY, first INTEGER NOT NULL, first_at INTEGER NOT NULL, last_at INTEGER NOT NULL,
        kinds INTEGER NOT NULL, before BLOB NOT NULL, bound BLOB NOT NULL, entries TEXT NOT NULL
    );
    CREATE TABLE block_names (
        server TEXT NOT NULL, subject TEXT NOT NULL, last INTEGER NOT NULL, PRIMARY KEY (server, subject, last)
    ) WITHOUT ROWID;
    INSERT INTO blocks (last, first, first_at, last_at, kinds, before, bound, entries)
        SELECT seq, seq, ifnull(at, 0), ifnull(at, 0),
            CASE kind WHEN 'call' THEN 1 WHEN 'prompt' THEN 2 WHEN 'resource' THEN 4 WHEN 'completion' THEN 8
                WHEN 'subscription' THEN 16 WHEN 'task' THEN 32 WHEN 'decision' THEN 64 WHEN 'definition' THEN 128
                WHEN 'server' THEN 256 WHEN 'sampling' THEN 512 WHEN 'elicitation' THEN 1024 WHEN 'roots' THEN 2048
                WHEN 'sign_in' THEN 4096 WHEN 'policy' THEN 8192 ELSE 0 END,
            lag(bound, 1, (SELECT bound FROM ends WHERE which = 'first')) OVER (ORDER BY seq), bound, entry
        FROM audit ORDER BY seq;
    INSERT INTO block_names (server, subject, last)
        SELECT server, ifnull(subject, ''), seq FROM audit WHERE server IS NOT NULL;
    DROP TABLE audit;
    CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON blocks
        BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
    CREATE TRIGGER audit_is_not_cut BEFORE DELETE ON blocks
        WHEN OLD.last > (SELECT seq FROM ends WHERE which = 'first')
        BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END;
",
];

/// A value and its position.
pub(super) type AtPosition<T> = (AuditPosition, T);

/// Position before the very first entry.
pub(super) const NOTHING: AuditPosition = AuditPosition { seq: 0, bound: [0; KEY_BYTES] };

#[derive(Clone, Copy)]
pub(super) enum ChainEnd {
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
    connection.query_row("SELECT EXISTS (SELECT 1 FROM ends) OR EXISTS (SELECT 1 FROM blocks)", [], |row| {
        row.get(0)
    })
}

/// Number of entries after which a thread that is in no hurry lets others run. On one processor, a large batch would
/// otherwise delay all calls.
const ENTRIES_PER_TURN: usize = 16;

/// Appends all entries or none. Other processes may have appended entries in the meantime. Other threads run in between
/// while `may_yield` returns true.
pub(super) fn append<'a>(
    connection: &mut Connection,
    keys: &AuditKeys,
    entries: impl ExactSizeIterator<Item = &'a NewEntry>,
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
    let mut places = Vec::with_capacity(entries.len());
    let mut entries = entries.peekable();
    while entries.peek().is_some() {
        let (before, mut text, mut summary) = (last, String::new(), BlockSummary::default());
        for (count, entry) in entries.by_ref().take(MAX_BLOCK_ENTRIES).enumerate() {
            if count % ENTRIES_PER_TURN == ENTRIES_PER_TURN - 1 && may_yield() {
                std::thread::yield_now();
            }
            if count > 0 {
                text.push('\n');
            }
            text.push_str(entry.text());
            summary.add(entry);
            last = following(keys, last, entry.text());
            places.push(last);
        }
        insert(&change, &EntryBlock { before, first: before.seq + 1, last, entries: text }, &summary)?;
    }
    set_end(&change, keys, ChainEnd::Last, last)?;
    change.commit()?;
    Ok(places)
}

fn insert(connection: &Connection, block: &EntryBlock, summary: &BlockSummary) -> rusqlite::Result<()> {
    let EntryBlock { before, first, last, entries } = block;
    let (first_at, last_at) = summary.at.unwrap_or_default();
    let sql = "INSERT INTO blocks (last, first, first_at, last_at, kinds, before, bound, entries)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    connection.prepare_cached(sql)?.execute(params![
        number(last.seq),
        number(*first),
        first_at,
        last_at,
        summary.kinds,
        before.bound,
        last.bound,
        entries
    ])?;
    let sql = "INSERT INTO block_names (server, subject, last) VALUES (?1, ?2, ?3)";
    let mut insert = connection.prepare_cached(sql)?;
    for (server, subject) in &summary.names {
        insert.execute(params![server, subject, number(last.seq)])?;
    }
    Ok(())
}

/// Deletes the blocks whose entries are all from before a moment, and seals the new beginning. Returns the number of deleted entries.
pub(super) fn delete_before(
    connection: &mut Connection,
    keys: &AuditKeys,
    before: i64,
) -> Result<u64, ChainError> {
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let Some(first) = end(&change, keys, ChainEnd::First)? else { return Ok(0) };
    // Up to the first entry that stays, so that the order is kept even if a clock was set back.
    let sql = "SELECT last, bound FROM blocks
        WHERE last < ifnull((SELECT min(last) FROM blocks WHERE last_at >= ?1), 1 << 62)
        ORDER BY last DESC LIMIT 1";
    let last_gone = change.query_row(sql, [before], place).optional()?;
    let Some(last_gone) = last_gone else { return Ok(0) };
    // The end first, because the trigger allows deleting only entries up to the sealed beginning.
    set_end(&change, keys, ChainEnd::First, last_gone)?;
    change.execute("DELETE FROM blocks WHERE last <= ?1", [number(last_gone.seq)])?;
    change.execute("DELETE FROM block_names WHERE last <= ?1", [number(last_gone.seq)])?;
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
    let mut names = 0;
    let sql = format!("SELECT {}, first_at, last_at, kinds FROM blocks ORDER BY last", block::COLUMNS);
    let mut rows = view.prepare(&sql)?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let found = block::read(row)?;
        if found.first > here.seq + 1 {
            return tampered(TamperEvidence::Missing { seq: here.seq + 1 });
        }
        let positions = found.positions(keys);
        let is_last =
            |place: &AuditPosition| place.seq == found.last.seq && is_same(&place.bound, &found.last.bound);
        let is_bound = found.first == here.seq + 1
            && is_same(&found.before.bound, &here.bound)
            && positions.last().is_some_and(is_last);
        let summary = found.summary();
        if !is_bound || !is_stored(&view, &summary, &found, row)? {
            return tampered(TamperEvidence::Changed { seq: here.seq + 1 });
        }
        let same = |place: &&AuditPosition| noted.is_some_and(|noted| noted.seq == place.seq);
        if let Some(place) = positions.iter().find(same) {
            if noted.is_some_and(|noted| noted.bound != place.bound) {
                return tampered(TamperEvidence::NotAsNoted { seq: place.seq });
            }
            noted = None;
        }
        names += summary.names.len();
        here = found.last;
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
    let stored: i64 = view.query_row("SELECT count(*) FROM block_names", [], |row| row.get(0))?;
    if usize::try_from(stored) != Ok(names) {
        return tampered(TamperEvidence::Changed { seq: here.seq });
    }
    Ok(VerifiedLog { entries: last.seq - first.seq, cut: first.seq, last: (last.seq > 0).then_some(last) })
}

/// Returns true if the stored summary of a block is that of its entries.
fn is_stored(
    connection: &Connection,
    summary: &BlockSummary,
    found: &EntryBlock,
    row: &rusqlite::Row<'_>,
) -> rusqlite::Result<bool> {
    let stored = (Some((row.get("first_at")?, row.get("last_at")?)), row.get::<_, i64>("kinds")?);
    if (summary.at, summary.kinds) != stored {
        return Ok(false);
    }
    let sql = "SELECT EXISTS (SELECT 1 FROM block_names WHERE server = ?1 AND subject = ?2 AND last = ?3)";
    let mut query = connection.prepare_cached(sql)?;
    for (server, subject) in &summary.names {
        if !query.query_row(params![server, subject, number(found.last.seq)], |row| row.get(0))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the position of the entry that follows `before`.
pub(super) fn following(keys: &AuditKeys, before: AuditPosition, text: &str) -> AuditPosition {
    let seq = before.seq + 1;
    AuditPosition { seq, bound: keys.bind(&[b"entry", &seq.to_be_bytes(), &before.bound, text.as_bytes()]) }
}

/// Returns the seal of an end of the log.
pub(super) fn seal(keys: &AuditKeys, which: ChainEnd, at: AuditPosition) -> [u8; KEY_BYTES] {
    keys.bind(&[b"end", which.as_str().as_bytes(), &at.seq.to_be_bytes(), &at.bound])
}

pub(super) fn end(
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

pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    bool::from(one.ct_eq(other))
}

/// Converts a number to SQLite's integer type.
pub(super) fn number(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}
