//! Requests to the registry, and answers from the cache.

use std::time::Duration;

use http::StatusCode;
use http::header::HeaderMap;
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use url::Url;

use super::{AnswerSource, PAGE_LIMIT, RegistryAnswer, RegistryClient};
use crate::cache::StoredAnswer;
use crate::entry::{EntryStatus, ServerEntry, read_escape};
use crate::error::RegistryError;
use crate::fetch::{HTML_PAGE, JsonResponse, MAX_PAGE_BYTES, if_none_match, redirect_target, shown};
use crate::page::{ServerPage, read_page};

/// Characters that are not encoded in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl RegistryClient {
    /// Returns a successful answer as `read` returns it, from the cache if it is younger than 10 minutes, or if the
    /// registry is not reached. What was not found is dropped from the cache. Bodies that `read` refuses are neither
    /// stored nor used from the cache, because a repaired registry would seem broken for 10 minutes.
    pub(super) async fn cached<T>(
        &self,
        url: &Url,
        what: &str,
        is_entry: bool,
        read: impl Fn(&[u8]) -> Result<T, RegistryError>,
    ) -> Result<RegistryAnswer<T>, RegistryError> {
        let target = target(url);
        let stored = self.cache.answer(self.base_url(), &target).await?;
        // A body that cannot be read is of another version of this program.
        let stored = stored.and_then(|stored| Some((read(&stored.body).ok()?, stored)));
        let from_cache = |value: T, stored: &StoredAnswer, offline| RegistryAnswer {
            age: self.age(stored.fetched_at),
            value,
            source: AnswerSource::Cache,
            offline,
        };
        let is_young =
            |stored: &StoredAnswer| self.now().duration_since(stored.fetched_at) < self.answer_lifetime;
        let stored = match stored {
            Some((value, stored)) if is_young(&stored) => return Ok(from_cache(value, &stored, None)),
            stored => stored,
        };
        let etag = stored.as_ref().and_then(|(_, stored)| stored.etag.as_deref());
        let (response, stored) = match (self.get(url, &if_none_match(etag)).await, stored) {
            (Err(error @ RegistryError::Offline { .. }), Some((value, stored))) => {
                return Ok(from_cache(value, &stored, Some(error)));
            }
            (response, stored) => (response?, stored),
        };
        let value = match (response.status, stored) {
            (StatusCode::NOT_MODIFIED, Some((value, stored))) => {
                let renewed = StoredAnswer { fetched_at: self.now(), ..stored };
                self.cache.store_answer(self.base_url(), &target, renewed).await?;
                value
            }
            (StatusCode::NOT_FOUND, _) if is_entry && !response.is_html() => {
                self.cache.forget_answer(self.base_url(), &target).await?;
                return Err(RegistryError::NotFound { host: self.host().to_owned(), what: what.to_owned() });
            }
            _ => {
                let body = self.success(url, &response, what)?;
                let value = read(&body)?;
                let answer = StoredAnswer { etag: response.etag(), body, fetched_at: self.now() };
                self.cache.store_answer(self.base_url(), &target, answer).await?;
                value
            }
        };
        Ok(RegistryAnswer { value, source: AnswerSource::Server, age: Duration::ZERO, offline: None })
    }

    pub(super) async fn get(&self, url: &Url, headers: &HeaderMap) -> Result<JsonResponse, RegistryError> {
        self.fetcher.get(url, headers, MAX_PAGE_BYTES).await.map_err(|error| self.offline(error))
    }

    /// Returns the body of a response that is JSON with status 200.
    pub(super) fn success(
        &self,
        url: &Url,
        response: &JsonResponse,
        what: &str,
    ) -> Result<Vec<u8>, RegistryError> {
        let not_registry = |what: String| RegistryError::NotRegistry { url: shown(url), what };
        if let Some(to) = redirect_target(url, response.status, &response.headers) {
            return Err(RegistryError::Redirect { url: shown(url), to: read_escape(&shown(&to)) });
        }
        if response.is_html() {
            return Err(not_registry(format!("{HTML_PAGE} (status {})", response.status.as_u16())));
        }
        match response.status {
            StatusCode::OK => Ok(response.body.to_vec()),
            StatusCode::NOT_FOUND => Err(not_registry(format!("it has no {what} (status 404)"))),
            status => {
                let text =
                    String::from_utf8_lossy(&response.body[..response.body.len().min(200)]).into_owned();
                let message = match serde_json::from_slice::<Value>(&response.body) {
                    Ok(body) => ["error", "detail", "message", "title"]
                        .iter()
                        .find_map(|key| body.get(key)?.as_str().map(str::to_owned))
                        .unwrap_or(text),
                    Err(_) => text,
                };
                Err(RegistryError::Status {
                    host: self.host().to_owned(),
                    status: status.as_u16(),
                    message: read_escape(message.trim()),
                })
            }
        }
    }

    pub(super) fn json(&self, url: &Url, body: &[u8]) -> Result<Value, RegistryError> {
        serde_json::from_slice(body).map_err(|error| RegistryError::NotRegistry {
            url: shown(url),
            what: format!("the answer is not valid JSON: {error}"),
        })
    }

    pub(super) fn page(&self, url: &Url, body: &[u8]) -> Result<ServerPage, RegistryError> {
        let page = read_page(self.json(url, body)?)
            .map_err(|what| RegistryError::NotRegistry { url: shown(url), what })?;
        match page.first_error {
            // One bad entry must not hide the others.
            Some(source) if page.entries.is_empty() => {
                Err(RegistryError::Entry { host: self.host().to_owned(), source })
            }
            _ => Ok(page),
        }
    }

    /// Reads one entry, which must be about the server that was asked for.
    pub(super) fn server_entry(
        &self,
        url: &Url,
        body: &[u8],
        name: &str,
    ) -> Result<ServerEntry, RegistryError> {
        let entry = ServerEntry::from_value(self.json(url, body)?)
            .map_err(|source| RegistryError::Entry { host: self.host().to_owned(), source })?;
        // The name of a deleted entry does not matter: it counts as none.
        if entry.name != name && entry.status() != EntryStatus::Deleted {
            let what = format!("the answer is about `{}`", read_escape(&entry.name));
            return Err(RegistryError::NotRegistry { url: shown(url), what });
        }
        Ok(entry)
    }

    pub(super) fn servers_url(&self) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}/v0.1/servers", self.base.path().trim_end_matches('/')));
        url
    }

    pub(super) fn path_url(&self, segments: &[&str]) -> Url {
        let mut url = self.servers_url();
        let mut path = url.path().to_owned();
        for segment in segments {
            path.push('/');
            path.extend(utf8_percent_encode(segment, SEGMENT));
        }
        url.set_path(&path);
        url
    }

    pub(super) fn list_url(&self, since: Option<Timestamp>, cursor: Option<&str>) -> Url {
        let mut url = self.servers_url();
        let mut pairs = url.query_pairs_mut();
        pairs.append_pair("limit", PAGE_LIMIT);
        match since {
            // Without `version`, because a deleted version is no longer the newest.
            Some(since) => pairs.append_pair("updated_since", &since.to_string()),
            None => pairs.append_pair("version", "latest"),
        };
        if let Some(cursor) = cursor {
            pairs.append_pair("cursor", cursor);
        }
        drop(pairs);
        url
    }

    pub(super) fn offline(&self, source: hospes_http_client::FetchError) -> RegistryError {
        RegistryError::Offline { host: self.host().to_owned(), source }
    }

    pub(super) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    pub(super) fn age(&self, since: Timestamp) -> Duration {
        Duration::try_from(self.now().duration_since(since)).unwrap_or_default()
    }
}

/// Returns the path and the query of a URL, by which its answer is stored.
pub(super) fn target(url: &Url) -> String {
    format!("{}?{}", url.path(), url.query().unwrap_or_default())
}
