//! One path that speaks both eras: from an HTTP request to an HTTP response.

use std::convert::Infallible;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use hospes_model::RpcError;
use hospes_proto::http::{AdmissionRules, EndpointMethod, HttpRejection};
use http::{Request, Response, StatusCode};

use super::body::Body;
use super::call_guard::StreamDeadline;
use super::endpoint_inner::EndpointInner;
use super::limits::{EndpointLimits, PageHandler};
use super::post::PostStart;
use super::receive::{drain, read};
use super::response::rejection_response;
use super::session_route;
use super::shared_sessions::SessionDirectory;
use crate::service::BoxService;
use crate::transport::adapter::{AdapterSettings, PeerCache};

/// Serves a [`Service`](crate::Service) over HTTP, in both eras, on one path. Cheap to clone; every clone is the same endpoint.
///
/// [`HttpServer`](super::HttpServer) listens for one. Elsewhere it is a [`hyper::service::Service`] and a
/// [`tower_service::Service`], so that it can be a route of an axum application.
#[derive(Clone)]
pub struct Endpoint(pub(super) Arc<EndpointInner>);

impl Endpoint {
    pub(super) fn from_parts(
        service: BoxService,
        adapter: AdapterSettings,
        admission: AdmissionRules,
        limits: EndpointLimits,
        pages: (Option<PageHandler>, Option<PageHandler>),
        directory: Option<Arc<dyn SessionDirectory>>,
    ) -> Self {
        Self(EndpointInner::new(service, adapter, admission, limits, pages, directory))
    }

    /// The path served.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0.limits.path
    }

    /// Returns the number of open legacy sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.0.sessions.len()
    }

    /// Returns the number of open streams of the older HTTP+SSE transport; each is a session.
    #[must_use]
    pub fn sse_streams(&self) -> usize {
        self.0.sse_streams()
    }

    /// Returns the number of running calls.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.0.calls_running()
    }

    /// Ends streams of changes with the next keep-alive. Calls continue, and new ones are accepted.
    pub fn close(&self) {
        self.0.close();
    }

    /// Holds new requests of shared sessions back, or lets them go on. A process that ends holds them, waits for running
    /// calls, leaves the directory, and lets them go on: then they are served elsewhere. Answers to questions and
    /// notifications are not held, because running calls wait for them.
    pub fn hold_sessions(&self, is_held: bool) {
        if is_held {
            // Streams of sessions elsewhere last as long as their clients, who take them up at another process.
            self.0.leaving.send_replace(true);
        }
        self.0.sessions_held.send_replace(is_held);
    }

    /// Ends everything: what still runs is answered with an error.
    pub fn abort(&self) {
        self.0.abort();
    }

    /// Ends streams, sessions and running calls, for an endpoint that is served no more.
    pub(super) fn end(&self) {
        self.close();
        self.abort();
    }

    /// Answers one request.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: fmt::Display,
    {
        handle(self, request).await
    }
}

/// Origin of a request.
pub(super) trait RequestSource {
    fn endpoint(&self) -> &Arc<EndpointInner>;
    /// Returns whether a router may have taken the endpoint's path off the request's: what is left of it is `/`.
    fn is_routed(&self) -> bool;
    /// Returns the peers of earlier requests from there.
    fn peers(&self) -> &PeerCache;
    /// Its response is ready; the body may still have to go out.
    fn answered(self, response: &mut Response<Body>);
}

impl RequestSource for &Endpoint {
    fn endpoint(&self) -> &Arc<EndpointInner> {
        &self.0
    }

    fn is_routed(&self) -> bool {
        true
    }

    fn peers(&self) -> &PeerCache {
        &self.0.peers
    }

    fn answered(self, _: &mut Response<Body>) {}
}

/// Answers one request.
///
/// One block, not several functions: what a future is given it keeps until its end, beside where it moves it to, and
/// each connection keeps the room of its largest request.
pub(super) fn handle<S, B>(source: S, request: Request<B>) -> impl Future<Output = Response<Body>>
where
    S: RequestSource,
    B: http_body::Body<Data = Bytes>,
    B::Error: fmt::Display,
{
    let (parts, body) = request.into_parts();
    async move {
        let mut origin = None;
        // Read here, because the calls take `parts` over.
        let until = parts.extensions.get::<StreamDeadline>().copied();
        let mut response = 'answer: {
            let inner = source.endpoint();
            let mut body = pin!(body);
            let path = parts.uri.path();
            if path != &*inner.limits.path && !(path == "/" && source.is_routed()) {
                break 'answer match inner.sse(path) {
                    Some(_) if let Some(refusal) = inner.refusal(&parts) => refusal,
                    Some((sse, door)) => Box::pin(super::sse::answer(inner, sse, door, &parts, body)).await,
                    None => other_path_response(inner, &parts),
                };
            }
            if let Some(response) = super::cors::preflight(&inner.admission, &parts) {
                break 'answer response;
            }
            let head = match inner.admission.admit(&parts.method, parts.uri.authority(), &parts.headers) {
                Ok(head) => head,
                Err(rejection) => {
                    if rejection.status == StatusCode::PAYLOAD_TOO_LARGE && !expects_continue(&parts) {
                        // Rare, and not worth a place in every request's future.
                        Box::pin(drain(body)).await;
                    }
                    break 'answer rejection_response(&rejection);
                }
            };
            if let Some(refusal) = inner.refusal(&parts) {
                break 'answer refusal;
            }
            origin = head.origin.cloned();
            if !inner.adapter.has_identity() {
                // Once in the life of an endpoint.
                Box::pin(inner.adapter.load_identity()).await;
            }
            let done = match head.verb {
                EndpointMethod::Post => {
                    let whole = match read(inner, body.as_mut(), head.content_length).await {
                        Ok(whole) => whole,
                        Err(rejection) => break 'answer rejection_response(&rejection),
                    };
                    if let Some(routed) = session_route::answer(inner, source.peers(), &parts, &head, &whole)
                    {
                        drop(whole);
                        break 'answer routed.await;
                    }
                    let begun = match super::post::plan(inner, &parts, &head, &whole) {
                        Ok(plan) => super::post::begin(inner, source.peers(), parts, &whole, plan),
                        Err(rejection) => break 'answer rejection_response(&rejection),
                    };
                    // Released before the answer is waited for: the calls keep those parts that they need.
                    drop(whole);
                    break 'answer match begun {
                        PostStart::Calls(calls) => calls.respond().await,
                        PostStart::Done(response) => *response,
                        PostStart::Open(opening) => opening.await,
                    };
                }
                other => {
                    let routed = session_route::answer(inner, source.peers(), &parts, &head, &Bytes::new());
                    match (routed, other) {
                        (Some(routed), _) => break 'answer routed.await,
                        (None, EndpointMethod::Get) => super::listen::get(inner, &parts, &head),
                        (None, _) => super::listen::delete(inner, &parts, &head),
                    }
                }
            };
            done.unwrap_or_else(|rejection| rejection_response(&rejection))
        };
        if let Some(origin) = &origin {
            super::cors::allow(&mut response, origin);
        }
        if let Some(StreamDeadline(deadline)) = until {
            response.body_mut().until(deadline);
        }
        source.answered(&mut response);
        response
    }
}

/// Returns true if the client sends its body only once it is asked to: then there is nothing to drain.
fn expects_continue(parts: &http::request::Parts) -> bool {
    parts.headers.contains_key(http::header::EXPECT)
}

/// The response to a request for another path.
fn other_path_response(inner: &EndpointInner, parts: &http::request::Parts) -> Response<Body> {
    inner.page(parts).unwrap_or_else(|| {
        let why = format!("not found; the endpoint is {}", inner.limits.path);
        rejection_response(&HttpRejection::new(StatusCode::NOT_FOUND, RpcError::invalid_request(why)))
    })
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("path", &self.path()).field("sessions", &self.sessions()).finish()
    }
}

type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<B> hyper::service::Service<Request<B>> for Endpoint
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: fmt::Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn call(&self, request: Request<B>) -> Self::Future {
        let endpoint = self.clone();
        Box::pin(async move { Ok(endpoint.handle(request).await) })
    }
}

impl<B> tower_service::Service<Request<B>> for Endpoint
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: fmt::Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        hyper::service::Service::call(self, request)
    }
}
