/// Faults found in an audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TamperEvidence {
    /// An entry was modified or moved.
    #[error("entry {seq} was modified")]
    Changed {
        /// Number of the entry.
        seq: u64,
    },
    /// An entry is missing.
    #[error("entry {seq} is missing")]
    Missing {
        /// Number of the entry.
        seq: u64,
    },
    /// The noted position is not in this log.
    #[error("entry {seq} does not match the noted position")]
    NotAsNoted {
        /// Number of the noted entry.
        seq: u64,
    },
    /// The beginning or the end of the log was changed, or created with another key.
    #[error("the sealed first or last entry of the log does not match")]
    End,
}
