//! The public API of the client.

use std::path::Path;
use std::sync::Arc;

use hospes_model::{
    CallToolResult, CompleteParams, CompleteResult, Era, GetPromptParams, GetPromptResult, Implementation,
    LoggingLevel, Method, Notification, Prompt, RawJson, ReadResourceResult, Reply, Resource,
    ResourceTemplate, Revision, ServerCapabilities, Tool,
};
use serde::Serialize;

use super::error::{CallError, ConnectError, ConnectionClosed};
use super::link::{OutgoingParams, OutgoingRequest, write_json_string};
use super::target::Target;
use crate::client::calls::listing::PaginatedStream;
use crate::client::calls::request::RequestBuilder;
use crate::client::connection::builder::ClientBuilder;
use crate::client::connection::handle::Client;
use crate::client::error::malformed;
use crate::client::link::json_members;
#[cfg(feature = "server")]
use crate::service::IntoService;

impl Client {
    /// Connects to a command, a URL or a [`Target`], without handlers for requests of the server.
    ///
    /// # Errors
    /// [`ConnectError`] with the attempts, the failed stage, the response and a hint.
    pub async fn connect(target: impl Into<Target>) -> Result<Self, ConnectError> {
        ClientBuilder::default().connect(target).await
    }

    /// Connects to a server in this process.
    ///
    /// ```
    /// use hospes::client::Client;
    /// use hospes::prelude::*;
    /// use hospes::server::{Args, Server};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> hospes::Result<()> {
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Add { a: i64, b: i64 }
    ///
    /// let server = Server::new("calc", "1.0").tool("add", |Args(Add { a, b }): Args<Add>| async move { a + b });
    /// let client = Client::in_memory(server).await?;
    /// let sum: i64 = client.call("add", serde_json::json!({ "a": 1, "b": 2 })).await?.parse()?;
    /// assert_eq!(sum, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If client and server have no revision in common.
    #[cfg(feature = "server")]
    pub async fn in_memory(server: impl IntoService) -> Result<Self, ConnectError> {
        ClientBuilder::default().in_memory(server).await
    }

    /// Creates a builder for clients with handlers, capabilities and other limits.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Calls a tool.
    ///
    /// `arguments` is any value that serializes to a JSON object: `json!({…})`, a struct, or `()` for none. Input
    /// requests of the server are answered by the client's handlers.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use serde_json::json;
    /// # async fn f(client: hospes::client::Client) -> hospes::Result<()> {
    /// let sum: f64 = client.call("add", json!({ "a": 1, "b": 2 })).await?.parse()?;
    /// let slow = client
    ///     .call("train", json!({ "epochs": 3 }))
    ///     .timeout(Duration::from_secs(600))
    ///     .on_progress(|progress| println!("{}", progress.progress))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn call<'c>(
        &'c self,
        tool: &'c str,
        arguments: impl Serialize,
    ) -> RequestBuilder<'c, CallToolResult> {
        RequestBuilder::new(self, Method::ToolsCall)
            .require(self.check_feature(ServerFeature::Tools))
            .with_arguments(tool, &arguments)
    }

    /// Returns the messages of a prompt.
    pub fn prompt<'c, K, V>(
        &'c self,
        name: &'c str,
        arguments: impl IntoIterator<Item = (K, V)>,
    ) -> RequestBuilder<'c, GetPromptResult>
    where
        K: Into<String>,
        V: Into<String>,
    {
        let mut params = GetPromptParams::new(name);
        params.arguments = arguments.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        let arguments = (!params.arguments.is_empty()).then_some(&params.arguments);
        RequestBuilder::new(self, Method::PromptsGet)
            .require(self.check_feature(ServerFeature::Prompts))
            .with_arguments(name, &arguments)
    }

    /// Reads a resource.
    pub fn read<'c>(&'c self, uri: &'c str) -> RequestBuilder<'c, ReadResourceResult> {
        let mut text = b"\"uri\":".to_vec();
        write_json_string(&mut text, uri);
        RequestBuilder::new(self, Method::ResourcesRead)
            .require(self.check_feature(ServerFeature::Resources))
            .with_members(uri, text)
    }

    /// Suggests values for an argument.
    pub fn complete(&self, params: &CompleteParams) -> RequestBuilder<'_, CompleteResult> {
        RequestBuilder::new(self, Method::Complete)
            .require(self.check_feature(ServerFeature::Completions))
            .with_params(params)
    }

    /// Lists tools, fetching pages on demand.
    pub fn tools(&self) -> PaginatedStream<'_, Tool> {
        PaginatedStream::new(self, self.check_feature(ServerFeature::Tools))
    }

    /// Lists prompts, fetching pages on demand.
    pub fn prompts(&self) -> PaginatedStream<'_, Prompt> {
        PaginatedStream::new(self, self.check_feature(ServerFeature::Prompts))
    }

    /// Lists resources, fetching pages on demand.
    pub fn resources(&self) -> PaginatedStream<'_, Resource> {
        PaginatedStream::new(self, self.check_feature(ServerFeature::Resources))
    }

    /// Lists resource templates, fetching pages on demand.
    pub fn resource_templates(&self) -> PaginatedStream<'_, ResourceTemplate> {
        PaginatedStream::new(self, self.check_feature(ServerFeature::Resources))
    }

    /// Checks that the server responds. (2026-07-28 has no `ping`; `server/discover` is used instead.)
    ///
    /// # Errors
    /// If the server does not respond.
    pub async fn ping(&self) -> Result<(), CallError> {
        self.core.ping(self.core.settings.times).await
    }

    /// Wants log messages of this severity and above; they go to the builder's `on_log`.
    ///
    /// # Errors
    /// When the server sends no log messages, or refuses.
    pub async fn set_log_level(&self, level: LoggingLevel) -> Result<(), CallError> {
        self.check_feature(ServerFeature::Logging)?;
        // Stored before it is sent: a session that is renewed meanwhile repeats the stored level.
        self.core.set_log_level(Some(level));
        if !self.core.protocol.revision.is_legacy() {
            // Every request says so by itself.
            return Ok(());
        }
        self.core.send_log_level(level).await
    }

    /// Replaces the folders that the server may work in, and notifies the server if its revision supports that.
    pub fn set_roots<P: AsRef<Path>>(&self, folders: impl IntoIterator<Item = P>) {
        self.core.dispatcher.handlers.roots.set(folders);
        // Later revisions have no such notification: a server asks
        // for the roots in every call that needs them (ROOT-22).
        if self.core.protocol.revision.is_legacy() && self.core.settings.capabilities.roots.is_some() {
            self.core.link.notify(&Notification::RootsListChanged, &self.core.protocol);
        }
    }

    /// Calls any method with any params and returns the undecoded result. For methods that the specification does not
    /// define.
    ///
    /// # Errors
    /// The errors of any call.
    pub async fn raw(&self, method: &str, params: &RawJson) -> Result<RawJson, CallError> {
        let method = Method::from_name(method);
        let params = json_members(params)?;
        let outgoing =
            OutgoingRequest { members: OutgoingParams::Text(&params), ..self.core.new_request(&method) };
        match self.core.complete_request(outgoing, None).await? {
            Reply::Raw { json, .. } => Ok(json),
            other => {
                // Decoding has raised the reply to the newest revision, so
                // it is written in that one, whatever the server speaks.
                let mut out = Vec::new();
                let stamp = hospes_model::ServerStamp::anonymous();
                let written = other.encode(&method, Revision::LATEST, &stamp, &mut out);
                let json = written.ok().and_then(|()| RawJson::parse(out).ok());
                json.ok_or_else(|| malformed(&method, "it cannot be serialized again"))
            }
        }
    }

    /// Sends a notification of an extension. The params must be an object.
    ///
    /// # Errors
    /// [`CallError::NotInRevision`] for a method that the specification defines; also if it cannot be sent.
    pub async fn notify(&self, method: &str, params: &RawJson) -> Result<(), CallError> {
        self.core.notify(&Method::from_name(method), params.clone()).await
    }

    /// Returns the name and version of the server. Servers of 2026-07-28 may omit them.
    #[must_use]
    pub fn server_info(&self) -> Option<&Implementation> {
        self.core.server.info.as_ref()
    }

    /// Returns the capabilities of the server. `None` if the server did not declare any; every feature may then be
    /// tried.
    #[must_use]
    pub fn capabilities(&self) -> Option<&ServerCapabilities> {
        self.core.server.capabilities.as_ref()
    }

    /// Instructions of the server for the model on how to use it.
    #[must_use]
    pub fn instructions(&self) -> Option<&str> {
        self.core.server.instructions.as_deref()
    }

    /// Returns the revisions that the server declares, as received.
    #[must_use]
    pub fn supported_versions(&self) -> &[String] {
        &self.core.server.supported
    }

    /// Returns the number of parked calls and held requests of this client as a service. Parked calls wait for answers
    /// from elsewhere; they include calls that fetch the result of a task.
    #[must_use]
    pub fn parked_calls(&self) -> usize {
        self.core.parked.len() + self.core.tasks.fetching.len() + self.core.dispatcher.deferred.len()
    }

    /// Returns the negotiated revision.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.core.protocol.revision
    }

    /// Returns the detected era. Remember it for each server, because detecting it costs a request.
    #[must_use]
    pub fn era(&self) -> Era {
        self.core.protocol.revision.era()
    }

    /// Returns true if the server is reached over HTTP+SSE, the transport of 2024-11-05. Remember it per server beside
    /// the era, because detecting it costs a request.
    #[must_use]
    pub fn is_over_sse(&self) -> bool {
        self.core.over_sse
    }

    /// Returns the number of lines on the server's stdout that were not messages, and the first of them.
    #[must_use]
    pub fn noise(&self) -> (u64, Option<String>) {
        self.core.link.noise()
    }

    /// Returns the reason the connection ended, if it has ended.
    #[must_use]
    pub fn closed(&self) -> Option<Arc<ConnectionClosed>> {
        self.core.dispatcher.closed()
    }

    /// Resolves when the connection has ended, with how it ended. (An HTTP server has no connection that could end.)
    pub async fn wait_closed(&self) -> Arc<ConnectionClosed> {
        self.core.dispatcher.wait_closed().await
    }

    /// Closes the connection for all clones. Ends the child process and its descendants, and deletes the HTTP session.
    pub async fn close(&self) {
        self.core.link.close().await;
    }

    fn check_feature(&self, offer: ServerFeature) -> Result<(), CallError> {
        let Some(capabilities) = &self.core.server.capabilities else { return Ok(()) };
        let (offered, what) = match offer {
            ServerFeature::Tools => (capabilities.tools.is_some(), "tools"),
            ServerFeature::Prompts => (capabilities.prompts.is_some(), "prompts"),
            ServerFeature::Resources => (capabilities.resources.is_some(), "resources"),
            // The first revision has completion but no capability for it.
            ServerFeature::Completions => {
                let flagged = capabilities.completions.is_some();
                (flagged || self.revision() == Revision::V2024_11_05, "completions")
            }
            ServerFeature::Logging => (capabilities.logging.is_some(), "log messages"),
        };
        if offered { Ok(()) } else { Err(CallError::NotOffered(what)) }
    }
}

#[derive(Clone, Copy)]
enum ServerFeature {
    Tools,
    Prompts,
    Resources,
    Completions,
    Logging,
}
