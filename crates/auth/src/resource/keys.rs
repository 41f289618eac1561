//! The keys of an issuer, fetched and kept.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jsonwebtoken::jwk::JwkSet;
use tokio::sync::watch;
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

/// How soon they are fetched again when that has failed, in seconds.
const RETRY_SECONDS: u64 = 5;

/// Checks JWTs of one issuer with the keys that it publishes.
pub struct IssuerTokens(Arc<Inner>);

struct Inner {
    rules: JwtRules,
    fetch: Arc<dyn Fetch>,
    /// Where the keys are, whatever the metadata says.
    told: Option<Url>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Where the metadata said that they are.
    location: Option<Url>,
    keys: Option<(Arc<JwkSet>, u64)>,
    /// How many fetches have ended.
    fetched: u64,
    /// The last fetch; closed when it has ended, however that was.
    fetching: Option<watch::Receiver<()>>,
    /// Not before then are they asked for again.
    next: u64,
}

impl Known {
    fn kept(&self, now: u64) -> Option<Arc<JwkSet>> {
        let (keys, when) = self.keys.as_ref()?;
        (when.saturating_add(KEEP_SECONDS) > now).then(|| Arc::clone(keys))
    }
}

impl IssuerTokens {
    /// Takes tokens as `rules` say. The keys are where the issuer's metadata says.
    pub fn new(rules: JwtRules, fetch: impl Fetch) -> Self {
        Self::made(rules, Arc::new(fetch), None)
    }

    fn made(rules: JwtRules, fetch: Arc<dyn Fetch>, told: Option<Url>) -> Self {
        Self(Arc::new(Inner { rules, fetch, told, known: Mutex::default() }))
    }

    /// The keys are there, whatever the metadata says.
    #[must_use]
    pub fn keys_at(self, location: Url) -> Self {
        Self::made(self.0.rules.clone(), Arc::clone(&self.0.fetch), Some(location))
    }

    async fn check(&self, token: &str, now: u64) -> Result<Principal, Flaw> {
        let rules = &self.0.rules;
        // Keys and count at once: a fetch that ends after this is seen to have ended.
        let (kept, fetched) = {
            let known = self.0.known();
            (known.kept(now), known.fetched)
        };
        let first = match &kept {
            Some(keys) => check_jwt(token, keys, rules, now),
            None => Err(JwtFlaw::UnknownKey),
        };
        if first != Err(JwtFlaw::UnknownKey) {
            return Ok(first?);
        }
        if kept.is_none() && check_shape(token).is_err() {
            return Err(Flaw::Invalid);
        }
        // The key may be new.
        if let Some(mut fetching) = self.fetch_keys(fetched, now) {
            // Nothing is sent: it closes.
            let _ = fetching.changed().await;
        }
        let kept = self.0.known().kept(now);
        match kept {
            Some(keys) => Ok(check_jwt(token, &keys, rules, now)?),
            None => Err(Flaw::Unavailable),
        }
    }

    /// The fetch to wait for: the one that is under way, or one that begins; none if one has ended since `fetched` were
    /// counted, or a moment ago. It goes on when those who wait for it are gone.
    fn fetch_keys(&self, fetched: u64, now: u64) -> Option<watch::Receiver<()>> {
        let mut known = self.0.known();
        if known.fetched != fetched {
            return None;
        }
        if let Some(fetching) = known.fetching.as_ref().filter(|fetching| fetching.has_changed().is_ok()) {
            return Some(fetching.clone());
        }
        if known.next > now {
            return None;
        }
        known.next = now.saturating_add(REFETCH_SECONDS);
        let (done, fetching) = watch::channel(());
        known.fetching = Some(fetching.clone());
        let inner = Arc::clone(&self.0);
        tokio::spawn(async move {
            inner.fetch_keys(now).await;
            drop(done);
        });
        Some(fetching)
    }
}

impl Inner {
    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fetch_keys(&self, now: u64) {
        let keys = match self.location().await {
            Ok(location) => self.get::<JwkSet>(location, MAX_KEYS_BYTES).await,
            Err(error) => Err(error),
        };
        let mut known = self.known();
        known.fetched += 1;
        match keys {
            Ok(keys) => known.keys = Some((Arc::new(keys), now)),
            Err(error) => {
                tracing::warn!(issuer = %self.rules.issuer, %error, "an issuer's keys were not fetched");
                // They may have moved.
                known.location = None;
                known.next = now.saturating_add(RETRY_SECONDS);
            }
        }
    }

    async fn location(&self) -> Result<Url, String> {
        let known = self.told.clone().or_else(|| self.known().location.clone());
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
        f.debug_struct("IssuerTokens").field("issuer", &self.0.rules.issuer).finish_non_exhaustive()
    }
}
