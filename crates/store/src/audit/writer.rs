//! The writer thread, which writes queued entries in batches, one transaction each.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::chain;
use super::entry::AuditEntry;
use super::position::AuditPosition;
use crate::error::StoreError;
use crate::key::AuditKeys;

/// Default capacity of the write queue, in entries; callers wait when it is full.
pub const DEFAULT_QUEUE_CAPACITY: usize = 1024;

/// Maximum number of entries in one transaction.
const MAX_BATCH_ENTRIES: usize = 256;

/// Time for which entries without a waiting caller are gathered. On one processor, a transaction for each would cost
/// more than the call it records.
pub(super) const GATHER_WINDOW: Duration = Duration::from_millis(10);

/// Time to wait before a failed write is retried.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Job of the writer thread.
pub(super) enum WriterJob {
    /// Writes an entry and notifies the caller that waits for it, if any.
    Write(Box<AuditEntry>, Option<oneshot::Sender<Result<AuditPosition, StoreError>>>),
    /// Signals when all earlier entries are written or have failed.
    Flush(oneshot::Sender<()>),
}

/// An entry, and the channel to the caller that waits for it, if any.
type QueuedEntry = (Box<AuditEntry>, Option<oneshot::Sender<Result<AuditPosition, StoreError>>>);

/// Signal that a caller waits for submitted entries, so that gathering ends.
#[derive(Debug, Default)]
pub(super) struct FlushSignal(AtomicBool);

impl FlushSignal {
    /// Raises the signal and wakes the writer thread.
    pub(super) fn raise(&self, thread: &Thread) {
        // Release, so that a thread that sees the flag also sees the job sent before it.
        self.0.store(true, Ordering::Release);
        thread.unpark();
    }

    /// Waits until the signal is raised or the time is reached.
    fn wait(&self, until: Instant) {
        // The flag decides: `park_timeout` may also return early, or because of an earlier `unpark`.
        while !self.0.swap(false, Ordering::AcqRel) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::park_timeout(left);
        }
    }
}

pub(super) struct AuditWriter {
    pub(super) connection: Connection,
    pub(super) keys: Arc<AuditKeys>,
    pub(super) file: PathBuf,
    /// True if the last write failed.
    pub(super) failing: Arc<AtomicBool>,
    pub(super) hurry: Arc<FlushSignal>,
}

impl AuditWriter {
    /// Writes until all senders are dropped and everything sent is written.
    pub(super) fn run(mut self, mut jobs: mpsc::Receiver<WriterJob>) {
        let (mut batch, mut flushed) = (Vec::with_capacity(MAX_BATCH_ENTRIES), Vec::new());
        loop {
            if batch.is_empty() {
                let Some(job) = jobs.blocking_recv() else { return };
                let is_awaited = !matches!(job, WriterJob::Write(_, None));
                sort(job, &mut batch, &mut flushed);
                // A full batch needs no gathering.
                if !is_awaited && jobs.len() < MAX_BATCH_ENTRIES {
                    self.hurry.wait(Instant::now() + GATHER_WINDOW);
                }
            } else {
                // Failed entries are retried together with new ones.
                std::thread::sleep(RETRY_INTERVAL);
            }
            // Entries kept after a failure do not count, or they would leave no room for new ones.
            let full = batch.len() + MAX_BATCH_ENTRIES;
            while batch.len() < full
                && let Ok(job) = jobs.try_recv()
            {
                sort(job, &mut batch, &mut flushed);
            }
            self.write(&mut batch);
            for flushed in flushed.drain(..) {
                // The waiting caller may be gone.
                let _ = flushed.send(());
            }
            // No job can arrive any more, and without this end a failing disk would block the drop forever.
            if !batch.is_empty() && jobs.is_closed() && jobs.is_empty() {
                tracing::error!(entries = batch.len(), file = %self.file.display(), "audit entries lost at shutdown");
                return;
            }
        }
    }

    /// Writes all entries or none. After a failure, entries without a waiting caller stay in the batch; waiting callers
    /// get the error.
    fn write(&mut self, batch: &mut Vec<QueuedEntry>) {
        if batch.is_empty() {
            return;
        }
        let texts: Vec<String> = batch
            .iter()
            .map(|(entry, _)| serde_json::to_string(entry).expect("an audit entry serializes to JSON"))
            .collect();
        let written = chain::append(&mut self.connection, &self.keys, &texts);
        let failed_before = self.failing.swap(written.is_err(), Ordering::AcqRel);
        let failed = match written {
            Ok(places) => {
                for ((_, done), place) in batch.drain(..).zip(places) {
                    if let Some(done) = done {
                        // The waiting caller may be gone.
                        let _ = done.send(Ok(place));
                    }
                }
                return;
            }
            Err(failed) => failed,
        };
        let mut kept = Vec::new();
        for (entry, done) in batch.drain(..) {
            match done {
                Some(done) => drop(done.send(Err(failed.clone().at(&self.file)))),
                None => kept.push((entry, None)),
            }
        }
        if !failed_before {
            tracing::error!(entries = kept.len(), file = %self.file.display(), ?failed, "cannot write audit entries");
        }
        if kept.len() > DEFAULT_QUEUE_CAPACITY {
            let lost = kept.len() - DEFAULT_QUEUE_CAPACITY;
            tracing::error!(entries = lost, file = %self.file.display(), "audit queue full; entries dropped");
            kept.truncate(DEFAULT_QUEUE_CAPACITY);
        }
        *batch = kept;
    }
}

fn sort(job: WriterJob, batch: &mut Vec<QueuedEntry>, flushed: &mut Vec<oneshot::Sender<()>>) {
    match job {
        WriterJob::Write(entry, done) => batch.push((entry, done)),
        WriterJob::Flush(done) => flushed.push(done),
    }
}
