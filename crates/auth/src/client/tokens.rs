//! What an authorization comes to.

use std::sync::Arc;

use secrecy::SecretString;
use url::Url;

use super::credentials::Client;
use super::proof::ProofKey;
use crate::{Issuer, Resource, Scopes};

/// The shortest time before its end at which a token is replaced, in seconds.
const EARLY_SECONDS: u64 = 30;

/// How a token is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenKind {
    /// Whoever has it may use it (RFC 6750).
    Bearer,
    /// With a proof of the key it is bound to (RFC 9449).
    Dpop,
}

/// Tokens, and all that is needed to use and renew them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tokens {
    /// Who made them out.
    pub issuer: Issuer,
    /// For what, byte for byte. They are shown to nobody else.
    pub resource: Resource,
    /// To whom.
    pub client: Client,
    /// Where they are renewed.
    pub token_endpoint: Url,
    /// The token for requests.
    pub access: SecretString,
    /// The token for renewal, if one was given.
    pub refresh: Option<SecretString>,
    /// How the token is shown.
    pub kind: TokenKind,
    /// What was granted.
    pub granted: Scopes,
    /// What was asked for.
    pub requested: Scopes,
    /// When they were given, in seconds since 1970.
    pub issued_at: u64,
    /// Until when the access token is good, in seconds since 1970. None: nobody said.
    pub expires_at: Option<u64>,
    /// The key the token is bound to, if it is.
    pub proof_key: Option<Arc<ProofKey>>,
    /// Drawn whenever somebody agrees, and the same for all that comes of it by renewal: with another, it may be somebody
    /// else. No secret. Empty in what was kept by older versions.
    pub mark: String,
}

impl Tokens {
    /// Whether it is time to renew them: a tenth of their life is left, or less than 30 seconds.
    #[must_use]
    pub fn is_stale(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|end| {
            let life = end.saturating_sub(self.issued_at);
            // A token that lives for less than that would never be fresh.
            let early = (life / 10).max(EARLY_SECONDS.min(life / 2));
            now.saturating_add(early) >= end
        })
    }

    /// Whether the access token is no longer good.
    #[must_use]
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|end| now >= end)
    }
}
