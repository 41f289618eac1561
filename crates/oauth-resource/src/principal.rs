//! Principal of an access token.

use hospes_auth::{ClientId, Issuer, Scopes};

/// Principal of a verified token. It is in the extensions of every request that passed a [`BearerAuth`](super::BearerAuth);
/// handlers find it at [`Context::http`](hospes::Context::http). It does not contain the token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenPrincipal {
    /// Issuer of the token.
    pub issuer: Issuer,
    /// Subject of the token; unique at the issuer.
    pub subject: String,
    /// Client that the token was issued to.
    pub client_id: Option<ClientId>,
    /// True if the client acts for itself, without a user.
    pub is_client: bool,
    /// Granted scopes.
    pub scopes: Scopes,
    /// Thumbprint of the key that the client has to prove (RFC 9449). A [`BearerAuth`](super::BearerAuth) has verified the proof.
    /// Code that calls a [`TokenVerifier`](super::TokenVerifier) directly has to check it, or reject the token.
    pub proof_key: Option<String>,
    /// Identifier of the token for logs: its `jti`, or a fingerprint.
    pub token_id: String,
    /// Groups of the user at the provider. Empty if they are not read.
    pub groups: Vec<String>,
    /// Expiry, in seconds since 1970. `None` if the token has none.
    pub expires_at: Option<u64>,
}

impl TokenPrincipal {
    /// Creates a principal without scopes and expiry.
    #[must_use]
    pub fn new(issuer: Issuer, subject: impl Into<String>) -> Self {
        Self {
            issuer,
            subject: subject.into(),
            client_id: None,
            is_client: false,
            scopes: Scopes::none(),
            proof_key: None,
            token_id: String::new(),
            groups: Vec::new(),
            expires_at: None,
        }
    }

    /// Stable and unique name of the principal. Sessions are bound to it. A client that acts for itself never has the
    /// name of a user, even if both have the same subject.
    #[must_use]
    pub fn name(&self) -> String {
        let kind = if self.is_client { "client" } else { "user" };
        // No issuer has a space in it.
        format!("{} {kind} {}", self.issuer, self.subject)
    }
}
