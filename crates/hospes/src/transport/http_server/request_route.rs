//! Requests of 2026-07-28 that another process serves.
//!
//! - Between rounds a call may wait in the memory of its process: for an answer to a question of an older server, or as
//!   approved by a person. So its next round goes to the process that has sealed its state, while that lives.
//! - Requests whose answer depends on the state of a caller in a process all go to one process.
//! - Requests about what one process alone has, such as a task, go to that process while it lives.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use hospes_model::{JsonRpcMessage, RawJson, RequestId, message};
use hospes_proto::http::{AdmittedHead, EndpointMethod};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use serde::Deserialize;
use tokio::time::Instant;

use super::body::Body;
use super::call_guard::check_messages;
use super::caller::sender;
use super::endpoint_inner::EndpointInner;
use super::outcome_unknown::AnswerForm;
use super::response::rejection_response;
use super::session_route::{
    MAX_SEARCH, RoutedResponse, SEARCH_PAUSE, directory_rejection, lost_answer, with_answer,
};
use super::shared_sessions::{
    DirectoryError, ForwardResult, ForwardedRequest, RequestPlace, SessionDirectory, SessionForwarder,
};
use crate::params::Params;
use crate::peer::RequestSender;
use crate::transport::adapter::{PeerCache, StateOrigin, read_meta};

/// Member of the params with the state.
const STATE_MEMBER: &[u8] = b"\"requestState\"";

/// Answers a request that another process may have to serve. `None` for all others.
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
    let target = match sealed_by(whole) {
        Some(origin) if directory.origin().as_deref() == Some(&*origin) => return None,
        Some(origin) => RequestTarget::Origin(origin),
        None => {
            // By the headers, so that nearly all requests are not decoded twice. They are compared with the body where the
            // request is served.
            let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
            let (method, name) = (text(head.method?)?, head.name.and_then(text));
            match directory.request_place(&method, name.as_deref()) {
                RequestPlace::Anywhere => return None,
                RequestPlace::Caller => RequestTarget::Caller(application_of(whole)),
                RequestPlace::Process { origin, else_caller } => {
                    RequestTarget::Keeper { origin, application: else_caller.then(|| application_of(whole)) }
                }
            }
        }
    };
    let request = ForwardableRequest { inner, directory, parts, head: *head, whole: whole.clone(), target };
    Some(Box::pin(request.answer(peers)))
}

/// Process that serves a request.
enum RequestTarget {
    /// The one of this name, which has sealed the state of the request.
    Origin(String),
    /// The one that serves the sender, an application of this name.
    Caller(String),
    /// The one of this name, which has in its memory what the request is about. Once it has ended, the one that serves
    /// the sender, if the name of the application is given.
    Keeper { origin: String, application: Option<String> },
}

/// Request that another process may have to serve.
struct ForwardableRequest<'a> {
    inner: &'a Arc<EndpointInner>,
    directory: &'a Arc<dyn SessionDirectory>,
    parts: &'a Parts,
    head: AdmittedHead<'a>,
    whole: Bytes,
    target: RequestTarget,
}

impl ForwardableRequest<'_> {
    /// Forwards the request, or serves it here if that is right, or the other process has certainly ended.
    async fn answer(self, peers: &PeerCache) -> Response<Body> {
        let deadline = Instant::now() + MAX_SEARCH;
        loop {
            let why = match self.find().await {
                Ok(Some(owner)) => match (self.forward(&*owner).await, &self.target) {
                    (Ok(response), _) => return response,
                    (Err(ForwardRefusal::ServedHere), RequestTarget::Origin(_)) => break,
                    // It may have ended since the processes were listed.
                    (Err(_), RequestTarget::Origin(_)) => {
                        "the process that has asked cannot be reached".to_owned()
                    }
                    (Err(_), RequestTarget::Keeper { .. }) => {
                        owner.forget();
                        "the process that runs the task cannot be reached; check the network between the processes"
                            .to_owned()
                    }
                    (Err(_), RequestTarget::Caller(_)) => {
                        owner.forget();
                        "the process that serves this application for this principal cannot be reached; check the \
                         network between the processes"
                            .to_owned()
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

    /// Finds the process that serves the request; `None` if it is this one.
    async fn find(&self) -> Result<Option<Arc<dyn SessionForwarder>>, DirectoryError> {
        match &self.target {
            RequestTarget::Origin(origin) => self.directory.find_origin(origin).await,
            RequestTarget::Caller(application) => self.find_caller_process(application).await,
            RequestTarget::Keeper { origin, application } => {
                match (self.directory.find_origin(origin).await?, application) {
                    (None, Some(application)) => self.find_caller_process(application).await,
                    (found, _) => Ok(found),
                }
            }
        }
    }

    /// Finds the process that serves the sender, an application of this name; `None` if it is this one.
    async fn find_caller_process(
        &self,
        application: &str,
    ) -> Result<Option<Arc<dyn SessionForwarder>>, DirectoryError> {
        let RequestSender { principal, .. } = sender(self.parts);
        self.directory.find_caller_process(principal.as_deref(), application).await
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

/// Reason for which a request was not forwarded.
enum ForwardRefusal {
    /// The process refuses it, because it is or was another one.
    ServedHere,
    NotReached,
}

/// Returns the name of the process that has sealed the state of a request, if the request has state.
fn sealed_by(whole: &Bytes) -> Option<String> {
    // Nearly all requests have none, and are not decoded twice.
    memchr::memmem::find(whole, STATE_MEMBER)?;
    origin_of(whole)
}

/// Returns the name that the application of a request gives itself; empty if it gives none.
fn application_of(whole: &Bytes) -> String {
    let Ok(message::Frame::Single(JsonRpcMessage::Request(request))) = message::decode(whole) else {
        return String::new();
    };
    let Some(params) = request.params else { return String::new() };
    let params = Params::new(RawJson::slice_of(whole, params));
    let Ok(meta) = read_meta(params.view()) else { return String::new() };
    meta.decode_client_info().ok().flatten().map(|info| info.name).unwrap_or_default()
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
