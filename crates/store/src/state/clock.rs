//! Present time of a state.

use hospes_sql::DatabaseClock;
use jiff::{SignedDuration, Timestamp};

/// Present time by which those who share a state compare its times: the clock of this machine, or that of the database
/// that several nodes share. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct StateClock(DatabaseClock);

impl StateClock {
    pub(super) const fn new(clock: DatabaseClock) -> Self {
        Self(clock)
    }

    /// Returns the present time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let here = Timestamp::now();
        here.checked_add(SignedDuration::from_micros(self.0.offset_micros())).unwrap_or(here)
    }
}
