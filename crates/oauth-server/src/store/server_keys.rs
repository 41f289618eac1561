//! Keys that are generated here, shared by all nodes through the store, and rotated.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hospes_auth::RotatingKey;
use hospes_auth::dpop::{ProofStoreError, ProofStoreFuture, SharedProofStore};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{AuthRecord, AuthStore, AuthStoreError, RecordKind, encode};

/// Maximum number of keys of a kind that are read. Two nodes that start at once may create one too many.
const MAX_KEYS: usize = 64;
/// Length of the nonce of each encryption, in bytes.
const NONCE: usize = 12;

/// Reason a key is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid encryption key")]
#[non_exhaustive]
pub struct InvalidSealKey;

/// Cipher for secret values in the store.
pub(crate) struct RecordSeal(RandomizedNonceKey);

impl RecordSeal {
    pub(crate) fn new(key: &[u8; 32]) -> Result<Self, InvalidSealKey> {
        RandomizedNonceKey::new(&AES_256_GCM, key).map(Self).map_err(|_| InvalidSealKey)
    }

    /// Encrypts a value. It can only be decrypted with the same context.
    pub(crate) fn seal(&self, about: &str, secret: &[u8]) -> Option<String> {
        let mut sealed = secret.to_vec();
        let nonce = self.0.seal_in_place_append_tag(Aad::from(about), &mut sealed).ok()?;
        let mut all = nonce.as_ref().to_vec();
        all.append(&mut sealed);
        Some(URL_SAFE_NO_PAD.encode(all))
    }

    pub(crate) fn open(&self, about: &str, sealed: &str) -> Option<Zeroizing<Vec<u8>>> {
        let all = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, rest) = all.split_at_checked(NONCE)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut rest = Zeroizing::new(rest.to_vec());
        let length = self.0.open_in_place(nonce, Aad::from(about), &mut rest).ok()?.len();
        rest.truncate(length);
        Some(rest)
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct KeyRecord {
    pub(super) document: String,
    from: u64,
    to: u64,
    #[serde(default)]
    pub(super) sealed: bool,
}

/// Storage of keys in a store, encrypted if a cipher is configured.
pub(crate) struct ServerKeyStore {
    store: Arc<dyn AuthStore>,
    seal: Option<RecordSeal>,
}

impl ServerKeyStore {
    pub(crate) fn new(store: Arc<dyn AuthStore>, seal: Option<RecordSeal>) -> Self {
        Self { store, seal }
    }

    /// Returns all keys of this kind that are valid now or later. A key that was stored unencrypted earlier is
    /// encrypted.
    pub(crate) async fn keys(&self, kind: RecordKind, now: u64) -> Result<Vec<RotatingKey>, AuthStoreError> {
        let mut keys = Vec::new();
        for record in self.store.list(kind, now, MAX_KEYS).await? {
            let known: Option<KeyRecord> = serde_json::from_str(&record.value).ok();
            let secret = known.as_ref().and_then(|known| match (known.sealed, &self.seal) {
                (true, seal) => seal.as_ref()?.open(&seal_context(kind, &record.key), &known.document),
                (false, _) => URL_SAFE_NO_PAD.decode(&known.document).ok().map(Zeroizing::new),
            });
            // One that cannot be read must not take the others along, whose tokens are still good.
            let (Some(known), Some(secret)) = (known, secret) else {
                tracing::error!(kind = kind.as_str(), key = record.key, "cannot read stored key");
                continue;
            };
            let key = RotatingKey::new(record.key, secret, known.from, known.to);
            if !known.sealed && self.seal.is_some() {
                self.store_key(kind, &key, record.until).await?;
            }
            keys.push(key);
        }
        Ok(keys)
    }

    /// Keeps a key until then.
    pub(crate) async fn store_key(
        &self,
        kind: RecordKind,
        key: &RotatingKey,
        until: u64,
    ) -> Result<(), AuthStoreError> {
        let document = match &self.seal {
            Some(seal) => seal.seal(&seal_context(kind, &key.id), &key.secret),
            None => Some(URL_SAFE_NO_PAD.encode(&*key.secret)),
        };
        let document = document.ok_or_else(|| AuthStoreError("cannot encrypt the key".into()))?;
        let (from, to, sealed) = (key.from, key.to, self.seal.is_some());
        let value = encode(&KeyRecord { document, from, to, sealed });
        self.store.put(AuthRecord::new(kind, key.id.clone(), value, until)).await?;
        Ok(())
    }
}

/// The state that DPoP checks at all nodes share.
impl SharedProofStore for ServerKeyStore {
    fn claim_proof<'a>(&'a self, proof: &'a str, until: u64, now: u64) -> ProofStoreFuture<'a, bool> {
        Box::pin(async move {
            // Not the name that the token endpoint claims it by: it is another place.
            Ok(self.store.claim(&format!("shown proof {proof}"), "", until, now).await?)
        })
    }

    fn nonce_keys(&self, now: u64) -> ProofStoreFuture<'_, Vec<RotatingKey>> {
        Box::pin(async move { Ok(self.keys(RecordKind::Nonce, now).await?) })
    }

    fn store_nonce_key<'a>(&'a self, key: &'a RotatingKey, until: u64) -> ProofStoreFuture<'a, ()> {
        Box::pin(async move { Ok(self.store_key(RecordKind::Nonce, key, until).await?) })
    }
}

impl From<AuthStoreError> for ProofStoreError {
    fn from(error: AuthStoreError) -> Self {
        Self::new(error.0)
    }
}

impl From<ProofStoreError> for AuthStoreError {
    fn from(error: ProofStoreError) -> Self {
        Self(error.0)
    }
}

pub(super) fn seal_context(kind: RecordKind, id: &str) -> String {
    format!("{} {id}", kind.as_str())
}

impl fmt::Debug for ServerKeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerKeyStore")
    }
}
