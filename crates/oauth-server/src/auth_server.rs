//! The server itself: its settings, store and limits.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hospes_auth::dpop::{ProofNonces, ProofReplayCache, SharedProofStore};
use hospes_auth::metadata::{ClientDocument, is_secure};
use hospes_auth::{
    AccountConnections, BoundedCache, ClientId, HttpFetch, Issuer, PublishedKeys, TrustedProxies, UnixClock,
};
use parking_lot::Mutex;

use super::documents::{self, ClientDocumentCache, ClientLookup};
use super::limits::{PartyRateLimit, SignInLimits};
use super::provider::SignInProvider;
use super::settings::AuthServerSettings;
use super::shared_limits::SharedRateLimits;
use super::sign_in::LocalSignIn;
use super::store::server_keys::{InvalidSealKey, RecordSeal, ServerKeyStore};
use super::store::{AuthStore, AuthStoreError, MemoryAuthStore, RecordKind};

/// Interval at which expired records are deleted, in seconds.
const SWEEP_SECONDS: u64 = 300;

/// Maximum number of pending authorization requests: the limit `max_pending_authorizations`. At the cap, the oldest is
/// dropped.
const MAX_PENDING: usize = 16 * 1024;

/// Maximum number of cached key sets of clients: the limit `max_client_keys`. At the cap, the oldest is evicted.
const MAX_CLIENT_KEYS: usize = 256;

/// An authorization server. Cheap to clone; every clone is the same server.
#[derive(Clone)]
pub struct AuthServer(pub(crate) Arc<AuthServerInner>);

pub(crate) struct AuthServerInner {
    pub(crate) settings: AuthServerSettings,
    pub(crate) store: Arc<dyn AuthStore>,
    pub(crate) sign_in: LocalSignIn,
    pub(crate) fetch: Option<Arc<dyn HttpFetch>>,
    /// Fetcher for URLs in the configuration, if not the same.
    pub(crate) named: Option<Arc<dyn HttpFetch>>,
    pub(crate) provider: Option<SignInProvider>,
    pub(crate) trusted: Vec<TrustedIssuer>,
    /// The keys of clients that publish them, by where they are.
    /// By whether the configuration names them, and where they are.
    pub(crate) client_keys: Mutex<BoundedCache<(bool, String), PublishedKeys>>,
    /// The keys that all nodes share.
    pub(crate) keeper: Arc<ServerKeyStore>,
    pub(crate) nonces: ProofNonces,
    pub(crate) connections: Option<Arc<dyn AccountConnections>>,
    /// Published metadata document of this host as a client of other servers.
    pub(crate) document: Option<ClientDocument>,
    /// True if the server issues no tokens and has only the account pages.
    pub(crate) has_only_pages: bool,
    pub(crate) clock: UnixClock,
    pub(crate) documents: ClientDocumentCache,
    /// The path of the issuer, without a slash at its end.
    pub(crate) base: String,
    pub(crate) https: bool,
    pub(crate) proxies: TrustedProxies,
    pub(crate) tokens: PartyRateLimit<Option<IpAddr>>,
    pub(crate) registrations: PartyRateLimit<Option<IpAddr>>,
    pub(crate) sign_ins: SignInLimits,
    pub(crate) authorizations: PartyRateLimit<Option<IpAddr>>,
    /// The authorization requests that wait for their users.
    pub(crate) pending: Mutex<BoundedCache<String, ()>>,
    pub(crate) swept: AtomicU64,
}

/// A trusted identity provider.
#[derive(Debug)]
pub(crate) struct TrustedIssuer {
    pub(crate) issuer: Issuer,
    pub(crate) keys: PublishedKeys,
}

/// An authorization server would send passwords and tokens in the clear.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the issuer {0} must use https, or http on a loopback address")]
#[expect(clippy::exhaustive_structs, reason = "there is nothing else to say")]
pub struct InsecureIssuer(pub Issuer);

impl AuthServer {
    /// Creates a server with this `store`, at which users sign in by `sign_in`.
    ///
    /// # Errors
    /// If the issuer is neither https nor on this machine, because passwords, codes and tokens are sent there.
    pub fn new(
        settings: AuthServerSettings,
        store: Arc<dyn AuthStore>,
        sign_in: LocalSignIn,
    ) -> Result<Self, InsecureIssuer> {
        let url = settings.issuer.url().filter(is_secure);
        let url = url.ok_or_else(|| InsecureIssuer(settings.issuer.clone()))?;
        let keeper = Arc::new(ServerKeyStore::new(Arc::clone(&store), None));
        let path = url.path().trim_end_matches('/').to_owned();
        Ok(Self(Arc::new(AuthServerInner {
            https: url.scheme() == "https",
            base: path,
            proxies: TrustedProxies::none(),
            tokens: PartyRateLimit::per_minute("token requests", settings.token_requests_per_minute),
            registrations: PartyRateLimit::per_minute("registrations", settings.registrations_per_minute),
            sign_ins: SignInLimits::per_minute(settings.sign_ins_per_minute),
            authorizations: PartyRateLimit::per_minute("authorizations", settings.authorizations_per_minute),
            pending: Mutex::new(BoundedCache::new(MAX_PENDING)),
            settings,
            sign_in,
            fetch: None,
            named: None,
            provider: None,
            trusted: Vec::new(),
            client_keys: Mutex::new(BoundedCache::new(MAX_CLIENT_KEYS)),
            nonces: ProofNonces::shared(Arc::clone(&keeper) as Arc<dyn SharedProofStore>),
            keeper,
            store,
            connections: None,
            document: None,
            has_only_pages: false,
            clock: UnixClock::system(),
            documents: ClientDocumentCache::default(),
            swept: AtomicU64::new(0),
        })))
    }

    /// Creates a server with only the pages on which users connect accounts ([`Self::connecting`]), below `origin`. It
    /// is for an endpoint that accepts the tokens of `provider` and issues none. Users sign in at the provider, which
    /// must support OpenID Connect and use the same subject as in those tokens.
    ///
    /// # Errors
    /// If the origin is neither https nor on this machine.
    pub fn only_pages(origin: Issuer, provider: SignInProvider) -> Result<Self, InsecureIssuer> {
        Self::only_pages_with(origin, provider, Arc::new(MemoryAuthStore::new()))
    }

    /// Creates such pages with this store. Servers that share it, and the key of the provider, can each serve the next
    /// page of a person.
    ///
    /// # Errors
    /// If the origin is neither https nor on this machine.
    pub fn only_pages_with(
        origin: Issuer,
        provider: SignInProvider,
        store: Arc<dyn AuthStore>,
    ) -> Result<Self, InsecureIssuer> {
        let settings = AuthServerSettings::of(origin);
        let server = Self::new(settings, store, LocalSignIn::default())?;
        Ok(server.delegating(provider).with(|inner| inner.has_only_pages = true))
    }

    pub(crate) fn has_only_pages(&self) -> bool {
        self.0.has_only_pages
    }

    /// Counts visitors by the addresses that these proxies state, not by the proxies' own.
    #[must_use]
    pub fn trusting_proxies(self, proxies: TrustedProxies) -> Self {
        self.with(|inner| inner.proxies = proxies)
    }

    /// Applies all rate limits to this server and those with the same `limits` together.
    #[must_use]
    pub fn sharing_limits(self, limits: &Arc<dyn SharedRateLimits>) -> Self {
        self.with(|inner| {
            inner.tokens.share(limits);
            inner.registrations.share(limits);
            inner.sign_ins.share(limits);
            inner.authorizations.share(limits);
            inner.documents.share_limits(limits);
        })
    }

    /// Fetches the documents of clients with this; without it there are no such clients.
    #[must_use]
    pub fn fetching(self, fetch: impl HttpFetch) -> Self {
        self.with(|inner| inner.fetch = Some(Arc::new(fetch)))
    }

    /// Fetches the keys of the clients in [`AuthServerSettings::clients`] with this, which may go where strangers' documents are
    /// not fetched from: the operator has named the place.
    #[must_use]
    pub fn fetching_named(self, fetch: impl HttpFetch) -> Self {
        self.with(|inner| inner.named = Some(Arc::new(fetch)))
    }

    /// Encrypts the keys of this server in the store, those of tokens and of nonces. Read access to the store then does
    /// not allow signing. `key` must be the same at every node and after every start, and must not be stored with them.
    /// Keys stored unencrypted before are encrypted when next needed. Call it before
    /// [`proof_nonces`](Self::proof_nonces).
    ///
    /// # Errors
    /// When the key cannot be used.
    pub fn sealing(self, key: &[u8; 32]) -> Result<Self, InvalidSealKey> {
        let seal = RecordSeal::new(key)?;
        Ok(self.with(|inner| {
            inner.keeper = Arc::new(ServerKeyStore::new(Arc::clone(&inner.store), Some(seal)));
            // The nonces hold the key store from before, which does not seal.
            inner.nonces = ProofNonces::shared(Arc::clone(&inner.keeper) as Arc<dyn SharedProofStore>);
        }))
    }

    /// Returns the nonces of this server and all others with the same store, for a bearer-token middleware beside it.
    #[must_use]
    pub fn proof_nonces(&self) -> ProofNonces {
        self.0.nonces.clone()
    }

    /// Returns the cache of used proofs of this server and all others with the same store, for a bearer-token
    /// middleware beside it.
    #[must_use]
    pub fn used_proofs(&self) -> ProofReplayCache {
        ProofReplayCache::shared(Arc::clone(&self.0.keeper) as Arc<dyn SharedProofStore>)
    }

    /// Goes by this clock.
    #[must_use]
    pub fn clock(self, clock: UnixClock) -> Self {
        self.with(|inner| inner.clock = clock)
    }

    /// Changes a server that has not been cloned yet.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut AuthServerInner)) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            change(inner);
        }
        self
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &AuthServerSettings {
        &self.0.settings
    }

    pub(crate) fn store(&self) -> &dyn AuthStore {
        &*self.0.store
    }

    pub(crate) fn now(&self) -> u64 {
        self.0.clock.now()
    }

    pub(crate) fn base(&self) -> &str {
        &self.0.base
    }

    pub(crate) fn is_https(&self) -> bool {
        self.0.https
    }

    /// The client of this name.
    pub(crate) async fn client(&self, id: &ClientId) -> Result<ClientLookup, AuthStoreError> {
        let settings = self.settings();
        // The configuration first: nothing that is stored or fetched can take the place of a configured
        // client.
        if let Some(client) = settings.clients.iter().find(|client| client.id == *id) {
            return Ok(ClientLookup::Client(Box::new(client.clone())));
        }
        if documents::is_url(id) {
            let Some(fetch) = &self.0.fetch else { return Ok(ClientLookup::Nobody) };
            return Ok(self.0.documents.client(id, &**fetch, settings, self.now()).await);
        }
        let record = self.store().get(RecordKind::Client, id.as_str(), self.now()).await?;
        let client = record.and_then(|record| serde_json::from_str(&record.value).ok());
        Ok(client.map_or(ClientLookup::Nobody, ClientLookup::Client))
    }

    /// Drops what has run out, now and then.
    pub(crate) async fn sweep(&self) -> Result<(), AuthStoreError> {
        let now = self.now();
        // The number guards no other memory, and the exchange below decides.
        let last = self.0.swept.load(Ordering::Relaxed);
        let due = now >= last.saturating_add(SWEEP_SECONDS);
        // Of several requests at once, the one whose exchange succeeds sweeps, and the others go on.
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
