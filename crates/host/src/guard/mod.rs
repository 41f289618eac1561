//! Policy enforcement between a call and its server: the rules, the approvals, and the audit record.
//!
//! A call is checked once its target is known. The policy allows or denies it, or requires approval; an approval is
//! valid for exactly this call, once. Each outcome is recorded in the audit log.

mod admission;
mod admitted_call;
mod approval_binding;
mod approval_form;
mod approved_rounds;
mod assessment;
mod call_activity;
mod call_approval;
mod call_decision;
mod call_summary;
mod call_target;
mod canonical_json;
mod data_flow;
mod denials;
mod edit_check;
mod enforcer;
mod open_plans;
mod pending_entry;
mod plan_approval;
mod plan_check;
mod planned_call;
mod policy_caller;
mod question;
mod record_check;
mod recorded_text;
mod refuse;
mod retention;
mod review;
mod server_requests;
mod shared_flow;
mod subscriptions;
mod task_origin;
#[cfg(test)]
mod tests;
mod texts;
mod tool_hashes;
mod waiting;
mod weighed_verdict;

pub(crate) use admitted_call::AdmittedCall;
pub use call_activity::{
    ApplicationCalls, CallActivity, CallProgress, CallSnapshot, HISTORY_PERIOD, HISTORY_PERIODS,
    MAX_ENDED_CALLS, ObservedCall, ServerCalls,
};
pub(crate) use call_target::{CallTarget, METHOD_SUBJECT, TargetItem};
pub(crate) use denials::basis_of;
pub use denials::is_unattended;
pub use enforcer::{DEFAULT_APPROVAL_TIMEOUT, PolicyEnforcer, UnattendedMode};
pub(crate) use pending_entry::PendingAuditEntry;
pub(crate) use plan_approval::{MAX_PLANNED_CALLS, MIN_PLANNED_CALLS};
pub(crate) use plan_check::ProposedCall;
pub(crate) use refuse::refuse;
pub use shared_flow::SharedFlowLabels;
pub(crate) use task_origin::{StoredTaskOrigin, TaskEndReason, TaskOrigin};
pub(crate) use waiting::wait_for_decision;
