//! The authorization server: for those who have no other, and for tests.
//!
//! What it decides are functions over records; what it keeps is behind [`Store`]; its pages and endpoints stand beside
//! the MCP endpoint on one socket. Access tokens are looked up, so that taking one back works at once; unless told
//! otherwise they are random.

mod access;
mod assertions;
mod authorize;
mod browser;
mod client_address;
mod clients;
mod connect;
mod consent;
mod delegated;
mod documents;
mod form;
mod keeper;
mod limits;
mod pages;
mod redirects;
mod register;
mod routes;
mod settings;
mod sign_in;
mod signing;
mod store;
#[cfg(test)]
mod tests;
mod tokens;

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

pub use access::OwnTokens;
pub use client_address::{InvalidNetwork, TrustedProxies, is_forwarded};
pub use clients::{AuthMethod, Client, ClientKeys, Origin, UnusableKeys};
pub use connect::{AccountStatus, Connecting, Connections, Disconnected, Link, NotConnected};
pub use delegated::{Admission, OWN_PARAMETERS, Provider, UnusableKey};
pub use redirects::{matches, may_configure, may_register};
pub use routes::Beside;
pub use settings::{AccessTokens, Lifetimes, MAX_ACCESS_LIFETIME, ServerSettings, TrustedDocuments};
pub use sign_in::{NotAHash, OWNER, PasswordHash, SignIn};
#[cfg(feature = "sqlite")]
pub use store::SqliteStore;
pub use store::{Kind, MemoryStore, Record, Store, StoreError, StoreFuture, Swapped, Taken};

use crate::bounded::Bounded;
use crate::clock::Clock;
use crate::fetch::Fetch;
use crate::keys::PublishedKeys;
use crate::metadata::{ClientDocument, is_secure};
use crate::nonces::ProofNonces;
use crate::proofs::UsedProofs;
use crate::{ClientId, Issuer, Seed};
use assertions::Trusted;
use documents::{Documents, Lookup};
use keeper::Seal;
pub(crate) use keeper::{Keeper, KeptKey};
use limits::{Limit, SignInLimits};

/// How often what has run out is dropped, in seconds.
const SWEEP_SECONDS: u64 = 300;

/// How many authorization requests wait for their users: the limit `max_pending_authorizations`. At the cap the oldest
/// goes.
const MAX_PENDING: usize = 16 * 1024;

/// How many clients' published keys are remembered: the limit `max_client_keys`. At the cap the oldest go.
const MAX_CLIENT_KEYS: usize = 256;

/// An authorization server. Cheap to clone; every clone is the same server.
#[derive(Clone)]
pub struct AuthServer(Arc<Inner>);

struct Inner {
    settings: ServerSettings,
    store: Arc<dyn Store>,
    sign_in: SignIn,
    fetch: Option<Arc<dyn Fetch>>,
    /// For what the configuration names, if not with the same.
    named: Option<Arc<dyn Fetch>>,
    provider: Option<Provider>,
    trusted: Vec<Trusted>,
    /// The keys of clients that publish them, by where they are.
    /// By whether the configuration names them, and where they are.
    client_keys: Mutex<Bounded<(bool, String), PublishedKeys>>,
    /// The keys that all nodes share.
    keeper: Arc<Keeper>,
    nonces: ProofNonces,
    connections: Option<Arc<dyn Connections>>,
    /// What says who we are where we are a client of others.
    document: Option<ClientDocument>,
    /// Whether it makes out no tokens, and has only the pages about accounts.
    has_only_pages: bool,
    clock: Clock,
    documents: Documents,
    /// The path of the issuer, without a slash at its end.
    base: String,
    https: bool,
    proxies: TrustedProxies,
    tokens: Limit<Option<IpAddr>>,
    registrations: Limit<Option<IpAddr>>,
    sign_ins: SignInLimits,
    authorizations: Limit<Option<IpAddr>>,
    /// The authorization requests that wait for their users.
    pending: Mutex<Bounded<String, ()>>,
    swept: AtomicU64,
}

/// An authorization server would send passwords and tokens in the clear.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the issuer {0} is neither https nor http on this machine")]
#[expect(clippy::exhaustive_structs, reason = "there is nothing else to say")]
pub struct InsecureIssuer(pub Issuer);

impl AuthServer {
    /// A server that keeps what it must in `store` and lets those in whom `sign_in` knows.
    ///
    /// # Errors
    /// When the issuer is neither https nor this machine: passwords, codes and tokens go there.
    pub fn new(
        settings: ServerSettings,
        store: Arc<dyn Store>,
        sign_in: SignIn,
    ) -> Result<Self, InsecureIssuer> {
        let url = settings.issuer.url().filter(is_secure);
        let url = url.ok_or_else(|| InsecureIssuer(settings.issuer.clone()))?;
        let keeper = Arc::new(Keeper::new(Arc::clone(&store), None));
        let path = url.path().trim_end_matches('/').to_owned();
        Ok(Self(Arc::new(Inner {
            https: url.scheme() == "https",
            base: path,
            proxies: TrustedProxies::none(),
            tokens: Limit::per_minute(settings.token_requests_per_minute),
            registrations: Limit::per_minute(settings.registrations_per_minute),
            sign_ins: SignInLimits::per_minute(settings.sign_ins_per_minute),
            authorizations: Limit::per_minute(settings.authorizations_per_minute),
            pending: Mutex::new(Bounded::new(MAX_PENDING)),
            settings,
            sign_in,
            fetch: None,
            named: None,
            provider: None,
            trusted: Vec::new(),
            client_keys: Mutex::new(Bounded::new(MAX_CLIENT_KEYS)),
            nonces: ProofNonces::shared(Arc::clone(&keeper)),
            keeper,
            store,
            connections: None,
            document: None,
            has_only_pages: false,
            clock: Clock::system(),
            documents: Documents::default(),
            swept: AtomicU64::new(0),
        })))
    }

    /// Only the pages on which users connect their accounts elsewhere ([`Self::connecting`]), below `origin`: for an
    /// endpoint that takes the tokens of `provider`, and makes out none. Whoever comes there with a browser signs in at the
    /// provider, which has to be one of OpenID Connect and give them the same subject as in those tokens.
    ///
    /// # Errors
    /// When the origin is neither https nor this machine.
    pub fn only_pages(origin: Issuer, provider: Provider) -> Result<Self, InsecureIssuer> {
        let settings = ServerSettings::of(origin);
        let server = Self::new(settings, Arc::new(MemoryStore::new()), SignIn::default())?;
        Ok(server.delegating(provider).with(|inner| inner.has_only_pages = true))
    }

    fn has_only_pages(&self) -> bool {
        self.0.has_only_pages
    }

    /// Counts visitors by the addresses that these proxies state, not by the proxies' own.
    #[must_use]
    pub fn trusting_proxies(self, proxies: TrustedProxies) -> Self {
        self.with(|inner| inner.proxies = proxies)
    }

    /// Fetches the documents of clients with this; without it there are no such clients.
    #[must_use]
    pub fn fetching(self, fetch: impl Fetch) -> Self {
        self.with(|inner| inner.fetch = Some(Arc::new(fetch)))
    }

    /// Fetches the keys of the clients in [`ServerSettings::clients`] with this, which may go where strangers' documents are
    /// not fetched from: the operator has named the place.
    #[must_use]
    pub fn fetching_named(self, fetch: impl Fetch) -> Self {
        self.with(|inner| inner.named = Some(Arc::new(fetch)))
    }

    /// Seals the keys of this server in the store, those of tokens and of nonces, so that whoever reads the store can sign
    /// nothing. `key` must be the same at every node and after every start, and must not be where the store is. What was
    /// kept before without a seal is sealed when it is next needed. To be called before
    /// [`proof_nonces`](Self::proof_nonces).
    ///
    /// # Errors
    /// When the key cannot be used.
    pub fn sealing(self, key: &[u8; 32]) -> Result<Self, UnusableKey> {
        let seal = Seal::new(key)?;
        Ok(self.with(|inner| {
            inner.keeper = Arc::new(Keeper::new(Arc::clone(&inner.store), Some(seal)));
            inner.nonces = ProofNonces::shared(Arc::clone(&inner.keeper));
        }))
    }

    /// The nonces that this server asks for, and every other on the same store: for a guard beside it.
    #[must_use]
    pub fn proof_nonces(&self) -> ProofNonces {
        self.0.nonces.clone()
    }

    /// The proofs that were used at any guard that asks here, of every server on the same store: for a guard beside it.
    #[must_use]
    pub fn used_proofs(&self) -> UsedProofs {
        UsedProofs::shared(Arc::clone(&self.0.store))
    }

    /// Goes by this clock.
    #[must_use]
    pub fn clock(self, clock: Clock) -> Self {
        self.with(|inner| inner.clock = clock)
    }

    /// Changes a server that nobody has yet.
    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            change(inner);
        }
        self
    }

    /// What it was told.
    #[must_use]
    pub fn settings(&self) -> &ServerSettings {
        &self.0.settings
    }

    fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    fn now(&self) -> u64 {
        self.0.clock.now()
    }

    fn base(&self) -> &str {
        &self.0.base
    }

    fn is_https(&self) -> bool {
        self.0.https
    }

    /// The client of this name.
    async fn client(&self, id: &ClientId) -> Result<Lookup, StoreError> {
        let settings = self.settings();
        if let Some(client) = settings.clients.iter().find(|client| client.id == *id) {
            return Ok(Lookup::Client(Box::new(client.clone())));
        }
        if documents::is_url(id) {
            let Some(fetch) = &self.0.fetch else { return Ok(Lookup::Nobody) };
            return Ok(self.0.documents.client(id, &**fetch, settings, self.now()).await);
        }
        let record = self.store().get(Kind::Client, id.as_str(), self.now()).await?;
        let client = record.and_then(|record| serde_json::from_str(&record.value).ok());
        Ok(client.map_or(Lookup::Nobody, Lookup::Client))
    }

    /// Drops what has run out, now and then.
    async fn sweep(&self) -> Result<(), StoreError> {
        let now = self.now();
        let last = self.0.swept.load(Ordering::Relaxed);
        let due = now >= last.saturating_add(SWEEP_SECONDS);
        if due && self.0.swept.compare_exchange(last, now, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.store().sweep(now).await?;
        }
        Ok(())
    }
}

impl fmt::Debug for AuthServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthServer").field("issuer", &self.settings().issuer).finish_non_exhaustive()
    }
}

/// What of a secret is kept.
fn hash(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, secret.as_bytes()))
}

/// 256 bits that nobody can guess, as 43 characters.
fn random_text() -> String {
    // Without randomness there are no secrets, and nothing can go on.
    Seed::from_system().expect("the operating system has randomness").draw_text()
}
