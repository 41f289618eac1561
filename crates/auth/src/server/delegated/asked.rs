//! What the provider is asked without a browser.

use std::sync::{Arc, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::header::AUTHORIZATION;
use http::{HeaderValue, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use url::Url;
use url::form_urlencoded::byte_serialize;

use super::{Failed, Provider};
use crate::metadata::{AuthorizationServer, server_metadata_urls};
use crate::server::AuthServer;
use crate::{ErrorBody, ErrorCode, Issuer, MAX_METADATA_BYTES, MAX_TOKEN_BYTES, Request};

/// What the provider says of itself.
#[derive(Deserialize)]
pub(super) struct Found {
    #[serde(flatten)]
    pub(super) server: AuthorizationServer,
    pub(super) userinfo_endpoint: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Tokens {
    pub(super) access_token: SecretString,
    pub(super) refresh_token: Option<SecretString>,
    pub(super) expires_in: Option<u64>,
    pub(super) id_token: Option<SecretString>,
}

#[derive(Deserialize)]
struct Identity {
    sub: String,
    iss: Option<Issuer>,
    aud: Option<serde_json::Value>,
    exp: Option<u64>,
    nonce: Option<String>,
}

impl Provider {
    /// A request to one of its endpoints, as ourselves.
    pub(super) fn form(&self, url: Url, fields: &[(&str, &str)]) -> Request {
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

impl AuthServer {
    pub(super) async fn ask_tokens(
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
    pub(super) async fn subject(
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
    /// What the provider says of itself; asked once.
    pub(super) async fn find(&self, provider: &Provider) -> Result<Arc<Found>, String> {
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

    pub(super) async fn fetched(&self, request: Request) -> Result<crate::Response, String> {
        let Some(fetch) = &self.0.fetch else { return Err("nothing can be fetched".to_owned()) };
        fetch.fetch(request).await.map_err(|error| error.to_string())
    }
}
