//! Builder of a client: its handlers, capabilities and limits.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hospes_model::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult,
    ElicitationCapability, Era, Implementation, LogMessageParams, Notification, RawJson, Revision, Root,
    RootsCapability, SamplingCapability, meta_key,
};

use tokio::io::{AsyncRead, AsyncWrite};

use crate::client::connection::connect;
use crate::client::connection::handle::Client;
use crate::client::connection::settings::ConnectOptions;
use crate::client::connection::settings::HealthCheck;
use crate::client::error::ConnectError;
use crate::client::inbound::dispatcher::ListKind;
use crate::client::inbound::handlers::QuestionRateLimiter;
use crate::client::inbound::task_runner::ClientTaskRunner;
use crate::client::target::Target;
#[cfg(feature = "stdio")]
use crate::client::target::process_event::ProcessEvent;
use crate::error::Result;
use crate::rate::Rate;
#[cfg(feature = "server")]
use crate::service::IntoService;
use crate::tasks::TaskSettings;

/// Builder of a [`Client`].
///
/// ```no_run
/// # use hospes::client::{Client, Target};
/// # use hospes::model::{CreateMessageResult, SamplingMessageContentBlock};
/// # async fn f() -> hospes::Result<()> {
/// let client = Client::builder()
///     .roots(["."])
///     .sampling(|question| async move {
///         let answer = SamplingMessageContentBlock::text(format!("{} messages", question.messages.len()));
///         Ok(CreateMessageResult::new("counting", answer))
///     })
///     .connect("npx -y @modelcontextprotocol/server-everything")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
#[must_use = "a builder does nothing until it connects"]
pub struct ClientBuilder {
    options: ConnectOptions,
    tasks: Option<TaskSettings>,
}

impl ClientBuilder {
    /// Sets the name and version that the client reports to the server.
    pub fn info(mut self, info: Implementation) -> Self {
        self.options.settings.info = info;
        self
    }

    /// Sets the handler of the server's sampling requests. Declares the capability `sampling`.
    ///
    /// For a refusal by the user, return an [`RpcError`](hospes_model::RpcError) with the code `-1`; it ends the call
    /// that caused the request.
    pub fn sampling<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(CreateMessageParams) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CreateMessageResult>> + Send + 'static,
    {
        self.options.dispatcher.handlers.sampler = Some(Arc::new(move |params| Box::pin(handler(params))));
        self.options.settings.capabilities.sampling.get_or_insert_with(SamplingCapability::new);
        self
    }

    /// Declares that the sampling handler supports tools (`sampling.tools`).
    pub fn sampling_tools(mut self) -> Self {
        let sampling =
            self.options.settings.capabilities.sampling.get_or_insert_with(SamplingCapability::new);
        sampling.tools = Some(RawJson::empty_object());
        self
    }

    /// Sets the handler of form elicitations. Declares the capability `elicitation.form`. Fields missing from an
    /// accepted answer take the defaults of the form. An answer that does not match the form is not sent.
    pub fn elicitation<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(ElicitParams) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ElicitResult>> + Send + 'static,
    {
        self.options.dispatcher.handlers.elicitor = Some(Arc::new(move |params| Box::pin(handler(params))));
        // Named even if it is the only mode: an empty object means
        // forms, but not once `url` stands beside it (ELIC-02).
        self.elicitation_capability().form = Some(RawJson::empty_object());
        self
    }

    /// Declares that the elicitation handler supports URLs (`elicitation.url`). It must show the whole URL and ask
    /// before opening it, and must not fetch it; see [`UrlReview`](crate::client::UrlReview).
    pub fn elicitation_urls(mut self) -> Self {
        self.elicitation_capability().url = Some(RawJson::empty_object());
        self
    }

    /// Sets a callback for completed URL elicitations (2025-11-25); it receives the elicitation's id. The notification
    /// may never arrive, so code that waits for it needs another way to continue and a timeout.
    pub fn on_elicitation_complete(mut self, listener: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.options.dispatcher.handlers.on_elicitation_complete = Some(Arc::new(listener));
        self
    }

    /// Sets the maximum rate of sampling requests and of elicitations, counted separately. Requests over the rate are
    /// refused. The default is [`DEFAULT_QUESTION_RATE`](crate::client::DEFAULT_QUESTION_RATE).
    pub fn question_rate(mut self, rate: Rate) -> Self {
        self.options.dispatcher.handlers.rate_limiter = QuestionRateLimiter::new(rate);
        self
    }

    /// Enables validation of `structuredContent` against the `outputSchema` of its tool; the default is true. It
    /// requires the feature `validate` and applies to tools that have been listed. A result that does not match is an
    /// error.
    pub fn check_outputs(mut self, check: bool) -> Self {
        self.options.settings.checks_outputs = check;
        self
    }

    fn elicitation_capability(&mut self) -> &mut ElicitationCapability {
        self.options.settings.capabilities.elicitation.get_or_insert_with(ElicitationCapability::new)
    }

    /// Lets the server run its requests to the model or the user as [tasks](crate::tasks) (2025-11-25): it fetches the
    /// result later instead of waiting. Declares the capability `tasks` for all requests with handlers.
    pub fn tasks(mut self, settings: TaskSettings) -> Self {
        self.tasks = Some(settings);
        self
    }

    /// Sets the folders that the server may work in: paths, or `file:` URIs. Declares the capability `roots`.
    ///
    /// `..` and symbolic links are resolved when the folders are set. A path is reported only while it is readable and
    /// still leads to the same folder. Up to 2025-11-25 the server is notified when folders disappear or return. URIs
    /// are reported unchanged.
    pub fn roots<P: AsRef<Path>>(mut self, folders: impl IntoIterator<Item = P>) -> Self {
        self.options.dispatcher.handlers.roots.set(folders);
        let mut capability = RootsCapability::new();
        capability.list_changed = Some(true);
        self.options.settings.capabilities.roots = Some(capability);
        self
    }

    /// Calls `tell_if` each time [`roots`](Self::roots) would be reported to the server. If it returns false, an empty
    /// list is reported.
    pub fn expose_roots_if(mut self, tell_if: impl Fn(&[Root]) -> bool + Send + Sync + 'static) -> Self {
        self.options.dispatcher.handlers.roots.tell_if = Some(Arc::new(tell_if));
        self
    }

    /// Declares exactly these capabilities, regardless of the handlers. A gateway uses this, because its calls forward
    /// questions to another client. Extensions with an invalid identifier (CAP-14) are omitted.
    pub fn capabilities(mut self, mut capabilities: ClientCapabilities) -> Self {
        capabilities.extensions.retain(|identifier, _| match meta_key::check_extension(identifier) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "extension not declared");
                false
            }
        });
        self.options.settings.capabilities = capabilities;
        self
    }

    /// Requires this revision.
    pub fn revision(mut self, revision: Revision) -> Self {
        self.options.settings.revision = Some(revision);
        self
    }

    /// Sets the era that [`Client::era`] returned earlier, which is then tried first.
    pub fn era(mut self, known: Era) -> Self {
        self.options.settings.era = Some(known);
        self
    }

    /// Tries HTTP+SSE first, the transport of 2024-11-05, if [`Client::is_over_sse`] returned true earlier. If that
    /// fails, the transport is detected like the era.
    pub fn sse(mut self, known: bool) -> Self {
        self.options.settings.sse = known;
        self
    }

    /// Sets the time a call may take without an answer or progress. [`Duration::MAX`] disables the limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.settings.times.timeout = to_time_limit(timeout);
        self
    }

    /// Sets the total time a call may take, regardless of progress. [`Duration::MAX`] disables the limit.
    pub fn max_timeout(mut self, timeout: Duration) -> Self {
        self.options.settings.times.max_timeout = to_time_limit(timeout);
        self
    }

    /// Sets the time that connecting may take.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.options.settings.connect_timeout = timeout;
        self
    }

    /// Sets the time an upstream call is kept while its questions are answered elsewhere. It also limits how long a
    /// question waits if there is no call to ask it with (see [`Client`] as a service).
    pub fn park_timeout(mut self, timeout: Duration) -> Self {
        self.options.settings.park_timeout = timeout;
        self
    }

    /// Sets the maximum number of rounds of questions per call.
    pub fn max_input_rounds(mut self, rounds: u32) -> Self {
        self.options.settings.max_input_rounds = rounds;
        self
    }

    /// Sets the size of the response cache in bytes. It holds lists and resources that the server marked as cacheable
    /// (2026-07-28). 0 disables the cache; the default is [`DEFAULT_CACHE_BYTES`](crate::client::DEFAULT_CACHE_BYTES).
    /// A change notification invalidates the affected entries immediately; to receive changes before entries expire,
    /// [listen](Client::listen).
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.options.settings.cache_bytes = bytes;
        self
    }

    /// Sets the proxy for servers over HTTP: `http://host:port`, with `user:password@` before the host if the proxy
    /// requires authentication. Connections to `https` use a tunnel. `except` lists hosts reached directly, in the form
    /// of `NO_PROXY`: names with their subdomains, addresses and networks, separated by commas. Servers on this machine
    /// are always reached directly.
    ///
    /// Without this setting the environment decides: `HTTPS_PROXY` for `https`, `HTTP_PROXY` for `http`, `ALL_PROXY`
    /// for either, except for the hosts in `NO_PROXY`; each in upper or lower case. An invalid proxy URL is an error
    /// when connecting.
    #[cfg(feature = "http")]
    pub fn proxy(mut self, url: impl Into<String>, except: impl Into<String>) -> Self {
        self.options.settings.network.proxy =
            hospes_http_client::ProxySetting::Given { url: url.into(), except: except.into() };
        self
    }

    /// Uses no proxy, regardless of the environment.
    #[cfg(feature = "http")]
    pub fn no_proxy(mut self) -> Self {
        self.options.settings.network.proxy = hospes_http_client::ProxySetting::None;
        self
    }

    /// Also trusts the certificate authorities in this PEM file. May be called repeatedly.
    ///
    /// By default Mozilla's authorities are trusted, which are built in, or instead those in `SSL_CERT_FILE` (a file)
    /// and `SSL_CERT_DIR` (folders) of the environment. A file that cannot be read, or contains no certificate, is an
    /// error when connecting.
    #[cfg(feature = "tls")]
    pub fn ca_file(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.options.settings.network.ca_files.push(path.into());
        self
    }

    /// Pings the server regularly, and closes the connection when it does not answer. There are no pings by default,
    /// because calls have time limits of their own.
    pub fn health_check(mut self, check: HealthCheck) -> Self {
        self.options.settings.health_check = Some(check);
        self
    }

    /// Sets the maximum size of a message from the server, in bytes. A longer one fails only its own call.
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.options.settings.limits.max_message_bytes = bytes;
        self
    }

    /// Sets the maximum size of a request over stdio, in bytes. Some servers close the connection at 10 MiB, so the
    /// default is just below that.
    pub fn max_request_bytes(mut self, bytes: usize) -> Self {
        self.options.settings.limits.max_request_bytes = bytes;
        self
    }

    /// Sets the maximum number of concurrent calls.
    pub fn max_in_flight(mut self, calls: usize) -> Self {
        self.options.settings.limits.max_in_flight = calls;
        self
    }

    /// Sets the maximum number of concurrent requests from the server; further ones are refused.
    pub fn max_server_requests(mut self, requests: usize) -> Self {
        self.options.settings.limits.max_server_requests = requests;
        self
    }

    /// Sets a callback for log messages of the server. Messages of calls made for another client (see [`Client`] as a
    /// service) go to that client instead.
    pub fn on_log(mut self, listener: impl Fn(LogMessageParams) + Send + Sync + 'static) -> Self {
        self.options.dispatcher.on_log = Some(Arc::new(listener));
        self
    }

    /// Sets a callback for notifications that the specification does not define and that belong to no call, as
    /// extensions have them. It receives a [`Notification::Other`].
    pub fn on_notification(mut self, listener: impl Fn(Notification) + Send + Sync + 'static) -> Self {
        self.options.dispatcher.on_notification = Some(Arc::new(listener));
        self
    }

    /// Sets the handler of the server's extension requests. It receives the method and the params, and returns the
    /// result, an object. Without it such requests are rejected with `-32601`. Declare the extension itself with
    /// [`ClientBuilder::capabilities`].
    pub fn on_extension_request<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(String, RawJson) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<RawJson>> + Send + 'static,
    {
        self.options.dispatcher.handlers.extension =
            Some(Arc::new(move |method, params| Box::pin(handler(method, params))));
        self
    }

    /// Sets a callback for changes of the server's lists.
    pub fn on_list_changed(mut self, listener: impl Fn(ListKind) + Send + Sync + 'static) -> Self {
        self.options.dispatcher.on_list_changed = Some(Arc::new(listener));
        self
    }

    /// Sets a callback for the lines that a child process writes to stderr.
    #[cfg(feature = "stdio")]
    pub fn on_stderr(mut self, listener: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.options.listeners.stderr = Some(Arc::new(listener));
        self
    }

    /// Sets a callback for process events: a server's process was started, failed to start, or has ended. Detecting the
    /// era may take two processes. The callback must not block.
    #[cfg(feature = "stdio")]
    pub fn on_process(mut self, listener: impl Fn(ProcessEvent<'_>) + Send + Sync + 'static) -> Self {
        self.options.listeners.process = Some(Arc::new(listener));
        self
    }

    /// Finishes the settings: the handlers refuse requests beyond the declared capabilities.
    fn into_options(mut self) -> ConnectOptions {
        // Not in `tasks`: which requests may become tasks depends on handlers that may be set after it.
        if let Some(settings) = self.tasks {
            ClientTaskRunner::declare_capability(&mut self.options.settings.capabilities);
            self.options.dispatcher.tasks =
                Some(ClientTaskRunner::new(settings, self.options.settings.limits.max_server_requests));
        }
        self.options.dispatcher.handlers.declared = self.options.settings.capabilities.clone();
        self.options.dispatcher.park_timeout = self.options.settings.park_timeout;
        self.options
    }

    /// Connects.
    ///
    /// # Errors
    /// [`ConnectError`] with the attempts, the failed stage, the response and a hint.
    pub async fn connect(self, target: impl Into<Target>) -> Result<Client, ConnectError> {
        // The future of connecting is large, and there is one of it for a connection.
        Box::pin(connect::connect(self.into_options(), target.into())).await
    }

    /// Connects to a server in this process without a socket, for tests and for hosts with built-in servers.
    ///
    /// # Errors
    /// If client and server have no revision in common.
    #[cfg(feature = "server")]
    pub async fn in_memory(self, server: impl IntoService) -> Result<Client, ConnectError> {
        let (read, write) = tokio::io::split(crate::transport::memory::serve(server.into_service()));
        Box::pin(connect::connect_streams(self.into_options(), read, write, "a server in memory")).await
    }

    /// Connects over existing byte streams, such as a socket. Messages are lines, as over stdio; see
    /// [`transport`](crate::transport) for carriers of whole messages.
    ///
    /// Some older servers close the connection when they are probed for their era; use [`dial`](Self::dial) for those.
    ///
    /// # Errors
    /// If the other side is not an MCP server.
    pub async fn over<R, W>(self, read: R, write: W) -> Result<Client, ConnectError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        Box::pin(connect::connect_streams(self.into_options(), read, write, "a stream")).await
    }

    /// Connects over the byte streams that `dial` returns, as described at [`over`](Self::over). `dial` is called a
    /// second time if the server closes the connection on the first version probe. `name` identifies the server in
    /// errors and logs.
    ///
    /// ```no_run
    /// # #[cfg(unix)]
    /// # async fn f() -> hospes::Result<()> {
    /// use hospes::client::Client;
    /// use tokio::net::UnixStream;
    ///
    /// let dial = || async { Ok(UnixStream::connect("/run/mcp.sock").await?.into_split()) };
    /// let client = Client::builder().dial("/run/mcp.sock", dial).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error if nothing accepts the connection or the peer is not an MCP server.
    pub async fn dial<D, Fut, R, W>(self, name: &str, dial: D) -> Result<Client, ConnectError>
    where
        D: Fn() -> Fut,
        Fut: Future<Output = std::io::Result<(R, W)>>,
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        Box::pin(connect::dial(self.into_options(), dial, name)).await
    }
}

fn to_time_limit(timeout: Duration) -> Option<Duration> {
    // The deadline of `Duration::MAX` would overflow an `Instant`, so no limit is `None`.
    (timeout != Duration::MAX).then_some(timeout)
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientBuilder").field("settings", &self.options.settings).finish_non_exhaustive()
    }
}
