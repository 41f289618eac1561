//! Logout tokens of the provider (OpenID Connect Back-Channel Logout 1.0): it says that a person has signed out there.

use hospes_auth::jwt::{ALGORITHMS, VerifyJwtError, verify_signed_jwt};
use hospes_auth::{CLOCK_SKEW, Issuer, PublishedKeysError};
use serde_json::{Map, Value};

use crate::person_sign_in::{PersonSignIn, PersonSignInError};

/// Member of `events` that makes a token a logout token.
const LOGOUT_EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";
/// Time after its issue for which a token is accepted, in seconds. Identifiers of used tokens are kept for as long.
const MAX_AGE_SECONDS: u64 = 300;
/// Maximum length of a token's identifier (`jti`), in bytes.
const MAX_ID_BYTES: usize = 256;

/// A sign-out at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProviderLogout {
    /// Issuer of the token.
    pub issuer: Issuer,
    /// Subject who has signed out. `None` if only the session is named.
    pub subject: Option<String>,
    /// Session at the provider that has ended. `None` if all sessions of the subject have.
    pub session: Option<String>,
    /// Identifier of the token, which may be used once.
    pub id: String,
    /// Time until which the identifier has to be kept, in seconds since 1970.
    pub until: u64,
}

impl PersonSignIn {
    /// Checks a logout token of the provider: signature, issuer, audience, times and events. Whether it was used before,
    /// the caller has to find out.
    ///
    /// # Errors
    /// If the token is not valid, or the keys of the provider cannot be fetched.
    pub async fn check_logout(&self, token: &str) -> Result<ProviderLogout, PersonSignInError> {
        let now = self.now();
        let check = |keys: &_| {
            // `logout+jwt` is recommended, and older providers say `JWT` or nothing. `events` tells it from other tokens.
            let is_type = |kind: Option<&str>| {
                let kind = kind.map(str::to_ascii_lowercase);
                let kind = kind.as_deref().map(|kind| kind.strip_prefix("application/").unwrap_or(kind));
                matches!(kind, None | Some("logout+jwt" | "jwt"))
            };
            let claims: Map<String, Value> = verify_signed_jwt(token, keys, &ALGORITHMS, is_type)?;
            self.read_logout(&claims, now)
        };
        self.published_keys().check(token, now, check).await.map_err(|error| match error {
            PublishedKeysError::Rejected(flaw) => PersonSignInError::Refused(flaw.to_string()),
            other => PersonSignInError::Unreachable(other.to_string()),
        })
    }

    fn read_logout(&self, claims: &Map<String, Value>, now: u64) -> Result<ProviderLogout, VerifyJwtError> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let time = |name: &str| claims.get(name).and_then(Value::as_u64);
        let (issuer, client) = self.issuer_and_client();
        if text("iss") != Some(issuer.as_str()) {
            return Err(VerifyJwtError::Invalid("issuer mismatch (`iss`)"));
        }
        let is_for_us = match claims.get("aud") {
            Some(Value::String(one)) => one == client.as_str(),
            Some(Value::Array(many)) => many.iter().any(|one| one == client.as_str()),
            _ => false,
        };
        if !is_for_us {
            return Err(VerifyJwtError::Invalid("audience mismatch (`aud`)"));
        }
        if claims.contains_key("nonce") {
            return Err(VerifyJwtError::Invalid("it has a nonce, as an ID token"));
        }
        if !claims.get("events").and_then(|events| events.get(LOGOUT_EVENT)).is_some_and(Value::is_object) {
            return Err(VerifyJwtError::Invalid("it is no logout token (`events`)"));
        }
        if time("exp").is_none_or(|exp| exp.saturating_add(CLOCK_SKEW) <= now) {
            return Err(VerifyJwtError::Expired);
        }
        let issued = time("iat").filter(|issued| *issued <= now.saturating_add(CLOCK_SKEW));
        let until = issued.map(|issued| issued.saturating_add(MAX_AGE_SECONDS + CLOCK_SKEW));
        let until = until.filter(|until| *until > now);
        let until =
            until.ok_or(VerifyJwtError::Invalid("it was issued too long ago, or in the future (`iat`)"))?;
        let id = text("jti").filter(|id| id.len() <= MAX_ID_BYTES);
        let id = id.ok_or(VerifyJwtError::Invalid("it has no `jti` of 1 to 256 bytes"))?.to_owned();
        let (subject, session) = (text("sub").map(str::to_owned), text("sid").map(str::to_owned));
        let is_text = |name: &str| claims.get(name).is_none_or(Value::is_string);
        if subject.is_none() && session.is_none() || !is_text("sub") || !is_text("sid") {
            return Err(VerifyJwtError::Invalid("it names neither a subject nor a session (`sub`, `sid`)"));
        }
        Ok(ProviderLogout { issuer: issuer.clone(), subject, session, id, until })
    }
}
