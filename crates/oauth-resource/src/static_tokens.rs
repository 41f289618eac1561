//! Verifier of tokens in the configuration.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use hospes_auth::fingerprint;
use subtle::ConstantTimeEq as _;

use super::principal::TokenPrincipal;
use super::token_verifier::{TokenVerifier, VerifyFuture, VerifyTokenError};

/// Tokens that never change: for machines, and for trying things out. Kept as hashes, compared in constant time.
#[derive(Default)]
pub struct StaticTokenVerifier(Vec<([u8; 32], TokenPrincipal)>);

impl StaticTokenVerifier {
    /// Creates a verifier without tokens.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Accepts `token` and identifies its sender as `principal`.
    #[must_use]
    pub fn with(mut self, token: &str, mut principal: TokenPrincipal) -> Self {
        if principal.token_id.is_empty() {
            principal.token_id = fingerprint(token);
        }
        self.0.push((hash(token), principal));
        self
    }

    fn find(&self, token: &str) -> Option<&TokenPrincipal> {
        let shown = hash(token);
        // All of them, so that the time tells nothing.
        let mut found = None;
        for (known, principal) in &self.0 {
            if bool::from(known.ct_eq(&shown)) {
                found = Some(principal);
            }
        }
        found
    }
}

impl TokenVerifier for StaticTokenVerifier {
    fn verify<'a>(&'a self, token: &'a str, now: u64) -> VerifyFuture<'a> {
        let found = match self.find(token) {
            None => Err(VerifyTokenError::Invalid),
            Some(principal) if principal.expires_at.is_some_and(|end| end <= now) => {
                Err(VerifyTokenError::Expired)
            }
            Some(principal) => Ok(principal.clone()),
        };
        Box::pin(std::future::ready(found))
    }
}

impl fmt::Debug for StaticTokenVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StaticTokenVerifier({})", self.0.len())
    }
}

fn hash(token: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}
