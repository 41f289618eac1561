//! Errors of the approval queue.

use std::borrow::Cow;

use hospes_store::DecisionBasis;

use super::limits::ApprovalLimitExceeded;

/// Reasons an approval cannot be submitted or redeemed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApprovalQueueError {
    /// It was used, or its time is over, or it never was.
    Expired,
    /// The decision was made for a different call.
    Changed,
    /// An application reports the approval, and by now only the console can give it.
    ConsoleOnly,
    /// The approval queue is full.
    TooMany(ApprovalLimitExceeded),
    /// No random id could be generated.
    NoId,
    /// It cannot be kept, or not be used up, in the host's state.
    Store,
}

impl ApprovalQueueError {
    /// Returns the reason as the end of a sentence.
    pub(crate) fn message(self) -> Cow<'static, str> {
        match self {
            Self::Expired => {
                "its approval has expired: it was already used, or no decision was made in time (setting \
                 approval_timeout)"
                    .into()
            }
            Self::Changed => "the call differs from the one that was approved".into(),
            Self::ConsoleOnly => "the conversation has read more since it was asked about, and only the console can approve it \
                                  by now; call it again to request that"
                .into(),
            Self::TooMany(full) => full.message().into(),
            Self::NoId => "the system's random number generator failed".into(),
            Self::Store => {
                "pending approvals cannot be written to the host's state at the moment (see the log)".into()
            }
        }
    }

    /// Returns the basis of the decision for the audit log.
    pub(crate) fn basis(self) -> DecisionBasis {
        match self {
            Self::Expired => DecisionBasis::Unanswered,
            Self::Changed | Self::ConsoleOnly | Self::TooMany(_) | Self::NoId | Self::Store => {
                DecisionBasis::Host
            }
        }
    }

    /// Returns the decision for the audit log.
    pub(crate) fn decision(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Changed | Self::ConsoleOnly | Self::TooMany(_) | Self::NoId | Self::Store => "deny",
        }
    }
}
