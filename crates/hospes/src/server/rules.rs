//! Rules of a server for its callers and for its output, beyond its handlers.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hospes_model::{CacheScope, CallToolResult, ContentBlock, ResourceBody, RpcError};
use serde::Serialize;

use crate::context::Context;
use crate::logging::LogRules;
use crate::rate::{Rate, RateBucket};
use crate::server::cache_hint::CacheHint;

/// Default rate of completions per caller; the setting `completion_rate`. A person who types asks for a few a second.
pub const DEFAULT_COMPLETION_RATE: Rate = Rate::per_second(100).burst(200);

/// Maximum number of callers with a count of their own; further ones share one count.
pub const MAX_COUNTED_CALLERS: usize = 10_000;

/// Something of a server that a caller may or may not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feature<'a> {
    /// The tool of this name.
    Tool(&'a str),
    /// The prompt of this name.
    Prompt(&'a str),
    /// The resource at this URI, registered or made by a template.
    Resource(&'a str),
    /// The resource template with this text, and so all it makes.
    ResourceTemplate(&'a str),
}

type FeatureAuthorizer = dyn Fn(&Context, Feature<'_>) -> bool + Send + Sync;
type ResultSanitizer = dyn Fn(&str, &mut CallToolResult) + Send + Sync;

/// The rules of one server.
#[derive(Clone)]
pub(crate) struct ServerRules {
    pub(super) guard: Option<Arc<FeatureAuthorizer>>,
    pub(super) sanitizer: Option<Arc<ResultSanitizer>>,
    pub(super) tools: Option<Arc<CallerRateLimiter>>,
    pub(super) completions: Arc<CallerRateLimiter>,
    pub(super) logging: Arc<LogRules>,
}

impl ServerRules {
    pub(crate) fn new(name: &str) -> Self {
        let logging = LogRules { logger: Some(name.into()), ..LogRules::default() };
        Self {
            guard: None,
            sanitizer: None,
            tools: None,
            completions: Arc::new(CallerRateLimiter::new(DEFAULT_COMPLETION_RATE)),
            logging: Arc::new(logging),
        }
    }

    pub(crate) fn logging(&self) -> &Arc<LogRules> {
        &self.logging
    }

    /// Returns true if every caller may use everything.
    pub(crate) fn is_open(&self) -> bool {
        self.guard.is_none()
    }

    /// Returns true if this caller may use the feature.
    pub(crate) fn allows(&self, context: &Context, feature: Feature<'_>) -> bool {
        self.guard.as_ref().is_none_or(|guard| guard(context, feature))
    }

    /// Restricts caching to the caller if callers may use different things (CACHE-13).
    pub(crate) fn cache(&self, cache: CacheHint) -> CacheHint {
        if self.is_open() { cache } else { CacheHint { scope: Some(CacheScope::Private), ..cache } }
    }

    pub(crate) fn tool_limit(&self) -> Option<&CallerRateLimiter> {
        self.tools.as_deref()
    }

    pub(crate) fn completion_limit(&self) -> &CallerRateLimiter {
        &self.completions
    }

    pub(crate) fn sanitize(&self, tool: &str, result: &mut CallToolResult) {
        if let Some(sanitizer) = &self.sanitizer {
            sanitizer(tool, result);
        }
    }
}

impl fmt::Debug for ServerRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerRules")
            .field("open", &self.is_open())
            .field("tools", &self.tools)
            .field("completions", &self.completions)
            .finish_non_exhaustive()
    }
}

/// Removes characters from a result's texts that a person does not see but a model reads or a terminal obeys. These are
/// control characters other than line breaks and tabs, Unicode's tag characters, and the overrides of writing
/// direction. For [`Server::sanitize_results`](crate::Server::sanitize_results); not for tools whose texts must arrive byte for byte.
pub fn hide_invisible(_tool: &str, result: &mut CallToolResult) {
    for block in &mut result.content {
        match block {
            ContentBlock::Text(content) => strip_invisible(&mut content.text),
            ContentBlock::Resource(embedded) => {
                if let ResourceBody::Text(text) = &mut embedded.resource.body {
                    strip_invisible(text);
                }
            }
            _ => {}
        }
    }
}

fn strip_invisible(text: &mut String) {
    if let Cow::Owned(visible) = visible(text) {
        *text = visible;
    }
}

fn visible(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
            || matches!(c, '\u{e0000}'..='\u{e007f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.contains(hidden) { Cow::Owned(text.replace(hidden, "")) } else { Cow::Borrowed(text) }
}

/// Rate limiter by caller. Signed-in callers are counted separately, all others together, because they cannot be told
/// apart.
pub(crate) struct CallerRateLimiter {
    rate: Rate,
    anybody: RateBucket,
    known: Mutex<HashMap<Arc<str>, Arc<RateBucket>>>,
}

impl CallerRateLimiter {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, anybody: RateBucket::new(), known: Mutex::default() }
    }

    /// Counts one more of `what`, or says in a sentence why not.
    pub(crate) fn take(&self, context: &Context, what: &str, setting: &str) -> Result<(), CallRateError> {
        let taken = match &context.peer().principal {
            None => self.anybody.take(self.rate),
            Some(principal) => match self.bucket(principal) {
                Some(bucket) => bucket.take(self.rate),
                None => self.anybody.take(self.rate),
            },
        };
        taken.map_err(|wait| CallRateError {
            text: format!(
                "too many {what}: the limit is {} (setting {setting}); try again in {} ms",
                self.rate,
                wait.as_millis() + 1
            ),
            wait,
        })
    }

    fn bucket(&self, principal: &Arc<str>) -> Option<Arc<RateBucket>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = known.get(principal) {
            return Some(Arc::clone(bucket));
        }
        if known.len() >= MAX_COUNTED_CALLERS {
            known.retain(|_, bucket| !bucket.is_idle());
        }
        if known.len() >= MAX_COUNTED_CALLERS {
            return None;
        }
        let bucket = Arc::new(RateBucket::new());
        known.insert(Arc::clone(principal), Arc::clone(&bucket));
        Some(bucket)
    }
}

impl fmt::Debug for CallerRateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Limiter({})", self.rate)
    }
}

/// A caller has come too often.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct CallRateError {
    text: String,
    wait: Duration,
}

impl CallRateError {
    /// Converts into a protocol error with the time to wait in its data.
    pub(crate) fn to_rpc(&self) -> RpcError {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct RetryAfterData {
            retry_after_ms: u128,
        }
        RpcError::internal(self.text.clone())
            // Rounded up: who waits for exactly this long must not be refused again.
            .with_data(&RetryAfterData { retry_after_ms: self.wait.as_millis() + 1 })
    }
}
