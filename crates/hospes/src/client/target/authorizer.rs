//! Authorization of requests to a server over HTTP.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode};

/// Future returned by the methods of an [`Authorizer`].
pub type AuthorizerFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, AuthorizerError>> + Send + 'a>>;

/// Authorizes requests to a server and handles rejections. The crate `hospes-auth` has an implementation for OAuth.
///
/// It is called before every request over HTTP, including streams and older sessions, and after each response with
/// status 401 or 403. Time limits of the connection's calls are suspended while it works, because a person may have to
/// sign in. Over HTTP+SSE only the time limit of sending is suspended.
pub trait Authorizer: Send + Sync + fmt::Debug {
    /// Returns the headers that authorize this request; empty if there are none.
    fn headers<'a>(&'a self, request: OutboundRequest<'a>) -> AuthorizerFuture<'a, HeaderMap>;

    /// Handles a rejected request.
    fn handle_rejection<'a>(&'a self, refusal: RejectedRequest<'a>) -> AuthorizerFuture<'a, RetryDecision>;

    /// Records that a request for this operation, which was rejected and retried, has been accepted.
    fn record_success(&self, operation: &str) {
        let _ = operation;
    }
}

/// A request that is about to be sent.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OutboundRequest<'a> {
    /// HTTP method of the request.
    pub method: &'a Method,
    /// URL that the request is sent to.
    pub url: &'a url::Url,
    /// True if no caller waits for the request: the session's own stream, a notification or an answer to the server.
    /// Tokens may be refreshed for it, but no person may be prompted.
    pub background: bool,
    /// True if the URL was announced by the server on its stream (HTTP+SSE). It is another URL of the same server.
    pub announced: bool,
}

impl<'a> OutboundRequest<'a> {
    /// Creates a request with this method and URL that a caller waits for.
    #[must_use]
    pub fn new(method: &'a Method, url: &'a url::Url) -> Self {
        Self { method, url, background: false, announced: false }
    }

    /// Marks the request as one that no caller waits for.
    #[must_use]
    pub fn background(mut self) -> Self {
        self.background = true;
        self
    }

    /// Marks the URL as announced by the server on its stream.
    #[must_use]
    pub fn announced(mut self) -> Self {
        self.announced = true;
        self
    }
}

/// A request that was answered with 401 or 403.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct RejectedRequest<'a> {
    /// The rejected request.
    pub request: OutboundRequest<'a>,
    /// Headers that [`Authorizer::headers`] returned for the request.
    pub sent: &'a HeaderMap,
    /// Operation of the request: an MCP method and the item it names (`tools/call add`).
    pub operation: &'a str,
    /// Status of the response, 401 or 403.
    pub status: StatusCode,
    /// The headers of the refusal, `WWW-Authenticate` among them.
    pub headers: &'a HeaderMap,
    /// Number of times the same request has been retried.
    pub attempt: u32,
}

// What was sent is secret.
impl fmt::Debug for RejectedRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RejectedRequest")
            .field("operation", &self.operation)
            .field("status", &self.status)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// Decision about a request that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryDecision {
    /// It is sent again, with headers that are asked for anew; at most 8 times.
    Retry,
    /// The rejection stands.
    Refuse,
}

/// A request was refused, and nothing could be done about it.
#[derive(Debug)]
#[non_exhaustive]
pub struct AuthorizerError {
    /// Short description of the failure.
    pub what: String,
    /// URL where a person can sign in, if that would help.
    pub sign_in: Option<String>,
    /// True if a sign-in would help, and there is no page that the error could name.
    pub needs_sign_in: bool,
    /// Status of the rejection, 401 or 403. `None` if the request was not sent. Set by the transport.
    pub status: Option<StatusCode>,
    /// Suggested remedy.
    pub hint: Option<String>,
    /// Underlying error.
    pub source: Option<Box<dyn StdError + Send + Sync>>,
}

impl AuthorizerError {
    /// Creates an error with a message.
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            sign_in: None,
            needs_sign_in: false,
            status: None,
            hint: None,
            source: None,
        }
    }

    /// Sets the URL at which a user can sign in.
    #[must_use]
    pub fn sign_in(mut self, url: impl Into<String>) -> Self {
        self.sign_in = Some(url.into());
        self
    }

    /// Marks the request as refused for want of a sign-in.
    #[must_use]
    pub fn needing_sign_in(mut self) -> Self {
        self.needs_sign_in = true;
        self
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the underlying error.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}

impl fmt::Display for AuthorizerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.sign_in {
            Some(url) => write!(f, "; sign in at {url}"),
            None => Ok(()),
        }
    }
}

impl StdError for AuthorizerError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as &(dyn StdError + 'static))
    }
}

/// An authorizer that is the same as itself and no other.
#[derive(Clone, Debug)]
pub(crate) struct SharedAuthorizer(pub(crate) Arc<dyn Authorizer>);

impl PartialEq for SharedAuthorizer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedAuthorizer {}
