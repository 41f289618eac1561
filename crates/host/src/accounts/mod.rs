//! Accounts at upstream servers: one shared account of the operator, or one for each user.
//!
//! A user's account is private to that user. Its tokens are stored under the server and the user's full principal. Its
//! connections are made for that user only, and its sign-in links open for no other user. Credentials that users
//! present to this host are never forwarded; servers receive only tokens that they have issued themselves.

mod account;
mod limits;
mod links;
mod shared_stores;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use hospes_auth::metadata::ClientDocument;
use hospes_auth::{
    AccountConnectionFuture, AccountConnections, AccountLink, AccountStatus, ClientId, ConnectAccountError,
    DisconnectResult, InvalidIdentifier, RedirectUri, Scopes, UnixClock,
};
use hospes_oauth::{
    CredentialStore, DeferredSignIn, FlowError, InvalidDocument, LegacyDiscovery, MemoryPendingStore,
    OAuthClient, OAuthClientSettings, PendingStore, StepError, StoredTokens,
};
use parking_lot::Mutex;

pub use crate::config::MAX_LINK_LIFETIME;
pub(crate) use account::UpstreamAccount;
pub use account::token_hint;
pub use limits::AccountLimits;
use links::AccountLinks;
pub(crate) use links::{AccountLinkStage, KnownLink};
pub use shared_stores::{REFRESH_LEASE, SharedCredentialStore, SharedPendingStore};

use crate::config::{HttpTransport, ServerConfig, ServerTransport};

/// The accounts of a host. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct UpstreamAccounts(Arc<UpstreamAccountsInner>);

struct UpstreamAccountsInner {
    store: Arc<dyn CredentialStore>,
    /// Redirect URI for browsers, and base URL of links. None if no user signs in with a browser.
    place: Option<ConnectUrls>,
    limits: AccountLimits,
    /// URL of the client metadata document that describes this host to authorization servers.
    document: Option<ClientId>,
    clock: UnixClock,
    /// The servers at which each user has an account, which the host has started.
    servers: Mutex<Vec<ServerConfig>>,
    /// Sign-ins that wait for their redirect, and links to them.
    pending: Arc<dyn PendingStore>,
    open: Mutex<ActiveAccounts>,
}

/// Accounts that are in use, by server and user.
type ActiveAccounts = HashMap<(Arc<str>, Arc<str>), Weak<UpstreamAccount>>;

struct ConnectUrls {
    callback: RedirectUri,
    folder: String,
}

impl UpstreamAccounts {
    /// Creates accounts whose tokens are kept in `store`. Users are not asked to sign in until an issuer is set.
    #[must_use]
    pub fn new(store: Arc<dyn CredentialStore>) -> Self {
        Self(Arc::new(UpstreamAccountsInner {
            store,
            place: None,
            limits: AccountLimits::default(),
            document: None,
            clock: UnixClock::system(),
            servers: Mutex::default(),
            pending: Arc::new(MemoryPendingStore::new()),
            open: Mutex::default(),
        }))
    }

    /// Enables sign-in with a browser. `issuer` is this host's authorization server, which must know these accounts
    /// (`AuthServer::connecting` of `hospes-oauth-server`).
    ///
    /// # Errors
    /// When browsers cannot be sent there.
    pub fn with_issuer(self, issuer: &str) -> Result<Self, InvalidIdentifier> {
        let folder = format!("{}/connect/", issuer.trim_end_matches('/'));
        let callback = RedirectUri::new(format!("{folder}callback"))?;
        Ok(self.with(|inner| inner.place = Some(ConnectUrls { callback, folder })))
    }

    /// Sets the store of links and of sign-ins that wait for their redirect; by default, the memory of this process. Nodes
    /// that share it and the store of tokens share the accounts: a link of one node is opened at another one, and its
    /// sign-in is completed at a third one.
    #[must_use]
    pub fn with_pending_store(self, pending: Arc<dyn PendingStore>) -> Self {
        self.with(|inner| inner.pending = pending)
    }

    /// Sets the limits; the default is [`AccountLimits::default`].
    #[must_use]
    pub fn limits(self, limits: AccountLimits) -> Self {
        self.with(|inner| inner.limits = limits)
    }

    /// Sets the `url` at which the document of [`Self::client_document`] is published. Authorization servers that
    /// support such documents identify this host by it, and the host does not register with them.
    #[must_use]
    pub fn with_metadata_url(self, url: ClientId) -> Self {
        self.with(|inner| inner.document = Some(url))
    }

    /// Returns the client metadata document for the servers' authorization servers. It lists the redirect URI of this
    /// host and those in `more`.
    ///
    /// # Errors
    /// The reason why there is no document: usually [`InvalidDocument::NoUrl`], if its URL is not configured.
    pub fn client_document(&self, more: Vec<RedirectUri>) -> Result<ClientDocument, InvalidDocument> {
        let place = self.0.place.as_ref().ok_or(InvalidDocument::NoUrl)?;
        let mut settings = OAuthClientSettings::default();
        settings.metadata_url.clone_from(&self.0.document);
        settings.document([vec![place.callback.clone()], more].concat(), None)
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock(self, clock: UnixClock) -> Self {
        self.with(|inner| inner.clock = clock)
    }

    /// Changes the settings of accounts that have not been shared yet.
    fn with(mut self, change: impl FnOnce(&mut UpstreamAccountsInner)) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            change(inner);
        }
        self
    }

    /// Deletes the accounts of users of `issuer` for whom `is_there` returns false. Returns their number. Blocks as long
    /// as the store does.
    ///
    /// # Errors
    /// If the store fails.
    pub fn forget_users(&self, issuer: &str, is_there: impl Fn(&str) -> bool) -> Result<usize, StepError> {
        let mut gone = 0;
        for kept in StoredTokens::all(&*self.0.store)? {
            let Some(user) = user_of(&kept.account, issuer) else { continue };
            if !is_there(user) {
                kept.forget(&*self.0.store)?;
                gone += 1;
            }
        }
        Ok(gone)
    }

    /// Returns the account of a server that all users share. `None` if the server is configured otherwise, or its
    /// requests have credentials of their own.
    pub(crate) fn shared(&self, server: &ServerConfig) -> Option<Arc<UpstreamAccount>> {
        let ServerTransport::Http(http) = &server.transport else { return None };
        // Credentials that the configuration gives come before an account.
        let has_token = http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        if server.is_per_user() || has_token {
            return None;
        }
        // With the secrets of a profile, a server has an account of its own, too: that of everybody is never used for it.
        let account = server.profile.as_deref().map(profile_account).unwrap_or_default();
        let oauth = self.oauth(http, &account, None)?;
        let profile = server.profile.as_deref();
        let name = server.name.as_str().into();
        Some(UpstreamAccount::shared(oauth, name, profile, host_of(http), self.0.store.changes()))
    }

    /// Returns the account of one user at a server. None if users cannot sign in.
    pub(crate) fn of(&self, server: &ServerConfig, user: &Arc<str>) -> Option<Arc<UpstreamAccount>> {
        let ServerTransport::Http(http) = &server.transport else { return None };
        let place = self.0.place.as_ref()?;
        let name: Arc<str> = server.name.as_str().into();
        // Held until the account is in the map: two callers must get the same one, with its tokens.
        let mut open = self.0.open.lock();
        // Entries of accounts that nobody uses any more go here, or the map would grow with every user.
        open.retain(|_, account| account.strong_count() > 0);
        let key = (Arc::clone(&name), Arc::clone(user));
        if let Some(account) = open.get(&key).and_then(Weak::upgrade) {
            return Some(account);
        }
        let oauth = self.oauth(http, user, Some(place))?;
        let owner = account::AccountOwner { user: Arc::clone(user), accounts: Arc::downgrade(&self.0) };
        let account = UpstreamAccount::of_user(oauth, name, host_of(http), owner, self.0.store.changes());
        open.insert(key, Arc::downgrade(&account));
        Some(account)
    }

    fn oauth(&self, http: &HttpTransport, account: &str, place: Option<&ConnectUrls>) -> Option<OAuthClient> {
        let builder = OAuthClient::builder(http.url.reveal().as_str()).ok()?;
        let builder = builder
            .store(Arc::clone(&self.0.store))
            .pending_store(Arc::clone(&self.0.pending))
            .account(account)
            .clock(self.0.clock.clone())
            // Whoever speaks for a server here is nobody's guess.
            .settings(|settings| {
                settings.legacy_discovery = LegacyDiscovery::MetadataOnly;
                settings.max_pending_sign_ins = self.0.limits.max_pending_sign_ins;
                settings.scopes = Scopes::parse(&http.scopes.join(" "));
                settings.metadata_url = self.0.document.clone().filter(|_| place.is_some());
            });
        let builder = match &http.client {
            Some(client) => builder.client(client.given()?),
            None => builder,
        };
        Some(match place {
            Some(place) => builder.sign_in(DeferredSignIn::new(place.callback.clone())).build(),
            None => builder.build(),
        })
    }

    /// Returns the URL of a link.
    pub(crate) fn link_url(&self, id: &str) -> String {
        let folder = self.0.place.as_ref().map_or("", |place| &place.folder);
        format!("{folder}{id}")
    }

    /// Parses the id of a link from its URL. None if the URL is not a link of this host.
    pub(crate) fn parse_link_id<'a>(&self, url: &'a str) -> Option<&'a str> {
        url.strip_prefix(self.0.place.as_ref()?.folder.as_str())
    }

    /// Returns true if this link has not been used and has not expired.
    pub(crate) async fn is_open(&self, id: &str) -> Result<bool, StepError> {
        Ok(self.links().find_open(id).await?.is_some())
    }

    pub(crate) fn links(&self) -> AccountLinks {
        AccountLinks::new(Arc::clone(&self.0.pending))
    }

    /// Looks whether a user has connected or given up the account at a server elsewhere, such as at another node.
    pub(crate) async fn recheck(&self, server: &str, user: &Arc<str>) {
        if let Some(account) = self.account_at(server, user) {
            account.recheck().await;
        }
    }

    /// Returns the account of a user at a server, by its name.
    fn account_at(&self, server: &str, user: &Arc<str>) -> Option<Arc<UpstreamAccount>> {
        // Cloned, so that no lock is held while the account is made.
        let server = self.0.servers.lock().iter().find(|known| known.name == server).cloned()?;
        self.of(&server, user)
    }

    pub(crate) fn current_limits(&self) -> &AccountLimits {
        &self.0.limits
    }

    /// Adds a server at which each user has an account, or replaces the one of its name.
    pub(crate) fn serve(&self, server: &ServerConfig) {
        let mut servers = self.0.servers.lock();
        match servers.iter_mut().find(|known| known.name == server.name) {
            Some(known) => known.clone_from(server),
            None => servers.push(server.clone()),
        }
    }

    /// Returns the status of all accounts of this user.
    pub(crate) async fn status(&self, user: &Arc<str>) -> Result<Vec<AccountStatus>, FlowError> {
        let mut all = Vec::new();
        let servers = self.0.servers.lock().clone();
        for server in &servers {
            let Some(account) = self.of(server, user) else { continue };
            all.push(account.status().await?);
        }
        Ok(all)
    }

    /// Returns the URL of the page where users see and disconnect their accounts.
    pub(crate) fn accounts_page_url(&self) -> Option<String> {
        Some(format!("{}accounts", self.0.place.as_ref()?.folder))
    }
}

impl AccountConnections for UpstreamAccounts {
    fn link<'a>(&'a self, id: &'a str) -> AccountConnectionFuture<'a, Option<AccountLink>> {
        Box::pin(async move { self.links().find_open(id).await.map_err(link_failure) })
    }

    fn take<'a>(&'a self, id: &'a str) -> AccountConnectionFuture<'a, bool> {
        Box::pin(async move { self.links().consume(id).await.map_err(link_failure) })
    }

    fn refuse<'a>(&'a self, id: &'a str) -> AccountConnectionFuture<'a> {
        Box::pin(
            async move { self.links().settle(id, AccountLinkStage::Refused).await.map_err(link_failure) },
        )
    }

    fn finish<'a>(&'a self, id: &'a str, redirected: String) -> AccountConnectionFuture<'a> {
        Box::pin(async move {
            let link = self.links().find_taken(id).await.map_err(link_failure)?;
            let link = link.ok_or(ConnectAccountError::Unknown)?;
            let account =
                self.account_at(&link.server, &link.principal).ok_or(ConnectAccountError::Unknown)?;
            let finished = account.finish(&redirected).await;
            let stage = match &finished {
                Ok(()) => AccountLinkStage::Connected,
                Err(ConnectAccountError::Refused) => AccountLinkStage::Refused,
                Err(_) => AccountLinkStage::Failed,
            };
            // The account is connected or not, whoever learns of it late.
            if let Err(error) = self.links().settle(id, stage).await {
                tracing::warn!(%error, "the result of an account link could not be recorded");
            }
            finished
        })
    }

    fn accounts<'a>(&'a self, principal: &'a str) -> AccountConnectionFuture<'a, Vec<AccountStatus>> {
        Box::pin(async move {
            self.status(&principal.into()).await.map_err(|error| {
                tracing::error!(%error, "failed to look up a user's accounts");
                ConnectAccountError::Failed
            })
        })
    }

    fn disconnect<'a>(
        &'a self,
        principal: &'a str,
        server: &'a str,
    ) -> AccountConnectionFuture<'a, DisconnectResult> {
        Box::pin(async move {
            let Some(account) = self.account_at(server, &principal.into()) else {
                return Ok(DisconnectResult::Nothing);
            };
            account.disconnect().await
        })
    }
}

impl fmt::Debug for UpstreamAccounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamAccounts").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

/// Returns the name under which the tokens of a server with the secrets of a profile are stored. No user has such a name,
/// because an issuer is a URL.
#[must_use]
pub fn profile_account(profile: &str) -> String {
    format!("profile {profile}")
}

/// Returns the user name at `issuer`, if this principal is a user of that issuer.
#[must_use]
pub fn user_of<'a>(principal: &'a str, issuer: &str) -> Option<&'a str> {
    principal.strip_prefix(issuer)?.strip_prefix(" user ")
}

/// Returns true if a principal is a person who can sign in at other servers.
pub(crate) fn is_user(principal: &str) -> bool {
    // No issuer has a space in it.
    principal.split_once(' ').is_some_and(|(_, rest)| rest.starts_with("user "))
}

// By value, for use with `map_err`.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn link_failure(error: StepError) -> ConnectAccountError {
    tracing::error!(%error, "failed to read or change an account link");
    ConnectAccountError::Failed
}

fn host_of(http: &HttpTransport) -> String {
    let url = http.url.reveal();
    match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (host, _) => host.unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use hospes_auth::Scopes;
    use hospes_oauth::MemoryCredentialStore;
    use serde_json::json;

    use super::*;
    use crate::config::ConfigLoader;

    const URL: &str = "https://web.example/mcp";

    #[tokio::test]
    async fn a_profile_with_other_secrets_does_not_use_the_tokens_of_everybody() {
        let text = format!(
            "[servers.web]\nurl = '{URL}'\nclient_id = 'i'\nclient_secret = '${{secret:web}}'\n\
             [profiles.work]\nsecrets = {{ web = 'web.work' }}\n[profiles.home]\nsecrets = {{ web = 'web.home' }}\n"
        );
        let secret = |name: &str| Ok(Some(format!("value of {name}")));
        let config = ConfigLoader::new().secrets(secret).parse("h.toml", &text).unwrap();
        let store = Arc::new(MemoryCredentialStore::new());
        let scopes = Scopes::parse("read");
        let tokens = json!({
            "issuer": "https://login.example", "resource": URL, "token_endpoint": "https://login.example/token",
            "client": { "id": "i", "method": "client_secret_basic", "secret": "value of web" },
            "access": "s3cret", "granted": scopes, "requested": scopes, "issued_at": 1, "expires_at": null,
        });
        store.write(&format!("tokens {URL}"), &tokens.to_string().into()).unwrap();
        let accounts = UpstreamAccounts::new(store);
        let servers = config.servers.iter().chain(&config.profile_servers);
        let mut found = Vec::new();
        for server in servers {
            let account = accounts.shared(server).unwrap();
            found.push((server.label(), account.tokens().await.is_some()));
        }
        let expected = [("web", true), ("web (profile work)", false), ("web (profile home)", false)];
        assert_eq!(found, expected.map(|(label, has_tokens)| (label.to_owned(), has_tokens)));
    }
}
