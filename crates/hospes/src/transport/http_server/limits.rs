//! Limits of an endpoint, and its pages.

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::request::Parts;

/// Handler of requests for other paths, or of requests that are not served.
pub(super) type PageHandler = Box<dyn Fn(&Parts) -> Option<Response<Bytes>> + Send + Sync>;

/// Path and limits of an endpoint.
#[derive(Clone, Debug)]
pub(super) struct EndpointLimits {
    pub(super) path: Box<str>,
    pub(super) concurrent_calls: usize,
    pub(super) sessions: usize,
    pub(super) session_idle: Duration,
    pub(super) keep_alive: Duration,
    pub(super) stream_after: Duration,
    pub(super) retry: Duration,
    pub(super) body: Duration,
    pub(super) buffered_bytes: usize,
    pub(super) sse: bool,
}
