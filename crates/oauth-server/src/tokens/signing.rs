//! JWT access tokens (RFC 9068) and their signing keys.
//!
//! A key is published as long as a token signed with it can be valid. It is also published more than an hour before it
//! signs, if the server received a request then, so that cached key sets contain it. After a longer idle time a new key
//! signs immediately, and a resource that sees its unknown `kid` has to fetch the keys again.
//!
//! The keys are in the store, encrypted if a key for that is configured ([`AuthServer::sealing`]), else protected by
//! the access rights of the store.

use hospes_auth::{CLOCK_SKEW, ErrorCode, KEYS_MAX_AGE_SECONDS, KeyPair, KeyPairError, RotatingKey};
use jsonwebtoken::jwk::{Jwk, JwkSet, KeyAlgorithm, PublicKeyUse};
use serde_json::json;
use zeroize::Zeroizing;

use super::errors::{TokenRequestError, refuse};
use super::records::{GrantSource, TokenRecord};
use crate::auth_server::AuthServer;
use crate::settings::MAX_ACCESS_LIFETIME;
use crate::store::secrets::random_text;
use crate::store::{AuthStoreError, RecordKind};

/// Time between the publication of a key and its first signature, in seconds: longer than any cache keeps the key set.
const PUBLISH_AHEAD_SECONDS: u64 = KEYS_MAX_AGE_SECONDS + 2 * PUBLISHED_SECONDS;
/// Time for which others may cache the published keys, in seconds.
const PUBLISHED_SECONDS: u64 = 300;

/// Value of `Cache-Control` for the published keys.
pub(crate) const KEYS_CACHE: &str = "public, max-age=300";

/// A key that can be used.
struct TokenSigningKey {
    pair: KeyPair,
    kept: RotatingKey,
}

impl From<KeyPairError> for AuthStoreError {
    fn from(_: KeyPairError) -> Self {
        Self("unusable token signing key".into())
    }
}

impl TokenSigningKey {
    fn public(&self) -> Jwk {
        let mut public = self.pair.public().clone();
        public.common.key_id = Some(self.kept.id.clone());
        public.common.key_algorithm = Some(KeyAlgorithm::ES256);
        public.common.public_key_use = Some(PublicKeyUse::Signature);
        public
    }
}

impl AuthServer {
    /// Returns the published keys: the signing key, the next one, and those with unexpired tokens.
    pub(crate) async fn published_keys(&self) -> Result<JwkSet, AuthStoreError> {
        let keys = self.signing_keys().await?;
        Ok(JwkSet { keys: keys.iter().map(TokenSigningKey::public).collect() })
    }

    /// Signs a JWT access token that expires at the given time.
    pub(super) async fn sign_access(
        &self,
        token: &TokenRecord,
        until: u64,
    ) -> Result<String, TokenRequestError> {
        let now = self.now();
        let keys = self.signing_keys().await?;
        // The same choice as that of `RotatingKey::find_current`, so that all nodes sign with one key.
        let signs = keys.iter().filter(|key| key.kept.is_used(now));
        let key = signs.min_by(|one, other| one.kept.order().cmp(&other.kept.order()));
        let key = key.ok_or_else(|| AuthStoreError("no token signing key is available".into()))?;
        let given = &token.given;
        if given.by != GrantSource::Client && given.subject == token.client_id.as_str() {
            // Elsewhere it would be taken for the client's own (RFC 9068, section 5).
            return refuse(ErrorCode::InvalidGrant, "the user has the same identifier as the client");
        }
        let mut claims = json!({
            "iss": self.settings().issuer, "sub": given.subject, "aud": given.resource,
            "client_id": token.client_id, "scope": given.scopes, "iat": now, "exp": until, "jti": random_text(),
        });
        if let Some(key) = &token.key {
            claims["cnf"] = json!({ "jkt": key });
        }
        let signed = key.pair.sign("at+jwt", &claims, |header| header.kid = Some(key.kept.id.clone()));
        Ok(signed.map_err(AuthStoreError::from)?)
    }

    /// Returns all keys whose tokens may be in use now or later. They include a signing key and, in time, its
    /// successor.
    async fn signing_keys(&self) -> Result<Vec<TokenSigningKey>, AuthStoreError> {
        let now = self.now();
        let mut keys = Vec::new();
        for kept in self.0.keeper.keys(RecordKind::Key, now).await? {
            match KeyPair::from_document(&kept.secret) {
                Ok(pair) => keys.push(TokenSigningKey { pair, kept }),
                Err(_) => tracing::error!(key = kept.id, "unusable token signing key"),
            }
        }
        let end = keys.iter().map(|key| key.kept.to).max().unwrap_or(0);
        if end <= now {
            keys.push(self.make_key(now).await?);
        } else if end <= now + PUBLISH_AHEAD_SECONDS {
            keys.push(self.make_key(end).await?);
        }
        Ok(keys)
    }

    async fn make_key(&self, from: u64) -> Result<TokenSigningKey, AuthStoreError> {
        let pair = KeyPair::generate()?;
        let to = from + self.settings().lifetimes.key.as_secs().max(1);
        let secret = Zeroizing::new(pair.document().to_vec());
        // The thumbprint is an id that nodes need not agree on: two keys never share it.
        let kept = RotatingKey::new(pair.thumbprint(), secret, from, to);
        // As long as a token of it can be good anywhere.
        let until = to + MAX_ACCESS_LIFETIME.as_secs() + 2 * CLOCK_SKEW;
        self.0.keeper.store_key(RecordKind::Key, &kept, until).await?;
        tracing::info!(key = kept.id, from, to, "token signing key created");
        Ok(TokenSigningKey { pair, kept })
    }
}
