//! Errors of a request that got no answer.

/// Reasons a request got no usable answer. The error contains no address, because the requester may not be entitled to
/// know the inside of a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// Nothing is sent there.
    #[error("the request is not allowed: {0}")]
    Forbidden(&'static str),
    /// It is not known whose certificates are to be trusted.
    #[error("cannot load the trusted certificates: {0}")]
    Trust(String),
    /// No connection could be opened.
    #[error("the server could not be reached")]
    Unreachable,
    /// It took longer than 10 seconds, or connecting longer than 5.
    #[error("the request timed out")]
    Timeout,
    /// The answer is longer than it may be.
    #[error("the response is longer than {max} bytes")]
    TooLarge {
        /// Maximum length.
        max: usize,
    },
    /// The answer broke off, or is not one of HTTP.
    #[error("the response could not be read")]
    Broken,
}
