//! What an [`OAuthClient`] is made of.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tokio::sync::OnceCell;
use url::Url;

use super::{Held, Inner, OAuthClient};
use crate::client::settings::{GivenClient, Grant, Settings};
use crate::client::sign_in::SignIn;
use crate::client::store::{MemoryStore, Store};
use crate::egress::{Egress, GuardedClient};
use crate::metadata::is_secure;
use crate::{ClientId, Clock};

/// Why an endpoint cannot be signed in to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEndpoint {
    /// It is no URL.
    #[error("the endpoint is no URL")]
    Url(#[from] url::ParseError),
    /// A token would travel in the open: it is neither https nor on this machine.
    #[error("the endpoint is reached over http, where anybody could read a token; use https")]
    Insecure,
}

/// Makes an [`OAuthClient`].
pub struct OAuthClientBuilder {
    endpoint: Url,
    account: String,
    settings: Settings,
    egress: Egress,
    ca_files: Vec<PathBuf>,
    store: Arc<dyn Store>,
    sign_in: Option<Arc<dyn SignIn>>,
    clock: Clock,
}

impl OAuthClientBuilder {
    pub(super) fn new(endpoint: &str) -> Result<Self, InvalidEndpoint> {
        let endpoint = Url::parse(endpoint)?;
        if !is_secure(&endpoint) {
            return Err(InvalidEndpoint::Insecure);
        }
        Ok(Self {
            egress: Egress::of_endpoint(&endpoint),
            ca_files: Vec::new(),
            endpoint,
            account: String::new(),
            settings: Settings::default(),
            store: Arc::new(MemoryStore::new()),
            sign_in: None,
            clock: Clock::system(),
        })
    }

    /// How people are brought to where they agree. Without this a call that needs it fails.
    #[must_use]
    pub fn sign_in(mut self, sign_in: impl SignIn + 'static) -> Self {
        self.sign_in = Some(Arc::new(sign_in));
        self
    }

    /// Where tokens are kept; in memory without this.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = store;
        self
    }

    /// On whose account: tokens of several people for one endpoint are kept apart under their names. Empty without this.
    #[must_use]
    pub fn account(mut self, account: impl Into<String>) -> Self {
        self.account = account.into();
        self
    }

    /// A client that was registered before.
    #[must_use]
    pub fn client(mut self, client: GivenClient) -> Self {
        self.settings.given = Some(client);
        self
    }

    /// The URL at which our metadata is published.
    #[must_use]
    pub fn metadata_url(mut self, url: ClientId) -> Self {
        self.settings.metadata_url = Some(url);
        self
    }

    /// How tokens are asked for: by a person's consent without this.
    #[must_use]
    pub fn grant(mut self, grant: Grant) -> Self {
        self.settings.grant = grant;
        self
    }

    /// Changes everything else.
    #[must_use]
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Where requests to URLs that the server names may go; to the public internet and to the endpoint's own host
    /// without this.
    #[must_use]
    pub fn egress(mut self, egress: Egress) -> Self {
        self.egress = egress;
        self
    }

    /// Trusts the certificate authorities in this PEM file besides those of the environment (`SSL_CERT_FILE`,
    /// `SSL_CERT_DIR`), or those built in. May be called more than once. Proxies of the environment are never asked on
    /// the way to URLs that a server has named.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_files.push(path.into());
        self
    }

    /// What tells the time.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The client.
    #[must_use]
    pub fn build(self) -> OAuthClient {
        OAuthClient(Arc::new(Inner {
            endpoint: self.endpoint,
            account: self.account,
            settings: Arc::new(self.settings),
            http: GuardedClient::new(self.egress).ca_files(self.ca_files),
            store: self.store,
            sign_in: self.sign_in,
            clock: self.clock,
            loaded: OnceCell::new(),
            held: Mutex::new(Held::default()),
            turn: Arc::default(),
            later: Mutex::default(),
        }))
    }
}

impl fmt::Debug for OAuthClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthClientBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}
