//! Clients and their authentication.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hospes_auth::dpop::PRIVATE_JWK_MEMBERS;
use hospes_auth::jwt::MAX_TOKEN_LENGTH;
use hospes_auth::{ClientId, RedirectUri, Resource, Scopes};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jsonwebtoken::jwk::JwkSet;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use url::Url;

use super::form::RequestForm;
use super::store::secrets::hash;

/// Maximum number of keys of a client: the limit `max_client_key_set`.
const MAX_KEYS: usize = 16;

/// Type of client assertion that is accepted.
const CLIENT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Origin of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ClientOrigin {
    /// Configured by the operator.
    Configured,
    /// By the document that its id is the URL of.
    Document,
    /// Registered dynamically.
    Registered,
}

/// Client authentication method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClientAuthMethod {
    /// No authentication, because the client cannot keep a secret.
    None,
    /// With its secret, in the `Authorization` header.
    ClientSecretBasic,
    /// With its secret, in the form.
    ClientSecretPost,
    /// A signed assertion (RFC 7523).
    PrivateKeyJwt,
}

impl ClientAuthMethod {
    /// All of them, by their names.
    pub const NAMES: [&str; 4] = ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"];

    /// Returns the method with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "client_secret_basic" => Some(Self::ClientSecretBasic),
            "client_secret_post" => Some(Self::ClientSecretPost),
            "private_key_jwt" => Some(Self::PrivateKeyJwt),
            _ => None,
        }
    }

    /// Returns the name of the method.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }
}

/// Grant types that clients may use at the token endpoint.
pub(super) const AUTHORIZATION_CODE_GRANT: &str = "authorization_code";
pub(super) const REFRESH_TOKEN_GRANT: &str = "refresh_token";
pub(super) const CLIENT_CREDENTIALS_GRANT: &str = "client_credentials";
pub(super) const JWT_BEARER_GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// Public keys of a client that authenticates by signature, or their location.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ClientKeys {
    /// These keys.
    Set(JwkSet),
    /// The keys published at this URL.
    At(String),
}

/// Reason a client's keys are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
#[expect(clippy::exhaustive_structs, reason = "there is nothing else to say")]
pub struct InvalidClientKeys(pub &'static str);

impl ClientKeys {
    /// Reads a JSON Web Key Set (RFC 7517) with 1 to 16 public keys.
    ///
    /// # Errors
    /// If it is not a key set, or one of the keys is not a public key.
    pub fn from_jwks(document: &Value) -> Result<Self, InvalidClientKeys> {
        let all = document.get("keys").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if all.is_empty() || all.len() > MAX_KEYS {
            return Err(InvalidClientKeys(
                "jwks must contain between 1 and 16 keys (limit max_client_key_set)",
            ));
        }
        // Checked in the raw document, because the typed set drops private members.
        if all
            .iter()
            .any(|key| key["kty"] == "oct" || PRIVATE_JWK_MEMBERS.iter().any(|name| key.get(name).is_some()))
        {
            return Err(InvalidClientKeys("jwks contains a key that is not public"));
        }
        let set =
            serde_json::from_value(document.clone()).map_err(|_| InvalidClientKeys("jwks is malformed"))?;
        Ok(Self::Set(set))
    }

    /// Reads the keys in client metadata (RFC 7591, section 2): either `jwks` or `jwks_uri`.
    pub(super) fn from_metadata(
        jwks: Option<&Value>,
        jwks_uri: Option<&str>,
    ) -> Result<Self, InvalidClientKeys> {
        match (jwks, jwks_uri.map(Url::parse)) {
            (Some(set), None) => Self::from_jwks(set),
            (None, Some(Ok(url))) if url.scheme() == "https" => Ok(Self::At(url.into())),
            _ => Err(InvalidClientKeys("private_key_jwt requires exactly one of jwks and an https jwks_uri")),
        }
    }
}

/// A client.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RegisteredClient {
    /// Client id.
    pub id: ClientId,
    /// Display name; supplied by the client.
    pub name: Option<String>,
    /// URL of a page about the client; supplied by the client.
    pub uri: Option<String>,
    /// Redirect URIs.
    pub redirect_uris: Vec<RedirectUri>,
    /// Client authentication method.
    pub auth: ClientAuthMethod,
    /// The hash of its secret.
    pub(super) secret: Option<String>,
    /// Public keys of the client.
    #[serde(default)]
    pub(super) keys: Option<ClientKeys>,
    /// Grant types that it may use.
    pub grants: Vec<String>,
    /// Scopes that it may get. `None` means all.
    pub scopes: Option<Scopes>,
    /// Resources that it serves, for whose tokens it may use introspection.
    #[serde(default)]
    pub serves: Vec<Resource>,
    /// Origin of the client.
    pub origin: ClientOrigin,
}

impl RegisteredClient {
    /// Creates a public client without a secret, such as a program on its user's machine.
    #[must_use]
    pub fn public(id: ClientId, redirect_uris: Vec<RedirectUri>) -> Self {
        Self {
            id,
            name: None,
            uri: None,
            redirect_uris,
            auth: ClientAuthMethod::None,
            secret: None,
            keys: None,
            grants: vec![AUTHORIZATION_CODE_GRANT.to_owned(), REFRESH_TOKEN_GRANT.to_owned()],
            scopes: None,
            serves: Vec::new(),
            origin: ClientOrigin::Configured,
        }
    }

    /// Creates a client with a secret. It may also request tokens for itself.
    #[must_use]
    pub fn confidential(id: ClientId, secret: &str, redirect_uris: Vec<RedirectUri>) -> Self {
        let mut client =
            Self::public(id, redirect_uris).with_secret(secret, ClientAuthMethod::ClientSecretBasic);
        client.grants.push(CLIENT_CREDENTIALS_GRANT.to_owned());
        client
    }

    /// Creates a client that authenticates by signatures. It may also request tokens for itself.
    #[must_use]
    pub fn signing(id: ClientId, keys: ClientKeys, redirect_uris: Vec<RedirectUri>) -> Self {
        let mut client = Self::public(id, redirect_uris);
        (client.auth, client.keys) = (ClientAuthMethod::PrivateKeyJwt, Some(keys));
        client.grants.push(CLIENT_CREDENTIALS_GRANT.to_owned());
        client
    }

    /// Allows the client to present assertions of a trusted identity provider about its users, in place of their
    /// consent: see [`AuthServer::trust`](super::AuthServer::trust).
    #[must_use]
    pub fn with_assertions(mut self) -> Self {
        self.grants.push(JWT_BEARER_GRANT.to_owned());
        self
    }

    /// Sets the secret and the authentication method.
    #[must_use]
    pub fn with_secret(mut self, secret: &str, auth: ClientAuthMethod) -> Self {
        (self.secret, self.auth) = (Some(hash(secret)), auth);
        self
    }

    /// Sets the resources that the client serves, for whose tokens it may use introspection (RFC 7662).
    #[must_use]
    pub fn serving(mut self, resources: impl IntoIterator<Item = Resource>) -> Self {
        self.serves.extend(resources);
        self
    }

    /// Sets the name for display.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    pub(super) fn may_use_grant(&self, grant: &str) -> bool {
        self.grants.iter().any(|known| known == grant)
    }

    /// Returns the hash of the redirect URIs, which consents are bound to.
    pub(super) fn redirects_hash(&self) -> String {
        let mut uris: Vec<&str> = self.redirect_uris.iter().map(RedirectUri::as_str).collect();
        // Consents must not end because a client lists its redirect URIs in another order.
        uris.sort_unstable();
        hash(&uris.join(" "))
    }
}

impl fmt::Debug for RegisteredClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredClient")
            .field("id", &self.id)
            .field("auth", &self.auth)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// Client credentials in a request to the token endpoint.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PresentedCredentials {
    pub(super) id: ClientId,
    pub(super) method: ClientAuthMethod,
    secret: Option<String>,
    /// Client assertion; not verified.
    pub(super) assertion: Option<String>,
}

/// Reasons no client can be identified.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientCredentialsError {
    /// The request has several authentication methods, or a malformed one.
    Malformed(&'static str),
    /// The request names no client.
    Missing,
}

impl PresentedCredentials {
    /// Reads the credentials of a request, which may use only one method.
    pub(super) fn read(headers: &HeaderMap, form: &RequestForm) -> Result<Self, ClientCredentialsError> {
        let id = |text: &str| {
            ClientId::new(text).map_err(|_| ClientCredentialsError::Malformed("client_id is malformed"))
        };
        let mut lines = headers.get_all(AUTHORIZATION).iter();
        if let Some(assertion) = form.get("client_assertion") {
            // A client must not use more than one method per request (RFC 6749, section 2.3).
            if lines.next().is_some() || form.get("client_secret").is_some() {
                return Err(ClientCredentialsError::Malformed("more than one client authentication method"));
            }
            if form.get("client_assertion_type") != Some(CLIENT_ASSERTION) {
                return Err(ClientCredentialsError::Malformed("unsupported client_assertion_type"));
            }
            // Not verified yet: the subject only tells whose keys are to verify it.
            let said = decode_unverified_claims(assertion)
                .and_then(|claims| claims["sub"].as_str().map(str::to_owned));
            let name =
                said.ok_or(ClientCredentialsError::Malformed("client_assertion has no `sub` claim"))?;
            if form.get("client_id").is_some_and(|other| other != name) {
                return Err(ClientCredentialsError::Malformed("client_id does not match client_assertion"));
            }
            let assertion = Some(assertion.to_owned());
            return Ok(Self {
                id: id(&name)?,
                method: ClientAuthMethod::PrivateKeyJwt,
                secret: None,
                assertion,
            });
        }
        let Some(line) = lines.next() else {
            let secret = form.get("client_secret").map(str::to_owned);
            let method =
                if secret.is_some() { ClientAuthMethod::ClientSecretPost } else { ClientAuthMethod::None };
            let id = id(form.get("client_id").ok_or(ClientCredentialsError::Missing)?)?;
            return Ok(Self { id, method, secret, assertion: None });
        };
        if lines.next().is_some() || form.get("client_secret").is_some() {
            return Err(ClientCredentialsError::Malformed("more than one client authentication method"));
        }
        let unreadable = ClientCredentialsError::Malformed("the Authorization header is malformed");
        let Some((name, secret)) = basic(line.to_str().unwrap_or_default()) else { return Err(unreadable) };
        if form.get("client_id").is_some_and(|other| other != name) {
            return Err(ClientCredentialsError::Malformed(
                "client_id does not match the Authorization header",
            ));
        }
        let method = ClientAuthMethod::ClientSecretBasic;
        Ok(Self { id: id(&name)?, method, secret: Some(secret), assertion: None })
    }

    /// Returns true if the credentials match the client's. The way in which a secret is sent does not matter, because
    /// clients often use another one than they registered. Assertions are verified elsewhere.
    pub(super) fn belong_to(&self, client: &RegisteredClient) -> bool {
        match (&client.secret, &self.secret) {
            (None, None) => client.auth == ClientAuthMethod::None,
            (Some(known), Some(shown)) => bool::from(known.as_bytes().ct_eq(hash(shown).as_bytes())),
            _ => false,
        }
    }
}

/// Returns the unverified claims of a JWT, to find the keys that verify it.
pub(super) fn decode_unverified_claims(token: &str) -> Option<Value> {
    let claims = token.split('.').nth(1).filter(|_| token.len() <= MAX_TOKEN_LENGTH)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
}

/// Parses name and secret of HTTP Basic, each form-encoded (RFC 6749, section 2.3.1).
fn basic(line: &str) -> Option<(String, String)> {
    let (scheme, rest) = line.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()?;
    let (name, secret) = pair.split_once(':')?;
    Some((decoded(name)?, decoded(secret)?))
}

fn decoded(text: &str) -> Option<String> {
    // As the value of a form with one field, which must not end the field.
    let text = text.replace('&', "%26").replace('=', "%3D");
    let form = format!("x={text}");
    let mut pairs = url::form_urlencoded::parse(form.as_bytes());
    pairs.next().map(|(_, value)| value.into_owned())
}
