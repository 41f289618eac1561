//! Middleware before an endpoint: it authenticates requests, authorizes calls, and serves other content on the same
//! socket.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::ORIGIN;
use http::request::Parts;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::sync::OnceCell;

use super::body::Body;
use super::endpoint::Endpoint;
use super::response::rejection_response;

/// Result of a [`HttpMiddleware`]: a response, or `None` to pass the request on to the endpoint.
pub type MiddlewareFuture<'a> = Pin<Box<dyn Future<Output = Option<Response<Bytes>>> + Send + 'a>>;

/// Stands before an endpoint on the socket of an [`HttpServer`](super::HttpServer): sees every request first, and either
/// answers it or lets it pass on, with what it found out in the request's extensions ([`Principal`](super::Principal),
/// [`CallGuard`](super::CallGuard), [`StreamDeadline`](super::StreamDeadline)).
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
