//! A request to somebody's endpoint and its response, as the flows see them: whole, and without a socket.

use std::fmt;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::de::DeserializeOwned;
use url::Url;
use url::form_urlencoded::Serializer;

/// How long a metadata document may be, in bytes.
pub const MAX_METADATA_BYTES: usize = 64 * 1024;
/// How long the answer of a token or registration endpoint may be, in bytes.
pub const MAX_TOKEN_BYTES: usize = 64 * 1024;
/// How long a set of keys may be, in bytes.
pub const MAX_KEYS_BYTES: usize = 256 * 1024;
/// How long a client's metadata document may be, in bytes.
pub const MAX_CLIENT_BYTES: usize = 5 * 1024;

/// What is to be sent.
#[derive(Clone)]
#[non_exhaustive]
pub struct Request {
    /// GET or POST.
    pub method: Method,
    /// Where to.
    pub url: Url,
    /// Besides what the transport adds of its own.
    pub headers: HeaderMap,
    /// Empty for GET.
    pub body: Bytes,
    /// How long the response's body may be, in bytes.
    pub max_bytes: usize,
}

impl Request {
    /// Asks for a JSON document of at most `max_bytes`.
    #[must_use]
    pub fn get(url: Url, max_bytes: usize) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        Self { method: Method::GET, url, headers, body: Bytes::new(), max_bytes }
    }

    /// Posts a form, as token endpoints take it.
    #[must_use]
    pub fn form<'a>(url: Url, fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let body = Serializer::new(String::new()).extend_pairs(fields).finish();
        Self::post(url, "application/x-www-form-urlencoded", body.into())
    }

    /// Posts a JSON document.
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

    /// With one more header.
    #[must_use]
    pub fn header(mut self, name: http::HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}

// Bodies and headers hold secrets.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, without_query(&self.url))
    }
}

/// What came back.
#[derive(Clone)]
#[non_exhaustive]
pub struct Response {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its whole body.
    pub body: Bytes,
}

impl Response {
    /// One without headers.
    pub fn new(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self { status, headers: HeaderMap::new(), body: body.into() }
    }

    /// The body as what it should be.
    ///
    /// # Errors
    /// When it is none. The error says where, and nothing of the body.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, NotJson> {
        serde_json::from_slice(&self.body).map_err(|error| NotJson(error.line(), error.column()))
    }

    /// The body as what it should be, or what is wrong with it. What has one of the members `marks` means to be such a
    /// document.
    pub(crate) fn decode_marked<T: DeserializeOwned>(&self, marks: &[&str]) -> Result<T, Undecoded> {
        let value: serde_json::Value = match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => return Err(Undecoded::Other(NotJson(error.line(), error.column()).to_string())),
        };
        let is_document = marks.iter().any(|mark| value.get(mark).is_some());
        serde_path_to_error::deserialize(&value).map_err(|error| {
            let place = error.path().to_string();
            let inner = error.into_inner();
            // Only what is missing is told in the parser's words: the others repeat what is there.
            let inner = inner.to_string();
            let why = match (place.as_str(), inner.starts_with("missing field")) {
                (".", false) => "is not the JSON document that it should be".to_owned(),
                (".", true) => format!("is not the JSON document that it should be: {inner}"),
                _ => format!("has a `{}` that is not what it should be", crate::shown(&place)),
            };
            if is_document { Undecoded::Malformed(why) } else { Undecoded::Other(why) }
        })
    }
}

/// Why a body is not a document.
pub(crate) enum Undecoded {
    /// It is none at all.
    Other(String),
    /// It is one, and this is wrong with it.
    Malformed(String),
}

// The body may hold a token.
impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.status, self.body.len())
    }
}

/// A body is not the JSON document that it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not the JSON document that it should be (line {0}, column {1})")]
pub struct NotJson(usize, usize);

/// A URL as it may be shown: what is in its query may be a secret.
pub(crate) fn without_query(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    let _ = shown.set_password(None);
    let _ = shown.set_username("");
    shown.to_string()
}
