//! Recovery window after a change of an engine's identity.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::relay::RelayError;

/// Time within which an engine that was restarted or replaced may lack sessions and leases.
///
/// A failover can lose a claim, and an isolated former primary can have acknowledged a renewal that the present one
/// does not know. After the window each such lease has ended, and its holder has stopped by its own clock.
#[derive(Debug)]
pub(crate) struct RecoveryWindow {
    duration: Duration,
    state: Mutex<RecoveryState>,
}

#[derive(Debug, Default)]
struct RecoveryState {
    identity: Option<Box<str>>,
    until: Option<Instant>,
}

impl RecoveryWindow {
    pub(crate) fn new(duration: Duration) -> Self {
        Self { duration, state: Mutex::default() }
    }

    /// Sets the duration of windows that open from now on.
    pub(crate) fn with_duration(mut self, duration: Duration) -> Self {
        self.duration = duration;
        self
    }

    /// Compares the engine's identity with the one known so far. A new one opens the window. The first opens what is left
    /// of it: an engine that has certainly been the only one for `alone_for` may have lost nothing within that time.
    pub(crate) fn observe(&self, identity: &str, alone_for: Duration) {
        let mut state = self.state.lock();
        if state.identity.as_deref() == Some(identity) {
            return;
        }
        let is_first = state.identity.replace(identity.into()).is_none();
        let past = if is_first { alone_for } else { Duration::ZERO };
        state.until = Some(Instant::now() + self.duration.saturating_sub(past));
    }

    /// Remaining time of the window.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let until = self.state.lock().until?;
        Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    /// Fails while the window is open.
    pub(crate) fn check(&self) -> Result<(), RelayError> {
        self.remaining().map_or(Ok(()), |retry_in| Err(RelayError::Recovering { retry_in }))
    }
}
