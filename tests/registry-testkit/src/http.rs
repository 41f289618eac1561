//! Requests and responses of the server.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::Value;

/// A request, as far as the server needs it.
#[derive(Clone, Debug)]
pub(crate) struct TestRequest {
    /// Path with its escapes, because names contain `%2F`.
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) if_none_match: Option<String>,
    pub(crate) authorization: Option<String>,
    pub(crate) is_head: bool,
}

impl TestRequest {
    /// Returns the value of a query parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the segments of the path, without their escapes.
    pub(crate) fn segments(&self) -> Vec<String> {
        let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
        self.path.split('/').skip(1).map(decode).collect()
    }
}

pub(crate) type TestResponse = Response<Full<Bytes>>;

pub(crate) fn respond(status: u16, media_type: &str, body: impl Into<Bytes>) -> TestResponse {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = StatusCode::from_u16(status).expect("statuses are valid");
    with_header(response, "content-type", media_type)
}

pub(crate) fn json(status: u16, body: &Value) -> TestResponse {
    respond(status, "application/json", body.to_string())
}

pub(crate) fn not_found(what: &str) -> TestResponse {
    json(404, &serde_json::json!({ "error": format!("{what} not found") }))
}

pub(crate) fn with_header(mut response: TestResponse, name: &'static str, value: &str) -> TestResponse {
    let name = if name == "content-type" { CONTENT_TYPE } else { HeaderName::from_static(name) };
    response.headers_mut().insert(name, HeaderValue::from_str(value).expect("headers are plain"));
    response
}
