//! Who calls, as a token says it.

use crate::{ClientId, Issuer, Scopes};

/// Who a checked token was made out for. In the extensions of every request that passed a [`Guard`](super::Guard);
/// handlers find it at [`Context::http`](hospes::Context::http). The token itself is not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Principal {
    /// Who says so.
    pub issuer: Issuer,
    /// For whom it was made out; unique at the issuer.
    pub subject: String,
    /// Which client it was given to.
    pub client_id: Option<ClientId>,
    /// Whether that client acts for itself, and nobody has agreed to anything.
    pub is_client: bool,
    /// What it is good for.
    pub scopes: Scopes,
    /// The key that whoever shows the token has to prove, by its thumbprint (RFC 9449). A [`Guard`](super::Guard) has seen
    /// the proof; whoever asks a [`Verify`](super::Verify) without one has to check it, or refuse the token.
    pub proof_key: Option<String>,
    /// What stands for the token in logs: its identifier, or a fingerprint.
    pub token_id: String,
    /// Until when, in seconds since 1970; for ever where it does not say.
    pub expires_at: Option<u64>,
}

impl Principal {
    /// Somebody without scopes, for ever.
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
            expires_at: None,
        }
    }

    /// One name for the party, the same every time and nobody else's: sessions are bound to it. A client that acts for
    /// itself is never a person, whatever the two call themselves.
    #[must_use]
    pub fn name(&self) -> String {
        let kind = if self.is_client { "client" } else { "user" };
        // No issuer has a space in it.
        format!("{} {kind} {}", self.issuer, self.subject)
    }
}
