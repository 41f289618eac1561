//! The audit log: a sequence of events that reveals changed or missing entries.

mod block;
mod chain;
mod digest;
mod entry;
mod flush_signal;
mod gathered;
mod position;
mod reader;
mod search;
#[cfg(feature = "postgres")]
mod shared;
#[cfg(feature = "postgres")]
mod spool;
mod tamper_evidence;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use hospes_sql::sqlite;
use jiff::Timestamp;
use parking_lot::Mutex;
use rusqlite::Connection;
use serde::{Serialize, Serializer};
use tokio::sync::{mpsc, oneshot};

use crate::error::StoreError;
use crate::hex::{KEY_BYTES, to_hex};
use crate::key::AuditKeys;
use block::NewEntry;
use chain::ChainError;
pub use chain::VerifiedLog;
pub use digest::{AFTER_UNTRUSTED, AuditDigest, PassedCalls, ServerDigest};
pub use entry::{AuditEntry, AuditEntryKind, AuditOutcome, DecisionBasis};
use flush_signal::FlushSignal;
pub use gathered::GatheredEntry;
pub use position::{AuditPosition, ParsePositionError};
pub use reader::AuditReader;
pub use search::AuditQuery;
#[cfg(feature = "postgres")]
pub use shared::{
    AuditAnchor, AuditShipper, SharedAuditLog, SharedTamperEvidence, VerifiedChain, VerifiedSharedLog,
};
#[cfg(feature = "postgres")]
pub(crate) use shared::{DecisionChain, POSTGRES as SHARED_SCHEMA};
pub use tamper_evidence::TamperEvidence;
pub use writer::DEFAULT_QUEUE_CAPACITY;
use writer::{AuditWriter, WriterJob};

/// The audit log.
///
/// Each entry is bound to the previous one by a keyed hash, and both ends are sealed. [`AuditLog::verify`] finds
/// entries that were changed, inserted, removed or cut off without the key. It cannot find an older copy of the whole
/// file, or a log created anew with the key. For these, note a [`AuditPosition`] elsewhere from time to time.
///
/// Cheap to clone. Dropping the last clone waits until all entries are written.
#[derive(Clone)]
pub struct AuditLog(Arc<AuditLogInner>);

struct AuditLogInner {
    file: PathBuf,
    keys: Arc<AuditKeys>,
    jobs: Option<mpsc::Sender<WriterJob>>,
    thread: Option<JoinHandle<()>>,
    failing: Arc<AtomicBool>,
    flush: Arc<FlushSignal>,
    reader: Mutex<Connection>,
}

/// An entry that has been submitted for writing.
#[derive(Debug)]
#[must_use = "the entry may not be written yet"]
pub struct PendingWrite(oneshot::Receiver<Result<AuditPosition, StoreError>>);

impl PendingWrite {
    /// Waits until the entry is on disk and returns its position.
    ///
    /// # Errors
    /// If the entry could not be written. It is not in the log then.
    pub async fn place(self) -> Result<AuditPosition, StoreError> {
        self.0.await.map_err(|_| StoreError::Closed)?
    }
}

/// A recorded entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RecordedEntry {
    /// Number of the entry.
    pub seq: u64,
    /// Keyed hash that binds the entry to all entries before it.
    #[serde(serialize_with = "hex")]
    pub bound: [u8; KEY_BYTES],
    /// The recorded event.
    pub entry: AuditEntry,
    /// Node that recorded it; `None` in the log of one host.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub origin: Option<EntryOrigin>,
}

/// Place of an entry in the log of the node that recorded it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EntryOrigin {
    /// Name of the node.
    pub node: Arc<str>,
    /// Id of the chain of entries: that of the node's file.
    pub chain: Arc<str>,
    /// Number of the entry in its chain.
    #[serde(rename = "chainSeq")]
    pub seq: u64,
}

impl AuditLog {
    /// Opens the log in `file` with the key in `key`. Missing files are created, accessible to their owner alone.
    ///
    /// # Errors
    /// If one of the files cannot be used, the key of an existing log is missing or accessible to others, or the file
    /// has a newer version.
    pub fn open(file: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self, StoreError> {
        let file = file.as_ref().to_owned();
        let database = |source| StoreError::Database { file: file.clone(), source: Arc::new(source) };
        let connection = sqlite::open(&file, &chain::MIGRATIONS)?;
        let begun = chain::has_begun(&connection).map_err(database)?;
        // An existing log needs its own key: with a new one every entry would look forged.
        let keys = Arc::new(AuditKeys::open(key.as_ref(), !begun)?);
        let reader = Mutex::new(sqlite::open(&file, &chain::MIGRATIONS)?);
        let failing = Arc::new(AtomicBool::new(false));
        let (jobs, waiting) = mpsc::channel(DEFAULT_QUEUE_CAPACITY);
        let flush = Arc::new(FlushSignal::default());
        let writer = AuditWriter {
            connection,
            keys: Arc::clone(&keys),
            file: file.clone(),
            failing: Arc::clone(&failing),
            flush: Arc::clone(&flush),
            expected: 1,
            last_write: Duration::ZERO,
        };
        // A thread instead of a task: it blocks on the disk, and `Drop` has to wait for it without a runtime.
        let thread = std::thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run(waiting));
        let thread = thread.map_err(|source| StoreError::File { file: file.clone(), source })?;
        Ok(Self(Arc::new(AuditLogInner {
            file,
            keys,
            jobs: Some(jobs),
            thread: Some(thread),
            failing,
            flush,
            reader,
        })))
    }

    /// Checks an existing file without changing it: it is not damaged, and of no newer version. The chain of its entries
    /// is checked by [`AuditLog::verify`].
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or has a newer version.
    pub fn examine(file: impl AsRef<Path>) -> Result<(), StoreError> {
        sqlite::examine(file.as_ref(), chain::MIGRATIONS.len())?;
        Ok(())
    }

    /// Records an entry and waits until it is on disk.
    ///
    /// # Errors
    /// If the entry could not be written. It is not in the log then.
    pub async fn record(&self, entry: AuditEntry) -> Result<AuditPosition, StoreError> {
        self.submit(&entry).await?.place().await
    }

    /// Submits an entry for immediate writing, together with all other submitted entries. It is written even if the
    /// returned [`PendingWrite`] is dropped.
    ///
    /// # Errors
    /// If the writer has ended.
    pub async fn submit(&self, entry: &AuditEntry) -> Result<PendingWrite, StoreError> {
        let (done, written) = oneshot::channel();
        self.send(WriterJob::Write((NewEntry::new(entry), Some(done)))).await?;
        Ok(PendingWrite(written))
    }

    /// Queues an entry for writing, in order and within a few hundredths of a second. Waits only if
    /// [`DEFAULT_QUEUE_CAPACITY`] entries are queued. Queued entries are lost if the process is killed before they are
    /// written; use [`AuditLog::record`] for entries that must not be lost.
    ///
    /// # Errors
    /// If earlier entries could not be written, and this one could not either.
    pub async fn enqueue(&self, entry: AuditEntry) -> Result<(), StoreError> {
        // While writes fail, the entry is waited for, so that the caller learns that it is not recorded.
        if self.0.failing.load(Ordering::Acquire) {
            return self.record(entry).await.map(drop);
        }
        match self.try_enqueue(entry) {
            Ok(()) => Ok(()),
            Err(entry) => self.send(WriterJob::Write((NewEntry::new(&entry), None))).await,
        }
    }

    /// Queues an entry as [`AuditLog::enqueue`] does, for code that cannot wait.
    ///
    /// # Errors
    /// The entry, if the queue is full or the writer has ended.
    pub fn try_enqueue(&self, entry: AuditEntry) -> Result<(), Box<AuditEntry>> {
        let Some(jobs) = &self.0.jobs else { return Err(Box::new(entry)) };
        // Wakes the writer before the queue is full.
        if jobs.capacity() <= DEFAULT_QUEUE_CAPACITY / 2 {
            self.0.flush_now();
        }
        // Capacity is reserved first, so that the entry can be returned if there is none.
        let Ok(room) = jobs.try_reserve() else { return Err(Box::new(entry)) };
        room.send(WriterJob::Write((NewEntry::new(&entry), None)));
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
    /// The reason why the log cannot be written.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        if !self.0.failing.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut entry = AuditEntry::new(AuditEntryKind::Server);
        entry.subject = Some("audit log writes resumed".to_owned());
        self.record(entry).await.map(drop)
    }

    /// Waits until all entries submitted so far are on disk or have failed.
    ///
    /// # Errors
    /// If the writer has ended.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let (done, flushed) = oneshot::channel();
        self.send(WriterJob::Flush(done)).await?;
        self.0.flush_now();
        flushed.await.map_err(|_| StoreError::Closed)
    }

    /// Sends a job that a caller waits for, and wakes the writer.
    async fn send(&self, job: WriterJob) -> Result<(), StoreError> {
        let jobs = self.0.jobs.as_ref().ok_or(StoreError::Closed)?;
        // If the queue is full, the gathering ends immediately.
        let room = match jobs.try_reserve() {
            Ok(room) => room,
            Err(_) => {
                self.0.flush_now();
                jobs.reserve().await.map_err(|_| StoreError::Closed)?
            }
        };
        room.send(job);
        if let Some(thread) = &self.0.thread {
            self.0.flush.add_waiting(thread.thread());
        }
        Ok(())
    }

    /// Encrypts the arguments of a call into its entry. All fields that identify the call must be set before.
    pub fn seal(&self, entry: &mut AuditEntry, arguments: &str) {
        let sealed = self.0.keys.seal(arguments.as_bytes(), &entry.seal_context());
        entry.sealed = Some(BASE64.encode(sealed));
    }

    /// Decrypts the arguments of an entry. Returns `None` if there are none.
    ///
    /// # Errors
    /// If they were encrypted with another key or for another entry.
    pub fn unseal(&self, entry: &AuditEntry) -> Result<Option<String>, StoreError> {
        let Some(sealed) = &entry.sealed else { return Ok(None) };
        unseal(&self.0.keys, entry, sealed).map(Some)
    }

    /// Returns the matching entries, newest first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub async fn search(&self, search: AuditQuery) -> Result<Vec<RecordedEntry>, StoreError> {
        self.read(move |connection, keys| search::run(connection, keys, &search)).await
    }

    /// Returns entries in order, starting after a number, for reading all of them page by page.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub async fn after(&self, seq: u64, limit: usize) -> Result<Vec<RecordedEntry>, StoreError> {
        self.read(move |connection, keys| search::after(connection, keys, seq, limit)).await
    }

    /// Verifies the whole log. `noted` is a position that was recorded elsewhere.
    ///
    /// # Errors
    /// [`StoreError::Tampered`] with the first fault, or an error if the file cannot be read.
    pub async fn verify(&self, noted: Option<AuditPosition>) -> Result<VerifiedLog, StoreError> {
        self.read(move |connection, keys| chain::verify(connection, keys, noted)).await
    }

    /// Deletes the entries before a moment and returns their number. Entries that were written together with a later one
    /// stay. The number and the new beginning of the log are sealed.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub async fn delete_before(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.read(move |connection, keys| chain::delete_before(connection, keys, before.as_microsecond()))
            .await
    }

    /// Runs `work` on the second connection, so that waiting for the disk does not delay writers.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection, &AuditKeys) -> Result<T, ChainError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // So that queued entries are found too.
        self.flush().await?;
        self.read_file(work).await
    }

    /// Runs `work` on the second connection, without the entries that are queued.
    async fn read_file<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection, &AuditKeys) -> Result<T, ChainError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || {
            let mut reader = inner.reader.lock();
            work(&mut reader, &inner.keys).map_err(|failed| failed.at(&inner.file))
        });
        done.await.map_err(|_| StoreError::Closed)?
    }
}

/// Decrypts the arguments of an entry.
fn unseal(keys: &AuditKeys, entry: &AuditEntry, sealed: &str) -> Result<String, StoreError> {
    let sealed = BASE64.decode(sealed).map_err(|_| StoreError::Sealed)?;
    let text = keys.open_sealed(&sealed, &entry.seal_context())?;
    String::from_utf8(text).map_err(|_| StoreError::Sealed)
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AuditLog").field(&self.0.file).finish()
    }
}

impl AuditLogInner {
    /// Ends the gathering of entries.
    fn flush_now(&self) {
        if let Some(thread) = &self.thread {
            self.flush.flush_now(thread.thread());
        }
    }
}

impl Drop for AuditLogInner {
    fn drop(&mut self) {
        // The writer ends when the channel is closed; joined before that, it would never end.
        self.jobs = None;
        self.flush_now();
        // Queued entries are written before the drop returns.
        if let Some(thread) = self.thread.take() {
            // A panic of the writer was reported when it happened.
            let _ = thread.join();
        }
    }
}

fn hex<S: Serializer>(bound: &[u8; KEY_BYTES], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&to_hex(bound))
}
