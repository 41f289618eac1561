//! Keys that somebody publishes, fetched and kept.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jsonwebtoken::jwk::JwkSet;
use tokio::sync::watch;
use url::Url;

use crate::fetch::Fetch;
use crate::metadata::{AuthorizationServer, server_metadata_urls};
use crate::resource::{Flaw, JwtFlaw};
use crate::{Issuer, MAX_KEYS_BYTES, MAX_METADATA_BYTES, Request};

/// How soon the keys are fetched again for a token whose key is not among them, in seconds: whoever sends such tokens
/// makes us ask no more often.
const REFETCH_SECONDS: u64 = 60;
/// For how long keys are used without a look at whether they still hold, in seconds.
pub(crate) const KEEP_SECONDS: u64 = 3600;
/// How soon they are fetched again when that has failed, in seconds.
const RETRY_SECONDS: u64 = 5;

/// The keys of one party. Cheap to clone; every clone has the same.
#[derive(Clone)]
pub(crate) struct PublishedKeys(Arc<Inner>);

struct Inner {
    fetch: Arc<dyn Fetch>,
    place: Place,
    known: Mutex<Known>,
}

/// Where keys are.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// There.
    At(Url),
    /// Where this issuer's metadata says.
    Of(Issuer),
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

impl PublishedKeys {
    pub(crate) fn new(place: Place, fetch: Arc<dyn Fetch>) -> Self {
        Self(Arc::new(Inner { fetch, place, known: Mutex::default() }))
    }

    pub(crate) fn fetch(&self) -> Arc<dyn Fetch> {
        Arc::clone(&self.0.fetch)
    }

    /// What `check` says of a token, with the keys at hand or, if it misses one, with those that are published now.
    pub(crate) async fn check<T>(
        &self,
        token: &str,
        now: u64,
        check: impl Fn(&JwkSet) -> Result<T, JwtFlaw>,
    ) -> Result<T, Flaw> {
        // Keys and count at once: a fetch that ends after this is seen to have ended.
        let (kept, fetched) = {
            let known = self.0.known();
            (known.kept(now), known.fetched)
        };
        match kept.as_ref().map_or(Err(JwtFlaw::UnknownKey), |keys| check(keys)) {
            Err(JwtFlaw::UnknownKey) => {}
            checked => return Ok(checked?),
        }
        // Nothing is fetched for what could be no JWT at all.
        if kept.is_none() && jsonwebtoken::decode_header(token).is_err() {
            return Err(Flaw::Invalid);
        }
        // The key may be new.
        if let Some(mut fetching) = self.fetch_keys(fetched, now) {
            // Nothing is sent: it closes.
            let _ = fetching.changed().await;
        }
        let kept = self.0.known().kept(now);
        match kept {
            Some(keys) => Ok(check(&keys)?),
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
                tracing::warn!(place = ?self.place, %error, "keys were not fetched");
                // They may have moved.
                known.location = None;
                known.next = now.saturating_add(RETRY_SECONDS);
            }
        }
    }

    async fn location(&self) -> Result<Url, String> {
        let issuer = match &self.place {
            Place::At(url) => return Ok(url.clone()),
            Place::Of(issuer) => issuer,
        };
        let known = self.known().location.clone();
        if let Some(location) = known {
            return Ok(location);
        }
        let mut problem = "it has no address".to_owned();
        for url in server_metadata_urls(issuer) {
            match self.get::<AuthorizationServer>(url, MAX_METADATA_BYTES).await {
                Ok(metadata) => {
                    metadata.check_issuer(issuer, true).map_err(|error| error.to_string())?;
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

impl fmt::Debug for PublishedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PublishedKeys").field(&self.0.place).finish()
    }
}
