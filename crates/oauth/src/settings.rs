//! Settings of the OAuth client.

use hospes_auth::metadata::{
    ApplicationType, ClientDocument, ClientMetadata, document_url, is_loopback, is_secure,
};
use hospes_auth::{ClientId, Issuer, RedirectUri, Scopes};
use secrecy::SecretString;
use url::Url;

use super::credentials::{ClientAuth, ClientIdentity, ClientSigningKey};
use super::workload::WorkloadToken;

/// Redirect URIs of browsers on the same machine; the port is known only at run time.
const LOOPBACK_REDIRECTS: [&str; 2] = ["http://127.0.0.1/callback", "http://localhost/callback"];

/// Discovery for servers of 2025-03-26, which publish no resource metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LegacyDiscovery {
    /// Falls back to metadata at the server's own origin, and then to the default endpoints of that revision.
    #[default]
    Allow,
    /// Falls back to metadata at the server's own origin.
    MetadataOnly,
    /// No fallback.
    Deny,
}

/// Grant type by which tokens are requested.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum GrantType {
    /// A person agrees, in a browser.
    #[default]
    Code,
    /// A person agrees in a browser on another machine, where they enter a code (RFC 8628).
    Device,
    /// The client acts for itself; its credentials must be given.
    ClientCredentials,
    /// An enterprise's identity provider vouches for the user; no consent is requested.
    Enterprise(IdentityProvider),
    /// The platform on which the client runs vouches for it, by a token it has issued.
    Workload(WorkloadToken),
}

impl GrantType {
    /// Returns true if the grant needs a user.
    #[must_use]
    pub fn needs_user(&self) -> bool {
        matches!(self, Self::Code | Self::Device)
    }
}

/// The identity provider of an enterprise, and the user's ID token from it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IdentityProvider {
    /// Token endpoint of the provider.
    pub token_endpoint: Url,
    /// This client as the provider knows it.
    pub client: ClientIdentity,
    /// ID token that it issued when the user signed in.
    pub id_token: SecretString,
}

impl IdentityProvider {
    /// Creates the settings of a provider with this token endpoint, which knows this client as `client` and has issued
    /// `id_token`.
    pub fn new(token_endpoint: Url, client: ClientIdentity, id_token: impl Into<SecretString>) -> Self {
        Self { token_endpoint, client, id_token: id_token.into() }
    }
}

/// Client that was registered beforehand.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PreregisteredOAuthClient {
    /// Issuer with which the client is registered. `None` means the issuer that the server names first, and only that
    /// one from then on.
    pub issuer: Option<Issuer>,
    /// Client id.
    pub id: ClientId,
    /// Authentication method. `None`: the first method that both sides support, with `secret` if there is one.
    pub auth: Option<ClientAuth>,
    /// Its secret, where the method is left open.
    pub secret: Option<SecretString>,
}

impl PreregisteredOAuthClient {
    /// Creates a client with this id and no secret.
    #[must_use]
    pub fn new(id: ClientId) -> Self {
        Self { issuer: None, id, auth: None, secret: None }
    }

    /// Sets the secret. The authentication method is chosen from those that the server supports.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<SecretString>) -> Self {
        self.secret = Some(secret.into());
        self
    }

    /// Sets the client authentication.
    #[must_use]
    pub fn auth(mut self, auth: ClientAuth) -> Self {
        self.auth = Some(auth);
        self
    }

    /// Limits the client to this authorization server.
    #[must_use]
    pub fn issuer(mut self, issuer: Issuer) -> Self {
        self.issuer = Some(issuer);
        self
    }
}

/// Settings of the OAuth client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OAuthClientSettings {
    /// Its name, as people see it when they are asked.
    pub client_name: String,
    /// URL of a page about the client.
    pub client_uri: Option<String>,
    /// Identifier of the client software.
    pub software_id: Option<String>,
    /// Version of the client software.
    pub software_version: Option<String>,
    /// The URL at which its metadata is published, which is its id wherever that is understood.
    pub metadata_url: Option<ClientId>,
    /// Key with which the client of that metadata authenticates (`private_key_jwt`), if the metadata declares this
    /// method.
    pub metadata_key: Option<ClientSigningKey>,
    /// Client that was registered beforehand.
    pub given: Option<PreregisteredOAuthClient>,
    /// Grant type.
    pub grant: GrantType,
    /// Redirect URI. Default: that of the listener.
    pub redirect_uri: Option<RedirectUri>,
    /// Scopes that are requested in addition to those that the server demands.
    pub scopes: Scopes,
    /// Requests a refresh token, so that users need not sign in again soon. Default: true.
    pub offline_access: bool,
    /// Requires a resource's metadata to name the endpoint itself, not a parent path. Default: false.
    pub strict_resource: bool,
    /// Rejects an issuer that is an origin and differs by its trailing slash. Default: false.
    pub strict_issuer: bool,
    /// Discovery for servers of 2025-03-26.
    pub legacy_discovery: LegacyDiscovery,
    /// Audience of assertions, if it is not the issuer.
    pub assertion_audience: Option<String>,
    /// Maximum number of deferred sign-ins ([`crate::DeferredSignIn`]) that are pending at once, each for 10
    /// minutes. At least 1; default: 16. Further ones fail.
    pub max_pending_sign_ins: usize,
}

/// Reasons the client's metadata document cannot be published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidDocument {
    /// No URL is configured.
    #[error("metadata_url is missing: set it to the URL at which the document is published")]
    NoUrl,
    /// The document cannot be published at this URL.
    #[error("{url} is not a valid client id: {why}")]
    Url {
        /// The URL.
        url: ClientId,
        /// Description of the defect.
        why: &'static str,
    },
    /// The client's signatures could not be verified.
    #[error("a client that authenticates with private_key_jwt needs a jwks_uri that uses https")]
    NoKeys,
    /// Browsers are not sent back there.
    #[error("redirect URI {0} must use https or a loopback address")]
    Redirect(RedirectUri),
}

impl OAuthClientSettings {
    /// Creates the document to be published at `metadata_url`, which is the client's id there, byte for byte. Without
    /// `redirect_uris`, browsers are sent back to this machine at any port. A client with a key needs `jwks_uri`, where
    /// it publishes the public key.
    ///
    /// # Errors
    /// The reason why there can be no document.
    pub fn document(
        &self,
        redirect_uris: Vec<RedirectUri>,
        jwks_uri: Option<&Url>,
    ) -> Result<ClientDocument, InvalidDocument> {
        let id = self.metadata_url.clone().ok_or(InvalidDocument::NoUrl)?;
        document_url(&id).map_err(|why| InvalidDocument::Url { url: id.clone(), why })?;
        if (self.metadata_key.is_some() && jwks_uri.is_none())
            || jwks_uri.is_some_and(|url| url.scheme() != "https")
        {
            return Err(InvalidDocument::NoKeys);
        }
        let redirect_uris = match redirect_uris.is_empty() {
            true => LOOPBACK_REDIRECTS.iter().filter_map(|text| RedirectUri::new(*text).ok()).collect(),
            false => redirect_uris,
        };
        let is_open = |uri: &&RedirectUri| !uri.url().is_some_and(|url| is_secure(&url));
        if let Some(bad) = redirect_uris.iter().find(is_open) {
            return Err(InvalidDocument::Redirect(bad.clone()));
        }
        let here = |uri: &RedirectUri| uri.url().is_some_and(|url| is_loopback(&url));
        let native = redirect_uris.iter().all(here);
        let mut grants = vec!["authorization_code".to_owned()];
        if self.offline_access {
            grants.push("refresh_token".into());
        }
        let method = if jwks_uri.is_some() { "private_key_jwt" } else { "none" };
        let mut metadata = ClientMetadata::default();
        metadata.client_name = Some(self.client_name.clone());
        metadata.client_uri = self.client_uri.clone();
        metadata.redirect_uris = redirect_uris;
        metadata.grant_types = Some(grants);
        metadata.response_types = Some(vec!["code".into()]);
        metadata.token_endpoint_auth_method = Some(method.into());
        metadata.application_type = Some(if native { ApplicationType::Native } else { ApplicationType::Web });
        metadata.software_id = self.software_id.clone();
        metadata.software_version = self.software_version.clone();
        metadata.jwks_uri = jwks_uri.map(|url| url.as_str().to_owned());
        Ok(ClientDocument::new(id, metadata))
    }

    /// Returns the authentication of the client with this id, from the configured key.
    pub(super) fn auth_of(&self, id: &ClientId) -> Option<ClientAuth> {
        let given = self.given.as_ref().filter(|given| given.id == *id).and_then(|given| given.auth.clone());
        let key = self.metadata_key.as_ref().filter(|_| self.metadata_url.as_ref() == Some(id));
        given.or_else(|| key.cloned().map(ClientAuth::Key))
    }
}

impl Default for OAuthClientSettings {
    fn default() -> Self {
        Self {
            client_name: "Hospes".into(),
            client_uri: None,
            software_id: Some("hospes".into()),
            software_version: Some(env!("CARGO_PKG_VERSION").into()),
            metadata_url: None,
            metadata_key: None,
            given: None,
            grant: GrantType::Code,
            redirect_uri: None,
            scopes: Scopes::none(),
            offline_access: true,
            strict_resource: false,
            strict_issuer: false,
            legacy_discovery: LegacyDiscovery::Allow,
            assertion_audience: None,
            max_pending_sign_ins: 16,
        }
    }
}

/// Registration of the client with one authorization server. Never sent to another server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientRegistration {
    /// The authorization server.
    pub issuer: Issuer,
    /// Client id and authentication.
    pub client: ClientIdentity,
    /// Redirect URI. `None`: the client was given, and only its issuer is remembered.
    pub redirect_uri: Option<RedirectUri>,
    /// Time until which it is valid, in seconds since 1970.
    pub expires_at: Option<u64>,
}
