//! Who answers when a server over HTTP wants to know who is there.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode};

/// What an [`Authorizer`] works on.
pub type Authorizing<'a, T> = Pin<Box<dyn Future<Output = Result<T, NotAuthorized>> + Send + 'a>>;

/// Gives requests to a server what lets them in, and deals with refusals. One that speaks OAuth is in the crate
/// `hospes-auth`.
///
/// It is asked before every request over HTTP, streams and older sessions included, and after each that was answered
/// with 401 or 403. While it works no time limit of the connection's calls runs, for somebody may have to sign in; over
/// HTTP+SSE only that of sending does not.
pub trait Authorizer: Send + Sync + fmt::Debug {
    /// The headers that let this request in; none if nothing is known to.
    fn headers<'a>(&'a self, request: Outbound<'a>) -> Authorizing<'a, HeaderMap>;

    /// Deals with a refusal.
    fn refused<'a>(&'a self, refusal: Refusal<'a>) -> Authorizing<'a, Verdict>;

    /// A request for this operation that was refused before, and sent again, was let in.
    fn let_in(&self, operation: &str) {
        let _ = operation;
    }
}

/// A request that is about to be sent.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Outbound<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Where it goes.
    pub url: &'a url::Url,
    /// Nobody waits for it: the session's own stream, a notification, an answer to the server. What it needs may be
    /// renewed, but no person is to be asked on its account.
    pub background: bool,
    /// The server itself has said on its stream that messages go there (HTTP+SSE): it is another URL of the same server.
    pub announced: bool,
}

impl<'a> Outbound<'a> {
    /// One of this method that goes there, for which somebody waits.
    #[must_use]
    pub fn new(method: &'a Method, url: &'a url::Url) -> Self {
        Self { method, url, background: false, announced: false }
    }

    /// One for which nobody waits.
    #[must_use]
    pub fn background(mut self) -> Self {
        self.background = true;
        self
    }

    /// One that goes where the server has said on its stream that messages go.
    #[must_use]
    pub fn announced(mut self) -> Self {
        self.announced = true;
        self
    }
}

/// A request that was answered with 401 or 403.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Refusal<'a> {
    /// The request.
    pub request: Outbound<'a>,
    /// What [`Authorizer::headers`] gave it.
    pub sent: &'a HeaderMap,
    /// What it was for: an MCP method, and whatever that names (`tools/call add`).
    pub operation: &'a str,
    /// How it was refused.
    pub status: StatusCode,
    /// The headers of the refusal, `WWW-Authenticate` among them.
    pub headers: &'a HeaderMap,
    /// How often the same request was sent again before.
    pub attempt: u32,
}

// What was sent is secret.
impl fmt::Debug for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal")
            .field("operation", &self.operation)
            .field("status", &self.status)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// What becomes of a refused request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It is sent again, with headers that are asked for anew; at most 8 times.
    Retry,
    /// The refusal stands.
    Refuse,
}

/// A request was refused, and nothing could be done about it.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotAuthorized {
    /// What is the matter, in a few words.
    pub what: String,
    /// Where a person could sign in, if that would help.
    pub sign_in: Option<String>,
    /// The status of the response that refused it, 401 or 403; none where it was not sent at all. The transport fills
    /// it in.
    pub status: Option<StatusCode>,
    /// What to do about it.
    pub hint: Option<String>,
    /// The error underneath.
    pub source: Option<Box<dyn StdError + Send + Sync>>,
}

impl NotAuthorized {
    /// With words.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), sign_in: None, status: None, hint: None, source: None }
    }

    /// With where a person could sign in.
    #[must_use]
    pub fn sign_in(mut self, url: impl Into<String>) -> Self {
        self.sign_in = Some(url.into());
        self
    }

    /// With what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With the error underneath.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}

impl fmt::Display for NotAuthorized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.sign_in {
            Some(url) => write!(f, "; sign in at {url}"),
            None => Ok(()),
        }
    }
}

impl StdError for NotAuthorized {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as &(dyn StdError + 'static))
    }
}

/// An authorizer that is the same as itself and no other.
#[derive(Clone, Debug)]
pub(crate) struct Shared(pub(crate) Arc<dyn Authorizer>);

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Shared {}
