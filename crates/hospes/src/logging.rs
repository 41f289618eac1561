//! What becomes of a log message on its way to the peer: how many there may be, under which name, and what is hidden.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::progress::DEFAULT_PROGRESS_RATE;
use crate::rate::{Bucket, Rate};
use crate::redact;

/// How many log messages a peer is sent unless told otherwise; the setting `log_rate`.
pub const DEFAULT_LOG_RATE: Rate = Rate::per_second(100).burst(1000);

/// The rules for the log messages of a call, and for what it reports of its progress.
#[derive(Clone)]
#[must_use]
pub(crate) struct LogRules {
    pub(crate) rate: Rate,
    /// How much progress is reported.
    pub(crate) progress: Rate,
    /// The name under which messages go out that have none of their own.
    pub(crate) logger: Option<Box<str>>,
    pub(crate) redact: Arc<Redact>,
}

/// Hides what must not be read.
pub(crate) type Redact = dyn Fn(&mut Value) + Send + Sync;

impl Default for LogRules {
    fn default() -> Self {
        Self {
            rate: DEFAULT_LOG_RATE,
            progress: DEFAULT_PROGRESS_RATE,
            logger: None,
            redact: Arc::new(redact::value),
        }
    }
}

impl fmt::Debug for LogRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogRules")
            .field("rate", &self.rate)
            .field("logger", &self.logger)
            .finish_non_exhaustive()
    }
}

/// How many log messages a peer has been sent of late, and how many it has not.
#[derive(Debug)]
pub(crate) struct LogGate {
    sent: Bucket,
    left_out: AtomicU32,
}

impl LogGate {
    pub(crate) fn new() -> Self {
        Self { sent: Bucket::new(), left_out: AtomicU32::new(0) }
    }

    /// Whether one more may go out; how many were left out before it. One that may not is counted.
    pub(crate) fn admit(&self, rate: Rate) -> Option<u32> {
        if self.sent.take(rate).is_err() {
            self.leave_out();
            return None;
        }
        Some(self.left_out.swap(0, Ordering::Relaxed))
    }

    /// Counts one that does not go out.
    pub(crate) fn leave_out(&self) {
        let _ =
            self.left_out.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some(n.saturating_add(1)));
    }
}
