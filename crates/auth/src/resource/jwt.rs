//! Tokens that say themselves what they are: JWTs (RFC 9068).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{Jwk, JwkSet, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{MAX_TOKEN_LENGTH, TokenPrincipal, VerifyTokenError};
use crate::clock::CLOCK_SKEW;
use crate::secret::fingerprint;
use crate::{ClientId, Issuer, Resource, Scopes};

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

/// Requirements for a JWT access token.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JwtRules {
    /// Required issuer.
    pub issuer: Issuer,
    /// Accepted audiences: one of these, byte for byte.
    pub audiences: Vec<Resource>,
    /// Accepted signature algorithms. Algorithms without a public key are never accepted.
    pub algorithms: Vec<Algorithm>,
    /// Accepts tokens that do not declare the type `at+jwt`, as older servers make them. Default: false.
    pub any_type: bool,
}

impl JwtRules {
    /// Tokens made out by `issuer` for one of `audiences`.
    #[must_use]
    pub fn new(issuer: Issuer, audiences: Vec<Resource>) -> Self {
        Self { issuer, audiences, algorithms: ALGORITHMS.to_vec(), any_type: false }
    }
}

/// Reasons a JWT is rejected. The text is for the log: the client is told less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyJwtError {
    /// It names a key that is not there; perhaps the keys are old.
    #[error("unknown signing key")]
    UnknownKey,
    /// It was good once.
    #[error("the token has expired")]
    Expired,
    /// It is not good.
    #[error("{0}")]
    Invalid(&'static str),
}

impl From<VerifyJwtError> for VerifyTokenError {
    fn from(flaw: VerifyJwtError) -> Self {
        match flaw {
            VerifyJwtError::Expired => Self::Expired,
            VerifyJwtError::UnknownKey | VerifyJwtError::Invalid(_) => Self::Invalid,
        }
    }
}

#[derive(Deserialize)]
struct AccessTokenClaims {
    iss: Issuer,
    sub: String,
    aud: AudienceClaim,
    exp: u64,
    nbf: Option<u64>,
    jti: Option<String>,
    client_id: Option<ClientId>,
    azp: Option<ClientId>,
    scope: Option<Scopes>,
    scp: Option<ScopeListClaim>,
    cnf: Option<ConfirmationClaim>,
    nonce: Option<Value>,
    at_hash: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ScopeListClaim {
    One(Scopes),
    Many(Vec<String>),
}

/// Audience claim: one value, or several.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum AudienceClaim {
    One(String),
    Many(Vec<String>),
}

impl AudienceClaim {
    /// Returns true if it contains this value, byte for byte.
    pub(crate) fn names(&self, one: &str) -> bool {
        match self {
            Self::One(named) => named == one,
            Self::Many(named) => named.iter().any(|named| named == one),
        }
    }
}

/// The key that a token is bound to: of the ways to name one, the thumbprint of what is shown with a proof (RFC 9449). What
/// is bound in another way is not taken.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfirmationClaim {
    pub(crate) jkt: String,
}

/// Returns the claims of a JWT that is signed with one of `keys` by one of `algorithms` and is of a type that `is_type`
/// accepts. The claims themselves are not checked.
pub(crate) fn verify_signed_jwt<C: DeserializeOwned>(
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

/// Whose token this is. It is signed with one of `keys` and as `rules` say; `now` is in seconds since 1970. One that is
/// bound to a key ([`TokenPrincipal::proof_key`]) is good only with a proof of that, which is not checked here.
///
/// # Errors
/// Why it is not taken.
pub fn check_jwt(
    token: &str,
    keys: &JwkSet,
    rules: &JwtRules,
    now: u64,
) -> Result<TokenPrincipal, VerifyJwtError> {
    let is_type = |kind: Option<&str>| rules.any_type || kind.is_some_and(is_access_token);
    let claims: AccessTokenClaims = verify_signed_jwt(token, keys, &rules.algorithms, is_type)?;
    if claims.iss != rules.issuer {
        return Err(VerifyJwtError::Invalid("issuer mismatch (`iss`)"));
    }
    if !rules.audiences.iter().any(|one| claims.aud.names(one.as_str())) {
        return Err(VerifyJwtError::Invalid("audience mismatch (`aud`)"));
    }
    if claims.exp.saturating_add(CLOCK_SKEW) <= now {
        return Err(VerifyJwtError::Expired);
    }
    if claims.nbf.is_some_and(|begin| begin > now + CLOCK_SKEW) {
        return Err(VerifyJwtError::Invalid("the token is not yet valid (`nbf`)"));
    }
    // These are claims of ID tokens (OpenID Connect Core), which `any_type` would let through.
    if claims.nonce.is_some() || claims.at_hash.is_some() {
        return Err(VerifyJwtError::Invalid("it is an ID token, not an access token"));
    }
    // Okta and Microsoft Entra ID name the scopes `scp`: the one as a list, the other as a text.
    let scopes = claims.scope.unwrap_or_else(|| match claims.scp {
        None => Scopes::none(),
        Some(ScopeListClaim::One(scopes)) => scopes,
        Some(ScopeListClaim::Many(list)) => list.iter().map(String::as_str).collect(),
    });
    // Keycloak and others name the client only in `azp`.
    let client_id = claims.client_id.or(claims.azp);
    Ok(TokenPrincipal {
        // So they say it (RFC 9068, section 2.2).
        is_client: client_id.as_ref().is_some_and(|client| client.as_str() == claims.sub),
        issuer: claims.iss,
        subject: claims.sub,
        client_id,
        scopes,
        proof_key: claims.cnf.map(|bound| bound.jkt),
        token_id: claims.jti.unwrap_or_else(|| fingerprint(token)),
        // As long as it is taken.
        expires_at: Some(claims.exp.saturating_add(CLOCK_SKEW)),
    })
}

/// Returns true if the header has `crit` (RFC 7515, section 4.1.11). No such extension is supported.
fn is_critical(token: &str) -> bool {
    let header = token.split('.').next().and_then(|header| URL_SAFE_NO_PAD.decode(header).ok());
    let header = header.and_then(|header| serde_json::from_slice::<Value>(&header).ok());
    header.is_none_or(|header| header.get("crit").is_some())
}

fn is_access_token(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    kind.strip_prefix("application/").unwrap_or(&kind) == "at+jwt"
}

/// The key that a token names; where it names none, the only one there is.
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
