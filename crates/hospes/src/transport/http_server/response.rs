//! Responses of an endpoint: rejections, JSON, streams of events, and their status codes.

use bytes::Bytes;
use hospes_model::{Era, RequestId, RpcError, code};
use hospes_proto::http::{HttpRejection, http_status_for};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

use super::body::Body;

/// The response that a rejection is.
pub(super) fn rejection_response(rejection: &HttpRejection) -> Response<Body> {
    let mut text = Vec::new();
    rejection.write_body(&mut text);
    let mut response = json(rejection.status, text);
    if let Some(allow) = rejection.allow {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    }
    if rejection.status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// There is no room.
pub(super) fn busy_rejection(id: Option<RequestId>, why: String) -> HttpRejection {
    let mut rejection = HttpRejection::new(StatusCode::SERVICE_UNAVAILABLE, RpcError::internal(why));
    rejection.id = id;
    rejection
}

/// A JSON body.
pub(super) fn json(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// No body.
pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// A stream of events.
pub(super) fn events(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // HTTP-39: intermediaries must pass each event on at once.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// The status of an answer, which is an error if it has a code.
pub(super) fn status(code: Option<i64>, era: Era) -> StatusCode {
    code.map_or(StatusCode::OK, |code| http_status_for(&RpcError::new(code, ""), era))
}

/// The status of a refusal by the adapter: what is wrong with a modern request's metadata is a bad request.
pub(super) fn refusal_status(error: &RpcError, era: Era) -> StatusCode {
    match (era, error.code) {
        (Era::Modern, code::INVALID_PARAMS) => StatusCode::BAD_REQUEST,
        _ => http_status_for(error, era),
    }
}
