//! All servers as one service.
//!
//! A call is routed by the name it carries and forwarded without being read: only the member of its params that
//! holds the name is written anew. Where there are rules the guard reads its arguments first, and changes nothing. Lists are merged, cut into pages and written once for each change. Questions that
//! a server asks during a call go back to the application with a note about where they came from.

mod account_login;
mod elicitation;
mod era_fallback;
mod extension_lists;
mod extensions;
mod forward;
mod gateway_state;
mod header_params;
mod host_servers;
mod host_status;
mod listen;
mod listing_differences;
mod local_answers;
mod pin_checks;
mod reach;
mod resources;
mod result_identity;
mod rewrite;
mod round_state;
mod subscription_sink;
mod task_owners;
mod task_watches;
mod tasks;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use hospes::{Call, Context, Outcome, Service};
use hospes_model::{
    CallToolResult, DiscoverResult, Method, Notification, PromptsCapability, RawJson, Reply,
    ResourcesCapability, Revision, RpcError, ServerCapabilities, TASKS_EXTENSION, ToolsCapability,
};

use crate::catalogue::uris::RouteError;
use crate::catalogue::{ItemLocation, MergedCatalogue, template_matches};
use hospes_store::pins::ItemKind;

use crate::approvals::ApprovalQueueError;
use crate::config::nearest;
use crate::guard::{AdmissionDecision, AdmittedCall, CallTarget, TargetItem, TaskOrigin, refuse};
use crate::server::BlockReason;
use forward::ForwardRoute;
use gateway_state::CatalogueView;
pub(crate) use gateway_state::{GatewayState, ViewLease};
pub use host_servers::{HostServers, UnknownServerError};
pub use host_status::HostStatus;
use reach::ReachError;

/// All servers as one service. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gateway {
    shared: Arc<GatewayState>,
    /// Position of the single server that this gateway shows, under that server's own names. Without it, all servers
    /// are shown.
    only: Option<usize>,
}

impl Service for Gateway {
    async fn call(&self, call: Call) -> Outcome {
        let answer = match &self.shared.accounts {
            Some(accounts) => self.answer_with_account(accounts, call).await,
            None => self.answer(call).await,
        };
        match answer {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(error),
        }
    }

    async fn notified(&self, notification: Notification, context: Context) {
        let Notification::Other { method, params } = notification else { return };
        let params = params.unwrap_or_else(RawJson::empty_object);
        // Boxed, since notifications of extensions are rare and the others need not carry its future.
        Box::pin(self.unknown_notification(method, params, context)).await;
    }

    /// Nothing here blocks, and servers get the calls of one application in their order.
    fn is_cooperative(&self) -> bool {
        true
    }
}

/// Kind of item that is listed by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamedItemKind {
    Tool,
    Prompt,
}

impl Gateway {
    pub(crate) fn new(shared: Arc<GatewayState>) -> Self {
        Self { shared, only: None }
    }

    /// The gateway of one server alone, at this position.
    pub(crate) fn only(shared: Arc<GatewayState>, server: usize) -> Self {
        Self { shared, only: Some(server) }
    }

    async fn answer(&self, call: Call) -> Result<Outcome, RpcError> {
        let using = self.shared.view(call.context.peer(), self.only)?;
        match call.method {
            Method::ToolsCall => self.call_named_item(call, &using, NamedItemKind::Tool).await,
            Method::PromptsGet => self.call_named_item(call, &using, NamedItemKind::Prompt).await,
            Method::ResourcesRead => self.read(call, &using).await,
            Method::ToolsList => self.list(&call, &using, |all, cursor| all.tools.page(cursor)).await,
            Method::PromptsList => self.list(&call, &using, |all, cursor| all.prompts.page(cursor)).await,
            Method::ResourcesList => self.list(&call, &using, |all, cursor| all.resources.page(cursor)).await,
            Method::ResourceTemplatesList => {
                self.list(&call, &using, |all, cursor| all.templates.page(cursor)).await
            }
            Method::Complete => self.complete(call, &using).await,
            Method::SubscriptionsListen => self.listen(&call, &using).await,
            Method::Discover => Ok(self.discover(&using).await),
            Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => {
                self.handle_task_request(call, &using).await
            }
            ref own if extensions::is_extension_method(own) => {
                Box::pin(self.forward_extension_request(call, &using)).await
            }
            ref other => Err(RpcError::method_not_found(other.name())),
        }
    }

    /// Returns the capabilities of the gateway. All of them are declared, always. A server with prompts may connect
    /// later, and an application of the older era reads the capabilities only once.
    async fn discover(&self, using: &ViewLease) -> Outcome {
        let mut tools = ToolsCapability::new();
        tools.list_changed = Some(true);
        let mut prompts = PromptsCapability::new();
        prompts.list_changed = Some(true);
        let mut resources = ResourcesCapability::new();
        resources.list_changed = Some(true);
        resources.subscribe = Some(true);
        let mut capabilities = ServerCapabilities::new();
        capabilities.tools = Some(tools);
        capabilities.prompts = Some(prompts);
        capabilities.resources = Some(resources);
        capabilities.completions = Some(RawJson::empty_object());
        capabilities.logging = Some(RawJson::empty_object());
        // An application of the older era reads the extensions once, so servers that are starting get some time.
        self.shared.wait_for_first_start(&using.view, |_| self.shared.settings.greeting_wait).await;
        capabilities.extensions = self.extensions(using);
        // Whatever a server may have: which of its tools become tasks, the list and the server say.
        capabilities.extensions.insert(TASKS_EXTENSION.to_owned(), RawJson::empty_object());
        let versions = Revision::ALL.iter().map(|revision| revision.as_str().to_owned()).collect();
        let mut result = DiscoverResult::new(versions, capabilities);
        result.meta = result.meta.with(hospes_model::meta_key::SERVER_INFO, &crate::server::implementation());
        result.instructions = self.instructions(&using.view);
        Outcome::Complete(result.into())
    }

    /// Returns the instructions of the servers, each under the server's name.
    fn instructions(&self, view: &CatalogueView) -> Option<String> {
        let mut text = String::new();
        for (server, slot) in self.shared.upstreams.iter().enumerate() {
            if !view.sees(server) {
                continue;
            }
            let Some(upstream) = slot.of(view.user.as_ref()) else { continue };
            let Some(live) = upstream.offers(view.abilities) else { continue };
            let gate = slot.server.gate.as_ref();
            // Instructions go straight to the model, so only accepted ones are passed on (HOST-10).
            if gate.is_some_and(|gate| {
                gate.item_block_reason(&live.hashes, ItemKind::Instructions, "").is_some()
            }) {
                continue;
            }
            let Some(said) = live.connection.instructions.as_deref().filter(|said| !said.trim().is_empty())
            else {
                continue;
            };
            if view.only.is_some() {
                return Some(said.to_owned());
            }
            let Some(prefix) = self.shared.prefixes.of(&upstream.server.name) else { continue };
            text.push_str(&format!("# {prefix} (tools {prefix}__…)\n\n{}\n\n", said.trim()));
        }
        let text = text.trim_end();
        (!text.is_empty()).then(|| text.to_owned())
    }

    async fn list(
        &self,
        call: &Call,
        using: &ViewLease,
        page: impl Fn(&MergedCatalogue, Option<&str>) -> Result<Reply, RpcError>,
    ) -> Result<Outcome, RpcError> {
        let params: hospes_model::PaginatedParams = call.decode()?;
        self.shared.wait_for_first_start(&using.view, |slot| slot.server.start_wait).await;
        let catalogue = using.catalogue();
        page(&catalogue, params.cursor.as_deref()).map(Outcome::Complete)
    }

    async fn call_named_item(
        &self,
        call: Call,
        using: &ViewLease,
        kind: NamedItemKind,
    ) -> Result<Outcome, RpcError> {
        let Some(name) = call.params.view().name.as_deref() else {
            return Err(RpcError::invalid_params("invalid params at name: expected a string"));
        };
        if kind == NamedItemKind::Tool
            && self.only.is_none()
            && let Some(server) = self.find_sign_in_tool(name, using)
        {
            return self.connect_account(server, using).await;
        }
        let mut catalogue = using.catalogue();
        let mut place = locate_item(&catalogue, kind, name);
        let mut reached = None;
        if place.is_none()
            && let Some(server) = self.starting_owner(name, using)
        {
            match self.reach(server, using).await {
                Ok(found) => {
                    catalogue = using.catalogue();
                    place = self::locate_item(&catalogue, kind, name);
                    reached = Some((server, found));
                }
                // What it has, it shows to those who sign in.
                Err(unreached @ ReachError { sign_in: Some(_), .. }) => return Err(unreached.into()),
                // Nobody can say what it has, so it cannot be said that it does not have this.
                Err(unreached) if self.is_unknown(server, using) => {
                    return match kind {
                        NamedItemKind::Tool => {
                            Ok(Outcome::Complete(CallToolResult::error(unreached.why).into()))
                        }
                        NamedItemKind::Prompt => Err(unreached.into()),
                    };
                }
                Err(_) => {}
            }
        }
        let Some(place) = place else { return Err(self.unknown(&catalogue, kind, name)) };
        // Before the guard, so that no person is asked about a call that cannot be made.
        if kind == NamedItemKind::Tool
            && let Err(error) = header_params::check(&call, catalogue.tools.get(name))
        {
            if let Some((_, mut reached)) = reached {
                reached.lease.finish();
            }
            return Err(error);
        }
        let what = match kind {
            NamedItemKind::Tool => TargetItem::Tool(&place.name, catalogue.tools.get(name)),
            NamedItemKind::Prompt => TargetItem::Prompt(&place.name),
        };
        let mut passage = match self.admit(&call, place.server, &what, using).await {
            Ok(passage) => passage,
            Err(stopped) => {
                // Nothing was begun on the connection that was waited for.
                if let Some((_, mut reached)) = reached {
                    reached.lease.finish();
                }
                return Ok(stopped);
            }
        };
        let edited = passage.as_ref().and_then(|passage| passage.edited());
        let params = rewrite::with_text(call.params.raw(), "name", &place.name);
        let params = params.and_then(|params| match edited {
            Some(edited) => rewrite::with_arguments(&params, edited),
            None => Ok(params),
        });
        let params = params.map_err(|error| not_an_object(&error))?;
        let mut found = match reached {
            Some((server, found)) if server == place.server => Ok(found),
            _ => self.reach(place.server, using).await,
        };
        if let Ok(reached) = &mut found
            && let Some(why) = self.block_reason_on_connection(place.server, &what, reached).await
        {
            reached.lease.finish();
            return Ok(self.refuse(passage, &call, place.server, what, &why).await);
        }
        if let Ok(reached) = &mut found
            && passage.as_ref().is_some_and(|passage| passage.is_approved())
            && !(reached.lease.line.wait_for_reread().await
                && using.rebuild_catalogue(&catalogue).tools.get(name) == catalogue.tools.get(name))
        {
            // Its server became another while the person looked at what it was.
            reached.lease.finish();
            let server = &self.shared.upstreams[place.server].server;
            let going = CallTarget::to(server, what);
            let changed = ApprovalQueueError::Changed;
            let why = (&*changed.message(), changed.decision());
            return Ok(Box::pin(refuse(self.shared.guard.as_ref(), passage, (&call, &going), why)).await);
        }
        if let (Err(_), Some(passage)) = (&found, &mut passage) {
            passage.clear_labels();
        }
        // `forward` takes the call and its params; what a task began with is needed after it.
        let (context, method) = (call.context.clone(), call.method.clone());
        let (listed, sent) = (Arc::clone(&catalogue), params.clone());
        let shown = name.to_owned();
        let outcome = match found {
            Ok(reached) => {
                let outcome = self
                    .forward(call, params, ForwardRoute { server: place.server, reached, catalogue })
                    .await;
                outcome.map(|outcome| result_identity::naming_tool(outcome, &method, &place.name, &shown))
            }
            Err(unreached @ ReachError { sign_in: Some(_), .. }) => Err(unreached.into()),
            // A model reads this and does something else; an error of the protocol it may never see.
            Err(ReachError { why, .. }) if kind == NamedItemKind::Tool => {
                Ok(Outcome::Complete(CallToolResult::error(why).into()))
            }
            Err(unreached) => Err(unreached.into()),
        };
        let outcome = self.record_outcome(passage, &context, &method, outcome).await?;
        let is_task = matches!(outcome, Outcome::Complete(Reply::CreateTask(_)));
        let origin = is_task.then(|| {
            let guard = self.shared.guard.as_ref()?;
            let sent = sent.members().find(|member| member.key() == "arguments").map(|member| member.value());
            Some(TaskOrigin::new(guard, &context, (&place.name, listed.tools.get(&shown)), sent.as_ref()))
        });
        Ok(self.register_created_task(outcome, place.server, &context, origin.flatten()).await)
    }

    /// Records how a call ended, or that it waits for its user to sign in.
    async fn record_outcome(
        &self,
        passage: Option<Box<AdmittedCall>>,
        context: &Context,
        method: &Method,
        outcome: Result<Outcome, RpcError>,
    ) -> Result<Outcome, RpcError> {
        let Some(passage) = passage else { return outcome };
        match (&self.shared.accounts, outcome) {
            (Some(accounts), Err(error))
                if account_login::is_sign_in_elicitation(accounts, context, method, &error) =>
            {
                passage.suspend_for_account(context).await;
                Err(error)
            }
            (_, outcome) => passage.finish(outcome).await,
        }
    }

    /// Looks whether it is as it was accepted, and asks the guard, where there is one. What is stopped has its outcome.
    async fn admit(
        &self,
        call: &Call,
        server: usize,
        what: &TargetItem<'_>,
        using: &ViewLease,
    ) -> Result<Option<Box<AdmittedCall>>, Outcome> {
        if let Some(why) = self.block_reason(server, what, using) {
            return Err(self.refuse(None, call, server, *what, &why).await);
        }
        let Some(guard) = &self.shared.guard else { return Ok(None) };
        let server = &self.shared.upstreams[server].server;
        let going = CallTarget::to(server, *what);
        // Few hosts have none; those need not carry its future.
        match Box::pin(guard.admit(call, going)).await {
            AdmissionDecision::Pass(passage) => Ok(Some(passage)),
            AdmissionDecision::Stopped(outcome) => Err(outcome),
        }
    }

    /// Stops what is withheld.
    async fn refuse(
        &self,
        passage: Option<Box<AdmittedCall>>,
        call: &Call,
        server: usize,
        what: TargetItem<'_>,
        why: &BlockReason,
    ) -> Outcome {
        let server = &self.shared.upstreams[server].server;
        let going = CallTarget::to(server, what);
        let said = why.message(&server.name);
        let refused = refuse(self.shared.guard.as_ref(), passage, (call, &going), (&said, why.as_str()));
        // Seldom needed; calls that go need not carry its future.
        Box::pin(refused).await
    }

    fn position(&self, server: &str) -> Option<usize> {
        self.shared.upstreams.iter().position(|upstream| &*upstream.server.name == server)
    }

    fn route(&self, catalogue: &MergedCatalogue, uri: &str) -> Result<(usize, String), RouteError> {
        let target = catalogue.uris.route(uri, &template_matches)?;
        match self.position(target.server) {
            Some(server) => Ok((server, target.uri.into_owned())),
            None => Err(RouteError::Unknown { uri: uri.to_owned() }),
        }
    }

    fn unknown(&self, catalogue: &MergedCatalogue, kind: NamedItemKind, name: &str) -> RpcError {
        let (word, meant) = match kind {
            NamedItemKind::Tool => {
                ("tool", nearest(name, catalogue.tools.items().iter().map(|tool| tool.name.as_str())))
            }
            NamedItemKind::Prompt => {
                ("prompt", nearest(name, catalogue.prompts.items().iter().map(|prompt| prompt.name.as_str())))
            }
        };
        let mut text = format!("unknown {word}: {name}");
        if let Some(meant) = meant {
            text.push_str(&format!("; did you mean {meant}?"));
        }
        // A tool that was listed and is gone: say whose fault it is.
        let prefix = name.split_once(crate::catalogue::names::SEPARATOR).map(|(prefix, _)| prefix);
        let server = prefix.and_then(|prefix| self.shared.prefixes.server(prefix));
        if let Some(status) = server.and_then(|server| self.position(server)) {
            let status = self.shared.upstreams[status].status();
            if let Some(problem) = status.problem {
                text = format!(
                    "unknown {word}: {name}; the server `{}` is {}: {problem}",
                    status.name,
                    status.state.as_str()
                );
            }
        }
        RpcError::invalid_params(text)
    }
}

fn locate_item(catalogue: &MergedCatalogue, kind: NamedItemKind, name: &str) -> Option<ItemLocation> {
    match kind {
        NamedItemKind::Tool => catalogue.tools.origin(name).cloned(),
        NamedItemKind::Prompt => catalogue.prompts.origin(name).cloned(),
    }
}

fn unknown_resource(uri: &str, error: &RouteError) -> RpcError {
    #[derive(serde::Serialize)]
    struct UnknownResourceData<'a> {
        uri: &'a str,
    }
    RpcError::invalid_params(error.to_string()).with_data(&UnknownResourceData { uri })
}

fn not_an_object(error: &serde_json::Error) -> RpcError {
    RpcError::invalid_params(format!("invalid params: {error}"))
}
