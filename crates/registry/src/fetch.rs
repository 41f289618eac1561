//! HTTP requests: guarded, limited in time and size, without redirects to other hosts.

use std::time::Duration;

use bytes::Bytes;
use hospes_http_client::{EgressClient, EgressPolicy, FetchError, is_loopback, read_body};
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, HeaderMap, IF_NONE_MATCH, LOCATION, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::Full;
use url::Url;

/// Maximum duration of a request for JSON.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time to establish a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a page, in bytes.
pub(crate) const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;
/// Maximum size of the head of a response in bytes, and maximum number of headers.
const MAX_HEAD: (usize, usize) = (64 * 1024, 200);
/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 5;

/// Client for JSON of registries.
#[derive(Clone, Debug)]
pub(crate) struct JsonFetcher(EgressClient);

/// A response that was read.
#[derive(Clone, Debug)]
pub(crate) struct JsonResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl JsonFetcher {
    /// Creates a client for a base URL that a person has chosen. Its host may be on a private network. http is allowed on
    /// this machine only.
    pub(crate) fn for_base(base: &Url) -> Self {
        Self::with_policy(EgressPolicy::of_endpoint(base))
    }

    pub(crate) fn with_policy(policy: EgressPolicy) -> Self {
        Self(EgressClient::new(policy, CONNECT_TIMEOUT).max_head(MAX_HEAD.0, MAX_HEAD.1))
    }

    /// Sends a GET request, and reads the response. Redirects are followed only to the same origin.
    pub(crate) async fn get(
        &self,
        url: &Url,
        headers: &HeaderMap,
        max_bytes: usize,
    ) -> Result<JsonResponse, FetchError> {
        // One limit for everything: a server that sends byte by byte must not hold a request open.
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, self.follow(url, headers, max_bytes)).await;
        let answer = answer.unwrap_or(Err(FetchError::Timeout));
        match &answer {
            Ok(response) => tracing::debug!(url = shown(url), status = %response.status, "asked a registry"),
            Err(error) => tracing::debug!(url = shown(url), %error, "asked a registry"),
        }
        answer
    }

    async fn follow(
        &self,
        url: &Url,
        headers: &HeaderMap,
        max_bytes: usize,
    ) -> Result<JsonResponse, FetchError> {
        let mut url = url.clone();
        for _ in 0..MAX_REDIRECTS {
            let response = self.0.send(&url, get_request(headers)).await?;
            let (status, headers) = (response.status(), response.headers().clone());
            match redirect_target(&url, status, &headers) {
                Some(target) if target.origin() == url.origin() => url = target,
                // The caller reports where it leads.
                Some(_) => return Ok(JsonResponse { status, headers, body: Bytes::new() }),
                None => {
                    return Ok(JsonResponse { status, headers, body: read_body(response, max_bytes).await? });
                }
            }
        }
        Err(FetchError::Broken)
    }
}

/// Creates a GET request with the common headers.
pub(crate) fn get_request(headers: &HeaderMap) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.method_mut() = Method::GET;
    *request.headers_mut() = headers.clone();
    let agent = HeaderValue::from_static(concat!("hospes/", env!("CARGO_PKG_VERSION")));
    request.headers_mut().insert(USER_AGENT, agent);
    request.headers_mut().entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
    request
}

/// Returns where a response redirects to.
pub(crate) fn redirect_target(url: &Url, status: StatusCode, headers: &HeaderMap) -> Option<Url> {
    let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = headers.get(LOCATION).filter(|_| is_redirect)?;
    url.join(location.to_str().ok()?).ok()
}

/// Creates headers for a conditional request.
pub(crate) fn if_none_match(etag: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(value) = etag.and_then(|etag| HeaderValue::from_str(etag).ok()) {
        headers.insert(IF_NONE_MATCH, value);
    }
    headers
}

impl JsonResponse {
    /// Returns the `ETag`, if there is a usable one.
    pub(crate) fn etag(&self) -> Option<String> {
        const MAX_ETAG: usize = 512;
        let etag = self.headers.get(ETAG)?.to_str().ok()?;
        (etag.len() <= MAX_ETAG).then(|| etag.to_owned())
    }

    /// Returns the declared media type, without parameters.
    pub(crate) fn media_type(&self) -> String {
        let text = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Returns true if the body begins as a page of HTML does.
    pub(crate) fn is_html(&self) -> bool {
        let start = self.body.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or_default();
        self.media_type() == "text/html" || self.body[start..].first() == Some(&b'<')
    }
}

/// Returns why a host that is named before was not reached.
pub(crate) fn fetch_reason(error: &FetchError) -> String {
    match error {
        FetchError::Unreachable => "no connection was opened".to_owned(),
        FetchError::Timeout => "it did not answer in time".to_owned(),
        FetchError::Tls(failure) => failure.to_string(),
        other => other.to_string(),
    }
}

/// Returns what a person can do about a host that was not reached.
pub(crate) fn fetch_advice(error: &FetchError) -> &'static str {
    match error {
        FetchError::Unreachable => {
            "check the network: no proxy is used, so the host must be reached directly"
        }
        FetchError::Tls(failure) => failure.advice(),
        FetchError::Timeout => "check the network and try again",
        FetchError::Forbidden(_) => {
            "only hosts that you configured may be on this machine or a private network"
        }
        FetchError::TooLarge { .. } => "tell its operator: smaller answers are read",
        FetchError::Trust(_) => "correct the file of certificates",
        _ => "try again: if it stays, something between this machine and the host cuts the answer",
    }
}

/// Returns what a person can do about a status that is no success.
pub(crate) fn status_advice(status: u16) -> &'static str {
    match status {
        401 | 403 | 407 => "it demands a sign-in, or refuses this network",
        429 => "there were too many requests: try again in some minutes",
        500..=599 => "it has a problem of its own: try again later",
        _ => "check its URL",
    }
}

/// Description of a page of HTML in the place of JSON.
pub(crate) const HTML_PAGE: &str =
    "it sent a page of HTML, which may be the sign-in page of a network or a proxy";

/// Formats a URL for logs and errors, without its query.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

/// Returns true if the base URL of a registry leads to this machine.
#[must_use]
pub fn is_local_registry(base_url: &str) -> bool {
    Url::parse(base_url).is_ok_and(|url| is_loopback(&url))
}

/// Returns true if a URL of a user may be used: https, or http on this machine.
pub(crate) fn is_allowed_base(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url))
}
