//! Admission of calls: rules, data flow, blocks and approvals in their order.

use std::ops::ControlFlow;
use std::sync::Arc;

use hospes::{Call, Outcome};
use hospes_policy::{CallArguments, DataFlowPolicy, Policy, PolicyDecision, PolicyRequest, PolicyVerdict};
use hospes_store::AFTER_UNTRUSTED;
use jiff::Timestamp;

use super::admitted_call::AdmittedCall;
use super::approval_binding::ApprovalBinding;
use super::approved_rounds::APPROVED_STEP;
use super::call_approval::{ApprovalAnswer, CallApproval, take_answer};
use super::call_decision::CallDecision;
use super::call_target::CallTarget;
use super::denials::{UNASKED, UNREVIEWED, denial};
use super::enforcer::PolicyEnforcer;
use super::review::ResultReview;
use crate::approvals::{GrantEffect, GrantQuery, GuardCard};

/// A verdict in the light of what its session has read.
struct WeighedVerdict {
    verdict: PolicyVerdict,
    guard: Option<GuardCard>,
    /// True if the call, if it is allowed, changes or reaches something after text of others was read.
    passes_after_untrusted: bool,
}

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
                let decision = CallDecision::Allow { by: "there are no rules".into() };
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
            Err(error) => {
                let (by, why) = ("the arguments are ambiguous".into(), error.to_string().into());
                return passage.conclude(going, CallDecision::Deny { recorded: "deny", by, why }).await;
            }
        };
        let peer = call.context.peer();
        let asked = PolicyRequest::new(going.server, going.action(&arguments))
            .with_application(peer.info.as_ref().map(|info| info.name.as_str()))
            .with_principal(call.context.principal());
        let verdict = policy.decide(&asked, Timestamp::now());
        let WeighedVerdict { verdict, guard, passes_after_untrusted } =
            self.weigh(policy, &asked, going, &arguments, verdict, passage);
        if verdict.decision != PolicyDecision::Deny
            && let Some(denial) = self.denial_before_asking(&asked, going, &verdict)
        {
            return passage.conclude(going, denial).await;
        }
        let definition = || going.tool().map(|tool| self.tool_hashes.hash_of(tool));
        let bound = || ApprovalBinding::new(policy, &asked, going, definition().as_deref(), text);
        // What a person was asked about is theirs to decide, though nothing would have them asked by now: what a session had
        // read before a restart, nobody knows after it. Nor do later rounds of it, which may have other arguments by then.
        let was_asked = verdict.decision == PolicyDecision::Allow
            && (answer.as_ref().is_some_and(|answer| answer.is_awaited(&self.queue, &bound()))
                || call.context.round().steps.contains_key(APPROVED_STEP));
        match verdict.decision {
            PolicyDecision::Allow if !was_asked => {
                let by = match passes_after_untrusted {
                    true => format!("{}; {AFTER_UNTRUSTED}", verdict.because),
                    false => verdict.because.to_string(),
                };
                passage.conclude(going, CallDecision::Allow { by: by.into() }).await?;
            }
            PolicyDecision::Deny => {
                let (by, why) = (verdict.because.to_string().into(), denial(&verdict).into());
                return passage.conclude(going, CallDecision::Deny { recorded: "deny", by, why }).await;
            }
            PolicyDecision::Ask if !going.can_be_asked_about() => {
                let by = format!("{UNASKED}: {}", verdict.why()).into();
                let decision = CallDecision::Deny { recorded: "deny", by, why: UNASKED.into() };
                return passage.conclude(going, decision).await;
            }
            PolicyDecision::Allow | PolicyDecision::Ask => {
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
        }
        if verdict.review {
            passage.review(ResultReview::new(call, going, verdict.because.to_string()));
        }
        ControlFlow::Continue(())
    }

    /// The verdict in the light of what its session has read, and what the preset has found; the passage knows what this
    /// brings into the session.
    fn weigh(
        &self,
        policy: &Policy,
        asked: &PolicyRequest<'_>,
        going: &CallTarget<'_>,
        arguments: &CallArguments,
        mut verdict: PolicyVerdict,
        passage: &mut AdmittedCall,
    ) -> WeighedVerdict {
        let mut guard = None;
        let mut passes_after_untrusted = false;
        let labels = if let Some(preset) = policy.preset() {
            let assessed = self.assess((policy, preset), asked, going, arguments, passage.peer());
            if let Some(why) = assessed.refusal.filter(|_| verdict.decision != PolicyDecision::Deny) {
                verdict = policy.refuse_by_check(verdict, why);
            }
            if let Some(card) = assessed.card.filter(|_| verdict.decision != PolicyDecision::Deny) {
                verdict = policy.apply_guard(verdict, card.cause);
                guard = Some(card);
            }
            passes_after_untrusted = assessed.follows_reading;
            if !going.is_app_page() {
                passage.remember_text(assessed.description);
            }
            assessed.labels
        } else if policy.data_flow() == DataFlowPolicy::Off {
            return WeighedVerdict { verdict, guard, passes_after_untrusted };
        } else {
            policy.labels(asked, going.known)
        };
        passage.set_labels(labels);
        if policy.data_flow() != DataFlowPolicy::Off
            && labels.outbound
            && let Some(flow) = self.flows.tainted(passage.peer())
        {
            verdict = policy.apply_data_flow(verdict, labels, flow);
        }
        WeighedVerdict { verdict, guard, passes_after_untrusted }
    }

    /// Returns the denial of a call that no rule can allow. This applies to items a person has blocked, and to calls
    /// whose result needs review while no reviewer is present.
    fn denial_before_asking(
        &self,
        asked: &PolicyRequest<'_>,
        going: &CallTarget<'_>,
        verdict: &PolicyVerdict,
    ) -> Option<CallDecision<'static>> {
        if let Some(block) = self.find_block(asked, going) {
            let by = block.to_string().into();
            return Some(CallDecision::Deny { recorded: "deny", by, why: "the user has blocked it".into() });
        }
        let is_reviewable = self.queue.is_attended() && going.can_be_asked_about();
        // Better nothing than what looks reviewed and is not.
        (verdict.review && !is_reviewable).then(|| CallDecision::deny(UNREVIEWED))
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
