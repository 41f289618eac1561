//! Builder of the [`OAuthClient`].

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use hospes_auth::egress::{EgressPolicy, GuardedClient};
use hospes_auth::metadata::is_secure;
use hospes_auth::{ClientId, UnixClock};
use tokio::sync::OnceCell;
use url::Url;

use super::{HeldTokens, OAuthClient, OAuthClientInner};
use crate::pending::{MemoryPendingStore, PendingStore};
use crate::settings::{GrantType, OAuthClientSettings, PreregisteredOAuthClient};
use crate::sign_in::SignInHandler;
use crate::store::{CredentialStore, MemoryCredentialStore};

/// Reasons an endpoint is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEndpoint {
    /// The endpoint is not a URL.
    #[error("the endpoint is not a valid URL")]
    Url(#[from] url::ParseError),
    /// A token would travel in the open: it is neither https nor on this machine.
    #[error("the endpoint uses http, which would expose tokens on the network; use https")]
    Insecure,
}

/// Builder of an [`OAuthClient`].
pub struct OAuthClientBuilder {
    endpoint: Url,
    account: String,
    settings: OAuthClientSettings,
    egress: EgressPolicy,
    ca_files: Vec<PathBuf>,
    store: Arc<dyn CredentialStore>,
    pending: Option<Arc<dyn PendingStore>>,
    sign_in: Option<Arc<dyn SignInHandler>>,
    clock: UnixClock,
}

impl OAuthClientBuilder {
    pub(super) fn new(endpoint: &str) -> Result<Self, InvalidEndpoint> {
        let endpoint = Url::parse(endpoint)?;
        if !is_secure(&endpoint) {
            return Err(InvalidEndpoint::Insecure);
        }
        Ok(Self {
            egress: EgressPolicy::of_endpoint(&endpoint),
            ca_files: Vec::new(),
            endpoint,
            account: String::new(),
            settings: OAuthClientSettings::default(),
            store: Arc::new(MemoryCredentialStore::new()),
            pending: None,
            sign_in: None,
            clock: UnixClock::system(),
        })
    }

    /// Sets the way users are asked to sign in. Without it, calls that need a user fail.
    #[must_use]
    pub fn sign_in(mut self, sign_in: impl SignInHandler + 'static) -> Self {
        self.sign_in = Some(Arc::new(sign_in));
        self
    }

    /// Sets the store of tokens. Default: in memory.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn CredentialStore>) -> Self {
        self.store = store;
        self
    }

    /// Sets the store of sign-ins that wait for their redirect. Default: in memory, so that this client alone can complete
    /// them.
    #[must_use]
    pub fn pending_store(mut self, store: Arc<dyn PendingStore>) -> Self {
        self.pending = Some(store);
        self
    }

    /// Sets the account. Tokens of several accounts for one endpoint are stored separately. Empty by default.
    #[must_use]
    pub fn account(mut self, account: impl Into<String>) -> Self {
        self.account = account.into();
        self
    }

    /// Sets a preregistered client.
    #[must_use]
    pub fn client(mut self, client: PreregisteredOAuthClient) -> Self {
        self.settings.given = Some(client);
        self
    }

    /// Sets the URL at which this client's metadata is published.
    #[must_use]
    pub fn metadata_url(mut self, url: ClientId) -> Self {
        self.settings.metadata_url = Some(url);
        self
    }

    /// Sets the grant type. Default: authorization code, with a user's consent.
    #[must_use]
    pub fn grant(mut self, grant: GrantType) -> Self {
        self.settings.grant = grant;
        self
    }

    /// Changes all other settings.
    #[must_use]
    pub fn settings(mut self, change: impl FnOnce(&mut OAuthClientSettings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Sets the allowed destinations of requests to URLs that the server names. Default: the public internet and the
    /// endpoint's own host.
    #[must_use]
    pub fn egress(mut self, egress: EgressPolicy) -> Self {
        self.egress = egress;
        self
    }

    /// Trusts the certificate authorities in this PEM file besides those of the environment (`SSL_CERT_FILE`,
    /// `SSL_CERT_DIR`), or those built in. May be called more than once. Proxies of the environment are never used for
    /// URLs that a server has supplied.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_files.push(path.into());
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock(mut self, clock: UnixClock) -> Self {
        self.clock = clock;
        self
    }

    /// Builds the client.
    #[must_use]
    pub fn build(self) -> OAuthClient {
        OAuthClient(Arc::new(OAuthClientInner {
            endpoint: self.endpoint,
            account: self.account,
            settings: Arc::new(self.settings),
            http: GuardedClient::new(self.egress).ca_files(self.ca_files),
            store: self.store,
            sign_in: self.sign_in,
            clock: self.clock,
            loaded: OnceCell::new(),
            held: Mutex::new(HeldTokens::default()),
            turn: Arc::default(),
            pending: self.pending.unwrap_or_else(|| Arc::new(MemoryPendingStore::new())),
        }))
    }
}

impl fmt::Debug for OAuthClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthClientBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}
