//! The life of a session over HTTP: begun, listened to, opened again when the server has forgotten it, ended.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hospes_model::{Method, Notification, PeerResult, RawJson, Reply};
use hospes_proto::session::client::TimeLimits;
use http::header::{HeaderMap, HeaderValue};
use http::{Method as Verb, StatusCode};
use tokio::sync::oneshot;

use crate::client::error::malformed;
use crate::client::error::{CallError, ConnectionClosed};
use crate::client::link::NegotiatedProtocol;
use crate::client::link::{LinkEvent, OutgoingParams, OutgoingRequest};
use crate::client::transport::http::event_stream::{OpenedStream, retry_delay};
use crate::client::transport::http::link_shared::{HttpLinkShared, NOTIFICATION_TIMEOUT, SESSION_ID_HEADER};
use crate::client::transport::http::reader::SseReader;
use crate::client::transport::http::request_subject::RequestSubject;
use crate::client::transport::http::session::HttpClientSession;
use crate::client::transport::http::{answer, call};

/// Maximum time to end a session.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time that the first call waits for the session's own stream. Some servers send their requests there and drop
/// them while no stream is open. Others send nothing before the first event and must not delay the call.
const LISTEN_HEAD_START: Duration = Duration::from_secs(1);

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
        ended.end();
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
            answer::drain_response(&self.pool, response, connection).await;
            Ok::<(), CallError>(())
        };
        // A server may refuse this (HSES-10), and one that does not answer must not hold up the end.
        let _ = tokio::time::timeout(END_TIMEOUT, ending).await;
    }
}

/// Waits until the session's own stream is open or refused, but not for long.
pub(super) async fn wait_until_listening(opened: oneshot::Receiver<()>) {
    let _ = tokio::time::timeout(LISTEN_HEAD_START, opened).await;
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
