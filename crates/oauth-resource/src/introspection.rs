//! Verification of opaque tokens by introspection at their issuer (RFC 7662).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hospes_auth::{
    BoundedCache, ClientId, FetchRequest, HttpFetch, Issuer, Resource, Scopes, SingleFlight, fingerprint,
};
use http::HeaderValue;
use http::header::AUTHORIZATION;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Semaphore;
use url::Url;
use url::form_urlencoded::byte_serialize;

use super::jwt::{AudienceClaim, ConfirmationClaim};
use super::principal::TokenPrincipal;
use super::token_verifier::{TokenVerifier, VerifyFuture, VerifyTokenError};

/// Time for which a response is cached, in seconds: of an active token, but not beyond its expiry, and of an inactive
/// token.
const ACTIVE_CACHE_SECONDS: u64 = 60;
const INACTIVE_CACHE_SECONDS: u64 = 5;
/// Maximum number of cached responses for active tokens (limit `max_introspections`) and for inactive tokens (limit
/// `max_bad_introspections`). Inactive ones never evict active ones. At the cap, the oldest entry is evicted.
const MAX_ACTIVE_ENTRIES: usize = 16 * 1024;
const MAX_INACTIVE_ENTRIES: usize = 4 * 1024;
/// Maximum number of concurrent introspection requests: the limit `max_introspections_at_once`. Further requests wait
/// for at most [`TURN_TIMEOUT`].
const MAX_CONCURRENT_REQUESTS: usize = 32;
const TURN_TIMEOUT: Duration = Duration::from_secs(10);

/// Asks the issuer about each token.
pub struct IntrospectionVerifier {
    issuer: Issuer,
    audiences: Vec<Resource>,
    endpoint: Url,
    credentials: SecretString,
    fetch: Arc<dyn HttpFetch>,
    client_for_subject: bool,
    answers: Mutex<IntrospectionCache>,
    under_way: SingleFlight<TokenHash, Result<TokenPrincipal, VerifyTokenError>>,
    turns: Semaphore,
}

type TokenHash = [u8; 32];

/// Cached introspection results by token hash, each with the time until which it is used.
struct IntrospectionCache {
    good: BoundedCache<TokenHash, (TokenPrincipal, u64)>,
    bad: BoundedCache<TokenHash, u64>,
}

impl IntrospectionCache {
    fn known(&self, key: &TokenHash, now: u64) -> Option<Result<TokenPrincipal, VerifyTokenError>> {
        match (self.good.get(key), self.bad.get(key)) {
            (Some((principal, until)), _) if *until > now => Some(Ok(principal.clone())),
            (_, Some(until)) if *until > now => Some(Err(VerifyTokenError::Invalid)),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct IntrospectionResponse {
    active: bool,
    iss: Option<Issuer>,
    sub: Option<String>,
    aud: Option<AudienceClaim>,
    client_id: Option<ClientId>,
    scope: Option<Scopes>,
    exp: Option<u64>,
    jti: Option<String>,
    cnf: Option<Value>,
}

impl IntrospectionVerifier {
    /// Creates a verifier that queries `endpoint` as `client`, with its secret, for tokens that `issuer` has issued for
    /// one of `audiences`.
    pub fn new(
        issuer: Issuer,
        audiences: Vec<Resource>,
        endpoint: Url,
        (client, secret): (&ClientId, &str),
        fetch: impl HttpFetch,
    ) -> Self {
        let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let pair = STANDARD.encode(format!("{}:{}", encode(client.as_str()), encode(secret)));
        Self {
            issuer,
            audiences,
            endpoint,
            credentials: format!("Basic {pair}").into(),
            fetch: Arc::new(fetch),
            client_for_subject: false,
            answers: Mutex::new(IntrospectionCache {
                good: BoundedCache::new(MAX_ACTIVE_ENTRIES),
                bad: BoundedCache::new(MAX_INACTIVE_ENTRIES),
            }),
            under_way: SingleFlight::default(),
            turns: Semaphore::new(MAX_CONCURRENT_REQUESTS),
        }
    }

    /// Treats a token without `sub` as a token of its client. Off by default, because all users of a client would then
    /// be one principal.
    #[must_use]
    pub fn client_for_subject(mut self) -> Self {
        self.client_for_subject = true;
        self
    }

    async fn check(&self, token: &str, now: u64) -> Result<TokenPrincipal, VerifyTokenError> {
        // The cache is keyed by hashes, so that no token stays in memory longer than its request.
        let mut key = [0; 32];
        key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        if let Some(known) = self.known(&key, now) {
            return known;
        }
        self.under_way.run_once(key, || self.introspect(token, key, now)).await
    }

    fn known(&self, key: &TokenHash, now: u64) -> Option<Result<TokenPrincipal, VerifyTokenError>> {
        self.answers().known(key, now)
    }

    async fn introspect(
        &self,
        token: &str,
        key: TokenHash,
        now: u64,
    ) -> Result<TokenPrincipal, VerifyTokenError> {
        // Since it was last looked for, an answer may have come.
        if let Some(known) = self.known(&key, now) {
            return known;
        }
        let Ok(Ok(_turn)) = tokio::time::timeout(TURN_TIMEOUT, self.turns.acquire()).await else {
            tracing::warn!(
                issuer = %self.issuer, limit = "max_introspections_at_once",
                "timed out waiting to introspect"
            );
            return Err(VerifyTokenError::Unavailable);
        };
        let Ok(mut credentials) = HeaderValue::try_from(self.credentials.expose_secret()) else {
            return Err(VerifyTokenError::Unavailable);
        };
        credentials.set_sensitive(true);
        let request =
            FetchRequest::form(self.endpoint.clone(), [("token", token)]).header(AUTHORIZATION, credentials);
        let said = match self.fetch.fetch(request).await {
            Ok(response) if response.status == http::StatusCode::OK => {
                response.decode::<IntrospectionResponse>()
            }
            Ok(response) => {
                tracing::warn!(issuer = %self.issuer, status = %response.status, "token introspection failed");
                return Err(VerifyTokenError::Unavailable);
            }
            Err(error) => {
                tracing::warn!(issuer = %self.issuer, %error, "token introspection request failed");
                return Err(VerifyTokenError::Unavailable);
            }
        };
        let found = self.principal(token, said.map_err(|_| VerifyTokenError::Unavailable)?, now);
        let mut answers = self.answers();
        let Some(principal) = found else {
            answers.bad.insert(key, now + INACTIVE_CACHE_SECONDS);
            return Err(VerifyTokenError::Invalid);
        };
        let until = principal.expires_at.unwrap_or(u64::MAX).min(now + ACTIVE_CACHE_SECONDS);
        answers.good.insert(key, (principal.clone(), until));
        Ok(principal)
    }

    fn principal(&self, token: &str, said: IntrospectionResponse, now: u64) -> Option<TokenPrincipal> {
        // A token without `aud` could be for any resource of the issuer (AUTR-10).
        let ours = said.aud.is_some_and(|said| self.audiences.iter().any(|one| said.names(one.as_str())));
        // `iss` may be missing (RFC 7662, section 2.2): the answer comes from the issuer's own endpoint.
        let issued = said.iss.is_none_or(|issuer| issuer == self.issuer);
        let lasts = said.exp.is_none_or(|exp| exp > now);
        if !said.active || !ours || !issued || !lasts {
            return None;
        }
        let client = said.client_id.as_ref().filter(|_| self.client_for_subject);
        let Some(subject) = said.sub.or_else(|| client.map(ToString::to_string)) else {
            tracing::warn!(issuer = %self.issuer, "introspection returned an active token without `sub`");
            return None;
        };
        // What is bound in another way is not taken.
        let Ok(bound) = said.cnf.map(serde_json::from_value::<ConfirmationClaim>).transpose() else {
            tracing::warn!(issuer = %self.issuer, "token has an unsupported confirmation method (`cnf`)");
            return None;
        };
        let mut principal = TokenPrincipal::new(self.issuer.clone(), subject);
        principal.is_client =
            said.client_id.as_ref().is_some_and(|client| client.as_str() == principal.subject);
        principal.client_id = said.client_id;
        principal.scopes = said.scope.unwrap_or_default();
        principal.proof_key = bound.map(|bound| bound.jkt);
        principal.token_id = said.jti.unwrap_or_else(|| fingerprint(token));
        // What lives on the token lasts until it is asked about again.
        principal.expires_at = Some(said.exp.unwrap_or(now + ACTIVE_CACHE_SECONDS));
        Some(principal)
    }

    fn answers(&self) -> std::sync::MutexGuard<'_, IntrospectionCache> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenVerifier for IntrospectionVerifier {
    fn verify<'a>(&'a self, token: &'a str, now: u64) -> VerifyFuture<'a> {
        Box::pin(self.check(token, now))
    }
}

impl fmt::Debug for IntrospectionVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntrospectionVerifier").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}
