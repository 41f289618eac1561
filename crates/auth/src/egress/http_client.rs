//! HTTP client for requests to URLs from untrusted sources.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use hospes_http_client::{EgressClient, EgressPolicy, FetchError, read_body};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, USER_AGENT};
use http::{HeaderValue, StatusCode};
use http_body_util::Full;

use crate::exchange::without_query;
use crate::{FetchRequest, FetchResponse};

/// Maximum duration of a whole request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time to establish a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// HTTP client for URLs from untrusted parties. The address that is checked is the address that is dialled. Redirects
/// are not followed, proxies of the environment are ignored, and connections are not reused. A response is limited to
/// 10 seconds and a number of bytes.
#[derive(Clone, Debug)]
pub struct GuardedClient(EgressClient);

impl GuardedClient {
    /// Creates a client with this egress policy.
    #[must_use]
    pub fn new(egress: EgressPolicy) -> Self {
        Self(EgressClient::new(egress, CONNECT_TIMEOUT))
    }

    /// Trusts the certificate authorities in these PEM files too, besides those of the environment (`SSL_CERT_FILE`,
    /// `SSL_CERT_DIR`), or those built in. A file that cannot be used is an error of every request.
    #[must_use]
    pub fn ca_files(self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(self.0.ca_files(files))
    }

    /// Checks whether a request may be sent to this URL, as far as the URL alone shows.
    ///
    /// # Errors
    /// The reason that it may not.
    pub fn check(&self, url: &url::Url) -> Result<(), FetchError> {
        self.0.check(url)
    }

    /// Sends a request and reads the whole response, whatever its status. The body of a successful response that is not
    /// JSON is left unread, because all expected documents are JSON.
    ///
    /// # Errors
    /// If requests to the URL are not allowed, the server does not answer, or the response is too long.
    pub async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        self.0.check(&request.url)?;
        let shown = without_query(&request.url);
        let (method, max) = (request.method.clone(), request.max_bytes);
        // One limit for everything: a server that sends byte by byte must not hold a request open.
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, self.send(request, max)).await;
        let answer = answer.unwrap_or(Err(FetchError::Timeout));
        match &answer {
            Ok(response) => tracing::debug!(%method, url = shown, status = %response.status, "asked"),
            Err(error) => tracing::debug!(%method, url = shown, %error, "asked"),
        }
        answer
    }

    async fn send(&self, request: FetchRequest, max: usize) -> Result<FetchResponse, FetchError> {
        let mut sent = http::Request::new(Full::new(request.body));
        *sent.method_mut() = request.method;
        *sent.headers_mut() = request.headers;
        let agent = HeaderValue::from_static(concat!("hospes/", env!("CARGO_PKG_VERSION")));
        sent.headers_mut().insert(USER_AGENT, agent);
        let answer = self.0.send(&request.url, sent).await?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = match status == StatusCode::OK && !is_json(&headers) {
            true => Bytes::new(),
            false => read_body(answer, max).await?,
        };
        Ok(FetchResponse { status, headers, body })
    }
}

/// Returns true if the body is declared as JSON and has no content encoding. Compressed responses are never requested.
fn is_json(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let kind = text(CONTENT_TYPE).and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    let json = kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"));
    json && text(CONTENT_ENCODING).is_none_or(|how| how.eq_ignore_ascii_case("identity"))
}

#[cfg(test)]
mod tests;
