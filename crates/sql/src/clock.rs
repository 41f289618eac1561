//! Clock of a database that several nodes share.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Offset of the database's clock from that of this machine. What several nodes compare with the present is compared by
/// it, since their own clocks may differ. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct DatabaseClock(Arc<AtomicI64>);

impl DatabaseClock {
    /// Returns the microseconds by which the database is ahead of this machine. 0 in SQLite, and until it is measured.
    #[must_use]
    pub fn offset_micros(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes in a measurement, which is wrong by `error` at most. Returns true if the offset is another one than before.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "SQLite has the clock of this machine"))]
    pub(crate) fn measure(&self, offset: i64, error: i64) -> bool {
        let is_other = offset.saturating_sub(self.offset_micros()).saturating_abs() > error;
        // What the error explains is no difference.
        if is_other {
            self.0.store(offset, Ordering::Relaxed);
        }
        is_other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_counts_only_beyond_the_error_of_its_measurement() {
        let clock = DatabaseClock::default();
        assert!(!clock.measure(900, 1_000));
        assert_eq!(clock.offset_micros(), 0);
        assert!(clock.measure(-300_000_000, 1_000));
        assert!(!clock.clone().measure(-300_000_500, 1_000));
        assert_eq!(clock.offset_micros(), -300_000_000);
    }
}
