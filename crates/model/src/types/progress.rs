//! Progress and cancellation.

use serde::{Deserialize, Serialize};

use crate::types::lenient::or_default;
use crate::{Id, Meta, ProgressToken};

/// How far a request has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProgressParams {
    /// The token that came with the request.
    pub progress_token: ProgressToken,
    /// How far; grows with every notification.
    pub progress: f64,
    /// How far it is in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is being done (from 2025-03-26).
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
    /// With what is required.
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

/// A request is no longer wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CancelledParams {
    /// Which; always there but in 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Id>,
    /// Why, for the log.
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
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(CancelledParams {
    some with_request_id(request_id: Id);
    some with_reason(reason: String);
    set with_meta(meta: Meta);
});
