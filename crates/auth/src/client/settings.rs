//! What a client is told before it asks anybody.

use secrecy::SecretString;
use url::Url;

use super::credentials::{Client, ClientAuth, SigningKey};
use super::workload::WorkloadToken;
use crate::metadata::{
    ApplicationType, ClientDocument, ClientMetadata, document_url, is_loopback, is_secure,
};
use crate::{ClientId, Issuer, RedirectUri, Scopes};

/// Where browsers are sent back to that run beside the client; at which port is known only then.
const HERE: [&str; 2] = ["http://127.0.0.1/callback", "http://localhost/callback"];

/// How far discovery goes for servers of 2025-03-26, which publish nothing about themselves as resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LegacyDiscovery {
    /// To metadata at the server's own origin, and without that to the paths that revision lays down.
    #[default]
    Allow,
    /// To metadata at the server's own origin.
    MetadataOnly,
    /// Nowhere.
    Deny,
}

/// How tokens are asked for.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Grant {
    /// A person agrees, in a browser.
    #[default]
    Code,
    /// A person agrees in a browser on another machine, where they enter a code (RFC 8628).
    Device,
    /// The client acts for itself; its credentials must be given.
    ClientCredentials,
    /// An enterprise's identity provider vouches for the person; nobody is asked.
    Enterprise(IdentityProvider),
    /// The platform on which the client runs vouches for it, by a token it has issued.
    Workload(WorkloadToken),
}

impl Grant {
    /// Whether a person is asked.
    #[must_use]
    pub fn asks_a_person(&self) -> bool {
        matches!(self, Self::Code | Self::Device)
    }
}

/// The identity provider of an enterprise, and what it has said about the person.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IdentityProvider {
    /// Its token endpoint.
    pub token_endpoint: Url,
    /// How it knows us.
    pub client: Client,
    /// What it said when the person signed in.
    pub id_token: SecretString,
}

impl IdentityProvider {
    /// One with this token endpoint, which knows us as `client` and has issued `id_token`.
    pub fn new(token_endpoint: Url, client: Client, id_token: impl Into<SecretString>) -> Self {
        Self { token_endpoint, client, id_token: id_token.into() }
    }
}

/// A client that somebody has registered before.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GivenClient {
    /// With whom. None: with whomever the server names first; from then on with that one alone.
    pub issuer: Option<Issuer>,
    /// Its id.
    pub id: ClientId,
    /// How it shows who it is. None: by the first method that is known here and there, with `secret` if there is one.
    pub auth: Option<ClientAuth>,
    /// Its secret, where the method is left open.
    pub secret: Option<SecretString>,
}

impl GivenClient {
    /// One with this id and no secret.
    #[must_use]
    pub fn new(id: ClientId) -> Self {
        Self { issuer: None, id, auth: None, secret: None }
    }

    /// With a secret; how it is shown is chosen from what the server takes.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<SecretString>) -> Self {
        self.secret = Some(secret.into());
        self
    }

    /// With a way to show who it is.
    #[must_use]
    pub fn auth(mut self, auth: ClientAuth) -> Self {
        self.auth = Some(auth);
        self
    }

    /// Registered with this authorization server and no other.
    #[must_use]
    pub fn issuer(mut self, issuer: Issuer) -> Self {
        self.issuer = Some(issuer);
        self
    }
}

/// What a client is told before it asks anybody.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Its name, as people see it when they are asked.
    pub client_name: String,
    /// Where people read about it.
    pub client_uri: Option<String>,
    /// Which software it is.
    pub software_id: Option<String>,
    /// Which version of that.
    pub software_version: Option<String>,
    /// The URL at which its metadata is published, which is its id wherever that is understood.
    pub metadata_url: Option<ClientId>,
    /// The key by which the client of that metadata shows who it is (`private_key_jwt`), where it says so.
    pub metadata_key: Option<SigningKey>,
    /// A client that somebody has registered before.
    pub given: Option<GivenClient>,
    /// How tokens are asked for.
    pub grant: Grant,
    /// Where answers are to come; else wherever the listener is.
    pub redirect_uri: Option<RedirectUri>,
    /// What is asked for besides what the server demands.
    pub scopes: Scopes,
    /// Whether a refresh token is wanted, so that nobody is asked again soon. On.
    pub offline_access: bool,
    /// Whether a server's metadata must name the endpoint itself, not what it lies below. Off.
    pub strict_resource: bool,
    /// Whether an issuer that is an origin may not even differ by the slash at its end. Off.
    pub strict_issuer: bool,
    /// How far discovery goes for servers of 2025-03-26.
    pub legacy_discovery: LegacyDiscovery,
    /// Whom assertions are made out to, where that is not the issuer.
    pub assertion_audience: Option<String>,
    /// How many sign-ins that somebody else was asked for ([`crate::client::Elsewhere`]) are waited for at once, each
    /// for 10 minutes; at least 1, and 16 unless said otherwise. Further ones fail.
    pub max_pending_sign_ins: usize,
}

/// Why there is no document to be published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidDocument {
    /// It is not said where.
    #[error("it is not said at which URL the document is to be published (metadata_url)")]
    NoUrl,
    /// It cannot be there.
    #[error("{url} cannot be a client's id: {why}")]
    Url {
        /// The URL.
        url: ClientId,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nobody could check what the client signs.
    #[error("a client that signs publishes its keys (jwks_uri), over https")]
    NoKeys,
    /// Browsers are not sent back there.
    #[error("{0} is neither https nor on this machine, so no browser is sent back there")]
    Redirect(RedirectUri),
}

impl Settings {
    /// The document to be published at `metadata_url`, byte for byte the client's id there. Browsers are sent back to
    /// `redirect_uris`; to this machine, at any port, if there are none. A client with a key needs `jwks_uri`, where it
    /// publishes the public half.
    ///
    /// # Errors
    /// Why there can be none.
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
            true => HERE.iter().filter_map(|text| RedirectUri::new(*text).ok()).collect(),
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
        let metadata = ClientMetadata {
            client_name: Some(self.client_name.clone()),
            client_uri: self.client_uri.clone(),
            redirect_uris,
            grant_types: Some(grants),
            response_types: Some(vec!["code".into()]),
            token_endpoint_auth_method: Some(method.into()),
            application_type: Some(if native { ApplicationType::Native } else { ApplicationType::Web }),
            software_id: self.software_id.clone(),
            software_version: self.software_version.clone(),
            jwks_uri: jwks_uri.map(|url| url.as_str().to_owned()),
            ..ClientMetadata::default()
        };
        Ok(ClientDocument::new(id, metadata))
    }

    /// The key of the client with this id, which is kept nowhere but here.
    pub(super) fn auth_of(&self, id: &ClientId) -> Option<ClientAuth> {
        let given = self.given.as_ref().filter(|given| given.id == *id).and_then(|given| given.auth.clone());
        let key = self.metadata_key.as_ref().filter(|_| self.metadata_url.as_ref() == Some(id));
        given.or_else(|| key.cloned().map(ClientAuth::Key))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            client_name: "Hospes".into(),
            client_uri: None,
            software_id: Some("hospes".into()),
            software_version: Some(env!("CARGO_PKG_VERSION").into()),
            metadata_url: None,
            metadata_key: None,
            given: None,
            grant: Grant::Code,
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

/// How one authorization server knows us. Never shown to another.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Registration {
    /// The authorization server.
    pub issuer: Issuer,
    /// How it knows us.
    pub client: Client,
    /// Where it sends answers. None: the client was given, and only its issuer is remembered.
    pub redirect_uri: Option<RedirectUri>,
    /// Until when it is good, in seconds since 1970.
    pub expires_at: Option<u64>,
}
