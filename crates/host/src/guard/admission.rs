//! Admission of calls: rules, data flow, blocks and approvals in their order.

use std::ops::ControlFlow;
use std::sync::Arc;

use hospes::{Call, Outcome};
use hospes_policy::{CallArguments, Policy, PolicyDecision, PolicyRequest, PolicyVerdict};
use hospes_store::{AFTER_UNTRUSTED, DecisionBasis};
use jiff::Timestamp;

use super::admitted_call::AdmittedCall;
use super::approval_binding::ApprovalBinding;
use super::approved_rounds::APPROVED_STEP;
use super::call_approval::CallApproval;
use super::call_decision::CallDecision;
use super::call_target::CallTarget;
use super::denials::{UNASKED, UNREVIEWED, basis_of, denial};
use super::enforcer::PolicyEnforcer;
use super::policy_caller::policy_caller;
use super::question::{ApprovalAnswer, take_answer};
use super::review::ResultReview;
use super::weighed_verdict::WeighedVerdict;
use crate::approvals::{GrantEffect, GrantQuery};

impl PolicyEnforcer {
    /// Decides whether a call may be sent. Continues with its entry of the audit log. Breaks if the call ends here: with a
    /// refusal, or with a question to the application.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        call: &Call,
        going: CallTarget<'_>,
    ) -> ControlFlow<Outcome, Box<AdmittedCall>> {
        let mut passage = AdmittedCall::new(self, call, &going);
        if let Err(error) = passage.can_be_recorded().await {
            tracing::error!(%error, "call refused because it cannot be recorded");
            passage.unrecorded();
            return ControlFlow::Break(going.refusal("calls cannot be recorded at the moment"));
        }
        // An answer to a question of ours is nobody else's, whatever the rules say by now.
        let answer = take_answer(call);
        match self.policy() {
            Some(policy) => self.apply_rules(call, &going, &policy, answer, &mut passage).await?,
            None => {
                let decision =
                    CallDecision::Allow { by: "there are no rules".into(), basis: DecisionBasis::Default };
                passage.conclude(&going, decision).await?;
            }
        }
        ControlFlow::Continue(Box::new(passage))
    }

    /// Continues if the rules, and the person where they ask, let the call pass.
    async fn apply_rules(
        &self,
        call: &Call,
        going: &CallTarget<'_>,
        policy: &Policy,
        answer: Option<ApprovalAnswer>,
        passage: &mut AdmittedCall,
    ) -> ControlFlow<Outcome> {
        let text = going.arguments(call);
        let arguments = match CallArguments::read(text) {
            Ok(arguments) => arguments,
            Err(error) => return passage.conclude(going, CallDecision::ambiguous(&error)).await,
        };
        let peer = call.context.peer();
        let asked = PolicyRequest::new(going.server, going.action(&arguments))
            .with_caller(policy_caller(&call.context));
        let definition = || going.tool().map(|tool| self.tool_hashes.hash_of(tool));
        // Before the call is weighed: the call before it may have read something.
        let turn = self
            .wait_for_plan_turn(peer, text, || {
                ApprovalBinding::of_planned(policy, &asked, going, definition().as_deref(), text)
            })
            .await;
        self.refresh_flow(policy, &asked, going, peer).await;
        let verdict = policy.decide(&asked, Timestamp::now());
        let weighed = self.weigh(policy, &asked, going, &arguments, (verdict, peer));
        let denial = self.denial_before_asking(&asked, going, &weighed.verdict);
        let approvers = weighed.verdict.approvers.clone();
        let bound = || {
            ApprovalBinding::new(policy, &asked, going, definition().as_deref(), text)
                .with_approvers(approvers.as_ref())
        };
        let is_answer = answer.as_ref().is_some_and(|answer| answer.is_awaited(&self.queue, &bound()))
            || call.context.round().steps.contains_key(APPROVED_STEP);
        let planned = (!is_answer).then(|| self.follow_plan(peer, going, (&weighed, denial.is_some()), turn));
        let WeighedVerdict { verdict, guard, passes_after_untrusted, labels, description } = weighed;
        passage.set_labels(labels, description.filter(|_| !going.is_app_page()));
        if let Some(denial) = denial {
            return passage.conclude(going, denial).await;
        }
        if let Some(step) = planned.flatten() {
            let flow = verdict.flow.as_ref().map_or_else(String::new, |flow| format!("; {flow}"));
            let by = format!("{}{flow}", step.describe()).into();
            passage.conclude(going, CallDecision::Allow { by, basis: DecisionBasis::Grant }).await?;
            passage.approved_by_plan(bound(), step);
        } else if verdict.decision == PolicyDecision::Allow && !is_answer {
            let note = if passes_after_untrusted { format!("; {AFTER_UNTRUSTED}") } else { String::new() };
            let by = format!("{}{note}", verdict.because).into();
            let basis = basis_of(&verdict.because);
            passage.conclude(going, CallDecision::Allow { by, basis }).await?;
        } else {
            // What was asked about is the person's to decide, also if nothing would be asked by now: what a session has read
            // is unknown after a restart, and a later round may have other arguments.
            let asking = CallApproval {
                policy,
                verdict: &verdict,
                going,
                asked: &asked,
                arguments: &arguments,
                text,
                definition: definition(),
                guard,
            };
            self.require_approval(call, &asking, answer, passage).await?;
        }
        if verdict.review {
            passage.review(ResultReview::new(call, going, verdict.because.to_string()));
        }
        ControlFlow::Continue(())
    }

    /// Returns the denial of a call that is not even asked about: the rules deny it, a person has blocked its item, its
    /// result needs review while no reviewer is present, or nobody can be asked about its kind.
    pub(super) fn denial_before_asking(
        &self,
        asked: &PolicyRequest<'_>,
        going: &CallTarget<'_>,
        verdict: &PolicyVerdict,
    ) -> Option<CallDecision<'static>> {
        let deny = |by: String, basis: DecisionBasis, why: String| {
            Some(CallDecision::Deny { recorded: "deny", by: by.into(), basis, why: why.into() })
        };
        if verdict.decision == PolicyDecision::Deny {
            return deny(verdict.because.to_string(), basis_of(&verdict.because), denial(verdict));
        }
        if let Some(block) = self.find_block(asked, going) {
            return deny(block.to_string(), DecisionBasis::Grant, "the user has blocked it".to_owned());
        }
        let is_askable = going.can_be_asked_about();
        // Better nothing than what looks reviewed and is not.
        if verdict.review && !(self.queue.is_attended() && is_askable) {
            return Some(CallDecision::unanswered(UNREVIEWED));
        }
        if verdict.decision == PolicyDecision::Ask && !is_askable {
            let by = format!("{UNASKED}: {}", verdict.why());
            return deny(by, basis_of(&verdict.because), UNASKED.to_owned());
        }
        None
    }

    /// Returns the lasting block of a call, if a person has made one.
    pub(super) fn find_block(&self, asked: &PolicyRequest<'_>, going: &CallTarget<'_>) -> Option<Arc<str>> {
        let (what, name) = (going.call_kind(), going.subject());
        // A block is bound to no definition and no session, so there is nothing of these to compare.
        let subject = GrantQuery {
            asked,
            target: going.target,
            what,
            name,
            definition: None,
            strong: true,
            peer: None,
        };
        self.queue.find_grant(&subject, GrantEffect::Deny)
    }
}
