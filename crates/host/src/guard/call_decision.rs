//! Decision about a call: it is recorded, and the call goes on or ends.

use std::borrow::Cow;
use std::ops::ControlFlow;

use hospes::{Outcome, PendingInput};
use hospes_model::RpcError;
use hospes_policy::CallArgumentsError;
use hospes_store::DecisionBasis;

use super::admitted_call::AdmittedCall;
use super::call_target::CallTarget;
use crate::approvals::ApprovalQueueError;

/// Decision about a call, with the reason for the audit log.
#[derive(Debug)]
pub(super) enum CallDecision<'a> {
    /// The call may be sent.
    Allow {
        /// The rule or the person that allows it.
        by: Cow<'a, str>,
        basis: DecisionBasis,
    },
    /// The call is refused.
    Deny {
        /// The decision as it is recorded: `deny`, or how an approval ended.
        recorded: &'static str,
        /// The rule or the person that denies it.
        by: Cow<'a, str>,
        basis: DecisionBasis,
        /// The reason that the caller is told.
        why: Cow<'a, str>,
    },
    /// A person is asked through the application. The call comes back with the answer.
    Ask {
        /// The rule that requires the approval.
        by: Cow<'a, str>,
        /// The question with the state of the round; none if it no longer exists.
        questions: Option<PendingInput>,
    },
}

impl<'a> CallDecision<'a> {
    /// Creates a denial by the host whose recorded reason is also told to the caller.
    pub(super) fn deny(why: impl Into<Cow<'a, str>>) -> Self {
        let why = why.into();
        Self::Deny { recorded: "deny", by: why.clone(), basis: DecisionBasis::Host, why }
    }

    /// Creates the denial of a call that nobody can be asked about.
    pub(super) fn unanswered(why: impl Into<Cow<'a, str>>) -> Self {
        let why = why.into();
        Self::Deny { recorded: "deny", by: why.clone(), basis: DecisionBasis::Unanswered, why }
    }

    /// Creates the denial of a call whose arguments have more than one reading.
    pub(super) fn ambiguous(error: &CallArgumentsError) -> Self {
        let (by, why) = ("the arguments are ambiguous".into(), error.to_string().into());
        Self::Deny { recorded: "deny", by, basis: DecisionBasis::Host, why }
    }

    /// Creates the denial of a call that cannot be approved.
    pub(super) fn unapproved(error: ApprovalQueueError) -> Self {
        let why = error.message();
        Self::Deny { recorded: error.decision(), by: why.clone(), basis: error.basis(), why }
    }
}

impl AdmittedCall {
    /// Records a decision. Breaks with the outcome of the call unless it may be sent.
    pub(super) async fn conclude(
        &mut self,
        going: &CallTarget<'_>,
        decision: CallDecision<'_>,
    ) -> ControlFlow<Outcome> {
        match decision {
            CallDecision::Allow { by, basis } => {
                self.set_decision("allow", by, basis);
                ControlFlow::Continue(())
            }
            CallDecision::Deny { recorded, by, basis, why } => {
                self.set_decision(recorded, by, basis);
                self.end_refused().await;
                ControlFlow::Break(going.refusal(&why))
            }
            CallDecision::Ask { by, questions } => {
                self.set_decision("ask", by, DecisionBasis::Unanswered);
                self.end_asked().await;
                ControlFlow::Break(questions.map_or_else(
                    || RpcError::internal("the approval request for the call no longer exists").into(),
                    Outcome::InputRequired,
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hospes::{Call, Context, Peer};
    use hospes_model::{ClientCapabilities, Method, RawJson, Reply, Revision};

    use super::super::{PolicyEnforcer, TargetItem};
    use super::*;

    #[tokio::test]
    async fn only_an_allowed_call_goes_on() {
        let guard = Arc::new(PolicyEnforcer::new(None));
        let peer = Peer::new(Revision::LATEST, None, ClientCapabilities::new());
        let call = Call::new(Method::ToolsCall, RawJson::empty_object(), Context::new(Arc::new(peer)));
        let going = CallTarget::unknown("a", "t", TargetItem::Tool("x", None));
        let mut admitted = AdmittedCall::new(&guard, &call, &going);

        let rule = CallDecision::Allow { by: "a rule".into(), basis: DecisionBasis::Rule };
        let allowed = admitted.conclude(&going, rule).await;
        assert!(allowed.is_continue());

        let denied = admitted.conclude(&going, CallDecision::deny("not today")).await;
        let Some(Outcome::Complete(Reply::CallTool(result))) = denied.break_value() else {
            panic!("a denied call of a tool ends with a result")
        };
        assert_eq!(result.is_error, Some(true));

        let decision = CallDecision::Ask { by: "a rule".into(), questions: None };
        let asked = admitted.conclude(&going, decision).await;
        assert!(matches!(asked, ControlFlow::Break(Outcome::Failed(_))));
    }
}
