//! Users who sign in at somebody else's: this server is authorization server to its clients, and a client of the other.
//!
//! What the other gives us it gives to nobody else: its tokens are kept sealed, under a key that is not in the store, and
//! what our clients get is good only as long as they are.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::header::{AUTHORIZATION, COOKIE, SET_COOKIE};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::authorize::{Asked, answer};
use super::consent::redirect;
use super::form::Form;
use super::store::{Kind, Record, StoreError, Taken};
use super::tokens::encode;
use super::{AuthServer, hash, random_text};
use crate::metadata::{AuthorizationServer, server_metadata_urls};
use crate::pkce::Verifier;
use crate::resource::Flaw;
use crate::{
    ClientId, ErrorBody, ErrorCode, Issuer, MAX_METADATA_BYTES, MAX_TOKEN_BYTES, Request, Scopes, Seed,
};

/// How often the other is asked whether its token still holds, in seconds.
const CHECK_SECONDS: u64 = 60;
/// How long one node may take to renew a token before another tries, in seconds.
const LEASE_SECONDS: u64 = 30;
/// How often a node looks whether another has renewed a token, and how often at most.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: u32 = 100;
/// How long a token lasts whose lifetime the other does not say, in seconds.
const UNKNOWN_LIFETIME: u64 = 3600;

/// Somebody else's authorization server, at which users sign in.
pub struct Provider {
    issuer: Issuer,
    client: ClientId,
    secret: Option<SecretString>,
    scopes: Scopes,
    seal: RandomizedNonceKey,
    sign: hmac::Key,
    found: Mutex<Option<Arc<Found>>>,
}

/// What the provider says of itself.
#[derive(Deserialize)]
struct Found {
    #[serde(flatten)]
    server: AuthorizationServer,
    userinfo_endpoint: Option<String>,
}

/// Why a provider cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key cannot seal anything")]
#[non_exhaustive]
pub struct UnusableKey;

impl Provider {
    /// The provider that calls itself `issuer` and knows us as `client`. Its tokens are sealed under `key`, which must
    /// be the same at every node and after every start, and must not be where the store is.
    ///
    /// # Errors
    /// When the key cannot be used.
    pub fn new(issuer: Issuer, client: ClientId, key: &[u8; 32]) -> Result<Self, UnusableKey> {
        let mut seed = Seed::new(key);
        let seal = RandomizedNonceKey::new(&AES_256_GCM, &seed.draw()).map_err(|_| UnusableKey)?;
        let sign = hmac::Key::new(hmac::HMAC_SHA256, &seed.draw());
        let scopes = Scopes::parse("openid");
        Ok(Self { issuer, client, secret: None, scopes, seal, sign, found: Mutex::default() })
    }

    /// With the secret that it gave us.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = Some(secret.into().into());
        self
    }

    /// Asks for these scopes there; `openid` unless told. Never for what one of our clients asks.
    #[must_use]
    pub fn scopes(mut self, scopes: Scopes) -> Self {
        self.scopes = scopes;
        self
    }

    /// What it is called on the consent page.
    pub(super) fn name(&self) -> String {
        let url = self.issuer.url();
        url.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_else(|| self.issuer.to_string())
    }

    fn seal(&self, grant: &str, text: &str) -> Option<String> {
        let mut sealed = text.as_bytes().to_vec();
        let nonce = self.seal.seal_in_place_append_tag(Aad::from(grant), &mut sealed).ok()?;
        let mut all = nonce.as_ref().to_vec();
        all.append(&mut sealed);
        Some(URL_SAFE_NO_PAD.encode(all))
    }

    fn open(&self, grant: &str, sealed: &str) -> Option<SecretString> {
        let all = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, rest) = all.split_at_checked(12)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut rest = rest.to_vec();
        let plain = self.seal.open_in_place(nonce, Aad::from(grant), &mut rest).ok()?;
        Some(std::str::from_utf8(plain).ok()?.to_owned().into())
    }

    /// What the browser has to bring back with the answer: signed, and good for this state and this client alone.
    fn mark(&self, state: &str, client: &ClientId) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.sign, encode(&(state, client)).as_bytes()))
    }

    /// A request to one of its endpoints, as ourselves.
    fn form(&self, url: Url, fields: &[(&str, &str)]) -> Request {
        let mut all = fields.to_vec();
        if self.secret.is_none() {
            all.push(("client_id", self.client.as_str()));
        }
        let mut request = Request::form(url, all);
        if let Some(secret) = &self.secret {
            let part = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
            let pair = format!("{}:{}", part(self.client.as_str()), part(secret.expose_secret()));
            if let Ok(mut value) = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair))) {
                value.set_sensitive(true);
                request = request.header(AUTHORIZATION, value);
            }
        }
        request.max_bytes = MAX_TOKEN_BYTES;
        request
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// A user on the way to the provider and back.
#[derive(Serialize, Deserialize)]
struct Away {
    asked: Asked,
    /// Sealed.
    verifier: String,
    nonce: String,
}

/// What the provider gave us for one grant.
#[derive(Clone, Serialize, Deserialize)]
struct Upstream {
    subject: String,
    /// Sealed, both.
    access: String,
    refresh: Option<String>,
    expires_at: u64,
    checked_at: u64,
}

#[derive(Deserialize)]
struct Tokens {
    access_token: SecretString,
    refresh_token: Option<SecretString>,
    expires_in: Option<u64>,
    id_token: Option<SecretString>,
}

#[derive(Deserialize)]
struct Identity {
    sub: String,
    iss: Option<Issuer>,
    aud: Option<serde_json::Value>,
    exp: Option<u64>,
    nonce: Option<String>,
}

/// Why nothing came of it. What exactly is for the log alone.
enum Failed {
    /// It said no: for good.
    Refused(&'static str),
    /// It cannot be asked now.
    Unreachable(String),
    Store(StoreError),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl AuthServer {
    /// Has users sign in at `provider`. What [`SignIn`](super::SignIn) says does not count then.
    #[must_use]
    pub fn delegating(self, provider: Provider) -> Self {
        self.with(|inner| inner.provider = Some(provider))
    }

    pub(super) fn provider(&self) -> Option<&Provider> {
        self.0.provider.as_ref()
    }

    fn callback(&self) -> String {
        format!("{}/upstream/callback", self.settings().issuer.as_str().trim_end_matches('/'))
    }

    /// The user has agreed, and not before: sends the browser to the provider.
    pub(super) async fn send_away(
        &self,
        provider: &Provider,
        asked: Asked,
    ) -> Result<Response<Bytes>, StoreError> {
        let failed = || {
            let fields = [("error", ErrorCode::ServerError.as_str())];
            redirect(&answer(&asked.redirect_uri, self.settings(), asked.state.as_deref(), &fields))
        };
        let found = match self.find(provider).await {
            Ok(found) => found,
            Err(why) => {
                tracing::warn!(provider = %provider.issuer, why, "the provider was not found");
                return Ok(failed());
            }
        };
        let (state, nonce) = (random_text(), random_text());
        let verifier =
            Verifier::new(&Seed::from_system().map_err(|_| StoreError("no randomness".into()))?.draw());
        let (Ok(to), Some(sealed)) =
            (found.server.authorization_url(), provider.seal(&state, verifier.expose()))
        else {
            return Ok(failed());
        };
        let mark = provider.mark(&state, &asked.client.id);
        let until = self.now() + self.settings().lifetimes.pending.as_secs();
        let away = Away { asked, verifier: sealed, nonce: nonce.clone() };
        self.store().put(Record::new(Kind::Pending, away_key(&state), encode(&away), until)).await?;
        let mut query = Serializer::new(String::new());
        query.extend_pairs([
            ("response_type", "code"),
            ("client_id", provider.client.as_str()),
            ("redirect_uri", &self.callback()),
            ("state", &state),
            ("nonce", &nonce),
            ("code_challenge", &verifier.challenge()),
            ("code_challenge_method", "S256"),
            ("scope", &provider.scopes.to_string()),
        ]);
        let sign = if to.query().is_some() { '&' } else { '?' };
        let mut response = redirect(&format!("{to}{sign}{}", query.finish()));
        let secure = if self.is_https() { "; Secure" } else { "" };
        let seconds = self.settings().lifetimes.pending.as_secs();
        let cookie = format!(
            "{}={mark}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}",
            self.away_cookie()
        );
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        Ok(response)
    }

    fn away_cookie(&self) -> &'static str {
        if self.is_https() { "__Host-hospes_up" } else { "hospes-up" }
    }

    /// The browser comes back from the provider.
    pub(super) async fn come_back(&self, parts: &Parts, form: &Form) -> Result<Response<Bytes>, StoreError> {
        let strange =
            || self.problem("This page is no longer good", "Go back to the application and begin again.");
        let (Some(provider), None, Some(state)) = (self.provider(), form.repeated(), form.get("state"))
        else {
            return Ok(strange());
        };
        let key = away_key(state);
        let Some(record) = self.store().get(Kind::Pending, &key, self.now()).await? else {
            return Ok(strange());
        };
        let Ok(away) = serde_json::from_str::<Away>(&record.value) else { return Ok(strange()) };
        // Only in the browser in which the user has agreed.
        let mark = provider.mark(state, &away.asked.client.id);
        let shown = format!("{}={mark}", self.away_cookie());
        let cookies = parts.headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let brought = cookies
            .flat_map(|line| line.split(';'))
            .any(|pair| bool::from(pair.trim().as_bytes().ct_eq(shown.as_bytes())));
        if !brought {
            tracing::warn!("an answer of the provider came without its cookie");
            return Ok(strange());
        }
        let Taken::First(_) = self.store().take(Kind::Pending, &key, self.now()).await? else {
            return Ok(strange());
        };
        let back = |fields: &[(&str, &str)]| {
            let asked = &away.asked;
            redirect(&answer(&asked.redirect_uri, self.settings(), asked.state.as_deref(), fields))
        };
        match self.sign_in_there(provider, form, state, &away).await {
            Ok((subject, grant, end)) => self.give_code_of(&subject, &away.asked, grant, Some(end)).await,
            Err(Failed::Refused("access_denied")) => Ok(back(&[("error", "access_denied")])),
            Err(Failed::Store(error)) => Err(error),
            Err(Failed::Refused(why)) => {
                tracing::warn!(provider = %provider.issuer, why, "nobody signed in at the provider");
                Ok(back(&[("error", "server_error")]))
            }
            Err(Failed::Unreachable(why)) => {
                tracing::warn!(provider = %provider.issuer, why, "the provider did not answer");
                Ok(back(&[("error", "server_error")]))
            }
        }
    }

    /// Who has signed in there, the grant that rests on it, and when that ends.
    async fn sign_in_there(
        &self,
        provider: &Provider,
        form: &Form,
        state: &str,
        away: &Away,
    ) -> Result<(String, String, u64), Failed> {
        let found = self.find(provider).await.map_err(Failed::Unreachable)?;
        let demanded = found.server.authorization_response_iss_parameter_supported == Some(true);
        match form.get("iss") {
            Some(iss) if iss != provider.issuer.as_str() => {
                return Err(Failed::Refused("its iss is another's"));
            }
            None if demanded => return Err(Failed::Refused("its iss is missing")),
            _ => {}
        }
        match (form.get("error"), form.get("code")) {
            (Some("access_denied"), _) => Err(Failed::Refused("access_denied")),
            (None, Some(code)) => {
                let verifier =
                    provider.open(state, &away.verifier).ok_or(Failed::Refused("the verifier is lost"))?;
                let tokens = self
                    .ask_tokens(
                        provider,
                        &found,
                        &[
                            ("grant_type", "authorization_code"),
                            ("code", code),
                            ("redirect_uri", &self.callback()),
                            ("code_verifier", verifier.expose_secret()),
                        ],
                    )
                    .await?;
                let subject = self.subject(provider, &found, &tokens, &away.nonce).await?;
                let grant = random_text();
                let forever = self.now() + self.settings().lifetimes.grant.as_secs();
                let upstream = self.upstream(provider, &grant, subject.clone(), &tokens, None)?;
                // Without a way to renew it, nothing of ours outlives it.
                let end = if upstream.refresh.is_some() { forever } else { upstream.expires_at.min(forever) };
                let record = Record::new(Kind::Upstream, &grant, encode(&upstream), forever).of(&grant);
                self.store().put(record).await?;
                Ok((format!("{} {subject}", provider.issuer), grant, end))
            }
            _ => Err(Failed::Refused("it answered with an error")),
        }
    }

    fn upstream(
        &self,
        provider: &Provider,
        grant: &str,
        subject: String,
        tokens: &Tokens,
        before: Option<&Upstream>,
    ) -> Result<Upstream, Failed> {
        let seal = |secret: &SecretString| {
            provider.seal(grant, secret.expose_secret()).ok_or(Failed::Refused("nothing can be sealed"))
        };
        let now = self.now();
        Ok(Upstream {
            subject,
            access: seal(&tokens.access_token)?,
            refresh: match &tokens.refresh_token {
                Some(refresh) => Some(seal(refresh)?),
                None => before.and_then(|before| before.refresh.clone()),
            },
            expires_at: now + tokens.expires_in.unwrap_or(UNKNOWN_LIFETIME),
            checked_at: now,
        })
    }

    async fn ask_tokens(
        &self,
        provider: &Provider,
        found: &Found,
        fields: &[(&str, &str)],
    ) -> Result<Tokens, Failed> {
        let url = found.server.token_url().map_err(|error| Failed::Unreachable(error.to_string()))?;
        let response = self.fetched(provider.form(url, fields)).await.map_err(Failed::Unreachable)?;
        match response.status {
            StatusCode::OK => response.decode().map_err(|error| Failed::Unreachable(error.to_string())),
            status if status.is_client_error() => match response.decode::<ErrorBody>() {
                Ok(body) if body.error == ErrorCode::InvalidGrant => Err(Failed::Refused("invalid_grant")),
                _ => Err(Failed::Unreachable(format!("it answered {status}"))),
            },
            status => Err(Failed::Unreachable(format!("it answered {status}"))),
        }
    }

    /// Who it is, by the name that the provider never gives to another.
    async fn subject(
        &self,
        provider: &Provider,
        found: &Found,
        tokens: &Tokens,
        nonce: &str,
    ) -> Result<String, Failed> {
        if let Some(token) = &tokens.id_token {
            // It comes from the provider itself, over TLS, which stands for its signature (OpenID Connect Core,
            // section 3.1.3.7).
            let body =
                token.expose_secret().split('.').nth(1).and_then(|body| URL_SAFE_NO_PAD.decode(body).ok());
            let identity: Option<Identity> = body.and_then(|body| serde_json::from_slice(&body).ok());
            let good = identity.filter(|said| {
                let ours = match &said.aud {
                    Some(serde_json::Value::String(one)) => one == provider.client.as_str(),
                    Some(serde_json::Value::Array(many)) => {
                        many.iter().any(|one| one == provider.client.as_str())
                    }
                    _ => false,
                };
                ours && said.iss.as_ref() == Some(&provider.issuer)
                    && said.nonce.as_deref() == Some(nonce)
                    && said.exp.is_some_and(|exp| exp + crate::CLOCK_SKEW > self.now())
            });
            return good.map(|said| said.sub).ok_or(Failed::Refused("its ID token is not good"));
        }
        let url = found.userinfo_endpoint.as_deref().and_then(|url| Url::parse(url).ok());
        let url = url.ok_or(Failed::Refused("it does not say who signed in"))?;
        let mut request = Request::get(url, MAX_METADATA_BYTES);
        if let Ok(mut value) =
            HeaderValue::try_from(format!("Bearer {}", tokens.access_token.expose_secret()))
        {
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let response = self.fetched(request).await.map_err(Failed::Unreachable)?;
        let identity: Identity = response.decode().map_err(|error| Failed::Unreachable(error.to_string()))?;
        Ok(identity.sub)
    }

    /// Whether what a grant rests on still holds: what has run out is renewed, once for all nodes.
    pub(super) async fn check_upstream(&self, grant: &str) -> Result<(), Flaw> {
        let Some(provider) = self.provider() else { return Err(Flaw::Invalid) };
        match self.check_at(provider, grant).await {
            Ok(()) => Ok(()),
            Err(Failed::Refused(why)) => {
                tracing::warn!(grant = crate::fingerprint(grant), why, "what a grant rests on is gone");
                let until = self.now() + self.settings().lifetimes.grant.as_secs() + 3600;
                let _ended = self.store().revoke_grant(grant, until).await;
                Err(Flaw::Invalid)
            }
            Err(Failed::Unreachable(why)) => {
                tracing::warn!(provider = %provider.issuer, why, "the provider did not answer");
                Err(Flaw::Unavailable)
            }
            Err(Failed::Store(error)) => {
                tracing::error!(%error, "what a grant rests on could not be looked up");
                Err(Flaw::Unavailable)
            }
        }
    }

    async fn check_at(&self, provider: &Provider, grant: &str) -> Result<(), Failed> {
        let lease = format!("upstream {grant}");
        for _ in 0..LOOKS {
            let now = self.now();
            let record = self.store().get(Kind::Upstream, grant, now).await?;
            let record = record.ok_or(Failed::Refused("nothing is known of it"))?;
            let known: Upstream =
                serde_json::from_str(&record.value).map_err(|_| Failed::Refused("it cannot be read"))?;
            let expired = known.expires_at <= now;
            if !expired && known.checked_at + CHECK_SECONDS > now {
                return Ok(());
            }
            if !self.store().claim(&lease, now + LEASE_SECONDS, now).await? {
                // Somebody is at it.
                tokio::time::sleep(LOOK).await;
                continue;
            }
            let renewed = if expired {
                self.renew(provider, grant, &known).await
            } else {
                self.ask_status(provider, grant, &known).await
            };
            let done = match renewed {
                Ok(upstream) => {
                    let kept = Record { value: encode(&upstream), ..record };
                    self.store().put(kept).await.map(drop).map_err(Failed::from)
                }
                Err(error) => Err(error),
            };
            self.store().forget(Kind::Claim, &lease).await?;
            return done;
        }
        Err(Failed::Unreachable("another node takes too long to renew it".to_owned()))
    }

    async fn renew(&self, provider: &Provider, grant: &str, known: &Upstream) -> Result<Upstream, Failed> {
        let refresh = known.refresh.as_deref().and_then(|sealed| provider.open(grant, sealed));
        let refresh = refresh.ok_or(Failed::Refused("it has expired"))?;
        let found = self.find(provider).await.map_err(Failed::Unreachable)?;
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh.expose_secret())];
        let tokens = self.ask_tokens(provider, &found, &fields).await?;
        self.upstream(provider, grant, known.subject.clone(), &tokens, Some(known))
    }

    async fn ask_status(
        &self,
        provider: &Provider,
        grant: &str,
        known: &Upstream,
    ) -> Result<Upstream, Failed> {
        let found = self.find(provider).await.map_err(Failed::Unreachable)?;
        let checked = Upstream { checked_at: self.now(), ..known.clone() };
        let endpoint = found.server.introspection_endpoint.as_deref().and_then(|url| Url::parse(url).ok());
        let Some(endpoint) = endpoint else { return Ok(checked) };
        let access = provider.open(grant, &known.access).ok_or(Failed::Refused("it cannot be opened"))?;
        let request = provider.form(endpoint, &[("token", access.expose_secret())]);
        let response = self.fetched(request).await.map_err(Failed::Unreachable)?;
        let said: serde_json::Value =
            response.decode().map_err(|error| Failed::Unreachable(error.to_string()))?;
        match said["active"].as_bool() {
            Some(true) => Ok(checked),
            Some(false) => Err(Failed::Refused("it was taken back")),
            None => Err(Failed::Unreachable("it does not say".to_owned())),
        }
    }

    /// Gives back to the provider what a grant rests on, where it takes it (RFC 7009).
    pub(super) async fn give_back(&self, grant: &str) -> Result<(), StoreError> {
        let Some(provider) = self.provider() else { return Ok(()) };
        let record = self.store().get(Kind::Upstream, grant, self.now()).await?;
        let known = record.and_then(|record| serde_json::from_str::<Upstream>(&record.value).ok());
        let (Some(known), Ok(found)) = (known, self.find(provider).await) else { return Ok(()) };
        let endpoint = found.server.revocation_endpoint.as_deref().and_then(|url| Url::parse(url).ok());
        let token = provider.open(grant, known.refresh.as_deref().unwrap_or(&known.access));
        if let (Some(endpoint), Some(token)) = (endpoint, token)
            && let Err(error) =
                self.fetched(provider.form(endpoint, &[("token", token.expose_secret())])).await
        {
            tracing::warn!(provider = %provider.issuer, error, "the provider did not take a token back");
        }
        Ok(())
    }

    /// What the provider says of itself; asked once.
    async fn find(&self, provider: &Provider) -> Result<Arc<Found>, String> {
        if let Some(found) = &*provider.found.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(Arc::clone(found));
        }
        let mut problem = "it has no address".to_owned();
        for url in server_metadata_urls(&provider.issuer) {
            match self.fetched(Request::get(url, MAX_METADATA_BYTES)).await {
                Ok(response) if response.status == StatusCode::OK => {
                    let found: Found = response.decode().map_err(|error| error.to_string())?;
                    found.server.check_issuer(&provider.issuer, true).map_err(|error| error.to_string())?;
                    let found = Arc::new(found);
                    *provider.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&found));
                    return Ok(found);
                }
                Ok(response) => problem = format!("it answered {}", response.status),
                Err(error) => problem = error,
            }
        }
        Err(problem)
    }

    async fn fetched(&self, request: Request) -> Result<crate::Response, String> {
        let Some(fetch) = &self.0.fetch else { return Err("nothing can be fetched".to_owned()) };
        fetch.fetch(request).await.map_err(|error| error.to_string())
    }
}

/// What the record of a user who is away is found by.
fn away_key(state: &str) -> String {
    hash(&format!("away {state}"))
}
