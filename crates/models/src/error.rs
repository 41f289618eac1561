//! Errors of requests to a model.

use std::fmt;
use std::time::Duration;

use hospes_model::RpcError;

use crate::TokenUsage;

/// Reasons a model gave no answer. The texts never contain a key.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The request violates the specification's rules on sampling. Nothing was sent.
    #[error("the sampling request is not valid: {0}")]
    Invalid(String),
    /// The provider cannot represent a part of the request. Nothing was sent.
    #[error("{provider} does not support {what}")]
    Unsupported {
        /// Name of the provider.
        provider: &'static str,
        /// The part of the request, and what is supported instead.
        what: String,
    },
    /// No connection could be opened.
    #[error("{at} cannot be reached: {why}")]
    Unreachable {
        /// Host, with the port unless it is the default one.
        at: String,
        /// Description of the failure.
        why: String,
    },
    /// The API key is missing, invalid, or lacks permission.
    #[error("{at} did not accept the API key (HTTP {status}{code})", code = shown_code(code))]
    Unauthorized {
        /// Host of the provider.
        at: String,
        /// HTTP status, 401 or 403.
        status: u16,
        /// Error code of the provider, if it gave one.
        code: String,
    },
    /// The provider refused the request permanently.
    #[error("{at} refused the request (HTTP {status}): {message}")]
    Refused {
        /// Host of the provider.
        at: String,
        /// HTTP status.
        status: u16,
        /// Message of the provider, shortened, without control characters.
        message: String,
    },
    /// The provider was temporarily unable to answer, in all attempts.
    #[error("{at} is temporarily unavailable (HTTP {status}): {message}{wait}", wait = shown_wait(*retry_after))]
    Busy {
        /// Host of the provider.
        at: String,
        /// HTTP status: 408, 429, or 500 and above.
        status: u16,
        /// Message of the provider, shortened, without control characters.
        message: String,
        /// Time after which the provider accepts another request.
        retry_after: Option<Duration>,
    },
    /// A time limit elapsed.
    #[error("{at} timed out: {stage} took more than {limit:?} (setting {setting})", setting = stage.setting())]
    TimedOut {
        /// Host of the provider.
        at: String,
        /// Stage that took too long.
        stage: TimeoutStage,
        /// Elapsed limit.
        limit: Duration,
    },
    /// The answer exceeds the size limit.
    #[error("the answer from {at} is longer than {limit} bytes (setting max_answer_bytes)")]
    TooLong {
        /// Host of the provider.
        at: String,
        /// Limit, in bytes.
        limit: usize,
    },
    /// The answer is not in the provider's format.
    #[error("the answer from {at} cannot be read: {why}")]
    Malformed {
        /// Host of the provider.
        at: String,
        /// Description of the problem.
        why: String,
    },
    /// The answer was cut off.
    #[error("the answer from {at} was incomplete: {why}")]
    Broken {
        /// Host of the provider.
        at: String,
        /// Description of the failure.
        why: String,
    },
    /// The provider reported an error in the middle of its answer.
    #[error("{at} reported an error in its answer: {message}")]
    Reported {
        /// Host of the provider.
        at: String,
        /// Message of the provider, shortened, without control characters.
        message: String,
    },
    /// The provider blocked the prompt.
    #[error("{at} blocked the prompt: {reason}")]
    Blocked {
        /// Host of the provider.
        at: String,
        /// Reason in the provider's words.
        reason: String,
    },
    /// A model in this process cannot be loaded or has failed.
    #[error("the local model {model} cannot be used: {why}")]
    Unusable {
        /// Name of the model.
        model: String,
        /// Description of the failure.
        why: String,
    },
    /// The queue of a model in this process, which answers one request at a time, is full.
    #[error("the limit of {limit} requests that wait for the local model {model} is reached")]
    Crowded {
        /// Name of the model.
        model: String,
        /// Maximum number of waiting requests.
        limit: usize,
    },
    /// The script has ended, or fails at this point.
    #[error("the scripted model fails: {0}")]
    Scripted(String),
}

impl ModelError {
    /// Returns the error for the MCP server that asked. Errors that the server can act on are reported in full, all
    /// others by kind only. The server must not learn which provider the host uses, or details of an account.
    #[must_use]
    pub fn to_rpc(&self) -> RpcError {
        match self {
            Self::Invalid(_) => RpcError::invalid_params(self.to_string()),
            Self::Unsupported { what, .. } => {
                RpcError::internal(format!("the model does not support {what}"))
            }
            Self::Blocked { .. } => RpcError::internal("the model refused to answer this prompt"),
            Self::Busy { .. } | Self::Crowded { .. } => {
                RpcError::internal("the model is busy; try again later")
            }
            Self::TimedOut { .. } => RpcError::internal("the model did not answer in time"),
            Self::TooLong { .. } => RpcError::internal("the model's answer is too long"),
            _ => RpcError::internal("the request to the model failed"),
        }
    }

    /// Returns the kind of the error in one word, for audit entries and logs, which must not repeat a provider's
    /// message or parts of the prompt.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid",
            Self::Unsupported { .. } => "unsupported",
            Self::Unreachable { .. } => "unreachable",
            Self::Unauthorized { .. } => "unauthorized",
            Self::Refused { .. } => "refused",
            Self::Busy { .. } => "busy",
            Self::TimedOut { .. } => "timed_out",
            Self::TooLong { .. } => "too_long",
            Self::Malformed { .. } => "malformed",
            Self::Broken { .. } => "broken",
            Self::Reported { .. } => "reported",
            Self::Blocked { .. } => "blocked",
            Self::Unusable { .. } => "unusable",
            Self::Crowded { .. } => "crowded",
            Self::Scripted(_) => "scripted",
        }
    }

    /// Returns true if the error was found before anything was sent.
    #[must_use]
    pub fn is_before_sending(&self) -> bool {
        matches!(self, Self::Invalid(_) | Self::Unsupported { .. } | Self::Crowded { .. })
    }
}

/// Stage of a request that took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeoutStage {
    /// Opening the connection.
    Connecting,
    /// Waiting for the first byte of the answer.
    FirstByte,
    /// Waiting for more of an answer that has started.
    Idle,
    /// The whole request, including retries.
    Whole,
}

impl TimeoutStage {
    /// Returns the name of the limit in the configuration.
    #[must_use]
    pub fn setting(self) -> &'static str {
        match self {
            Self::Connecting => "connect_timeout",
            Self::FirstByte => "first_byte_timeout",
            Self::Idle => "idle_timeout",
            Self::Whole => "timeout",
        }
    }
}

impl fmt::Display for TimeoutStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connecting => "connecting",
            Self::FirstByte => "the wait for the first byte of the answer",
            Self::Idle => "a pause in the answer",
            Self::Whole => "the whole answer",
        })
    }
}

/// A failed request: the error, and the part of the answer that had arrived.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct GenerationFailure {
    /// Cause of the failure. It is not a `source`, because its text is the text of this error.
    pub error: ModelError,
    /// Number of times the request was sent.
    pub tries: u32,
    /// True if the model may have worked and the account may be charged, so that a budget should count the request.
    pub may_have_cost: bool,
    /// Token counts sent by the provider before the failure.
    pub usage: Option<TokenUsage>,
    /// Text that had arrived before the failure.
    pub partial: String,
}

impl GenerationFailure {
    /// Creates a failure before anything was sent.
    #[must_use]
    pub fn new(error: ModelError) -> Self {
        Self { error, tries: 0, may_have_cost: false, usage: None, partial: String::new() }
    }
}

impl From<ModelError> for GenerationFailure {
    fn from(error: ModelError) -> Self {
        Self::new(error)
    }
}

/// Error for an invalid setting. The text names the setting and the expected value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {why}")]
#[non_exhaustive]
pub struct SettingError {
    /// Name of the setting in the configuration, with that of the model if known: `models.fast.base_url`.
    pub setting: String,
    /// Description of the problem.
    pub why: String,
}

impl SettingError {
    pub(crate) fn new(setting: impl Into<String>, why: impl Into<String>) -> Self {
        Self { setting: setting.into(), why: why.into() }
    }
}

fn shown_code(code: &str) -> String {
    if code.is_empty() { String::new() } else { format!(", {code}") }
}

fn shown_wait(wait: Option<Duration>) -> String {
    wait.map_or_else(String::new, |wait| format!("; retry in {} s", wait.as_secs_f64().ceil()))
}

/// Maximum length of a provider's message, in characters.
const MAX_PROVIDER_TEXT: usize = 400;

/// Sanitizes a provider's message for display: one line, shortened, without control characters.
pub(crate) fn sanitize_provider_text(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    let mut shown = String::new();
    for (count, c) in text.trim().chars().enumerate() {
        if count == MAX_PROVIDER_TEXT {
            shown.push('…');
            break;
        }
        shown.push(if hidden(c) { ' ' } else { c });
    }
    if shown.is_empty() { "no reason given".to_owned() } else { shown }
}
