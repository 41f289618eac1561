//! Tokens of an issuer that publishes its keys.

use std::fmt;
use std::sync::Arc;

use url::Url;

use super::{JwtRules, Verify, VerifyFuture, check_jwt};
use crate::fetch::Fetch;
use crate::keys::{Place, PublishedKeys};

/// Checks JWTs of one issuer with the keys that it publishes.
pub struct IssuerTokens {
    rules: JwtRules,
    keys: PublishedKeys,
}

impl IssuerTokens {
    /// Takes tokens as `rules` say. The keys are where the issuer's metadata says.
    pub fn new(rules: JwtRules, fetch: impl Fetch) -> Self {
        let keys = PublishedKeys::new(Place::Of(rules.issuer.clone()), Arc::new(fetch));
        Self { rules, keys }
    }

    /// The keys are there, whatever the metadata says.
    #[must_use]
    pub fn keys_at(mut self, location: Url) -> Self {
        self.keys = PublishedKeys::new(Place::At(location), self.keys.fetch());
        self
    }
}

impl Verify for IssuerTokens {
    fn verify<'a>(&'a self, token: &'a str, now: u64) -> VerifyFuture<'a> {
        Box::pin(self.keys.check(token, now, move |keys| check_jwt(token, keys, &self.rules, now)))
    }
}

impl fmt::Debug for IssuerTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuerTokens").field("issuer", &self.rules.issuer).finish_non_exhaustive()
    }
}
