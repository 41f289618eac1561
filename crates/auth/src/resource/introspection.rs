//! Tokens that say nothing: their issuer is asked (RFC 7662).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Semaphore;
use url::Url;
use url::form_urlencoded::byte_serialize;

use super::jwt::{Audience, Bound};
use super::{Flaw, Principal, Verify, VerifyFuture};
use crate::bounded::Bounded;
use crate::fetch::Fetch;
use crate::merged::Merged;
use crate::secret::fingerprint;
use crate::{ClientId, Issuer, Request, Resource, Scopes};

/// For how long an answer is used: a good one no longer than its token, in seconds.
const GOOD_SECONDS: u64 = 60;
const BAD_SECONDS: u64 = 5;
/// How many good answers are remembered: the limit `max_introspections`; and how many bad ones, which push out none of the
/// good: the limit `max_bad_introspections`. At the cap the oldest goes.
const MAX_GOOD: usize = 16 * 1024;
const MAX_BAD: usize = 4 * 1024;
/// How many questions are under way at once: the limit `max_introspections_at_once`. The rest wait for their turn for
/// [`TURN_TIMEOUT`] at most.
const MAX_AT_ONCE: usize = 32;
const TURN_TIMEOUT: Duration = Duration::from_secs(10);

/// Asks the issuer about each token.
pub struct Introspection {
    issuer: Issuer,
    audiences: Vec<Resource>,
    endpoint: Url,
    credentials: SecretString,
    fetch: Arc<dyn Fetch>,
    client_for_subject: bool,
    answers: Mutex<Answers>,
    under_way: Merged<Hash, Result<Principal, Flaw>>,
    turns: Semaphore,
}

type Hash = [u8; 32];

/// What was said of each token, by its hash, and until when that is used.
struct Answers {
    good: Bounded<Hash, (Principal, u64)>,
    bad: Bounded<Hash, u64>,
}

impl Answers {
    fn known(&self, key: &Hash, now: u64) -> Option<Result<Principal, Flaw>> {
        match (self.good.get(key), self.bad.get(key)) {
            (Some((principal, until)), _) if *until > now => Some(Ok(principal.clone())),
            (_, Some(until)) if *until > now => Some(Err(Flaw::Invalid)),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct Said {
    active: bool,
    iss: Option<Issuer>,
    sub: Option<String>,
    aud: Option<Audience>,
    client_id: Option<ClientId>,
    scope: Option<Scopes>,
    exp: Option<u64>,
    jti: Option<String>,
    cnf: Option<Value>,
}

impl Introspection {
    /// Asks at `endpoint`, as `client` with its secret, about tokens that `issuer` has made out for one of `audiences`.
    pub fn new(
        issuer: Issuer,
        audiences: Vec<Resource>,
        endpoint: Url,
        (client, secret): (&ClientId, &str),
        fetch: impl Fetch,
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
            answers: Mutex::new(Answers { good: Bounded::new(MAX_GOOD), bad: Bounded::new(MAX_BAD) }),
            under_way: Merged::default(),
            turns: Semaphore::new(MAX_AT_ONCE),
        }
    }

    /// Takes a token of which the issuer does not say whose it is (no `sub`) for its client's own. Off unless told: all
    /// users of a client would be one.
    #[must_use]
    pub fn client_for_subject(mut self) -> Self {
        self.client_for_subject = true;
        self
    }

    async fn check(&self, token: &str, now: u64) -> Result<Principal, Flaw> {
        let mut key = [0; 32];
        key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        if let Some(known) = self.known(&key, now) {
            return known;
        }
        self.under_way.ask(key, || self.ask(token, key, now)).await
    }

    fn known(&self, key: &Hash, now: u64) -> Option<Result<Principal, Flaw>> {
        self.answers().known(key, now)
    }

    async fn ask(&self, token: &str, key: Hash, now: u64) -> Result<Principal, Flaw> {
        // Since it was last looked for, an answer may have come.
        if let Some(known) = self.known(&key, now) {
            return known;
        }
        let Ok(Ok(_turn)) = tokio::time::timeout(TURN_TIMEOUT, self.turns.acquire()).await else {
            tracing::warn!(issuer = %self.issuer, limit = "max_introspections_at_once", "an issuer is slow to say whose tokens are");
            return Err(Flaw::Unavailable);
        };
        let Ok(mut credentials) = HeaderValue::try_from(self.credentials.expose_secret()) else {
            return Err(Flaw::Unavailable);
        };
        credentials.set_sensitive(true);
        let request =
            Request::form(self.endpoint.clone(), [("token", token)]).header(AUTHORIZATION, credentials);
        let said = match self.fetch.fetch(request).await {
            Ok(response) if response.status == http::StatusCode::OK => response.decode::<Said>(),
            Ok(response) => {
                tracing::warn!(issuer = %self.issuer, status = %response.status, "an issuer did not say whose a token is");
                return Err(Flaw::Unavailable);
            }
            Err(error) => {
                tracing::warn!(issuer = %self.issuer, %error, "an issuer was not reached");
                return Err(Flaw::Unavailable);
            }
        };
        let found = self.principal(token, said.map_err(|_| Flaw::Unavailable)?, now);
        let mut answers = self.answers();
        let Some(principal) = found else {
            answers.bad.put(key, now + BAD_SECONDS);
            return Err(Flaw::Invalid);
        };
        let until = principal.expires_at.unwrap_or(u64::MAX).min(now + GOOD_SECONDS);
        answers.good.put(key, (principal.clone(), until));
        Ok(principal)
    }

    fn principal(&self, token: &str, said: Said, now: u64) -> Option<Principal> {
        let ours = said.aud.is_some_and(|said| self.audiences.iter().any(|one| said.names(one.as_str())));
        let issued = said.iss.is_none_or(|issuer| issuer == self.issuer);
        let lasts = said.exp.is_none_or(|exp| exp > now);
        if !said.active || !ours || !issued || !lasts {
            return None;
        }
        let client = said.client_id.as_ref().filter(|_| self.client_for_subject);
        let Some(subject) = said.sub.or_else(|| client.map(ToString::to_string)) else {
            tracing::warn!(issuer = %self.issuer, "an issuer calls a token good and does not say whose it is (`sub`)");
            return None;
        };
        // What is bound in another way is not taken.
        let Ok(bound) = said.cnf.map(serde_json::from_value::<Bound>).transpose() else {
            tracing::warn!(issuer = %self.issuer, "a token is bound in a way that is not understood (`cnf`)");
            return None;
        };
        let mut principal = Principal::new(self.issuer.clone(), subject);
        principal.is_client =
            said.client_id.as_ref().is_some_and(|client| client.as_str() == principal.subject);
        principal.client_id = said.client_id;
        principal.scopes = said.scope.unwrap_or_default();
        principal.proof_key = bound.map(|bound| bound.jkt);
        principal.token_id = said.jti.unwrap_or_else(|| fingerprint(token));
        // What lives on the token lasts until it is asked about again.
        principal.expires_at = Some(said.exp.unwrap_or(now + GOOD_SECONDS));
        Some(principal)
    }

    fn answers(&self) -> std::sync::MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Verify for Introspection {
    fn verify<'a>(&'a self, token: &'a str, now: u64) -> VerifyFuture<'a> {
        Box::pin(self.check(token, now))
    }
}

impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}
