//! The keys of an issuer, fetched and kept.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jsonwebtoken::jwk::JwkSet;
use url::Url;

use super::{Flaw, JwtFlaw, JwtRules, Principal, Verify, VerifyFuture, check_jwt};
use crate::fetch::Fetch;
use crate::metadata::{AuthorizationServer, server_metadata_urls};
use crate::{MAX_KEYS_BYTES, MAX_METADATA_BYTES, Request};

/// How soon the keys are fetched again for a token whose key is not among them, in seconds: whoever sends such tokens
/// makes us ask no more often.
const REFETCH_SECONDS: u64 = 60;
/// For how long keys are used without a look at whether they still hold, in seconds.
const KEEP_SECONDS: u64 = 3600;

/// Checks JWTs of one issuer with the keys that it publishes.
pub struct IssuerTokens {
    rules: JwtRules,
    fetch: Arc<dyn Fetch>,
    known: Mutex<Known>,
    /// One fetches; the others wait for what it brings.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    location: Option<Url>,
    keys: Option<(Arc<JwkSet>, u64)>,
    /// When they were last asked for, whatever came of it.
    asked: Option<u64>,
}

impl IssuerTokens {
    /// Takes tokens as `rules` say. The keys are where the issuer's metadata says.
    pub fn new(rules: JwtRules, fetch: impl Fetch) -> Self {
        Self {
            rules,
            fetch: Arc::new(fetch),
            known: Mutex::default(),
            fetching: tokio::sync::Mutex::default(),
        }
    }

    /// The keys are there, whatever the metadata says.
    #[must_use]
    pub fn keys_at(self, location: Url) -> Self {
        self.known().location = Some(location);
        self
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self, now: u64) -> Option<Arc<JwkSet>> {
        let known = self.known();
        let (keys, when) = known.keys.as_ref()?;
        (when.saturating_add(KEEP_SECONDS) > now).then(|| Arc::clone(keys))
    }

    async fn check(&self, token: &str, now: u64) -> Result<Principal, Flaw> {
        let kept = self.kept(now);
        let first = match &kept {
            Some(keys) => check_jwt(token, keys, &self.rules, now),
            None => Err(JwtFlaw::UnknownKey),
        };
        if first != Err(JwtFlaw::UnknownKey) {
            return Ok(first?);
        }
        if kept.is_none() && check_shape(token).is_err() {
            return Err(Flaw::Invalid);
        }
        // The key may be new.
        match self.fetch_keys(now).await {
            Some(keys) => Ok(check_jwt(token, &keys, &self.rules, now)?),
            None if kept.is_none() => Err(Flaw::Unavailable),
            None => Err(Flaw::Invalid),
        }
    }

    /// The keys as they are now; none when they could not be fetched, or were asked for a moment ago.
    async fn fetch_keys(&self, now: u64) -> Option<Arc<JwkSet>> {
        let before = self.known().asked;
        let _one = self.fetching.lock().await;
        {
            let mut known = self.known();
            if known.asked != before {
                // Somebody has fetched them while we waited.
                return known.keys.as_ref().map(|(keys, _)| Arc::clone(keys));
            }
            if known.asked.is_some_and(|asked| asked.saturating_add(REFETCH_SECONDS) > now) {
                return None;
            }
            known.asked = Some(now);
        }
        let location = match self.location().await {
            Ok(location) => location,
            Err(error) => {
                tracing::warn!(issuer = %self.rules.issuer, %error, "an issuer's metadata was not fetched");
                return None;
            }
        };
        match self.get::<JwkSet>(location, MAX_KEYS_BYTES).await {
            Ok(keys) => {
                let keys = Arc::new(keys);
                self.known().keys = Some((Arc::clone(&keys), now));
                Some(keys)
            }
            Err(error) => {
                tracing::warn!(issuer = %self.rules.issuer, %error, "an issuer's keys were not fetched");
                None
            }
        }
    }

    async fn location(&self) -> Result<Url, String> {
        let known = self.known().location.clone();
        if let Some(location) = known {
            return Ok(location);
        }
        let mut problem = "it has no address".to_owned();
        for url in server_metadata_urls(&self.rules.issuer) {
            match self.get::<AuthorizationServer>(url, MAX_METADATA_BYTES).await {
                Ok(metadata) => {
                    metadata.check_issuer(&self.rules.issuer, true).map_err(|error| error.to_string())?;
                    let location = metadata.jwks_uri.as_deref().and_then(|uri| Url::parse(uri).ok());
                    let location = location.ok_or("it names no jwks_uri")?;
                    self.known().location = Some(location.clone());
                    return Ok(location);
                }
                Err(error) => problem = error,
            }
        }
        Err(problem)
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, url: Url, max: usize) -> Result<T, String> {
        let response = self.fetch.fetch(Request::get(url, max)).await.map_err(|error| error.to_string())?;
        if response.status != http::StatusCode::OK {
            return Err(format!("the answer was {}", response.status));
        }
        response.decode().map_err(|error| error.to_string())
    }
}

/// Whether a text could be a JWT at all: nothing is fetched for one that could not.
fn check_shape(token: &str) -> Result<(), JwtFlaw> {
    jsonwebtoken::decode_header(token)
        .map(drop)
        .map_err(|_| JwtFlaw::Invalid("it is no JWT that could be read"))
}

impl Verify for IssuerTokens {
    fn verify<'a>(&'a self, token: &'a str, now: u64) -> VerifyFuture<'a> {
        Box::pin(self.check(token, now))
    }
}

impl fmt::Debug for IssuerTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuerTokens").field("issuer", &self.rules.issuer).finish_non_exhaustive()
    }
}
