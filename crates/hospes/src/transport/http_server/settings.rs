//! Settings of an endpoint.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hospes_proto::RevisionSet;
use hospes_proto::http::{AdmissionRules, AllowedHosts, AllowedOrigins};
use hospes_proto::request_state::StateKeyRing;
use http::Response;
use http::request::Parts;

use super::endpoint::Endpoint;
use super::limits::{EndpointLimits, PageHandler};
use super::shared_sessions::SessionDirectory;
use crate::service::{BoxService, IntoService};
use crate::transport::adapter::AdapterSettings;

/// The path that an endpoint serves unless told otherwise.
pub const DEFAULT_PATH: &str = "/mcp";
/// The longest request body unless told otherwise: the setting `max_message_bytes`.
pub const DEFAULT_MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;
/// Default maximum number of concurrent calls: the setting `max_concurrent_calls`.
pub const DEFAULT_MAX_CONCURRENT_CALLS: usize = 16 * 1024;
/// Default maximum number of legacy sessions: the setting `max_sessions`.
pub const DEFAULT_MAX_SESSIONS: usize = 16 * 1024;
/// After how long an unused session ends unless told otherwise: the setting `session_idle_timeout`.
pub const DEFAULT_SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Default interval of keep-alives on a silent stream: the setting `keep_alive`.
pub const DEFAULT_KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Default time that a call may be silent before its answer becomes a stream: the setting `stream_after`. A stream can
/// carry keep-alives, which intermediaries require.
pub const DEFAULT_STREAM_AFTER: Duration = Duration::from_secs(10);
/// Default delay that a client is told to wait before it resumes a stream: the setting `retry`.
pub const DEFAULT_RETRY: Duration = Duration::from_secs(1);
/// Default maximum time to receive a request's body: the setting `body_timeout`.
pub const DEFAULT_BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Default maximum size of all requests being read and served, in bytes: the setting `max_buffered_bytes`. (Small
/// bodies that lie in their connection's own buffer are not counted.)
pub const DEFAULT_MAX_BUFFERED_BYTES: usize = 256 * 1024 * 1024;

/// Builder of an [`Endpoint`].
pub struct EndpointBuilder {
    service: BoxService,
    adapter: AdapterSettings,
    admission: AdmissionRules,
    pub(super) limits: EndpointLimits,
    pages: Option<PageHandler>,
    refusals: Option<PageHandler>,
    directory: Option<Arc<dyn SessionDirectory>>,
}

impl EndpointBuilder {
    pub(super) fn new(service: BoxService) -> Self {
        let mut admission = AdmissionRules::default();
        admission.max_message_bytes = DEFAULT_MAX_MESSAGE_BYTES;
        let limits = EndpointLimits {
            path: DEFAULT_PATH.into(),
            concurrent_calls: DEFAULT_MAX_CONCURRENT_CALLS,
            sessions: DEFAULT_MAX_SESSIONS,
            session_idle: DEFAULT_SESSION_IDLE_TIMEOUT,
            keep_alive: DEFAULT_KEEP_ALIVE,
            stream_after: DEFAULT_STREAM_AFTER,
            retry: DEFAULT_RETRY,
            body: DEFAULT_BODY_TIMEOUT,
            buffered_bytes: DEFAULT_MAX_BUFFERED_BYTES,
            sse: false,
        };
        Self {
            service,
            adapter: AdapterSettings::default(),
            admission,
            limits,
            pages: None,
            refusals: None,
            directory: None,
        }
    }

    /// The one path that is served.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        self.limits.path = path.into();
        self
    }

    /// Also serves clients of HTTP+SSE, the transport of 2024-11-05, beside the one path: they listen at `sse` and post
    /// to `messages` (with the path `/mcp`: `/sse` and `/messages`). Off unless told otherwise. Each stream is a session
    /// of the older era; `max_sessions` of them may be open.
    #[must_use]
    pub fn sse(mut self, on: bool) -> Self {
        self.limits.sse = on;
        self
    }

    /// Serves small pages on other paths of the same socket: a status, a metadata document. Host and origin are checked
    /// before; bodies are not read. None is "not found".
    #[must_use]
    pub fn pages(
        mut self,
        pages: impl Fn(&Parts) -> Option<Response<Bytes>> + Send + Sync + 'static,
    ) -> Self {
        self.pages = Some(Box::new(pages));
        self
    }

    /// Refuses requests: what `refusal` returns is the response, and None serves the request. It is asked about each
    /// request for a path of the endpoint, once host and origin are checked, and sees in its extensions what the
    /// [middleware](super::HttpMiddleware) has found out about the sender, such as
    /// [`PrincipalGroups`](super::PrincipalGroups). Streams that are open stay so.
    #[must_use]
    pub fn refuse(
        mut self,
        refusal: impl Fn(&Parts) -> Option<Response<Bytes>> + Send + Sync + 'static,
    ) -> Self {
        self.refusals = Some(Box::new(refusal));
        self
    }

    /// Also answers to this value of `Host`: `name`, which matches at any port, or `name:port`; `*` allows all.
    /// Without this only loopback names are answered to.
    ///
    /// # Panics
    /// When it is of neither form, so that it would never match; [`AllowedHosts::is_valid_form`] tells before.
    #[must_use]
    #[track_caller]
    pub fn allow_host(mut self, host: &str) -> Self {
        assert!(
            AllowedHosts::is_valid_form(host),
            "{host:?} is not a valid Host value: write mcp.example.org, or with a port mcp.example.org:8443"
        );
        self.admission.hosts = self.admission.hosts.allow(host);
        self
    }

    /// The values of `Host` that are answered to.
    #[must_use]
    pub fn allowed_hosts(mut self, hosts: AllowedHosts) -> Self {
        self.admission.hosts = hosts;
        self
    }

    /// Also lets pages of this `Origin` ask: `scheme://host:port`, `scheme://host:*` or `null`; `*` allows all. Without
    /// this only pages that this machine serves to itself may ask.
    ///
    /// # Panics
    /// When it is of no such form, so that it would match no page; [`AllowedOrigins::is_valid_form`] tells before.
    #[must_use]
    #[track_caller]
    pub fn allow_origin(mut self, origin: &str) -> Self {
        assert!(
            AllowedOrigins::is_valid_form(origin),
            "{origin:?} is not a valid Origin value: write https://example.org, or with any port https://example.org:*"
        );
        self.admission.origins = self.admission.origins.allow(origin);
        self
    }

    /// The values of `Origin` that may ask.
    #[must_use]
    pub fn allowed_origins(mut self, origins: AllowedOrigins) -> Self {
        self.admission.origins = origins;
        self
    }

    /// The revisions that are spoken; all unless given.
    #[must_use]
    pub fn revisions(mut self, revisions: RevisionSet) -> Self {
        self.admission.revisions = revisions;
        self.adapter.revisions = revisions;
        self
    }

    /// The longest request body.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.admission.max_message_bytes = bytes;
        self
    }

    /// Sets the maximum size of all requests being read and served, in bytes; further ones are refused with 503. Bodies
    /// that come in one piece of at most 16 KiB are not counted.
    #[must_use]
    pub fn max_buffered_bytes(mut self, bytes: usize) -> Self {
        self.limits.buffered_bytes = bytes;
        self
    }

    /// The longest answer that is written; a longer one is replaced by an error that says so.
    #[must_use]
    pub fn max_answer_bytes(mut self, bytes: usize) -> Self {
        self.adapter.max_answer_bytes = bytes;
        self
    }

    /// Sets the maximum number of concurrent calls; further ones are refused with 503.
    #[must_use]
    pub fn max_concurrent_calls(mut self, calls: usize) -> Self {
        self.limits.concurrent_calls = calls;
        self
    }

    /// Sets the maximum number of legacy sessions. At the cap idle ones make room; if there are none, `initialize` is
    /// refused with 503.
    #[must_use]
    pub fn max_sessions(mut self, sessions: usize) -> Self {
        self.limits.sessions = sessions;
        self
    }

    /// After how long a session ends that has neither requests nor streams.
    #[must_use]
    pub fn session_idle_timeout(mut self, timeout: Duration) -> Self {
        self.limits.session_idle = timeout;
        self
    }

    /// Sets the interval of keep-alives on a silent stream.
    #[must_use]
    pub fn keep_alive(mut self, interval: Duration) -> Self {
        self.limits.keep_alive = interval;
        self
    }

    /// Sets the time that a call may be silent before its answer becomes a stream.
    #[must_use]
    pub fn stream_after(mut self, silence: Duration) -> Self {
        self.limits.stream_after = silence;
        self
    }

    /// Sets the delay that a client is told to wait before it resumes a stream.
    #[must_use]
    pub fn retry(mut self, delay: Duration) -> Self {
        self.limits.retry = delay;
        self
    }

    /// Sets the maximum time to receive a request's body.
    #[must_use]
    pub fn body_timeout(mut self, timeout: Duration) -> Self {
        self.limits.body = timeout;
        self
    }

    /// Sets the maximum time that a handler waits for the client's answer to a question.
    #[must_use]
    pub fn question_timeout(mut self, timeout: Duration) -> Self {
        self.adapter.question_timeout = timeout;
        self
    }

    /// The keys that seal request state (2026-07-28); random ones unless given. Several nodes that serve one
    /// address need the same.
    #[must_use]
    pub fn state_keys(mut self, keys: StateKeyRing) -> Self {
        self.adapter.keys = keys;
        self
    }

    /// Sets the lifetime of sealed request state.
    #[must_use]
    pub fn state_lifetime(mut self, lifetime: Duration) -> Self {
        self.adapter.state_lifetime = lifetime;
        self
    }

    /// Shares the legacy sessions with other processes: any of them may receive a request of a session. They need the
    /// same service, revisions and [`state_keys`](EndpointBuilder::state_keys). Sessions of HTTP+SSE are not shared.
    #[must_use]
    pub fn session_directory(mut self, directory: Arc<dyn SessionDirectory>) -> Self {
        self.directory = Some(directory);
        self
    }

    /// The endpoint.
    #[must_use]
    pub fn build(self) -> Endpoint {
        Endpoint::from_parts(
            self.service,
            self.adapter,
            self.admission,
            self.limits,
            (self.pages, self.refusals),
            self.directory,
        )
    }
}

impl Endpoint {
    /// Serves `service` with every setting at its default.
    pub fn new(service: impl IntoService) -> Self {
        Self::builder(service).build()
    }

    /// Returns a builder of an endpoint that serves `service`.
    pub fn builder(service: impl IntoService) -> EndpointBuilder {
        EndpointBuilder::new(BoxService::new(service.into_service()))
    }
}

impl fmt::Debug for EndpointBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { adapter, admission, limits, .. } = self;
        f.debug_struct("EndpointBuilder")
            .field("adapter", adapter)
            .field("admission", admission)
            .field("limits", limits)
            .finish_non_exhaustive()
    }
}
