//! [`Server`] and the methods that build it.

use std::sync::Arc;
use std::time::Duration;

use hospes_model::{CacheScope, CallToolResult, Icon, Implementation, RawJson, ServerStamp, meta_key};
use serde_json::Value;
use tower_layer::Layer;

use crate::context::Context;
use crate::rate::Rate;
use crate::redact;
use crate::server::cache_hint::CacheHint;
use crate::server::call_parts::StateMap;
use crate::server::catalogue::{ListSettings, ServerCatalogue};
use crate::server::complete::IntoCompleter;
use crate::server::completed_argument::Completes;
use crate::server::entries::{PromptEntry, ResourceEntry, TemplateEntry, ToolEntry};
use crate::server::error::RegisterError;
use crate::server::handle::ServerHandle;
use crate::server::handler::Handler;
use crate::server::prompt::{IntoPrompt, Prompt};
use crate::server::resource::{IntoResourceReader, Resource, Template};
use crate::server::result::IntoToolResult;
use crate::server::rules::{CallerRateLimiter, Feature, ServerRules};
use crate::server::shared::ServerShared;
use crate::server::task_manager::LazyTaskManager;
use crate::server::tool::Tool;
use crate::service::Service;
use crate::tasks::{TaskSettings, TaskStore};

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
    pub(super) info: Implementation,
    pub(super) instructions: Option<String>,
    pub(super) extensions: Vec<(String, RawJson)>,
    pub(super) experimental: Vec<(String, RawJson)>,
    pub(super) rules: ServerRules,
    pub(super) listing: ListSettings,
    pub(super) reading: CacheHint,
    pub(super) discovery: CacheHint,
    /// True if the offered items may change while the server runs.
    pub(super) changes: bool,
    pub(super) states: StateMap,
    pub(super) shared: Arc<ServerShared>,
    /// Counts the clones that share the catalogue.
    pub(super) clones: Arc<()>,
    pub(super) tasks: LazyTaskManager,
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
            tasks: LazyTaskManager::default(),
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

    /// Values for an argument of a prompt or a resource template: a list, or a function that takes
    /// [`Typed`](crate::server::Typed).
    ///
    /// # Panics
    /// When there is a completion for it, or the prompt or template, registered before, has no such argument.
    #[track_caller]
    pub fn complete<M>(self, what: Completes, values: impl IntoCompleter<M>) -> Self {
        let completer = values.into_completer();
        self.register(|catalogue| catalogue.complete(what, completer))
    }

    /// Something that handlers share; they take it as [`State<T>`](crate::server::State).
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

    /// Sets the authorization rule, which is called with each call and each entry of a list. A denied feature does not
    /// exist for the caller. It is in no list, cannot be called, read, completed or subscribed to, and is named in no
    /// error.
    ///
    /// Decide by who the caller is ([`Context::principal`], the headers in [`Context::http`]), so that the same caller
    /// always sees the same: not by the connection, nor by what was called before. What has to wait for an answer from
    /// elsewhere belongs into a layer that leaves it in the extensions of the HTTP request.
    ///
    /// Lists and reads are then for their caller alone, whatever [`Server::cache_lists`] says.
    ///
    /// ```
    /// use hospes::server::{Feature, Server};
    ///
    /// let server = Server::new("trains", "1.0")
    ///     .tool("timetable", || async { "08:10, 09:10" })
    ///     .tool("cancel_train", || async { "cancelled" })
    ///     .authorize(|context, feature| match feature {
    ///         Feature::Tool("cancel_train") => context.principal() == Some("dispatcher"),
    ///         _ => true,
    ///     });
    /// # let _ = server;
    /// ```
    pub fn authorize(mut self, may: impl Fn(&Context, Feature<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.rules.guard = Some(Arc::new(may));
        self
    }

    /// Sets the rate of tool calls per caller, over all tools; [`Tool::rate`](crate::server::Tool::rate) sets it for
    /// one tool. There is no limit by default. The number of concurrent calls is bounded by the transport
    /// (`max_concurrent_calls`).
    ///
    /// Callers who are signed in are counted apart, all others as one. A call too many is answered with a result that
    /// tells the model when to try again.
    pub fn tool_rate(mut self, rate: Rate) -> Self {
        self.rules.tools = Some(Arc::new(CallerRateLimiter::new(rate)));
        self
    }

    /// Sets the rate of completions per caller; the default is
    /// [`DEFAULT_COMPLETION_RATE`](crate::server::DEFAULT_COMPLETION_RATE).
    pub fn completion_rate(mut self, rate: Rate) -> Self {
        self.rules.completions = Arc::new(CallerRateLimiter::new(rate));
        self
    }

    /// Sets the rate of log messages to one peer; the default is [`DEFAULT_LOG_RATE`](crate::DEFAULT_LOG_RATE).
    pub fn log_rate(mut self, rate: Rate) -> Self {
        Arc::make_mut(&mut self.rules.logging).rate = rate;
        self
    }

    /// Sets the rate of progress reports of one call; the default is
    /// [`DEFAULT_PROGRESS_RATE`](crate::DEFAULT_PROGRESS_RATE).
    pub fn progress_rate(mut self, rate: Rate) -> Self {
        Arc::make_mut(&mut self.rules.logging).progress = rate;
        self
    }

    /// Hides more in log messages than [`redact::value`] does; that comes first.
    pub fn redact_logs(mut self, more: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Arc::make_mut(&mut self.rules.logging).redact = Arc::new(move |value| {
            redact::value(value);
            more(value);
        });
        self
    }

    /// Looks over what tools return, errors too, before anybody else sees it: called with the tool's name and its result.
    /// [`hide_invisible`](crate::server::hide_invisible) is one that is ready to use.
    pub fn sanitize_results(
        mut self,
        sanitizer: impl Fn(&str, &mut CallToolResult) + Send + Sync + 'static,
    ) -> Self {
        self.rules.sanitizer = Some(Arc::new(sanitizer));
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
