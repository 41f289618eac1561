//! Rules for log messages to a peer: their rate, logger name and redaction.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::progress::DEFAULT_PROGRESS_RATE;
use crate::rate::{Rate, RateBucket};
use crate::redact;

/// Default rate of log messages to one peer; the setting `log_rate`.
pub const DEFAULT_LOG_RATE: Rate = Rate::per_second(100).burst(1000);

/// The rules for the log messages of a call, and for what it reports of its progress.
#[derive(Clone)]
#[must_use]
pub(crate) struct LogRules {
    pub(crate) rate: Rate,
    /// Rate of progress reports.
    pub(crate) progress: Rate,
    /// The name under which messages go out that have none of their own.
    pub(crate) logger: Option<Box<str>>,
    pub(crate) redact: Arc<LogRedactor>,
}

/// Hides what must not be read.
pub(crate) type LogRedactor = dyn Fn(&mut Value) + Send + Sync;

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

/// Rate limiter of one peer's log messages, which counts the dropped ones.
#[derive(Debug)]
pub(crate) struct LogGate {
    sent: RateBucket,
    left_out: AtomicU32,
}

impl LogGate {
    pub(crate) fn new() -> Self {
        Self { sent: RateBucket::new(), left_out: AtomicU32::new(0) }
    }

    /// Admits one more message within `rate`, and returns the number dropped before it. A message that is not admitted
    /// is counted as dropped.
    pub(crate) fn admit(&self, rate: Rate) -> Option<u32> {
        if self.sent.take(rate).is_err() {
            self.count_dropped();
            return None;
        }
        Some(self.left_out.swap(0, Ordering::Relaxed))
    }

    /// Counts one that does not go out.
    pub(crate) fn count_dropped(&self) {
        // This never fails, because there always is a new
        // value; it saturates, so that no count wraps to zero.
        let _ =
            self.left_out.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some(n.saturating_add(1)));
    }
}
