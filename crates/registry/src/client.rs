//! Client of one registry, with its cache.

mod answers;
mod refresh;
mod requests;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use url::Url;

pub use self::answers::{AnswerSource, RefreshMode, RefreshReport, RegistryAnswer, SearchResults};
use crate::cache::RegistryCache;
use crate::entry::{EntryStatus, ServerEntry, read_escape};
use crate::error::RegistryError;
use crate::fetch::{JsonFetcher, is_allowed_base};
use crate::rank::SearchQuery;

/// Number of entries of a page that is asked for.
const PAGE_LIMIT: &str = "100";
/// Maximum number of pages of a search at the server.
const MAX_SEARCH_PAGES: usize = 3;
/// Time after which changes of the list are asked for.
const LIST_LIFETIME: SignedDuration = SignedDuration::from_hours(24);
/// Time after which a single answer is asked for again.
const ANSWER_LIFETIME: SignedDuration = SignedDuration::from_mins(10);
/// Maximum time that a search waits for the changes of the list.
const CHANGES_TIMEOUT: Duration = Duration::from_secs(5);

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
            let page = self.cached(&url, "the list of servers", false, |body| self.page(&url, body)).await?;
            let RegistryAnswer { value: page, source, age, offline } = page;
            // The answer is as old as its oldest page.
            whole = Some(match whole {
                Some(known) if known.age > age => known,
                _ => RegistryAnswer { value: (), source, age, offline },
            });
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
        let what = format!("server `{}`", read_escape(name));
        let answer = self.cached(&url, &what, true, |body| self.page(&url, body)).await?;
        let mut versions: Vec<_> =
            answer.value.entries.into_iter().filter(|entry| entry.status() != EntryStatus::Deleted).collect();
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
        let answer = match self.cached(&url, &what, true, |body| self.server_entry(&url, body, name)).await {
            Err(error @ RegistryError::Offline { .. }) => return self.listed(name, version, error).await,
            Err(error @ RegistryError::NotFound { .. }) => {
                if version == "latest" {
                    self.cache.forget(self.base_url(), name).await?;
                }
                return Err(error);
            }
            answer => answer?,
        };
        if answer.value.status() == EntryStatus::Deleted {
            return Err(RegistryError::NotFound { host: self.host().to_owned(), what });
        }
        Ok(answer)
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
