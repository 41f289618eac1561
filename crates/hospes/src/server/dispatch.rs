//! A call finds its handler.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures::Stream as _;
use hospes_model::{
    CallToolResult, CompleteParams, CompleteResult, CompletionReference, DiscoverResult, Method,
    Notification, PromptsCapability, RawJson, Reply, ResourceUpdatedParams, ResourcesCapability, Revision,
    RpcError, ServerCapabilities, SubscriptionFilter, SubscriptionsAcknowledgedParams,
    SubscriptionsListenParams, SubscriptionsListenResult, TASKS_EXTENSION, ToolsCapability, code, meta_key,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::context::Context;
use crate::error::Error;
use crate::server::builder::Server;
use crate::server::cache_hint::CacheHint;
use crate::server::call_parts::{CallInput, CallParts};
use crate::server::catalogue::{CatalogueEntry, EntryRegistry, ListSettings, ServerCatalogue};
use crate::server::change_bus::{ChangeEvent, ChangeFilter, ChangedList, MAX_SUBSCRIBED_URIS};
use crate::server::completed_argument::{ArgumentOwner, Completes};
use crate::server::content_checks::is_uri;
use crate::server::entries::{HandlerFuture, TaskMode};
use crate::server::output_contract::OutputContract;
use crate::server::prompt;
use crate::server::resource::{self, not_found};
use crate::server::rules::Feature;
use crate::server::suggest::did_you_mean;
use crate::server::variables::TemplateVariables;
use crate::service::{Call, Outcome, Service};
use crate::tasks::{TaskEvent, TaskPreference};

impl Service for Server {
    async fn call(&self, call: Call) -> Outcome {
        call.context.set_log_rules(self.rules.logging());
        match call.method {
            Method::ToolsCall => self.call_tool(&call).await,
            Method::TasksGet | Method::TasksUpdate | Method::TasksCancel | Method::TasksList => {
                // Boxed, because few calls are about tasks, and the future of every call would be as large.
                Box::pin(self.serve_task(&call)).await
            }
            Method::ToolsList => self.list(&call, |all| all.tools.was_ever_used(), |all| &all.tools),
            Method::PromptsGet => self.get_prompt(&call).await,
            Method::PromptsList => self.list(&call, |all| all.prompts.was_ever_used(), |all| &all.prompts),
            Method::ResourcesRead => self.read_resource(&call).await,
            Method::ResourcesList => self.list(&call, has_resources, |all| &all.resources),
            Method::ResourceTemplatesList => self.list(&call, has_resources, |all| &all.templates),
            Method::Complete => self.complete_argument(&call).await,
            Method::Discover => Outcome::Complete(self.discover(&call).into()),
            Method::SubscriptionsListen => self.listen(&call).await,
            ref other => Outcome::Failed(RpcError::method_not_found(other.name())),
        }
    }
}

/// Result of running a tool.
pub(super) enum ToolRunOutcome {
    /// It is done.
    Done(Outcome),
    /// Nothing: it is one that runs as a task.
    ForTask(TaskMode),
}

/// A tool whose arguments were checked.
enum StartedTool {
    /// The handler runs; its result is checked against the contract, if there is one.
    Running(HandlerFuture<CallToolResult>, Option<Arc<OutputContract>>),
    /// The handler has not been started: it runs as a task.
    ForTask(TaskMode),
}

/// Returns true if the `resources` capability is declared.
fn has_resources(catalogue: &ServerCatalogue) -> bool {
    catalogue.resources.was_ever_used() || catalogue.templates.was_ever_used()
}

impl Server {
    async fn call_tool(&self, call: &Call) -> Outcome {
        match self.run_tool(call, false).await {
            ToolRunOutcome::Done(outcome) => outcome,
            ToolRunOutcome::ForTask(mode) => Box::pin(self.call_as_task(call, mode)).await,
        }
    }

    /// Runs a tool; `within` its task, or where it has none.
    pub(super) async fn run_tool(&self, call: &Call, within: bool) -> ToolRunOutcome {
        if !self.shared.read(|all| all.tools.was_ever_used()) {
            return ToolRunOutcome::Done(RpcError::method_not_found(call.method.name()).into());
        }
        let view = call.params.view();
        let Some(name) = view.name.as_deref() else {
            let why = "tools/call requires the tool's `name`, a string";
            return ToolRunOutcome::Done(RpcError::invalid_params(why).into());
        };
        let nothing = RawJson::empty_object();
        let arguments = match &view.arguments {
            Some(arguments) if arguments.is_object() => arguments,
            Some(arguments) if !arguments.is_null() => {
                let why = "tools/call requires `arguments` to be an object";
                return ToolRunOutcome::Done(RpcError::invalid_params(why).into());
            }
            _ => &nothing,
        };
        let started = self.shared.read(|all| self.start_tool(all, call, name, arguments, within));
        let result = match started {
            Ok(StartedTool::Running(running, None)) => running.await,
            Ok(StartedTool::Running(running, Some(promise))) => {
                running.await.and_then(|result| promise.check_result(result))
            }
            Ok(StartedTool::ForTask(mode)) => return ToolRunOutcome::ForTask(mode),
            Err(error) => Err(error),
        };
        if let Some(questions) = call.context.take_questions() {
            return ToolRunOutcome::Done(Outcome::InputRequired(questions));
        }
        let mut result = match result {
            Ok(result) => result,
            Err(error) => match error.protocol() {
                Some(error) => return ToolRunOutcome::Done(Outcome::Failed(error.clone())),
                // TOOL-17: the model shall see it.
                None => CallToolResult::error(error.to_string()),
            },
        };
        // Errors as well, because they may quote what the tool has read (TOOL-23).
        self.rules.sanitize(name, &mut result);
        ToolRunOutcome::Done(Outcome::Complete(Reply::CallTool(result)))
    }

    /// Starts a tool's handler, if this caller may call it now; `within` its task, or where it has none.
    fn start_tool(
        &self,
        all: &ServerCatalogue,
        call: &Call,
        name: &str,
        arguments: &RawJson,
        within: bool,
    ) -> Result<StartedTool, Error> {
        let may = |feature: Feature<'_>| self.rules.allows(&call.context, feature);
        // The same error for both: a tool that this caller may not use does not exist for them.
        let Some(tool) = all.tools.get(name).filter(|_| may(Feature::Tool(name))) else {
            return Err(all.tools.unknown_name_error(name, may).into());
        };
        // HHDR-23: intermediaries have acted on these headers, so that they must say what the body says.
        if !tool.mirror.is_empty()
            && !call.context.peer().revision.is_legacy()
            && let Some(headers) = call.context.http().map(|head| &head.headers)
        {
            let raw: Option<&RawValue> = arguments.decode().ok();
            tool.mirror.check(raw, headers)?;
        }
        if !within {
            match (tool.tasks, call.context.task_wish()) {
                (Some(mode), _) => {
                    // A mistake is told at once, not by a task.
                    tool.check(arguments)?;
                    return Ok(StartedTool::ForTask(mode));
                }
                // TASK-06
                (None, TaskPreference::Asked(_)) => {
                    let why = format!("the tool {name} does not support tasks");
                    return Err(RpcError::new(code::METHOD_NOT_FOUND, why).into());
                }
                (None, _) => {}
            }
        }
        // After the checks, so that a call that is refused for its mistakes does not count.
        if let Some(limit) = self.rules.tool_limit() {
            limit.take(&call.context, "calls", "tool_rate")?;
        }
        if let Some(limit) = &tool.limit {
            limit.take(&call.context, &format!("calls of {name}"), "rate")?;
        }
        let running = tool.start(&self.parts(&call.context), arguments)?;
        Ok(StartedTool::Running(running, tool.output_contract()))
    }

    async fn get_prompt(&self, call: &Call) -> Outcome {
        #[derive(Deserialize)]
        struct GetPromptParamsPeek {
            name: String,
            #[serde(default)]
            arguments: Option<BTreeMap<String, String>>,
        }
        if !self.shared.read(|all| all.prompts.was_ever_used()) {
            return RpcError::method_not_found(call.method.name()).into();
        }
        let GetPromptParamsPeek { name, arguments } = match call.decode() {
            Ok(wanted) => wanted,
            Err(error) => return error.into(),
        };
        let variables: TemplateVariables = arguments.unwrap_or_default().into_iter().collect();
        let started = self.shared.read(|all| {
            let may = |feature: Feature<'_>| self.rules.allows(&call.context, feature);
            let Some(prompt) = all.prompts.get(&name).filter(|_| may(Feature::Prompt(&name))) else {
                return Err(all.prompts.unknown_name_error(&name, may).into());
            };
            let running = prompt.start(&self.parts(&call.context), &variables)?;
            Ok((running, prompt.listed.description.clone()))
        });
        let result = match started {
            Ok((running, description)) => running.await.and_then(|mut result| {
                result.description = result.description.or(description);
                prompt::complete_prompt(&name, result).map_err(Error::from)
            }),
            Err(error) => Err(error),
        };
        finish(&call.context, result)
    }

    async fn read_resource(&self, call: &Call) -> Outcome {
        let Some(uri) = call.params.view().uri.as_deref() else {
            return RpcError::invalid_params("resources/read requires the resource's `uri`, a string").into();
        };
        let started = self.shared.read(|all| {
            if !has_resources(all) {
                return Err(RpcError::method_not_found(call.method.name()).into());
            }
            let may = |feature: Feature<'_>| self.rules.allows(&call.context, feature);
            if !is_uri(uri) || !may(Feature::Resource(uri)) {
                // RES-23; and what is no URI, or not for this caller, is nobody's.
                return Err(not_found(uri).into());
            }
            let parts = self.parts(&call.context);
            if let Some(entry) = all.resources.get(uri) {
                let mime = entry.mime_type().map(str::to_owned);
                return entry.start(&parts, uri).map(|running| (running, mime));
            }
            for entry in all.templates.iter().filter(|entry| may(entry.feature())) {
                if let Some(started) = entry.start(&parts, uri) {
                    let mime = entry.mime_type().map(str::to_owned);
                    return started.map(|running| (running, mime));
                }
            }
            Err(not_found(uri).into())
        });
        let result = match started {
            Ok((running, mime)) => running.await.and_then(|contents| {
                resource::complete_contents(contents, uri, mime.as_deref()).map_err(Error::from)
            }),
            Err(error) => Err(error),
        };
        finish(
            &call.context,
            result.map(|mut result| {
                let own = CacheHint { ttl_ms: result.ttl_ms, scope: result.cache_scope };
                let cache = self.rules.cache(own.or(self.reading));
                (result.ttl_ms, result.cache_scope) = (cache.ttl_ms, cache.scope);
                result
            }),
        )
    }

    async fn complete_argument(&self, call: &Call) -> Outcome {
        if self.shared.read(|all| all.completers.is_empty()) {
            return RpcError::method_not_found(call.method.name()).into();
        }
        let CompleteParams { reference, argument, context, .. } = match call.decode() {
            Ok(params) => params,
            Err(error) => return error.into(),
        };
        let of = match reference {
            CompletionReference::Prompt { name, .. } => ArgumentOwner::Prompt(name.into()),
            CompletionReference::Resource { uri } => ArgumentOwner::Template(uri.into()),
            _ => return RpcError::invalid_params("`ref` is neither a prompt nor a resource").into(),
        };
        let settled: TemplateVariables =
            context.map(|context| context.arguments).unwrap_or_default().into_iter().collect();
        let what = Completes { of, argument: argument.name.into() };
        let started = self.shared.read(|all| {
            let limit = self.rules.completion_limit();
            limit.take(&call.context, "completions", "completion_rate").map_err(|many| many.to_rpc())?;
            let may = |feature: Feature<'_>| self.rules.allows(&call.context, feature);
            let unknown = || match &what.of {
                ArgumentOwner::Prompt(name) => all.prompts.unknown_name_error(name, may),
                ArgumentOwner::Template(template) => all.templates.unknown_name_error(template, may),
            };
            if !may(all.completed_feature(&what.of)) {
                // COMP-13, COMP-14: what this caller may not use tells them nothing either.
                return Err(unknown().into());
            }
            if let Some(completer) = all.completers.get(&what) {
                return completer.start(&self.parts(&call.context), &argument.value, &settled).map(Some);
            }
            match all.arguments_of(&what.of) {
                Some(known) if known.contains(&&*what.argument) => Ok(None),
                Some(known) => {
                    let shown = super::mistakes::shortened(&what.argument, 80);
                    let meant = did_you_mean(&what.argument, known.into_iter());
                    let message = format!("{} has no argument {shown}{meant}", what.of());
                    Err(RpcError::invalid_params(message).into())
                }
                None => Err(unknown().into()),
            }
        });
        let result = match started {
            Ok(Some(running)) => running.await,
            // Nobody knows any values.
            Ok(None) => Ok(hospes_model::Completion::new(Vec::new())),
            Err(error) => Err(error),
        };
        finish(&call.context, result.map(CompleteResult::new))
    }

    fn list<E: CatalogueEntry>(
        &self,
        call: &Call,
        offered: impl Fn(&ServerCatalogue) -> bool,
        registry: impl for<'a> Fn(&'a ServerCatalogue) -> &'a EntryRegistry<E>,
    ) -> Outcome {
        #[derive(Deserialize)]
        struct ListParamsPeek<'a> {
            #[serde(borrow, default)]
            cursor: Option<Cow<'a, str>>,
        }
        self.shared.read(|all| {
            // ERR-03: what is not declared is not there.
            if !offered(all) {
                return RpcError::method_not_found(call.method.name()).into();
            }
            match serde_json::from_slice::<ListParamsPeek<'_>>(call.params.raw().as_bytes()) {
                Ok(page) => {
                    let may = |feature: Feature<'_>| self.rules.allows(&call.context, feature);
                    // Only without a rule can the prepared pages be used.
                    let may: Option<&dyn Fn(Feature<'_>) -> bool> =
                        if self.rules.is_open() { None } else { Some(&may) };
                    let listing =
                        ListSettings { cache: self.rules.cache(self.listing.cache), ..self.listing };
                    registry(all).page(page.cursor.as_deref(), listing, may).into()
                }
                Err(error) => RpcError::invalid_params(format!("invalid params: {error}")).into(),
            }
        })
    }

    /// Returns the server's identity and capabilities.
    fn discover(&self, call: &Call) -> DiscoverResult {
        let mut capabilities = ServerCapabilities::new().with_logging(RawJson::empty_object());
        let changes = self.changes.then_some(true);
        self.shared.read(|all| {
            if all.tools.was_ever_used() {
                let mut tools = ToolsCapability::new();
                tools.list_changed = changes;
                capabilities.tools = Some(tools);
            }
            if all.prompts.was_ever_used() {
                let mut prompts = PromptsCapability::new();
                prompts.list_changed = changes;
                capabilities.prompts = Some(prompts);
            }
            if has_resources(all) {
                let mut resources = ResourcesCapability::new();
                resources.list_changed = changes;
                resources.subscribe = changes;
                capabilities.resources = Some(resources);
            }
            if !all.completers.is_empty() {
                capabilities.completions = Some(RawJson::empty_object());
            }
        });
        capabilities.extensions = self.extensions.iter().cloned().collect();
        capabilities.experimental = self.experimental.iter().cloned().collect();
        if self.has_tasks() {
            capabilities.extensions.insert(TASKS_EXTENSION.to_owned(), RawJson::empty_object());
            capabilities.tasks = Some(self.legacy_tasks(call.context.principal().is_some()));
        }
        let versions = Revision::ALL.iter().rev().map(|revision| revision.as_str().to_owned()).collect();
        let mut result = DiscoverResult::new(versions, capabilities);
        result.meta = result.meta.with(meta_key::SERVER_INFO, &self.info);
        result.instructions.clone_from(&self.instructions);
        result.ttl_ms = self.discovery.ttl_ms;
        result.cache_scope = self.discovery.scope;
        result
    }

    /// Sends changes until the call is dropped or the server ends all such calls.
    async fn listen(&self, call: &Call) -> Outcome {
        let SubscriptionsListenParams { notifications: asked, .. } = match call.decode() {
            Ok(params) => params,
            Err(error) => return error.into(),
        };
        if asked.resource_subscriptions.len() > MAX_SUBSCRIBED_URIS {
            let message = format!("more than {MAX_SUBSCRIBED_URIS} resources in one subscription");
            return RpcError::invalid_params(message).into();
        }
        let (task_ids, news) = match self.subscribe_to_tasks(call, &asked.task_ids).await {
            Ok(heard) => heard,
            Err(error) => return error.into(),
        };
        let (mut honoured, wants) = self.honoured_filter(&call.context, asked);
        honoured.task_ids = task_ids;
        // First the ear, then the word: what changes in between is not lost.
        let listener = self.shared.bus.listen(wants);
        let acknowledged = SubscriptionsAcknowledgedParams::new(honoured);
        call.context.notify(Notification::SubscriptionsAcknowledged(acknowledged));
        let mut news = pin!(news);
        poll_fn(|task| {
            loop {
                // What has been said must have been taken before more is: the rest waits with the bus, merged.
                if call.context.has_queued() {
                    return Poll::Pending;
                }
                if let Poll::Ready(Some((_, news))) = news.as_mut().poll_next(task) {
                    call.context.notify(match news {
                        TaskEvent::Changed(changed) => Notification::TasksChanged(changed),
                        TaskEvent::Said(notification) => notification,
                    });
                    continue;
                }
                let Poll::Ready(heard) = listener.poll(task.waker()) else { return Poll::Pending };
                let ChangeEvent::Changes { lists, uris } = heard else { return Poll::Ready(()) };
                for list in lists {
                    call.context.notify(match list {
                        ChangedList::Tools => Notification::ToolsListChanged,
                        ChangedList::Prompts => Notification::PromptsListChanged,
                        ChangedList::Resources => Notification::ResourcesListChanged,
                    });
                }
                for uri in uris {
                    call.context.notify(Notification::ResourceUpdated(ResourceUpdatedParams::new(uri)));
                }
            }
        })
        .await;
        Outcome::Complete(SubscriptionsListenResult::new().into())
    }

    /// The part of a filter that is honoured: what is declared, and resources that this caller can read.
    fn honoured_filter(
        &self,
        context: &Context,
        asked: SubscriptionFilter,
    ) -> (SubscriptionFilter, ChangeFilter) {
        let mut honoured = SubscriptionFilter::new();
        if self.changes {
            self.shared.read(|all| {
                honoured.tools_list_changed = asked.tools_list_changed && all.tools.was_ever_used();
                honoured.prompts_list_changed = asked.prompts_list_changed && all.prompts.was_ever_used();
                honoured.resources_list_changed = asked.resources_list_changed && has_resources(all);
                let mut uris = asked.resource_subscriptions;
                let may = |feature: Feature<'_>| self.rules.allows(context, feature);
                uris.retain(|uri| {
                    let mut templates = all.templates.iter().filter(|entry| may(entry.feature()));
                    may(Feature::Resource(uri))
                        && (all.resources.get(uri).is_some()
                            || (is_uri(uri) && templates.any(|entry| entry.template.matches(uri).is_some())))
                });
                // A resource that is named twice would be told of twice.
                let mut seen = std::collections::HashSet::with_capacity(uris.len());
                uris.retain(|uri| seen.insert(uri.clone()));
                honoured.resource_subscriptions = uris;
            });
        }
        let lists = [
            (honoured.tools_list_changed, ChangedList::Tools),
            (honoured.prompts_list_changed, ChangedList::Prompts),
            (honoured.resources_list_changed, ChangedList::Resources),
        ];
        let lists = lists.into_iter().filter(|(yes, _)| *yes).map(|(_, list)| list);
        let uris = honoured.resource_subscriptions.iter().map(|uri| uri.as_str().into()).collect();
        let wants = ChangeFilter::new(lists, uris);
        (honoured, wants)
    }

    fn parts<'a>(&'a self, context: &'a Context) -> CallParts<'a> {
        CallParts { context, shared: &self.shared, states: &self.states, input: CallInput::Nothing }
    }
}

/// The outcome of a handler for which every failure is a protocol error.
fn finish<R: Into<Reply>>(context: &Context, result: Result<R, Error>) -> Outcome {
    // Whatever the handler returned: one that went on without an answer, with a default for it, say, has not seen the
    // answer yet.
    if let Some(questions) = context.take_questions() {
        return Outcome::InputRequired(questions);
    }
    match result {
        Ok(result) => Outcome::Complete(result.into()),
        Err(error) => Outcome::Failed(match error.protocol() {
            Some(error) => error.clone(),
            None => RpcError::internal(error.to_string()),
        }),
    }
}
