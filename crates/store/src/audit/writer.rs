//! The thread that writes: what waits goes down together, in one transaction.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::chain::{self, Failed};
use super::{Entry, Place};
use crate::error::StoreError;
use crate::key::Keys;

/// How many entries go into one transaction at most.
const BATCH: usize = 256;

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
        while let Some(job) = jobs.blocking_recv() {
            batch.push(job);
            while batch.len() < BATCH
                && let Ok(job) = jobs.try_recv()
            {
                batch.push(job);
            }
            self.write(&mut batch);
        }
    }

    fn write(&mut self, batch: &mut Vec<Job>) {
        let texts: Vec<String> = batch
            .iter()
            .map(|job| serde_json::to_string(&job.entry).expect("texts and numbers are always JSON"))
            .collect();
        let written = chain::append(&mut self.connection, &self.keys, &texts);
        self.failing.store(written.is_err(), Ordering::Release);
        match written {
            Ok(places) => {
                for (job, place) in batch.drain(..).zip(places) {
                    if let Some(done) = job.done {
                        // Whoever waited may have gone.
                        let _ = done.send(Ok(place));
                    }
                }
            }
            Err(failed) => self.say(batch, &failed),
        }
    }

    fn say(&self, batch: &mut Vec<Job>, failed: &Failed) {
        let unheard = batch.iter().filter(|job| job.done.is_none()).count();
        if unheard > 0 {
            tracing::error!(entries = unheard, file = %self.file.display(), ?failed, "audit entries could not be written");
        }
        for job in batch.drain(..) {
            if let Some(done) = job.done {
                let _ = done.send(Err(failed.clone().at(&self.file)));
            }
        }
    }
}
