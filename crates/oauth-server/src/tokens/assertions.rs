//! Signed assertions: of clients for authentication (RFC 7523), and of identity providers about their users.

use std::sync::Arc;

use hospes_auth::jwt::{ALGORITHMS, VerifyJwtError, verify_signed_jwt};
use hospes_auth::{
    CLOCK_SKEW, ClientId, ErrorCode, HttpFetch, Issuer, JwksLocation, PublishedKeys, PublishedKeysError,
    Scopes,
};
use serde::Deserialize;
use serde_json::Value;

use super::authentication::TokenRequester;
use super::errors::{TokenRequestError, refuse};
use super::records::{GrantSource, GrantedAccess};
use crate::auth_server::{AuthServer, TrustedIssuer};
use crate::authorize::{resolve_resource, resolve_scopes};
use crate::clients::{
    ClientAuthMethod, ClientKeys, ClientOrigin, RegisteredClient, decode_unverified_claims,
};
use crate::form::RequestForm;
use crate::store::secrets::{hash, random_text};

/// Maximum lifetime of an assertion, in seconds.
const MAX_SECONDS: u64 = 300;
/// Maximum length of an assertion's identifier (`jti`), in bytes.
const MAX_ID: usize = 256;

#[derive(Deserialize)]
struct PresentedAssertionClaims {
    iss: String,
    sub: String,
    /// One, and as a text: an assertion for several servers could be used by one of them at the others.
    aud: String,
    exp: u64,
    nbf: Option<u64>,
    jti: String,
}

/// Claims of an identity assertion authorization grant.
#[derive(Deserialize)]
struct IdentityAssertionClaims {
    iss: Issuer,
    sub: String,
    aud: String,
    client_id: ClientId,
    resource: String,
    scope: Option<Scopes>,
    exp: u64,
    iat: u64,
    jti: String,
}

impl AuthServer {
    /// Accepts assertions of the identity provider `issuer` about its users, in place of their consent. Clients that
    /// may present them ([`RegisteredClient::with_assertions`]) get tokens for them. The provider's keys are fetched with
    /// `fetch`.
    #[must_use]
    pub fn trust(self, issuer: Issuer, fetch: impl HttpFetch) -> Self {
        let keys = PublishedKeys::new(JwksLocation::Of(issuer.clone()), Arc::new(fetch));
        self.with(|inner| inner.trusted.push(TrustedIssuer { issuer, keys }))
    }

    pub(super) fn trusts(&self, issuer: &str) -> bool {
        self.0.trusted.iter().any(|trusted| trusted.issuer.as_str() == issuer)
    }

    /// Returns true if the assertion authenticates the client.
    pub(super) async fn verify_client_assertion(
        &self,
        client: &RegisteredClient,
        assertion: &str,
    ) -> Result<bool, TokenRequestError> {
        if client.auth != ClientAuthMethod::PrivateKeyJwt {
            return Ok(false);
        }
        let now = self.now();
        let check = |keys: &_| -> Result<PresentedAssertionClaims, VerifyJwtError> {
            // RFC 7523 gives its assertions no type; the last one is that of its revision.
            let is_type =
                |kind: Option<&str>| matches!(kind, None | Some("JWT" | "client-authentication+jwt"));
            let claims: PresentedAssertionClaims = verify_signed_jwt(assertion, keys, &ALGORITHMS, is_type)?;
            let id = client.id.as_str();
            if claims.iss != id || claims.sub != id {
                return Err(VerifyJwtError::Invalid("`iss` or `sub` is not the client id"));
            }
            // Only the issuer counts, not the URL of the token endpoint, as the revision of RFC 7523 has
            // it.
            if claims.aud != self.settings().issuer.as_str() {
                return Err(VerifyJwtError::Invalid("audience mismatch (`aud`)"));
            }
            if claims.nbf.is_some_and(|begin| begin > now + CLOCK_SKEW) {
                return Err(VerifyJwtError::Invalid("the assertion is not yet valid (`nbf`)"));
            }
            check_times(claims.exp, &claims.jti, now)?;
            Ok(claims)
        };
        let checked = match &client.keys {
            Some(ClientKeys::Set(keys)) => check(keys).map_err(PublishedKeysError::from),
            Some(ClientKeys::At(url)) => match self.keys_at(url, client.origin) {
                Some(keys) => keys.check(assertion, now, check).await,
                None => return Ok(false),
            },
            None => return Ok(false),
        };
        match checked {
            Ok(claims) => {
                self.claim_assertion_id(&format!("{} signs", client.id), &claims.jti, claims.exp).await
            }
            Err(PublishedKeysError::Unavailable) => Err(TokenRequestError::Later),
            Err(flaw) => {
                tracing::info!(client = %client.id, %flaw, "client assertion rejected");
                Ok(false)
            }
        }
    }

    /// Returns the keys published at a URL. For a URL supplied by a client, the restrictions of client documents apply.
    fn keys_at(&self, url: &str, said_by: ClientOrigin) -> Option<PublishedKeys> {
        let is_known = said_by == ClientOrigin::Configured;
        let named = self.0.named.as_ref().filter(|_| is_known);
        let fetch = named.or(self.0.fetch.as_ref())?;
        let place = JwksLocation::At(url.parse().ok()?);
        let mut all = self.0.client_keys.lock();
        // Kept apart by who named the place: the configuration may name some that strangers may not.
        if let Some(keys) = all.get(&(is_known, url.to_owned())) {
            return Some(keys.clone());
        }
        let fetch = if is_known { Arc::clone(fetch) } else { self.0.documents.limit_fetch(fetch) };
        let keys = PublishedKeys::new(place, fetch);
        all.insert((is_known, url.to_owned()), keys.clone());
        Some(keys)
    }

    /// Redeems an identity provider's assertion about a user for tokens.
    pub(super) async fn redeem_assertion(
        &self,
        form: &RequestForm,
        asker: &TokenRequester,
    ) -> Result<Value, TokenRequestError> {
        let bad = "the assertion is invalid, expired or issued to another client";
        let client = &asker.client;
        if client.auth == ClientAuthMethod::None {
            return refuse(ErrorCode::UnauthorizedClient, "this grant requires client authentication");
        }
        let Some(assertion) = form.get("assertion") else {
            return refuse(ErrorCode::InvalidRequest, "assertion is missing");
        };
        let now = self.now();
        let said =
            decode_unverified_claims(assertion).and_then(|claims| claims["iss"].as_str().map(str::to_owned));
        let trusted = self.0.trusted.iter().find(|known| Some(known.issuer.as_str()) == said.as_deref());
        let Some(trusted) = trusted else { return refuse(ErrorCode::InvalidGrant, bad) };
        let check = |keys: &_| -> Result<IdentityAssertionClaims, VerifyJwtError> {
            let is_type = |kind: Option<&str>| kind == Some("oauth-id-jag+jwt");
            let claims: IdentityAssertionClaims = verify_signed_jwt(assertion, keys, &ALGORITHMS, is_type)?;
            if claims.iss != trusted.issuer || claims.aud != self.settings().issuer.as_str() {
                return Err(VerifyJwtError::Invalid("issuer or audience mismatch (`iss`, `aud`)"));
            }
            if claims.client_id != client.id {
                return Err(VerifyJwtError::Invalid("client mismatch (`client_id`)"));
            }
            if claims.iat > now + CLOCK_SKEW || claims.iat + MAX_SECONDS + CLOCK_SKEW <= now {
                return Err(VerifyJwtError::Invalid("the assertion is expired or not yet valid (`iat`)"));
            }
            check_times(claims.exp, &claims.jti, now)?;
            Ok(claims)
        };
        let claims = match trusted.keys.check(assertion, now, check).await {
            Ok(claims) => claims,
            Err(PublishedKeysError::Unavailable) => return Err(TokenRequestError::Later),
            Err(flaw) => {
                tracing::info!(client = %client.id, issuer = %trusted.issuer, %flaw, "assertion rejected");
                return refuse(ErrorCode::InvalidGrant, bad);
            }
        };
        let Some(granted) = resolve_resource(Some(&claims.resource), self.settings()) else {
            return refuse(ErrorCode::InvalidGrant, bad);
        };
        self.check_resource(form, &granted)?;
        // Of what it says, what is known here and the client may have; and no more than is asked for.
        let allowed = match &claims.scope {
            Some(said) => {
                let known = said
                    .iter()
                    .filter(|scope| resolve_scopes(Some(scope), client, self.settings()).is_some());
                known.collect::<Scopes>()
            }
            None => resolve_scopes(None, client, self.settings()).unwrap_or_default(),
        };
        let scopes = match form.get("scope").map(Scopes::parse) {
            Some(asked) if !allowed.contains_all(&asked) => {
                return refuse(
                    ErrorCode::InvalidScope,
                    "the requested scope exceeds the scope of the assertion",
                );
            }
            Some(asked) if !asked.is_empty() => asked,
            _ => allowed,
        };
        // Claimed last: a client whose request is refused for something else may correct it with the same
        // assertion.
        if !self.claim_assertion_id(trusted.issuer.as_str(), &claims.jti, claims.exp).await? {
            tracing::warn!(client = %client.id, issuer = %trusted.issuer, "assertion reused: possible replay attack");
            return refuse(ErrorCode::InvalidGrant, bad);
        }
        let given = GrantedAccess {
            // No issuer has a space in it, so that nobody else's user has this name.
            subject: format!("{} {}", claims.iss, claims.sub),
            resource: granted,
            scopes,
            end: u64::MAX,
            by: GrantSource::Assertion { issuer: claims.iss.to_string() },
        };
        // Without a refresh token: whether the user is still there, the provider says.
        self.issue_tokens(asker, &given, &given.scopes, &random_text(), None).await
    }

    /// Claims the identifier of an assertion; false if it was used before.
    async fn claim_assertion_id(&self, of: &str, id: &str, until: u64) -> Result<bool, TokenRequestError> {
        let key = format!("assertion {}", hash(&format!("{of} {id}")));
        // It is accepted until CLOCK_SKEW after its end, and for as long again by nodes whose clocks are
        // behind.
        Ok(self.store().claim(&key, "", until + 2 * CLOCK_SKEW, self.now()).await?)
    }
}

fn check_times(exp: u64, id: &str, now: u64) -> Result<(), VerifyJwtError> {
    if exp.saturating_add(CLOCK_SKEW) <= now {
        return Err(VerifyJwtError::Expired);
    }
    if exp > now + MAX_SECONDS + CLOCK_SKEW {
        return Err(VerifyJwtError::Invalid("the assertion is valid for more than 5 minutes"));
    }
    if id.is_empty() || id.len() > MAX_ID {
        return Err(VerifyJwtError::Invalid("the assertion has no `jti` of 1 to 256 bytes"));
    }
    Ok(())
}
