//! Policy layer: asks the guard about a call, and refuses calls that something else than the rules stops.

use std::ops::ControlFlow;

use hospes::{Call, Outcome};
use hospes_model::RawJson;

use super::gateway_state::ViewLease;
use super::handle::Gateway;
use crate::guard::{AdmittedCall, CallTarget, TargetItem, refuse};
use crate::server::BlockReason;

impl Gateway {
    /// Checks a call against the pins, then against the policy. Continues with the call's entry of the audit log, if
    /// there is a guard. Breaks with the outcome of a call that ends here: refused, or with a question to the
    /// application.
    pub(super) async fn admit(
        &self,
        call: &Call,
        server: usize,
        item: &TargetItem<'_>,
        using: &ViewLease,
    ) -> ControlFlow<Outcome, Option<Box<AdmittedCall>>> {
        if let Some(why) = self.block_reason(server, item, using) {
            return ControlFlow::Break(self.refuse(None, call, server, *item, &why).await);
        }
        let Some(guard) = &self.shared.guard else { return ControlFlow::Continue(None) };
        if let Some(why) = self.invalid_arguments(call.params.view().arguments.as_ref(), server, item) {
            let why = format!("invalid arguments: {why}");
            let why = (&*why, "the arguments do not match the input schema");
            return ControlFlow::Break(self.refuse_with(None, call, (server, *item), why).await);
        }
        let target = self.target(server, *item);
        // Boxed, so that calls of hosts without a guard do not carry its future.
        let admitted = Box::pin(guard.admit(call, target)).await?;
        ControlFlow::Continue(Some(admitted))
    }

    /// Returns the target of a call through this gateway.
    pub(super) fn target<'a>(&'a self, server: usize, item: TargetItem<'a>) -> CallTarget<'a> {
        let target = CallTarget::to(&self.shared.upstreams[server].server, item);
        target.in_profile(self.shared.profile_name(self.scope))
    }

    /// Returns the mistakes in the arguments of a tool, if they are checked. Built-in servers check their own.
    pub(super) fn invalid_arguments(
        &self,
        arguments: Option<&RawJson>,
        server: usize,
        item: &TargetItem<'_>,
    ) -> Option<String> {
        let guard = self.shared.guard.as_ref().filter(|guard| guard.checks().arguments)?;
        let server = &self.shared.upstreams[server].server;
        let TargetItem::Tool(_, Some(tool)) = item else { return None };
        if server.known.is_some() {
            return None;
        }
        guard.call_checks().check_arguments(server.check_arguments, tool, arguments).err()
    }

    /// Refuses a call of a blocked item.
    pub(super) async fn refuse(
        &self,
        admitted: Option<Box<AdmittedCall>>,
        call: &Call,
        server: usize,
        item: TargetItem<'_>,
        why: &BlockReason,
    ) -> Outcome {
        let message = why.message(&self.shared.upstreams[server].server.name);
        self.refuse_with(admitted, call, (server, item), (&message, why.as_str())).await
    }

    /// Refuses a call with a message for the caller and a reason for the audit log.
    pub(super) async fn refuse_with(
        &self,
        admitted: Option<Box<AdmittedCall>>,
        call: &Call,
        (server, item): (usize, TargetItem<'_>),
        why: (&str, &str),
    ) -> Outcome {
        let target = self.target(server, item);
        // Boxed, because refusals are rare and calls that go on need not carry this future.
        Box::pin(refuse(self.shared.guard.as_ref(), admitted, (call, &target), why)).await
    }
}
