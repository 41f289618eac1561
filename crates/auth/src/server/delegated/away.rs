//! A user on the way to the provider and back.

use bytes::Bytes;
use http::header::SET_COOKIE;
use http::request::Parts;
use http::{HeaderValue, Response};
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use url::form_urlencoded::Serializer;

use super::asked::{Found, Tokens};
use super::{Failed, Provider};
use crate::pkce::Verifier;
use crate::server::authorize::{Asked, answer};
use crate::server::browser::cookie;
use crate::server::consent::redirect;
use crate::server::form::Form;
use crate::server::settings::OFFLINE;
use crate::server::store::{Kind, Record, StoreError, Taken};
use crate::server::tokens::encode;
use crate::server::{AuthServer, hash, random_text};
use crate::{ErrorCode, Seed};

/// A user on the way to the provider and back.
#[derive(Serialize, Deserialize)]
struct Away {
    asked: Asked,
    /// Sealed.
    verifier: String,
    nonce: String,
}

impl AuthServer {
    fn callback(&self) -> String {
        format!("{}/upstream/callback", self.settings().issuer.as_str().trim_end_matches('/'))
    }

    /// The user has agreed, and not before: sends the browser to the provider.
    pub(in crate::server) async fn send_away(
        &self,
        provider: &Provider,
        asked: Asked,
    ) -> Result<Response<Bytes>, StoreError> {
        let failed = || {
            let fields = [("error", ErrorCode::ServerError.as_str())];
            redirect(&answer(&asked.redirect_uri, self.settings(), asked.state.as_deref(), &fields))
        };
        let found = match provider.find(self.now()).await {
            Ok(found) => found,
            Err(why) => {
                tracing::warn!(provider = %provider.issuer, %why, "the provider was not found");
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
        let key = away_key(&state);
        self.make_room(&key).await?;
        self.store().put(Record::new(Kind::Pending, key, encode(&away), until)).await?;
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
        query.extend_pairs(&provider.parameters);
        // OpenID Connect Core, section 11: without this providers leave the scope out of what they grant.
        let lasting = provider.scopes.iter().any(|scope| scope == OFFLINE);
        if lasting && !provider.parameters.iter().any(|(name, _)| name == "prompt") {
            query.append_pair("prompt", "consent");
        }
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
    pub(in crate::server) async fn come_back(
        &self,
        parts: &Parts,
        form: &Form,
    ) -> Result<Response<Bytes>, StoreError> {
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
        let brought = cookie(&parts.headers, self.away_cookie());
        if !brought.is_some_and(|shown| bool::from(shown.as_bytes().ct_eq(mark.as_bytes()))) {
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
            Err(Failed::Store(error)) => Err(error),
            Err(Failed::Denied) => Ok(back(&[("error", "access_denied")])),
            Err(why @ Failed::NotAdmitted) => {
                let words = format!("this account of {} may not use this server", provider.name());
                tracing::warn!(provider = %provider.issuer, %why, "somebody was turned away");
                Ok(back(&[("error", "access_denied"), ("error_description", &words)]))
            }
            Err(why) => {
                tracing::warn!(provider = %provider.issuer, %why, "nobody signed in at the provider");
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
        let found = provider.find(self.now()).await?;
        let demanded = found.server.authorization_response_iss_parameter_supported == Some(true);
        match form.get("iss") {
            Some(iss) if iss != provider.issuer.as_str() => {
                return Err(Failed::Refused("its iss is another's"));
            }
            None if demanded => return Err(Failed::Refused("its iss is missing")),
            _ => {}
        }
        match (form.get("error"), form.get("code")) {
            (Some("access_denied"), _) => Err(Failed::Denied),
            (None, Some(code)) => {
                let verifier =
                    provider.open(state, &away.verifier).ok_or(Failed::Refused("the verifier is lost"))?;
                let fields = [
                    ("grant_type", "authorization_code"),
                    ("code", code),
                    ("redirect_uri", &self.callback()),
                    ("code_verifier", verifier.expose_secret()),
                ];
                let tokens = provider.ask_tokens(&found, &fields).await?;
                let kept = self.keep_theirs(provider, &found, &tokens, away).await;
                if kept.is_err() {
                    // Nobody will use them.
                    let token = tokens.refresh_token.as_ref().unwrap_or(&tokens.access_token);
                    provider.take_back(&found, token).await;
                }
                kept
            }
            _ => Err(Failed::Refused("it answered with an error")),
        }
    }

    /// Finds out whose tokens these are, and makes a grant that rests on them.
    async fn keep_theirs(
        &self,
        provider: &Provider,
        found: &Found,
        tokens: &Tokens,
        away: &Away,
    ) -> Result<(String, String, u64), Failed> {
        let person = provider.person(found, tokens, &away.nonce, self.now()).await?;
        if !provider.admission.admits(&person.claims) {
            return Err(Failed::NotAdmitted);
        }
        let subject = person.subject;
        let grant = random_text();
        let forever = self.now() + self.settings().lifetimes.grant.as_secs();
        let upstream = self.upstream(provider, &grant, subject.clone(), tokens, None)?;
        // Without a way to renew it, nothing of ours outlives it.
        let end = if upstream.refresh.is_some() { forever } else { upstream.expires_at.min(forever) };
        let record = Record::new(Kind::Upstream, &grant, encode(&upstream), forever).of(&grant);
        self.store().put(record).await?;
        Ok((format!("{} {subject}", provider.issuer), grant, end))
    }
}

/// What the record of a user who is away is found by.
fn away_key(state: &str) -> String {
    hash(&format!("away {state}"))
}
