//! Response cache. A server of 2026-07-28 declares how long its lists and resources stay fresh, and for whom.
//!
//! Stale entries are not refreshed in the background; they are fetched on the next request.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hospes_model::{Method, Notification, RawJson, Revision};
use serde::Deserialize;
use tokio::time::Instant;

use crate::client::link::{OutgoingParams, OutgoingRequest};

/// Default size of the response cache in bytes (setting `cache_bytes`).
pub const DEFAULT_CACHE_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of cached responses, regardless of their size.
pub const MAX_CACHED_RESPONSES: usize = 1024;
/// Maximum time a response is cached, regardless of the lifetime the server gives.
pub const MAX_CACHE_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The answers of one connection that are still fresh.
#[derive(Debug, Default)]
pub(crate) struct ResponseCache {
    state: Mutex<ResponseCacheState>,
}

#[derive(Debug, Default)]
struct ResponseCacheState {
    entries: HashMap<ResponseCacheKey, CachedResponse>,
    bytes: usize,
    /// Number of invalidations so far. A response requested before the last one is not cached.
    changes: u64,
    turn: u64,
}

/// Request and audience of a cached response.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ResponseCacheKey {
    method: Method,
    params: Box<[u8]>,
    reader: CacheAudience,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum CacheAudience {
    /// The server declared the response as public.
    Public,
    /// The caller only: one principal, or the client itself.
    Private(Option<Arc<str>>),
}

#[derive(Debug)]
struct CachedResponse {
    answer: RawJson,
    /// The resource, where it is one.
    uri: Option<Box<str>>,
    until: Instant,
    used: u64,
}

/// A request whose response may be cached.
#[derive(Debug)]
pub(crate) struct CacheableRequest {
    key: ResponseCacheKey,
    uri: Option<Box<str>>,
    /// A page that is not the first.
    is_page: bool,
    asked_at: u64,
    max_bytes: usize,
}

/// Caching fields of a result: its lifetime and its scope.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CachingHints<'a> {
    #[serde(borrow, default)]
    result_type: Option<Cow<'a, str>>,
    #[serde(default)]
    ttl_ms: Option<f64>,
    #[serde(borrow, default)]
    cache_scope: Option<Cow<'a, str>>,
}

impl ResponseCache {
    /// Returns the cache key of a request. `None` if the response must not be cached: the method has no cacheable
    /// results, or it is one round of several (CACHE-05).
    pub(crate) fn prepare_request(
        &self,
        outgoing: &OutgoingRequest<'_>,
        revision: Revision,
        max_bytes: usize,
    ) -> Option<CacheableRequest> {
        let method = outgoing.method;
        if revision.is_legacy() || max_bytes == 0 || !method.info().is_some_and(|info| info.cacheable) {
            return None;
        }
        // `Named` is the form of calls and prompts, whose results are never cached.
        let OutgoingParams::Text(params) = outgoing.members else { return None };
        // A retry (CACHE-05); and members of `_meta` that are not
        // part of the key, but may change the answer (CACHE-04).
        if !outgoing.more.is_empty() || !outgoing.meta.members.is_empty() {
            return None;
        }
        let uri = match (method, outgoing.name) {
            (Method::ResourcesRead, Some(uri)) => Some(uri.into()),
            // Changes could not be told of it.
            (Method::ResourcesRead, None) => return None,
            _ => None,
        };
        let reader = CacheAudience::Private(outgoing.principal.cloned());
        let key = ResponseCacheKey { method: method.clone(), params: params.into(), reader };
        let is_page = uri.is_none() && !params.is_empty();
        Some(CacheableRequest { key, uri, is_page, asked_at: self.lock().changes, max_bytes })
    }

    /// Returns the response if it is still fresh, with its remaining lifetime.
    pub(crate) fn find(&self, request: &CacheableRequest) -> Option<RawJson> {
        let mut state = self.lock();
        if state.entries.is_empty() {
            return None;
        }
        let now = Instant::now();
        state.turn += 1;
        let turn = state.turn;
        let public = ResponseCacheKey { reader: CacheAudience::Public, ..request.key.clone() };
        for key in [&request.key, &public] {
            let Some(entry) = state.entries.get_mut(key) else { continue };
            if entry.until <= now {
                state.remove(key);
                continue;
            }
            entry.used = turn;
            let left = u64::try_from((entry.until - now).as_millis()).unwrap_or(u64::MAX);
            let left = RawJson::from_serialize(&left).ok()?;
            return Some(entry.answer.with_member("ttlMs", &left));
        }
        None
    }

    /// Stores a response for its declared lifetime.
    pub(crate) fn store(&self, request: CacheableRequest, answer: &RawJson) {
        let Ok(hints) = answer.decode::<CachingHints<'_>>() else { return };
        if hints.result_type.is_some_and(|kind| kind != "complete") {
            return;
        }
        // Nothing, zero and less mean that it is stale at once (CACHE-03).
        let Some(ttl) = hints.ttl_ms.filter(|ttl| *ttl >= 1.0) else { return };
        let ttl = Duration::try_from_secs_f64(ttl / 1000.0).unwrap_or(MAX_CACHE_TTL).min(MAX_CACHE_TTL);
        let size = answer.as_bytes().len() + request.key.params.len();
        if size > request.max_bytes {
            return;
        }
        let mut state = self.lock();
        if state.changes != request.asked_at {
            // It may be from before the change.
            return;
        }
        let public = ResponseCacheKey { reader: CacheAudience::Public, ..request.key.clone() };
        // The scope may have changed since the last answer: none may stay behind under the other key.
        state.remove(&request.key);
        state.remove(&public);
        let key = if hints.cache_scope.is_some_and(|scope| scope == "public") { public } else { request.key };
        state.make_room(size, request.max_bytes);
        state.turn += 1;
        state.bytes += size;
        // The message that it came in is not kept with it.
        let (answer, used) = (answer.detached(), state.turn);
        let entry = CachedResponse { answer, uri: request.uri, until: Instant::now() + ttl, used };
        state.entries.insert(key, entry);
    }

    /// Discards the pages of a list after the server rejected a cursor, because they belong to an older list
    /// (CACHE-11).
    pub(crate) fn forget_pages(&self, request: &CacheableRequest) {
        if request.is_page {
            let method = &request.key.method;
            self.forget(|key, _| key.method == *method);
        }
    }

    /// Invalidates the entries that a change notification affects (CACHE-10).
    pub(crate) fn invalidate(&self, change: &Notification) {
        match change {
            Notification::ToolsListChanged => self.forget(|key, _| key.method == Method::ToolsList),
            Notification::PromptsListChanged => self.forget(|key, _| key.method == Method::PromptsList),
            Notification::ResourcesListChanged => self
                .forget(|key, _| matches!(key.method, Method::ResourcesList | Method::ResourceTemplatesList)),
            // With a part of it the whole has changed too, and the other way round.
            Notification::ResourceUpdated(params) => self.forget(|_, entry| {
                let uri = entry.uri.as_deref();
                uri.is_some_and(|uri| covers_uri(uri, &params.uri) || covers_uri(&params.uri, uri))
            }),
            _ => {}
        }
    }

    /// Removes all entries.
    pub(crate) fn clear(&self) {
        self.forget(|_, _| true);
    }

    fn forget(&self, concerned: impl Fn(&ResponseCacheKey, &CachedResponse) -> bool) {
        let mut state = self.lock();
        // Counted even if nothing is removed: an answer that is
        // under way may be from before the change (see `keep`).
        state.changes += 1;
        let ResponseCacheState { entries, bytes, .. } = &mut *state;
        entries.retain(|key, entry| {
            let stays = !concerned(key, entry);
            if !stays {
                *bytes -= entry.size(key);
            }
            stays
        });
    }

    fn lock(&self) -> MutexGuard<'_, ResponseCacheState> {
        // The state is consistent after every statement that can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedResponse {
    fn size(&self, key: &ResponseCacheKey) -> usize {
        self.answer.as_bytes().len() + key.params.len()
    }
}

impl ResponseCacheState {
    fn remove(&mut self, key: &ResponseCacheKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= entry.size(key);
        }
    }

    /// Evicts stale entries first, then the least recently used.
    fn make_room(&mut self, size: usize, max_bytes: usize) {
        if self.bytes + size <= max_bytes && self.entries.len() < MAX_CACHED_RESPONSES {
            return;
        }
        let now = Instant::now();
        let stale: Vec<ResponseCacheKey> =
            self.entries.iter().filter(|(_, entry)| entry.until <= now).map(|(key, _)| key.clone()).collect();
        stale.iter().for_each(|key| self.remove(key));
        while self.bytes + size > max_bytes || self.entries.len() >= MAX_CACHED_RESPONSES {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { return };
            self.remove(&oldest);
        }
    }
}

/// Returns true if `uri` is the resource `whole` or a part of it.
pub(crate) fn covers_uri(whole: &str, uri: &str) -> bool {
    uri.strip_prefix(whole)
        // A part begins behind a separator: `a://xy` is no part of `a://x`.
        .is_some_and(|rest| rest.is_empty() || whole.ends_with('/') || rest.starts_with(['/', '?', '#']))
}

#[cfg(test)]
mod tests {
    use hospes_model::ResourceUpdatedParams;
    use hospes_proto::session::client::TimeLimits;
    use serde_json::json;

    use super::*;

    const ENOUGH: usize = 100_000;

    fn list<'a>(params: &'a [u8]) -> OutgoingRequest<'a> {
        let members = OutgoingParams::Text(params);
        OutgoingRequest { members, ..OutgoingRequest::new(&Method::ToolsList, TimeLimits::NONE) }
    }

    fn read<'a>(uri: &'a str, params: &'a [u8]) -> OutgoingRequest<'a> {
        let (name, members) = (Some(uri), OutgoingParams::Text(params));
        OutgoingRequest { name, members, ..OutgoingRequest::new(&Method::ResourcesRead, TimeLimits::NONE) }
    }

    fn answer(text: &str, scope: &str) -> RawJson {
        json!({ "text": text, "ttlMs": 60_000, "cacheScope": scope, "resultType": "complete" }).into()
    }

    fn request(cache: &ResponseCache, outgoing: &OutgoingRequest<'_>, max: usize) -> CacheableRequest {
        cache.prepare_request(outgoing, Revision::LATEST, max).unwrap()
    }

    fn keep(cache: &ResponseCache, outgoing: &OutgoingRequest<'_>, answer: &RawJson) {
        cache.store(request(cache, outgoing, ENOUGH), answer);
    }

    fn has(cache: &ResponseCache, outgoing: &OutgoingRequest<'_>) -> bool {
        cache.find(&request(cache, outgoing, ENOUGH)).is_some()
    }

    /// covers: CACHE-03 CACHE-04
    #[tokio::test(start_paused = true)]
    async fn an_answer_is_given_again_to_the_same_question_while_it_is_fresh() {
        let cache = ResponseCache::default();
        let (first, second) = (list(b""), list(b"\"cursor\":\"2\""));
        let prompts = OutgoingRequest {
            members: first.members,
            ..OutgoingRequest::new(&Method::PromptsList, first.limits)
        };
        keep(&cache, &first, &answer("a", "private"));
        assert!(has(&cache, &first));
        assert!(!has(&cache, &second), "other params");
        assert!(!has(&cache, &prompts), "another method");
        tokio::time::advance(Duration::from_secs(59)).await;
        let found = cache.find(&request(&cache, &first, ENOUGH)).unwrap().to_value().unwrap();
        assert_eq!((&found["text"], &found["ttlMs"]), (&json!("a"), &json!(1_000)), "it is older now");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!has(&cache, &first));
        for ttl in [json!(0), json!(-5), json!("60000"), json!(null), json!(0.5)] {
            keep(&cache, &first, &json!({ "ttlMs": ttl, "cacheScope": "public" }).into());
            assert!(!has(&cache, &first), "{ttl}");
        }
        keep(&cache, &first, &json!({ "cacheScope": "public" }).into());
        assert!(!has(&cache, &first), "no ttl");
        keep(&cache, &first, &json!({ "ttlMs": 1e300 }).into());
        tokio::time::advance(MAX_CACHE_TTL).await;
        assert!(!has(&cache, &first), "nothing is fresh for ever");
    }

    /// covers: CACHE-05
    #[test]
    fn rounds_of_questions_are_not_kept() {
        let cache = ResponseCache::default();
        let plain = read("a://x", b"\"uri\":\"a://x\"");
        keep(&cache, &plain, &json!({ "resultType": "input_required", "ttlMs": 60_000 }).into());
        assert!(!has(&cache, &plain));
        let retry = OutgoingRequest { more: b"\"requestState\":\"s\"", ..plain };
        assert!(cache.prepare_request(&retry, Revision::LATEST, ENOUGH).is_none());
        let call = OutgoingRequest::new(&Method::ToolsCall, TimeLimits::NONE);
        assert!(cache.prepare_request(&call, Revision::LATEST, ENOUGH).is_none());
        assert!(
            cache.prepare_request(&plain, Revision::LATEST_LEGACY, ENOUGH).is_none(),
            "older ones say nothing of it"
        );
    }

    /// covers: CACHE-06
    #[test]
    fn what_is_private_is_for_whoever_asked() {
        let cache = ResponseCache::default();
        let (ada, bob) = (Arc::from("ada"), Arc::from("bob"));
        let of = |principal| OutgoingRequest { principal, ..read("a://x", b"\"uri\":\"a://x\"") };
        keep(&cache, &of(Some(&ada)), &answer("hers", "private"));
        assert!(has(&cache, &of(Some(&ada))));
        assert!(!has(&cache, &of(Some(&bob))));
        assert!(!has(&cache, &of(None)));
        keep(&cache, &of(Some(&bob)), &json!({ "ttlMs": 60_000, "cacheScope": "for friends" }).into());
        assert!(!has(&cache, &of(None)), "what is not said to be public is private");
        keep(&cache, &of(Some(&bob)), &answer("everybody's", "public"));
        assert!(has(&cache, &of(None)));
    }

    /// covers: CACHE-10
    #[test]
    fn a_change_ends_what_it_concerns_at_once() {
        let cache = ResponseCache::default();
        let (tools, x, y) =
            (list(b""), read("a://x", b"\"uri\":\"a://x\""), read("a://y", b"\"uri\":\"a://y\""));
        for kept in [&tools, &x, &y] {
            keep(&cache, kept, &answer("", "private"));
        }
        cache.invalidate(&Notification::PromptsListChanged);
        assert!(has(&cache, &tools) && has(&cache, &x) && has(&cache, &y));
        cache.invalidate(&Notification::ToolsListChanged);
        assert!(!has(&cache, &tools) && has(&cache, &x));
        cache.invalidate(&Notification::ResourceUpdated(ResourceUpdatedParams::new("a://x/part")));
        assert!(!has(&cache, &x) && has(&cache, &y));
        // What was under way meanwhile may be from before.
        let under_way = request(&cache, &tools, ENOUGH);
        cache.invalidate(&Notification::ToolsListChanged);
        cache.store(under_way, &answer("old", "private"));
        assert!(!has(&cache, &tools));
        cache.clear();
        assert!(!has(&cache, &y));
        assert_eq!(cache.lock().bytes, 0);
    }

    /// covers: CACHE-11
    #[test]
    fn a_refused_cursor_ends_all_pages_of_its_list() {
        let cache = ResponseCache::default();
        let (first, second, x) = (list(b""), list(b"\"cursor\":\"2\""), read("a://x", b"\"uri\":\"a://x\""));
        for kept in [&first, &second, &x] {
            keep(&cache, kept, &answer("", "private"));
        }
        cache.forget_pages(&request(&cache, &first, ENOUGH));
        assert!(has(&cache, &first), "there was no cursor");
        cache.forget_pages(&request(&cache, &second, ENOUGH));
        assert!(!has(&cache, &first) && !has(&cache, &second) && has(&cache, &x));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let cache = ResponseCache::default();
        let text = answer(&"x".repeat(1000), "private");
        let uris: Vec<String> = (0..8).map(|number| format!("\"uri\":\"a://{number}\"")).collect();
        for uri in &uris {
            // The first is looked at again and again.
            cache.find(&request(&cache, &read("a://", uris[0].as_bytes()), 5000));
            cache.store(request(&cache, &read("a://", uri.as_bytes()), 5000), &text);
            assert!(cache.lock().bytes <= 5000);
        }
        let kept: Vec<bool> = uris.iter().map(|uri| has(&cache, &read("a://", uri.as_bytes()))).collect();
        assert_eq!(kept, [true, false, false, false, false, true, true, true]);
        let large = answer(&"x".repeat(6000), "private");
        cache.store(request(&cache, &list(b""), 5000), &large);
        assert!(!has(&cache, &list(b"")));
        for number in 0..2 * MAX_CACHED_RESPONSES {
            let params = format!("\"cursor\":\"{number}\"");
            keep(&cache, &list(params.as_bytes()), &answer("", "private"));
        }
        assert_eq!(cache.lock().entries.len(), MAX_CACHED_RESPONSES);
    }
}
