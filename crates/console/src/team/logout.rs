//! Sign-out of people at the provider, which tells the console (OpenID Connect Back-Channel Logout 1.0).

use hospes_store::StoreError;
use hospes_store::console_sessions::{ProviderLogoutRecord, ProviderLogoutResult};
use jiff::Timestamp;

use super::TeamConsole;
use super::sign_in::TeamSignInError;
use crate::sessions::hash_text;

/// A sign-out at the provider, whose token is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the program fills in all of it")]
pub struct TeamLogout {
    /// Issuer of the token.
    pub issuer: String,
    /// Subject who has signed out. `None` if only the session is named.
    pub subject: Option<String>,
    /// Session at the provider that has ended. `None` if all sessions of the subject have.
    pub session: Option<String>,
    /// Identifier of the token, which is used once.
    pub id: String,
    /// Time until which the identifier has to be remembered.
    pub until: Timestamp,
}

/// Reasons that a sign-out at the provider ends no session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogoutError {
    #[error("{0}")]
    Provider(TeamSignInError),
    #[error("the logout token was used before")]
    Used,
    #[error(
        "too many sign-outs in the last minutes; the limit max_logouts is {}",
        hospes_store::console_sessions::MAX_LOGOUTS
    )]
    TooMany,
    #[error("the sessions cannot be ended: {0}")]
    Store(#[from] StoreError),
}

impl TeamConsole {
    /// Ends the sessions that a logout token names, at all nodes. Returns their number.
    pub(crate) async fn end_by_provider(&self, token: &str) -> Result<usize, LogoutError> {
        let logout = self.sign_in.check_logout(token).await.map_err(LogoutError::Provider)?;
        let TeamLogout { issuer, subject, session, id, until } = logout;
        let record = ProviderLogoutRecord {
            key: hash_text(&format!("logout {issuer} {id}")),
            until,
            person: subject.map(|subject| (self.principal)(&issuer, &subject)),
            provider_session: session.map(|session| provider_session(&issuer, &session)),
        };
        match self.records.end_by_provider(record, Timestamp::now()).await? {
            ProviderLogoutResult::Ended(number) => Ok(number),
            ProviderLogoutResult::Used => Err(LogoutError::Used),
            ProviderLogoutResult::TooMany => Err(LogoutError::TooMany),
        }
    }
}

/// Returns the name of a session at a provider, as it is stored.
pub(super) fn provider_session(issuer: &str, session: &str) -> String {
    // No issuer has a space in it.
    hash_text(&format!("session {issuer} {session}"))
}
