//! Writing servers.
//!
//! A [`Server`] is built by registering plain async functions, and is a [`Service`] as it stands:
//!
//! ```
//! use hospes::server::{Args, Server, Tool};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! /// Adds two numbers.
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: f64,
//!     b: f64,
//! }
//!
//! let server = Server::new("calc", "1.0")
//!     .tool("add", |Args(Add { a, b })| async move { a + b })
//!     .tool(Tool::new("pi").description("The number.").read_only(true), || async { 3.141_592_653_59 })
//!     .resource("calc://about", "A small calculator.")
//!     .resource_template("calc://squares/{of}", |Args(Square { of })| async move { (of * of).to_string() });
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Square {
//!     of: u32,
//! }
//! # let _ = server;
//! ```
//!
//! `#[hospes::server]` on an `impl` block writes these calls.
//!
//! # What blocks
//!
//! Handlers are polled in the task of their connection, so that a quick one is answered without a detour. An async
//! handler must therefore not block. Await what waits, and move long computations and blocking calls to a thread with
//! [`blocking`](fn@blocking) or `tokio::task::spawn_blocking`. Synchronous methods of `#[hospes::server]` do this
//! automatically; `#[tool(inline)]` runs a tiny one in place.
//!
//! An async handler that does not yield (a loop without an `await`) holds one thread of the runtime until it does. On a
//! runtime with several threads the connection is still served. Calls of tools, prompts and resources that were not
//! seen to return quickly have tasks of their own. On a `current_thread` runtime nothing else is answered meanwhile. On
//! neither can it keep the process from ending; see
//! [`StdioServer::serve`](crate::transport::stdio_server::StdioServer::serve).

mod arguments;
pub(crate) mod blocking;
mod cache_hint;
mod catalogue;
mod change_bus;
mod complete;
mod content;
mod cursor;
mod dispatch;
mod error;
mod extract;
mod handle;
mod handler;
mod handles;
mod mistakes;
mod prompt;
mod resource;
mod result;
mod rules;
mod schema;
mod shared;
mod suggest;
mod tasks;
mod template;
#[cfg(test)]
mod tests;
mod tool;
#[cfg(feature = "validate")]
mod validate;
mod variables;

use std::sync::Arc;
use std::time::Duration;

use hospes_model::{CacheScope, Icon, Implementation, RawJson, ServerStamp, meta_key};
use tower_layer::Layer;

use crate::service::Service;
use crate::tasks::{TaskSettings, TaskStore};
use cache_hint::CacheHint;
use catalogue::{ListSettings, ServerCatalogue};
use extract::StateMap;
use prompt::PromptEntry;
use resource::{ResourceEntry, TemplateEntry};
use rules::ServerRules;
use shared::ServerShared;
use tool::ToolEntry;

pub use crate::json_schema::{MAX_SCHEMA_DEPTH, MAX_SUBSCHEMAS};
pub use blocking::{Blocking, MAX_BLOCKING_CALLS, blocking};
pub use change_bus::MAX_SUBSCRIBED_URIS;
pub use complete::{Completer, Completes, FixedValues, IntoCompleter, IntoCompletion, fitting};
pub use error::RegisterError;
pub use extract::{Args, CallParts, Declaration, Extension, FromCall, State, Typed, Uri};
pub use handle::ServerHandle;
pub use handler::Handler;
pub use handles::{HandleError, Handles, MAX_HANDLES};
pub use prompt::{IntoPrompt, Prompt};
pub use resource::{
    Contents, FixedContents, IntoContents, IntoResourceReader, Resource, ResourceReader, Template,
};
pub use result::{IntoToolResult, Json};
pub use rules::{DEFAULT_COMPLETION_RATE, Feature, MAX_COUNTED_CALLERS, hide_invisible};
pub use template::{MAX_URI_LENGTH, UriTemplate, UriTemplateError};
pub use tool::{MAX_TOOL_NAME, Tool};
pub use variables::{TemplateVariables, VariableValue};

/// Default number of entries on a page of a list; see [`Server::page_size`].
pub const DEFAULT_PAGE_SIZE: usize = 1000;

/// Conversion into a [`Server`]: a server, or a type with `#[hospes::server]` on its `impl` block.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a server",
    label = "not a server",
    note = "put `#[hospes::server]` on an `impl {Self}` block, or build one with `Server::new`"
)]
pub trait IntoServer {
    /// The server.
    fn into_server(self) -> Server;
}

impl IntoServer for Server {
    fn into_server(self) -> Server {
        self
    }
}

/// A server: tools, resources, prompts and completions, answered by functions.
///
/// Registering something twice, a name that no tool may have, or a schema that cannot be used is a mistake in the
/// program, and panics at the caller's line.
///
/// A clone is the same server: all clones offer the changes of a [`ServerHandle`]. A builder method called on a clone
/// separates it from the others. Handles taken before stay with the others.
#[derive(Clone, Debug)]
#[must_use]
pub struct Server {
    info: Implementation,
    instructions: Option<String>,
    extensions: Vec<(String, RawJson)>,
    experimental: Vec<(String, RawJson)>,
    rules: ServerRules,
    listing: ListSettings,
    reading: CacheHint,
    discovery: CacheHint,
    /// True if the offered items may change while the server runs.
    changes: bool,
    states: StateMap,
    shared: Arc<ServerShared>,
    /// Counts the clones that share the catalogue.
    clones: Arc<()>,
    tasks: tasks::LazyTaskManager,
}

impl Server {
    /// A server that offers nothing yet.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let info = Implementation::new(name, version);
        Self {
            rules: ServerRules::new(&info.name),
            info,
            instructions: None,
            extensions: Vec::new(),
            experimental: Vec::new(),
            listing: ListSettings { page_size: DEFAULT_PAGE_SIZE, cache: CacheHint::default() },
            reading: CacheHint::default(),
            discovery: CacheHint::default(),
            changes: true,
            states: StateMap::default(),
            shared: Arc::default(),
            clones: Arc::default(),
            tasks: tasks::LazyTaskManager::default(),
        }
    }

    /// The name to show.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.info.title = Some(title.into());
        self
    }

    /// Sets the description of the server.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.info.description = Some(description.into());
        self
    }

    /// Sets the instructions for the model on how to use the server.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Pictures of it.
    pub fn icons(mut self, icons: impl IntoIterator<Item = Icon>) -> Self {
        self.info.icons = icons.into_iter().collect();
        self
    }

    /// Sets the URL of a page about the server.
    pub fn website_url(mut self, url: impl Into<String>) -> Self {
        self.info.website_url = Some(url.into());
        self
    }

    /// Declares an extension with its settings (2026-07-28). None is declared unless said.
    ///
    /// # Panics
    /// Panics if the identifier is invalid: it must be a name under a prefix of one's own, such as `com.example/name`.
    #[track_caller]
    pub fn extension(mut self, identifier: impl Into<String>, settings: impl Into<RawJson>) -> Self {
        let identifier = identifier.into();
        unwrap_registration(meta_key::check_extension(&identifier).map_err(RegisterError::from));
        self.extensions.push((identifier, settings.into()));
        self
    }

    /// Declares something that no revision knows, with its settings, under `experimental`.
    pub fn experimental(mut self, name: impl Into<String>, settings: impl Into<RawJson>) -> Self {
        self.experimental.push((name.into(), settings.into()));
        self
    }

    /// A tool: its name, or a [`Tool`] that says more, and the function that runs it.
    ///
    /// # Panics
    /// When there is a tool of that name, or its name or schema cannot be used.
    #[track_caller]
    pub fn tool<H, P>(self, tool: impl Into<Tool>, handler: H) -> Self
    where
        H: Handler<P>,
        H::Output: IntoToolResult,
    {
        let entry = unwrap_registration(ToolEntry::new(tool.into(), handler));
        self.register(|catalogue| catalogue.tools.add(entry))
    }

    /// A prompt: its name, or a [`Prompt`] that says more, and the function that fills it in.
    ///
    /// # Panics
    /// When there is a prompt of that name, or its arguments are no struct.
    #[track_caller]
    pub fn prompt<H, P>(self, prompt: impl Into<Prompt>, handler: H) -> Self
    where
        H: Handler<P>,
        H::Output: IntoPrompt,
    {
        let entry = unwrap_registration(PromptEntry::new(prompt.into(), handler));
        self.register(|catalogue| catalogue.prompts.add(entry))
    }

    /// A resource: its URI, or a [`Resource`] that says more, and its content or the function that reads it.
    ///
    /// # Panics
    /// When there is a resource at that URI, or it is no URI.
    #[track_caller]
    pub fn resource<M>(self, resource: impl Into<Resource>, source: impl IntoResourceReader<M>) -> Self {
        let entry = unwrap_registration(ResourceEntry::new(resource.into(), source));
        self.register(|catalogue| catalogue.resources.add(entry))
    }

    /// A family of resources: its URI template, or a [`Template`] that says more, and the function that reads them.
    /// Templates are tried in the order of their registration, after the resources with exactly that URI.
    ///
    /// # Panics
    /// Panics if there is such a template already, if it is invalid, or if the function takes a variable that the
    /// template lacks.
    #[track_caller]
    pub fn resource_template<M>(
        self,
        template: impl Into<Template>,
        source: impl IntoResourceReader<M>,
    ) -> Self {
        let entry = unwrap_registration(TemplateEntry::new(template.into(), source));
        self.register(|catalogue| catalogue.templates.add(entry))
    }

    /// Values for an argument of a prompt or a resource template: a list, or a function that takes [`Typed`].
    ///
    /// # Panics
    /// When there is a completion for it, or the prompt or template, registered before, has no such argument.
    #[track_caller]
    pub fn complete<M>(self, what: Completes, values: impl IntoCompleter<M>) -> Self {
        let completer = values.into_completer();
        self.register(|catalogue| catalogue.complete(what, completer))
    }

    /// Something that handlers share; they take it as [`State<T>`](State).
    ///
    /// # Panics
    /// When there is a state of that type.
    #[track_caller]
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        assert!(
            self.states.insert(Arc::new(value)),
            "the server has a state of type {} already",
            std::any::type_name::<T>()
        );
        self
    }

    /// Adds all items of `other`, without its name, instructions and settings.
    ///
    /// # Panics
    /// When both offer something of the same name.
    #[track_caller]
    #[expect(clippy::should_implement_trait, reason = "servers are no numbers")]
    pub fn add(mut self, other: impl IntoServer) -> Self {
        let Self { states, shared, .. } = other.into_server();
        self.states.merge(states);
        self.register(|catalogue| catalogue.merge(shared.catalogue()))
    }

    /// Sets the number of entries on a page of a list.
    ///
    /// # Panics
    /// When it is zero.
    #[track_caller]
    pub fn page_size(mut self, entries: usize) -> Self {
        assert!(entries > 0, "a page must have at least one entry");
        self.listing.page_size = entries;
        self.reset_pages()
    }

    /// Sets the cache lifetime and scope of lists (2026-07-28).
    pub fn cache_lists(mut self, time: Duration, scope: CacheScope) -> Self {
        self.listing.cache = CacheHint::new(time, scope);
        self.reset_pages()
    }

    /// Sets the default cache lifetime and scope of resource contents (2026-07-28); a handler may set its own.
    pub fn cache_reads(mut self, time: Duration, scope: CacheScope) -> Self {
        self.reading = CacheHint::new(time, scope);
        self
    }

    /// Sets the cache lifetime and scope of the answer to `server/discover` (2026-07-28).
    pub fn cache_discovery(mut self, time: Duration, scope: CacheScope) -> Self {
        self.discovery = CacheHint::new(time, scope);
        self
    }

    /// Sets the lifetimes and limits of [tasks](crate::tasks); see [`Tool::task`].
    pub fn task_settings(mut self, settings: TaskSettings) -> Self {
        self.tasks = self.tasks.with_settings(settings);
        self
    }

    /// Sets the store of [tasks](crate::tasks); the default is this process's memory.
    pub fn task_store(mut self, store: impl TaskStore) -> Self {
        self.tasks = self.tasks.with_store(Arc::new(store));
        self
    }

    /// Declares that the offered items never change, so that clients need not listen for changes.
    pub fn unchanging(mut self) -> Self {
        self.changes = false;
        self
    }

    /// Wraps the server in a layer.
    pub fn layer<L>(self, layer: L) -> L::Service
    where
        L: Layer<Self>,
        L::Service: Service,
    {
        layer.layer(self)
    }

    /// A way to change what the server offers while it runs. Best taken once all that is there from the start has been
    /// registered.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        ServerHandle::of(&self.shared)
    }

    /// The server's name and version.
    #[must_use]
    pub fn info(&self) -> &Implementation {
        &self.info
    }

    /// Returns the server's identity, which transports add to results.
    #[must_use]
    pub fn stamp(&self) -> ServerStamp {
        RawJson::from_serialize(&self.info)
            .map_or_else(|_| ServerStamp::anonymous(), |info| ServerStamp::new(&info))
    }

    #[track_caller]
    fn register(mut self, change: impl FnOnce(&mut ServerCatalogue) -> Result<(), RegisterError>) -> Self {
        self.detach_clones();
        unwrap_registration(ServerShared::build(&mut self.shared, change));
        self
    }

    /// Leaves its clones their catalogue, before it is changed.
    fn detach_clones(&mut self) {
        if Arc::strong_count(&self.clones) > 1 {
            self.clones = Arc::default();
            self.shared = Arc::new(ServerShared::with_catalogue(self.shared.catalogue()));
        }
    }

    fn reset_pages(mut self) -> Self {
        self.detach_clones();
        let done = ServerShared::build(&mut self.shared, |catalogue| {
            catalogue.tools.clear_pages();
            catalogue.prompts.clear_pages();
            catalogue.resources.clear_pages();
            catalogue.templates.clear_pages();
            Ok(())
        });
        debug_assert!(done.is_ok(), "nothing was registered");
        self
    }
}

#[track_caller]
fn unwrap_registration<T>(result: Result<T, RegisterError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}
