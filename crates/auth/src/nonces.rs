//! What proofs of keys have to carry, so that none can be made beforehand (RFC 9449, sections 8 and 9).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use crate::Seed;
use crate::clock::CLOCK_SKEW;
use crate::proofs::Proof;
use crate::server::{Keeper, KeptKey, Kind, StoreError};

/// For how long a nonce is good, in seconds.
const NONCE_SECONDS: u64 = 300;
/// For how long nonces are made with one key, in seconds.
const KEY_SECONDS: u64 = 3600;

/// Makes nonces, and knows them again. Cheap to clone; every clone is the same.
#[derive(Clone)]
pub struct ProofNonces(Arc<Inner>);

struct Inner {
    /// Where the keys are that several processes share; none where each has its own.
    shared: Option<Arc<Keeper>>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    keys: Vec<KeptKey>,
    /// When they were looked up.
    at: Option<u64>,
}

impl ProofNonces {
    /// Those of this process. Another knows them not, and asks for one of its own: behind one address with others,
    /// [`AuthServer::proof_nonces`](crate::server::AuthServer::proof_nonces) spares clients that.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self(Arc::new(Inner { shared: None, known: Mutex::default() }))
    }

    /// Those of all processes that keep their keys there.
    pub(crate) fn shared(keeper: Arc<Keeper>) -> Self {
        Self(Arc::new(Inner { shared: Some(keeper), known: Mutex::default() }))
    }

    /// What a proof that is made now has to carry.
    pub(crate) async fn make(&self, now: u64) -> Result<String, StoreError> {
        let keys = self.keys(now).await?;
        let key =
            KeptKey::in_use(&keys, now).ok_or_else(|| StoreError("there is no key for nonces".into()))?;
        let tag = hmac::sign(&signing(key), &now.to_be_bytes());
        Ok(URL_SAFE_NO_PAD.encode([&now.to_be_bytes(), tag.as_ref()].concat()))
    }

    /// Whether a proof carries one that is good.
    pub(crate) async fn check(&self, proof: &Proof, now: u64) -> Result<bool, StoreError> {
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
            |keys: &[KeptKey]| keys.iter().any(|key| hmac::verify(&signing(key), time, tag).is_ok());
        if is_ours(&self.keys(now).await?) {
            return Ok(true);
        }
        // Its key may be new. Whoever makes nonces up has us look once a second and no more.
        Ok(match self.look_again(now) {
            true => is_ours(&self.look(now).await?),
            false => false,
        })
    }

    /// The keys at hand, among which there is one that is in use.
    async fn keys(&self, now: u64) -> Result<Vec<KeptKey>, StoreError> {
        let keys = self.known().keys.clone();
        if KeptKey::in_use(&keys, now).is_some() { Ok(keys) } else { self.look(now).await }
    }

    fn look_again(&self, now: u64) -> bool {
        self.0.shared.is_some() && self.known().at != Some(now)
    }

    /// Looks the keys up, and makes one if none is in use.
    async fn look(&self, now: u64) -> Result<Vec<KeptKey>, StoreError> {
        let mut keys = match &self.0.shared {
            Some(keeper) => keeper.keys(Kind::Nonce, now).await?,
            None => self.known().keys.clone(),
        };
        if KeptKey::in_use(&keys, now).is_none() {
            let key = new_key(now);
            if let Some(keeper) = &self.0.shared {
                keeper.keep(Kind::Nonce, &key, key.to + NONCE_SECONDS + CLOCK_SKEW).await?;
            }
            keys.push(key);
        }
        keys.retain(|key| key.to + NONCE_SECONDS + CLOCK_SKEW > now);
        *self.known() = Known { keys: keys.clone(), at: Some(now) };
        Ok(keys)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn new_key(now: u64) -> KeptKey {
    // Without randomness there are no secrets, and nothing can go on.
    let mut seed = Seed::from_system().expect("the operating system has randomness");
    let secret = Zeroizing::new(seed.draw().to_vec());
    KeptKey { id: seed.draw_text(), secret, from: now, to: now + KEY_SECONDS }
}

fn signing(key: &KeptKey) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &key.secret)
}

impl fmt::Debug for ProofNonces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.0.shared.is_some() { "shared" } else { "of this process" };
        write!(f, "ProofNonces({whose})")
    }
}
