//! The session of an older server over HTTP: opened, listened to, opened again when the server has forgotten it, ended.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hospes_model::{Method, Notification, PeerResult, RawJson, Reply, RequestId};
use hospes_proto::session::client::TimeLimits;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http::{Method as Verb, StatusCode};
use hyper::body::Incoming;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::{HttpLinkShared, LAST_EVENT_ID, NOTIFICATION_TIMEOUT, SESSION_ID_HEADER, call};
use crate::client::error::malformed;
use crate::client::error::{CallError, ConnectionClosed};
use crate::client::link::NegotiatedProtocol;
use crate::client::link::{LinkEvent, OutgoingParams, OutgoingRequest};
use crate::client::transport::http::answer::{self, ResponseKind};
use crate::client::transport::http::authorize::RequestSubject;
use crate::client::transport::http::pool::HttpConnection;
use crate::client::transport::http::reader::SseReader;

/// Maximum time to end a session.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Delay before a broken stream is opened again, unless the server sets one. It grows each time, until a message
/// arrives.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);
const LONGEST_RETRY_DELAY: Duration = Duration::from_secs(60);
/// Minimum delay, even if the server sets less: `retry: 0` would keep a processor busy.
const SHORTEST_RETRY_DELAY: Duration = Duration::from_millis(10);
/// Maximum time that the first call waits for the session's own stream. Some servers send their requests there and drop
/// them while no stream is open. Others send nothing before the first event and must not delay the call.
const LISTEN_HEAD_START: Duration = Duration::from_secs(1);

/// Session as the server knows it.
#[derive(Debug)]
pub(crate) struct HttpClientSession {
    pub(super) id: Option<HeaderValue>,
    /// Number of the session within this client.
    number: u64,
    /// The server's requests that are being answered. Gone with the session: the next one counts its ids anew, so what
    /// was asked in this one must not be answered in that one.
    open: Mutex<Option<HashSet<RequestId>>>,
}

impl HttpClientSession {
    fn new(id: Option<HeaderValue>, number: u64) -> Self {
        Self { id, number, open: Mutex::new(Some(HashSet::new())) }
    }

    /// Adds a request of the server. Returns the number of open ones; none if it is open already or the session has
    /// ended.
    pub(super) fn add_server_request(&self, id: &RequestId) -> Option<usize> {
        let mut open = self.open();
        let open = open.as_mut()?;
        open.insert(id.clone()).then_some(open.len())
    }

    /// It is answered, or not wanted any more; false if that was so before.
    pub(super) fn remove_server_request(&self, id: &RequestId) -> bool {
        self.open().as_mut().is_some_and(|open| open.remove(id))
    }

    /// Returns true if the server waits for an answer of this client.
    pub(super) fn has_server_requests(&self) -> bool {
        self.open().as_ref().is_some_and(|open| !open.is_empty())
    }

    /// Returns true if another session has replaced this one.
    pub(super) fn is_over(&self) -> bool {
        self.open().is_none()
    }

    fn open(&self) -> MutexGuard<'_, Option<HashSet<RequestId>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for HttpClientSession {
    fn default() -> Self {
        Self::new(None, 0)
    }
}

/// Record of the handshake, repeated when a session has to be opened again.
#[derive(Debug, Default)]
pub(super) struct HandshakeRecord {
    /// The params of `initialize`.
    params: Vec<u8>,
    asked: Option<NegotiatedProtocol>,
    /// Negotiated revision and metadata.
    agreed: Option<NegotiatedProtocol>,
    listener: Option<AbortHandle>,
}

/// Result of opening a stream.
pub(super) enum OpenedStream {
    Stream(Incoming, HttpConnection),
    /// The server offers no stream.
    Refused(StatusCode),
}

impl HttpLinkShared {
    /// Remembers how we introduced ourselves.
    pub(super) fn record_handshake(&self, params: &[u8], speech: &NegotiatedProtocol) {
        let mut introduction = self.handshake();
        introduction.params = params.to_vec();
        introduction.asked = Some(speech.clone());
    }

    /// Returns the negotiated revision and metadata, or those that were asked for until then.
    pub(super) fn negotiated(&self) -> Option<NegotiatedProtocol> {
        let introduction = self.handshake();
        introduction.agreed.clone().or_else(|| introduction.asked.clone())
    }

    /// The server has answered `initialize`; perhaps it gave the session an id.
    pub(super) fn begin_session(&self, headers: &HeaderMap) -> Arc<HttpClientSession> {
        let mut id = headers.get(SESSION_ID_HEADER).cloned();
        if let Some(id) = &mut id {
            id.set_sensitive(true);
        }
        self.next_session(id);
        // After the next session is in place: what the last one asked must not be answered in it.
        self.inbound.abort_requests();
        self.session()
    }

    /// Ends the session, as far as we are concerned, and begins the next; the one that has ended.
    fn next_session(&self, id: Option<HeaderValue>) -> Arc<HttpClientSession> {
        let mut session = self.session.write().unwrap_or_else(PoisonError::into_inner);
        let next = Arc::new(HttpClientSession::new(id, session.number + 1));
        let ended = std::mem::replace(&mut *session, next);
        // Released before the other lock is taken, so that the two need no order.
        drop(session);
        *ended.open() = None;
        ended
    }

    /// The last step of the handshake.
    pub(super) async fn post_initialized(&self, speech: &NegotiatedProtocol) {
        self.handshake().agreed = Some(speech.clone());
        let mut body = Vec::new();
        if Notification::Initialized.encode(speech.revision, None, &mut body).unwrap_or(false)
            && let Err(error) = self.post(body, Some(&Method::Initialized), speech, &self.session()).await
        {
            tracing::debug!(%error, "the server rejected notifications/initialized");
        }
    }

    /// Opens a session in place of `old`, unless that has happened meanwhile.
    pub(super) async fn reopen(self: &Arc<Self>, old: &Arc<HttpClientSession>) -> Result<(), CallError> {
        // Whoever needs it may leave in the middle of that, and the others would be left with half a session.
        let (shared, old) = (Arc::clone(self), Arc::clone(old));
        let opening = tokio::spawn(async move {
            let opened = shared.open_in_place_of(&old).await;
            // The link was dropped meanwhile, and would leave the new session open at the server.
            if shared.ended.load(Ordering::Relaxed) {
                shared.end_session().await;
            }
            opened
        });
        opening.await.unwrap_or(Err(CallError::SessionEnded))
    }

    async fn open_in_place_of(self: &Arc<Self>, old: &HttpClientSession) -> Result<(), CallError> {
        let _turn = self.reopening.lock().await;
        // Another call that lost the same session has opened the next one while this one waited.
        if self.session().number != old.number {
            return Ok(());
        }
        let (params, asked, agreed) = {
            let introduction = self.handshake();
            (introduction.params.clone(), introduction.asked.clone(), introduction.agreed.clone())
        };
        let (Some(asked), Some(agreed)) = (asked, agreed) else { return Err(CallError::SessionEnded) };
        tracing::info!("the server ended the session; opening a new one");
        let method = Method::Initialize;
        let limits = TimeLimits { timeout: Some(NOTIFICATION_TIMEOUT), max_timeout: None };
        let outgoing = OutgoingRequest {
            members: OutgoingParams::Text(&params),
            ..OutgoingRequest::new(&method, limits)
        };
        let mut call = Box::pin(call::open_once(self, &outgoing, &asked, &self.session())).await?;
        let outcome = loop {
            if let LinkEvent::Done(outcome) = std::future::poll_fn(|cx| call.poll_event(cx)).await {
                break outcome;
            }
        };
        let begun = outcome.and_then(|outcome| self.check_agreed(&outcome, &asked, &agreed));
        if let Err(error) = begun {
            // It has begun, and nothing can be said in it: the next call finds out anew.
            self.end_session().await;
            return Err(error);
        }
        self.post_initialized(&agreed).await;
        wait_until_listening(self.keep_listening(&agreed)).await;
        if let Some(then) = self.on_renewed.get() {
            then();
        }
        Ok(())
    }

    /// Checks that a new session has the same negotiated properties as the old one.
    fn check_agreed(
        &self,
        outcome: &RawJson,
        asked: &NegotiatedProtocol,
        agreed: &NegotiatedProtocol,
    ) -> Result<(), CallError> {
        let method = Method::Initialize;
        match PeerResult::decode(&method, asked.revision, outcome) {
            Ok(PeerResult::Complete(Reply::Initialize(result)))
                if result.protocol_version == agreed.revision.as_str() =>
            {
                Ok(())
            }
            Ok(PeerResult::Complete(Reply::Initialize(result))) => {
                let what = format!(
                    "the server now uses protocol version {} instead of {}",
                    result.protocol_version, agreed.revision
                );
                Err(CallError::Closed(Arc::new(ConnectionClosed::new(what))))
            }
            _ => Err(malformed(&method, "unexpected result type")),
        }
    }

    /// Opens the session's own stream, if the server offers one, and keeps it open. To be awaited by [`wait_until_listening`].
    pub(super) fn keep_listening(self: &Arc<Self>, speech: &NegotiatedProtocol) -> oneshot::Receiver<()> {
        let (open, opened) = oneshot::channel();
        let listener = tokio::spawn(listen(Arc::clone(self), speech.clone(), self.session(), open));
        if let Some(old) = self.handshake().listener.replace(listener.abort_handle()) {
            old.abort();
        }
        opened
    }

    pub(super) fn stop_listening(&self) {
        if let Some(listener) = self.handshake().listener.take() {
            listener.abort();
        }
    }

    /// Notifies the server that the session is over (HSES-09); it may refuse that (HSES-10).
    pub(super) async fn end_session(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.stop_listening();
        let ended = self.next_session(None);
        let (Some(speech), Some(_)) = (self.negotiated(), &ended.id) else { return };
        let headers = || self.headers(&speech, Some(&Method::Ping), None, &ended);
        let ending = async {
            let (response, connection) =
                self.send(&Verb::DELETE, RequestSubject::new("DELETE", None), headers, &Bytes::new()).await?;
            answer::drain_response(self, response, connection).await;
            Ok::<(), CallError>(())
        };
        // A server may refuse this (HSES-10), and one that does not answer must not hold up the end.
        let _ = tokio::time::timeout(END_TIMEOUT, ending).await;
    }

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
        answer::drain_response(self, response, connection).await;
        Ok(OpenedStream::Refused(status))
    }
}

/// Waits until the session's own stream is open or refused, but not for long.
pub(super) async fn wait_until_listening(opened: oneshot::Receiver<()>) {
    let _ = tokio::time::timeout(LISTEN_HEAD_START, opened).await;
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

/// Reads the session's own stream for as long as the session lives. 405 is final, and so is every other refusal but
/// those that will pass.
async fn listen(
    shared: Arc<HttpLinkShared>,
    speech: NegotiatedProtocol,
    session: Arc<HttpClientSession>,
    open: oneshot::Sender<()>,
) {
    let mut open = Some(open);
    let mut reader = SseReader::new(shared.limits.max_message_bytes);
    let mut failures = 0;
    loop {
        let opened = shared.get_stream(&speech, None, &session, reader.last_event_id(), true).await;
        if let Some(open) = open.take() {
            // Nobody may be waiting any more.
            let _ = open.send(());
        }
        match opened {
            Ok(OpenedStream::Stream(mut body, mut connection)) => {
                reader.begin();
                while let Some(message) = reader.next(&mut body, &mut connection).await {
                    failures = 0;
                    shared.handle_unsolicited_item(&message, &session, &speech);
                }
            }
            Ok(OpenedStream::Refused(StatusCode::NOT_FOUND)) if session.id.is_some() && failures > 0 => {
                // It was there before, so it is the session that is gone. The new session's listener ends this one, in
                // the middle of what else there is to do: so that is done elsewhere.
                tokio::spawn(async move {
                    if let Err(error) = shared.reopen(&session).await {
                        tracing::debug!(%error, "cannot open a new session");
                    }
                });
                return;
            }
            // No person is asked on its account, so it waits until a call was let in.
            Ok(OpenedStream::Refused(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN))
                if shared.authorizer.is_some() =>
            {
                shared.taken.notified().await;
            }
            Err(CallError::NotAuthorized(why)) => {
                tracing::debug!(%why, "not authorized for the server's own stream");
                shared.taken.notified().await;
            }
            Ok(OpenedStream::Refused(status)) if !status.is_server_error() => {
                tracing::debug!(%status, "the server offers no stream of its own");
                return;
            }
            Ok(OpenedStream::Refused(status)) => {
                tracing::debug!(%status, "the server's own stream is not available")
            }
            Err(error) => tracing::debug!(%error, "the server's own stream failed"),
        }
        tokio::time::sleep(retry_delay(reader.retry(), failures)).await;
        failures += 1;
    }
}
