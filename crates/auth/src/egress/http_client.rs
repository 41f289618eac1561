//! HTTP client for requests to URLs that others supplied.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hospes_http_client::{EgressConnector, EgressPolicy, FetchError, HostLookup};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, USER_AGENT};
use http::{HeaderValue, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::exchange::without_query;
use crate::{FetchRequest, FetchResponse};

/// Maximum duration of a whole request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time to establish a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// HTTP client for URLs from untrusted parties. The address that is checked is the address that is dialled. Redirects
/// are not followed, proxies of the environment are ignored, and connections are not reused. A response is limited to
/// 10 seconds and a number of bytes.
#[derive(Clone)]
pub struct GuardedClient {
    egress: Arc<EgressPolicy>,
    lookup: HostLookup,
    ca_files: Vec<PathBuf>,
    /// Made when it is first needed: to read all authorities takes a moment.
    client: Arc<OnceLock<Result<EgressSender, FetchError>>>,
}

type EgressSender = Client<EgressConnector, Full<Bytes>>;

impl GuardedClient {
    /// One that goes where `egress` lets it.
    #[must_use]
    pub fn new(egress: EgressPolicy) -> Self {
        Self::with_lookup(egress, hospes_http_client::system_lookup())
    }

    fn with_lookup(egress: EgressPolicy, lookup: HostLookup) -> Self {
        Self { egress: Arc::new(egress), lookup, ca_files: Vec::new(), client: Arc::default() }
    }

    /// Trusts the certificate authorities in these PEM files too, besides those of the environment (`SSL_CERT_FILE`,
    /// `SSL_CERT_DIR`), or those built in. A file that cannot be used is an error of every request.
    #[must_use]
    pub fn ca_files(mut self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        self.ca_files.extend(files);
        // A client that was made before does not trust the new files; clones of `self` keep it.
        self.client = Arc::default();
        self
    }

    /// Checks whether a request may be sent to this URL, as far as the URL alone shows.
    pub(crate) fn check(&self, url: &url::Url) -> Result<(), FetchError> {
        self.egress.check(url)
    }

    fn sender(&self) -> Result<EgressSender, FetchError> {
        let make = || {
            let tls = hospes::client::tls_config(&self.ca_files).map_err(FetchError::Trust)?;
            let connector = hospes_http_client::build_connector(
                Arc::clone(&self.egress),
                Arc::clone(&self.lookup),
                tls,
                CONNECT_TIMEOUT,
            );
            // A kept connection would be used without its address being looked at again.
            Ok(Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector))
        };
        self.client.get_or_init(make).clone()
    }

    /// Sends a request and reads the whole response, whatever its status. The body of a successful response that is not
    /// JSON is left unread, because all expected documents are JSON.
    ///
    /// # Errors
    /// If requests to the URL are not allowed, the server does not answer, or the response is too long.
    pub async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        self.egress.check(&request.url)?;
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
        *sent.uri_mut() =
            request.url.as_str().parse().map_err(|_| FetchError::Forbidden("it is not a valid URI"))?;
        *sent.headers_mut() = request.headers;
        let agent = HeaderValue::from_static(concat!("hospes/", env!("CARGO_PKG_VERSION")));
        sent.headers_mut().insert(USER_AGENT, agent);
        let answer = self
            .sender()?
            .request(sent)
            .await
            .map_err(|error| hospes_http_client::classify_send_error(&error))?;
        let (head, mut body) = answer.into_parts();
        if head.status == StatusCode::OK && !is_json(&head.headers) {
            return Ok(FetchResponse { status: head.status, headers: head.headers, body: Bytes::new() });
        }
        // Refused before anything is read. The loop below counts, for servers that announce less than they
        // send.
        let announced =
            head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if announced.is_some_and(|length: u64| length > max as u64) {
            return Err(FetchError::TooLarge { max });
        }
        let mut text = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| FetchError::Broken)?.into_data() else { continue };
            if text.len() + data.len() > max {
                return Err(FetchError::TooLarge { max });
            }
            text.extend_from_slice(&data);
        }
        Ok(FetchResponse { status: head.status, headers: head.headers, body: text.freeze() })
    }
}

impl fmt::Debug for GuardedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedClient").field("egress", &self.egress).finish_non_exhaustive()
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
