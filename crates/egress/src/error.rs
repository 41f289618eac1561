//! Errors of a request that got no answer.

/// Reasons a request got no usable answer. The error contains no address, because the requester may not be entitled to
/// know the inside of a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// Nothing is sent there.
    #[error("nothing is sent there: {0}")]
    Forbidden(&'static str),
    /// It is not known whose certificates are to be trusted.
    #[error("certificates cannot be checked: {0}")]
    Trust(String),
    /// No connection could be opened.
    #[error("nobody was reached there")]
    Unreachable,
    /// It took longer than 10 seconds, or connecting longer than 5.
    #[error("it took too long")]
    Timeout,
    /// The answer is longer than it may be.
    #[error("the answer is longer than {max} bytes")]
    TooLarge {
        /// Maximum length.
        max: usize,
    },
    /// The answer broke off, or is not one of HTTP.
    #[error("the answer could not be read")]
    Broken,
}
