//! Why a request got no answer.

/// Why a request got no answer that can be used. No address is in it: who asked may be somebody whom the inside of a
/// network does not concern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// Nothing is sent there.
    #[error("nothing is sent there: {0}")]
    Forbidden(&'static str),
    /// It is not known whose certificates are to be trusted.
    #[error("certificates cannot be checked: {0}")]
    Trust(String),
    /// Nobody was reached.
    #[error("nobody was reached there")]
    Unreachable,
    /// It took longer than 10 seconds, or connecting longer than 5.
    #[error("it took too long")]
    Timeout,
    /// The answer is longer than it may be.
    #[error("the answer is longer than {max} bytes")]
    TooLarge {
        /// How long it may be.
        max: usize,
    },
    /// The answer broke off, or is not one of HTTP.
    #[error("the answer could not be read")]
    Broken,
}
