//! Verification of access tokens.

use std::fmt;
use std::pin::Pin;

use super::principal::TokenPrincipal;

/// Reasons a token is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyTokenError {
    /// It was not issued for this resource, or is no token at all.
    #[error("the token is not valid")]
    Invalid,
    /// The token has expired.
    #[error("the token has expired")]
    Expired,
    /// The party that can check it could not be reached.
    #[error("the token cannot be verified at the moment")]
    Unavailable,
}

/// Future of a token verification.
pub type VerifyFuture<'a> =
    Pin<Box<dyn Future<Output = Result<TokenPrincipal, VerifyTokenError>> + Send + 'a>>;

/// Verifies tokens: their signature or their issuer's answer, their audience and their expiry.
pub trait TokenVerifier: Send + Sync + 'static {
    /// Verifies a token and returns its principal. `now` is in seconds since 1970.
    fn verify<'a>(&'a self, token: &'a str, now: u64) -> VerifyFuture<'a>;
}

/// Verifier that accepts a token if one of several verifiers does.
#[derive(Default)]
pub struct AnyTokenVerifier(Vec<Box<dyn TokenVerifier>>);

impl AnyTokenVerifier {
    /// Creates a verifier that accepts no token.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds a verifier. Verifiers are tried in order.
    #[must_use]
    pub fn or(mut self, verify: impl TokenVerifier) -> Self {
        self.0.push(Box::new(verify));
        self
    }
}

impl TokenVerifier for AnyTokenVerifier {
    fn verify<'a>(&'a self, token: &'a str, now: u64) -> VerifyFuture<'a> {
        Box::pin(async move {
            let mut flaw = VerifyTokenError::Invalid;
            for verify in &self.0 {
                match verify.verify(token, now).await {
                    Ok(principal) => return Ok(principal),
                    // What could not be asked might have called it good.
                    Err(other) => flaw = flaw.max(other),
                }
            }
            Err(flaw)
        })
    }
}

impl fmt::Debug for AnyTokenVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyTokenVerifier({} kinds)", self.0.len())
    }
}
