//! HTTP client for requests to URLs that others supplied.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use url::Url;

use super::connector::{EgressConnector, HostLookup, build_connector, classify_send_error, system_lookup};
use super::error::FetchError;
use super::policy::EgressPolicy;
use crate::trust::tls_config;

type EgressSender = Client<EgressConnector, Full<Bytes>>;

/// HTTP client for URLs from untrusted parties. The address that is checked is the address that is dialled. Redirects
/// are not followed, proxies of the environment are ignored, and connections are not reused. The caller limits the time
/// of a whole request, and the size of a body.
#[derive(Clone)]
pub struct EgressClient {
    policy: Arc<EgressPolicy>,
    lookup: HostLookup,
    ca_files: Vec<PathBuf>,
    connect_timeout: Duration,
    head_limits: Option<HeadLimits>,
    /// Made when it is first needed, because reading all authorities takes a moment.
    sender: Arc<OnceLock<Result<EgressSender, FetchError>>>,
}

/// Limits for the head of a response.
#[derive(Clone, Copy)]
struct HeadLimits {
    bytes: usize,
    headers: usize,
}

impl EgressClient {
    /// Creates a client that sends requests only where the policy allows it. `connect_timeout` limits the TCP
    /// connection.
    #[must_use]
    pub fn new(policy: EgressPolicy, connect_timeout: Duration) -> Self {
        Self {
            policy: Arc::new(policy),
            lookup: system_lookup(),
            ca_files: Vec::new(),
            connect_timeout,
            head_limits: None,
            sender: Arc::default(),
        }
    }

    /// Looks names up with this function.
    #[must_use]
    pub fn lookup(mut self, lookup: HostLookup) -> Self {
        self.lookup = lookup;
        self.without_sender()
    }

    /// Trusts the certificate authorities in these PEM files too, besides those of the environment (`SSL_CERT_FILE`,
    /// `SSL_CERT_DIR`), or those built in. A file that cannot be used is an error of every request.
    #[must_use]
    pub fn ca_files(mut self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        self.ca_files.extend(files);
        self.without_sender()
    }

    /// Limits the head of a response to a size in bytes and a number of headers.
    #[must_use]
    pub fn max_head(mut self, bytes: usize, headers: usize) -> Self {
        self.head_limits = Some(HeadLimits { bytes, headers });
        self.without_sender()
    }

    /// Checks whether a request may be sent to this URL, as far as the URL alone shows.
    ///
    /// # Errors
    /// If it may not.
    pub fn check(&self, url: &Url) -> Result<(), FetchError> {
        self.policy.check(url)
    }

    /// Sends a request to a URL, which replaces the URI of the request. Returns the head of the response; the body
    /// follows.
    ///
    /// # Errors
    /// If requests to the URL are not allowed, or no response comes.
    pub async fn send(
        &self,
        url: &Url,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, FetchError> {
        // The connector checks only names that it looks up; addresses in the URL and the scheme are checked here.
        self.policy.check(url)?;
        *request.uri_mut() =
            url.as_str().parse().map_err(|_| FetchError::Forbidden("it is not a valid URL"))?;
        self.sender()?.request(request).await.map_err(|error| classify_send_error(&error))
    }

    fn sender(&self) -> Result<EgressSender, FetchError> {
        let make = || {
            let tls = tls_config(&self.ca_files).map_err(FetchError::Trust)?;
            let (policy, lookup) = (Arc::clone(&self.policy), Arc::clone(&self.lookup));
            let connector = build_connector(policy, lookup, tls, self.connect_timeout);
            let mut builder = Client::builder(TokioExecutor::new());
            // A kept connection would be used without its address being looked at again.
            builder.pool_max_idle_per_host(0);
            if let Some(limits) = self.head_limits {
                builder.http1_max_buf_size(limits.bytes).http1_max_headers(limits.headers);
            }
            Ok(builder.build(connector))
        };
        self.sender.get_or_init(make).clone()
    }

    /// The client with new settings. A sender that was made before does not have them; clones of the client keep it.
    fn without_sender(mut self) -> Self {
        self.sender = Arc::default();
        self
    }
}

/// Reads the body of a response, up to a number of bytes.
///
/// # Errors
/// If the body is longer, or breaks off.
pub async fn read_body(response: Response<Incoming>, max: usize) -> Result<Bytes, FetchError> {
    let (head, mut body) = response.into_parts();
    // Refused before anything is read. The loop below counts, for servers that announce less than they send.
    let announced = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
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
    Ok(text.freeze())
}

impl fmt::Debug for EgressClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EgressClient").field("policy", &self.policy).finish_non_exhaustive()
    }
}
