//! Clients whose id is the URL of their metadata document.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use hospes_auth::egress::FetchError;
use hospes_auth::metadata::{ClientDocument, document_url};
use hospes_auth::{
    BoundedCache, ClientId, FetchFuture, FetchRequest, FetchResponse, HttpFetch, MAX_CLIENT_BYTES,
    RedirectUri, SingleFlight, shown,
};
use http::header::{AGE, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use url::Url;

use super::clients::{
    AUTHORIZATION_CODE_GRANT, ClientAuthMethod, ClientKeys, ClientOrigin, InvalidClientKeys,
    REFRESH_TOKEN_GRANT, RegisteredClient,
};
use super::limits::PartyRateLimit;
use super::redirects;
use super::settings::{AuthServerSettings, TrustedDocuments};
use super::shared_limits::SharedRateLimits;

/// Minimum and maximum time for which a document is cached, in seconds.
const MIN_AGE: u64 = 300;
const MAX_AGE: u64 = 24 * 3600;
/// Maximum number of cached documents: the limit `max_client_documents`. At the cap, the oldest is evicted.
const MAX_DOCUMENTS: usize = 1024;
/// Maximum number of concurrent fetches (limit `max_documents_at_once`), beyond which requests wait; and maximum number
/// of fetches per host and minute (limit `max_documents_from_host`).
const MAX_CONCURRENT_FETCHES: usize = 16;
const MAX_FROM_HOST: u32 = 60;
/// Maximum time of one fetch, including its wait.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Returns true if the client's id is the URL of its metadata document.
pub(super) fn is_url(id: &ClientId) -> bool {
    id.as_str().starts_with("https://")
}

/// Returns the URL of the document, or the reason there can be none.
fn location(id: &ClientId, trusted: &TrustedDocuments) -> Result<Url, &'static str> {
    let url = document_url(id)?;
    match trusted {
        TrustedDocuments::Any => Ok(url),
        TrustedDocuments::Hosts(hosts) if hosts.iter().any(|host| is_at_host(&url, host)) => Ok(url),
        TrustedDocuments::Hosts(_) | TrustedDocuments::None => Err("its host is not trusted"),
    }
}

/// Returns true if a URL is at this host: at the given port, else at the default port.
fn is_at_host(url: &Url, host: &str) -> bool {
    Url::parse(&format!("https://{host}/")).is_ok_and(|known| known.origin() == url.origin())
}

/// Returns the client that a document describes.
fn parse_client_document(
    id: &ClientId,
    response: &FetchResponse,
    settings: &AuthServerSettings,
) -> Result<RegisteredClient, &'static str> {
    if response.status != StatusCode::OK {
        return Err("unexpected response status");
    }
    let kind = response.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if kind != "application/json" && !(kind.starts_with("application/") && kind.ends_with("+json")) {
        return Err("the document is not JSON");
    }
    if response.body.len() > MAX_CLIENT_BYTES {
        return Err("the document is too large");
    }
    let document: ClientDocument = response.decode().map_err(|_| "the document is malformed")?;
    if document.client_id != *id {
        return Err("client_id in the document does not match its URL");
    }
    if document.client_secret.is_some() {
        return Err("the document must not contain client_secret: it is public");
    }
    let mut metadata = document.metadata;
    let keys = match metadata.token_endpoint_auth_method.as_deref() {
        None | Some("none") => None,
        Some("private_key_jwt") => {
            let said = ClientKeys::from_metadata(metadata.jwks.as_ref(), metadata.jwks_uri.as_deref());
            Some(said.map_err(|InvalidClientKeys(why)| why)?)
        }
        Some(method) if method.starts_with("client_secret") => {
            return Err("client secrets are not supported for public metadata documents");
        }
        Some(_) => return Err("unsupported token_endpoint_auth_method"),
    };
    let Some(name) = metadata.client_name.as_deref().map(shown).filter(|name| !name.is_empty()) else {
        return Err("the document has no client_name");
    };
    if metadata.redirect_uris.is_empty() {
        return Err("the document has no redirect_uris");
    }
    if metadata.redirect_uris.iter().filter_map(RedirectUri::url).any(|url| redirects::is_forbidden(&url)) {
        return Err("a redirect URI has a forbidden scheme");
    }
    // An application may have places where we accept none.
    metadata.redirect_uris.retain(|uri| settings.accepts_redirect(uri));
    if metadata.redirect_uris.is_empty() {
        return Err("no redirect URI uses https or a loopback address, or is allowed by the configuration");
    }
    let grants = metadata.grant_types.unwrap_or_else(|| vec![AUTHORIZATION_CODE_GRANT.to_owned()]);
    Ok(RegisteredClient {
        id: id.clone(),
        name: Some(name),
        uri: metadata.client_uri,
        redirect_uris: metadata.redirect_uris,
        auth: if keys.is_some() { ClientAuthMethod::PrivateKeyJwt } else { ClientAuthMethod::None },
        secret: None,
        keys,
        grants: grants
            .into_iter()
            .filter(|grant| grant == AUTHORIZATION_CODE_GRANT || grant == REFRESH_TOKEN_GRANT)
            .collect(),
        scopes: metadata.scope,
        serves: Vec::new(),
        origin: ClientOrigin::Document,
    })
}

/// Returns two numbers of seconds: for which a document is fresh, and for which it may be used if a new one cannot be
/// fetched. Follows RFC 9111 and RFC 5861, as far as they apply here.
fn cache_lifetimes(headers: &HeaderMap) -> (u64, u64) {
    let lines = headers.get_all(CACHE_CONTROL).iter().filter_map(|line| line.to_str().ok());
    let mut age = None;
    let mut last = MAX_AGE;
    for directive in lines.flat_map(|line| line.split(',')).map(|text| text.trim().to_ascii_lowercase()) {
        match directive.split_once('=') {
            // MIN_AGE even then: strangers choose the URLs, and every request of theirs would cause a
            // fetch.
            _ if directive == "no-store" || directive == "no-cache" => return (MIN_AGE, MIN_AGE),
            _ if directive == "must-revalidate" => last = MIN_AGE,
            Some(("max-age", seconds)) => age = seconds.trim_matches('"').parse::<u64>().ok(),
            _ => {}
        }
    }
    // A cache on the way may have used up a part of the lifetime (RFC 9111, section 4.2.3).
    let passed = headers.get(AGE).and_then(|age| age.to_str().ok()?.parse().ok()).unwrap_or(0);
    let fresh = age.unwrap_or(MIN_AGE).saturating_sub(passed).clamp(MIN_AGE, MAX_AGE);
    (fresh, last.max(fresh))
}

/// Result of looking up a client id.
#[derive(Clone, Debug)]
pub(super) enum ClientLookup {
    /// The document is valid.
    Client(Box<RegisteredClient>),
    /// No client has this id.
    Nobody,
    /// Its document cannot be had now.
    Unavailable,
}

/// A document that was fetched.
#[derive(Debug)]
struct CachedClientDocument {
    client: RegisteredClient,
    /// Time until which it is used without a new fetch.
    fresh: u64,
    /// Time until which it may be used if a new fetch fails.
    last: u64,
}

/// Cache of clients whose documents were fetched. Failures are not cached, because they may be temporary.
#[derive(Debug)]
pub(super) struct ClientDocumentCache {
    kept: Mutex<BoundedCache<ClientId, CachedClientDocument>>,
    under_way: SingleFlight<ClientId, ClientLookup>,
    turns: Arc<FetchLimits>,
}

/// Limits of fetches from URLs that unknown clients supply: their documents, and the keys that these name.
#[derive(Debug)]
struct FetchLimits {
    at_once: Semaphore,
    hosts: PartyRateLimit<String>,
}

impl FetchLimits {
    async fn fetch(
        &self,
        fetch: &dyn HttpFetch,
        request: FetchRequest,
    ) -> Result<FetchResponse, Box<dyn Error + Send + Sync>> {
        let host = request.url.host_str().unwrap_or_default().to_owned();
        // Counted before the wait for a turn, so that requests for one host cannot take all the turns.
        if self.hosts.check(host.clone()).await.is_err() {
            tracing::warn!(
                host,
                limit = "max_documents_from_host",
                "rate limit for client metadata documents from one host exceeded"
            );
            return Err("too many requests to this host (limit `max_documents_from_host`)".into());
        }
        let fetched = async {
            let _turn = self.at_once.acquire().await;
            fetch.fetch(request).await
        };
        let late = || "timed out, including the wait for a slot (limit `max_documents_at_once`)".into();
        tokio::time::timeout(TIMEOUT, fetched).await.unwrap_or_else(|_| Err(late()))
    }
}

/// Fetches under the limits of documents.
struct LimitedFetch(Arc<FetchLimits>, Arc<dyn HttpFetch>);

impl HttpFetch for LimitedFetch {
    fn fetch(&self, request: FetchRequest) -> FetchFuture<'_> {
        Box::pin(self.0.fetch(&*self.1, request))
    }
}

impl Default for ClientDocumentCache {
    fn default() -> Self {
        Self {
            kept: Mutex::new(BoundedCache::new(MAX_DOCUMENTS)),
            under_way: SingleFlight::default(),
            turns: Arc::new(FetchLimits {
                at_once: Semaphore::new(MAX_CONCURRENT_FETCHES),
                hosts: PartyRateLimit::per_minute("documents from a host", MAX_FROM_HOST),
            }),
        }
    }
}

impl ClientDocumentCache {
    /// Applies the limit of fetches from a host to all servers together. Meant for a cache that is not in use yet.
    pub(super) fn share_limits(&mut self, limits: &Arc<dyn SharedRateLimits>) {
        if let Some(turns) = Arc::get_mut(&mut self.turns) {
            turns.hosts.share(limits);
        }
    }

    /// Wraps `fetch` so that other URLs in clients' documents are fetched under the limits of the documents.
    pub(super) fn limit_fetch(&self, fetch: &Arc<dyn HttpFetch>) -> Arc<dyn HttpFetch> {
        Arc::new(LimitedFetch(Arc::clone(&self.turns), Arc::clone(fetch)))
    }

    /// Returns the client with this id, if there is a document that describes it.
    pub(super) async fn client(
        &self,
        id: &ClientId,
        fetch: &dyn HttpFetch,
        settings: &AuthServerSettings,
        now: u64,
    ) -> ClientLookup {
        let url = match location(id, &settings.documents) {
            Ok(url) => url,
            Err(why) => return refused(id, why),
        };
        if let Some(client) = self.cached_client(id, |kept| kept.fresh > now) {
            return client;
        }
        self.under_way.run_once(id.clone(), || self.fetch_or_cached(id, url, fetch, settings, now)).await
    }

    async fn fetch_or_cached(
        &self,
        id: &ClientId,
        url: Url,
        fetch: &dyn HttpFetch,
        settings: &AuthServerSettings,
        now: u64,
    ) -> ClientLookup {
        // Since it was last looked for, it may have come.
        if let Some(client) = self.cached_client(id, |kept| kept.fresh > now) {
            return client;
        }
        match self.fetch(id, url, fetch, settings, now).await {
            ClientLookup::Unavailable => {
                self.cached_client(id, |kept| kept.last > now).unwrap_or(ClientLookup::Unavailable)
            }
            found => found,
        }
    }

    async fn fetch(
        &self,
        id: &ClientId,
        url: Url,
        fetch: &dyn HttpFetch,
        settings: &AuthServerSettings,
        now: u64,
    ) -> ClientLookup {
        let response = match self.turns.fetch(fetch, FetchRequest::get(url, MAX_CLIENT_BYTES)).await {
            Ok(response) => response,
            Err(error) => {
                tracing::info!(client = %id, %error, "cannot fetch client metadata document");
                return match error.downcast_ref::<FetchError>() {
                    // Neither passes by itself, so a document from before must not be used any longer.
                    Some(FetchError::Forbidden(_) | FetchError::TooLarge { .. }) => self.drop_cached(id),
                    _ => ClientLookup::Unavailable,
                };
            }
        };
        // These say nothing about the document, so the one from before may still be used.
        if response.status.is_server_error() || response.status == StatusCode::TOO_MANY_REQUESTS {
            tracing::info!(client = %id, status = %response.status, "client metadata document not available");
            return ClientLookup::Unavailable;
        }
        match parse_client_document(id, &response, settings) {
            Ok(client) => {
                let (fresh, last) = cache_lifetimes(&response.headers);
                let kept =
                    CachedClientDocument { client: client.clone(), fresh: now + fresh, last: now + last };
                self.kept.lock().insert(id.clone(), kept);
                ClientLookup::Client(Box::new(client))
            }
            Err(why) => {
                self.drop_cached(id);
                refused(id, why)
            }
        }
    }

    fn cached_client(
        &self,
        id: &ClientId,
        will_do: impl Fn(&CachedClientDocument) -> bool,
    ) -> Option<ClientLookup> {
        let all = self.kept.lock();
        all.get(id)
            .filter(|kept| will_do(kept))
            .map(|kept| ClientLookup::Client(Box::new(kept.client.clone())))
    }

    /// Removes a client whose document has been withdrawn or become invalid.
    fn drop_cached(&self, id: &ClientId) -> ClientLookup {
        self.kept.lock().remove(id);
        ClientLookup::Nobody
    }
}

fn refused(id: &ClientId, why: &str) -> ClientLookup {
    tracing::info!(client = %id, why, "client metadata document rejected");
    ClientLookup::Nobody
}
