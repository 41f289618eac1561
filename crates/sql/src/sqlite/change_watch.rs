//! Detection of changes by this and other processes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::watch;

use super::file;

/// Interval at which changes of other processes are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Counter of changes. Polling for changes of other processes starts with the first subscriber.
pub(super) struct ChangeWatch {
    file: PathBuf,
    count: Arc<watch::Sender<u64>>,
    /// Ends the polling thread when it is dropped.
    looking: Mutex<Option<Sender<()>>>,
}

impl ChangeWatch {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file, count: Arc::new(watch::Sender::new(0)), looking: Mutex::new(None) }
    }

    /// Counts a change made by this process.
    pub(super) fn notify_change(&self) {
        bump(&self.count);
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        // Held until the thread runs, so that two subscribers do not start two threads.
        let mut looking = self.looking.lock();
        if looking.is_none() {
            *looking = self.spawn_poller();
        }
        self.count.subscribe()
    }

    fn spawn_poller(&self) -> Option<Sender<()>> {
        let (alive, gone) = channel();
        let (file, count) = (self.file.clone(), Arc::clone(&self.count));
        // Connected before the subscriber is told that it will be notified, so that no change is missed.
        let mut connection = None;
        let mut known = version(&file, &mut connection);
        let look = move || {
            // Nothing is ever sent: dropping the sender ends the wait and the thread.
            while gone.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let now = version(&file, &mut connection);
                // A file that becomes unreadable, or readable again, counts as a change too; readers then get the
                // error.
                if known != now {
                    bump(&count);
                }
                known = now;
            }
        };
        let thread = std::thread::Builder::new().name("database".to_owned()).spawn(look);
        thread
            .inspect_err(|error| tracing::warn!(%error, "cannot watch for changes by other processes"))
            .ok()?;
        Some(alive)
    }
}

/// Returns a version that changes when another connection has committed.
fn version(file: &std::path::Path, connection: &mut Option<Connection>) -> Option<i64> {
    // Tried at each poll until it succeeds, because the file may be temporarily unreadable.
    if connection.is_none() {
        *connection = file::open_read_only(file).ok();
    }
    let found = connection.as_ref()?.pragma_query_value(None, "data_version", |row| row.get(0));
    found.inspect_err(|error| tracing::debug!(%error, "cannot check the database for changes")).ok()
}

fn bump(count: &watch::Sender<u64>) {
    count.send_modify(|count| *count += 1);
}
