//! Rounds of calls of 2026-07-28 where processes share request state: forwarded to the process that sealed it.
//!
//! Between rounds a call may wait in the memory of its process: for an answer to a question of an older server, or as
//! approved by a person. So its next round goes there while that process lives.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use hospes_model::{JsonRpcMessage, RequestId, message};
use hospes_proto::http::{AdmittedHead, EndpointMethod};
use http::request::Parts;
use http::{Response, StatusCode};
use serde::Deserialize;
use tokio::time::Instant;

use super::body::Body;
use super::call_guard::check_messages;
use super::endpoint_inner::EndpointInner;
use super::outcome_unknown::AnswerForm;
use super::response::rejection_response;
use super::session_route::{
    MAX_SEARCH, RoutedResponse, SEARCH_PAUSE, directory_rejection, lost_answer, with_answer,
};
use super::shared_sessions::{
    DirectoryError, ForwardResult, ForwardedRequest, SessionDirectory, SessionForwarder,
};
use crate::transport::adapter::{PeerCache, StateOrigin};

/// Member of the params with the state.
const STATE_MEMBER: &[u8] = b"\"requestState\"";

/// Answers a request with state that another process has sealed. `None` for all others.
pub(super) fn answer<'a>(
    inner: &'a Arc<EndpointInner>,
    directory: &'a Arc<dyn SessionDirectory>,
    peers: &'a PeerCache,
    parts: &'a Parts,
    head: &AdmittedHead<'a>,
    whole: &Bytes,
) -> Option<RoutedResponse<'a>> {
    if head.verb != EndpointMethod::Post || parts.extensions.get::<ForwardedRequest>().is_some() {
        return None;
    }
    // Nearly all requests have none, and are not decoded twice.
    memchr::memmem::find(whole, STATE_MEMBER)?;
    let origin = origin_of(whole)?;
    if directory.origin().as_deref() == Some(&*origin) {
        return None;
    }
    let round = StateRound { inner, directory, parts, head: *head, whole: whole.clone() };
    Some(Box::pin(round.answer(peers, origin)))
}

/// Round of a call whose state another process has sealed.
struct StateRound<'a> {
    inner: &'a Arc<EndpointInner>,
    directory: &'a Arc<dyn SessionDirectory>,
    parts: &'a Parts,
    head: AdmittedHead<'a>,
    whole: Bytes,
}

impl StateRound<'_> {
    /// Forwards the round, or serves it here if the other process has certainly ended.
    async fn answer(self, peers: &PeerCache, origin: String) -> Response<Body> {
        let deadline = Instant::now() + MAX_SEARCH;
        loop {
            let why = match self.directory.find_origin(&origin).await {
                Ok(Some(owner)) => match self.forward(&*owner).await {
                    Ok(response) => return response,
                    Err(ForwardRefusal::ServedHere) => break,
                    // It may have ended since the processes were listed.
                    Err(ForwardRefusal::NotReached) => {
                        "the process that has asked cannot be reached".to_owned()
                    }
                },
                Ok(None) => break,
                Err(error) => error.to_string(),
            };
            if Instant::now() >= deadline {
                let error = DirectoryError::Unavailable(why);
                return rejection_response(&directory_rejection(self.request_id(), &error));
            }
            tokio::time::sleep(SEARCH_PAUSE).await;
        }
        let served = super::post::serve(self.inner, peers, self.parts, &self.head, &self.whole).await;
        served.unwrap_or_else(|rejection| rejection_response(&rejection))
    }

    async fn forward(&self, owner: &dyn SessionForwarder) -> Result<Response<Body>, ForwardRefusal> {
        let messages = match message::decode(&self.whole) {
            Ok(message::Frame::Single(message)) => vec![message],
            // It was a single request a moment ago.
            _ => Vec::new(),
        };
        if let Err(refusal) = check_messages(self.parts, &self.whole, &messages) {
            return Ok(*refusal);
        }
        match owner.forward(self.parts.clone(), self.whole.clone()).await {
            ForwardResult::Response(response) if response.status() == StatusCode::MISDIRECTED_REQUEST => {
                Err(ForwardRefusal::ServedHere)
            }
            ForwardResult::Response(response) => Ok(with_answer(response, &messages, AnswerForm::Modern)),
            ForwardResult::NotProcessed => Err(ForwardRefusal::NotReached),
            ForwardResult::OutcomeUnknown => Ok(lost_answer(&messages, AnswerForm::Modern)),
        }
    }

    fn request_id(&self) -> Option<RequestId> {
        match message::decode(&self.whole) {
            Ok(message::Frame::Single(JsonRpcMessage::Request(request))) => Some(request.id),
            _ => None,
        }
    }
}

/// Reason for which a round was not forwarded.
enum ForwardRefusal {
    /// The process does not know the state, so any process can serve it.
    ServedHere,
    NotReached,
}

/// Returns the name of the process that has sealed the state of a request.
fn origin_of(whole: &Bytes) -> Option<String> {
    #[derive(Deserialize)]
    struct StatePeek<'a> {
        #[serde(borrow, rename = "requestState")]
        state: Cow<'a, str>,
    }
    let Ok(message::Frame::Single(JsonRpcMessage::Request(request))) = message::decode(whole) else {
        return None;
    };
    let StatePeek { state } = serde_json::from_str(request.params?.get()).ok()?;
    StateOrigin::split(&state).0.map(str::to_owned)
}
