//! Requests to a token endpoint and their responses.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hospes_auth::dpop::{DPOP, DPOP_NONCE};
use hospes_auth::{
    ErrorBody, ErrorCode, FetchRequest, FetchResponse, Issuer, Resource, Scopes, Seed, shown, without_query,
};
use http::HeaderValue;
use http::header::AUTHORIZATION;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::Value;
use url::{Url, form_urlencoded};
use zeroize::Zeroizing;

use super::credentials::{ClientAuth, ClientIdentity};
use super::error::FlowError;
use super::proof_key::ProofKey;
use super::tokens::{AccessTokenType, TokenSet};

pub(super) const TOKEN_ENDPOINT_NAME: &str = "the token endpoint";
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Parameters of a token request.
#[derive(Clone, Debug)]
pub(crate) struct TokenRequest {
    pub(crate) issuer: Issuer,
    pub(crate) resource: Resource,
    pub(crate) client: ClientIdentity,
    pub(crate) token_endpoint: Url,
    pub(crate) scopes: Scopes,
    /// Audience of assertions.
    pub(crate) audience: String,
    /// The key the token is to be bound to.
    pub(crate) proof_key: Option<Arc<ProofKey>>,
}

impl TokenRequest {
    /// Creates the parameters for renewing `tokens`.
    pub(crate) fn renewal(tokens: &TokenSet, audience: Option<&str>) -> Self {
        Self {
            issuer: tokens.issuer.clone(),
            resource: tokens.resource.clone(),
            client: tokens.client.clone(),
            token_endpoint: tokens.token_endpoint.clone(),
            scopes: tokens.requested.clone(),
            audience: audience.unwrap_or_else(|| tokens.issuer.as_str()).to_owned(),
            proof_key: tokens.proof_key.clone(),
        }
    }

    /// Creates the request for `grant` with these additional fields.
    pub(crate) fn request(
        &self,
        grant: &str,
        fields: &[(&str, &str)],
        nonce: Option<&str>,
        seed: &mut Seed,
        now: u64,
    ) -> Result<FetchRequest, FlowError> {
        let url = &self.token_endpoint;
        let form = TokenRequestForm::new(grant, fields).with("resource", self.resource.as_str());
        let request = form.send(url, &self.client, &self.issuer, &self.audience, seed, now)?;
        let Some(key) = &self.proof_key else { return Ok(request) };
        let proof = key.prove(&request.method, url, None, nonce, seed.draw_text(), now)?;
        Ok(request.header(DPOP, proof))
    }

    /// Returns the field with the requested scopes, or nothing if there are none.
    pub(crate) fn scope_fields(&self) -> Vec<(&'static str, SecretString)> {
        let scopes = &self.scopes;
        if scopes.is_empty() { Vec::new() } else { vec![("scope", scopes.to_string().into())] }
    }

    /// Reads the tokens from a response. Missing members keep the requested or earlier values.
    pub(crate) fn read(
        &self,
        response: &FetchResponse,
        before: Option<&TokenSet>,
        now: u64,
    ) -> Result<TokenSet, FlowError> {
        let granted: TokenResponse = read_success(TOKEN_ENDPOINT_NAME, response, &self.token_endpoint)?;
        // Token types are compared without case (RFC 6749, section 5.1), and servers do write `bearer`.
        let kind = match granted.token_type.to_ascii_lowercase().as_str() {
            // Also where a proof was sent: a server may answer it with a token that is bound to no key (RFC
            // 9449, section 5).
            "bearer" => AccessTokenType::Bearer,
            "dpop" if self.proof_key.is_some() => AccessTokenType::Dpop,
            _ => return Err(FlowError::TokenType(shown(&granted.token_type))),
        };
        let seconds = match &granted.expires_in {
            Some(Value::Number(number)) => number.as_u64(),
            // Some servers write numbers as texts.
            Some(Value::String(text)) => text.parse().ok(),
            _ => None,
        };
        let held = before.map_or(&self.scopes, |tokens| &tokens.granted);
        Ok(TokenSet {
            issuer: self.issuer.clone(),
            resource: self.resource.clone(),
            client: self.client.clone(),
            token_endpoint: self.token_endpoint.clone(),
            access: granted.access_token,
            // A renewal without a new refresh token leaves the old one in use (RFC 6749, section 6).
            refresh: granted.refresh_token.or_else(|| before.and_then(|tokens| tokens.refresh.clone())),
            kind,
            granted: granted.scope.unwrap_or_else(|| held.clone()),
            requested: self.scopes.clone(),
            issued_at: now,
            expires_at: seconds.map(|seconds| now.saturating_add(seconds)),
            proof_key: self.proof_key.clone().filter(|_| kind == AccessTokenType::Dpop),
            // Whoever keeps what is new draws one.
            mark: before.map(|tokens| tokens.mark.clone()).unwrap_or_default(),
        })
    }
}

/// The fields of a request to a token endpoint.
pub(super) struct TokenRequestForm(Vec<(String, Zeroizing<String>)>);

impl TokenRequestForm {
    pub(super) fn new(grant: &str, fields: &[(&str, &str)]) -> Self {
        Self(Vec::new()).with("grant_type", grant).with_all(fields)
    }

    /// Without a grant.
    pub(super) fn of(fields: &[(&str, &str)]) -> Self {
        Self(Vec::new()).with_all(fields)
    }

    fn with_all(self, fields: &[(&str, &str)]) -> Self {
        fields.iter().fold(self, |form, (name, value)| form.with(name, value))
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.push((name.to_owned(), Zeroizing::new(value.to_owned())));
        self
    }

    /// Creates the request with the authentication of `client`.
    pub(super) fn send(
        self,
        url: &Url,
        client: &ClientIdentity,
        issuer: &Issuer,
        audience: &str,
        seed: &mut Seed,
        now: u64,
    ) -> Result<FetchRequest, FlowError> {
        let id = client.id.as_str();
        let mut basic = None;
        let form = match &client.auth {
            ClientAuth::None => self.with("client_id", id),
            ClientAuth::Basic(secret) => {
                basic = Some(basic_credentials(id, secret, issuer)?);
                self
            }
            ClientAuth::Post(secret) => {
                self.with("client_id", id).with("client_secret", secret.expose_secret())
            }
            ClientAuth::Key(key) => {
                let assertion = key.assertion(&client.id, audience, seed, now);
                let assertion = assertion.map_err(|_| FlowError::Crypto("a signature"))?;
                self.with("client_assertion_type", ASSERTION_TYPE)
                    .with("client_assertion", assertion.expose_secret())
            }
        };
        let fields = form.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let request = FetchRequest::form(url.clone(), fields);
        Ok(match basic {
            Some(value) => request.header(AUTHORIZATION, value),
            None => request,
        })
    }
}

/// Returns id and secret, each form-encoded before they are joined (RFC 6749, section 2.3.1).
fn basic_credentials(id: &str, secret: &SecretString, issuer: &Issuer) -> Result<HeaderValue, FlowError> {
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = Zeroizing::new(format!("{}:{}", encode(id), encode(secret.expose_secret())));
    let value = format!("Basic {}", STANDARD.encode(pair.as_bytes()));
    let value = HeaderValue::from_str(&value);
    let mut value = value.map_err(|_| FlowError::ClientAuth {
        issuer: issuer.clone(),
        why: "the client credentials are not valid in an HTTP header".into(),
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the nonce that the next proof must carry, if its absence is the error (RFC 9449, section 8).
pub(super) fn nonce_wanted(response: &FetchResponse) -> Option<String> {
    let nonce = response.headers.get(DPOP_NONCE)?.to_str().ok()?;
    let body: ErrorBody = response.decode().ok()?;
    (body.error == ErrorCode::UseDpopNonce).then(|| nonce.to_owned())
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: SecretString,
    token_type: String,
    #[serde(default)]
    expires_in: Option<Value>,
    #[serde(default)]
    refresh_token: Option<SecretString>,
    #[serde(default)]
    scope: Option<Scopes>,
}

/// Returns the document of a successful response, else its error.
pub(super) fn read_success<T: serde::de::DeserializeOwned>(
    what: &'static str,
    response: &FetchResponse,
    url: &Url,
) -> Result<T, FlowError> {
    let shown_url = || without_query(url);
    if response.status == http::StatusCode::OK {
        return response.decode().map_err(|error| FlowError::Malformed {
            what,
            url: shown_url(),
            why: error.to_string(),
        });
    }
    match response.decode::<ErrorBody>() {
        // A refusal in a server error says nothing about the grant: the same request may succeed later.
        Ok(body) if response.status.is_client_error() => Err(FlowError::Refused(body)),
        _ => Err(FlowError::Status { what, url: shown_url(), status: response.status }),
    }
}
