//! Server cards: what an endpoint or a domain says about its servers. They are experimental and prove nothing: what a
//! server says after connecting counts.

use http::header::{ACCEPT, HeaderMap, HeaderValue};
use serde_json::Value;
use url::Url;

use crate::entry::{EntryError, ServerEntry, read_escape};
use crate::error::RegistryError;
use crate::fetch::{JsonFetcher, shown};

/// Media type of a card.
const CARD_TYPE: &str = "application/mcp-server-card+json";
/// Maximum size of a card or a catalog, in bytes.
const MAX_CARD_BYTES: usize = 1024 * 1024;
/// Maximum number of cards of a domain.
const MAX_CARDS: usize = 50;

/// Reads the card of an endpoint: `GET ENDPOINT/server-card`. Returns `None` if there is none, which is usual.
///
/// # Errors
/// If the endpoint is not reached, or the card is broken.
pub async fn endpoint_card(endpoint: &Url) -> Result<Option<ServerEntry>, RegistryError> {
    let mut url = endpoint.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.set_path(&format!("{}/server-card", endpoint.path().trim_end_matches('/')));
    let fetcher = JsonFetcher::for_base(endpoint);
    match fetch(&fetcher, &url, CARD_TYPE).await? {
        Some(card) => read_card(&url, card).map(Some),
        None => Ok(None),
    }
}

/// Reads the cards of a domain: those of `/.well-known/ai-catalog.json`. Cards elsewhere are read only from the public
/// internet. A card that cannot be read is left out.
///
/// # Errors
/// If the domain is not reached, or the catalog is broken.
pub async fn domain_cards(domain: &Url) -> Result<Vec<ServerEntry>, RegistryError> {
    let mut url = domain.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.set_path("/.well-known/ai-catalog.json");
    let own = JsonFetcher::for_base(domain);
    let Some(catalog) = fetch(&own, &url, "application/ai-catalog+json").await? else {
        return Ok(Vec::new());
    };
    let Some(entries) = catalog.get("entries").and_then(Value::as_array) else {
        let what = "the catalog has no list `entries`".to_owned();
        return Err(RegistryError::NotRegistry { url: shown(&url), what });
    };
    let is_card = |entry: &&Value| entry.get("type").and_then(Value::as_str) == Some(CARD_TYPE);
    let mut cards = Vec::new();
    for entry in entries.iter().filter(is_card).take(MAX_CARDS) {
        let card = match (entry.get("data"), entry.get("url").and_then(Value::as_str)) {
            (Some(data), None) => read_card(&url, data.clone()),
            (None, Some(text)) => match url.join(text) {
                Ok(place) => card_at(domain, &own, &place).await,
                Err(_) => continue,
            },
            // Exactly one of both is allowed.
            _ => continue,
        };
        match card {
            Ok(card) => cards.push(card),
            Err(error) => tracing::debug!(%error, "left out a server card"),
        }
    }
    Ok(cards)
}

async fn card_at(domain: &Url, own: &JsonFetcher, place: &Url) -> Result<ServerEntry, RegistryError> {
    let public = JsonFetcher::with_policy(hospes_http_client::EgressPolicy::public());
    let fetcher = if place.origin() == domain.origin() { own } else { &public };
    match fetch(fetcher, place, CARD_TYPE).await? {
        Some(card) => read_card(place, card),
        None => Err(RegistryError::NotFound {
            host: place.host_str().unwrap_or_default().to_owned(),
            what: "server card".to_owned(),
        }),
    }
}

async fn fetch(fetcher: &JsonFetcher, url: &Url, media_type: &str) -> Result<Option<Value>, RegistryError> {
    let accept = HeaderValue::from_str(&format!("{media_type}, application/json;q=0.5"));
    let headers: HeaderMap = accept.into_iter().map(|value| (ACCEPT, value)).collect();
    let host = || url.host_str().unwrap_or_default().to_owned();
    let response = fetcher.get(url, &headers, MAX_CARD_BYTES).await;
    let response = response.map_err(|source| RegistryError::Offline { host: host(), source })?;
    // Endpoints without a card answer in many ways.
    if response.status.as_u16() != 200 || response.is_html() {
        return Ok(None);
    }
    let parsed = serde_json::from_slice(&response.body);
    parsed.map(Some).map_err(|error| RegistryError::NotRegistry {
        url: shown(url),
        what: format!("it is not valid JSON: {error}"),
    })
}

/// Reads a card as an entry: it has the same fields, without packages.
fn read_card(url: &Url, card: Value) -> Result<ServerEntry, RegistryError> {
    let host = url.host_str().unwrap_or_default().to_owned();
    let mut entry = ServerEntry::from_value(card)
        .map_err(|source: EntryError| RegistryError::Entry { host: host.clone(), source })?;
    if entry.remotes.is_empty() {
        let what = format!("the card of `{}` names no remote", read_escape(&entry.name));
        return Err(RegistryError::NotRegistry { url: shown(url), what });
    }
    // A card must not make this machine run something, nor speak for a registry.
    entry.packages.clear();
    entry.official = None;
    Ok(entry)
}
