//! State of an endpoint: its settings and sessions, and its running calls.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hospes_model::RequestId;
use hospes_proto::http::{AdmissionRules, HttpRejection, SseEndpoint};
use http::Response;
use tokio::sync::watch;

use super::body::Body;
use super::limits::{EndpointLimits, PageHandler};
use super::response::{busy_rejection, rejection_response};
use super::session_route::AdoptionLocks;
use super::sessions::SessionTable;
use super::shared_sessions::SessionDirectory;
use super::sse_transport::SseTransport;
use crate::service::BoxService;
use crate::transport::adapter::{AdapterSettings, PeerCache, ServiceAdapter, StateOrigin};

/// State shared by the clones of an endpoint.
pub(super) struct EndpointInner {
    pub(super) adapter: Arc<ServiceAdapter>,
    pub(super) admission: AdmissionRules,
    pub(super) limits: EndpointLimits,
    pub(super) sessions: SessionTable,
    /// The directory of sessions that processes share, if they do.
    pub(super) directory: Option<Arc<dyn SessionDirectory>>,
    /// Locks of the sessions that are being adopted.
    pub(super) adoptions: AdoptionLocks,
    /// True while requests of shared sessions wait.
    pub(super) sessions_held: watch::Sender<bool>,
    /// True once the process is about to end: streams of other processes end here.
    pub(super) leaving: watch::Sender<bool>,
    /// The older transport, where it is served.
    sse: Option<Arc<SseTransport>>,
    pages: Option<PageHandler>,
    refusals: Option<PageHandler>,
    calls: AtomicUsize,
    /// Number of bytes of request bodies that are being read or served.
    pub(super) buffered: AtomicUsize,
    closing: AtomicU8,
    sweeping: AtomicBool,
    /// Peers of earlier requests whose connection is not known.
    pub(super) peers: PeerCache,
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

impl EndpointInner {
    pub(super) fn new(
        service: BoxService,
        mut adapter: AdapterSettings,
        admission: AdmissionRules,
        limits: EndpointLimits,
        (pages, refusals): (Option<PageHandler>, Option<PageHandler>),
        directory: Option<Arc<dyn SessionDirectory>>,
    ) -> Arc<Self> {
        if let Some(directory) = &directory {
            let directory = Arc::clone(directory);
            adapter.origin = Some(StateOrigin(Arc::new(move || directory.origin())));
        }
        let sse = SseTransport::new(service.clone(), &adapter, &limits, admission.max_message_bytes);
        Arc::new(Self {
            adapter: ServiceAdapter::new(service, adapter),
            sse: sse.map(Arc::new),
            admission,
            sessions: SessionTable::new(limits.sessions),
            directory,
            adoptions: AdoptionLocks::default(),
            sessions_held: watch::Sender::new(false),
            leaving: watch::Sender::new(false),
            limits,
            pages,
            refusals,
            calls: AtomicUsize::new(0),
            buffered: AtomicUsize::new(0),
            closing: AtomicU8::new(ENDPOINT_OPEN),
            sweeping: AtomicBool::new(false),
            peers: PeerCache::default(),
        })
    }

    /// Returns the number of open streams of the older transport.
    pub(super) fn sse_streams(&self) -> usize {
        self.sse.as_ref().map_or(0, |sse| sse.len())
    }

    /// Ends streams of changes with the next keep-alive.
    pub(super) fn close(&self) {
        // If this fails, the endpoint is closing or closed already, and `abort` must not be taken back.
        let _ = self.closing.compare_exchange(
            ENDPOINT_OPEN,
            ENDPOINT_CLOSING,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        self.wake_sse();
    }

    /// Ends everything that runs.
    pub(super) fn abort(&self) {
        self.closing.store(ENDPOINT_CLOSED, Ordering::Release);
        self.sessions.clear();
        self.wake_sse();
    }

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
    pub(super) fn page(&self, parts: &http::request::Parts) -> Option<Response<Body>> {
        let pages = self.pages.as_ref()?;
        if let Err(rejection) = self.admission.admit_sender(parts.uri.authority(), &parts.headers) {
            return Some(rejection_response(&rejection));
        }
        pages(parts).map(|page| page.map(Body::full))
    }

    /// Returns the response to a request that is not served.
    pub(super) fn refusal(&self, parts: &http::request::Parts) -> Option<Response<Body>> {
        let refusal = self.refusals.as_ref()?(parts)?;
        Some(refusal.map(Body::full))
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

impl fmt::Debug for EndpointInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EndpointInner")
    }
}
