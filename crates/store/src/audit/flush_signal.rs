//! Signal between the callers that wait for entries and the writer thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Instant;

/// Bit of the count that ends every wait. It is above all counts, because the queue is shorter.
const URGENT: usize = 1 << 20;

/// Number of callers that wait for submitted entries, and the number at which the writer thread is woken.
///
/// All accesses are sequentially consistent: the writer announces what it waits for and then looks at the count, callers
/// count and then look at the announcement. With a weaker order both could miss each other.
#[derive(Debug)]
pub(super) struct FlushSignal {
    waiting: AtomicUsize,
    wanted: AtomicUsize,
}

impl Default for FlushSignal {
    fn default() -> Self {
        Self { waiting: AtomicUsize::new(0), wanted: AtomicUsize::new(1) }
    }
}

impl FlushSignal {
    /// Counts a caller that waits for an entry. Wakes the writer thread only if enough callers wait, so that it does not
    /// run once for each of them.
    pub(super) fn add_waiting(&self, thread: &Thread) {
        if self.waiting.fetch_add(1, Ordering::SeqCst) + 1 >= self.wanted.load(Ordering::SeqCst) {
            thread.unpark();
        }
    }

    /// Ends the wait of the writer thread, regardless of the number of callers.
    pub(super) fn flush_now(&self, thread: &Thread) {
        self.waiting.fetch_or(URGENT, Ordering::SeqCst);
        thread.unpark();
    }

    /// Waits until this number of callers waits, or the time is reached.
    pub(super) fn wait_for(&self, callers: usize, until: Instant) {
        self.wanted.store(callers, Ordering::SeqCst);
        // The count decides: `park_timeout` may also return early, or because of an earlier `unpark`.
        while self.waiting.load(Ordering::SeqCst) < callers {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::park_timeout(left);
        }
    }

    /// Returns true if a caller waits.
    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Starts counting anew, before the queue is read. A caller whose entry is read before it is counted counts for the
    /// next wait, which then ends early.
    pub(super) fn reset(&self) {
        self.waiting.store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// A time that no test reaches.
    fn far_away() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    #[test]
    fn the_writer_waits_until_enough_callers_wait() {
        let signal = Arc::new(FlushSignal::default());
        let writer = thread::spawn({
            let signal = Arc::clone(&signal);
            move || signal.wait_for(3, far_away())
        });
        for _ in 0..2 {
            signal.add_waiting(writer.thread());
        }
        assert!(!writer.is_finished(), "two are not enough");
        signal.add_waiting(writer.thread());
        writer.join().unwrap();
        signal.reset();
        assert!(!signal.is_awaited());
    }

    #[test]
    fn an_urgent_flush_ends_every_wait() {
        let signal = FlushSignal::default();
        signal.flush_now(&thread::current());
        signal.flush_now(&thread::current());
        signal.wait_for(256, far_away());
    }

    #[test]
    fn the_wait_ends_at_its_time() {
        let signal = FlushSignal::default();
        signal.add_waiting(&thread::current());
        signal.wait_for(2, Instant::now());
        assert!(signal.is_awaited());
    }
}
