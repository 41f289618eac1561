//! Client of one registry, with its cache.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use url::Url;

use crate::cache::{RegistryCache, StoredAnswer};
use crate::entry::{EntryStatus, ServerEntry, read_escape};
use crate::error::RegistryError;
use crate::fetch::{
    JsonFetcher, JsonResponse, MAX_PAGE_BYTES, if_none_match, is_allowed_base, redirect_target, shown,
};
use crate::page::{ServerPage, read_page};
use crate::rank::SearchQuery;

/// Maximum number of pages of a list.
const MAX_PAGES: usize = 500;
/// Number of entries of a page that is asked for.
const PAGE_LIMIT: &str = "100";
/// Maximum number of pages of a search at the server.
const MAX_SEARCH_PAGES: usize = 3;
/// Time after which changes of the list are asked for.
const LIST_LIFETIME: SignedDuration = SignedDuration::from_hours(24);
/// Time after which a single answer is asked for again.
const ANSWER_LIFETIME: SignedDuration = SignedDuration::from_mins(10);
/// Overlap of two readings of changes, because clocks differ.
const OVERLAP: SignedDuration = SignedDuration::from_mins(10);
/// Time after which the list is read anew, because a registry without `_meta` reports no deletions.
const FULL_LIFETIME: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Maximum time that a search waits for the changes of the list.
const CHANGES_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of servers that are looked up one by one after a reading of changes.
const MAX_LOOKUPS: usize = 20;
/// Characters that are not encoded in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Client of one registry, API v0.1. Answers are cached: lists for 24 hours, single answers for 10 minutes. Without a
/// connection, the cache answers. Clones share the cache.
#[derive(Clone)]
pub struct RegistryClient {
    base: Url,
    host: String,
    fetcher: JsonFetcher,
    cache: RegistryCache,
    clock: Clock,
    answer_lifetime: SignedDuration,
}

/// An answer, with its age.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RegistryAnswer<T> {
    /// The answer itself.
    pub value: T,
    /// Where it comes from.
    pub source: AnswerSource,
    /// Time since the registry said so.
    pub age: Duration,
    /// Reason that the registry was not reached, if an older answer stands in.
    pub offline: Option<RegistryError>,
}

/// Where an answer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerSource {
    /// The registry has just answered.
    Server,
    /// The cache.
    Cache,
}

/// Results of a search: the newest version of each server.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SearchResults {
    /// The entries, best first.
    pub entries: Vec<ServerEntry>,
    /// Number of all entries that fit.
    pub total: usize,
}

/// How much of the list is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefreshMode {
    /// The changes since the last reading. The first time, and after a week, it is everything.
    Changes,
    /// Everything.
    Everything,
}

/// Result of reading the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefreshReport {
    /// Number of servers in the cache.
    pub servers: usize,
    /// Number of entries that were stored.
    pub stored: usize,
    /// Number of servers that are gone.
    pub removed: usize,
    /// Number of entries that could not be read.
    pub skipped: usize,
    /// Number of pages.
    pub pages: usize,
    /// Is true if the list was read completely.
    pub everything: bool,
}

impl RegistryClient {
    /// Creates a client for the registry at a base URL, such as [`DEFAULT_REGISTRY`](crate::DEFAULT_REGISTRY). The cache
    /// is a file, whose folder is created, or in memory.
    ///
    /// # Errors
    /// If the URL cannot be that of a registry, or the cache cannot be opened.
    pub fn new(base_url: &str, cache_file: Option<PathBuf>) -> Result<Self, RegistryError> {
        let base = parse_base(base_url)?;
        let cache = RegistryCache::open(cache_file)?;
        let name = base.host_str().unwrap_or_default();
        let host = base.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
        Ok(Self {
            fetcher: JsonFetcher::for_base(&base),
            base,
            host,
            cache,
            clock: Arc::new(Timestamp::now),
            answer_lifetime: ANSWER_LIFETIME,
        })
    }

    /// Asks the registry for each entry, and uses what is in the cache only if the registry says that it did not change,
    /// or is not reached.
    #[must_use]
    pub fn revalidating(mut self) -> Self {
        self.answer_lifetime = SignedDuration::ZERO;
        self
    }

    /// Uses this clock instead of the system's.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Returns the base URL, without a slash at the end.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Returns the host of the registry, with its port if it is not the usual one.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Finds servers by the words of a query: all words must be in the name, the title or the description. If the list
    /// is in the cache, it answers at once, after a look at the changes if it is older than 24 hours. Otherwise the
    /// registry is asked for the longest word.
    ///
    /// # Errors
    /// If the registry is not reached and the cache has no answer.
    pub async fn search(
        &self,
        query: &str,
        limit: usize,
    ) -> Result<RegistryAnswer<SearchResults>, RegistryError> {
        let query_words = SearchQuery::new(query);
        let Some(mut times) = self.cache.list_times(self.base_url()).await? else {
            return self.search_at_server(&query_words, limit).await;
        };
        let mut offline = None;
        let mut source = AnswerSource::Cache;
        if self.now().duration_since(times.changed_at) > LIST_LIFETIME {
            let changes = Box::pin(self.refresh(RefreshMode::Changes));
            match tokio::time::timeout(CHANGES_TIMEOUT, changes).await {
                Ok(Ok(_)) => source = AnswerSource::Server,
                Ok(Err(error)) => offline = Some(error),
                Err(_) => offline = Some(self.offline(hospes_http_client::FetchError::Timeout)),
            }
            times = self.cache.list_times(self.base_url()).await?.unwrap_or(times);
        }
        let (entries, total) = self.cache.search(self.base_url(), query_words, limit).await?;
        let age = self.age(times.changed_at);
        Ok(RegistryAnswer { value: SearchResults { entries, total }, source, age, offline })
    }

    async fn search_at_server(
        &self,
        query: &SearchQuery,
        limit: usize,
    ) -> Result<RegistryAnswer<SearchResults>, RegistryError> {
        let longest = query.words().iter().max_by_key(|word| word.len()).cloned().unwrap_or_default();
        let mut cursor: Option<String> = None;
        let mut found: Vec<ServerEntry> = Vec::new();
        let mut whole: Option<RegistryAnswer<()>> = None;
        for _ in 0..MAX_SEARCH_PAGES {
            let mut url = self.servers_url();
            {
                let mut pairs = url.query_pairs_mut();
                pairs.append_pair("version", "latest").append_pair("limit", PAGE_LIMIT);
                if !longest.is_empty() {
                    pairs.append_pair("search", &longest);
                }
                if let Some(cursor) = &cursor {
                    pairs.append_pair("cursor", cursor);
                }
            }
            let page = self.cached(&url, "the list of servers", false).await?;
            let RegistryAnswer { value: body, source, age, offline } = page;
            // The answer is as old as its oldest page.
            whole = Some(match whole {
                Some(known) if known.age > age => known,
                _ => RegistryAnswer { value: (), source, age, offline },
            });
            let page = self.page(&url, &body)?;
            found.extend(page.entries);
            cursor = page.next.filter(|next| Some(next) != cursor.as_ref());
            if cursor.is_none() {
                break;
            }
        }
        let mut ranked: Vec<_> = newest(found)
            .into_iter()
            .filter_map(|entry| {
                let title = entry.title.as_deref().unwrap_or_default();
                let tier = query.tier(&entry.name, title, &entry.description)?;
                Some((tier, entry.status() == EntryStatus::Deprecated, entry))
            })
            .collect();
        ranked.sort_by(|left, right| (left.0, left.1, &left.2.name).cmp(&(right.0, right.1, &right.2.name)));
        let total = ranked.len();
        let entries = ranked.into_iter().take(limit).map(|(_, _, entry)| entry).collect();
        let (source, age, offline) = whole.map_or((AnswerSource::Server, Duration::ZERO, None), |whole| {
            (whole.source, whole.age, whole.offline)
        });
        Ok(RegistryAnswer { value: SearchResults { entries, total }, source, age, offline })
    }

    /// Returns all versions of a server, the newest first. Deleted ones are left out.
    ///
    /// # Errors
    /// If there is no such server, or the registry is not reached and the cache has no answer.
    pub async fn versions(&self, name: &str) -> Result<RegistryAnswer<Vec<ServerEntry>>, RegistryError> {
        check_name(name)?;
        let url = self.path_url(&[name, "versions"]);
        let answer = self.cached(&url, &format!("server `{}`", read_escape(name)), true).await?;
        let page = self.page(&url, &answer.value)?;
        let mut versions: Vec<_> =
            page.entries.into_iter().filter(|entry| entry.status() != EntryStatus::Deleted).collect();
        let published = |entry: &ServerEntry| entry.published_at();
        versions.sort_by(|left, right| {
            let by_time = published(right).cmp(&published(left));
            by_time.then_with(|| crate::version::compare_versions(&right.version, &left.version))
        });
        Ok(RegistryAnswer {
            value: versions,
            source: answer.source,
            age: answer.age,
            offline: answer.offline,
        })
    }

    /// Returns one version of a server, or the newest.
    ///
    /// # Errors
    /// If there is no such server or version, or the registry is not reached and the cache has no answer.
    pub async fn entry(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> Result<RegistryAnswer<ServerEntry>, RegistryError> {
        check_name(name)?;
        let version = version.unwrap_or("latest");
        if version.is_empty() || version.len() > 255 || matches!(version, "." | "..") {
            return Err(RegistryError::Name(format!("{} {}", read_escape(name), read_escape(version))));
        }
        let what = match version {
            "latest" => format!("server `{}`", read_escape(name)),
            version => format!("version {} of `{}`", read_escape(version), read_escape(name)),
        };
        let url = self.path_url(&[name, "versions", version]);
        let answer = match self.cached(&url, &what, true).await {
            Err(error @ RegistryError::Offline { .. }) => return self.listed(name, version, error).await,
            Err(error @ RegistryError::NotFound { .. }) => {
                if version == "latest" {
                    self.cache.forget(self.base_url(), name).await?;
                }
                return Err(error);
            }
            answer => answer?,
        };
        let value = self.json(&url, &answer.value)?;
        let entry = ServerEntry::from_value(value)
            .map_err(|source| RegistryError::Entry { host: self.host().to_owned(), source })?;
        if entry.status() == EntryStatus::Deleted {
            return Err(RegistryError::NotFound { host: self.host().to_owned(), what });
        }
        if entry.name != name {
            let what = format!("the answer is about `{}`", read_escape(&entry.name));
            return Err(RegistryError::NotRegistry { url: shown(&url), what });
        }
        Ok(RegistryAnswer { value: entry, source: answer.source, age: answer.age, offline: answer.offline })
    }

    /// Returns the entry of the list, if the registry is not reached.
    async fn listed(
        &self,
        name: &str,
        version: &str,
        error: RegistryError,
    ) -> Result<RegistryAnswer<ServerEntry>, RegistryError> {
        let times = self.cache.list_times(self.base_url()).await?;
        let listed = self.cache.listed(self.base_url(), name).await?;
        match (times, listed) {
            (Some(times), Some(entry)) if version == "latest" || entry.version == version => {
                Ok(RegistryAnswer {
                    value: entry,
                    source: AnswerSource::Cache,
                    age: self.age(times.changed_at),
                    offline: Some(error),
                })
            }
            _ => Err(error),
        }
    }

    /// Reads the list into the cache. Searches are answered from it afterwards.
    ///
    /// # Errors
    /// If the registry is not reached, or does not answer as a registry. What was read before stays.
    pub async fn refresh(&self, mode: RefreshMode) -> Result<RefreshReport, RegistryError> {
        let started = self.now();
        let times = self.cache.list_times(self.base_url()).await?;
        let since = match (mode, times) {
            (RefreshMode::Changes, Some(times)) if started.duration_since(times.full_at) <= FULL_LIFETIME => {
                Some(times.changed_at.saturating_sub(OVERLAP).unwrap_or(Timestamp::UNIX_EPOCH))
            }
            _ => None,
        };
        let mut report = RefreshReport { everything: since.is_none(), ..RefreshReport::default() };
        let mut removed: Vec<String> = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            if report.pages == MAX_PAGES {
                return Err(RegistryError::TooManyPages { host: self.host().to_owned(), limit: MAX_PAGES });
            }
            let url = self.list_url(since, cursor.as_deref());
            let response = self.get(&url, &HeaderMap::new()).await?;
            let body = self.success(&url, &response, "the list of servers")?;
            let page = self.page(&url, &body)?;
            report.pages += 1;
            report.skipped += page.skipped;
            let changes = self.cache.store_page(self.base_url(), page.entries, started).await?;
            report.stored += changes.stored;
            removed.extend(changes.removed);
            match page.next {
                Some(next) if Some(&next) == cursor.as_ref() => {
                    let what = "two pages have the same cursor".to_owned();
                    return Err(RegistryError::NotRegistry { url: shown(&url), what });
                }
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        report.removed = self.replace_deleted(removed, started).await?;
        report.removed += self.cache.end_reading(self.base_url(), started, since.is_none()).await?;
        report.servers = self.cache.count(self.base_url()).await?;
        Ok(report)
    }

    /// Looks for another version of servers whose newest one was deleted. Returns how many have none.
    async fn replace_deleted(&self, names: Vec<String>, started: Timestamp) -> Result<usize, RegistryError> {
        let mut gone = 0;
        for (index, name) in names.iter().enumerate() {
            if self.cache.listed(self.base_url(), name).await?.is_some() {
                continue;
            }
            gone += 1;
            if index >= MAX_LOOKUPS {
                continue;
            }
            let url = self.path_url(&[name, "versions", "latest"]);
            self.cache.forget_answer(self.base_url(), &target(&url)).await?;
            if let Ok(answer) = self.entry(name, None).await {
                self.cache.store_page(self.base_url(), vec![answer.value], started).await?;
                gone -= 1;
            }
        }
        Ok(gone)
    }

    /// Returns the body of a successful answer, from the cache if it is younger than 10 minutes, or if the registry is not
    /// reached. What was not found is dropped from the cache.
    async fn cached(
        &self,
        url: &Url,
        what: &str,
        is_entry: bool,
    ) -> Result<RegistryAnswer<Vec<u8>>, RegistryError> {
        let target = target(url);
        let stored = self.cache.answer(self.base_url(), &target).await?;
        let from_cache = |stored: StoredAnswer, offline| RegistryAnswer {
            age: self.age(stored.fetched_at),
            value: stored.body,
            source: AnswerSource::Cache,
            offline,
        };
        let is_young =
            |stored: &StoredAnswer| self.now().duration_since(stored.fetched_at) < self.answer_lifetime;
        let stored = match stored {
            Some(stored) if is_young(&stored) => return Ok(from_cache(stored, None)),
            stored => stored,
        };
        let etag = stored.as_ref().and_then(|stored| stored.etag.as_deref());
        let response = match (self.get(url, &if_none_match(etag)).await, stored.clone()) {
            (Err(error @ RegistryError::Offline { .. }), Some(stored)) => {
                return Ok(from_cache(stored, Some(error)));
            }
            (response, _) => response?,
        };
        let body = match (response.status, stored) {
            (StatusCode::NOT_MODIFIED, Some(stored)) => {
                let renewed = StoredAnswer { fetched_at: self.now(), ..stored };
                self.cache.store_answer(self.base_url(), &target, renewed.clone()).await?;
                renewed.body
            }
            (StatusCode::NOT_FOUND, _) if is_entry && !response.is_html() => {
                self.cache.forget_answer(self.base_url(), &target).await?;
                return Err(RegistryError::NotFound { host: self.host().to_owned(), what: what.to_owned() });
            }
            _ => {
                let etag = response.etag();
                let body = self.success(url, &response, what)?;
                let answer = StoredAnswer { etag, body: body.clone(), fetched_at: self.now() };
                self.cache.store_answer(self.base_url(), &target, answer).await?;
                body
            }
        };
        Ok(RegistryAnswer { value: body, source: AnswerSource::Server, age: Duration::ZERO, offline: None })
    }

    async fn get(&self, url: &Url, headers: &HeaderMap) -> Result<JsonResponse, RegistryError> {
        self.fetcher.get(url, headers, MAX_PAGE_BYTES).await.map_err(|error| self.offline(error))
    }

    /// Returns the body of a response that is JSON with status 200.
    fn success(&self, url: &Url, response: &JsonResponse, what: &str) -> Result<Vec<u8>, RegistryError> {
        let not_registry = |what: String| RegistryError::NotRegistry { url: shown(url), what };
        if let Some(to) = redirect_target(url, response.status, &response.headers) {
            return Err(RegistryError::Redirect { url: shown(url), to: read_escape(&shown(&to)) });
        }
        if response.is_html() {
            let what = "it sent a page of HTML, which may be the sign-in page of a network or a proxy";
            return Err(not_registry(format!("{what} (status {})", response.status.as_u16())));
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

    fn json(&self, url: &Url, body: &[u8]) -> Result<Value, RegistryError> {
        serde_json::from_slice(body).map_err(|error| RegistryError::NotRegistry {
            url: shown(url),
            what: format!("the answer is not valid JSON: {error}"),
        })
    }

    fn page(&self, url: &Url, body: &[u8]) -> Result<ServerPage, RegistryError> {
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

    fn servers_url(&self) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}/v0.1/servers", self.base.path().trim_end_matches('/')));
        url
    }

    fn path_url(&self, segments: &[&str]) -> Url {
        let mut url = self.servers_url();
        let mut path = url.path().to_owned();
        for segment in segments {
            path.push('/');
            path.extend(utf8_percent_encode(segment, SEGMENT));
        }
        url.set_path(&path);
        url
    }

    fn list_url(&self, since: Option<Timestamp>, cursor: Option<&str>) -> Url {
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

    fn offline(&self, source: hospes_http_client::FetchError) -> RegistryError {
        RegistryError::Offline { host: self.host().to_owned(), source }
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn age(&self, since: Timestamp) -> Duration {
        Duration::try_from(self.now().duration_since(since)).unwrap_or_default()
    }
}

/// Keeps the newest version of each server, and drops deleted ones.
fn newest(entries: Vec<ServerEntry>) -> Vec<ServerEntry> {
    let mut kept: Vec<ServerEntry> = Vec::new();
    for entry in entries {
        let is_latest = entry.official.as_ref().and_then(|official| official.is_latest);
        if entry.status() == EntryStatus::Deleted || is_latest == Some(false) {
            continue;
        }
        match kept.iter_mut().find(|known| known.name == entry.name) {
            Some(known) if crate::version::compare_versions(&known.version, &entry.version).is_lt() => {
                *known = entry;
            }
            Some(_) => {}
            None => kept.push(entry),
        }
    }
    kept
}

/// Returns the path and the query of a URL, by which its answer is stored.
fn target(url: &Url) -> String {
    format!("{}?{}", url.path(), url.query().unwrap_or_default())
}

fn check_name(name: &str) -> Result<(), RegistryError> {
    let is_name = name.len() <= 200
        && name.split_once('/').is_some_and(|(namespace, last)| !namespace.is_empty() && !last.is_empty())
        && !name.chars().any(|letter| letter.is_control() || letter.is_whitespace());
    if is_name { Ok(()) } else { Err(RegistryError::Name(read_escape(name))) }
}

/// Reads the base URL. The path of the API is cut off, because people copy it.
fn parse_base(text: &str) -> Result<Url, RegistryError> {
    let refused = |what: &str| RegistryError::BaseUrl { url: read_escape(text), what: what.to_owned() };
    let mut url = Url::parse(text.trim()).map_err(|error| refused(&error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        let what = "it contains credentials".to_owned();
        return Err(RegistryError::BaseUrl { url: url.host_str().unwrap_or_default().to_owned(), what });
    }
    if !is_allowed_base(&url) {
        return Err(refused("it must begin with https://"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refused("it has a query or a fragment"));
    }
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix("/servers").unwrap_or(path);
    let path = ["/v0.1", "/v0"].iter().find_map(|api| path.strip_suffix(api)).unwrap_or(path).to_owned();
    url.set_path(&path);
    Ok(url)
}

impl fmt::Debug for RegistryClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryClient").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}
