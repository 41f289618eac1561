//! Owners of sessions, as Redis has them while faults happen.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redis::{Commands as _, Connection};

/// Interval of the looks at the directory.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Keys of the sessions' records; other keys of a session begin with its record's and go on after the brace.
const SESSION_PATTERN: &str = "h:s:{*}";

/// Observations of the directory.
#[derive(Debug, Default)]
pub(crate) struct OwnerHistory {
    /// Owner by session and epoch.
    owners: HashMap<(String, u64), String>,
    /// Highest epoch by session.
    epochs: HashMap<String, u64>,
    pub(crate) adoptions: u64,
    pub(crate) violations: Vec<String>,
    /// True if the directory could not be read at least once.
    pub(crate) has_gaps: bool,
}

impl OwnerHistory {
    fn see(&mut self, session: &str, owner: &str, epoch: u64) {
        let known = self.owners.entry((session.to_owned(), epoch)).or_insert_with(|| owner.to_owned());
        if known != owner {
            let text = format!("session {session}: {known} and {owner} both own it with epoch {epoch}");
            self.violations.push(text);
        }
        let highest = self.epochs.entry(session.to_owned()).or_insert(epoch);
        if epoch < *highest {
            self.violations.push(format!("session {session}: epoch {epoch} follows {highest}"));
        }
        self.adoptions += epoch.saturating_sub(*highest);
        *highest = epoch.max(*highest);
    }
}

/// Thread that looks at the directory until it is stopped.
#[derive(Debug)]
pub(crate) struct OwnerWatch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<OwnerHistory>,
}

impl OwnerWatch {
    /// Starts it for Redis on this port.
    pub(crate) fn start(port: u16) -> redis::RedisResult<Self> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
        let mut connection = client.get_connection()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut history = OwnerHistory::default();
            while !stopped.load(Ordering::SeqCst) {
                if look(&mut connection, &mut history).is_err() {
                    history.has_gaps = true;
                    connection = client.get_connection().unwrap_or(connection);
                }
                thread::sleep(POLL_INTERVAL);
            }
            history
        });
        Ok(Self { stop, thread })
    }

    /// Stops it and returns what it has seen.
    pub(crate) fn finish(self) -> OwnerHistory {
        self.stop.store(true, Ordering::SeqCst);
        let failed = |_| OwnerHistory {
            violations: vec!["the watch of the directory panicked".to_owned()],
            ..OwnerHistory::default()
        };
        self.thread.join().unwrap_or_else(failed)
    }
}

fn look(connection: &mut Connection, history: &mut OwnerHistory) -> redis::RedisResult<()> {
    let keys: Vec<String> = connection.keys(SESSION_PATTERN)?;
    for key in keys.iter().filter(|key| key.ends_with('}')) {
        let (owner, epoch): (Option<String>, Option<u64>) = connection.hmget(key, &["owner", "epoch"])?;
        // A session may end between the two commands.
        if let (Some(owner), Some(epoch)) = (owner, epoch) {
            history.see(key, &owner, epoch);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_owners_of_one_epoch_are_seen() {
        let mut history = OwnerHistory::default();
        history.see("s", "a", 1);
        history.see("s", "b", 2);
        assert_eq!((history.adoptions, history.violations.len()), (1, 0));
        history.see("s", "a", 2);
        assert_eq!(history.violations.len(), 1);
        history.see("s", "a", 1);
        assert_eq!(history.violations.len(), 2);
    }
}
