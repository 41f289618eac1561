//! Clock that is passed to code without I/O.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum difference between the clocks of two parties, in seconds.
pub const CLOCK_SKEW: u64 = 60;

/// Returns the seconds since 1970. Cheap to clone.
#[derive(Clone)]
pub struct UnixClock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl UnixClock {
    /// Creates a clock of the system time.
    #[must_use]
    pub fn system() -> Self {
        Self::new(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }

    /// Creates a clock that calls `now`, for tests.
    pub fn new(now: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the seconds since 1970.
    #[must_use]
    pub fn now(&self) -> u64 {
        (self.0)()
    }
}

impl Default for UnixClock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for UnixClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnixClock({})", self.now())
    }
}
