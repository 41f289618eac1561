//! Reading of resources and completion, routed by a URI or the name of a prompt.

use std::ops::ControlFlow;

use hospes::{Call, Outcome};
use hospes_model::{
    CacheScope, CompleteParams, CompleteResult, Completion, CompletionReference, RawJson, ReadResourceResult,
    Reply, ResourceContents, Revision, RpcError,
};

use super::forward::ForwardRoute;
use super::gateway_state::ViewLease;
use super::handle::Gateway;
use super::rewrite;
use super::rewrite::not_an_object;
use super::route::{NamedItemKind, unknown_resource};
use super::routed_call::RoutedCall;
use crate::catalogue::uris::RouteError;
use crate::catalogue::{ACCOUNTS_URI, STATUS_URI};
use crate::guard::TargetItem;

impl Gateway {
    pub(super) async fn read(&self, call: Call, using: &ViewLease) -> Result<Outcome, RpcError> {
        let Some(uri) = call.params.view().uri.as_deref() else {
            return Err(RpcError::invalid_params("invalid params at uri: expected a string"));
        };
        match uri {
            // The endpoint of one server shows nothing of the host's own: the status would name all the others.
            _ if self.is_single() => {}
            STATUS_URI => return own_resource(STATUS_URI, &self.shared.shown_status(self.scope)),
            ACCOUNTS_URI => return self.read_accounts(using).await,
            _ => {}
        }
        let mut catalogue = using.catalogue();
        let routed = match self.route(&catalogue, uri) {
            Err(RouteError::Unknown { .. }) => {
                // It may be a resource of a server that is still being started.
                self.shared.wait_for_first_start(&using.view, |slot| slot.server.start_wait).await;
                catalogue = using.catalogue();
                self.route(&catalogue, uri)
            }
            routed => routed,
        };
        let (server, original) = routed.map_err(|error| unknown_resource(uri, &error))?;
        let item = TargetItem::Resource(&original);
        let routed = RoutedCall { using, server, item, catalogue: &catalogue, reached: None };
        let write_params = |call: &Call, _: Option<&RawJson>| {
            rewrite::with_text(call.params.raw(), "uri", &original).map_err(|error| not_an_object(&error))
        };
        let outcome = self.send_routed(call, routed, write_params).await?;
        let is_for_all = self.shared.guard.is_none() && !self.shared.upstreams[server].is_per_user();
        match outcome {
            Outcome::Complete(reply) if !is_for_all => Ok(Outcome::Complete(private(reply)?)),
            outcome => Ok(outcome),
        }
    }

    pub(super) async fn complete(&self, call: Call, using: &ViewLease) -> Result<Outcome, RpcError> {
        let mut params: CompleteParams = call.decode()?;
        let catalogue = using.catalogue();
        let server = match &mut params.reference {
            CompletionReference::Prompt { name, .. } => {
                let place = catalogue.prompts.origin(name);
                let place =
                    place.ok_or_else(|| self.unknown(&catalogue, NamedItemKind::Prompt, name))?.clone();
                *name = place.name.to_string();
                place.server
            }
            CompletionReference::Resource { uri, .. } => {
                let target =
                    catalogue.uris.route_template(uri).map_err(|error| unknown_resource(uri, &error))?;
                let Some(server) = self.position(target.server) else {
                    let error = RouteError::Unknown { uri: uri.clone() };
                    return Err(unknown_resource(uri, &error));
                };
                let original = target.uri.into_owned();
                *uri = original;
                server
            }
            _ => {
                return Err(RpcError::invalid_params(
                    "invalid params at ref.type: expected \"ref/prompt\" or \"ref/resource\"",
                ));
            }
        };
        let what = match &params.reference {
            CompletionReference::Prompt { name, .. } => TargetItem::PromptCompletion(name),
            CompletionReference::Resource { uri, .. } => TargetItem::TemplateCompletion(uri),
            _ => return Err(RpcError::internal("unsupported reference type")),
        };
        let passage = match self.admit(&call, server, &what, using).await {
            ControlFlow::Continue(passage) => passage,
            ControlFlow::Break(stopped) => return Ok(stopped),
        };
        let mut reached = self.reach(server, using).await?;
        if let Some(why) = self.block_reason_on_connection(server, &what, &mut reached).await {
            reached.lease.finish();
            return Ok(self.refuse(passage, &call, server, what, &why).await);
        }
        let (context, method) = (call.context.clone(), call.method.clone());
        let live = &reached.live;
        // The first revision has completion without a word about it.
        let may_complete =
            live.capabilities().completions.is_some() || live.revision() == Revision::V2024_11_05;
        let outcome = if may_complete {
            let params =
                RawJson::from_serialize(&params).map_err(|error| RpcError::internal(error.to_string()))?;
            self.forward(call, params, ForwardRoute { server, reached, catalogue }).await
        } else {
            // Nothing is sent, and a lease that is only dropped counts as a call that was given up.
            reached.lease.finish();
            Ok(Outcome::Complete(CompleteResult::new(Completion::new(Vec::new())).into()))
        };
        self.record_outcome(passage, &context, &method, outcome).await
    }
}

/// Marks an answer as private to its caller (2026-07-28, `cacheScope`), regardless of the server's own value. Access is
/// decided anew on every request.
fn private(reply: Reply) -> Result<Reply, RpcError> {
    Ok(match reply {
        // Only where the member is there: results of older revisions have none.
        Reply::Raw { revision, json, bridge }
            if json.members().any(|member| member.key() == "cacheScope") =>
        {
            let json = rewrite::with_text(&json, "cacheScope", CacheScope::Private.as_str());
            let json = json.map_err(|error| RpcError::internal(error.to_string()))?;
            Reply::Raw { revision, json, bridge }
        }
        Reply::ReadResource(mut result) => {
            result.cache_scope = Some(CacheScope::Private);
            Reply::ReadResource(result)
        }
        reply => reply,
    })
}

/// Returns text of the host itself as the result of a resource read.
pub(super) fn own_resource(uri: &str, said: &impl serde::Serialize) -> Result<Outcome, RpcError> {
    let text = serde_json::to_string_pretty(said).map_err(|error| RpcError::internal(error.to_string()))?;
    let mut contents = ResourceContents::text(uri, text);
    contents.mime_type = Some("application/json".to_owned());
    Ok(Outcome::Complete(ReadResourceResult::new(vec![contents]).into()))
}
