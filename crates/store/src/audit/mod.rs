//! Audit log of events in order, which shows that nothing was changed or left out.

mod chain;
mod entry;
mod gathered;
mod search;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use jiff::Timestamp;
use rusqlite::{Connection, params_from_iter};
use serde::{Serialize, Serializer};
use tokio::sync::{mpsc, oneshot};

use crate::error::StoreError;
use crate::file;
use crate::key::{AuditKeys, KEY_BYTES, from_hex, to_hex};
use chain::ChainError;
pub use entry::{AuditEntry, AuditEntryKind, AuditOutcome};
pub use gathered::GatheredEntry;
pub use search::AuditQuery;
use writer::{AuditWriter, FlushSignal, WriterJob};

/// Default capacity of the write queue, in entries; callers wait when it is full.
pub const DEFAULT_QUEUE_CAPACITY: usize = 1024;

/// The audit record.
///
/// Each entry is bound to the one before with a keyed hash, and both ends are sealed. [`AuditLog::verify`] finds entries
/// that were changed, inserted, removed or cut off without the key. It cannot find an older copy of the whole file, or
/// a log created anew with the key. For these, note a [`AuditPosition`] elsewhere from time to time.
///
/// Cheap to clone. Dropping the last one waits until everything is written.
#[derive(Clone)]
pub struct AuditLog(Arc<AuditLogInner>);

struct AuditLogInner {
    file: PathBuf,
    keys: Arc<AuditKeys>,
    jobs: Option<mpsc::Sender<WriterJob>>,
    thread: Option<JoinHandle<()>>,
    failing: Arc<AtomicBool>,
    hurry: Arc<FlushSignal>,
    reader: Mutex<Connection>,
}

/// Position of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditPosition {
    /// Its number, from 1, without gaps.
    pub seq: u64,
    /// Keyed hash that binds the entry to all before it.
    pub bound: [u8; KEY_BYTES],
}

/// An entry that was handed over to be written.
#[derive(Debug)]
#[must_use = "the entry may not be written yet"]
pub struct PendingWrite(oneshot::Receiver<Result<AuditPosition, StoreError>>);

impl PendingWrite {
    /// Comes back when it is on the disk, with where it stands.
    ///
    /// # Errors
    /// When it could not be written; then it is not in the record.
    pub async fn place(self) -> Result<AuditPosition, StoreError> {
        self.0.await.map_err(|_| StoreError::Closed)?
    }
}

/// An entry as it stands in the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RecordedEntry {
    /// Its number.
    pub seq: u64,
    /// Keyed hash that binds the entry to all before it.
    #[serde(serialize_with = "hex")]
    pub bound: [u8; KEY_BYTES],
    /// The recorded event.
    pub entry: AuditEntry,
}

/// A record without a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifiedLog {
    /// Number of entries.
    pub entries: u64,
    /// Number of older entries that were deleted after their retention time.
    pub cut: u64,
    /// The last of all. Noted elsewhere, it shows later that nothing up to here was made anew.
    pub last: Option<AuditPosition>,
}

/// Faults found in an audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TamperEvidence {
    /// An entry is not what was recorded, or not where.
    #[error("entry {seq} was modified")]
    Changed {
        /// Its number.
        seq: u64,
    },
    /// An entry is not there.
    #[error("entry {seq} is missing")]
    Missing {
        /// Its number.
        seq: u64,
    },
    /// The place noted elsewhere is not in this record.
    #[error("entry {seq} does not match the noted position")]
    NotAsNoted {
        /// Its number.
        seq: u64,
    },
    /// The beginning or the end of the log was changed, or created with another key.
    #[error("the sealed first or last entry of the log does not match")]
    End,
}

impl AuditLog {
    /// The record in this file, bound with the key in that one. Both are made if they are not there, for their owner
    /// alone.
    ///
    /// # Errors
    /// When one of the files cannot be used, the key is gone or open to others, or the file is of a newer version.
    pub fn open(file: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self, StoreError> {
        let file = file.as_ref().to_owned();
        let database = |source| StoreError::Database { file: file.clone(), source: Arc::new(source) };
        let connection = file::open(&file, &chain::MIGRATIONS)?;
        let begun = chain::has_begun(&connection).map_err(database)?;
        // A record that has begun needs its own key: with a new one every entry would look forged.
        let keys = Arc::new(AuditKeys::open(key.as_ref(), !begun)?);
        let reader = Mutex::new(file::open(&file, &chain::MIGRATIONS)?);
        let failing = Arc::new(AtomicBool::new(false));
        let (jobs, waiting) = mpsc::channel(DEFAULT_QUEUE_CAPACITY);
        let hurry = Arc::new(FlushSignal::default());
        let writer = AuditWriter {
            connection,
            keys: Arc::clone(&keys),
            file: file.clone(),
            failing: Arc::clone(&failing),
            hurry: Arc::clone(&hurry),
        };
        // A thread instead of a task: it waits for the disk, and `Drop` has to wait for it without a
        // runtime.
        let thread = std::thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run(waiting));
        let thread = thread.map_err(|source| StoreError::File { file: file.clone(), source })?;
        Ok(Self(Arc::new(AuditLogInner {
            file,
            keys,
            jobs: Some(jobs),
            thread: Some(thread),
            failing,
            hurry,
            reader,
        })))
    }

    /// Records an entry, and comes back when it is on the disk.
    ///
    /// # Errors
    /// When it could not be written; then it is not in the record.
    pub async fn record(&self, entry: AuditEntry) -> Result<AuditPosition, StoreError> {
        self.submit(entry).await?.place().await
    }

    /// Hands an entry over to be written at once, with what else has been handed over: all of it goes to the disk together.
    /// Once this has come back the entry is on its way, whether anybody waits for its [`AuditPosition`] or not.
    ///
    /// # Errors
    /// When nothing is written any more.
    pub async fn submit(&self, entry: AuditEntry) -> Result<PendingWrite, StoreError> {
        let (done, written) = oneshot::channel();
        self.send(WriterJob::Write(Box::new(entry), Some(done))).await?;
        Ok(PendingWrite(written))
    }

    /// Hands an entry over to be written soon, in its order: within some hundredths of a second, with what else came
    /// meanwhile. Comes back at once unless [`DEFAULT_QUEUE_CAPACITY`] are waiting. A process that is killed in between takes with it
    /// what was not written yet; [`AuditLog::record`] is for what must be there.
    ///
    /// # Errors
    /// When what came before could not be written, and this one neither.
    pub async fn enqueue(&self, entry: AuditEntry) -> Result<(), StoreError> {
        // While writes fail a note is waited for, so that its caller learns that it is not kept.
        if self.0.failing.load(Ordering::Acquire) {
            return self.record(entry).await.map(drop);
        }
        match self.try_enqueue(entry) {
            Ok(()) => Ok(()),
            Err(entry) => self.send(WriterJob::Write(entry, None)).await,
        }
    }

    /// Adds an entry as [`AuditLog::enqueue`] does, for code that cannot wait.
    ///
    /// # Errors
    /// The entry, when there is no room for it or nothing is written any more.
    pub fn try_enqueue(&self, entry: AuditEntry) -> Result<(), Box<AuditEntry>> {
        let Some(jobs) = &self.0.jobs else { return Err(Box::new(entry)) };
        // Before there is no room any more.
        if jobs.capacity() <= DEFAULT_QUEUE_CAPACITY / 2 {
            self.0.request_flush();
        }
        // Room is reserved first, so that the entry can be handed back if there is none.
        let Ok(room) = jobs.try_reserve() else { return Err(Box::new(entry)) };
        room.send(WriterJob::Write(Box::new(entry), None));
        Ok(())
    }

    /// Returns true if the last entry could not be written.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.0.failing.load(Ordering::Acquire)
    }

    /// Checks that events can be recorded. If the last entry could not be written, another attempt is made.
    ///
    /// # Errors
    /// Why it cannot.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        if !self.0.failing.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut entry = AuditEntry::new(AuditEntryKind::Server);
        entry.subject = Some("audit log writes resumed".to_owned());
        self.record(entry).await.map(drop)
    }

    /// Comes back when everything that was handed over before is on the disk, or could not be written.
    ///
    /// # Errors
    /// When nothing is written any more.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let (done, flushed) = oneshot::channel();
        self.send(WriterJob::Flush(done)).await?;
        flushed.await.map_err(|_| StoreError::Closed)
    }

    /// Sends a job that a caller waits for, and wakes the writer.
    async fn send(&self, job: WriterJob) -> Result<(), StoreError> {
        let jobs = self.0.jobs.as_ref().ok_or(StoreError::Closed)?;
        // Where there is no room, nobody is to wait for what is being gathered.
        let room = match jobs.try_reserve() {
            Ok(room) => room,
            Err(_) => {
                self.0.request_flush();
                jobs.reserve().await.map_err(|_| StoreError::Closed)?
            }
        };
        room.send(job);
        self.0.request_flush();
        Ok(())
    }

    /// Seals the arguments of a call into its entry. Everything else of the entry that says whose call it was must
    /// stand there already.
    pub fn seal(&self, entry: &mut AuditEntry, arguments: &str) {
        let sealed = self.0.keys.seal(arguments.as_bytes(), &entry.seal_context());
        entry.sealed = Some(BASE64.encode(sealed));
    }

    /// Opens the arguments sealed into an entry; `None` if there are none.
    ///
    /// # Errors
    /// When they were sealed with another key or for another entry.
    pub fn unseal(&self, entry: &AuditEntry) -> Result<Option<String>, StoreError> {
        let Some(sealed) = &entry.sealed else { return Ok(None) };
        let sealed = BASE64.decode(sealed).map_err(|_| StoreError::Sealed)?;
        let text = self.0.keys.open_sealed(&sealed, &entry.seal_context())?;
        String::from_utf8(text).map(Some).map_err(|_| StoreError::Sealed)
    }

    /// The entries wanted, newest first.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn search(&self, search: AuditQuery) -> Result<Vec<RecordedEntry>, StoreError> {
        let (condition, mut values) = search.condition();
        values.push(i64::try_from(search.limit).unwrap_or(i64::MAX).into());
        let sql = format!("SELECT seq, bound, entry FROM audit WHERE {condition} ORDER BY seq DESC LIMIT ?");
        self.read(move |connection, _| recorded(connection, &sql, values)).await
    }

    /// Entries in their order, beginning after a number: for going through all of them, page by page.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn after(&self, seq: u64, limit: usize) -> Result<Vec<RecordedEntry>, StoreError> {
        let sql = "SELECT seq, bound, entry FROM audit WHERE seq > ? ORDER BY seq LIMIT ?";
        let values = vec![chain::number(seq).into(), i64::try_from(limit).unwrap_or(i64::MAX).into()];
        self.read(move |connection, _| recorded(connection, sql, values)).await
    }

    /// Goes through the whole record and looks whether it is what was recorded. `noted` is a place that was written
    /// down elsewhere.
    ///
    /// # Errors
    /// [`StoreError::Tampered`] with the first thing that is wrong, else when the file cannot be read.
    pub async fn verify(&self, noted: Option<AuditPosition>) -> Result<VerifiedLog, StoreError> {
        self.read(move |connection, keys| chain::verify(connection, keys, noted)).await
    }

    /// Forgets what happened before a moment; how many entries that were. That they were, and where the record begins
    /// now, is sealed.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn delete_before(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.read(move |connection, keys| chain::delete_before(connection, keys, before.as_microsecond()))
            .await
    }

    /// Runs `work` on the second connection, so that waiting for the disk does not delay writers.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection, &AuditKeys) -> Result<T, ChainError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // What was noted is found.
        self.flush().await?;
        let inner = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || {
            let mut reader = inner.reader.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut reader, &inner.keys).map_err(|failed| failed.at(&inner.file))
        });
        done.await.map_err(|_| StoreError::Closed)?
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AuditLog").field(&self.0.file).finish()
    }
}

impl AuditLogInner {
    /// Ends the gathering of entries, because a caller waits.
    fn request_flush(&self) {
        if let Some(thread) = &self.thread {
            self.hurry.raise(thread.thread());
        }
    }
}

impl Drop for AuditLogInner {
    fn drop(&mut self) {
        // The writer ends when the channel is closed; joined before that, it would never end.
        self.jobs = None;
        self.request_flush();
        // What was handed over is written before anybody may think that it is.
        if let Some(thread) = self.thread.take() {
            // A panic of the writer was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl fmt::Display for AuditPosition {
    /// `12:9f86…`, to be noted elsewhere.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, to_hex(&self.bound))
    }
}

impl std::str::FromStr for AuditPosition {
    type Err = ParsePositionError;

    fn from_str(text: &str) -> Result<Self, ParsePositionError> {
        let (seq, bound) = text.split_once(':').ok_or(ParsePositionError)?;
        Ok(Self {
            seq: seq.parse().map_err(|_| ParsePositionError)?,
            bound: *from_hex(bound).ok_or(ParsePositionError)?,
        })
    }
}

/// A text that is no [`AuditPosition`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid audit log position: expected a sequence number, a colon and {} hexadecimal digits", 2 * KEY_BYTES)]
#[non_exhaustive]
pub struct ParsePositionError;

fn recorded(
    connection: &Connection,
    sql: &str,
    values: Vec<rusqlite::types::Value>,
) -> Result<Vec<RecordedEntry>, ChainError> {
    let mut query = connection.prepare_cached(sql)?;
    let mut rows = query.query(params_from_iter(values))?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        let seq = u64::try_from(seq).unwrap_or_default();
        let bound: Vec<u8> = row.get(1)?;
        let text = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?;
        // What we cannot read we did not write.
        let changed = || ChainError::Tampered(TamperEvidence::Changed { seq });
        let entry = serde_json::from_str(text).map_err(|_| changed())?;
        all.push(RecordedEntry { seq, bound: bound.try_into().map_err(|_| changed())?, entry });
    }
    Ok(all)
}

fn hex<S: Serializer>(bound: &[u8; KEY_BYTES], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&to_hex(bound))
}
