//! Log messages.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::types::lenient::or_default;
use crate::{Meta, RawJson};

/// Severity of a log message (RFC 5424), in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "RFC 5424 has exactly these eight")]
pub enum LoggingLevel {
    /// Debugging information.
    Debug,
    /// Ordinary events.
    Info,
    /// Ordinary but significant events.
    Notice,
    /// Warning conditions.
    Warning,
    /// Error conditions.
    Error,
    /// Critical conditions, such as the failure of a component.
    Critical,
    /// Action must be taken immediately.
    Alert,
    /// The system is unusable.
    Emergency,
}

impl LoggingLevel {
    /// All levels, least severe first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// Returns the string used in messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

/// Error for a string that is not a severity level of RFC 5424.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown log level {0:?}")]
pub struct UnknownLoggingLevel(String);

impl FromStr for LoggingLevel {
    type Err = UnknownLoggingLevel;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "debug" => Self::Debug,
            "info" => Self::Info,
            "notice" => Self::Notice,
            "warning" => Self::Warning,
            "error" => Self::Error,
            "critical" => Self::Critical,
            "alert" => Self::Alert,
            "emergency" => Self::Emergency,
            other => return Err(UnknownLoggingLevel(other.to_owned())),
        })
    }
}

impl fmt::Display for LoggingLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Params of `logging/setLevel` (up to 2025-11-25).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SetLevelParams {
    /// Minimum severity of messages to send.
    pub level: LoggingLevel,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl SetLevelParams {
    /// Creates a `SetLevelParams` with the required members; all others are absent.
    #[must_use]
    pub fn new(level: LoggingLevel) -> Self {
        Self { level, meta: Meta::new() }
    }
}

setters!(SetLevelParams {
    set with_meta(meta: Meta);
});

/// Params of `notifications/message`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LogMessageParams {
    /// Severity of the message.
    pub level: LoggingLevel,
    /// Name of the logger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logger: Option<String>,
    /// Content of the message: any JSON value.
    pub data: RawJson,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl LogMessageParams {
    /// Creates a `LogMessageParams` with the required members; all others are absent.
    #[must_use]
    pub fn new(level: LoggingLevel, data: RawJson) -> Self {
        Self { level, data, logger: None, meta: Meta::new() }
    }
}

setters!(LogMessageParams {
    some with_logger(logger: String);
    set with_meta(meta: Meta);
});
