//! The paths and the open streams of HTTP+SSE, the transport of 2024-11-05.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::task::AtomicWaker;
use hospes_model::{Era, RpcError};
use hospes_proto::RevisionSet;
use hospes_proto::http::{HttpRejection, SseEndpoint};
use http::StatusCode;
use http::request::Parts;
use tokio::sync::mpsc;

use super::caller::sender;
use super::limits::EndpointLimits;
use crate::service::BoxService;
use crate::transport::adapter::{AdapterSettings, ServiceAdapter};
use crate::transport::duplex::{ConnectionLimits, DEFAULT_SHUTDOWN_TIMEOUT};

/// Maximum number of concurrent calls of one stream; further ones wait: the limit `max_stream_calls`.
const MAX_STREAM_CALLS: usize = 256;
/// The parameter of the messages' URL that says which stream they belong to.
pub(super) const SESSION_PARAMETER: &str = "sessionId";

/// The two endpoints, and the streams that are open.
pub(super) struct SseTransport {
    stream_path: Box<str>,
    pub(super) messages_path: Box<str>,
    /// The service as peers of the older era see it; there is no newer one here.
    pub(super) adapter: Arc<ServiceAdapter>,
    pub(super) connection_limits: ConnectionLimits,
    streams: Mutex<HashMap<Box<str>, Arc<SseStreamHandle>>>,
    pub(super) max: usize,
}

/// One stream, as those see it who post to it.
#[derive(Debug)]
pub(super) struct SseStreamHandle {
    pub(super) principal: Option<Arc<str>>,
    pub(super) inbox: mpsc::Sender<Bytes>,
    pub(super) waker: AtomicWaker,
    pub(super) calls: AtomicUsize,
}

impl SseTransport {
    /// Beside the endpoint's own path; none where no older revision is spoken.
    pub(super) fn new(
        service: BoxService,
        settings: &AdapterSettings,
        limits: &EndpointLimits,
        message_bytes: usize,
    ) -> Option<Self> {
        let revisions = settings.revisions.intersection(RevisionSet::of_era(Era::Legacy));
        if !limits.sse || revisions.is_empty() {
            return None;
        }
        let folder = limits.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        Some(Self {
            stream_path: format!("{folder}/sse").into(),
            messages_path: format!("{folder}/messages").into(),
            adapter: ServiceAdapter::new(service, AdapterSettings { revisions, ..settings.clone() }),
            connection_limits: ConnectionLimits {
                message_bytes,
                concurrent_calls: MAX_STREAM_CALLS.min(limits.concurrent_calls),
                queued_bytes: message_bytes,
                shutdown: DEFAULT_SHUTDOWN_TIMEOUT,
            },
            streams: Mutex::default(),
            max: limits.sessions,
        })
    }

    /// Returns the endpoint with this path, if there is one.
    pub(super) fn endpoint(&self, path: &str) -> Option<SseEndpoint> {
        match path {
            path if path == &*self.stream_path => Some(SseEndpoint::Stream),
            path if path == &*self.messages_path => Some(SseEndpoint::Messages),
            _ => None,
        }
    }

    /// Returns the number of open streams.
    pub(super) fn len(&self) -> usize {
        self.streams().len()
    }

    /// Lets every stream see that the endpoint is closing.
    pub(super) fn wake(&self) {
        // Collected, so that no waker runs under the lock.
        let streams: Vec<_> = self.streams().values().cloned().collect();
        streams.iter().for_each(|stream| stream.waker.wake());
    }

    pub(super) fn streams(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<SseStreamHandle>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the id of the stream that a message is for.
    pub(super) fn stream_id<'a>(&self, parts: &'a Parts) -> Result<&'a str, HttpRejection> {
        let query = parts.uri.query().unwrap_or_default();
        let id = query.split('&').find_map(|pair| pair.strip_prefix(SESSION_PARAMETER)?.strip_prefix('='));
        id.ok_or_else(|| {
            let why =
                format!("the URL has no {SESSION_PARAMETER}: open a stream at {} first", self.stream_path);
            HttpRejection::new(StatusCode::BAD_REQUEST, RpcError::invalid_request(why))
        })
    }

    /// Returns the stream with this id. It must be the sender's own; for all others it does not exist.
    pub(super) fn find(&self, parts: &Parts, id: &str) -> Result<Arc<SseStreamHandle>, HttpRejection> {
        let found = self.streams().get(id).cloned();
        found.filter(|stream| stream.principal == sender(parts).principal).ok_or_else(|| {
            let why = format!("stream not found; open one at {}", self.stream_path);
            HttpRejection::new(StatusCode::NOT_FOUND, RpcError::invalid_request(why))
        })
    }
}
