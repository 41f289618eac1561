//! Rounds of calls of 2026-07-28 where processes share request state: forwarded to the process that sealed it.
//!
//! Between rounds a call may wait in the memory of its process: for an answer to a question of an older server, or as
//! approved by a person. So its next round goes there while that process lives.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use hospes_model::{JsonRpcMessage, message};
use hospes_proto::http::{AdmittedHead, EndpointMethod};
use http::StatusCode;
use http::request::Parts;
use serde::Deserialize;

use super::call_guard::check_messages;
use super::endpoint_inner::EndpointInner;
use super::outcome_unknown::AnswerForm;
use super::response::rejection_response;
use super::session_route::{RoutedResponse, lost_answer};
use super::shared_sessions::{ForwardResult, ForwardedRequest, SessionDirectory};
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
    let (head, whole) = (*head, whole.clone());
    Some(Box::pin(async move {
        let owner = match directory.find_origin(&origin).await {
            Ok(owner) => owner,
            Err(error) => {
                tracing::debug!(%error, "the process that has sealed a request state was not found");
                None
            }
        };
        if let Some(owner) = owner {
            let messages = match message::decode(&whole) {
                Ok(message::Frame::Single(message)) => vec![message],
                // It was a single request a moment ago.
                _ => Vec::new(),
            };
            if let Err(refusal) = check_messages(parts, &whole, &messages) {
                return *refusal;
            }
            match owner.forward(parts.clone(), whole.clone()).await {
                ForwardResult::Response(response) if response.status() == StatusCode::MISDIRECTED_REQUEST => {
                }
                ForwardResult::Response(response) => return response,
                ForwardResult::NotProcessed => {}
                ForwardResult::OutcomeUnknown => return lost_answer(&messages, AnswerForm::Modern),
            }
        }
        let served = super::post::serve(inner, peers, parts, &head, &whole).await;
        served.unwrap_or_else(|rejection| rejection_response(&rejection))
    }))
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
