//! Authorization of a request's calls and of its stream, set in the request's extensions before the endpoint.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use hospes_model::{JsonRpcMessage, Method, RawJson, message};
use http::Response;
use http::request::Parts;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::body::Body;
use crate::params::Params;

/// Authorization of calls, set in a request's extensions. It is asked once the method and its params are known, before
/// anything happens. A refused call is answered with its response.
#[derive(Clone)]
pub struct CallGuard(Arc<CallCheck>);

type CallCheck = dyn Fn(&[(&Method, &Params)]) -> Result<(), RejectionResponse> + Send + Sync;

/// A response that refuses a call.
pub type RejectionResponse = Box<Response<Bytes>>;

impl CallGuard {
    /// Asks `may` about one call after the other; the first that is refused is the answer.
    pub fn new(
        may: impl Fn(&Method, &Params) -> Result<(), RejectionResponse> + Send + Sync + 'static,
    ) -> Self {
        Self::for_all(move |calls| calls.iter().try_for_each(|(method, params)| may(method, params)))
    }

    /// Asks `may` about all calls of a request at once, which are several in a batch: so that one answer says what all
    /// of them lack.
    pub fn for_all(
        may: impl Fn(&[(&Method, &Params)]) -> Result<(), RejectionResponse> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(may))
    }

    /// Checks one call.
    ///
    /// # Errors
    /// The response to a sender who may not.
    pub fn check(&self, method: &Method, params: &Params) -> Result<(), RejectionResponse> {
        self.check_all(&[(method, params)])
    }

    /// Checks all calls of a request.
    ///
    /// # Errors
    /// The response to a sender who may not make one of them.
    pub fn check_all(&self, calls: &[(&Method, &Params)]) -> Result<(), RejectionResponse> {
        (self.0)(calls)
    }
}

impl fmt::Debug for CallGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallGuard")
    }
}

/// Time at which the sender's right to listen expires. In a request's extensions it ends the stream of changes that the
/// request opens. The client then opens another one with its current credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing else to say")]
pub struct StreamDeadline(pub Instant);

/// Asks the guard of a request about one of its messages.
pub(super) fn check_request(
    parts: &Parts,
    whole: &Bytes,
    request: &message::JsonRpcRequest<'_>,
) -> Result<(), Box<Response<Body>>> {
    let Some(guard) = parts.extensions.get::<CallGuard>() else { return Ok(()) };
    let (method, params) = call(whole, &request.method, request.params);
    check(guard, &[(&method, &params)])
}

fn call(whole: &Bytes, method: &str, params: Option<&RawValue>) -> (Method, Params) {
    let params = params.map_or_else(RawJson::empty_object, |raw| RawJson::slice_of(whole, raw));
    (Method::from_name(method), Params::new(params))
}

/// Asks the guard of a request about all its messages.
pub(super) fn check_messages<'a, 'm: 'a>(
    parts: &Parts,
    whole: &Bytes,
    messages: impl IntoIterator<Item = &'a JsonRpcMessage<'m>>,
) -> Result<(), Box<Response<Body>>> {
    let Some(guard) = parts.extensions.get::<CallGuard>() else { return Ok(()) };
    let calls = messages.into_iter().filter_map(|message| match message {
        JsonRpcMessage::Request(request) => Some(call(whole, &request.method, request.params)),
        // Notifications of the specification concern the
        // session alone; those of extensions reach the service.
        JsonRpcMessage::Notification(other)
            if matches!(Method::from_name(&other.method), Method::Other(_)) =>
        {
            Some(call(whole, &other.method, other.params))
        }
        _ => None,
    });
    let calls: Vec<_> = calls.collect();
    match calls.is_empty() {
        true => Ok(()),
        false => check(guard, &calls.iter().map(|(method, params)| (method, params)).collect::<Vec<_>>()),
    }
}

/// Asks the guard of a request about a call.
pub(super) fn check_call(parts: &Parts, method: &Method, params: &Params) -> Result<(), Box<Response<Body>>> {
    match parts.extensions.get::<CallGuard>() {
        Some(guard) => check(guard, &[(method, params)]),
        None => Ok(()),
    }
}

fn check(guard: &CallGuard, calls: &[(&Method, &Params)]) -> Result<(), Box<Response<Body>>> {
    guard.check_all(calls).map_err(|refusal| Box::new(refusal.map(Body::full)))
}
