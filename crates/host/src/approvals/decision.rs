use std::collections::BTreeMap;

use hospes_model::RawJson;
use hospes_policy::RequiredApprovers;
use hospes_store::DecisionBasis;
use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::approval::ApprovalState;
use super::grant::ApprovalScope;
use crate::deciders::ApproverRecord;

/// Maximum length of a reason, in bytes.
pub const MAX_REASON_BYTES: usize = 2000;

/// A person's decision about a [`Approval`](super::Approval). There is no default decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", try_from = "DecisionFields")]
#[expect(clippy::exhaustive_enums, reason = "whoever acts on it must not overlook one")]
pub enum ApprovalDecision {
    /// Allows the action.
    Allow {
        /// Edited content that replaces the original: arguments of a call, params or a result of sampling, or the
        /// content of a form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edited: Option<RawJson>,
        /// Scope within which the person is not asked again.
        #[serde(default, skip_serializing_if = "ApprovalScope::is_once")]
        scope: ApprovalScope,
    },
    /// Denies the action.
    Deny {
        /// Told to the model; at most 2000 bytes ([`MAX_REASON_BYTES`]).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// True if the same tool is denied from now on, too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        block: bool,
    },
}

/// Outcome of an approval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ApprovalOutcome {
    /// Allowed, possibly edited, with the decider and whether the permission lasts.
    Allowed { edited: Option<RawJson>, by: String, basis: DecisionBasis, lasts: bool },
    /// Denied, with the reason and the decider.
    Denied { reason: Option<String>, by: String, basis: DecisionBasis },
}

impl DecisionRecord {
    /// Returns the outcome of an approval of a call of `requester`. A permission of somebody who is none of the required
    /// approvers counts as a denial.
    pub(super) fn outcome(
        self,
        approvers: Option<&RequiredApprovers>,
        requester: Option<&str>,
    ) -> ApprovalOutcome {
        let Self { by, basis, approver, decision, .. } = self;
        match (decision, approvers) {
            (ApprovalDecision::Allow { .. }, Some(approvers))
                if !approver.is_some_and(|one| one.is_one_of(approvers, requester)) =>
            {
                let reason = format!("it was allowed by somebody who is not a member of {approvers}");
                ApprovalOutcome::Denied { reason: Some(reason), by, basis: DecisionBasis::Host }
            }
            (ApprovalDecision::Allow { edited, scope }, _) => {
                ApprovalOutcome::Allowed { edited, by, basis, lasts: !scope.is_once() }
            }
            (ApprovalDecision::Deny { reason, .. }, _) => ApprovalOutcome::Denied { reason, by, basis },
        }
    }
}

impl ApprovalDecision {
    /// Creates a decision that allows the action once.
    #[must_use]
    pub fn allow() -> Self {
        Self::Allow { edited: None, scope: ApprovalScope::Once }
    }

    /// Creates a denial without a reason.
    #[must_use]
    pub fn deny() -> Self {
        Self::Deny { reason: None, block: false }
    }

    /// Returns the same decision without what was added to it: once, without an edit or a reason.
    pub(super) fn once(&self) -> Self {
        match self {
            Self::Allow { .. } => Self::allow(),
            Self::Deny { .. } => Self::deny(),
        }
    }

    /// Returns the state of an approval after this decision.
    pub(super) fn state(&self) -> ApprovalState {
        match self {
            Self::Allow { .. } => ApprovalState::Allowed,
            Self::Deny { .. } => ApprovalState::Denied,
        }
    }

    /// Creates a denial with a reason.
    #[must_use]
    pub fn deny_because(reason: impl Into<String>) -> Self {
        Self::Deny { reason: Some(reason.into()), block: false }
    }
}

/// Fields of a [`ApprovalDecision`] as they are deserialized. Raw JSON cannot pass through an internally tagged enum.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DecisionFields {
    decision: DecisionVerb,
    #[serde(default)]
    edited: Option<RawJson>,
    #[serde(default)]
    scope: Option<ApprovalScope>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    block: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum DecisionVerb {
    Allow,
    Deny,
}

impl TryFrom<DecisionFields> for ApprovalDecision {
    type Error = &'static str;

    fn try_from(written: DecisionFields) -> Result<Self, &'static str> {
        match written {
            DecisionFields { decision: DecisionVerb::Allow, edited, scope, reason: None, block: None } => {
                Ok(Self::Allow { edited, scope: scope.unwrap_or_default() })
            }
            DecisionFields { decision: DecisionVerb::Deny, edited: None, scope: None, reason, block } => {
                Ok(Self::Deny { reason, block: block.unwrap_or_default() })
            }
            // Part of it was meant otherwise.
            DecisionFields { decision: DecisionVerb::Allow, .. } => {
                Err("`reason` and `block` belong to a denial")
            }
            DecisionFields { decision: DecisionVerb::Deny, .. } => {
                Err("`edited` and `scope` belong to a permission")
            }
        }
    }
}

/// A decision with its author and time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DecisionRecord {
    /// Time of the decision.
    pub at: Timestamp,
    /// Decider, such as "the person at the console".
    pub by: String,
    /// [`DecisionBasis::Person`] or [`DecisionBasis::Program`].
    #[serde(skip_serializing_if = "DecisionBasis::is_unknown")]
    pub basis: DecisionBasis,
    /// Approver who has allowed a call of somebody else, or of a group. `None` if the principal has decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approver: Option<ApproverRecord>,
    /// The decision.
    #[serde(flatten)]
    pub decision: ApprovalDecision,
}

impl<'de> Deserialize<'de> for DecisionRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As for a decision: what is flattened keeps no JSON as it came.
        let mut members = BTreeMap::<String, RawJson>::deserialize(deserializer)?;
        let mut take = |name: &str| members.remove(name).unwrap_or_else(RawJson::null);
        let (at, by, basis, approver) = (take("at"), take("by"), take("basis"), take("approver"));
        let read = || {
            let decision = serde_json::from_str(&serde_json::to_string(&members)?)?;
            let basis = basis.decode::<Option<DecisionBasis>>()?.unwrap_or_default();
            Ok(Self { at: at.decode()?, by: by.decode()?, basis, approver: approver.decode()?, decision })
        };
        read().map_err(|error: serde_json::Error| D::Error::custom(error))
    }
}

/// Error of making a decision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecideError {
    /// Nothing of this id waits, nor has lately.
    #[error("no pending approval with this id: it was decided long ago or never existed")]
    Unknown,
    /// The approval is no longer pending.
    #[error("it was already decided, has expired, or was withdrawn by the requester")]
    Over,
    /// The call is allowed by members of these groups, and by nobody else.
    #[error("only a member of {0} can allow this")]
    NotApprover(String),
    /// The decision was not offered for this approval.
    #[error("{0} is not available for this approval")]
    NotOffered(&'static str),
    /// The edit is invalid.
    #[error("invalid edit: {0}")]
    Edit(String),
    /// The lasting permission is invalid.
    #[error("invalid permission: {0}")]
    Rule(String),
    /// The reason is longer than [`MAX_REASON_BYTES`].
    #[error("the reason is longer than 2000 bytes")]
    LongReason,
    /// It could not be written down.
    #[error("the decision cannot be stored: {0}")]
    Store(String),
}
