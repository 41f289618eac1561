//! Requests to the provider without a browser.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hospes_auth::metadata::{AuthorizationServerMetadata, is_secure, server_metadata_urls};
use hospes_auth::{ErrorBody, ErrorCode, FetchRequest, MAX_METADATA_BYTES, MAX_TOKEN_BYTES};
use http::header::AUTHORIZATION;
use http::{HeaderValue, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;
use url::form_urlencoded::byte_serialize;

use super::admission::{EMAIL, VERIFIED};
use super::{ProviderError, SignInProvider};

/// Time for which the provider's metadata is cached, in seconds.
const METADATA_SECONDS: u64 = 3600;

/// Metadata of the provider.
#[derive(Deserialize)]
pub(crate) struct ProviderMetadata {
    #[serde(flatten)]
    pub(crate) server: AuthorizationServerMetadata,
    userinfo_endpoint: Option<String>,
    /// Until when it is believed.
    #[serde(skip)]
    until: u64,
}

#[derive(Deserialize)]
pub(crate) struct ProviderTokens {
    pub(crate) access_token: SecretString,
    pub(crate) refresh_token: Option<SecretString>,
    pub(crate) expires_in: Option<u64>,
    id_token: Option<SecretString>,
}

/// User of a provider, with the provider's claims.
pub(crate) struct ProviderUser {
    /// The name that it never gives to another.
    pub(crate) subject: String,
    pub(crate) claims: Map<String, Value>,
}

impl ProviderUser {
    /// Returns the user of these claims.
    pub(crate) fn of(claims: Map<String, Value>) -> Result<Self, ProviderError> {
        match claims.get("sub").and_then(Value::as_str) {
            Some(subject) => Ok(Self { subject: subject.to_owned(), claims }),
            None => Err(ProviderError::Refused("the provider returned no subject (`sub`)")),
        }
    }
}

impl SignInProvider {
    /// Returns the provider's metadata, from the cache or fetched anew.
    pub(crate) async fn load_metadata(&self, now: u64) -> Result<Arc<ProviderMetadata>, ProviderError> {
        // Cloned, because the lock must not be held across the discovery below.
        let known = self.found.lock().clone();
        if let Some(found) = known.as_ref().filter(|found| found.until > now) {
            return Ok(Arc::clone(found));
        }
        match (self.discover(now).await, known) {
            (Ok(found), _) => {
                *self.found.lock() = Some(Arc::clone(&found));
                Ok(found)
            }
            (Err(why), Some(known)) => {
                tracing::warn!(provider = %self.issuer, why, "cannot refresh provider metadata; using the cached copy");
                Ok(known)
            }
            (Err(why), None) => Err(ProviderError::Unreachable(why)),
        }
    }

    async fn discover(&self, now: u64) -> Result<Arc<ProviderMetadata>, String> {
        let mut problem = "no metadata URL can be derived from the issuer".to_owned();
        for url in server_metadata_urls(&self.issuer) {
            match self.fetch.fetch(FetchRequest::get(url, MAX_METADATA_BYTES)).await {
                Ok(response) if response.status == StatusCode::OK => {
                    let mut found: ProviderMetadata = response.decode().map_err(|error| error.to_string())?;
                    found.server.check_issuer(&self.issuer, true).map_err(|error| error.to_string())?;
                    found.until = now + METADATA_SECONDS;
                    return Ok(Arc::new(found));
                }
                Ok(response) => problem = format!("unexpected status {}", response.status),
                Err(error) => problem = error.to_string(),
            }
        }
        Err(problem)
    }

    /// Requests tokens.
    pub(crate) async fn request_tokens(
        &self,
        found: &ProviderMetadata,
        fields: &[(&str, &str)],
    ) -> Result<ProviderTokens, ProviderError> {
        let url = found.server.token_url().map_err(|error| ProviderError::Unreachable(error.to_string()))?;
        let response = self.send(self.form(found, url, fields)).await?;
        match response.status {
            StatusCode::OK => {
                response.decode().map_err(|error| ProviderError::Unreachable(error.to_string()))
            }
            status if status.is_client_error() => match response.decode::<ErrorBody>() {
                // Only this code ends the grant. Any other is about this host's own registration, which an
                // operator can correct.
                Ok(body) if body.error == ErrorCode::InvalidGrant => {
                    Err(ProviderError::Refused("invalid_grant"))
                }
                Ok(body) => {
                    Err(ProviderError::Unreachable(format!("unexpected status {status}, `{}`", body.error)))
                }
                Err(_) => Err(ProviderError::Unreachable(format!("unexpected status {status}"))),
            },
            status => Err(ProviderError::Unreachable(format!("unexpected status {status}"))),
        }
    }

    /// Returns the user that the tokens belong to, with all claims that the admission rules need.
    pub(crate) async fn identify_user(
        &self,
        found: &ProviderMetadata,
        tokens: &ProviderTokens,
        nonce: &str,
        now: u64,
    ) -> Result<ProviderUser, ProviderError> {
        let mut claims = self.id_token_claims(tokens, Some(nonce), now)?.unwrap_or_default();
        let is_missing = |name: &String| !claims.contains_key(name);
        let wants_more = self.admission.wants_more(&claims) || self.required_claims.iter().any(is_missing);
        if (wants_more || !claims.contains_key("sub"))
            && let Some(said) = self.fetch_userinfo(found, tokens).await?
        {
            // OpenID Connect Core, section 5.3.2: what is said of somebody else must not be used.
            if said.get("sub").is_none_or(|sub| claims.get("sub").is_some_and(|known| known != sub)) {
                return Err(ProviderError::Refused(
                    "subject mismatch between the ID token and the userinfo response",
                ));
            }
            merge_claims(&mut claims, said);
        }
        ProviderUser::of(claims)
    }

    /// Returns the claims of the ID token, if there is one. `nonce` is that of the sign-in; a renewed token need not have it.
    pub(super) fn id_token_claims(
        &self,
        tokens: &ProviderTokens,
        nonce: Option<&str>,
        now: u64,
    ) -> Result<Option<Map<String, Value>>, ProviderError> {
        let Some(token) = &tokens.id_token else { return Ok(None) };
        // It comes from the provider itself, over TLS, which stands for its signature (OpenID Connect Core, section
        // 3.1.3.7).
        let body = token.expose_secret().split('.').nth(1);
        let body = body.and_then(|body| URL_SAFE_NO_PAD.decode(body).ok());
        let claims: Option<Map<String, Value>> = body.and_then(|body| serde_json::from_slice(&body).ok());
        let claims = claims.filter(|claims| self.is_valid_id_token(claims, nonce, now));
        claims.map(Some).ok_or(ProviderError::Refused("invalid ID token"))
    }

    /// Asks for the claims of the user of an access token. `None` if the provider has no endpoint for that.
    pub(crate) async fn fetch_userinfo(
        &self,
        found: &ProviderMetadata,
        tokens: &ProviderTokens,
    ) -> Result<Option<Map<String, Value>>, ProviderError> {
        let Some(url) = found.userinfo_endpoint.as_deref().and_then(secure_url) else { return Ok(None) };
        let mut request = FetchRequest::get(url, MAX_METADATA_BYTES);
        let bearer = format!("Bearer {}", tokens.access_token.expose_secret());
        if let Ok(mut value) = HeaderValue::try_from(bearer) {
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let response = self.send(request).await?;
        response.decode().map(Some).map_err(|error| ProviderError::Unreachable(error.to_string()))
    }

    fn is_valid_id_token(&self, claims: &Map<String, Value>, nonce: Option<&str>, now: u64) -> bool {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let us = self.client.as_str();
        let ours = match claims.get("aud") {
            Some(Value::String(one)) => one == us,
            Some(Value::Array(many)) => many.iter().any(|one| one == us),
            _ => false,
        };
        ours && text("iss") == Some(self.issuer.as_str())
            && nonce.is_none_or(|nonce| text("nonce") == Some(nonce))
            && claims
                .get("exp")
                .and_then(Value::as_u64)
                .is_some_and(|exp| exp.saturating_add(hospes_auth::CLOCK_SKEW) > now)
    }

    /// Returns true if the provider still accepts the token; `None` if it does not support introspection.
    pub(crate) async fn is_active(
        &self,
        found: &ProviderMetadata,
        token: &SecretString,
    ) -> Result<Option<bool>, ProviderError> {
        let endpoint = found.server.introspection_endpoint.as_deref().and_then(secure_url);
        let Some(endpoint) = endpoint else { return Ok(None) };
        let response = self.send(self.form(found, endpoint, &[("token", token.expose_secret())])).await?;
        let status = response.status;
        // It does not let us ask, which is no fault of its users: as where there is nothing to ask.
        if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS {
            // Relaxed: the flag only keeps the warning from being repeated.
            if !self.mute.swap(true, Ordering::Relaxed) {
                tracing::warn!(provider = %self.issuer, %status, "the provider rejects token introspection");
            }
            return Ok(None);
        }
        if status != StatusCode::OK {
            return Err(ProviderError::Unreachable(format!("unexpected status {status}")));
        }
        self.mute.store(false, Ordering::Relaxed);
        let said: Value = response.decode().map_err(|error| ProviderError::Unreachable(error.to_string()))?;
        let active = said["active"].as_bool();
        active
            .map(Some)
            .ok_or_else(|| ProviderError::Unreachable("introspection response without `active`".to_owned()))
    }

    /// Gives a token back, where the provider takes it (RFC 7009).
    pub(crate) async fn revoke_token(&self, found: &ProviderMetadata, token: &SecretString) {
        let endpoint = found.server.revocation_endpoint.as_deref().and_then(secure_url);
        let Some(endpoint) = endpoint else { return };
        let request = self.form(found, endpoint, &[("token", token.expose_secret())]);
        if let Err(error) = self.fetch.fetch(request).await {
            tracing::warn!(provider = %self.issuer, %error, "token revocation at the provider failed");
        }
    }

    /// Creates an authenticated request to an endpoint of the provider.
    fn form(&self, found: &ProviderMetadata, url: Url, fields: &[(&str, &str)]) -> FetchRequest {
        let methods = found.server.token_endpoint_auth_methods_supported.as_deref().unwrap_or_default();
        let takes = |name: &str| methods.iter().any(|method| method == name);
        let mut all = fields.to_vec();
        let mut basic = None;
        match &self.secret {
            None => all.push(("client_id", self.client.as_str())),
            // The form is not a method that every server has to take; HTTP Basic is (RFC 6749, section
            // 2.3.1).
            Some(secret) if takes("client_secret_post") && !takes("client_secret_basic") => {
                all.push(("client_id", self.client.as_str()));
                all.push(("client_secret", secret.expose_secret()));
            }
            Some(secret) => basic = Some(secret),
        }
        let mut request = FetchRequest::form(url, all);
        if let Some(secret) = basic {
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

    async fn send(&self, request: FetchRequest) -> Result<hospes_auth::FetchResponse, ProviderError> {
        self.fetch.fetch(request).await.map_err(|error| ProviderError::Unreachable(error.to_string()))
    }
}

/// Merges claims from another source. An email address and its verification are taken from the same source, because
/// they might belong to different addresses otherwise.
fn merge_claims(claims: &mut Map<String, Value>, said: Map<String, Value>) {
    let address = [EMAIL, VERIFIED];
    let is_whole = address.iter().all(|name| claims.contains_key(*name));
    let is_other = !is_whole && said.contains_key(EMAIL);
    if is_other {
        claims.retain(|name, _| !address.contains(&name.as_str()));
    }
    for (name, value) in said {
        if is_other || !address.contains(&name.as_str()) {
            claims.entry(name).or_insert(value);
        }
    }
}

/// Parses the URL of an endpoint to which tokens may be sent.
fn secure_url(url: &str) -> Option<Url> {
    Url::parse(url).ok().filter(is_secure)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A user verified one address there, and entered an address of another person into the account.
    #[test]
    fn an_address_is_not_verified_by_what_is_said_of_another() {
        let both = |token: Value, said: Value| {
            let (Value::Object(mut claims), Value::Object(said)) = (token, said) else { panic!("objects") };
            merge_claims(&mut claims, said);
            Value::Object(claims)
        };
        let mine = json!({ "email": "mine@evil.example", "email_verified": true });
        assert_eq!(both(json!({ "email": "ann@example.org" }), mine.clone()), mine);
        assert_eq!(both(json!({ "email_verified": true }), json!({ "email": "a" })), json!({ "email": "a" }));
        assert_eq!(both(json!({ "email": "a" }), json!({ "email_verified": true })), json!({ "email": "a" }));
        assert_eq!(both(mine.clone(), json!({ "email": "ann@example.org" })), mine);
        assert_eq!(both(json!({ "sub": "1" }), mine.clone())["email_verified"], true);
        assert_eq!(both(json!({ "hd": "a" }), json!({ "hd": "b", "x": 1 })), json!({ "hd": "a", "x": 1 }));
    }
}
