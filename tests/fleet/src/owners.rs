//! Owners of sessions, as Redis has them while faults happen.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redis::{Commands as _, Connection};

/// Interval of the looks at the directory.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Keys of the sessions' records; other keys of a session begin with its record's and go on after the brace.
const SESSION_PATTERN: &str = "h:s:{*}";

/// Suffix of the field with the position of a stream's last event: `EPOCH-SEQUENCE`.
const LAST_SUFFIX: &str = ":last";

/// Position of a stream without events.
const NO_POSITION: &str = "0-0";

/// Observations of the directory.
#[derive(Debug, Default)]
pub(crate) struct OwnerHistory {
    /// Owner by session and epoch.
    owners: HashMap<(String, u64), String>,
    /// Highest epoch by session.
    epochs: HashMap<String, u64>,
    /// Last position by session and stream, as the looks saw them.
    positions: HashMap<(String, String), String>,
    pub(crate) adoptions: u64,
    /// Changes of streams that were compared with the epochs.
    pub(crate) appends: u64,
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

    /// Takes in the position of a stream. `known` is the epoch that the look before this one has seen before it read
    /// positions, so that a position that has changed was written under that epoch or a later one.
    fn see_position(&mut self, session: &str, stream: &str, position: &str, known: u64) {
        let before = self.positions.insert((session.to_owned(), stream.to_owned()), position.to_owned());
        if position == NO_POSITION || before.as_deref() == Some(position) {
            return;
        }
        self.appends += 1;
        let epoch = position.split('-').next().and_then(|epoch| epoch.parse::<u64>().ok());
        if epoch.is_none_or(|epoch| epoch < known) {
            self.violations.push(format!(
                "session {session}: the event {position} of the stream {stream} was written after epoch {known} began"
            ));
        }
    }
}

/// Thread that looks at the directory until it is stopped.
#[derive(Debug)]
pub(crate) struct OwnerWatch {
    stop: Arc<AtomicBool>,
    adoptions: Arc<AtomicU64>,
    thread: JoinHandle<OwnerHistory>,
}

impl OwnerWatch {
    /// Starts it for Redis on this port.
    pub(crate) fn start(port: u16) -> redis::RedisResult<Self> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
        let mut connection = client.get_connection()?;
        let stop = Arc::new(AtomicBool::new(false));
        let adoptions = Arc::new(AtomicU64::new(0));
        let (stopped, adopted) = (Arc::clone(&stop), Arc::clone(&adoptions));
        let thread = thread::spawn(move || {
            let mut history = OwnerHistory::default();
            while !stopped.load(Ordering::SeqCst) {
                if look(&mut connection, &mut history).is_err() {
                    history.has_gaps = true;
                    connection = client.get_connection().unwrap_or(connection);
                }
                adopted.store(history.adoptions, Ordering::SeqCst);
                thread::sleep(POLL_INTERVAL);
            }
            history
        });
        Ok(Self { stop, adoptions, thread })
    }

    /// Number of adoptions so far.
    pub(crate) fn adoptions(&self) -> u64 {
        self.adoptions.load(Ordering::SeqCst)
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
        // The record before the positions: `see_position` depends on it.
        let mut commands = redis::pipe();
        commands.hmget(key, &["owner", "epoch"]).hgetall(format!("{key}:t"));
        type Owner = (Option<String>, Option<u64>);
        let ((owner, epoch), streams): (Owner, HashMap<String, String>) = commands.query(connection)?;
        let known = history.epochs.get(key).copied().unwrap_or_default();
        for (field, position) in &streams {
            if let Some(stream) = field.strip_suffix(LAST_SUFFIX) {
                history.see_position(key, stream, position, known);
            }
        }
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

    #[test]
    fn an_event_of_an_old_epoch_is_seen() {
        let mut history = OwnerHistory::default();
        for (stream, position, known) in
            [("1.1", "0-0", 0), ("1.1", "1-1", 1), ("1.2", "1-1", 1), ("1.1", "1-2", 1), ("1.1", "2-3", 1)]
        {
            history.see_position("s", stream, position, known);
        }
        // Nothing was written since.
        history.see_position("s", "1.2", "1-1", 2);
        assert_eq!((history.appends, history.violations.len()), (4, 0));
        history.see_position("s", "1.2", "1-2", 2);
        assert_eq!(history.violations.len(), 1);
    }
}
