//! Limits on pending approvals.

/// Limits on pending approvals. Approvals beyond a limit are rejected immediately, with an error that names the limit
/// and its setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApprovalLimits {
    /// Maximum number of approvals: the setting `max_waiting`; by default 1024.
    pub waiting: usize,
    /// Maximum number of pending approvals of one user, or of all users without sign-in together (setting
    /// `max_waiting_of_one`; default 256). A single program may use at most as many as remain for the others.
    pub of_one: usize,
    /// Maximum size of the shown content of all approvals, in bytes: the setting `max_waiting_bytes`; by default 64
    /// MiB.
    pub bytes: usize,
}

impl Default for ApprovalLimits {
    fn default() -> Self {
        Self { waiting: 1024, of_one: 256, bytes: 64 * 1024 * 1024 }
    }
}

/// Limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApprovalLimitExceeded {
    Waiting(usize),
    OfOne(usize),
    /// One program has its share of the limit.
    OfProgram {
        waiting: usize,
        limit: usize,
    },
    Bytes(usize),
    /// Number of approved calls in progress.
    Running(usize),
}

impl ApprovalLimitExceeded {
    /// Returns the reason as the end of a sentence.
    pub(super) fn message(self) -> String {
        match self {
            Self::Waiting(most) => {
                format!("{most} approvals are already pending (setting max_waiting)")
            }
            Self::OfOne(most) => {
                format!("{most} approvals of the same user are already pending (setting max_waiting_of_one)")
            }
            Self::OfProgram { waiting, limit } => format!(
                "{waiting} approvals of the same application are already pending, its share of {limit} (setting \
                 max_waiting_of_one)"
            ),
            Self::Bytes(most) => {
                format!("pending approvals would exceed {most} bytes with it (setting max_waiting_bytes)")
            }
            Self::Running(most) => format!("{most} approved calls are in progress"),
        }
    }
}
