//! Calls while plans are open: the next call of a plan passes, any other effect ends the plan.

use std::sync::{Arc, Weak};

use hospes::Peer;
use hospes_policy::{CallEffect, FlowLabels, PlanExclusion, PolicyDecision};

use super::call_approval::MAX_ARGUMENT_BYTES;
use super::call_target::{CallTarget, TargetItem};
use super::enforcer::PolicyEnforcer;
use super::open_plans::{PlanStep, PlanTurn};
use super::weighed_verdict::WeighedVerdict;
use crate::approvals::{BindingDigest, GuardCard, GuardFinding};

impl PolicyEnforcer {
    /// Returns the binding and the turn of a call, if it can be the call of a plan, once the calls before it have ended.
    pub(super) async fn wait_for_plan_turn(
        &self,
        peer: &Arc<Peer>,
        arguments: &str,
        binding: impl FnOnce() -> Option<BindingDigest>,
    ) -> Option<(BindingDigest, PlanTurn)> {
        // No plan has arguments of that length, and to read them again costs.
        if self.plans.is_empty() || arguments.len() > MAX_ARGUMENT_BYTES || !self.plans.has_plan_of(peer) {
            return None;
        }
        let call = binding()?;
        let turn = self.plans.wait_for_turn(peer, &call).await?;
        Some((call, turn))
    }

    /// Returns the step of an open plan that a call is. A call that changes something, or would be asked about, and is no
    /// step ends the plans of its conversation.
    pub(super) fn follow_plan(
        &self,
        peer: &Arc<Peer>,
        going: &CallTarget<'_>,
        (weighed, is_denied): (&WeighedVerdict, bool),
        turn: Option<(BindingDigest, PlanTurn)>,
    ) -> Option<PlanStep> {
        if self.plans.is_empty() {
            return None;
        }
        let WeighedVerdict { verdict, guard, labels, .. } = weighed;
        let is_excluded =
            verdict.approvers.is_some() || plan_exclusion(going, *labels, guard.as_ref()).is_some();
        let step = match turn {
            Some((call, turn)) if !is_denied && !is_excluded => {
                let is_granted = |id: &str| self.queue.use_plan(id);
                self.plans.take_step(turn, (&call, verdict.strong), is_granted)
            }
            _ => None,
        };
        match &step {
            Some(step) if step.is_last() => self.queue.end_plan(&step.turn.id),
            // Nobody is asked about completions and subscriptions, and they change nothing.
            None if weighed.changes_something()
                || (verdict.decision == PolicyDecision::Ask && going.can_be_asked_about()) =>
            {
                self.end_plans(peer, "a call that is not the next of the plan");
            }
            _ => (),
        }
        step
    }

    /// Ends a plan of which a call has failed.
    fn end_failed_plan(&self, id: &str) {
        if self.plans.end_plan(id) {
            tracing::info!(
                plan = id,
                "plan ended before its last call, because a call of it did not succeed"
            );
            self.queue.end_plan(id);
        }
    }

    /// Ends the plans of the conversation that this peer belongs to.
    pub(super) fn end_plans(&self, peer: &Arc<Peer>, why: &str) {
        if self.plans.is_empty() {
            return;
        }
        for id in self.plans.end(peer) {
            tracing::info!(plan = id, why, "plan ended before its last call");
            self.queue.end_plan(&id);
        }
    }
}

/// A call of a plan that is being made. Dropped before it has succeeded, it ends the plan.
#[derive(Debug)]
pub(super) struct RunningStep {
    enforcer: Weak<PolicyEnforcer>,
    turn: PlanTurn,
    has_succeeded: bool,
}

impl RunningStep {
    pub(super) fn new(enforcer: &Arc<PolicyEnforcer>, turn: PlanTurn) -> Self {
        Self { enforcer: Arc::downgrade(enforcer), turn, has_succeeded: false }
    }

    /// Ends the step of a call that has succeeded.
    pub(super) fn succeed(mut self) {
        self.has_succeeded = true;
    }
}

impl Drop for RunningStep {
    fn drop(&mut self) {
        // Before the turn is the next call's.
        if !self.has_succeeded
            && let Some(enforcer) = self.enforcer.upgrade()
        {
            enforcer.end_failed_plan(&self.turn.id);
        }
    }
}

/// Returns the reason for which a call is never part of a plan, if there is one.
pub(super) fn plan_exclusion(
    going: &CallTarget<'_>,
    labels: Option<FlowLabels>,
    guard: Option<&GuardCard>,
) -> Option<PlanExclusion> {
    let found = guard.into_iter().flat_map(|guard| &guard.values).find_map(|value| match value.finding {
        GuardFinding::Secret => Some(PlanExclusion::Secret),
        GuardFinding::Address => Some(PlanExclusion::PrivateAddress),
        GuardFinding::Shell => Some(PlanExclusion::ShellCharacters),
        _ => None,
    });
    let TargetItem::Tool(name, _) = going.what else { return found };
    found.or_else(|| PlanExclusion::of_tool(name, labels?))
}

impl WeighedVerdict {
    /// Returns true if the call changes something. A tool of a server that is not trusted may claim to read.
    fn changes_something(&self) -> bool {
        let claims_to_read = self.description.as_ref().is_some_and(|tool| tool.claims_to_read);
        self.labels.is_some_and(|labels| labels.effect != CallEffect::None) && !claims_to_read
    }
}
