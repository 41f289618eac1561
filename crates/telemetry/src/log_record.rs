//! Log records.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use crate::queue::RecordQueue;
use crate::trace_context::TraceContext;

/// Maximum length of one text, in bytes.
const MAX_TEXT_BYTES: usize = 4096;
/// Maximum number of attributes.
const MAX_ATTRIBUTES: usize = 32;

/// Severity of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogSeverity {
    /// Finest details.
    Trace,
    /// Details for developers.
    Debug,
    /// Normal event.
    Info,
    /// Event that may need attention.
    Warn,
    /// Failure.
    Error,
}

impl LogSeverity {
    pub(crate) fn number(self) -> i32 {
        match self {
            Self::Trace => 1,
            Self::Debug => 5,
            Self::Info => 9,
            Self::Warn => 13,
            Self::Error => 17,
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Trace => "TRACE",
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
        }
    }
}

/// A log record. Its texts are masked by those who make it.
#[derive(Debug)]
pub struct LogRecord {
    pub(crate) at: SystemTime,
    pub(crate) severity: LogSeverity,
    pub(crate) message: String,
    /// Module that has written it.
    pub(crate) target: &'static str,
    pub(crate) attributes: Vec<(&'static str, String)>,
    pub(crate) trace: Option<TraceContext>,
}

impl LogRecord {
    /// Creates a record of this moment. `trace` is the span in which it was written.
    #[must_use]
    pub fn new(
        severity: LogSeverity,
        target: &'static str,
        message: String,
        trace: Option<TraceContext>,
    ) -> Self {
        let (at, message) = (SystemTime::now(), cut(message));
        Self { at, severity, message, target, attributes: Vec::new(), trace }
    }

    /// Adds an attribute.
    pub fn add(&mut self, key: &'static str, value: String) {
        if self.attributes.len() < MAX_ATTRIBUTES {
            self.attributes.push((key, cut(value)));
        }
    }
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text.push('…');
    }
    text
}

/// Takes log records. Cheap to clone.
#[derive(Clone)]
pub struct LogSink(pub(crate) Arc<RecordQueue<LogRecord>>);

impl LogSink {
    /// Takes a record.
    pub fn push(&self, record: LogRecord) {
        self.0.push(record);
    }
}

impl fmt::Debug for LogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSink").finish_non_exhaustive()
    }
}
