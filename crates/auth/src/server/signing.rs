//! Access tokens that say themselves what they are (RFC 9068), and the keys they are signed with.
//!
//! A key is published before it signs and as long as a token of it can be good, so that whoever keeps the published keys
//! for a while never misses one. The keys are in the store, which is for its owner alone, as a store in a file is by its
//! mode.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{Jwk, JwkSet, KeyAlgorithm, PublicKeyUse};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::settings::MAX_ACCESS_LIFETIME;
use super::store::{Kind, Record, StoreError};
use super::tokens::{By, TokenRecord, encode};
use super::{AuthServer, random_text};
use crate::clock::CLOCK_SKEW;
use crate::key_pair::{KeyFailed, KeyPair};
use crate::keys::KEEP_SECONDS;

/// How long before a key signs it is published, in seconds: longer than anybody keeps what is published.
const AHEAD: u64 = KEEP_SECONDS + 2 * PUBLISHED_SECONDS;
/// For how long others may keep what is published, in seconds.
const PUBLISHED_SECONDS: u64 = 300;
/// How many keys are looked at. Two nodes that begin at once may make one too many.
const MAX_KEYS: usize = 64;

/// For how long others may keep the published keys.
pub(super) const KEYS_CACHE: &str = "public, max-age=300";

/// A key, and when it signs, in seconds since 1970.
#[derive(Serialize, Deserialize)]
struct KeyRecord {
    document: String,
    from: u64,
    to: u64,
}

/// A key that can be used.
struct Key {
    pair: KeyPair,
    id: String,
    from: u64,
    to: u64,
}

impl From<KeyFailed> for StoreError {
    fn from(_: KeyFailed) -> Self {
        Self("a key for tokens cannot be used".into())
    }
}

impl Key {
    fn public(&self) -> Jwk {
        let mut public = self.pair.public().clone();
        public.common.key_id = Some(self.id.clone());
        public.common.key_algorithm = Some(KeyAlgorithm::ES256);
        public.common.public_key_use = Some(PublicKeyUse::Signature);
        public
    }
}

impl AuthServer {
    /// What is published: the key that signs, the next, and those of which tokens are still about.
    pub(super) async fn published_keys(&self) -> Result<JwkSet, StoreError> {
        let keys = self.keys().await?;
        Ok(JwkSet { keys: keys.iter().map(Key::public).collect() })
    }

    /// An access token that says itself what it is. It is good until then.
    pub(super) async fn sign_access(&self, token: &TokenRecord, until: u64) -> Result<String, StoreError> {
        let now = self.now();
        let keys = self.keys().await?;
        let signs = keys.iter().filter(|key| key.from <= now && now < key.to);
        let key = signs.min_by(|one, other| (one.from, &one.id).cmp(&(other.from, &other.id)));
        let key = key.ok_or_else(|| StoreError("there is no key for tokens".into()))?;
        let given = &token.given;
        if given.by != By::Client && given.subject == token.client_id.as_str() {
            // Elsewhere it would be taken for the client's own (RFC 9068, section 5).
            return Err(StoreError("a user has the name of a client".into()));
        }
        let mut claims = json!({
            "iss": self.settings().issuer, "sub": given.subject, "aud": given.resource,
            "client_id": token.client_id, "scope": given.scopes, "iat": now, "exp": until, "jti": random_text(),
        });
        if let Some(key) = &token.key {
            claims["cnf"] = json!({ "jkt": key });
        }
        Ok(key.pair.sign("at+jwt", &claims, |header| header.kid = Some(key.id.clone()))?)
    }

    /// All keys of which tokens are about or will be. There is always one that signs, and in time the next.
    async fn keys(&self) -> Result<Vec<Key>, StoreError> {
        let now = self.now();
        let mut keys = Vec::new();
        for record in self.store().list(Kind::Key, now, MAX_KEYS).await? {
            let known: Option<KeyRecord> = serde_json::from_str(&record.value).ok();
            let pair = known.as_ref().and_then(|known| URL_SAFE_NO_PAD.decode(&known.document).ok());
            let pair = pair.and_then(|document| KeyPair::from_document(&document).ok());
            let (Some(known), Some(pair)) = (known, pair) else {
                tracing::error!(key = record.key, "a key for tokens cannot be read");
                continue;
            };
            keys.push(Key { pair, id: record.key, from: known.from, to: known.to });
        }
        let end = keys.iter().map(|key| key.to).max().unwrap_or(0);
        if end <= now {
            keys.push(self.make_key(now).await?);
        } else if end <= now + AHEAD {
            keys.push(self.make_key(end).await?);
        }
        Ok(keys)
    }

    async fn make_key(&self, from: u64) -> Result<Key, StoreError> {
        let pair = KeyPair::generate()?;
        let to = from + self.settings().lifetimes.key.as_secs().max(1);
        let id = pair.thumbprint();
        let value = encode(&KeyRecord { document: URL_SAFE_NO_PAD.encode(pair.document()), from, to });
        // As long as a token of it can be good anywhere.
        let until = to + MAX_ACCESS_LIFETIME.as_secs() + 2 * CLOCK_SKEW;
        self.store().put(Record::new(Kind::Key, id.clone(), value, until)).await?;
        tracing::info!(key = id, from, to, "a key for tokens was made");
        Ok(Key { pair, id, from, to })
    }
}
