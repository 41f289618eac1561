//! Event streams opened by GET: a session's own, and the rest of a broken one.

use std::time::Duration;

use bytes::Bytes;
use hospes_model::Method;
use http::header::{ACCEPT, HeaderName, HeaderValue};
use http::{Method as Verb, StatusCode};
use hyper::body::Incoming;

use crate::client::error::CallError;
use crate::client::link::NegotiatedProtocol;
use crate::client::transport::http::answer::{self, ResponseKind};
use crate::client::transport::http::link_shared::HttpLinkShared;
use crate::client::transport::http::pool::HttpConnection;
use crate::client::transport::http::request_subject::RequestSubject;
use crate::client::transport::http::session::HttpClientSession;

/// Delay before a broken stream is opened again, unless the server sets one. It grows each time, until a message
/// arrives.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);
const LONGEST_RETRY_DELAY: Duration = Duration::from_secs(60);
/// Minimum delay, even if the server sets less: `retry: 0` would keep a processor busy.
const SHORTEST_RETRY_DELAY: Duration = Duration::from_millis(10);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Result of opening a stream.
pub(super) enum OpenedStream {
    Stream(Incoming, HttpConnection),
    /// The server offers no stream.
    Refused(StatusCode),
}

impl HttpLinkShared {
    /// Opens a stream by GET: the session's own, or the rest of one that broke after `last_event_id`. `method` is the
    /// method the stream belongs to, where its headers depend on it. `background` is set if no caller waits for it.
    pub(super) async fn get_stream(
        &self,
        speech: &NegotiatedProtocol,
        method: Option<&Method>,
        session: &HttpClientSession,
        last_event_id: &str,
        background: bool,
    ) -> Result<OpenedStream, CallError> {
        let headers = || {
            let mut headers = self.headers(speech, method, None, session);
            // The headers are those of a POST, and a GET has no body.
            headers.remove(http::header::CONTENT_TYPE);
            headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
            if let Ok(id) = HeaderValue::from_str(last_event_id)
                && !last_event_id.is_empty()
            {
                headers.insert(LAST_EVENT_ID, id);
            }
            headers
        };
        let subject = RequestSubject::new("GET", None).background(background);
        let (response, connection) = self.send(&Verb::GET, subject, headers, &Bytes::new()).await?;
        let status = response.status();
        if status.is_success() && matches!(answer::response_kind(response.headers()), ResponseKind::Stream) {
            return Ok(OpenedStream::Stream(response.into_body(), connection));
        }
        answer::drain_response(&self.pool, response, connection).await;
        Ok(OpenedStream::Refused(status))
    }
}

/// Returns the delay before the `failures`-th attempt: the server's value, or else a growing one with random spread, so
/// that clients do not retry at once.
pub(super) fn retry_delay(retry: Option<Duration>, failures: u32) -> Duration {
    let base = retry.unwrap_or(FIRST_RETRY_DELAY).max(SHORTEST_RETRY_DELAY);
    if failures == 0 {
        return base;
    }
    // The exponent is bounded, or the shift would overflow. `max`,
    // because the server may want more than the longest pause.
    let longer = base.saturating_mul(1 << failures.min(10)).min(LONGEST_RETRY_DELAY).max(base);
    let mut random = [0_u8; 1];
    // Without randomness there is no jitter, which does little harm.
    let _ = getrandom::fill(&mut random);
    longer + longer * u32::from(random[0]) / 1024
}
