//! Requests to remote endpoints and their complete responses, for flows without I/O.

use std::fmt;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::de::DeserializeOwned;
use url::Url;
use url::form_urlencoded::Serializer;

/// Maximum length of a metadata document, in bytes.
pub const MAX_METADATA_BYTES: usize = 64 * 1024;
/// Maximum length of the response of a token or registration endpoint, in bytes.
pub const MAX_TOKEN_BYTES: usize = 64 * 1024;
/// Maximum length of a key set, in bytes.
pub const MAX_KEYS_BYTES: usize = 256 * 1024;
/// Maximum length of a client's metadata document, in bytes.
pub const MAX_CLIENT_BYTES: usize = 5 * 1024;

/// HTTP request to be sent.
#[derive(Clone)]
#[non_exhaustive]
pub struct FetchRequest {
    /// GET or POST.
    pub method: Method,
    /// Target URL.
    pub url: Url,
    /// Headers, in addition to those that the transport adds.
    pub headers: HeaderMap,
    /// Body of the request. Empty for GET.
    pub body: Bytes,
    /// Maximum length of the response body, in bytes.
    pub max_bytes: usize,
}

impl FetchRequest {
    /// Asks for a JSON document of at most `max_bytes`.
    #[must_use]
    pub fn get(url: Url, max_bytes: usize) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        Self { method: Method::GET, url, headers, body: Bytes::new(), max_bytes }
    }

    /// Creates a POST of a form, for token endpoints.
    #[must_use]
    pub fn form<'a>(url: Url, fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let body = Serializer::new(String::new()).extend_pairs(fields).finish();
        Self::post(url, "application/x-www-form-urlencoded", body.into())
    }

    /// Creates a POST of a JSON document.
    #[must_use]
    pub fn json(url: Url, document: Vec<u8>) -> Self {
        Self::post(url, "application/json", document.into())
    }

    fn post(url: Url, kind: &'static str, body: Bytes) -> Self {
        let mut request = Self::get(url, MAX_TOKEN_BYTES);
        request.method = Method::POST;
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        request.body = body;
        request
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: http::HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}

// Bodies and headers hold secrets.
impl fmt::Debug for FetchRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, without_query(&self.url))
    }
}

/// HTTP response that was received.
#[derive(Clone)]
#[non_exhaustive]
pub struct FetchResponse {
    /// Status of the response.
    pub status: StatusCode,
    /// Headers of the response.
    pub headers: HeaderMap,
    /// Complete body of the response.
    pub body: Bytes,
}

impl FetchResponse {
    /// Creates a response without headers.
    pub fn new(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self { status, headers: HeaderMap::new(), body: body.into() }
    }

    /// Decodes the body.
    ///
    /// # Errors
    /// If the body is not such a document. The error has the position but no part of the body.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, InvalidJson> {
        serde_json::from_slice(&self.body).map_err(|error| InvalidJson(error.line(), error.column()))
    }

    /// Decodes the body, or describes the problem. An object with one of the members `marks` is meant to be such a
    /// document.
    ///
    /// # Errors
    /// If the body is not such a document. The error repeats nothing of the body.
    pub fn decode_marked<T: DeserializeOwned>(&self, marks: &[&str]) -> Result<T, DecodeDocumentError> {
        let value: serde_json::Value = match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => {
                return Err(DecodeDocumentError::Other(
                    InvalidJson(error.line(), error.column()).to_string(),
                ));
            }
        };
        let is_document = marks.iter().any(|mark| value.get(mark).is_some());
        serde_path_to_error::deserialize(&value).map_err(|error| {
            let place = error.path().to_string();
            let inner = error.into_inner();
            // Only what is missing is told in the parser's words: the others repeat what is there.
            let inner = inner.to_string();
            let why = match (place.as_str(), inner.starts_with("missing field")) {
                (".", false) => "unexpected JSON document".to_owned(),
                (".", true) => format!("unexpected JSON document: {inner}"),
                _ => format!("invalid value for `{}`", crate::shown(&place)),
            };
            if is_document { DecodeDocumentError::Malformed(why) } else { DecodeDocumentError::Other(why) }
        })
    }
}

/// Reasons a body cannot be decoded as the expected document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a body is such a document or it is not")]
pub enum DecodeDocumentError {
    /// The body is another kind of document.
    Other(String),
    /// It is one, and this is wrong with it.
    Malformed(String),
}

// The body may hold a token.
impl fmt::Debug for FetchResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.status, self.body.len())
    }
}

/// A body is not the JSON document that it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON document (line {0}, column {1})")]
pub struct InvalidJson(usize, usize);

/// Returns a URL without its query, which may contain secrets.
#[must_use]
pub fn without_query(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    // Both fail only for URLs that cannot have user information, and then there is none to hide.
    let _ = shown.set_password(None);
    let _ = shown.set_username("");
    shown.to_string()
}
