//! Cache lifetime and scope of answers (2026-07-28).

use std::time::Duration;

use hospes_model::CacheScope;

/// Cache lifetime and scope of answers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CacheHint {
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) scope: Option<CacheScope>,
}

impl CacheHint {
    /// Creates the hint for answers that may be cached for `time`.
    pub(crate) fn new(time: Duration, scope: CacheScope) -> Self {
        Self { ttl_ms: Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)), scope: Some(scope) }
    }

    /// Fills in the missing values from `other`.
    pub(crate) fn or(self, other: Self) -> Self {
        Self { ttl_ms: self.ttl_ms.or(other.ttl_ms), scope: self.scope.or(other.scope) }
    }
}
