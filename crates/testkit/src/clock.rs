//! Time that passes when told to.

use std::time::{Duration, Instant};

/// A clock that stands still until it is moved.
#[derive(Clone, Copy, Debug)]
pub struct ManualClock {
    start: Instant,
    now: Instant,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl ManualClock {
    /// A clock at some instant; which one does not matter.
    #[must_use]
    pub fn new() -> Self {
        let start = Instant::now();
        Self { start, now: start }
    }

    /// The time on it.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the time since the clock was created.
    #[must_use]
    pub fn passed(&self) -> Duration {
        self.now - self.start
    }

    /// Lets time pass.
    pub fn advance(&mut self, by: Duration) {
        self.now += by;
    }

    /// Moves to a later instant; an earlier one changes nothing.
    pub fn advance_to(&mut self, then: Instant) {
        self.now = self.now.max(then);
    }
}
