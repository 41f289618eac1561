//! Cache of the keys published by another party.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jsonwebtoken::jwk::JwkSet;
use tokio::sync::watch;
use url::Url;

use crate::fetch::HttpFetch;
use crate::jwt::VerifyJwtError;
use crate::metadata::{AuthorizationServerMetadata, server_metadata_urls};
use crate::{FetchRequest, Issuer, MAX_KEYS_BYTES, MAX_METADATA_BYTES};

/// Minimum time between two fetches for tokens with an unknown key, in seconds. It limits the requests that such tokens
/// can cause.
const REFETCH_SECONDS: u64 = 60;
/// Time for which fetched keys are used before they are fetched again, in seconds.
pub const KEYS_MAX_AGE_SECONDS: u64 = 3600;
/// Time until the next attempt after a failed fetch, in seconds.
const RETRY_SECONDS: u64 = 5;

/// The keys of one party. Cheap to clone; every clone has the same.
#[derive(Clone)]
pub struct PublishedKeys(Arc<PublishedKeysInner>);

struct PublishedKeysInner {
    fetch: Arc<dyn HttpFetch>,
    place: JwksLocation,
    known: Mutex<FetchedKeys>,
}

/// Reasons a token is not accepted by published keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublishedKeysError {
    /// The token was rejected with the known keys.
    #[error(transparent)]
    Rejected(#[from] VerifyJwtError),
    /// The keys could not be fetched.
    #[error("the signing keys are not available at the moment")]
    Unavailable,
}

/// Location of a key set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum JwksLocation {
    /// At this URL.
    At(Url),
    /// The `jwks_uri` in the metadata of this issuer.
    Of(Issuer),
}

#[derive(Default)]
struct FetchedKeys {
    /// The `jwks_uri` that the metadata gave.
    location: Option<Url>,
    keys: Option<(Arc<JwkSet>, u64)>,
    /// Number of fetches that have ended.
    fetched: u64,
    /// The last fetch; closed when it has ended, however that was.
    fetching: Option<watch::Receiver<()>>,
    /// Not before then are they asked for again.
    next: u64,
}

impl FetchedKeys {
    fn fresh_keys(&self, now: u64) -> Option<Arc<JwkSet>> {
        let (keys, when) = self.keys.as_ref()?;
        (when.saturating_add(KEYS_MAX_AGE_SECONDS) > now).then(|| Arc::clone(keys))
    }
}

impl PublishedKeys {
    /// Creates a cache of the keys at `place`, fetched by `fetch`. Nothing is fetched before the first token.
    #[must_use]
    pub fn new(place: JwksLocation, fetch: Arc<dyn HttpFetch>) -> Self {
        Self(Arc::new(PublishedKeysInner { fetch, place, known: Mutex::default() }))
    }

    /// Returns the fetcher.
    #[must_use]
    pub fn fetch(&self) -> Arc<dyn HttpFetch> {
        Arc::clone(&self.0.fetch)
    }

    /// Runs `check` on a token with the cached keys and, if its key is not among them, with newly fetched keys.
    ///
    /// # Errors
    /// If `check` rejects the token, or the keys cannot be fetched.
    pub async fn check<T>(
        &self,
        token: &str,
        now: u64,
        check: impl Fn(&JwkSet) -> Result<T, VerifyJwtError>,
    ) -> Result<T, PublishedKeysError> {
        // Keys and count at once: a fetch that ends after this is seen to have ended.
        let (kept, fetched) = {
            let known = self.0.known();
            (known.fresh_keys(now), known.fetched)
        };
        match kept.as_ref().map_or(Err(VerifyJwtError::UnknownKey), |keys| check(keys)) {
            Err(VerifyJwtError::UnknownKey) => {}
            checked => return Ok(checked?),
        }
        // Nothing is fetched for what could be no JWT at all.
        if kept.is_none() && jsonwebtoken::decode_header(token).is_err() {
            return Err(VerifyJwtError::Invalid("malformed JWT").into());
        }
        // The key may be new.
        if let Some(mut fetching) = self.fetch_keys(fetched, now) {
            // Nothing is sent: it closes.
            let _ = fetching.changed().await;
        }
        let kept = self.0.known().fresh_keys(now);
        match kept {
            Some(keys) => Ok(check(&keys)?),
            None => Err(PublishedKeysError::Unavailable),
        }
    }

    /// Returns the fetch to wait for: the running one or a new one. Returns `None` if a fetch has ended since `fetched`
    /// were counted, or a moment ago. The fetch continues even if all who wait for it are dropped.
    fn fetch_keys(&self, fetched: u64, now: u64) -> Option<watch::Receiver<()>> {
        let mut known = self.0.known();
        if known.fetched != fetched {
            return None;
        }
        // An error means that the sender is gone: that fetch has ended, if only by a panic.
        if let Some(fetching) = known.fetching.as_ref().filter(|fetching| fetching.has_changed().is_ok()) {
            return Some(fetching.clone());
        }
        if known.next > now {
            return None;
        }
        // Set before the answer is there, so that a fetch that never gets to an answer is not repeated for
        // every token.
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

impl PublishedKeysInner {
    fn known(&self) -> std::sync::MutexGuard<'_, FetchedKeys> {
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
                tracing::warn!(place = ?self.place, %error, "cannot fetch signing keys");
                // They may have moved.
                known.location = None;
                known.next = now.saturating_add(RETRY_SECONDS);
            }
        }
    }

    async fn location(&self) -> Result<Url, String> {
        let issuer = match &self.place {
            JwksLocation::At(url) => return Ok(url.clone()),
            JwksLocation::Of(issuer) => issuer,
        };
        let known = self.known().location.clone();
        if let Some(location) = known {
            return Ok(location);
        }
        let mut problem = "no metadata URL can be derived from the issuer".to_owned();
        for url in server_metadata_urls(issuer) {
            match self.get::<AuthorizationServerMetadata>(url, MAX_METADATA_BYTES).await {
                Ok(metadata) => {
                    metadata.check_issuer(issuer, true).map_err(|error| error.to_string())?;
                    let location = metadata.jwks_uri.as_deref().and_then(|uri| Url::parse(uri).ok());
                    let location = location.ok_or("the metadata has no valid jwks_uri")?;
                    self.known().location = Some(location.clone());
                    return Ok(location);
                }
                Err(error) => problem = error,
            }
        }
        Err(problem)
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, url: Url, max: usize) -> Result<T, String> {
        let response =
            self.fetch.fetch(FetchRequest::get(url, max)).await.map_err(|error| error.to_string())?;
        if response.status != http::StatusCode::OK {
            return Err(format!("unexpected status {}", response.status));
        }
        response.decode().map_err(|error| error.to_string())
    }
}

impl fmt::Debug for PublishedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PublishedKeys").field(&self.0.place).finish()
    }
}
