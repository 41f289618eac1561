//! One path that speaks both eras: from an HTTP request to an HTTP response.

use std::convert::Infallible;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use hospes_model::{Era, RequestId, RpcError, code};
use hospes_proto::http::{AdmissionRules, EndpointMethod, HttpRejection, SseEndpoint, http_status_for};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode};

use super::body::Body;
use super::middleware::StreamDeadline;
use super::post::PostStart;
use super::receive::{drain, read};
use super::sessions::SessionTable;
use super::settings::{EndpointBuilder, EndpointLimits, PageHandler};
use super::sse::SseTransport;
use crate::peer::RequestSender;
use crate::service::{BoxService, IntoService};
use crate::transport::adapter::{AdapterSettings, PeerCache, ServiceAdapter};

/// Principal of a request, set by a layer around the endpoint in the request's extensions. Sessions and sealed state
/// are bound to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal(Arc<str>);

impl Principal {
    /// Creates a principal; the name must always denote the same party.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }
}

/// Description of the program that sends a request, for records and people. A layer around the endpoint sets it in the
/// request's extensions. A handler finds it in [`Peer::caller`](crate::Peer::caller).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerLabel(Arc<str>);

impl CallerLabel {
    /// `node, process 4711 of user 1000`.
    pub fn new(words: impl Into<Arc<str>>) -> Self {
        Self(words.into())
    }
}

/// Serves a [`Service`](crate::Service) over HTTP, in both eras, on one path. Cheap to clone; every clone is the same endpoint.
///
/// [`HttpServer`](super::HttpServer) listens for one. Elsewhere it is a [`hyper::service::Service`] and a
/// [`tower_service::Service`], so that it can be a route of an axum application.
#[derive(Clone)]
pub struct Endpoint(pub(super) Arc<EndpointInner>);

pub(super) struct EndpointInner {
    pub(super) adapter: Arc<ServiceAdapter>,
    pub(super) admission: AdmissionRules,
    pub(super) limits: EndpointLimits,
    pub(super) sessions: SessionTable,
    /// The older transport, where it is served.
    sse: Option<Arc<SseTransport>>,
    pages: Option<PageHandler>,
    calls: AtomicUsize,
    /// Number of bytes of request bodies that are being read or served.
    pub(super) buffered: AtomicUsize,
    closing: AtomicU8,
    sweeping: AtomicBool,
    peers: PeerCache,
}

/// The places of some calls among those that may run at once.
#[derive(Debug)]
pub(super) struct CallPermit {
    endpoint: Arc<EndpointInner>,
    calls: usize,
}

impl CallPermit {
    pub(super) fn endpoint(&self) -> &Arc<EndpointInner> {
        &self.endpoint
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        self.endpoint.calls.fetch_sub(self.calls, Ordering::AcqRel);
    }
}

const ENDPOINT_OPEN: u8 = 0;
const ENDPOINT_CLOSING: u8 = 1;
const ENDPOINT_CLOSED: u8 = 2;

impl Endpoint {
    /// Serves `service` with every setting at its default.
    pub fn new(service: impl IntoService) -> Self {
        Self::builder(service).build()
    }

    /// Returns a builder of an endpoint that serves `service`.
    pub fn builder(service: impl IntoService) -> EndpointBuilder {
        EndpointBuilder::new(BoxService::new(service.into_service()))
    }

    pub(super) fn from_parts(
        service: BoxService,
        adapter: AdapterSettings,
        admission: AdmissionRules,
        limits: EndpointLimits,
        pages: Option<PageHandler>,
    ) -> Self {
        let sse = SseTransport::new(service.clone(), &adapter, &limits, admission.max_message_bytes);
        Self(Arc::new(EndpointInner {
            adapter: ServiceAdapter::new(service, adapter),
            sse: sse.map(Arc::new),
            admission,
            sessions: SessionTable::new(limits.sessions),
            limits,
            pages,
            calls: AtomicUsize::new(0),
            buffered: AtomicUsize::new(0),
            closing: AtomicU8::new(ENDPOINT_OPEN),
            sweeping: AtomicBool::new(false),
            peers: PeerCache::default(),
        }))
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
        self.0.sse.as_ref().map_or(0, |sse| sse.len())
    }

    /// Returns the number of running calls.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.0.calls_running()
    }

    /// Ends streams of changes with the next keep-alive. Calls continue, and new ones are accepted.
    pub fn close(&self) {
        // If this fails, the endpoint is closing or closed already, and `abort` must not be taken back.
        let _ = self.0.closing.compare_exchange(
            ENDPOINT_OPEN,
            ENDPOINT_CLOSING,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        self.0.wake_sse();
    }

    /// Ends everything: what still runs is answered with an error.
    pub fn abort(&self) {
        self.0.closing.store(ENDPOINT_CLOSED, Ordering::Release);
        self.0.sessions.clear();
        self.0.wake_sse();
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
                    Some((sse, door)) => Box::pin(super::sse::answer(inner, sse, door, &parts, body)).await,
                    None => other_path_response(inner, &parts),
                };
            }
            if let Some(response) = super::cors::preflight(inner, &parts) {
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
                EndpointMethod::Get => super::listen::get(inner, &parts, &head),
                EndpointMethod::Delete => super::listen::delete(inner, &parts, &head),
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

impl EndpointInner {
    /// Reserves room for running calls.
    pub(super) fn permit(
        self: &Arc<Self>,
        id: &RequestId,
        calls: usize,
    ) -> Result<CallPermit, HttpRejection> {
        let limit = self.limits.concurrent_calls;
        // Added before it is compared: two requests at once must not both get the last place.
        if self.calls.fetch_add(calls, Ordering::AcqRel) + calls > limit {
            self.calls.fetch_sub(calls, Ordering::AcqRel);
            let why =
                format!("too many concurrent calls: the limit is {limit} (setting max_concurrent_calls)");
            return Err(busy_rejection(Some(id.clone()), why));
        }
        Ok(CallPermit { endpoint: Arc::clone(self), calls })
    }

    /// The older transport, if this is a path of it.
    pub(super) fn sse(&self, path: &str) -> Option<(&Arc<SseTransport>, SseEndpoint)> {
        let sse = self.sse.as_ref()?;
        Some((sse, sse.endpoint(path)?))
    }

    fn wake_sse(&self) {
        if let Some(sse) = &self.sse {
            sse.wake();
        }
    }

    pub(super) fn calls_running(&self) -> usize {
        self.calls.load(Ordering::Acquire)
    }

    /// Somebody who ran so many calls now runs so many.
    pub(super) fn count_calls(&self, before: usize, now: usize) {
        if now >= before {
            self.calls.fetch_add(now - before, Ordering::AcqRel);
        } else {
            self.calls.fetch_sub(before - now, Ordering::AcqRel);
        }
    }

    /// Returns the page at another path, if the sender is admitted.
    fn page(&self, parts: &http::request::Parts) -> Option<Response<Body>> {
        let pages = self.pages.as_ref()?;
        if let Err(rejection) = self.admission.admit_sender(parts.uri.authority(), &parts.headers) {
            return Some(rejection_response(&rejection));
        }
        pages(parts).map(|page| page.map(Body::full))
    }

    /// Returns true if streams of changes are to end.
    pub(super) fn is_closing(&self) -> bool {
        // `Relaxed`: a stream that reads the old value sees the new one with its next poll.
        self.closing.load(Ordering::Relaxed) != ENDPOINT_OPEN
    }

    /// Returns true if calls are to end.
    pub(super) fn is_closed(&self) -> bool {
        self.closing.load(Ordering::Relaxed) == ENDPOINT_CLOSED
    }

    /// Sees to it that unused sessions end: one task for all of them, for as long as the endpoint lives.
    pub(super) fn start_sweeping(self: &Arc<Self>) {
        if !self.sweeping.swap(true, Ordering::AcqRel) {
            let interval = SessionTable::sweep_interval(self.limits.session_idle);
            tokio::spawn(sweep(Arc::downgrade(self), interval));
        }
    }
}

async fn sweep(endpoint: Weak<EndpointInner>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        let Some(endpoint) = endpoint.upgrade() else { return };
        endpoint.sessions.sweep();
    }
}

/// The response that a rejection is.
pub(super) fn rejection_response(rejection: &HttpRejection) -> Response<Body> {
    let mut text = Vec::new();
    rejection.write_body(&mut text);
    let mut response = json(rejection.status, text);
    if let Some(allow) = rejection.allow {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    }
    if rejection.status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// There is no room.
pub(super) fn busy_rejection(id: Option<RequestId>, why: String) -> HttpRejection {
    let mut rejection = HttpRejection::new(StatusCode::SERVICE_UNAVAILABLE, RpcError::internal(why));
    rejection.id = id;
    rejection
}

/// A JSON body.
pub(super) fn json(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// No body.
pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// A stream of events.
pub(super) fn events(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // HTTP-39: intermediaries must pass each event on at once.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// The status of an answer, which is an error if it has a code.
pub(super) fn status(code: Option<i64>, era: Era) -> StatusCode {
    code.map_or(StatusCode::OK, |code| http_status_for(&RpcError::new(code, ""), era))
}

/// The status of a refusal by the adapter: what is wrong with a modern request's metadata is a bad request.
pub(super) fn refusal_status(error: &RpcError, era: Era) -> StatusCode {
    match (era, error.code) {
        (Era::Modern, code::INVALID_PARAMS) => StatusCode::BAD_REQUEST,
        _ => http_status_for(error, era),
    }
}

/// Returns the sender of the request.
pub(super) fn sender(parts: &http::request::Parts) -> RequestSender {
    RequestSender {
        principal: parts.extensions.get::<Principal>().map(|principal| Arc::clone(&principal.0)),
        caller: parts.extensions.get::<CallerLabel>().map(|caller| Arc::clone(&caller.0)),
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("path", &self.path()).field("sessions", &self.sessions()).finish()
    }
}

impl fmt::Debug for EndpointInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EndpointInner")
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
