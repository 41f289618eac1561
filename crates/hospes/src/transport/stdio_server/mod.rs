//! The stdio transport, serving side: one client, messages one a line.

#[cfg(feature = "stdio")]
mod descriptors;
#[cfg(all(test, feature = "stdio"))]
pub(crate) mod tests;

use std::io;
use std::sync::Arc;
#[cfg(feature = "stdio")]
use std::sync::atomic::Ordering;
use std::time::Duration;

use hospes_proto::RevisionSet;
use hospes_proto::frame::line::DEFAULT_MAX_MESSAGE_BYTES;
use hospes_proto::request_state::StateKeyRing;
use tokio::io::{AsyncRead, AsyncWrite};

use super::adapter::{AdapterSettings, ServiceAdapter};
#[cfg(feature = "stdio")]
use super::duplex::CallCounters;
use super::duplex::{ConnectionLimits, StreamConnection};
#[cfg(feature = "stdio")]
use super::watchdog::Watchdog;
use crate::peer::RequestSender;
use crate::service::{BoxService, IntoService};

pub use super::duplex::{
    DEFAULT_MAX_ANSWER_BYTES, DEFAULT_MAX_CONCURRENT_CALLS, DEFAULT_MAX_QUEUED_BYTES,
    DEFAULT_SHUTDOWN_TIMEOUT,
};

/// Serves one client over stdio, or over any other pair of byte streams, in every revision.
///
/// A clone serves another client with the same settings and the same keys; see [`transport`](crate::transport) for a
/// transport of your own.
///
/// ```no_run
/// # async fn example(server: impl hospes::Service) -> std::io::Result<()> {
/// use hospes::transport::stdio_server::StdioServer;
///
/// StdioServer::new(server).serve().await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StdioServer {
    service: BoxService,
    settings: AdapterSettings,
    limits: ConnectionLimits,
    sender: RequestSender,
}

impl StdioServer {
    /// Serves `service` with every setting at its default.
    pub fn new(service: impl IntoService) -> Self {
        Self::boxed(BoxService::new(service.into_service()))
    }

    /// Creates a server for a service whose type is erased.
    #[must_use]
    pub fn boxed(service: BoxService) -> Self {
        let settings =
            AdapterSettings { max_answer_bytes: DEFAULT_MAX_ANSWER_BYTES, ..AdapterSettings::default() };
        let limits = ConnectionLimits {
            message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
            concurrent_calls: DEFAULT_MAX_CONCURRENT_CALLS,
            queued_bytes: DEFAULT_MAX_QUEUED_BYTES,
            shutdown: DEFAULT_SHUTDOWN_TIMEOUT,
        };
        Self { service, settings, limits, sender: RequestSender::default() }
    }

    /// Sets the maximum size of a line, in bytes; a longer one is answered with an error, and the session continues.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.limits.message_bytes = bytes;
        self
    }

    /// The longest answer that is written; a longer one is replaced by an error that says so.
    #[must_use]
    pub fn max_answer_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_answer_bytes = bytes;
        self
    }

    /// Sets the maximum number of concurrent calls; further ones wait.
    #[must_use]
    pub fn max_concurrent_calls(mut self, calls: usize) -> Self {
        self.limits.concurrent_calls = calls.max(1);
        self
    }

    /// Sets the maximum size of queued requests, in bytes; further ones are refused.
    #[must_use]
    pub fn max_queued_bytes(mut self, bytes: usize) -> Self {
        self.limits.queued_bytes = bytes;
        self
    }

    /// Sets the maximum time that a handler waits for the client's answer to a question.
    #[must_use]
    pub fn question_timeout(mut self, timeout: Duration) -> Self {
        self.settings.question_timeout = timeout;
        self
    }

    /// Sets the time that calls have to finish after the client has closed its side.
    #[must_use]
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.limits.shutdown = timeout;
        self
    }

    /// Speaks these revisions and no other; all of them unless said.
    #[must_use]
    pub fn revisions(mut self, revisions: RevisionSet) -> Self {
        self.settings.revisions = revisions;
        self
    }

    /// The keys that seal request state (2026-07-28); random ones unless given.
    #[must_use]
    pub fn state_keys(mut self, keys: StateKeyRing) -> Self {
        self.settings.keys = keys;
        self
    }

    /// Sets the lifetime of sealed request state.
    #[must_use]
    pub fn state_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.state_lifetime = lifetime;
        self
    }

    /// Sets the description of the client program, for a byte stream whose other end is known. It is for records and
    /// people, see [`Peer::caller`](crate::Peer::caller).
    #[must_use]
    pub fn caller(mut self, caller: impl Into<Arc<str>>) -> Self {
        self.sender.caller = Some(caller.into());
        self
    }

    /// Serves the process's own stdin and stdout until stdin ends, stdout breaks, or a signal asks for the end
    /// (SIGTERM, SIGINT, SIGHUP). What was accepted by then is answered first.
    ///
    /// Calls have the [shutdown timeout](StdioServer::shutdown_timeout) to end, after stdin has ended as after a signal.
    /// A handler that does not give back its thread does not hold the process: it is ended at most two seconds later, with
    /// the exit code 1, or 128 and the signal's number. A second signal ends it at once.
    ///
    /// Both descriptors are taken away from the rest of the program: what it prints goes to stderr, what it reads is
    /// empty, so that a stray `println!` cannot break the wire (STDIO-07).
    ///
    /// # Errors
    /// When the descriptors cannot be taken or reading fails.
    #[cfg(feature = "stdio")]
    pub async fn serve(self) -> io::Result<()> {
        let counters = Arc::<CallCounters>::default();
        let running = {
            let counters = Arc::clone(&counters);
            move || counters.calls.load(Ordering::Acquire) + crate::server::blocking::running_handlers()
        };
        // Before the descriptors are taken: it watches stdin, which is replaced by that.
        let mut watchdog = Watchdog::start(self.limits.shutdown, true, running)?;
        let (input, output) = descriptors::take()?;
        let adapter = ServiceAdapter::new(self.service, self.settings);
        // Before the first request, because every result of 2026-07-28 carries the server's name (DISC-05).
        adapter.load_identity().await;
        let connection = StreamConnection::new(input, output, adapter, self.limits, self.sender);
        let asked = watchdog.asked();
        connection.watched(watchdog.pulse(), counters).run(asked).await
    }

    /// Serves the process's own stdin and stdout like [`StdioServer::serve`], but until `shutdown` is ready instead of
    /// until a signal comes: for programs that have more to end than this server. Nothing ends the process here.
    ///
    /// # Errors
    /// When the descriptors cannot be taken or reading fails.
    #[cfg(feature = "stdio")]
    pub async fn serve_process<F: Future<Output = ()>>(self, shutdown: F) -> io::Result<()> {
        let (input, output) = descriptors::take()?;
        self.serve_until(input, output, shutdown).await
    }

    /// Serves over a pair of byte streams, one message a line, until `input` ends or `output` breaks. What was accepted
    /// by then is answered first; `output` is shut down in the end.
    ///
    /// # Errors
    /// When reading fails.
    pub async fn serve_io<R, W>(self, input: R, output: W) -> io::Result<()>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        self.serve_until(input, output, std::future::pending()).await
    }

    /// Serves like [`StdioServer::serve_io`], also until `shutdown` is ready.
    ///
    /// # Errors
    /// When reading fails.
    pub async fn serve_until<R, W, F>(self, input: R, output: W, shutdown: F) -> io::Result<()>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
        F: Future<Output = ()>,
    {
        let adapter = ServiceAdapter::new(self.service, self.settings);
        adapter.load_identity().await;
        StreamConnection::new(input, output, adapter, self.limits, self.sender).run(shutdown).await
    }
}
