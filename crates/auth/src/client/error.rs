//! Errors of the OAuth client.

use http::StatusCode;

use crate::egress::FetchError;
use crate::metadata::{ResourceMetadataError, ServerMetadataError};
use crate::{ErrorBody, Issuer};

/// Reasons an authorization failed. The error contains no secrets, and third-party text only in a form that is safe to
/// display.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// The server wants to know who is there, and says nowhere who could vouch for us.
    #[error("the server wants authorization and says nowhere who gives it")]
    NoMetadata,
    /// No metadata of this authorization server was found.
    #[error("no metadata of the authorization server {0} was found")]
    NoServerMetadata(Issuer),
    /// Somebody could not be asked.
    #[error("{what} at {url} cannot be asked")]
    Fetch {
        /// Whose answer was wanted.
        what: &'static str,
        /// URL without its query.
        url: String,
        /// Cause.
        #[source]
        why: FetchError,
    },
    /// Somebody refused.
    #[error("{what} at {url} answered with status {status}")]
    Status {
        /// Whose answer was wanted.
        what: &'static str,
        /// URL without its query.
        url: String,
        /// Status of the response.
        status: StatusCode,
    },
    /// An answer is not what it should be.
    #[error("{what} at {url} {why}")]
    Malformed {
        /// Whose answer was wanted.
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
    #[error("the client is registered with {registered}, but the server now uses {now}")]
    OtherIssuer {
        /// Issuer that it is registered with.
        registered: Issuer,
        /// Whom the server names.
        now: Issuer,
    },
    /// No registration is possible: a client id that the server knows must be configured.
    #[error("{0} registers no clients by itself; a client id that it knows must be given")]
    NeedsClientId(Issuer),
    /// The server did not register us.
    #[error("{issuer} did not register the client: {why}")]
    Registration {
        /// Issuer that refused.
        issuer: Issuer,
        /// In its own words, or its status.
        why: String,
    },
    /// The way in which the server wants to know who we are is not spoken here, or lacks what it needs.
    #[error("the client cannot show {issuer} who it is: {why}")]
    ClientAuth {
        /// Whom.
        issuer: Issuer,
        /// Missing credential or method.
        why: String,
    },
    /// The authorization response that came through the browser is not valid.
    #[error(transparent)]
    Redirect(#[from] RedirectError),
    /// The token endpoint refused.
    #[error("the authorization server refused: {0}")]
    Refused(ErrorBody),
    /// The token is of a kind that cannot be shown here.
    #[error("the authorization server gave a token of the kind {0:?}, which is not spoken here")]
    TokenType(String),
    /// No key or no randomness, or the platform could not sign.
    #[error("{0} cannot be made here")]
    Crypto(&'static str),
    /// The program around the flow gave it what it had not asked for.
    #[error("the flow was given something it had not asked for")]
    OutOfOrder,
    /// Somebody has to sign in, and nothing is set up to ask them.
    #[error("somebody has to sign in")]
    NobodyToAsk,
    /// Somebody else was asked; what comes of it is handed in later.
    #[error("somebody has to sign in at {0}")]
    Visit(url::Url),
    /// The maximum number of sign-ins is pending already.
    #[error("{0} sign-ins are waited for already (max_pending_sign_ins); finish one, or wait 10 minutes")]
    TooManySignIns(usize),
    /// The person could not be asked, or has not agreed.
    #[error("nobody signed in: {0}")]
    SignIn(String),
    /// The platform's token could not be read.
    #[error("the platform's token cannot be read: {0}")]
    Workload(String),
    /// The server rejects a token that was just issued for it.
    #[error("the server refuses the token that was made out for it")]
    TokenRefused,
    /// The server has moved to where its token is not shown.
    #[error("the server has moved to {0}, which its token is not for; name that URL")]
    Moved(String),
    /// A code that was to be entered on another machine was not entered in time.
    #[error("the code was not entered in time")]
    CodeExpired,
    /// The store of credentials failed.
    #[error("the store of credentials failed: {0}")]
    Store(String),
}

/// Reasons an authorization response is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedirectError {
    /// It is no URL, or not that of the place it was to come to.
    #[error("what came back is not an answer to what was asked")]
    Elsewhere,
    /// A parameter comes twice, so that two readers could read two things.
    #[error("the answer says {0} twice")]
    Repeated(&'static str),
    /// It answers another question than ours.
    #[error("the answer is to a question that was not asked (its state is another)")]
    State,
    /// It came from another server than the one asked (RFC 9207). What else it says is not shown.
    #[error("the answer does not come from the authorization server that was asked")]
    Issuer,
    /// The server, or the person, said no.
    #[error("the authorization server refused: {0}")]
    Refused(ErrorBody),
    /// It says neither yes nor no.
    #[error("the answer holds no code")]
    NoCode,
    /// It came too late.
    #[error("the answer came later than 10 minutes after the question")]
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
}

impl StepError {
    /// With words; nothing secret may be in them.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), source: None }
    }

    /// With the error of the system underneath.
    #[must_use]
    pub fn because(mut self, source: std::io::Error) -> Self {
        self.source = Some(source);
        self
    }
}
