//! Errors between a client and its server.

use std::error::Error as StdError;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use hospes_model::{Method, Revision, RpcError, code};

/// Error of a call.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The server answered with an error.
    #[error("the server answered: {0}")]
    Rpc(RpcError),
    /// No response arrived in time. The server was notified of the cancellation.
    #[error("{method} was not answered within {after:?} (setting {limit})")]
    Timeout {
        /// Method of the request.
        method: Box<str>,
        /// Limit that was exceeded.
        limit: TimeLimit,
        /// Time that was waited.
        after: Duration,
    },
    /// The connection is closed.
    #[error("{0}")]
    Closed(Arc<ConnectionClosed>),
    /// The server did not declare the feature, so no request was sent.
    #[error("the server does not support {0}")]
    NotOffered(&'static str),
    /// The method does not exist in the revision that is spoken.
    #[error("{method} does not exist in revision {revision}")]
    NotInRevision {
        /// The method.
        method: Box<str>,
        /// Revision in use.
        revision: Revision,
    },
    /// The answer does not have the shape that the method's result has.
    #[error("invalid response to {method}: {why}")]
    Malformed {
        /// Method of the request.
        method: Box<str>,
        /// Description of the fault.
        why: Box<str>,
    },
    /// The arguments could not be serialized as JSON.
    #[error("cannot serialize the arguments as JSON: {0}")]
    Arguments(Arc<serde_json::Error>),
    /// A message is longer than a limit allows.
    #[error("{what} of {bytes} bytes is over the limit of {max} (setting {setting})")]
    TooLarge {
        /// Message that is too large.
        what: &'static str,
        /// Size in bytes.
        bytes: usize,
        /// Maximum size in bytes.
        max: usize,
        /// The setting's name.
        setting: &'static str,
    },
    /// The HTTP server refused or failed, without a message of the protocol.
    #[error("{0}")]
    Http(Arc<HttpFailure>),
    /// The server refused the request, and the authorizer could not resolve that.
    #[cfg(feature = "http")]
    #[error("{0}")]
    NotAuthorized(Arc<super::AuthorizerError>),
    /// The server asked more rounds of questions than are allowed.
    #[error("the server asked more than {0} rounds of questions (setting max_input_rounds)")]
    TooManyRounds(u32),
    /// The server asked a question that this client has no handler for.
    #[error("the server asks for {0}, but this client has no handler for it")]
    NobodyAnswers(Box<str>),
    /// The handler of the server's question failed or refused.
    #[error("the server's {method} was refused: {error}")]
    Refused {
        /// Method of the server's question.
        method: Box<str>,
        /// Error of the handler.
        error: RpcError,
    },
    /// The server forgot the session. A new one is open, but the call was not repeated: doing it twice may do harm.
    #[error("the server ended the session; this call was not repeated, the next one uses a new session")]
    SessionEnded,
    /// The call became a task, which was cancelled.
    #[error("the task was cancelled")]
    TaskCancelled,
    /// Too many calls are in progress.
    #[error("more than {max} {what} (setting {setting})")]
    TooMany {
        /// Kind of item that is limited.
        what: &'static str,
        /// Maximum number.
        max: usize,
        /// The setting's name.
        setting: &'static str,
    },
}

/// Time limit that was exceeded; its text is the name of the setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeLimit {
    /// The time without an answer or progress.
    Timeout,
    /// The total time limit, regardless of progress.
    MaxTimeout,
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout => "timeout",
            Self::MaxTimeout => "max_timeout",
        })
    }
}

/// Reason a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionClosed {
    /// Short description of the event.
    pub what: String,
    /// The last lines that the server's process wrote to stderr.
    pub stderr: Option<String>,
    /// The first line on stdout that was no message.
    pub noise: Option<String>,
}

impl ConnectionClosed {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), stderr: None, noise: None }
    }
}

impl fmt::Display for ConnectionClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(noise) = &self.noise {
            write!(f, "; the server printed this on stdout: {noise}")?;
        }
        if let Some(stderr) = &self.stderr {
            write!(f, "; its stderr ends in: {}", stderr.lines().last().unwrap_or_default())?;
        }
        Ok(())
    }
}

/// An HTTP exchange that yielded no message.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpFailure {
    /// Stage that failed.
    pub stage: ConnectStage,
    /// The status, where there was one.
    pub status: Option<u16>,
    /// `WWW-Authenticate`, where there was one.
    pub challenge: Option<String>,
    /// The beginning of the body.
    pub body: Option<String>,
    /// Short description of the failure.
    pub what: String,
}

impl fmt::Display for HttpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.body {
            Some(body) => write!(f, ": {body}"),
            None => Ok(()),
        }
    }
}

impl From<RpcError> for CallError {
    fn from(error: RpcError) -> Self {
        Self::Rpc(error)
    }
}

impl CallError {
    /// Returns the server's own error, if this is one.
    #[must_use]
    pub fn rpc(&self) -> Option<&RpcError> {
        match self {
            Self::Rpc(error) => Some(error),
            _ => None,
        }
    }

    /// Returns true if the connection is closed, so that every further call fails too.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_))
    }

    /// Converts the error for a client whose call was forwarded. The server's own error is passed on; any other error
    /// describes the failure here.
    #[must_use]
    pub fn to_rpc(&self) -> RpcError {
        match self {
            Self::Rpc(error) => error.clone(),
            // For the other client such a method does not exist (ERR-03).
            Self::NotOffered(_) | Self::NotInRevision { .. } => {
                RpcError::new(code::METHOD_NOT_FOUND, self.to_string())
            }
            _ => RpcError::internal(self.to_string()),
        }
    }
}

/// Stage of connecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectStage {
    /// Parsing of the target.
    Target,
    /// Start of the program.
    Spawn,
    /// The host's name was looked up.
    Dns,
    /// Opening of the connection.
    Tcp,
    /// TLS handshake.
    Tls,
    /// HTTP exchange.
    Http,
    /// The request `server/discover`.
    Discover,
    /// The request `initialize`.
    Initialize,
    /// A revision was agreed upon.
    Negotiate,
}

impl fmt::Display for ConnectStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Target => "target",
            Self::Spawn => "spawn",
            Self::Dns => "DNS",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Http => "HTTP",
            Self::Discover => "server/discover",
            Self::Initialize => "initialize",
            Self::Negotiate => "negotiation",
        })
    }
}

/// An attempt made while connecting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectAttempt {
    /// Description of the attempt.
    pub what: String,
    /// Outcome of the attempt.
    pub outcome: String,
    /// Duration of the attempt.
    pub took: Duration,
}

impl ConnectAttempt {
    pub(crate) fn new(what: impl Into<String>, outcome: impl Into<String>, took: Duration) -> Self {
        Self { what: what.into(), outcome: outcome.into(), took }
    }
}

/// Error of connecting: the stage, the attempts, the response and a hint.
///
/// Printed it is one sentence and the details below it.
pub struct ConnectError(Box<ConnectFailure>);

/// Details of a [`ConnectError`].
#[derive(Debug)]
#[non_exhaustive]
pub struct ConnectFailure {
    /// Target, for display.
    pub target: String,
    /// Stage at which connecting failed.
    pub stage: ConnectStage,
    /// Short description of the failure.
    pub what: String,
    /// Everything that was tried, in order.
    pub tried: Vec<ConnectAttempt>,
    /// The last HTTP status.
    pub status: Option<u16>,
    /// The last `WWW-Authenticate`.
    pub challenge: Option<String>,
    /// The beginning of the last body that was no message.
    pub body: Option<String>,
    /// The server's error, where it answered with one.
    pub error: Option<RpcError>,
    /// URL where a person can sign in, if that would help.
    pub sign_in: Option<String>,
    /// True if a sign-in would help, and no page for it is known.
    pub needs_sign_in: bool,
    /// The last lines of the child's stderr.
    pub stderr: Option<String>,
    /// The first line on the child's stdout that was no message.
    pub noise: Option<String>,
    /// Suggested remedy.
    pub hint: Option<String>,
    /// Underlying error.
    pub source: Option<Box<dyn StdError + Send + Sync>>,
}

impl ConnectError {
    pub(crate) fn new(target: impl Into<String>, stage: ConnectStage, what: impl Into<String>) -> Self {
        Self(Box::new(ConnectFailure {
            target: target.into(),
            stage,
            what: what.into(),
            tried: Vec::new(),
            status: None,
            challenge: None,
            body: None,
            error: None,
            sign_in: None,
            needs_sign_in: false,
            stderr: None,
            noise: None,
            hint: None,
            source: None,
        }))
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut ConnectFailure)) -> Self {
        change(&mut self.0);
        self
    }

    /// Adds the details of a failed call.
    pub(crate) fn with_cause(self, error: &CallError) -> Self {
        self.with(|failure| match error {
            CallError::Rpc(error) => failure.error = Some(error.clone()),
            CallError::Closed(closed) => {
                failure.stderr.clone_from(&closed.stderr);
                failure.noise.clone_from(&closed.noise);
            }
            CallError::Http(http) => {
                // DNS, TCP or TLS: that is more exact than the stage at which the negotiation stood.
                if !matches!(http.stage, ConnectStage::Http) {
                    failure.stage = http.stage;
                }
                failure.status = http.status;
                failure.challenge.clone_from(&http.challenge);
                failure.body.clone_from(&http.body);
            }
            #[cfg(feature = "http")]
            CallError::NotAuthorized(why) => {
                failure.stage = ConnectStage::Http;
                failure.status = why.status.map(|status| status.as_u16());
                failure.sign_in.clone_from(&why.sign_in);
                failure.needs_sign_in = why.needs_sign_in;
            }
            _ => {}
        })
    }
}

impl Deref for ConnectError {
    type Target = ConnectFailure;

    fn deref(&self) -> &ConnectFailure {
        &self.0
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let this = &*self.0;
        write!(f, "cannot connect to {} ({}): {}", this.target, this.stage, this.what)?;
        for (number, attempt) in this.tried.iter().enumerate() {
            let label = if number == 0 { "tried: " } else { "       " };
            write!(f, "\n  {label}{}: {} ({:.1?})", attempt.what, attempt.outcome, attempt.took)?;
        }
        if let Some(challenge) = &this.challenge {
            write!(f, "\n  challenge: {challenge}")?;
        }
        if let Some(body) = &this.body {
            write!(f, "\n  body: {body}")?;
        }
        if let Some(url) = &this.sign_in {
            write!(f, "\n  sign in at: {url}")?;
        }
        if let Some(noise) = &this.noise {
            write!(f, "\n  the server printed this on stdout: {noise}")?;
        }
        if let Some(stderr) = &this.stderr {
            f.write_str("\n  stderr:")?;
            stderr.lines().try_for_each(|line| write!(f, "\n    {line}"))?;
        }
        if let Some(hint) = &this.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

// `fn main() -> Result<…>` prints this: the same words, not a structure.
impl fmt::Debug for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for ConnectError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| source.as_ref() as &(dyn StdError + 'static))
    }
}

/// Returns the beginning of a body in one line, shortened for display.
pub(crate) fn excerpt(body: &[u8]) -> Option<String> {
    const MAX_EXCERPT_CHARS: usize = 300;
    // No character is longer than four bytes, so that nothing is cut that would be shown.
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * MAX_EXCERPT_CHARS)]);
    let mut line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // A terminal would obey the escape sequences of a hostile server.
    line.retain(|c| !c.is_control());
    if line.is_empty() {
        return None;
    }
    if let Some((end, _)) = line.char_indices().nth(MAX_EXCERPT_CHARS) {
        line.truncate(end);
        line.push('…');
    } else if body.len() > 4 * MAX_EXCERPT_CHARS {
        line.push('…');
    }
    Some(line)
}

/// The error for a result that does not have the form of its method.
pub(crate) fn malformed(method: &Method, why: &str) -> CallError {
    CallError::Malformed { method: method.name().into(), why: why.into() }
}
