//! Notifications that something has changed, without the change itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;

/// Subject of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EventTopic {
    Approvals,
    Grants,
    Definitions,
    Models,
    Servers,
    Activity,
    Calls,
    Sessions,
}

impl EventTopic {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Approvals => "approvals",
            Self::Grants => "grants",
            Self::Definitions => "definitions",
            Self::Models => "models",
            Self::Servers => "servers",
            Self::Activity => "activity",
            Self::Calls => "calls",
            Self::Sessions => "sessions",
        }
    }
}

/// Counters of changes that the console itself makes.
#[derive(Debug)]
pub(crate) struct ConsoleEvents {
    sessions: watch::Sender<u64>,
    streams: Arc<AtomicUsize>,
}

impl Default for ConsoleEvents {
    fn default() -> Self {
        Self { sessions: watch::Sender::new(0), streams: Arc::default() }
    }
}

impl ConsoleEvents {
    pub(crate) fn sessions_changed(&self) {
        self.sessions.send_modify(|times| *times += 1);
    }

    pub(crate) fn sessions(&self) -> watch::Receiver<u64> {
        self.sessions.subscribe()
    }

    /// Reserves one of at most `most` open streams. Returns `None` if all of them are in use.
    pub(crate) fn open_stream(&self, most: usize) -> Option<StreamPermit> {
        // Counted first and released by dropping `place`, so that two requests cannot both take the last one.
        let open = self.streams.fetch_add(1, Ordering::AcqRel);
        let place = StreamPermit(Arc::clone(&self.streams));
        (open < most).then_some(place)
    }
}

/// Permit for one open stream, released on drop.
pub(crate) struct StreamPermit(Arc<AtomicUsize>);

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
