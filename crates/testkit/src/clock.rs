//! A clock that tests control.

use std::time::{Duration, Instant};

/// A clock that advances only when told to.
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
    /// Creates a clock at an arbitrary instant.
    #[must_use]
    pub fn new() -> Self {
        let start = Instant::now();
        Self { start, now: start }
    }

    /// Returns the current time of the clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the time since the clock was created.
    #[must_use]
    pub fn passed(&self) -> Duration {
        self.now - self.start
    }

    /// Advances the clock.
    pub fn advance(&mut self, by: Duration) {
        self.now += by;
    }

    /// Advances the clock to an instant. An earlier instant changes nothing.
    pub fn advance_to(&mut self, then: Instant) {
        self.now = self.now.max(then);
    }
}
