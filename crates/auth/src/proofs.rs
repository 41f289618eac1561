//! Verification of DPoP proofs, which show possession of the key that a token is bound to (RFC 9449).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, Method};
use jsonwebtoken::jwk::{JwkSet, ThumbprintHash};
use serde::Deserialize;
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use url::Url;

use crate::bounded_cache::BoundedCache;
use crate::client::DPOP;
use crate::resource::{ALGORITHMS, verify_signed_jwt};
use crate::server::{AuthStore, AuthStoreError};

/// Maximum length of a proof, in bytes.
const MAX_PROOF_LENGTH: usize = 8 * 1024;
/// Maximum difference between the time of a proof and the local clock, in seconds.
pub(crate) const PROOF_TOLERANCE_SECONDS: u64 = 300;
/// Maximum number of used proofs that are remembered: the limit `max_remembered_proofs`. At the cap, the oldest is
/// forgotten.
const MAX_USED: usize = 64 * 1024;

/// The private members of every kind of key (RFC 7518, section 6).
pub(crate) const PRIVATE_JWK_MEMBERS: [&str; 9] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"];

/// A proof that is in order, but for whether it is new.
pub(crate) struct DpopProof {
    /// The key, by its thumbprint.
    pub(crate) key: String,
    /// Identifier of the proof, for detecting reuse.
    pub(crate) once: String,
    pub(crate) nonce: Option<String>,
}

#[derive(Deserialize)]
struct ReceivedProofClaims {
    jti: String,
    htm: String,
    htu: String,
    iat: u64,
    ath: Option<String>,
    nonce: Option<String>,
}

/// Verifies the proof of a request with this method to this URL at `now` (seconds since 1970). With a token, the proof
/// must have been made for that token. Returns `None` if the request has no proof.
pub(crate) fn read_proof(
    headers: &HeaderMap,
    method: &Method,
    url: &Url,
    token: Option<&str>,
    now: u64,
) -> Result<Option<DpopProof>, &'static str> {
    let mut lines = headers.get_all(DPOP).iter();
    let Some(line) = lines.next() else { return Ok(None) };
    // RFC 9449, section 4.3, point 1: there is not more than one field, or two readers could check two
    // proofs.
    if lines.next().is_some() {
        return Err("the request has more than one DPoP proof");
    }
    let proof = line.to_str().map_err(|_| "the DPoP proof is malformed")?;
    if proof.len() > MAX_PROOF_LENGTH {
        return Err("the DPoP proof is longer than 8192 bytes");
    }
    // The raw header is searched, because the typed key below drops private members, which must be refused
    // (RFC 9449, section 4.3, point 7).
    let head = proof.split('.').next().and_then(|head| URL_SAFE_NO_PAD.decode(head).ok());
    let head = head.and_then(|head| serde_json::from_slice::<Value>(&head).ok());
    let jwk = head.as_ref().and_then(|head| head.get("jwk")).ok_or("the DPoP proof has no `jwk` header")?;
    if PRIVATE_JWK_MEMBERS.iter().any(|name| jwk.get(name).is_some()) {
        return Err("the DPoP proof contains a private key");
    }
    let header = jsonwebtoken::decode_header(proof).map_err(|_| "the DPoP proof is malformed")?;
    let mut jwk = header.jwk.ok_or("the DPoP proof has no `jwk` header")?;
    let key =
        jwk.thumbprint(ThumbprintHash::SHA256).map_err(|_| "the key of the DPoP proof is not supported")?;
    // It is the one that is meant, whatever it is called.
    jwk.common.key_id = header.kid;
    let keys = JwkSet { keys: vec![jwk] };
    let claims: ReceivedProofClaims =
        verify_signed_jwt(proof, &keys, &ALGORITHMS, |kind| kind == Some("dpop+jwt"))
            .map_err(|_| "the DPoP proof has an invalid signature or lacks a claim")?;
    if claims.htm != method.as_str() {
        return Err("the DPoP proof is for another HTTP method (`htm`)");
    }
    // Queries and fragments are ignored on both sides (RFC 9449, section 4.3, point 9).
    let plain = |mut url: Url| {
        url.set_query(None);
        url.set_fragment(None);
        url
    };
    if Url::parse(&claims.htu).map(plain) != Ok(plain(url.clone())) {
        return Err("the DPoP proof is for another URL (`htu`)");
    }
    if claims.iat.abs_diff(now) > PROOF_TOLERANCE_SECONDS {
        return Err("the DPoP proof is expired or not yet valid (`iat`)");
    }
    if claims.jti.is_empty() || claims.jti.len() > 256 {
        return Err("the DPoP proof has no `jti` of 1 to 256 bytes");
    }
    if let Some(token) = token {
        let hash = URL_SAFE_NO_PAD.encode(digest(&SHA256, token.as_bytes()));
        let shown = claims.ath.unwrap_or_default();
        if !bool::from(hash.as_bytes().ct_eq(shown.as_bytes())) {
            return Err("the DPoP proof is for another token (`ath`)");
        }
    }
    // Two keys may use the same `jti`. The hash also gives every remembered proof the same small size.
    let once = URL_SAFE_NO_PAD.encode(digest(&SHA256, format!("{key} {}", claims.jti).as_bytes()));
    Ok(Some(DpopProof { key, once, nonce: claims.nonce }))
}

/// The proofs that were used. Cheap to clone; every clone is the same.
#[derive(Clone)]
pub struct ProofReplayCache {
    here: Arc<Mutex<BoundedCache<String, u64>>>,
    /// Store that all processes share. `None` if each process remembers its own.
    shared: Option<Arc<dyn AuthStore>>,
}

impl ProofReplayCache {
    /// Those of this process. Behind one address with others, each takes a proof once;
    /// [`AuthServer::used_proofs`](crate::server::AuthServer::used_proofs) is for those.
    #[must_use]
    pub fn in_process() -> Self {
        Self { here: Arc::new(Mutex::new(BoundedCache::new(MAX_USED))), shared: None }
    }

    /// Those of all processes with this store.
    pub(crate) fn shared(store: Arc<dyn AuthStore>) -> Self {
        Self { shared: Some(store), ..Self::in_process() }
    }

    /// Uses a proof; false when it was used before.
    pub(crate) async fn claim(&self, proof: &DpopProof, now: u64) -> Result<bool, AuthStoreError> {
        // A proof may be dated PROOF_SECONDS ahead, and is accepted for as long after its date.
        let until = now + 2 * PROOF_TOLERANCE_SECONDS;
        // The list of this process comes first: it refuses most repeats without a visit to the store.
        let is_new = self.claim_locally(proof, until, now)
            && match &self.shared {
                // Not the name that a token endpoint claims it by: it is another place.
                Some(store) => store.claim(&format!("shown proof {}", proof.once), "", until, now).await?,
                None => true,
            };
        if !is_new {
            tracing::warn!(key = proof.key, "DPoP proof reused: possible replay attack");
        }
        Ok(is_new)
    }

    fn claim_locally(&self, proof: &DpopProof, until: u64, now: u64) -> bool {
        let mut used = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        if used.get(&proof.once).is_some_and(|until| *until > now) {
            return false;
        }
        // With a shared store an eviction here loses nothing: the store still knows the proof.
        if used.insert(proof.once.clone(), until).is_some() && self.shared.is_none() {
            tracing::warn!(
                limit = "max_remembered_proofs",
                "DPoP replay cache full: evicted a proof that is still valid"
            );
        }
        true
    }
}

impl fmt::Debug for ProofReplayCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.shared.is_some() { "shared" } else { "of this process" };
        write!(f, "ProofReplayCache({whose})")
    }
}

/// The algorithms by which a key can be proven, by their names.
pub(crate) fn algorithm_names() -> Vec<String> {
    ALGORITHMS.iter().map(|algorithm| format!("{algorithm:?}")).collect()
}
