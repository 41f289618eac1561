//! Clients whose name is the URL of a document about them.

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::{AGE, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use tokio::sync::Semaphore;
use url::Url;

use super::clients::{AuthMethod, CODE, Client, ClientKeys, Origin, REFRESH, UnusableKeys};
use super::limits::Limit;
use super::redirects;
use super::settings::{ServerSettings, TrustedDocuments};
use crate::bounded::Bounded;
use crate::egress::FetchError;
use crate::fetch::{Fetch, FetchFuture};
use crate::merged::Merged;
use crate::metadata::{ClientDocument, document_url};
use crate::{ClientId, MAX_CLIENT_BYTES, RedirectUri, Request, Response, shown};

/// For how long a document is used at least, and at most, in seconds.
const MIN_AGE: u64 = 300;
const MAX_AGE: u64 = 24 * 3600;
/// How many documents are remembered: the limit `max_client_documents`. At the cap the oldest goes.
const MAX_DOCUMENTS: usize = 1024;
/// How many are fetched at once: the limit `max_documents_at_once`; the rest wait for their turn. And how many of one
/// host's in a minute: the limit `max_documents_from_host`.
const MAX_AT_ONCE: usize = 16;
const MAX_FROM_HOST: u32 = 60;
/// How long one may take, its turn included.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Whether a client's name is the URL of its document.
pub(super) fn is_url(id: &ClientId) -> bool {
    id.as_str().starts_with("https://")
}

/// Where the document is; why there can be none.
fn location(id: &ClientId, trusted: &TrustedDocuments) -> Result<Url, &'static str> {
    let url = document_url(id)?;
    match trusted {
        TrustedDocuments::Any => Ok(url),
        TrustedDocuments::Hosts(hosts) if hosts.iter().any(|host| is_at(&url, host)) => Ok(url),
        TrustedDocuments::Hosts(_) | TrustedDocuments::None => Err("its host is not trusted"),
    }
}

/// Whether a URL is at this host: at the port that is given with it, else at the default one.
fn is_at(url: &Url, host: &str) -> bool {
    Url::parse(&format!("https://{host}/")).is_ok_and(|known| known.origin() == url.origin())
}

/// The client that a document describes.
fn read(id: &ClientId, response: &Response, settings: &ServerSettings) -> Result<Client, &'static str> {
    if response.status != StatusCode::OK {
        return Err("there is no document");
    }
    let kind = response.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if kind != "application/json" && !(kind.starts_with("application/") && kind.ends_with("+json")) {
        return Err("the document is not JSON");
    }
    if response.body.len() > MAX_CLIENT_BYTES {
        return Err("the document is too long");
    }
    let document: ClientDocument = response.decode().map_err(|_| "the document cannot be read")?;
    if document.client_id != *id {
        return Err("the document is about another client");
    }
    if document.client_secret.is_some() {
        return Err("the document has a secret in it, which everybody can read");
    }
    let mut metadata = document.metadata;
    let keys = match metadata.token_endpoint_auth_method.as_deref() {
        None | Some("none") => None,
        Some("private_key_jwt") => {
            let said = ClientKeys::said(metadata.jwks.as_ref(), metadata.jwks_uri.as_deref());
            Some(said.map_err(|UnusableKeys(why)| why)?)
        }
        Some(method) if method.starts_with("client_secret") => {
            return Err("a client whose document everybody can read has no secret");
        }
        Some(_) => return Err("no such token_endpoint_auth_method is spoken"),
    };
    let Some(name) = metadata.client_name.as_deref().map(shown).filter(|name| !name.is_empty()) else {
        return Err("the document gives no client_name");
    };
    if metadata.redirect_uris.is_empty() {
        return Err("the document gives no redirect_uris");
    }
    if metadata.redirect_uris.iter().filter_map(RedirectUri::url).any(|url| redirects::is_forbidden(&url)) {
        return Err("a redirect has a scheme that no application is opened by");
    }
    // An application may have places where we accept none.
    metadata.redirect_uris.retain(|uri| settings.accepts_redirect(uri));
    if metadata.redirect_uris.is_empty() {
        return Err("no redirect of it is https, this machine, or one that the configuration accepts");
    }
    let grants = metadata.grant_types.unwrap_or_else(|| vec![CODE.to_owned()]);
    Ok(Client {
        id: id.clone(),
        name: Some(name),
        uri: metadata.client_uri,
        redirect_uris: metadata.redirect_uris,
        auth: if keys.is_some() { AuthMethod::PrivateKeyJwt } else { AuthMethod::None },
        secret: None,
        keys,
        grants: grants.into_iter().filter(|grant| grant == CODE || grant == REFRESH).collect(),
        scopes: metadata.scope,
        serves: Vec::new(),
        origin: Origin::Document,
    })
}

/// For how many seconds a document is used without a look whether it still holds, and for how many when there is no other
/// to be had (RFC 9111 and RFC 5861, as far as they matter here).
fn lifetime(headers: &HeaderMap) -> (u64, u64) {
    let lines = headers.get_all(CACHE_CONTROL).iter().filter_map(|line| line.to_str().ok());
    let mut age = None;
    let mut last = MAX_AGE;
    for directive in lines.flat_map(|line| line.split(',')).map(|text| text.trim().to_ascii_lowercase()) {
        match directive.split_once('=') {
            _ if directive == "no-store" || directive == "no-cache" => return (MIN_AGE, MIN_AGE),
            _ if directive == "must-revalidate" => last = MIN_AGE,
            Some(("max-age", seconds)) => age = seconds.trim_matches('"').parse::<u64>().ok(),
            _ => {}
        }
    }
    let passed = headers.get(AGE).and_then(|age| age.to_str().ok()?.parse().ok()).unwrap_or(0);
    let fresh = age.unwrap_or(MIN_AGE).saturating_sub(passed).clamp(MIN_AGE, MAX_AGE);
    (fresh, last.max(fresh))
}

/// What is known of a client's name.
#[derive(Clone, Debug)]
pub(super) enum Lookup {
    /// It is this client's.
    Client(Box<Client>),
    /// It is nobody's.
    Nobody,
    /// Its document cannot be had now.
    Unavailable,
}

/// A document that was fetched.
#[derive(Debug)]
struct Kept {
    client: Client,
    /// Until then nobody looks for another.
    fresh: u64,
    /// Until then it will do when there is no other to be had.
    last: u64,
}

/// The clients whose documents were fetched. What failed is not remembered: it may be mended the next moment.
#[derive(Debug)]
pub(super) struct Documents {
    kept: Mutex<Bounded<ClientId, Kept>>,
    under_way: Merged<ClientId, Lookup>,
    turns: Arc<Turns>,
}

/// How much is fetched from where strangers say that it is: their documents, and the keys that those name.
#[derive(Debug)]
struct Turns {
    at_once: Semaphore,
    hosts: Limit<String>,
}

impl Turns {
    async fn fetch(
        &self,
        fetch: &dyn Fetch,
        request: Request,
    ) -> Result<Response, Box<dyn Error + Send + Sync>> {
        let host = request.url.host_str().unwrap_or_default().to_owned();
        if self.hosts.check(host.clone()).is_err() {
            tracing::warn!(
                host,
                limit = "max_documents_from_host",
                "nothing more is fetched for clients from a host"
            );
            return Err("its host is asked too often (limit `max_documents_from_host`)".into());
        }
        let fetched = async {
            let _turn = self.at_once.acquire().await;
            fetch.fetch(request).await
        };
        let late = || "it took too long, its turn included (limit `max_documents_at_once`)".into();
        tokio::time::timeout(TIMEOUT, fetched).await.unwrap_or_else(|_| Err(late()))
    }
}

/// Fetches under the limits of documents.
struct InTurn(Arc<Turns>, Arc<dyn Fetch>);

impl Fetch for InTurn {
    fn fetch(&self, request: Request) -> FetchFuture<'_> {
        Box::pin(self.0.fetch(&*self.1, request))
    }
}

impl Default for Documents {
    fn default() -> Self {
        Self {
            kept: Mutex::new(Bounded::new(MAX_DOCUMENTS)),
            under_way: Merged::default(),
            turns: Arc::new(Turns {
                at_once: Semaphore::new(MAX_AT_ONCE),
                hosts: Limit::per_minute(MAX_FROM_HOST),
            }),
        }
    }
}

impl Documents {
    /// What fetches with `fetch` whatever else strangers' documents name, under the limits of the documents themselves.
    pub(super) fn in_turn(&self, fetch: &Arc<dyn Fetch>) -> Arc<dyn Fetch> {
        Arc::new(InTurn(Arc::clone(&self.turns), Arc::clone(fetch)))
    }

    /// The client of this name, if there is a document that describes it.
    pub(super) async fn client(
        &self,
        id: &ClientId,
        fetch: &dyn Fetch,
        settings: &ServerSettings,
        now: u64,
    ) -> Lookup {
        let url = match location(id, &settings.documents) {
            Ok(url) => url,
            Err(why) => return refused(id, why),
        };
        if let Some(client) = self.kept(id, |kept| kept.fresh > now) {
            return client;
        }
        self.under_way.ask(id.clone(), || self.look(id, url, fetch, settings, now)).await
    }

    async fn look(
        &self,
        id: &ClientId,
        url: Url,
        fetch: &dyn Fetch,
        settings: &ServerSettings,
        now: u64,
    ) -> Lookup {
        // Since it was last looked for, it may have come.
        if let Some(client) = self.kept(id, |kept| kept.fresh > now) {
            return client;
        }
        match self.fetch(id, url, fetch, settings, now).await {
            Lookup::Unavailable => self.kept(id, |kept| kept.last > now).unwrap_or(Lookup::Unavailable),
            found => found,
        }
    }

    async fn fetch(
        &self,
        id: &ClientId,
        url: Url,
        fetch: &dyn Fetch,
        settings: &ServerSettings,
        now: u64,
    ) -> Lookup {
        let response = match self.turns.fetch(fetch, Request::get(url, MAX_CLIENT_BYTES)).await {
            Ok(response) => response,
            Err(error) => {
                tracing::info!(client = %id, %error, "a client's document was not fetched");
                return match error.downcast_ref::<FetchError>() {
                    Some(FetchError::Forbidden(_) | FetchError::TooLarge { .. }) => self.gone(id),
                    _ => Lookup::Unavailable,
                };
            }
        };
        if response.status.is_server_error() || response.status == StatusCode::TOO_MANY_REQUESTS {
            tracing::info!(client = %id, status = %response.status, "a client's document was not to be had");
            return Lookup::Unavailable;
        }
        match read(id, &response, settings) {
            Ok(client) => {
                let (fresh, last) = lifetime(&response.headers);
                let kept = Kept { client: client.clone(), fresh: now + fresh, last: now + last };
                self.all().put(id.clone(), kept);
                Lookup::Client(Box::new(client))
            }
            Err(why) => {
                self.gone(id);
                refused(id, why)
            }
        }
    }

    fn kept(&self, id: &ClientId, will_do: impl Fn(&Kept) -> bool) -> Option<Lookup> {
        let all = self.all();
        all.get(id).filter(|kept| will_do(kept)).map(|kept| Lookup::Client(Box::new(kept.client.clone())))
    }

    /// Its owner has taken the document back, or made it unfit.
    fn gone(&self, id: &ClientId) -> Lookup {
        self.all().remove(id);
        Lookup::Nobody
    }

    fn all(&self) -> MutexGuard<'_, Bounded<ClientId, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(id: &ClientId, why: &str) -> Lookup {
    tracing::info!(client = %id, why, "a client's document was refused");
    Lookup::Nobody
}
