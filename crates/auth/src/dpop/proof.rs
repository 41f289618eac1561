//! Verification of DPoP proofs, which show possession of the key that a token is bound to (RFC 9449).

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, Method};
use jsonwebtoken::jwk::{JwkSet, ThumbprintHash};
use serde::Deserialize;
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use url::Url;

use super::DPOP;
use crate::jwt::{ALGORITHMS, verify_signed_jwt};

/// Maximum length of a proof, in bytes.
const MAX_PROOF_LENGTH: usize = 8 * 1024;
/// Maximum difference between the time of a proof and the local clock, in seconds.
pub const PROOF_TOLERANCE_SECONDS: u64 = 300;

/// The private members of every kind of key (RFC 7518, section 6).
pub const PRIVATE_JWK_MEMBERS: [&str; 9] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"];

/// A proof that is in order, but for whether it is new.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DpopProof {
    /// The key, by its thumbprint.
    pub key: String,
    /// Identifier of the proof, for detecting reuse.
    pub once: String,
    /// Nonce that the proof carries.
    pub nonce: Option<String>,
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
///
/// # Errors
/// The reason that the proof is not accepted, as it may be told to its sender.
pub fn read_proof(
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

/// Returns the names of the supported proof algorithms.
#[must_use]
pub fn algorithm_names() -> Vec<String> {
    ALGORITHMS.iter().map(|algorithm| format!("{algorithm:?}")).collect()
}
