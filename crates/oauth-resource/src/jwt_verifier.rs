//! Verifier of JWTs from an issuer that publishes its keys.

use std::fmt;
use std::sync::Arc;

use hospes_auth::{HttpFetch, JwksLocation, PublishedKeys};
use url::Url;

use super::jwt::{JwtRules, check_jwt};
use super::token_verifier::{TokenVerifier, VerifyFuture};

/// Checks JWTs of one issuer with the keys that it publishes.
pub struct JwtVerifier {
    rules: JwtRules,
    keys: PublishedKeys,
}

impl JwtVerifier {
    /// Accepts tokens according to `rules`. The issuer's metadata names the location of the keys.
    pub fn new(rules: JwtRules, fetch: impl HttpFetch) -> Self {
        let keys = PublishedKeys::new(JwksLocation::Of(rules.issuer.clone()), Arc::new(fetch));
        Self { rules, keys }
    }

    /// Sets the URL of the keys, which overrides the metadata.
    #[must_use]
    pub fn keys_at(mut self, location: Url) -> Self {
        self.keys = PublishedKeys::new(JwksLocation::At(location), self.keys.fetch());
        self
    }
}

impl TokenVerifier for JwtVerifier {
    fn verify<'a>(&'a self, token: &'a str, now: u64) -> VerifyFuture<'a> {
        let check = move |keys: &_| check_jwt(token, keys, &self.rules, now);
        Box::pin(async move { Ok(self.keys.check(token, now, check).await?) })
    }
}

impl fmt::Debug for JwtVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtVerifier").field("issuer", &self.rules.issuer).finish_non_exhaustive()
    }
}
