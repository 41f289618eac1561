//! Error bodies of providers.

use std::time::Duration;

use serde_json::Value;

/// Relevant parts of an error body, in any of the usual formats.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ProviderErrorBody {
    pub(crate) message: String,
    /// Error code of the provider: `insufficient_quota`, `overloaded_error`, `RESOURCE_EXHAUSTED`.
    pub(crate) code: String,
    pub(crate) retry_after: Option<Duration>,
}

impl ProviderErrorBody {
    /// Parses an error body. A body that is not JSON is its own message.
    pub(crate) fn read(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Self::of(&value),
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                // An HTML page of a proxy adds nothing to the status.
                let page = text.trim_start().starts_with('<');
                Self { message: if page { String::new() } else { text.into_owned() }, ..Self::default() }
            }
        }
    }

    /// Reads an error from JSON: `{"error": {…}}`, `{"error": "…"}`, `{"detail": …}`, `{"message": …}`, or an array of
    /// one.
    pub(crate) fn of(value: &Value) -> Self {
        // Gemini wraps the error in an array if the answer was to be streamed.
        let value = value.get(0).unwrap_or(value);
        let inner = value.get("error").filter(|error| error.is_object()).unwrap_or(value);
        let text = |names: &[&str]| {
            let found = names.iter().find_map(|name| inner.get(name).and_then(Value::as_str));
            found.unwrap_or_default().to_owned()
        };
        let mut message = text(&["message", "error", "detail"]);
        if message.is_empty() {
            message = inner.get("detail").map(Value::to_string).unwrap_or_default();
        }
        Self { message, code: text(&["code", "status", "type"]), retry_after: retry_delay(inner) }
    }

    /// Returns true if waiting will not help, because the account is exhausted.
    pub(crate) fn is_final(&self) -> bool {
        matches!(
            self.code.as_str(),
            "insufficient_quota" | "billing_hard_limit_reached" | "credit_balance_too_low"
        )
    }
}

/// Returns Gemini's retry delay: `{"details": [{"@type": "…RetryInfo", "retryDelay": "17s"}]}`.
fn retry_delay(error: &Value) -> Option<Duration> {
    let details = error.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}
