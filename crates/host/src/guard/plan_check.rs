//! Checks of a proposed plan: each call is judged as it would be if it were made, and not sent.

use hospes::Call;
use hospes_model::RawJson;
use hospes_policy::{CallArguments, CallEffect, Policy, PolicyDecision, PolicyRequest};
use jiff::Timestamp;

use super::approval_binding::ApprovalBinding;
use super::call_decision::CallDecision;
use super::call_summary::summarize;
use super::call_target::CallTarget;
use super::enforcer::PolicyEnforcer;
use super::planned_call::plan_exclusion;
use super::policy_caller::policy_caller;
use super::weighed_verdict::WeighedVerdict;
use crate::approvals::{BindingDigest, GrantEffect, GrantQuery, PlannedCall};

/// A call of a proposed plan.
#[derive(Debug)]
pub(crate) struct ProposedCall<'a> {
    /// Name under which the application knows the tool.
    pub(crate) shown: &'a str,
    pub(crate) target: CallTarget<'a>,
    /// Arguments, an object.
    pub(crate) arguments: RawJson,
}

/// A call that can be part of a plan.
#[derive(Debug)]
pub(super) struct CheckedCall {
    pub(super) card: PlannedCall,
    pub(super) binding: BindingDigest,
    /// True if a person would be asked about the call.
    pub(super) is_asked: bool,
    /// True if only the console may approve the call.
    pub(super) is_strong: bool,
    /// True if the card shows a concern of the guard or of the data flow about the call.
    pub(super) has_concern: bool,
}

impl PolicyEnforcer {
    /// Judges each call of a plan.
    ///
    /// # Errors
    /// If a call cannot be made or cannot be part of a plan. The message begins with its number.
    pub(super) fn check_plan(
        &self,
        call: &Call,
        policy: &Policy,
        proposed: &[ProposedCall<'_>],
    ) -> Result<Vec<CheckedCall>, String> {
        let check = |(index, one): (usize, &ProposedCall<'_>)| {
            let checked = self.check_planned(call, policy, one);
            checked.map_err(|why| format!("call {} (`{}`): {why}", index + 1, one.shown))
        };
        proposed.iter().enumerate().map(check).collect()
    }

    fn check_planned(
        &self,
        call: &Call,
        policy: &Policy,
        proposed: &ProposedCall<'_>,
    ) -> Result<CheckedCall, String> {
        let ProposedCall { target: going, arguments: text, .. } = proposed;
        let arguments = CallArguments::read(text.as_str()).map_err(|error| error.to_string())?;
        let peer = call.context.peer();
        let asked = PolicyRequest::new(going.server, going.action(&arguments))
            .with_caller(policy_caller(&call.context));
        let verdict = policy.decide(&asked, Timestamp::now());
        let weighed = self.weigh(policy, &asked, going, &arguments, (verdict, peer));
        if let Some(CallDecision::Deny { why, .. }) =
            self.denial_before_asking(&asked, going, &weighed.verdict)
        {
            return Err(why.into_owned());
        }
        let WeighedVerdict { verdict, guard, labels, description, .. } = weighed;
        if let Some(approvers) = &verdict.approvers {
            return Err(format!(
                "a member of {approvers} has to approve it, so it cannot be part of a plan; make it by itself"
            ));
        }
        if let Some(excluded) = plan_exclusion(going, labels, guard.as_ref()) {
            return Err(format!("{excluded}, so it cannot be part of a plan; make it by itself"));
        }
        let definition = going.tool().map(|tool| self.tool_hashes.hash_of(tool));
        let (what, name, hash) = (going.call_kind(), going.subject(), definition.as_deref());
        let subject = GrantQuery {
            asked: &asked,
            target: going.target,
            what,
            name,
            definition: hash,
            strong: verdict.strong,
            peer: Some(peer),
        };
        let is_asked = verdict.decision == PolicyDecision::Ask
            && !(verdict.may_remember && self.queue.find_grant(&subject, GrantEffect::Allow).is_some());
        let binding = ApprovalBinding::of_planned(policy, &asked, going, hash, text.as_str())
            .ok_or("its arguments cannot be read")?;
        let labels = labels.unwrap_or_else(|| policy.labels(&asked, going.known));
        let description = description.unwrap_or_else(|| policy.describe(&asked, going.known));
        let known = (labels, &description);
        let summary = summarize(&asked, &arguments, known, guard.as_ref(), verdict.flow.as_ref());
        // What a tool claims lowers nothing, so a read of a server that is not trusted is shown as a change.
        let effect: CallEffect = labels.effect;
        let card = PlannedCall {
            server: going.server_label(),
            name: going.subject().to_owned(),
            summary,
            effect,
            outbound: labels.outbound,
            arguments: text.clone(),
            because: is_asked.then(|| verdict.because.to_string()),
            data_flow: verdict.flow.clone(),
            guard,
        };
        let has_concern = card.guard.is_some() || card.data_flow.is_some();
        Ok(CheckedCall { card, binding, is_asked, is_strong: verdict.strong, has_concern })
    }
}
