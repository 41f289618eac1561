use hospes_model::RawJson;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::grant::Scope;

/// How long a reason may be, in bytes.
pub const MAX_REASON: usize = 2000;

/// What a person decides about a [`Matter`](super::Matter). There is no decision that is one by default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
#[expect(clippy::exhaustive_enums, reason = "whoever acts on it must not overlook one")]
pub enum Decision {
    /// It happens.
    Allow {
        /// What happens instead of what was asked for: arguments of a call, params or a result of sampling, the content
        /// of a form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edited: Option<RawJson>,
        /// For how long the person is not asked again.
        #[serde(default, skip_serializing_if = "Scope::is_once")]
        scope: Scope,
    },
    /// It does not happen.
    Deny {
        /// Told to the model; at most 2000 bytes ([`MAX_REASON`]).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Whether the same tool is denied from now on, too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        block: bool,
    },
}

impl Decision {
    /// Yes, this once.
    #[must_use]
    pub fn allow() -> Self {
        Self::Allow { edited: None, scope: Scope::Once }
    }

    /// No.
    #[must_use]
    pub fn deny() -> Self {
        Self::Deny { reason: None, block: false }
    }

    /// No, and why.
    #[must_use]
    pub fn deny_because(reason: impl Into<String>) -> Self {
        Self::Deny { reason: Some(reason.into()), block: false }
    }
}

/// What was decided, by whom, when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Decided {
    /// When.
    pub at: Timestamp,
    /// By whom: "the person at the console".
    pub by: String,
    /// What.
    #[serde(flatten)]
    pub decision: Decision,
}

/// Why something cannot be decided so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecideError {
    /// Nothing of this id waits, nor has lately.
    #[error("nothing waits under this id: it was decided long ago, or never was")]
    Unknown,
    /// It does not wait any more.
    #[error("it is decided already, or its time is over, or whoever asked has gone away")]
    Over,
    /// What was answered was not offered for this matter.
    #[error("{0} is not offered here")]
    NotOffered(&'static str),
    /// What would happen instead cannot.
    #[error("it cannot be changed to this: {0}")]
    Edit(String),
    /// The lasting permission is none.
    #[error("the permission cannot be given: {0}")]
    Rule(String),
    /// The reason is longer than [`MAX_REASON`].
    #[error("the reason is longer than 2000 bytes")]
    LongReason,
    /// It could not be written down.
    #[error("what was decided cannot be kept: {0}")]
    Store(String),
}
