//! Clients whose name is the URL of a document about them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use http::header::{AGE, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use url::Url;

use super::clients::{AuthMethod, CODE, Client, Origin, REFRESH};
use super::redirects;
use super::settings::TrustedDocuments;
use crate::fetch::Fetch;
use crate::metadata::ClientDocument;
use crate::{ClientId, MAX_CLIENT_BYTES, Request, Response, shown};

/// For how long a document is used at least, and at most, in seconds.
const MIN_AGE: u64 = 300;
const MAX_AGE: u64 = 24 * 3600;
/// How many documents are remembered: the limit `max_client_documents`. At the cap all are fetched anew.
const MAX_DOCUMENTS: usize = 1024;

/// Whether a client's name is the URL of its document.
pub(super) fn is_url(id: &ClientId) -> bool {
    id.as_str().starts_with("https://")
}

/// Where the document is; why there can be none.
fn location(id: &ClientId, trusted: &TrustedDocuments) -> Result<Url, &'static str> {
    let text = id.as_str();
    let url = Url::parse(text).map_err(|_| "it is no URL")?;
    if url.scheme() != "https" || !text.starts_with("https://") {
        return Err("it is not https");
    }
    if url.fragment().is_some() || text.contains('#') {
        return Err("it has a fragment");
    }
    if url.query().is_some() {
        return Err("it has a query");
    }
    if !url.username().is_empty() || url.password().is_some() || text.contains('@') {
        return Err("it has a user's name in it");
    }
    if matches!(url.path(), "" | "/") {
        return Err("it has no path");
    }
    // As it is written: the parser takes them away.
    let path = text["https://".len()..].split_once('/').map_or("", |(_, path)| path);
    if path.split('/').any(is_dots) || text.contains('\\') {
        return Err("it has a dot segment");
    }
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

fn is_dots(part: &str) -> bool {
    let part = part.to_ascii_lowercase().replace("%2e", ".");
    part == "." || part == ".."
}

/// The client that a document describes.
fn read(id: &ClientId, response: &Response) -> Result<Client, &'static str> {
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
    let metadata = document.metadata;
    match metadata.token_endpoint_auth_method.as_deref() {
        None | Some("none") => {}
        Some(method) if method.starts_with("client_secret") => {
            return Err("a client whose document everybody can read has no secret");
        }
        Some(_) => return Err("no such token_endpoint_auth_method is spoken"),
    }
    let Some(name) = metadata.client_name.as_deref().map(shown).filter(|name| !name.is_empty()) else {
        return Err("the document gives no client_name");
    };
    if metadata.redirect_uris.is_empty() {
        return Err("the document gives no redirect_uris");
    }
    if metadata.redirect_uris.iter().any(|uri| !redirects::may_register(uri, false)) {
        return Err("a redirect is neither https nor the user's machine");
    }
    let grants = metadata.grant_types.unwrap_or_else(|| vec![CODE.to_owned()]);
    Ok(Client {
        id: id.clone(),
        name: Some(name),
        uri: metadata.client_uri,
        redirect_uris: metadata.redirect_uris,
        auth: AuthMethod::None,
        secret: None,
        grants: grants.into_iter().filter(|grant| grant == CODE || grant == REFRESH).collect(),
        scopes: metadata.scope,
        origin: Origin::Document,
    })
}

/// For how many seconds a document may be used (RFC 9111, as far as it matters here).
fn lifetime(headers: &HeaderMap) -> u64 {
    let lines = headers.get_all(CACHE_CONTROL).iter().filter_map(|line| line.to_str().ok());
    let mut age = None;
    for directive in lines.flat_map(|line| line.split(',')).map(|text| text.trim().to_ascii_lowercase()) {
        match directive.split_once('=') {
            _ if directive == "no-store" || directive == "no-cache" => return MIN_AGE,
            Some(("max-age", seconds)) => age = seconds.trim_matches('"').parse::<u64>().ok(),
            _ => {}
        }
    }
    let passed = headers.get(AGE).and_then(|age| age.to_str().ok()?.parse().ok()).unwrap_or(0);
    age.unwrap_or(MIN_AGE).saturating_sub(passed).clamp(MIN_AGE, MAX_AGE)
}

/// The clients whose documents were fetched. What failed is not remembered: it may be mended the next moment.
#[derive(Debug, Default)]
pub(super) struct Documents(Mutex<HashMap<ClientId, (Client, u64)>>);

impl Documents {
    /// The client of this name, if there is a document that describes it.
    pub(super) async fn client(
        &self,
        id: &ClientId,
        fetch: &dyn Fetch,
        trusted: &TrustedDocuments,
        now: u64,
    ) -> Option<Client> {
        if let Some((client, until)) = self.known().get(id)
            && *until > now
        {
            return Some(client.clone());
        }
        let found = match location(id, trusted) {
            Ok(url) => match fetch.fetch(Request::get(url, MAX_CLIENT_BYTES)).await {
                Ok(response) => read(id, &response).map(|client| (client, lifetime(&response.headers))),
                Err(error) => {
                    tracing::info!(client = %id, %error, "a client's document was not fetched");
                    return None;
                }
            },
            Err(why) => Err(why),
        };
        match found {
            Ok((client, age)) => {
                let mut known = self.known();
                if known.len() >= MAX_DOCUMENTS {
                    known.clear();
                }
                known.insert(id.clone(), (client.clone(), now + age));
                Some(client)
            }
            Err(why) => {
                tracing::info!(client = %id, why, "a client's document was refused");
                None
            }
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<ClientId, (Client, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
