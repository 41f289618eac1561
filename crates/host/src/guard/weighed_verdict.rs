//! Verdict of the rules in the light of what the conversation has read.

use std::sync::Arc;

use hospes::Peer;
use hospes_policy::{
    CallArguments, CallEffect, DataFlowPolicy, FlowLabels, Policy, PolicyDecision, PolicyRequest,
    PolicyVerdict, ToolDescription,
};

use super::call_target::CallTarget;
use super::enforcer::PolicyEnforcer;
use crate::approvals::GuardCard;

/// A verdict in the light of what its session has read.
pub(super) struct WeighedVerdict {
    pub(super) verdict: PolicyVerdict,
    pub(super) guard: Option<GuardCard>,
    /// True if the call, if it is allowed, changes or reaches something after text of others was read.
    pub(super) passes_after_untrusted: bool,
    /// Labels of the call. `None` if nothing depends on them.
    pub(super) labels: Option<FlowLabels>,
    /// Description of the tool, with a preset.
    pub(super) description: Option<ToolDescription>,
}

impl PolicyEnforcer {
    /// Learns what the session has read at other nodes, if the verdict may depend on it.
    pub(super) async fn refresh_flow(
        &self,
        policy: &Policy,
        asked: &PolicyRequest<'_>,
        going: &CallTarget<'_>,
        peer: &Arc<Peer>,
    ) {
        if !self.flows.is_shared() || policy.preset().is_none() && policy.data_flow() == DataFlowPolicy::Off {
            return;
        }
        let labels = policy.labels(asked, going.known);
        if labels.outbound || labels.effect != CallEffect::None {
            self.flows.refresh(peer).await;
        }
    }

    /// Weighs the verdict of the rules by what the session of this peer has read, and by what the preset has found.
    pub(super) fn weigh(
        &self,
        policy: &Policy,
        asked: &PolicyRequest<'_>,
        going: &CallTarget<'_>,
        arguments: &CallArguments,
        (verdict, peer): (PolicyVerdict, &Arc<Peer>),
    ) -> WeighedVerdict {
        let mut weighed = WeighedVerdict {
            verdict,
            guard: None,
            passes_after_untrusted: false,
            labels: None,
            description: None,
        };
        let labels = if let Some(preset) = policy.preset() {
            let assessed = self.assess((policy, preset), asked, going, arguments, peer);
            if let Some(why) = assessed.refusal.filter(|_| weighed.verdict.decision != PolicyDecision::Deny) {
                weighed.verdict = policy.refuse_by_check(weighed.verdict, why);
            }
            if let Some(card) = assessed.card.filter(|_| weighed.verdict.decision != PolicyDecision::Deny) {
                weighed.verdict = policy.apply_guard(weighed.verdict, card.cause);
                weighed.guard = Some(card);
            }
            weighed.passes_after_untrusted = assessed.follows_reading;
            weighed.description = Some(assessed.description);
            assessed.labels
        } else if policy.data_flow() == DataFlowPolicy::Off {
            return weighed;
        } else {
            policy.labels(asked, going.known)
        };
        weighed.labels = Some(labels);
        if policy.data_flow() != DataFlowPolicy::Off
            && labels.outbound
            && let Some(flow) = self.flows.tainted(peer)
        {
            weighed.verdict = policy.apply_data_flow(weighed.verdict, labels, flow);
        }
        weighed
    }
}
