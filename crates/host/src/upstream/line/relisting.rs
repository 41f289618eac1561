//! Lists of servers that do not announce changes: they are read again for an application that asks again.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::SupervisedConnection;
use crate::server::ListKinds;

/// Minimum time between two readings for applications.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time that an application waits for a list to be read again; then it receives the list as it was.
const RELIST_WAIT: Duration = Duration::from_secs(2);

/// Lists that applications have received.
#[derive(Debug, Default)]
pub(super) struct RelistingState {
    /// Lists that were delivered since they were last read for an application.
    delivered: ListKinds,
    last: Option<Instant>,
}

impl RelistingState {
    /// Notes that a list is delivered. Returns true if it has to be read before.
    fn deliver(&mut self, wanted: ListKinds, now: Instant) -> bool {
        let is_again = self.delivered.overlaps(wanted);
        let is_due = self.last.is_none_or(|last| now.duration_since(last) >= MIN_INTERVAL);
        if is_again && is_due {
            // All lists are read together.
            *self = Self { delivered: wanted, last: Some(now) };
            return true;
        }
        self.delivered = self.delivered.with(wanted);
        false
    }
}

impl SupervisedConnection {
    /// Reads the lists again, if this one has been delivered before and the server does not announce its changes.
    /// Without that, an application would never learn of them.
    pub(crate) async fn freshen(&self, wanted: ListKinds) {
        let Some(live) = self.live() else { return };
        let capabilities = live.capabilities();
        let is_announced = ListKinds::watched(capabilities).overlaps(wanted);
        if is_announced || !ListKinds::offered(capabilities).overlaps(wanted) {
            return;
        }
        if !self.relisting.lock().deliver(wanted, Instant::now()) {
            return;
        }
        let mut unread = self.unread.subscribe();
        self.set_unread(true);
        self.doubt();
        if timeout(RELIST_WAIT, unread.wait_for(|unread| !unread)).await.is_err() {
            tracing::warn!(server = %self.server.name, "lists not read again in time; the ones read before are used");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: ListKinds = ListKinds { tools: true, prompts: false, resources: false };
    const PROMPTS: ListKinds = ListKinds { tools: false, prompts: true, resources: false };

    #[test]
    fn a_list_is_read_for_who_asks_again_and_once_a_second() {
        let (mut state, now) = (RelistingState::default(), Instant::now());
        assert!(!state.deliver(TOOLS, now), "it was read when the server connected");
        assert!(!state.deliver(PROMPTS, now), "another list");
        assert!(state.deliver(TOOLS, now));
        assert!(!state.deliver(TOOLS, now + MIN_INTERVAL / 2), "just read");
        assert!(!state.deliver(PROMPTS, now + MIN_INTERVAL), "read with the tools");
        assert!(state.deliver(TOOLS, now + MIN_INTERVAL));
    }
}
