//! Nonces for DPoP proofs, which prevent proofs from being made in advance (RFC 9449, sections 8 and 9).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use super::proof::DpopProof;
use super::shared_store::{ProofStoreError, SharedProofStore};
use crate::clock::CLOCK_SKEW;
use crate::rotating_key::RotatingKey;
use crate::secret::Seed;

/// Lifetime of a nonce, in seconds.
const NONCE_SECONDS: u64 = 300;
/// Time for which one key makes nonces, in seconds.
const KEY_SECONDS: u64 = 3600;

/// Issues nonces and verifies them. Cheap to clone; all clones share their state.
#[derive(Clone)]
pub struct ProofNonces(Arc<ProofNoncesInner>);

struct ProofNoncesInner {
    /// Store of the keys that several processes share. `None` if each process has its own.
    shared: Option<Arc<dyn SharedProofStore>>,
    known: Mutex<NonceKeys>,
}

#[derive(Default)]
struct NonceKeys {
    keys: Vec<RotatingKey>,
    /// Time of the last lookup, in seconds since 1970.
    at: Option<u64>,
}

impl ProofNonces {
    /// Nonces of this process only. Other processes reject them and ask for their own. For several processes behind one
    /// address, use [`Self::shared`], which spares clients the extra request.
    #[must_use]
    pub fn in_process() -> Self {
        Self(Arc::new(ProofNoncesInner { shared: None, known: Mutex::default() }))
    }

    /// Creates the nonces of all processes that share this store.
    #[must_use]
    pub fn shared(keeper: Arc<dyn SharedProofStore>) -> Self {
        Self(Arc::new(ProofNoncesInner { shared: Some(keeper), known: Mutex::default() }))
    }

    /// Issues a nonce for a proof that is made now.
    ///
    /// # Errors
    /// If the shared store fails.
    pub async fn issue(&self, now: u64) -> Result<String, ProofStoreError> {
        let keys = self.keys(now).await?;
        let key = RotatingKey::find_current(&keys, now)
            .ok_or_else(|| ProofStoreError::new("no DPoP nonce key is available"))?;
        // The nonce carries its time under a tag, so that no issued nonce has to be stored.
        let tag = hmac::sign(&hmac_key(key), &now.to_be_bytes());
        Ok(URL_SAFE_NO_PAD.encode([&now.to_be_bytes(), tag.as_ref()].concat()))
    }

    /// Returns true if the proof carries a valid nonce.
    ///
    /// # Errors
    /// When the shared store fails.
    pub async fn check(&self, proof: &DpopProof, now: u64) -> Result<bool, ProofStoreError> {
        let shown = proof.nonce.as_ref().and_then(|nonce| URL_SAFE_NO_PAD.decode(nonce).ok());
        let Some((time, tag)) = shown.as_deref().and_then(<[u8]>::split_first_chunk::<8>) else {
            return Ok(false);
        };
        let made = u64::from_be_bytes(*time);
        // The clock of the node that made it may be ahead.
        if made > now.saturating_add(CLOCK_SKEW) || now.saturating_sub(made) >= NONCE_SECONDS {
            return Ok(false);
        }
        let is_ours =
            |keys: &[RotatingKey]| keys.iter().any(|key| hmac::verify(&hmac_key(key), time, tag).is_ok());
        if is_ours(&self.keys(now).await?) {
            return Ok(true);
        }
        // Its key may be new. Whoever makes nonces up has us look once a second and no more.
        Ok(match self.should_reload(now) {
            true => is_ours(&self.load_keys(now).await?),
            false => false,
        })
    }

    /// Returns the known keys, including one in use.
    async fn keys(&self, now: u64) -> Result<Vec<RotatingKey>, ProofStoreError> {
        let keys = self.known().keys.clone();
        if RotatingKey::find_current(&keys, now).is_some() { Ok(keys) } else { self.load_keys(now).await }
    }

    fn should_reload(&self, now: u64) -> bool {
        self.0.shared.is_some() && self.known().at != Some(now)
    }

    /// Loads the keys and creates one if none is in use.
    async fn load_keys(&self, now: u64) -> Result<Vec<RotatingKey>, ProofStoreError> {
        let mut keys = match &self.0.shared {
            Some(keeper) => keeper.nonce_keys(now).await?,
            None => self.known().keys.clone(),
        };
        if RotatingKey::find_current(&keys, now).is_none() {
            let key = new_key(now);
            if let Some(keeper) = &self.0.shared {
                // A nonce of the key's last second is good for its whole lifetime, also on nodes whose
                // clocks are behind.
                keeper.store_nonce_key(&key, key.to + NONCE_SECONDS + CLOCK_SKEW).await?;
            }
            keys.push(key);
        }
        keys.retain(|key| key.to + NONCE_SECONDS + CLOCK_SKEW > now);
        *self.known() = NonceKeys { keys: keys.clone(), at: Some(now) };
        Ok(keys)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, NonceKeys> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn new_key(now: u64) -> RotatingKey {
    // Without randomness there are no secrets, and nothing can go on.
    let mut seed = Seed::from_system().expect("the operating system provides random numbers");
    let secret = Zeroizing::new(seed.draw().to_vec());
    RotatingKey::new(seed.draw_text(), secret, now, now + KEY_SECONDS)
}

fn hmac_key(key: &RotatingKey) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &key.secret)
}

impl fmt::Debug for ProofNonces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.0.shared.is_some() { "shared" } else { "of this process" };
        write!(f, "ProofNonces({whose})")
    }
}
