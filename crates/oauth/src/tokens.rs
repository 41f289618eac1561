//! Tokens obtained by an authorization.

use std::sync::Arc;

use hospes_auth::{Issuer, Resource, Scopes};
use secrecy::SecretString;
use url::Url;

use super::credentials::ClientIdentity;
use super::proof_key::ProofKey;

/// The shortest time before its end at which a token is replaced, in seconds.
const EARLY_SECONDS: u64 = 30;

/// Type of an access token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessTokenType {
    /// A bearer token, which is usable without further proof (RFC 6750).
    Bearer,
    /// With a proof of the key it is bound to (RFC 9449).
    Dpop,
}

/// Tokens, and all that is needed to use and renew them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TokenSet {
    /// Issuer.
    pub issuer: Issuer,
    /// Resource that they are for, byte for byte. They are sent nowhere else.
    pub resource: Resource,
    /// Client that the tokens were issued to.
    pub client: ClientIdentity,
    /// Token endpoint, for renewal.
    pub token_endpoint: Url,
    /// Access token.
    pub access: SecretString,
    /// The token for renewal, if one was given.
    pub refresh: Option<SecretString>,
    /// Token type.
    pub kind: AccessTokenType,
    /// Granted scopes.
    pub granted: Scopes,
    /// Requested scopes.
    pub requested: Scopes,
    /// Time of issue, in seconds since 1970.
    pub issued_at: u64,
    /// Expiry of the access token, in seconds since 1970. `None` if the server gave none.
    pub expires_at: Option<u64>,
    /// The key the token is bound to, if it is.
    pub proof_key: Option<Arc<ProofKey>>,
    /// Random mark of a sign-in, kept through all its renewals. Tokens with another mark may belong to another user.
    /// Not secret. Empty in records of older versions.
    pub mark: String,
}

impl TokenSet {
    /// Returns true if the tokens should be renewed: a tenth of their lifetime is left, or less than 30 seconds.
    #[must_use]
    pub fn is_stale(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|end| {
            let life = end.saturating_sub(self.issued_at);
            // A token that lives for less than that would never be fresh.
            let early = (life / 10).max(EARLY_SECONDS.min(life / 2));
            now.saturating_add(early) >= end
        })
    }

    /// Returns true if the access token has expired.
    #[must_use]
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|end| now >= end)
    }
}
