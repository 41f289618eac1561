//! Middleware before an endpoint: it authenticates requests, authorizes calls, and serves other content on the same
//! socket.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use hospes_model::{JsonRpcMessage, Method, RawJson, message};
use http::header::ORIGIN;
use http::request::Parts;
use http::{Request, Response};
use hyper::body::Incoming;
use serde_json::value::RawValue;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::Endpoint;
use super::body::Body;
use super::endpoint::rejection_response;
use crate::params::Params;

/// Result of a [`HttpMiddleware`]: a response, or `None` to pass the request on to the endpoint.
pub type MiddlewareFuture<'a> = Pin<Box<dyn Future<Output = Option<Response<Bytes>>> + Send + 'a>>;

/// Stands before an endpoint on the socket of an [`HttpServer`](super::HttpServer): sees every request first, and either
/// answers it or lets it pass on, with what it found out in the request's extensions ([`Principal`](super::Principal),
/// [`CallGuard`], [`StreamDeadline`]).
///
/// Host and origin are not checked before it: [`Endpoint::admit_sender`] does that, where it matters.
pub trait HttpMiddleware: Send + Sync + 'static {
    /// Looks at a request. Where it comes from is in its extensions: [`RemoteAddress`], [`ConnectionLocal`].
    fn receive<'a>(
        &'a self,
        endpoint: &'a Endpoint,
        request: &'a mut Request<Incoming>,
    ) -> MiddlewareFuture<'a>;
}

impl<F: HttpMiddleware + ?Sized> HttpMiddleware for Box<F> {
    fn receive<'a>(
        &'a self,
        endpoint: &'a Endpoint,
        request: &'a mut Request<Incoming>,
    ) -> MiddlewareFuture<'a> {
        (**self).receive(endpoint, request)
    }
}

/// From which address a request has come, for those who stand before an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing else to say")]
pub struct RemoteAddress(pub SocketAddr);

/// The value that a [`HttpMiddleware`] keeps for as long as a connection lasts, in the extensions of each of its requests: what was found out
/// of the connection once need not be found out again.
#[derive(Clone, Default)]
pub struct ConnectionLocal(Arc<OnceCell<Arc<dyn Any + Send + Sync>>>);

impl ConnectionLocal {
    /// The value that is kept; of several requests at once one finds it out. None where something of another type is kept.
    pub async fn get_or_init<T: Send + Sync + 'static>(
        &self,
        find: impl Future<Output = T>,
    ) -> Option<Arc<T>> {
        let kept = self.0.get_or_init(|| async { Arc::new(find.await) as Arc<dyn Any + Send + Sync> }).await;
        Arc::clone(kept).downcast().ok()
    }
}

impl fmt::Debug for ConnectionLocal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionLocal")
    }
}

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

impl Endpoint {
    /// Checks the `Host` and `Origin` of a request, which keeps out pages of other origins. It is for middleware before
    /// the endpoint; the endpoint checks all requests that reach it.
    ///
    /// # Errors
    /// The response to a sender who may not.
    pub fn admit_sender(&self, parts: &Parts) -> Result<(), Box<Response<Body>>> {
        let admitted = self.0.admission.admit_sender(parts.uri.authority(), &parts.headers);
        admitted.map_err(|rejection| Box::new(rejection_response(&rejection)))
    }

    /// Returns true if the endpoint answers on this path.
    #[must_use]
    pub fn serves(&self, path: &str) -> bool {
        path == self.path() || self.0.sse(path).is_some()
    }

    /// Lets the page that has sent the request, if an admitted one has, read a response that the endpoint did not make.
    pub fn add_cors_headers<B>(&self, parts: &Parts, response: &mut Response<B>) {
        if let Some(origin) = parts.headers.get(ORIGIN)
            && self.admit_sender(parts).is_ok()
        {
            super::cors::allow(response, origin);
        }
    }
}

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
