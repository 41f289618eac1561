//! Errors of the OAuth client.

use hospes_auth::egress::FetchError;
use hospes_auth::metadata::{ResourceMetadataError, ServerMetadataError};
use hospes_auth::{ErrorBody, Issuer};
use http::StatusCode;

/// Reasons an authorization failed. The error contains no secrets, and third-party text only in a form that is safe to
/// display.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// The server requires authorization but names no authorization server.
    #[error("the server requires authorization but publishes no protected resource metadata")]
    NoMetadata,
    /// No metadata of this authorization server was found.
    #[error("no metadata found for the authorization server {0}")]
    NoServerMetadata(Issuer),
    /// Somebody could not be asked.
    #[error("request to {what} at {url} failed")]
    Fetch {
        /// Requested document or endpoint.
        what: &'static str,
        /// URL without its query.
        url: String,
        /// Cause.
        #[source]
        why: FetchError,
    },
    /// An endpoint responded with an error status.
    #[error("{what} at {url} returned status {status}")]
    Status {
        /// Requested document or endpoint.
        what: &'static str,
        /// URL without its query.
        url: String,
        /// Status of the response.
        status: StatusCode,
    },
    /// A response is invalid.
    #[error("{what} at {url}: {why}")]
    Malformed {
        /// Requested document or endpoint.
        what: &'static str,
        /// URL without its query.
        url: String,
        /// Description of the defect.
        why: String,
    },
    /// The resource's metadata is not to be used.
    #[error(transparent)]
    Resource(#[from] ResourceMetadataError),
    /// The authorization server's metadata is not to be used.
    #[error(transparent)]
    Server(#[from] ServerMetadataError),
    /// The client that was given is registered elsewhere. Its credentials go nowhere else.
    #[error(
        "authorization server changed: the client is registered with {registered}, but the server now uses {now}"
    )]
    OtherIssuer {
        /// Issuer that it is registered with.
        registered: Issuer,
        /// Issuer that the server names now.
        now: Issuer,
    },
    /// No registration is possible: a client id that the server knows must be configured.
    #[error(
        "{0} does not support client registration; configure the id of a client that is registered there"
    )]
    NeedsClientId(Issuer),
    /// The server did not register us.
    #[error("client registration at {issuer} failed: {why}")]
    Registration {
        /// Issuer that refused.
        issuer: Issuer,
        /// Error description of the server, or its status.
        why: String,
    },
    /// No client authentication method is supported by both sides, or a credential is missing.
    #[error("cannot authenticate the client to {issuer}: {why}")]
    ClientAuth {
        /// Issuer of the authorization server.
        issuer: Issuer,
        /// Missing credential or method.
        why: String,
    },
    /// The authorization response from the browser is not valid.
    #[error(transparent)]
    Redirect(#[from] RedirectError),
    /// The token endpoint returned an error.
    #[error("the authorization server rejected the request: {0}")]
    Refused(ErrorBody),
    /// The token is of a kind that cannot be shown here.
    #[error("the authorization server issued a token of the unsupported type {0:?}")]
    TokenType(String),
    /// No key or no randomness, or the platform could not sign.
    #[error("cannot create {0}")]
    Crypto(&'static str),
    /// The driver of the flow passed an unexpected input.
    #[error("the authorization flow received an unexpected input")]
    OutOfOrder,
    /// Somebody has to sign in, and nothing is set up to ask them.
    #[error("sign-in required")]
    NobodyToAsk,
    /// The user has to visit this page; the response is passed in later.
    #[error("sign-in required: open {0}")]
    Visit(url::Url),
    /// The maximum number of sign-ins is pending already.
    #[error(
        "{0} sign-ins are already pending (limit max_pending_sign_ins); complete one, or wait 10 minutes"
    )]
    TooManySignIns(usize),
    /// The person could not be asked, or has not agreed.
    #[error("sign-in failed: {0}")]
    SignIn(String),
    /// The platform's token could not be read.
    #[error("cannot read the workload identity token: {0}")]
    Workload(String),
    /// The server rejects a token that was just issued for it.
    #[error("the server rejected a token that was just issued for it")]
    TokenRefused,
    /// The server has moved to where its token is not shown.
    #[error("the server has moved to {0}, for which the token is not valid; configure that URL")]
    Moved(String),
    /// A code that was to be entered on another machine was not entered in time.
    #[error("the device code expired before it was entered")]
    CodeExpired,
    /// The store of credentials failed.
    #[error("the credential store failed: {0}")]
    Store(String),
    /// The lock of the tokens has ended, and another process may have replaced them.
    #[error("another process has replaced the tokens meanwhile")]
    Superseded,
}

/// Reasons an authorization response is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedirectError {
    /// It is no URL, or not that of the place it was to come to.
    #[error("the redirect is not a response to this authorization request")]
    Elsewhere,
    /// A parameter comes twice, so that two readers could read two things.
    #[error("the authorization response contains {0} more than once")]
    Repeated(&'static str),
    /// The response belongs to another request.
    #[error("the authorization response has an unknown `state`")]
    State,
    /// The response comes from another server than the requested one (RFC 9207). Its content is not shown.
    #[error("issuer mismatch: the authorization response comes from another authorization server")]
    Issuer,
    /// The server or the user refused.
    #[error("the authorization server denied the request: {0}")]
    Refused(ErrorBody),
    /// The response has neither a code nor an error.
    #[error("the authorization response contains no code")]
    NoCode,
    /// The response came too late.
    #[error("the authorization response arrived more than 10 minutes after the request")]
    Expired,
}

/// Error of a step that the caller performs for the flow, such as storing data or asking a user.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
#[non_exhaustive]
pub struct StepError {
    what: String,
    #[source]
    source: Option<std::io::Error>,
    is_superseded: bool,
}

impl StepError {
    /// Creates an error with a message, which must not contain secrets.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), source: None, is_superseded: false }
    }

    /// Creates the error of a document that was not written, because its lock has ended and another process may have
    /// written a newer one.
    #[must_use]
    pub fn superseded() -> Self {
        let what = "the lock of the document has ended, and another process may have replaced it";
        Self { what: what.to_owned(), source: None, is_superseded: true }
    }

    /// Returns true for an error of [`Self::superseded`].
    #[must_use]
    pub fn is_superseded(&self) -> bool {
        self.is_superseded
    }

    /// Adds the operating system's error as the source.
    #[must_use]
    pub fn because(mut self, source: std::io::Error) -> Self {
        self.source = Some(source);
        self
    }
}
