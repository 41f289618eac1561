//! The thread that writes: what waits goes down together, in one transaction.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{DEFAULT_QUEUE, Entry, Place, chain};
use crate::error::StoreError;
use crate::key::Keys;

/// How many entries go into one transaction at most.
const BATCH: usize = 256;

/// How long entries that nobody waits for are gathered. A transaction for each would cost more than the call it is about,
/// where both have one processor.
pub(super) const GATHER: Duration = Duration::from_millis(10);

/// How long it is waited until what could not be written is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// What the thread is to do.
pub(super) enum Job {
    /// To write an entry, and to say so to whoever waits until it is.
    Write(Box<Entry>, Option<oneshot::Sender<Result<Place, StoreError>>>),
    /// To say when everything before is written, or cannot be.
    Flush(oneshot::Sender<()>),
}

/// An entry, and who waits until it is written.
type Waiting = (Box<Entry>, Option<oneshot::Sender<Result<Place, StoreError>>>);

/// That somebody waits for what has been handed over, so that it is not gathered any longer.
#[derive(Debug, Default)]
pub(super) struct Hurry(AtomicBool);

impl Hurry {
    /// `thread` writes what it has.
    pub(super) fn up(&self, thread: &Thread) {
        self.0.store(true, Ordering::Release);
        thread.unpark();
    }

    /// Waits until somebody is in a hurry, or a moment has come.
    fn wait(&self, until: Instant) {
        while !self.0.swap(false, Ordering::AcqRel) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::park_timeout(left);
        }
    }
}

pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) keys: Arc<Keys>,
    pub(super) file: PathBuf,
    /// Whether the last write failed.
    pub(super) failing: Arc<AtomicBool>,
    pub(super) hurry: Arc<Hurry>,
}

impl Writer {
    /// Writes until nobody can send anything any more, and what was sent is written.
    pub(super) fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let (mut batch, mut flushed) = (Vec::with_capacity(BATCH), Vec::new());
        loop {
            if batch.is_empty() {
                let Some(job) = jobs.blocking_recv() else { return };
                let is_awaited = !matches!(job, Job::Write(_, None));
                sort(job, &mut batch, &mut flushed);
                // With so many there is nothing to gather.
                if !is_awaited && jobs.len() < BATCH {
                    self.hurry.wait(Instant::now() + GATHER);
                }
            } else {
                // What could not be written is tried again, with what has come since.
                std::thread::sleep(AGAIN);
            }
            let full = batch.len() + BATCH;
            while batch.len() < full
                && let Ok(job) = jobs.try_recv()
            {
                sort(job, &mut batch, &mut flushed);
            }
            self.write(&mut batch);
            for flushed in flushed.drain(..) {
                // Whoever waited may have gone.
                let _ = flushed.send(());
            }
            if !batch.is_empty() && jobs.is_closed() && jobs.is_empty() {
                tracing::error!(entries = batch.len(), file = %self.file.display(), "audit entries were never written");
                return;
            }
        }
    }

    /// Writes all of them or none. Of none, those stay that nobody waits for; whoever waits is told.
    fn write(&mut self, batch: &mut Vec<Waiting>) {
        if batch.is_empty() {
            return;
        }
        let texts: Vec<String> = batch
            .iter()
            .map(|(entry, _)| serde_json::to_string(entry).expect("texts and numbers are always JSON"))
            .collect();
        let written = chain::append(&mut self.connection, &self.keys, &texts);
        let failed_before = self.failing.swap(written.is_err(), Ordering::AcqRel);
        let failed = match written {
            Ok(places) => {
                for ((_, done), place) in batch.drain(..).zip(places) {
                    if let Some(done) = done {
                        // Whoever waited may have gone.
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
            tracing::error!(entries = kept.len(), file = %self.file.display(), ?failed, "audit entries wait to be written");
        }
        if kept.len() > DEFAULT_QUEUE {
            let lost = kept.len() - DEFAULT_QUEUE;
            tracing::error!(entries = lost, file = %self.file.display(), "audit entries are lost: too many wait");
            kept.truncate(DEFAULT_QUEUE);
        }
        *batch = kept;
    }
}

fn sort(job: Job, batch: &mut Vec<Waiting>, flushed: &mut Vec<oneshot::Sender<()>>) {
    match job {
        Job::Write(entry, done) => batch.push((entry, done)),
        Job::Flush(done) => flushed.push(done),
    }
}
