//! Verification of JSON Web Tokens from other parties: signature, algorithm and type.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{Jwk, JwkSet, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Maximum length of a token, in bytes.
pub const MAX_TOKEN_LENGTH: usize = 16 * 1024;

/// Signature algorithms that are accepted by default: those with a public key. With a shared secret, each verifier of a
/// token could also make one.
pub const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
];

/// Reasons a JWT is rejected, for the log; the client gets less detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyJwtError {
    /// It names a key that is not there; perhaps the keys are old.
    #[error("unknown signing key")]
    UnknownKey,
    /// The token has expired.
    #[error("the token has expired")]
    Expired,
    /// The token is invalid, with the reason.
    #[error("{0}")]
    Invalid(&'static str),
}

/// Returns the claims of a JWT that is signed with one of `keys` by one of `algorithms` and is of a type that `is_type`
/// accepts. The claims themselves are not checked.
///
/// # Errors
/// The reason that it is not accepted.
pub fn verify_signed_jwt<C: DeserializeOwned>(
    token: &str,
    keys: &JwkSet,
    algorithms: &[Algorithm],
    is_type: impl Fn(Option<&str>) -> bool,
) -> Result<C, VerifyJwtError> {
    if token.len() > MAX_TOKEN_LENGTH {
        return Err(VerifyJwtError::Invalid("the token is too long"));
    }
    // An algorithm that is not known, `none` among them, does not get past this.
    let header = jsonwebtoken::decode_header(token).map_err(|_| VerifyJwtError::Invalid("malformed JWT"))?;
    if is_critical(token) {
        return Err(VerifyJwtError::Invalid("unsupported critical extension (`crit`)"));
    }
    // Checked against the whole list, too: with a symmetric algorithm in the rules, a public key would be
    // the secret.
    if !ALGORITHMS.contains(&header.alg) || !algorithms.contains(&header.alg) {
        return Err(VerifyJwtError::Invalid("signature algorithm not allowed"));
    }
    if !is_type(header.typ.as_deref()) {
        return Err(VerifyJwtError::Invalid("unexpected token type (`typ`)"));
    }
    let jwk = find_key(keys, &header).ok_or(VerifyJwtError::UnknownKey)?;
    let key = DecodingKey::from_jwk(jwk).map_err(|_| VerifyJwtError::Invalid("unsupported signing key"))?;
    let mut validation = Validation::new(header.alg);
    // What it says is for the caller to check, by our clock.
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    let claims = jsonwebtoken::decode::<C>(token, &key, &validation).map_err(|error| {
        use jsonwebtoken::errors::ErrorKind;
        VerifyJwtError::Invalid(match error.kind() {
            ErrorKind::InvalidSignature => "invalid signature",
            _ => "missing or malformed claim",
        })
    })?;
    Ok(claims.claims)
}

/// Returns true if the header has `crit` (RFC 7515, section 4.1.11). No such extension is supported.
fn is_critical(token: &str) -> bool {
    let header = token.split('.').next().and_then(|header| URL_SAFE_NO_PAD.decode(header).ok());
    let header = header.and_then(|header| serde_json::from_slice::<Value>(&header).ok());
    header.is_none_or(|header| header.get("crit").is_some())
}

/// Returns the key that a token names or, if it names none, the only key.
fn find_key<'a>(keys: &'a JwkSet, header: &Header) -> Option<&'a Jwk> {
    let fits = |key: &&Jwk| {
        let common = &key.common;
        common.key_algorithm.is_none_or(|algorithm| algorithm == header.alg.into())
            && !matches!(common.public_key_use, Some(PublicKeyUse::Encryption))
            && common.key_operations.as_ref().is_none_or(|uses| uses.contains(&KeyOperations::Verify))
    };
    let named = |key: &&Jwk| header.kid.is_none() || key.common.key_id == header.kid;
    let mut found = keys.keys.iter().filter(named).filter(fits);
    let first = found.next()?;
    (header.kid.is_some() || found.next().is_none()).then_some(first)
}
