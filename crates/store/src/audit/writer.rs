//! The thread that writes: what waits goes down together, in one transaction.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{DEFAULT_QUEUE, Entry, Place, chain};
use crate::error::StoreError;
use crate::key::Keys;

/// How many entries go into one transaction at most.
const BATCH: usize = 256;

/// How long it is waited until what could not be written is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// An entry to be written, and who waits until it is.
pub(super) struct Job {
    pub(super) entry: Entry,
    pub(super) done: Option<oneshot::Sender<Result<Place, StoreError>>>,
}

pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) keys: Arc<Keys>,
    pub(super) file: PathBuf,
    /// Whether the last write failed.
    pub(super) failing: Arc<AtomicBool>,
}

impl Writer {
    /// Writes until nobody can send anything any more, and what was sent is written.
    pub(super) fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            if batch.is_empty() {
                let Some(job) = jobs.blocking_recv() else { return };
                batch.push(job);
            } else {
                // What could not be written is tried again, with what has come since.
                std::thread::sleep(AGAIN);
            }
            let full = batch.len() + BATCH;
            while batch.len() < full
                && let Ok(job) = jobs.try_recv()
            {
                batch.push(job);
            }
            self.write(&mut batch);
            if !batch.is_empty() && jobs.is_closed() && jobs.is_empty() {
                tracing::error!(entries = batch.len(), file = %self.file.display(), "audit entries were never written");
                return;
            }
        }
    }

    /// Writes all of them or none. Of none, those stay that nobody waits for; whoever waits is told.
    fn write(&mut self, batch: &mut Vec<Job>) {
        let texts: Vec<String> = batch
            .iter()
            .map(|job| serde_json::to_string(&job.entry).expect("texts and numbers are always JSON"))
            .collect();
        let written = chain::append(&mut self.connection, &self.keys, &texts);
        let failed_before = self.failing.swap(written.is_err(), Ordering::AcqRel);
        let failed = match written {
            Ok(places) => {
                for (job, place) in batch.drain(..).zip(places) {
                    if let Some(done) = job.done {
                        // Whoever waited may have gone.
                        let _ = done.send(Ok(place));
                    }
                }
                return;
            }
            Err(failed) => failed,
        };
        let mut kept = Vec::new();
        for job in batch.drain(..) {
            match job.done {
                Some(done) => drop(done.send(Err(failed.clone().at(&self.file)))),
                None => kept.push(job),
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
