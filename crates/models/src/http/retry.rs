//! Rules for retries.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;

use super::FailedAttempt;
use crate::ModelLimits;

/// Returns the time to wait before the next attempt, or `None` if there is no further attempt.
pub(super) fn wait(miss: &FailedAttempt, tries: u32, limits: &ModelLimits) -> Option<Duration> {
    if !miss.again || tries > limits.retries {
        return None;
    }
    // The limit of the exponent prevents an overflow.
    let own = limits.backoff.saturating_mul(1 << (tries - 1).min(16)).min(limits.max_wait);
    match miss.after {
        // An earlier attempt would be in vain, and a longer wait than this is too long for a person.
        Some(wanted) if wanted > limits.max_wait => None,
        Some(wanted) => Some(wanted.max(own)),
        None => Some(own),
    }
}

/// Returns the time after which the provider accepts another request: `Retry-After` in seconds or as a date, or a
/// header of some providers in milliseconds.
pub(super) fn parse_retry_after(headers: &HeaderMap, now: jiff::Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    // More precise than the `Retry-After` header beside it.
    if let Some(millis) = text("retry-after-ms").and_then(|millis| millis.parse::<u64>().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let wanted = text(RETRY_AFTER.as_str())?;
    // Some providers send fractions, although RFC 9110, section 10.2.3, has whole seconds only.
    if let Ok(seconds) = wanted.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let then = jiff::fmt::rfc2822::parse(wanted).ok()?.timestamp();
    // A past date means now.
    Some(Duration::try_from(then.duration_since(now)).unwrap_or_default())
}
