//! Verification of JWT access tokens (RFC 9068).

use hospes_auth::jwt::{ALGORITHMS, VerifyJwtError, verify_signed_jwt};
use hospes_auth::{
    CLOCK_SKEW, ClientId, GroupsClaim, Issuer, PublishedKeysError, Resource, Scopes, fingerprint,
};
use jsonwebtoken::Algorithm;
use jsonwebtoken::jwk::JwkSet;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::principal::TokenPrincipal;
use super::token_verifier::VerifyTokenError;

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
    /// Accepts tokens without the type `at+jwt`, as older servers issue them. Default: false.
    pub any_type: bool,
    /// Claim that has the groups of the user. `None` if they are not read. Default: none.
    pub groups: Option<GroupsClaim>,
}

impl JwtRules {
    /// Creates rules for tokens issued by `issuer` for one of `audiences`.
    #[must_use]
    pub fn new(issuer: Issuer, audiences: Vec<Resource>) -> Self {
        Self { issuer, audiences, algorithms: ALGORITHMS.to_vec(), any_type: false, groups: None }
    }
}

impl From<VerifyJwtError> for VerifyTokenError {
    fn from(flaw: VerifyJwtError) -> Self {
        match flaw {
            VerifyJwtError::Expired => Self::Expired,
            _ => Self::Invalid,
        }
    }
}

impl From<PublishedKeysError> for VerifyTokenError {
    fn from(error: PublishedKeysError) -> Self {
        match error {
            PublishedKeysError::Rejected(flaw) => flaw.into(),
            _ => Self::Unavailable,
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
    #[serde(flatten)]
    others: Map<String, Value>,
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
pub(super) enum AudienceClaim {
    One(String),
    Many(Vec<String>),
}

impl AudienceClaim {
    /// Returns true if it contains this value, byte for byte.
    pub(super) fn names(&self, one: &str) -> bool {
        match self {
            Self::One(named) => named == one,
            Self::Many(named) => named.iter().any(|named| named == one),
        }
    }
}

/// Key that a token is bound to, as the thumbprint used with DPoP proofs (RFC 9449). Other confirmation methods are
/// rejected.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfirmationClaim {
    pub(super) jkt: String,
}

/// Verifies a token and returns its principal. It must be signed with one of `keys` and conform to `rules`; `now` is in
/// seconds since 1970. A token bound to a key ([`TokenPrincipal::proof_key`]) also needs a proof, which is not checked
/// here.
///
/// # Errors
/// The reason why it is rejected.
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
    let groups = match &rules.groups {
        Some(claim) => claim.read_or_none(&claims.others).map_err(|error| {
            tracing::warn!(issuer = %rules.issuer, claim = claim.name(), %error, "token rejected: limit the groups that the issuer sends");
            VerifyJwtError::Invalid("the groups of the user are not in the token")
        })?,
        None => Vec::new(),
    };
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
        groups,
        proof_key: claims.cnf.map(|bound| bound.jkt),
        token_id: claims.jti.unwrap_or_else(|| fingerprint(token)),
        // As long as it is taken.
        expires_at: Some(claims.exp.saturating_add(CLOCK_SKEW)),
    })
}

fn is_access_token(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    kind.strip_prefix("application/").unwrap_or(&kind) == "at+jwt"
}
