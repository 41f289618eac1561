//! CORS: response headers for pages in a browser whose origin is allowed.

use hospes_proto::http::AdmissionRules;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};

use super::body::Body;
use super::response::{empty, rejection_response};

/// Time for which a browser may cache the answer to a preflight request, in seconds.
const MAX_AGE: &str = "600";

/// Answers a browser that asks whether its page may send a request (a preflight); none when it does not ask that.
pub(super) fn preflight(admission: &AdmissionRules, parts: &Parts) -> Option<Response<Body>> {
    if parts.method != Method::OPTIONS || !parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    if let Err(rejection) = admission.admit_sender(parts.uri.authority(), &parts.headers) {
        return Some(rejection_response(&rejection));
    }
    let origin = parts.headers.get(ORIGIN)?;
    let mut response = empty(StatusCode::NO_CONTENT);
    allow(&mut response, origin);
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    // `Mcp-Param-*` can be anything, so all that it wants to send is allowed.
    if let Some(wanted) = parts.headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
    Some(response)
}

/// Lets pages of this origin, which was admitted, read the response.
pub(super) fn allow<B>(response: &mut Response<B>, origin: &HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    // A shared cache must not give this response to a page of another origin.
    headers.insert(VARY, HeaderValue::from_static("origin"));
    headers.insert(
        ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("mcp-session-id, mcp-protocol-version, www-authenticate, retry-after"),
    );
}
