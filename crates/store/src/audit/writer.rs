//! The writer thread, which writes queued entries in batches, one transaction each.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::block::{MAX_BLOCK_ENTRIES, NewEntry};
use super::chain;
use super::flush_signal::FlushSignal;
use super::position::AuditPosition;
use crate::error::StoreError;
use crate::key::AuditKeys;

/// Default capacity of the write queue, in entries; callers wait when it is full.
pub const DEFAULT_QUEUE_CAPACITY: usize = 1024;

/// Maximum number of entries in one transaction, apart from those that could not be written before.
const MAX_BATCH_ENTRIES: usize = MAX_BLOCK_ENTRIES;

/// Time for which entries without a waiting caller are gathered. A transaction costs the processor time of about fifty
/// entries.
pub(super) const GATHER_WINDOW: Duration = Duration::from_millis(40);

/// Maximum time for which a caller waits for other callers to join its transaction.
const MAX_JOIN_WAIT: Duration = Duration::from_millis(2);

/// Time to wait before a failed write is retried.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Job of the writer thread.
pub(super) enum WriterJob {
    /// Writes an entry and notifies the caller that waits for it, if any.
    Write(QueuedEntry),
    /// Signals when all earlier entries are written or have failed.
    Flush(oneshot::Sender<()>),
}

/// An entry, and the channel to the caller that waits for it, if any.
pub(super) type QueuedEntry = (NewEntry, Option<oneshot::Sender<Result<AuditPosition, StoreError>>>);

pub(super) struct AuditWriter {
    pub(super) connection: Connection,
    pub(super) keys: Arc<AuditKeys>,
    pub(super) file: PathBuf,
    /// True if the last write failed.
    pub(super) failing: Arc<AtomicBool>,
    pub(super) flush: Arc<FlushSignal>,
    /// Number of callers that are expected to share the next transaction.
    pub(super) expected: usize,
    /// Duration of the last transaction.
    pub(super) last_write: Duration,
}

impl AuditWriter {
    /// Writes until all senders are dropped and everything sent is written.
    pub(super) fn run(mut self, mut jobs: mpsc::Receiver<WriterJob>) {
        let (mut batch, mut flushed) = (Vec::with_capacity(MAX_BATCH_ENTRIES), Vec::new());
        // True if entries had no room in the last batch. Callers that wait for them are counted no more.
        let mut is_behind = false;
        loop {
            if batch.is_empty() {
                let Some(job) = jobs.blocking_recv() else { return };
                let is_awaited = !matches!(job, WriterJob::Write((_, None)));
                sort(job, &mut batch, &mut flushed);
                // A full batch needs no gathering.
                if !is_behind && jobs.len() < MAX_BATCH_ENTRIES {
                    self.gather(is_awaited);
                }
            } else {
                // Failed entries are retried together with new ones.
                std::thread::sleep(RETRY_INTERVAL);
            }
            self.flush.reset();
            // Entries kept after a failure do not count, or they would leave no room for new ones.
            let full = batch.len() + MAX_BATCH_ENTRIES;
            while batch.len() < full
                && let Ok(job) = jobs.try_recv()
            {
                sort(job, &mut batch, &mut flushed);
            }
            is_behind = batch.len() >= full;
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

    /// Waits for entries that share the transaction. Entries without a waiting caller are gathered until there is one.
    /// Callers wait for each other: as many as lately, but no longer than a transaction takes. Otherwise the first one
    /// would have a transaction alone while all others wait for it.
    fn gather(&self, is_awaited: bool) {
        if !is_awaited {
            self.flush.wait_for(1, Instant::now() + GATHER_WINDOW);
        }
        if self.expected > 1 && (is_awaited || self.flush.is_awaited()) {
            self.flush.wait_for(self.expected, Instant::now() + self.last_write.min(MAX_JOIN_WAIT));
        }
    }

    /// Writes all entries or none. After a failure, entries without a waiting caller stay in the batch; waiting callers
    /// get the error.
    fn write(&mut self, batch: &mut Vec<QueuedEntry>) {
        if batch.is_empty() {
            return;
        }
        let waiting = batch.iter().filter(|(_, done)| done.is_some()).count();
        let begun = Instant::now();
        let entries = batch.iter().map(|(entry, _)| entry);
        let may_yield = || waiting == 0 && !self.flush.is_awaited();
        let written = chain::append(&mut self.connection, &self.keys, entries, may_yield);
        if waiting > 0 {
            // Grows at once and shrinks slowly: a few callers of the same load may be late.
            self.expected = waiting.max(self.expected.midpoint(waiting)).min(MAX_BATCH_ENTRIES);
            self.last_write = begun.elapsed();
        }
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
        WriterJob::Write(entry) => batch.push(entry),
        WriterJob::Flush(done) => flushed.push(done),
    }
}
