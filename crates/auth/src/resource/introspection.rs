//! Tokens that say nothing: their issuer is asked (RFC 7662).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use url::Url;
use url::form_urlencoded::byte_serialize;

use super::{Flaw, Principal, Verify, VerifyFuture};
use crate::fetch::Fetch;
use crate::secret::fingerprint;
use crate::{ClientId, Issuer, Request, Resource, Scopes};

/// For how long an answer is used: a good one no longer than its token, in seconds.
const GOOD_SECONDS: u64 = 60;
const BAD_SECONDS: u64 = 5;
/// How many answers are remembered: the limit `max_introspections`. At the cap all are asked for anew.
const MAX_ANSWERS: usize = 16 * 1024;

/// Asks the issuer about each token.
pub struct Introspection {
    issuer: Issuer,
    audiences: Vec<Resource>,
    endpoint: Url,
    credentials: SecretString,
    fetch: Arc<dyn Fetch>,
    answers: Mutex<Answers>,
}

/// What was said of each token, by its hash, and until when that is used.
type Answers = HashMap<[u8; 32], (Option<Principal>, u64)>;

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
    cnf: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn names(&self, resource: &Resource) -> bool {
        match self {
            Self::One(one) => one == resource.as_str(),
            Self::Many(many) => many.iter().any(|one| one == resource.as_str()),
        }
    }
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
            answers: Mutex::default(),
        }
    }

    async fn check(&self, token: &str, now: u64) -> Result<Principal, Flaw> {
        let mut key = [0; 32];
        key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        if let Some((known, until)) = self.answers().get(&key)
            && *until > now
        {
            return known.clone().ok_or(Flaw::Invalid);
        }
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
        let until = match &found {
            Some(principal) => principal.expires_at.unwrap_or(u64::MAX).min(now + GOOD_SECONDS),
            None => now + BAD_SECONDS,
        };
        let mut answers = self.answers();
        if answers.len() >= MAX_ANSWERS {
            answers.clear();
        }
        answers.insert(key, (found.clone(), until));
        found.ok_or(Flaw::Invalid)
    }

    fn principal(&self, token: &str, said: Said, now: u64) -> Option<Principal> {
        let ours = said.aud.is_some_and(|said| self.audiences.iter().any(|one| said.names(one)));
        let issued = said.iss.is_none_or(|issuer| issuer == self.issuer);
        let lasts = said.exp.is_none_or(|exp| exp > now);
        if !said.active || !ours || !issued || !lasts || said.cnf.is_some() {
            return None;
        }
        let subject = said.sub.or_else(|| said.client_id.as_ref().map(ToString::to_string))?;
        let mut principal = Principal::new(self.issuer.clone(), subject);
        principal.client_id = said.client_id;
        principal.scopes = said.scope.unwrap_or_default();
        principal.token_id = said.jti.unwrap_or_else(|| fingerprint(token));
        principal.expires_at = said.exp;
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
