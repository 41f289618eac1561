//! The client as its users see it.

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
    /// Connects to a command, a URL or a [`Target`], as a client that can only call.
    ///
    /// # Errors
    /// A value that says what was tried, at which stage it failed, what came back and what to do next.
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
    /// When they do not understand each other.
    #[cfg(feature = "server")]
    pub async fn in_memory(server: impl IntoService) -> Result<Self, ConnectError> {
        ClientBuilder::default().in_memory(server).await
    }

    /// A client that can do more than call: answer the server's questions, listen, wait longer.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Calls a tool.
    ///
    /// `arguments` is anything that is written as a JSON object: `json!({…})`, a struct, or `()` for none. Questions
    /// that the server asks on the way are answered by the handlers that the client was built with.
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

    /// Fills in a prompt.
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

    /// The tools, page by page as they are needed.
    pub fn tools(&self) -> PaginatedStream<'_, Tool> {
        PaginatedStream::new(self, self.check_feature(ServerFeature::Tools))
    }

    /// The prompts, page by page as they are needed.
    pub fn prompts(&self) -> PaginatedStream<'_, Prompt> {
        PaginatedStream::new(self, self.check_feature(ServerFeature::Prompts))
    }

    /// The resources, page by page as they are needed.
    pub fn resources(&self) -> PaginatedStream<'_, Resource> {
        PaginatedStream::new(self, self.check_feature(ServerFeature::Resources))
    }

    /// The resource templates, page by page as they are needed.
    pub fn resource_templates(&self) -> PaginatedStream<'_, ResourceTemplate> {
        PaginatedStream::new(self, self.check_feature(ServerFeature::Resources))
    }

    /// Asks whether the server is there. (2026-07-28 has no `ping`; its servers are asked who they are instead.)
    ///
    /// # Errors
    /// When it does not answer.
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

    /// Changes the folders that the server may work in, and tells it where its revision has a message for that.
    pub fn set_roots<P: AsRef<Path>>(&self, folders: impl IntoIterator<Item = P>) {
        self.core.dispatcher.handlers.roots.set(folders);
        // Later revisions have no such notification: a server asks
        // for the roots in every call that needs them (ROOT-22).
        if self.core.protocol.revision.is_legacy() && self.core.settings.capabilities.roots.is_some() {
            self.core.link.notify(&Notification::RootsListChanged, &self.core.protocol);
        }
    }

    /// Calls any method with any params, and returns the result as it came. For methods that the specification does not
    /// define.
    ///
    /// # Errors
    /// As for every call.
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

    /// Sends a notification of an extension, with params that are an object. Nobody answers it.
    ///
    /// # Errors
    /// [`CallError::NotInRevision`] for a method that the specification defines, which is sent where it belongs; and what
    /// keeps it from being handed over.
    pub async fn notify(&self, method: &str, params: &RawJson) -> Result<(), CallError> {
        self.core.notify(&Method::from_name(method), params.clone()).await
    }

    /// Name and version of the server. Servers of 2026-07-28 may omit them.
    #[must_use]
    pub fn server_info(&self) -> Option<&Implementation> {
        self.core.server.info.as_ref()
    }

    /// Capabilities of the server. None if the server did not declare any; every feature may then be tried.
    #[must_use]
    pub fn capabilities(&self) -> Option<&ServerCapabilities> {
        self.core.server.capabilities.as_ref()
    }

    /// Instructions of the server for the model on how to use it.
    #[must_use]
    pub fn instructions(&self) -> Option<&str> {
        self.core.server.instructions.as_deref()
    }

    /// The revisions that the server says it speaks, as it spells them.
    #[must_use]
    pub fn supported_versions(&self) -> &[String] {
        &self.core.server.supported
    }

    /// Number of parked calls and held questions of this client as a service. Parked calls wait for answers from
    /// elsewhere; they include calls that fetch the result of a task.
    #[must_use]
    pub fn parked_calls(&self) -> usize {
        self.core.parked.len() + self.core.tasks.fetching.len() + self.core.dispatcher.deferred.len()
    }

    /// The revision that is spoken.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.core.protocol.revision
    }

    /// The era that was found; worth remembering per server, because finding it costs a question.
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

    /// Ends the connection for all clones: the child and everything it started is gone, the HTTP session deleted.
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
