//! Bounded queue between those who record and the thread that sends.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Maximum number of records that wait.
pub(crate) const MAX_QUEUED: usize = 4096;
/// Maximum number of records of one request.
pub(crate) const MAX_BATCH: usize = 512;

/// Records that wait to be sent. A record that does not fit is dropped and counted.
#[derive(Debug)]
pub(crate) struct RecordQueue<T> {
    state: Mutex<QueueState<T>>,
    changed: Condvar,
    dropped: AtomicU64,
    sent: AtomicU64,
}

#[derive(Debug)]
struct QueueState<T> {
    records: VecDeque<T>,
    is_ending: bool,
}

impl<T> Default for RecordQueue<T> {
    fn default() -> Self {
        let state = QueueState { records: VecDeque::new(), is_ending: false };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            dropped: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        }
    }
}

impl<T> RecordQueue<T> {
    /// Adds a record. Never waits: the other side holds the lock only while it moves a batch.
    pub(crate) fn push(&self, record: T) {
        let mut state = self.state.lock();
        if state.records.len() >= MAX_QUEUED {
            drop(state);
            self.add_dropped(1);
            return;
        }
        state.records.push_back(record);
        let is_batch = state.records.len() == MAX_BATCH;
        drop(state);
        if is_batch {
            self.changed.notify_one();
        }
    }

    /// Waits until a batch is full, the time is over or the queue ends, and takes what there is, at most a batch.
    pub(crate) fn take(&self, wait: Duration) -> Vec<T> {
        let deadline = Instant::now() + wait;
        let mut state = self.state.lock();
        while state.records.len() < MAX_BATCH && !state.is_ending {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        let count = state.records.len().min(MAX_BATCH);
        state.records.drain(..count).collect()
    }

    /// Waits for a time, or until the queue ends. Returns true if it has ended.
    pub(crate) fn pause(&self, wait: Duration) -> bool {
        let deadline = Instant::now() + wait;
        let mut state = self.state.lock();
        while !state.is_ending {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.is_ending
    }

    /// Tells the thread to send what there is and to end.
    pub(crate) fn end(&self) {
        self.state.lock().is_ending = true;
        self.changed.notify_all();
    }

    /// Returns true if the thread is to end once nothing is left.
    pub(crate) fn is_ending(&self) -> bool {
        self.state.lock().is_ending
    }

    /// Counts records that were not sent.
    pub(crate) fn add_dropped(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts records that were sent.
    pub(crate) fn add_sent(&self, count: u64) {
        self.sent.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the numbers of records that were sent, that were dropped, and that wait.
    pub(crate) fn counts(&self) -> (u64, u64, usize) {
        let queued = self.state.lock().records.len();
        (self.sent.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed), queued)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_bounded_and_counts_what_does_not_fit() {
        let queue = RecordQueue::default();
        (0..MAX_QUEUED + 7).for_each(|record| queue.push(record));
        assert_eq!(queue.counts(), (0, 7, MAX_QUEUED));
        let batch = queue.take(Duration::from_secs(60));
        assert_eq!((batch.len(), batch.first(), batch.last()), (MAX_BATCH, Some(&0), Some(&(MAX_BATCH - 1))));
        queue.push(0);
        assert_eq!(queue.counts(), (0, 7, MAX_QUEUED - MAX_BATCH + 1));
    }

    #[test]
    fn the_end_wakes_the_thread_and_leaves_what_there_is() {
        let queue = std::sync::Arc::new(RecordQueue::default());
        queue.push("a");
        let other = std::sync::Arc::clone(&queue);
        let taker = std::thread::spawn(move || other.take(Duration::from_secs(60)));
        queue.end();
        assert_eq!(taker.join().unwrap(), ["a"]);
        assert!(queue.pause(Duration::from_secs(60)));
    }
}
