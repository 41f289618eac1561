//! Progress and cancellation.

use serde::{Deserialize, Serialize};

use crate::types::lenient::{self, or_default};
use crate::{Meta, ProgressToken, RequestId};

/// Params of `notifications/progress`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProgressParams {
    /// Progress token of the request.
    pub progress_token: ProgressToken,
    /// Progress so far; grows with every notification.
    #[serde(serialize_with = "lenient::plain_number")]
    pub progress: f64,
    /// Total amount of work.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "lenient::plain_number_if_any"
    )]
    pub total: Option<f64>,
    /// Message about the current work (from 2025-03-26).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl ProgressParams {
    /// Creates a `ProgressParams` with the required members; all others are absent.
    #[must_use]
    pub fn new(progress_token: ProgressToken, progress: f64) -> Self {
        Self { progress_token, progress, total: None, message: None, meta: Meta::new() }
    }
}

setters!(ProgressParams {
    some with_total(total: f64);
    some with_message(message: String);
    set with_meta(meta: Meta);
});

/// Params of `notifications/cancelled`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CancelledParams {
    /// Id of the cancelled request; always present except in 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// Reason, for the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl CancelledParams {
    /// Creates an empty `CancelledParams`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(CancelledParams {
    some with_request_id(request_id: RequestId);
    some with_reason(reason: String);
    set with_meta(meta: Meta);
});

#[cfg(test)]
mod tests {
    use super::*;

    /// covers: PROG-06
    #[test]
    fn whole_progress_is_written_whole_and_what_is_no_number_not_at_all() {
        let text = |progress, total| {
            serde_json::to_string(&ProgressParams::new(1.into(), progress).with_total(total))
        };
        assert_eq!(text(50.0, 100.5).unwrap(), r#"{"progressToken":1,"progress":50,"total":100.5}"#);
        assert_eq!(text(-0.0, 1e300).unwrap(), r#"{"progressToken":1,"progress":0,"total":1e+300}"#);
        assert!(text(f64::NAN, 1.0).is_err());
        assert!(text(1.0, f64::INFINITY).is_err());
    }
}
