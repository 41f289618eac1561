//! Sign-in at the provider, from the redirect to the session.

use std::fmt;
use std::pin::Pin;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use subtle::ConstantTimeEq as _;

use super::logout::TeamLogout;
use super::sessions::OpenedTeamSession;
use super::{NoRole, TeamConsole};
use crate::sessions::{hash_text, random_text};

/// Time for a person to sign in at the provider.
pub(crate) const SIGN_IN_LIFETIME: SignedDuration = SignedDuration::from_mins(10);

/// Future of a request to the provider.
pub type TeamSignInFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, TeamSignInError>> + Send + 'a>>;

/// Sign-in at an OpenID provider, by authorization code with PKCE. It stores nothing.
pub trait TeamSignIn: Send + Sync {
    /// Begins a sign-in that ends at this redirect URI.
    fn begin<'a>(&'a self, redirect_uri: &'a str) -> TeamSignInFuture<'a, BegunTeamSignIn>;

    /// Checks the response of the provider to a sign-in with this nonce and code verifier, and returns the person.
    fn finish<'a>(
        &'a self,
        response: &'a TeamSignInResponse,
        redirect_uri: &'a str,
        nonce: &'a str,
        verifier: &'a str,
    ) -> TeamSignInFuture<'a, ClaimedPerson>;

    /// Reads the claims of a person again. [`TeamSignInError::Refused`] ends the session.
    fn read_again<'a>(
        &'a self,
        refresh_token: &'a str,
        subject: &'a str,
    ) -> TeamSignInFuture<'a, ClaimedPerson>;

    /// Checks a logout token of the provider, but not whether it was used before.
    fn check_logout<'a>(&'a self, token: &'a str) -> TeamSignInFuture<'a, TeamLogout>;

    /// Gives a refresh token back.
    fn revoke(&self, refresh_token: String);
}

/// A sign-in that has begun.
#[derive(Clone)]
#[expect(clippy::exhaustive_structs, reason = "the program fills in all of it")]
pub struct BegunTeamSignIn {
    /// URL to which the browser goes.
    pub url: String,
    /// Parameter `state`, which the browser brings back.
    pub state: String,
    /// Nonce of the ID token.
    pub nonce: String,
    /// Code verifier.
    pub verifier: String,
}

/// Response of the provider, as the browser brings it.
#[derive(Clone, Debug, Default, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "it has what OpenID Connect and RFC 9207 name")]
pub struct TeamSignInResponse {
    /// The state of the sign-in.
    pub state: Option<String>,
    /// Authorization code.
    pub code: Option<String>,
    /// Issuer (RFC 9207).
    pub iss: Option<String>,
    /// Error code.
    pub error: Option<String>,
}

/// A person, by the claims of the provider.
#[derive(Clone)]
#[expect(clippy::exhaustive_structs, reason = "the program fills in all of it")]
pub struct ClaimedPerson {
    /// Issuer of the claims.
    pub issuer: String,
    /// Subject at the issuer.
    pub subject: String,
    /// All claims.
    pub claims: Map<String, Value>,
    /// Token with which they can be read again.
    pub refresh_token: Option<String>,
}

/// Reasons that a sign-in at the provider failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(clippy::exhaustive_enums, reason = "the console says something else about each")]
pub enum TeamSignInError {
    /// The person denied it.
    #[error("the sign-in was denied at the provider")]
    Denied,
    /// The provider has refused, or its response is not valid.
    #[error("{0}")]
    Refused(String),
    /// The provider cannot be reached.
    #[error("{0}")]
    Unreachable(String),
}

/// A sign-in that has begun, for the browser.
pub(crate) struct StartedSignIn {
    pub(crate) url: String,
    /// Secret that binds it to the browser.
    pub(crate) secret: String,
}

/// Reasons that no sign-in begins.
#[derive(Debug)]
pub(crate) enum BeginError {
    Provider(TeamSignInError),
    Store(hospes_store::StoreError),
}

/// Reasons that a sign-in ends without a session.
#[derive(Debug)]
pub(crate) enum FinishError {
    /// The sign-in is unknown, was already used, has expired or began in another browser.
    Unknown,
    /// The person has no role.
    NoRole(NoRole, String),
    /// There are too many sessions.
    TooMany,
    Provider(TeamSignInError),
    Store(hospes_store::StoreError),
}

impl fmt::Debug for BegunTeamSignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BegunTeamSignIn(…)")
    }
}

impl fmt::Debug for ClaimedPerson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimedPerson")
            .field("issuer", &self.issuer)
            .field("subject", &self.subject)
            .finish_non_exhaustive()
    }
}

impl From<hospes_store::StoreError> for FinishError {
    fn from(error: hospes_store::StoreError) -> Self {
        Self::Store(error)
    }
}

/// A sign-in that waits for its browser, as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredSignIn {
    nonce: String,
    verifier: String,
    /// Hash of the secret of the browser.
    browser: String,
}

impl TeamConsole {
    /// Begins a sign-in.
    pub(crate) async fn begin_sign_in(&self) -> Result<StartedSignIn, BeginError> {
        let begun = self.sign_in.begin(&self.redirect_uri()).await.map_err(BeginError::Provider)?;
        let secret = random_text();
        let BegunTeamSignIn { url, state, nonce, verifier } = begun;
        let stored = StoredSignIn { nonce, verifier, browser: hash_text(&secret) };
        let until = Timestamp::now().saturating_add(SIGN_IN_LIFETIME).unwrap_or(Timestamp::MAX);
        let body = serde_json::to_string(&stored).unwrap_or_default();
        // At any node the browser may come back.
        self.records.begin_sign_in(hash_text(&state), &body, until).await.map_err(BeginError::Store)?;
        Ok(StartedSignIn { url, secret })
    }

    /// Ends a sign-in with a session, under a new id and secret.
    pub(crate) async fn finish_sign_in(
        &self,
        response: &TeamSignInResponse,
        browser_secret: Option<&str>,
        browser: &str,
    ) -> Result<OpenedTeamSession, FinishError> {
        let (Some(state), Some(secret)) = (&response.state, browser_secret) else {
            return Err(FinishError::Unknown);
        };
        let taken = self.records.take_sign_in(hash_text(state), Timestamp::now()).await?;
        let stored = taken.and_then(|body| serde_json::from_str::<StoredSignIn>(&body).ok());
        let stored = stored.ok_or(FinishError::Unknown)?;
        // Otherwise somebody could sign another person's browser in with an account of their own.
        if !bool::from(stored.browser.as_bytes().ct_eq(hash_text(secret).as_bytes())) {
            tracing::warn!("console sign-in rejected: the response came to another browser");
            return Err(FinishError::Unknown);
        }
        let StoredSignIn { nonce, verifier, .. } = &stored;
        let redirect_uri = self.redirect_uri();
        let person = self.sign_in.finish(response, &redirect_uri, nonce, verifier).await;
        self.open_session(person.map_err(FinishError::Provider)?, browser).await
    }
}
