//! Approval of a plan: one question about several calls.

use std::ops::ControlFlow;
use std::sync::Arc;

use hospes::{Call, Outcome};
use hospes_model::{CallToolResult, RpcError};
use hospes_policy::{Policy, visible_line};
use hospes_store::DecisionBasis;

use super::admitted_call::AdmittedCall;
use super::approval_binding::ApprovalBinding;
use super::approval_form;
use super::call_decision::CallDecision;
use super::call_target::CallTarget;
use super::denials::{NO_CONSOLE, NO_FORM, NOBODY};
use super::enforcer::PolicyEnforcer;
use super::open_plans::{ApprovedPlan, ApprovedStep, PLAN_LIFETIME};
use super::plan_check::{CheckedCall, ProposedCall};
use super::question::{ApprovalQuestion, SettledApproval, take_answer};
use super::recorded_text::clipped;
use crate::approvals::{
    ApprovalCard, ApprovalOutcome, ApprovalQueueError, DecisionOptions, GrantSession, NewApproval,
    NewPlanGrant, PlanCard,
};

/// Minimum number of calls of a plan.
pub(crate) const MIN_PLANNED_CALLS: usize = 2;

/// Maximum number of calls of a plan.
pub(crate) const MAX_PLANNED_CALLS: usize = 20;

/// Reason for which a plan is refused that a form cannot show.
const TOO_LONG: &str = "its arguments are too long for a form of the application, and nobody is at the console; make the \
                        calls one by one";

/// Maximum number of names in the description of a plan.
const MAX_NAMES: usize = 3;

/// A plan whose calls have been checked.
struct CheckedPlan<'a> {
    policy: &'a Policy,
    calls: Vec<CheckedCall>,
    /// Names under which the application knows the tools.
    shown: Vec<&'a str>,
    bond: ApprovalBinding,
}

impl CheckedPlan<'_> {
    /// Returns true if only the console may approve the plan.
    fn is_strong(&self) -> bool {
        self.calls.iter().any(|call| call.is_strong)
    }

    fn card(&self) -> PlanCard {
        let calls = self.calls.iter().map(|call| call.card.clone()).collect();
        PlanCard::new(calls, minutes())
    }

    /// Describes the plan in a line: "3 calls: send of mail, send of mail, delete of files".
    fn describe(&self) -> String {
        let names = self.calls.iter().take(MAX_NAMES);
        let names: Vec<String> =
            names.map(|call| format!("{} of {}", call.card.name, call.card.server)).collect();
        let more = if self.calls.len() > MAX_NAMES { ", …" } else { "" };
        format!("{} calls: {}{more}", self.calls.len(), names.join(", "))
    }

    /// Returns the result with which the application hears of the approval.
    fn approved_text(&self) -> String {
        let mut text = format!(
            "The person has approved the plan. Make these {} calls within {} minutes, in this order and exactly as \
             proposed:",
            self.shown.len(),
            minutes()
        );
        for (index, name) in self.shown.iter().enumerate() {
            text.push_str(&format!("\n{}. {name}", index + 1));
        }
        text
    }
}

fn minutes() -> u64 {
    PLAN_LIFETIME.as_secs() / 60
}

impl PolicyEnforcer {
    /// Answers the call of the host's tool that proposes a plan. `host` is that tool, and `proposed` the calls or the
    /// reason that they cannot be made.
    pub(crate) async fn propose_plan(
        self: &Arc<Self>,
        call: &Call,
        host: CallTarget<'_>,
        proposed: Result<Vec<ProposedCall<'_>>, String>,
    ) -> Result<Outcome, RpcError> {
        let mut passage = AdmittedCall::new(self, call, &host);
        if let Err(error) = passage.can_be_recorded().await {
            tracing::error!(%error, "plan refused because it cannot be recorded");
            passage.unrecorded();
            return Ok(refusal("calls cannot be recorded at the moment"));
        }
        match self.decide_plan(call, &host, proposed, &mut passage).await {
            Ok(text) => {
                let result: CallToolResult = CallToolResult::text(text);
                passage.finish(Ok(Outcome::Complete(result.into()))).await
            }
            Err(PlanStop::Asked(outcome)) => Ok(outcome),
            Err(PlanStop::Refused { recorded, by, basis, why }) => {
                let text = refusal(&why);
                let decision = CallDecision::Deny {
                    recorded,
                    // It has names that the application has chosen.
                    by: by.unwrap_or_else(|| clipped(&visible_line(&why))).into(),
                    basis,
                    why: why.into(),
                };
                let _general = passage.conclude(&host, decision).await;
                Ok(text)
            }
        }
    }

    /// Returns the text with which the application hears that it can make the calls.
    async fn decide_plan(
        &self,
        call: &Call,
        host: &CallTarget<'_>,
        proposed: Result<Vec<ProposedCall<'_>>, String>,
        passage: &mut AdmittedCall,
    ) -> Result<String, PlanStop> {
        let answer = take_answer(call);
        let policy = self.policy().filter(|policy| policy.allows_plans());
        let policy = policy.ok_or("plans are not allowed here (key `plans` of the policy)")?;
        let proposed = proposed?;
        self.flows.refresh(call.context.peer()).await;
        let calls = self.check_plan(call, &policy, &proposed)?;
        let digests: Vec<_> = calls.iter().map(|call| call.binding).collect();
        let application = call.context.peer().info.as_ref().map(|info| info.name.as_str());
        let bond = ApprovalBinding::of_plan(&policy, (call.context.principal(), application), &digests);
        let shown = proposed.iter().map(|call| call.shown).collect();
        let plan = CheckedPlan { policy: &policy, calls, shown, bond };
        if let Some(answer) = answer {
            let settled = self.redeem_answer(call, &answer, (bond.call, plan.is_strong())).await;
            return self.settle_plan(call, host, &plan, (answer.id, settled), passage).await;
        }
        if !plan.calls.iter().any(|call| call.is_asked) {
            let by = "no call of the plan requires an approval".to_owned();
            allow(passage, host, by, DecisionBasis::Host).await?;
            return Ok("No approval is needed for these calls. Make them as usual.".to_owned());
        }
        self.plans.check_room(call.context.peer(), |id| self.queue.is_plan_open(id))?;
        let card = plan.card();
        // A person cannot approve in a form what does not fit there.
        let is_too_long = !approval_form::shows_in_full(&card);
        let way = self.way_to_ask(call, plan.is_strong() || is_too_long).ok_or_else(|| {
            if !plan.is_strong() && is_too_long && self.way_to_ask(call, false).is_some() {
                return PlanStop::from(TOO_LONG);
            }
            let basis = DecisionBasis::Unanswered;
            let why = if plan.is_strong() { NO_CONSOLE } else { NO_FORM };
            let why = format!("{why}; {NOBODY}");
            PlanStop::Refused { recorded: "deny", by: None, basis, why }
        })?;
        let form = || approval_form::plan_form(&card);
        let why = plan.calls.iter().find_map(|call| call.card.because.clone()).unwrap_or_default();
        let question = ApprovalQuestion {
            approval: self.plan_approval(call, host, &plan, card.clone()),
            form: &form,
            at_console: format!("May I make {}? Decide in the console.", card.heading),
            why,
        };
        match self.ask(call, host, (question, way), passage).await {
            ControlFlow::Continue(settled) => self.settle_plan(call, host, &plan, settled, passage).await,
            ControlFlow::Break(outcome) => Err(PlanStop::Asked(outcome)),
        }
    }

    /// Applies the decision about a plan.
    async fn settle_plan(
        &self,
        call: &Call,
        host: &CallTarget<'_>,
        plan: &CheckedPlan<'_>,
        (id, settled): (String, SettledApproval),
        passage: &mut AdmittedCall,
    ) -> Result<String, PlanStop> {
        if settled.is_ok() {
            passage.mark_decided_by_person();
        }
        let (by, basis) = match settled {
            Ok(ApprovalOutcome::Allowed { by, basis, .. }) => (by, basis),
            Ok(ApprovalOutcome::Denied { reason, by, basis }) => {
                let why = match reason {
                    Some(reason) => format!("the user denied it: {reason}"),
                    None => "the user denied it".to_owned(),
                };
                return Err(PlanStop::Refused { recorded: "deny", by: Some(by), basis, why });
            }
            Err(error) => return Err(error.into()),
        };
        // The proposal may have waited for long: it counts under the rules as they are now, or not at all.
        if self.policy().is_none_or(|policy| policy.version() != plan.policy.version()) {
            return Err(ApprovalQueueError::Changed.into());
        }
        let peer = call.context.peer();
        self.queue
            .add_plan(NewPlanGrant {
                id: id.clone(),
                by: by.clone(),
                principal: call.context.principal().map(str::to_owned),
                application: peer.info.as_ref().map(|info| info.name.clone()),
                session: GrantSession::of(peer),
                server: host.server.to_owned(),
                name: plan.describe(),
                lifetime: PLAN_LIFETIME,
            })
            .map_err(|error| error.to_string())?;
        let step = |call: &CheckedCall| ApprovedStep { binding: call.binding, has_concern: call.has_concern };
        let calls = plan.calls.iter().map(step).collect();
        let approved = ApprovedPlan { id: id.clone(), calls, is_strong: plan.is_strong() };
        if let Err(full) = self.plans.open(peer, approved) {
            self.queue.end_plan(&id);
            return Err(full.into());
        }
        allow(passage, host, format!("approved by {by} as the plan {id}"), basis).await?;
        Ok(plan.approved_text())
    }

    fn plan_approval(
        &self,
        call: &Call,
        host: &CallTarget<'_>,
        plan: &CheckedPlan<'_>,
        card: PlanCard,
    ) -> NewApproval {
        let peer = call.context.peer();
        NewApproval {
            principal: call.context.principal().map(str::to_owned),
            groups: Vec::new(),
            approvers: None,
            application: peer.info.as_ref().map(|info| info.name.clone()),
            server: host.server.to_owned(),
            profile: None,
            endpoint_profile: host.profile.map(str::to_owned),
            offers: DecisionOptions { targets: !card.targets().is_empty(), ..DecisionOptions::default() },
            card: ApprovalCard::Plan(Box::new(card)),
            timeout: self.approval_timeout,
            bond: plan.bond.call,
            asker: plan.bond.asker,
            caller: peer.caller.clone(),
            is_weak: false,
            definition: None,
            target: host.target.to_owned(),
            check: None,
            session: None,
            returns: false,
        }
    }
}

/// Reasons for which a proposal does not end with an approval in this round.
enum PlanStop {
    /// The person is asked through the application.
    Asked(Outcome),
    Refused {
        /// The decision for the audit log.
        recorded: &'static str,
        /// The decider, if it is not the reason.
        by: Option<String>,
        basis: DecisionBasis,
        /// The reason that the caller is told.
        why: String,
    },
}

impl From<String> for PlanStop {
    fn from(why: String) -> Self {
        Self::Refused { recorded: "deny", by: None, basis: DecisionBasis::Host, why }
    }
}

impl From<&str> for PlanStop {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

impl From<ApprovalQueueError> for PlanStop {
    fn from(error: ApprovalQueueError) -> Self {
        let (recorded, basis) = (error.decision(), error.basis());
        Self::Refused { recorded, by: None, basis, why: error.message().into_owned() }
    }
}

/// Records that a proposal is allowed.
async fn allow(
    passage: &mut AdmittedCall,
    host: &CallTarget<'_>,
    by: String,
    basis: DecisionBasis,
) -> Result<(), PlanStop> {
    match passage.conclude(host, CallDecision::Allow { by: by.into(), basis }).await {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(outcome) => Err(PlanStop::Asked(outcome)),
    }
}

fn refusal(why: &str) -> Outcome {
    Outcome::Complete(CallToolResult::error(format!("The plan is not approved: {why}.")).into())
}
