//! Notices what other processes change.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::watch;

use crate::file;

/// Interval at which changes of other processes are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Counts changes. Polling for other processes begins with the first subscriber.
pub(super) struct ChangeWatch {
    file: PathBuf,
    count: Arc<watch::Sender<u64>>,
    /// Dropped with us, which ends the thread that looks.
    looking: Mutex<Option<Sender<()>>>,
}

impl ChangeWatch {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file, count: Arc::new(watch::Sender::new(0)), looking: Mutex::new(None) }
    }

    /// Something was changed here.
    pub(super) fn notify_change(&self) {
        bump(&self.count);
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        // Held until the thread runs, so that two subscribers do not start two.
        let mut looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        if looking.is_none() {
            *looking = self.spawn_poller();
        }
        self.count.subscribe()
    }

    fn spawn_poller(&self) -> Option<Sender<()>> {
        let (alive, gone) = channel();
        let (file, count) = (self.file.clone(), Arc::clone(&self.count));
        // Before anybody is told that changes will be: none is missed from here on.
        let mut connection = None;
        let mut known = version(&file, &mut connection);
        let look = move || {
            // Nothing is ever sent: the wait is over early when the sender is dropped, and that ends the
            // thread.
            while gone.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let now = version(&file, &mut connection);
                // A file that can be read no more, or again, is a change too: whoever asks then hears why.
                if known != now {
                    bump(&count);
                }
                known = now;
            }
        };
        let thread = std::thread::Builder::new().name("state".to_owned()).spawn(look);
        thread
            .inspect_err(|error| tracing::warn!(%error, "cannot watch for changes by other processes"))
            .ok()?;
        Some(alive)
    }
}

/// Returns a version that changes when another connection has committed.
fn version(file: &std::path::Path, connection: &mut Option<Connection>) -> Option<i64> {
    // Tried at each look until it succeeds, because the file may not be readable for a while.
    if connection.is_none() {
        *connection = file::open_read_only(file).ok();
    }
    let found = connection.as_ref()?.pragma_query_value(None, "data_version", |row| row.get(0));
    found.inspect_err(|error| tracing::debug!(%error, "cannot check the database for changes")).ok()
}

fn bump(count: &watch::Sender<u64>) {
    count.send_modify(|count| *count += 1);
}
