//! A single HTTP request, with checked destination, size limit and time limit.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use flate2::write::MultiGzDecoder;
use hospes_http_client::{EgressClient, EgressPolicy, FetchError, HostLookup};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, LOCATION, USER_AGENT,
};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use url::Url;

/// Maximum time to open a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of the head of a response, in bytes.
const MAX_HEAD: usize = 64 * 1024;
/// Maximum number of headers of a response.
const MAX_HEADERS: usize = 100;

/// Sender of the requests.
#[derive(Debug)]
pub(super) struct WebFetcher(EgressClient);

/// Result of a request: a page or a redirect.
pub(super) enum WebAnswer {
    Page(FetchedPage),
    /// A redirect to this URL.
    Elsewhere(Url),
}

/// A fetched page.
pub(super) struct FetchedPage {
    pub(super) url: Url,
    pub(super) status: StatusCode,
    /// Value of `Content-Type`, with its parameters.
    pub(super) kind: Option<String>,
    pub(super) body: Vec<u8>,
}

/// Reasons a request got no usable response.
#[derive(Debug, thiserror::Error)]
pub(super) enum WebError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("the redirect target is not a valid URL")]
    BadRedirect,
    #[error("unexpected content encoding: {0}")]
    Packed(String),
    #[error("the compressed response body is invalid")]
    Broken,
}

impl WebFetcher {
    pub(super) fn new(egress: EgressPolicy, lookup: HostLookup, ca_files: Vec<PathBuf>) -> Self {
        let client = EgressClient::new(egress, CONNECT_TIMEOUT).lookup(lookup).ca_files(ca_files);
        Self(client.max_head(MAX_HEAD, MAX_HEADERS))
    }

    /// Checks whether a URL may be asked for, as far as the URL alone shows.
    pub(super) fn check(&self, url: &Url) -> Result<(), FetchError> {
        self.0.check(url)
    }

    /// Requests a URL once. If `cut` is set, a body over the limit is cut instead of rejected.
    pub(super) async fn get(
        &self,
        url: &Url,
        agent: &HeaderValue,
        max: usize,
        cut: bool,
    ) -> Result<WebAnswer, WebError> {
        let mut request = Request::new(Full::default());
        *request.method_mut() = Method::GET;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, agent.clone());
        headers.insert(ACCEPT, HeaderValue::from_static("text/html, text/markdown, text/*;q=0.9, */*;q=0.8"));
        // Only encodings that `BodyDecoder` supports may be offered.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let answer = self.0.send(url, request).await?;
        let (head, mut body) = answer.into_parts();
        // Without a `Location` (as in 300 or 304) the response is treated as a page.
        if head.status.is_redirection()
            && let Some(location) = head.headers.get(LOCATION)
        {
            let location = location.to_str().map_err(|_| WebError::BadRedirect)?;
            let mut next = url.join(location).map_err(|_| WebError::BadRedirect)?;
            next.set_fragment(None);
            return Ok(WebAnswer::Elsewhere(next));
        }
        let mut kept = BodyDecoder::new(&head.headers, max)?;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| FetchError::Broken)?.into_data() else { continue };
            match kept.write(&data) {
                Ok(()) => {}
                Err(WebError::Fetch(FetchError::TooLarge { .. })) if cut => break,
                Err(error) => return Err(error),
            }
        }
        let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).map(str::to_owned);
        Ok(WebAnswer::Page(FetchedPage {
            url: url.clone(),
            status: head.status,
            kind,
            body: kept.finish(cut)?,
        }))
    }
}

/// Body as it is, or decompressed while it arrives. It never exceeds the limit.
enum BodyDecoder {
    Plain(CappedBuffer),
    // Boxed, because the decoder is much larger than the other variant.
    Gzip(Box<MultiGzDecoder<CappedBuffer>>),
}

/// Buffer of limited size. Further bytes are dropped.
struct CappedBuffer {
    bytes: Vec<u8>,
    max: usize,
    is_full: bool,
}

impl Write for CappedBuffer {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let left = self.max - self.bytes.len();
        self.bytes.extend_from_slice(&data[..data.len().min(left)]);
        // Bytes within the limit are kept for callers that accept a cut page; the error ends the decompression.
        if data.len() > left {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BodyDecoder {
    fn new(headers: &HeaderMap, max: usize) -> Result<Self, WebError> {
        let capped = CappedBuffer { bytes: Vec::new(), max, is_full: false };
        let how = headers
            .get(CONTENT_ENCODING)
            .map(|how| String::from_utf8_lossy(how.as_bytes()).trim().to_lowercase());
        match how.as_deref() {
            None | Some("" | "identity") => Ok(Self::Plain(capped)),
            // A body may consist of several gzip members (RFC 1952, section 2.2).
            Some("gzip" | "x-gzip") => Ok(Self::Gzip(Box::new(MultiGzDecoder::new(capped)))),
            Some(how) => Err(WebError::Packed(how.chars().take(40).collect())),
        }
    }

    fn write(&mut self, data: &[u8]) -> Result<(), WebError> {
        let written = match self {
            Self::Plain(capped) => capped.write_all(data),
            Self::Gzip(decoder) => decoder.write_all(data),
        };
        written.map_err(|_| self.error())
    }

    fn capped(&self) -> &CappedBuffer {
        match self {
            Self::Plain(capped) => capped,
            Self::Gzip(decoder) => decoder.get_ref(),
        }
    }

    fn error(&self) -> WebError {
        let CappedBuffer { max, is_full, .. } = *self.capped();
        if is_full { FetchError::TooLarge { max }.into() } else { WebError::Broken }
    }

    fn finish(mut self, cut: bool) -> Result<Vec<u8>, WebError> {
        // A body that was cut intentionally has no valid end.
        if let Self::Gzip(decoder) = &mut self
            && decoder.try_finish().is_err()
            && !(cut && decoder.get_ref().is_full)
        {
            return Err(self.error());
        }
        Ok(match self {
            Self::Plain(capped) => capped.bytes,
            Self::Gzip(mut decoder) => std::mem::take(&mut decoder.get_mut().bytes),
        })
    }
}
