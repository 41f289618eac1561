//! Question to a person about an approval: by a form in the application, at the console, or while the call waits.

use std::ops::ControlFlow;

use hospes::{Call, Outcome};
use hospes_model::{
    ElicitAction, ElicitFormParams, ElicitParams, ElicitResult, ElicitUrlParams, ElicitationCompleteParams,
    InputRequest, Notification, RawJson,
};
use hospes_store::DecisionBasis;

use super::admitted_call::AdmittedCall;
use super::approval_binding::ApprovalBinding;
use super::approval_form;
use super::call_decision::CallDecision;
use super::call_target::CallTarget;
use super::enforcer::{PolicyEnforcer, UnattendedMode};
use super::waiting::wait_for_decision;
use crate::approvals::{
    ApprovalDecision, ApprovalOutcome, ApprovalQueue, ApprovalQueueError, BindingDigest, ConsoleUrl,
    NewApproval,
};

/// Prefixes of the keys of the host's own questions: those with a form, and those that lead to the console.
const FORM: &str = "hospes.approve.";
const CONSOLE: &str = "hospes.console.";

/// Decider recorded for decisions that an application's form reports.
const APPLICATION_DECIDER: &str = "the person, through the application";

/// Decision about an approval, or the reason that there is none.
pub(super) type SettledApproval = Result<ApprovalOutcome, ApprovalQueueError>;

/// Way in which a person can be asked.
pub(super) struct AskingWay {
    /// True if the application shows a form.
    by_form: bool,
    /// Address of the console, if the application sends the person there.
    console: Option<ConsoleUrl>,
    /// True if the call comes back with the answer.
    returns: bool,
}

/// A question about an approval.
pub(super) struct ApprovalQuestion<'a> {
    pub(super) approval: NewApproval,
    /// Form for an application that shows one.
    pub(super) form: &'a (dyn Fn() -> ElicitFormParams + Sync),
    /// Message for an application that leads to the console.
    pub(super) at_console: String,
    /// Reason to ask, for the audit log.
    pub(super) why: String,
}

impl PolicyEnforcer {
    /// Returns the way in which a person can be asked. With `strong`, no application may report the decision. `None` if
    /// nobody can be asked.
    pub(super) fn way_to_ask(&self, call: &Call, strong: bool) -> Option<AskingWay> {
        let capabilities = &call.context.peer().capabilities;
        let by_form = capabilities.elicits_forms() && !strong;
        if !by_form && !self.queue.is_decidable() && self.unattended != UnattendedMode::Queue {
            return None;
        }
        // The console is on this machine: who signed in from elsewhere is not sent there.
        let is_here = call.context.principal().is_none() && capabilities.elicits_urls();
        let console = if by_form || !is_here { None } else { self.queue.console() };
        // The state of a round outlives the host only where it travels with the call.
        let returns = (by_form || console.is_some()) && !call.context.peer().revision.is_legacy();
        Some(AskingWay { by_form, console, returns })
    }

    /// Returns the way in which approvers are asked, who are somewhere else: the call waits. `None` if there can be none.
    pub(super) fn way_to_ask_approvers(&self) -> Option<AskingWay> {
        let can_be_asked = self.queue.has_team() || self.unattended == UnattendedMode::Queue;
        can_be_asked.then_some(AskingWay { by_form: false, console: None, returns: false })
    }

    /// Asks the person. Continues with the id of the approval and the decision, if the call has waited for it. Breaks with
    /// a question to the application, or with a refusal.
    pub(super) async fn ask(
        &self,
        call: &Call,
        going: &CallTarget<'_>,
        (question, way): (ApprovalQuestion<'_>, AskingWay),
        passage: &mut AdmittedCall,
    ) -> ControlFlow<Outcome, (String, SettledApproval)> {
        let ApprovalQuestion { approval, form, at_console, why } = question;
        let AskingWay { by_form, console, returns } = way;
        // In a fleet: what was allowed at a node that has ended is used by the same call.
        if let Some((id, outcome)) = self.queue.redeem_orphaned(&approval).await {
            return ControlFlow::Continue((id, Ok(outcome)));
        }
        let waiting = match self.queue.submit(NewApproval { returns, is_weak: by_form, ..approval }) {
            Ok(waiting) => waiting,
            Err(refused) => return refuse(passage, going, refused).await,
        };
        let question = if by_form {
            Some((FORM, ElicitParams::Form(form())))
        } else {
            console.map(|console| {
                let mut params = ElicitUrlParams::new(at_console, console.of(waiting.id()));
                params.elicitation_id = Some(waiting.id().to_owned());
                (CONSOLE, ElicitParams::Url(params))
            })
        };
        let Some((key, question)) = question else {
            passage.set_decision("ask", why, DecisionBasis::Unanswered);
            let settled = wait_for_decision(call, &waiting).await;
            return ControlFlow::Continue((waiting.id().to_owned(), settled));
        };
        // Kept before the question goes out: its answer may come after a restart.
        let id = match waiting.persist().await {
            Ok(id) => id,
            Err(refused) => return refuse(passage, going, refused).await,
        };
        call.context.add_question(format!("{key}{id}"), InputRequest::Elicit(Box::new(question)));
        let questions = call.context.take_questions();
        let decision = CallDecision::Ask { by: why.into(), questions };
        passage.conclude(going, decision).await?;
        // Asking ends this round of the call.
        ControlFlow::Continue((id, Err(ApprovalQueueError::Expired)))
    }

    /// Redeems an answer for what it is bound to. Waits if the person is still at the console. With `strong`, no
    /// application may report an approval, also if it could when the question was asked.
    pub(super) async fn redeem_answer(
        &self,
        call: &Call,
        answer: &ApprovalAnswer,
        (bond, strong): (BindingDigest, bool),
    ) -> SettledApproval {
        let said = answer.said().map(|said| (said, APPLICATION_DECIDER));
        let settled = match self.queue.redeem(&answer.id, &bond, said).await {
            Ok(Some(settled)) => Ok(settled),
            // They are at the console, or on their way.
            Ok(None) => wait_for_decision(call, &self.queue.resume(&answer.id, bond)).await,
            Err(refused) => Err(refused),
        };
        let is_weak =
            matches!(&settled, Ok(ApprovalOutcome::Allowed { by, .. }) if by == APPLICATION_DECIDER);
        if is_weak && strong {
            return Err(ApprovalQueueError::ConsoleOnly);
        }
        if answer.at_console {
            let done = ElicitationCompleteParams::new(&answer.id);
            call.context.notify(Notification::ElicitationComplete(done));
        }
        settled
    }
}

/// Concludes a call whose approval cannot be queued.
async fn refuse<T>(
    passage: &mut AdmittedCall,
    going: &CallTarget<'_>,
    refused: ApprovalQueueError,
) -> ControlFlow<Outcome, T> {
    match passage.conclude(going, CallDecision::unapproved(refused)).await {
        ControlFlow::Break(outcome) => ControlFlow::Break(outcome),
        // A denial always ends its call.
        ControlFlow::Continue(()) => ControlFlow::Break(going.refusal(&refused.message())),
    }
}

/// Answer to one of the host's own questions.
pub(super) struct ApprovalAnswer {
    pub(super) id: String,
    /// True if the person was sent to the console.
    at_console: bool,
    content: RawJson,
}

/// Removes the answer to one of the host's own questions from the round, so that the server's rounds begin without it.
pub(super) fn take_answer(call: &Call) -> Option<ApprovalAnswer> {
    let mut round = call.context.round();
    let ours = |key: &str| {
        let form = key.strip_prefix(FORM).map(|id| (id.to_owned(), false));
        form.or_else(|| key.strip_prefix(CONSOLE).map(|id| (id.to_owned(), true)))
    };
    let (key, (id, at_console)) = round.answers.keys().find_map(|key| Some((key.clone(), ours(key)?)))?;
    let content = round.answers.remove(&key)?;
    round.fresh.retain(|fresh| *fresh != key);
    call.context.begin_round(round);
    Some(ApprovalAnswer { id, at_console, content })
}

impl ApprovalAnswer {
    /// Returns true if this call was asked about and the question is still open or its approval unused.
    pub(super) fn is_awaited(&self, queue: &ApprovalQueue, bond: &ApprovalBinding) -> bool {
        queue.is_redeemable(&self.id, &bond.call)
    }

    /// Returns the decision the person made in the application, or `None` if they were sent to the console. Any answer
    /// that is not a clear yes is a denial.
    fn said(&self) -> Option<ApprovalDecision> {
        let result = self.content.decode::<ElicitResult>();
        match result {
            Ok(ElicitResult { action: ElicitAction::Accept, .. }) if self.at_console => None,
            Ok(ElicitResult { action: ElicitAction::Accept, content: Some(content), .. }) => {
                Some(match approval_form::answer(&content) {
                    // What was not offered was not meant for longer: `ApprovalQueue::redeem` then allows it once.
                    approval_form::ApprovalFormAnswer::Yes(scope) => {
                        ApprovalDecision::Allow { edited: None, scope }
                    }
                    approval_form::ApprovalFormAnswer::No(reason) => {
                        ApprovalDecision::Deny { reason, block: false }
                    }
                })
            }
            _ => Some(ApprovalDecision::deny()),
        }
    }
}
