//! Approval queue: pending decisions of a person, and the person's lasting decisions.
//!
//! Everything that needs a decision by a person is submitted as an [`Approval`]. A console, a terminal or the application
//! that asked decides; the first decision counts. No decision in time, or a requester that disconnects, means denied.

mod approval;
mod approval_nodes;
mod call_content;
mod decision;
mod decision_records;
mod grant;
mod grants;
mod held;
mod like_calls;
mod limits;
mod local_links;
mod persistence;
mod plan_card;
mod plan_grants;
mod queue;
mod queue_error;
mod queued_approval;
mod readers;
mod redeem;
mod registrations;
mod repeated;
mod sentence;
mod session;
mod state_sync;
mod submit;
mod suggested_permission;
#[cfg(test)]
mod tests;
mod waiter;

pub use approval::{
    Approval, ApprovalCallKind, ApprovalCard, ApprovalState, CallCard, CallSummary, DecisionOptions,
    DeclaredEffects, FormCard, GuardCard, GuardFinding, GuardSource, GuardValue, ResultCard,
    SamplingRequestCard, SamplingResultCard, UrlCard,
};
pub use approval_nodes::{ApprovalNodes, EndedNodes};
pub use call_content::{CallContent, EDIT_NAMES};
pub(crate) use decision::ApprovalOutcome;
pub use decision::{ApprovalDecision, DecideError, DecisionRecord, MAX_REASON_BYTES};
pub use grant::{
    ApprovalGrant, ApprovalScope, DEFAULT_PERMISSION_LIFETIME, GrantEffect, LastingPermission,
    MAX_PERMISSION_LIFETIME,
};
pub(crate) use grants::GrantQuery;
pub use grants::MAX_GRANTS;
pub use like_calls::LikeCallConditions;
pub(crate) use limits::ApprovalLimitExceeded;
pub use limits::ApprovalLimits;
pub use local_links::LocalLinks;
pub use plan_card::{ONE_BY_ONE_REASON, PlanCard, PlanGroup, PlannedCall};
pub(crate) use plan_grants::NewPlanGrant;
pub use queue::ApprovalQueue;
pub(crate) use queue_error::ApprovalQueueError;
pub(crate) use queued_approval::{BindingDigest, EditCheck, StoredEditCheck, generate_id};
pub use readers::ApprovalRights;
pub(crate) use registrations::ConsoleUrl;
pub use registrations::{ConsoleRegistration, ViewerRegistration};
pub use repeated::RepeatedAnswers;
pub use sentence::ApprovalSentence;
pub(crate) use session::GrantSession;
pub use session::SESSION_LIFETIME;
pub(crate) use submit::NewApproval;
pub use suggested_permission::SuggestedPermission;
pub(crate) use waiter::ApprovalWaiter;
