//! Refusal of calls for reasons other than the policy, recorded like other refusals.

use std::ops::ControlFlow;
use std::sync::Arc;

use hospes::{Call, Outcome};
use hospes_store::DecisionBasis;

use super::admitted_call::AdmittedCall;
use super::call_decision::CallDecision;
use super::call_target::CallTarget;
use super::enforcer::PolicyEnforcer;

/// Refuses a call and returns its outcome. `why` is for the caller, `by` for the record. `passage` is the call's own,
/// if it was already admitted.
pub(crate) async fn refuse(
    guard: Option<&Arc<PolicyEnforcer>>,
    passage: Option<Box<AdmittedCall>>,
    (call, going): (&Call, &CallTarget<'_>),
    (why, by): (&str, &str),
) -> Outcome {
    let passage = match (passage, guard) {
        (Some(passage), _) => Some(*passage),
        (None, Some(guard)) => Some(AdmittedCall::new(guard, call, going)),
        (None, None) => None,
    };
    match passage {
        Some(mut passage) => {
            let decision = CallDecision::Deny {
                recorded: "deny",
                by: by.into(),
                basis: DecisionBasis::Host,
                why: why.into(),
            };
            match passage.conclude(going, decision).await {
                ControlFlow::Break(outcome) => outcome,
                // A denial always ends its call.
                ControlFlow::Continue(()) => going.refusal(why),
            }
        }
        None => going.refusal(why),
    }
}
