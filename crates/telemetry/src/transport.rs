//! Connection to the collector, which the program provides.

use std::fmt;
use std::time::Duration;

/// Kind of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TelemetrySignal {
    /// Spans.
    Traces,
    /// Metrics.
    Metrics,
    /// Log records.
    Logs,
}

impl TelemetrySignal {
    /// All signals.
    pub const ALL: [Self; 3] = [Self::Traces, Self::Metrics, Self::Logs];

    /// Returns the name, as in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    /// Returns the signal with this name.
    #[must_use]
    pub fn read(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|signal| signal.as_str() == name)
    }

    /// Returns the path below the base URL of a collector.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Traces => "v1/traces",
            Self::Metrics => "v1/metrics",
            Self::Logs => "v1/logs",
        }
    }
}

/// Sends requests to a collector. Called on a thread of its own, which it may block.
pub trait OtlpTransport: Send + 'static {
    /// Sends a body of the type `application/x-protobuf` and returns the body of the response.
    ///
    /// # Errors
    /// If there is no response within the time, or one that is no success.
    fn post(&mut self, signal: TelemetrySignal, body: Vec<u8>, limit: Duration)
    -> Result<Vec<u8>, PostError>;
}

/// Error of a request to a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostError {
    /// Reason, without secrets.
    pub reason: String,
    /// True if the same request may succeed later.
    pub is_temporary: bool,
    /// Time after which the collector wants it again.
    pub retry_after: Option<Duration>,
}

impl PostError {
    /// Creates an error of the connection.
    #[must_use]
    pub fn connection(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_temporary: true, retry_after: None }
    }

    /// Creates the error for a status that is no success. Some say that the request may succeed later.
    #[must_use]
    pub fn status(status: u16, retry_after: Option<Duration>) -> Self {
        let is_temporary = matches!(status, 429 | 502 | 503 | 504);
        Self { reason: format!("status {status}"), is_temporary, retry_after }
    }
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for PostError {}
