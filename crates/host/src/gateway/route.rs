//! Route layer: finds the server of a tool, a prompt or a URI.

use std::ops::ControlFlow;
use std::sync::Arc;

use hospes::{Call, Outcome};
use hospes_model::{CallToolResult, RpcError};

use super::gateway_state::ViewLease;
use super::handle::Gateway;
use super::propose_plan::PROPOSE_PLAN;
use super::reach::{ReachError, ReachedUpstream};
use super::routed_call::RoutedCall;
use super::{header_params, rewrite};
use crate::catalogue::names::SEPARATOR;
use crate::catalogue::uris::RouteError;
use crate::catalogue::{ItemLocation, MergedCatalogue, template_matches};
use crate::config::nearest;
use crate::guard::TargetItem;

/// Kind of item that is listed by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedItemKind {
    Tool,
    Prompt,
}

/// Location of a tool or prompt.
struct NamedRoute {
    location: ItemLocation,
    catalogue: Arc<MergedCatalogue>,
    /// The connection to its server, if the lookup had to wait for it.
    reached: Option<ReachedUpstream>,
}

impl Gateway {
    /// Calls a tool or gets a prompt.
    pub(super) async fn call_named_item(
        &self,
        call: Call,
        using: &ViewLease,
        kind: NamedItemKind,
    ) -> Result<Outcome, RpcError> {
        let Some(name) = call.params.view().name.as_deref() else {
            return Err(RpcError::invalid_params("invalid params at name: expected a string"));
        };
        if kind == NamedItemKind::Tool
            && !self.is_single()
            && let Some(server) = self.find_sign_in_tool(name, using)
        {
            return self.connect_account(server, using).await;
        }
        if kind == NamedItemKind::Tool
            && name == PROPOSE_PLAN
            && !self.is_single()
            && let Some(guard) = self.shared.guard.as_ref().filter(|guard| guard.allows_plans())
        {
            // Boxed, because plans are rare and other calls need not carry this future.
            return Box::pin(self.propose_plan(guard, &call, using)).await;
        }
        let NamedRoute { location, catalogue, reached } =
            match self.find_named_item(name, using, kind).await? {
                ControlFlow::Continue(route) => route,
                ControlFlow::Break(outcome) => return Ok(outcome),
            };
        // Before the guard, so that no person is asked about a call that cannot be made.
        if kind == NamedItemKind::Tool
            && let Err(error) = header_params::check(&call, catalogue.tools.get(name))
        {
            if let Some(mut reached) = reached {
                reached.lease.finish();
            }
            return Err(error);
        }
        let item = match kind {
            NamedItemKind::Tool => TargetItem::Tool(&location.name, catalogue.tools.get(name)),
            NamedItemKind::Prompt => TargetItem::Prompt(&location.name),
        };
        let routed = RoutedCall { using, server: location.server, item, catalogue: &catalogue, reached };
        self.send_routed(call, routed, |call, edited| {
            let params = rewrite::with_text(call.params.raw(), "name", &location.name);
            let params = params.and_then(|params| match edited {
                Some(edited) => rewrite::with_arguments(&params, edited),
                None => Ok(params),
            });
            params.map_err(|error| rewrite::not_an_object(&error))
        })
        .await
    }

    /// Finds a tool or prompt. If the server that the name belongs to is still starting, waits for it. Breaks with the
    /// result of a tool whose server cannot be reached.
    async fn find_named_item(
        &self,
        name: &str,
        using: &ViewLease,
        kind: NamedItemKind,
    ) -> Result<ControlFlow<Outcome, NamedRoute>, RpcError> {
        let mut catalogue = using.catalogue();
        let mut location = locate_item(&catalogue, kind, name);
        let mut waited_for = None;
        if location.is_none()
            && let Some(server) = self.starting_owner(name, using)
        {
            match self.reach(server, using).await {
                Ok(reached) => {
                    catalogue = using.catalogue();
                    location = locate_item(&catalogue, kind, name);
                    waited_for = Some((server, reached));
                }
                // The server shows its items only to users who have signed in.
                Err(unreached @ ReachError { sign_in: Some(_), .. }) => return Err(unreached.into()),
                // The server may have the item: its lists are unknown, so the item must not be called unknown.
                Err(unreached) if self.is_unknown(server, using) => {
                    return match kind {
                        NamedItemKind::Tool => {
                            let result = CallToolResult::error(unreached.why);
                            Ok(ControlFlow::Break(Outcome::Complete(result.into())))
                        }
                        NamedItemKind::Prompt => Err(unreached.into()),
                    };
                }
                Err(_) => {}
            }
        }
        let Some(location) = location else { return Err(self.unknown(&catalogue, kind, name)) };
        let reached = waited_for.filter(|(server, _)| *server == location.server).map(|(_, reached)| reached);
        Ok(ControlFlow::Continue(NamedRoute { location, catalogue, reached }))
    }

    /// Finds a tool and the catalogue that lists it, without calling it.
    ///
    /// # Errors
    /// If there is no such tool, or its server cannot be reached.
    pub(super) async fn find_tool(
        &self,
        name: &str,
        using: &ViewLease,
    ) -> Result<(ItemLocation, Arc<MergedCatalogue>), String> {
        match self.find_named_item(name, using, NamedItemKind::Tool).await {
            Ok(ControlFlow::Continue(NamedRoute { location, catalogue, reached })) => {
                if let Some(mut reached) = reached {
                    reached.lease.finish();
                }
                Ok((location, catalogue))
            }
            Ok(ControlFlow::Break(_)) => Err("its server cannot be reached".to_owned()),
            Err(error) => Err(error.message.into()),
        }
    }

    /// Returns the server of a URI, and the URI as that server knows it.
    pub(super) fn route(
        &self,
        catalogue: &MergedCatalogue,
        uri: &str,
    ) -> Result<(usize, String), RouteError> {
        let target = catalogue.uris.route(uri, &template_matches)?;
        match self.position(target.server) {
            Some(server) => Ok((server, target.uri.into_owned())),
            None => Err(RouteError::Unknown { uri: uri.to_owned() }),
        }
    }

    /// Returns the error for a name that no server offers, with a similar name or the state of its server.
    pub(super) fn unknown(&self, catalogue: &MergedCatalogue, kind: NamedItemKind, name: &str) -> RpcError {
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
        let prefix = name.split_once(SEPARATOR).map(|(prefix, _)| prefix);
        let prefixes = self.shared.upstreams.prefixes();
        let server = prefix.and_then(|prefix| prefixes.server(prefix));
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

/// Returns the location of a tool or prompt.
pub(super) fn locate_item(
    catalogue: &MergedCatalogue,
    kind: NamedItemKind,
    name: &str,
) -> Option<ItemLocation> {
    match kind {
        NamedItemKind::Tool => catalogue.tools.origin(name).cloned(),
        NamedItemKind::Prompt => catalogue.prompts.origin(name).cloned(),
    }
}

/// Returns the error for a URI that cannot be routed.
pub(super) fn unknown_resource(uri: &str, error: &RouteError) -> RpcError {
    #[derive(serde::Serialize)]
    struct UnknownResourceData<'a> {
        uri: &'a str,
    }
    RpcError::invalid_params(error.to_string()).with_data(&UnknownResourceData { uri })
}
