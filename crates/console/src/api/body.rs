//! JSON bodies of API requests.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::api_error::ApiError;

/// An empty JSON object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EmptyBody {}

/// Extractor of a JSON body. A body that is not valid JSON is reported as an API error.
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let read: Result<Json<T>, JsonRejection> = Json::from_request(request, state).await;
        // axum responds in plain text, but clients expect a JSON error.
        read.map(|Json(body)| Self(body)).map_err(|rejection| ApiError::Misread(rejection.body_text()))
    }
}
