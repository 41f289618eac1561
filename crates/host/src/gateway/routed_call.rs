//! Layers of a routed call, from the router down to the server and back.
//!
//! ```text
//! Accounts -> Route -> Pins -> Policy -> [ask] -> Connect -> Forward
//!     ^                                                         |
//!     +------------- Tasks <- Audit <---------------------------+
//! ```
//!
//! A call passes each layer once on its way down and once on its way up. The layers are plain methods, because a routed
//! call has more than a [`Call`]: its server, its item and the connection that routing waited for. A layer that ends a
//! call breaks with the outcome.

use std::ops::ControlFlow;
use std::sync::Arc;

use hospes::{Call, Outcome};
use hospes_model::{CallToolResult, RawJson, Reply, RpcError, Tool};

use super::forward::ForwardRoute;
use super::gateway_state::ViewLease;
use super::handle::Gateway;
use super::reach::{ReachError, ReachedUpstream};
use super::result_identity;
use crate::approvals::ApprovalQueueError;
use crate::catalogue::MergedCatalogue;
use crate::guard::{AdmittedCall, TargetItem, TaskOrigin};
use crate::server::BlockReason;

/// Destination of a call: an item of one server.
#[derive(Debug)]
pub(super) struct RoutedCall<'a> {
    pub(super) using: &'a ViewLease,
    /// The position of the server.
    pub(super) server: usize,
    pub(super) item: TargetItem<'a>,
    /// The catalogue in which the item was found.
    pub(super) catalogue: &'a Arc<MergedCatalogue>,
    /// The connection, if routing had to wait for it.
    pub(super) reached: Option<ReachedUpstream>,
}

/// Reasons that a call is not sent over a connection.
#[derive(Debug)]
enum ConnectStop {
    /// There is no connection.
    Unreached(ReachError),
    /// The item is blocked, according to the listing on the connection.
    Blocked(BlockReason),
    /// The definition of an approved tool has changed since the person was asked.
    Changed,
}

impl Gateway {
    /// Sends a call through the layers below the router. `write_params` returns the params for the server, given the
    /// arguments that a person has edited.
    pub(super) async fn send_routed(
        &self,
        call: Call,
        mut routed: RoutedCall<'_>,
        write_params: impl FnOnce(&Call, Option<&RawJson>) -> Result<RawJson, RpcError>,
    ) -> Result<Outcome, RpcError> {
        let (server, item) = (routed.server, routed.item);
        let mut admitted = match self.admit(&call, server, &item, routed.using).await {
            ControlFlow::Continue(admitted) => admitted,
            ControlFlow::Break(outcome) => {
                // Nothing was begun on the connection that was waited for.
                if let Some(mut reached) = routed.reached {
                    reached.lease.finish();
                }
                return Ok(outcome);
            }
        };
        let params = write_params(&call, admitted.as_ref().and_then(|admitted| admitted.edited()))?;
        let outcome = match self.connect(&call, &mut routed, admitted.as_deref()).await {
            Ok(reached) => Ok(reached),
            Err(ConnectStop::Unreached(error)) => {
                if let Some(admitted) = &mut admitted {
                    admitted.clear_labels();
                }
                Err(error)
            }
            Err(ConnectStop::Blocked(why)) => {
                return Ok(self.refuse(admitted, &call, server, item, &why).await);
            }
            Err(ConnectStop::Changed) => {
                let changed = ApprovalQueueError::Changed;
                let why = (&*changed.message(), changed.decision());
                return Ok(self.refuse_with(admitted, &call, (server, item), why).await);
            }
        };
        // `forward` takes the call and its params; the record and a task need these parts after it.
        let (context, method) = (call.context.clone(), call.method.clone());
        let sent = task_item(&item).map(|_| params.clone());
        let outcome = match outcome {
            Ok(reached) => {
                let shown = renamed_tool(&call, &item);
                let way = ForwardRoute { server, reached, catalogue: Arc::clone(routed.catalogue) };
                let outcome = self.forward(call, params, way).await;
                match (shown, item) {
                    (Some(shown), TargetItem::Tool(own, _)) => {
                        outcome.map(|outcome| result_identity::naming_tool(outcome, &method, own, &shown))
                    }
                    _ => outcome,
                }
            }
            Err(error) => unreached_outcome(&item, error),
        };
        let outcome = outcome.map(|outcome| {
            self.check_outcome(context.peer(), &method, (server, &item), routed.catalogue, outcome)
        });
        let outcome = self.record_outcome(admitted, &context, &method, outcome).await?;
        let (Some(sent), Some((name, tool))) = (sent, task_item(&item)) else { return Ok(outcome) };
        let is_task = matches!(outcome, Outcome::Complete(Reply::CreateTask(_)));
        let origin = self.shared.guard.as_ref().filter(|_| is_task).map(|guard| {
            let arguments = sent.members().find(|member| member.key() == "arguments");
            let arguments = arguments.map(|member| member.value());
            TaskOrigin::new(guard, &context, (name, tool), arguments.as_ref())
        });
        Ok(self.register_created_task(outcome, server, &context, origin).await)
    }

    /// Connect layer: leases a connection and checks there that the item is still the admitted one.
    async fn connect(
        &self,
        call: &Call,
        routed: &mut RoutedCall<'_>,
        admitted: Option<&AdmittedCall>,
    ) -> Result<ReachedUpstream, ConnectStop> {
        let mut reached = match routed.reached.take() {
            Some(reached) => reached,
            None => self.reach(routed.server, routed.using).await.map_err(ConnectStop::Unreached)?,
        };
        if let Some(why) = self.block_reason_on_connection(routed.server, &routed.item, &mut reached).await {
            reached.lease.finish();
            return Err(ConnectStop::Blocked(why));
        }
        if task_item(&routed.item).is_some()
            && admitted.is_some_and(AdmittedCall::is_approved)
            && !is_unchanged(call, routed, &reached).await
        {
            reached.lease.finish();
            return Err(ConnectStop::Changed);
        }
        Ok(reached)
    }
}

/// Returns true if the tool is still defined as it was when a person approved the call.
async fn is_unchanged(call: &Call, routed: &RoutedCall<'_>, reached: &ReachedUpstream) -> bool {
    let name = call.params.view().name.as_deref().unwrap_or_default();
    // The server may have become another while the person looked at what it was.
    reached.lease.line.wait_for_reread().await
        && routed.using.rebuild_catalogue(routed.catalogue).tools.get(name)
            == routed.catalogue.tools.get(name)
}

/// Returns the name and definition of an item whose call may become a task; none for other items.
fn task_item<'a>(item: &TargetItem<'a>) -> Option<(&'a str, Option<&'a Tool>)> {
    match *item {
        TargetItem::Tool(name, tool) => Some((name, tool)),
        TargetItem::Prompt(name) => Some((name, None)),
        _ => None,
    }
}

/// Returns the name under which the application called a tool, if the server calls it otherwise.
fn renamed_tool(call: &Call, item: &TargetItem<'_>) -> Option<String> {
    let TargetItem::Tool(own, _) = item else { return None };
    call.params.view().name.as_deref().filter(|shown| shown != own).map(str::to_owned)
}

/// Returns the outcome of a call whose server cannot be reached. A model reads the result of a tool and does something
/// else; it may never see a protocol error.
fn unreached_outcome(item: &TargetItem<'_>, error: ReachError) -> Result<Outcome, RpcError> {
    match item {
        TargetItem::Tool(..) if error.sign_in.is_none() => {
            Ok(Outcome::Complete(CallToolResult::error(error.why).into()))
        }
        _ => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_cannot_be_reached_is_a_result_and_all_else_an_error() {
        let error = || ReachError::from("it is starting".to_owned());
        let tool = unreached_outcome(&TargetItem::Tool("x", None), error());
        assert!(
            matches!(tool, Ok(Outcome::Complete(Reply::CallTool(result))) if result.is_error == Some(true))
        );
        assert!(unreached_outcome(&TargetItem::Prompt("x"), error()).is_err());
        assert!(unreached_outcome(&TargetItem::Resource("x"), error()).is_err());
    }

    #[test]
    fn who_has_to_sign_in_gets_an_error_that_says_where() {
        let sign_in = Some(("files".into(), "https://host.example/connect/1".into()));
        let error = ReachError { why: "sign in first".to_owned(), sign_in };
        let outcome = unreached_outcome(&TargetItem::Tool("x", None), error);
        assert!(outcome.is_err_and(|error| error.url_elicitations().is_some()));
    }
}
