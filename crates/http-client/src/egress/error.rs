//! Errors of requests without a usable response.

use super::tls::TlsFailure;

/// Reasons a request got no usable response. The error contains no address, because the requester may not be entitled
/// to details of a private network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The policy does not permit the request, with the reason.
    #[error("the request is not allowed: {0}")]
    Forbidden(&'static str),
    /// The trusted root certificates could not be loaded.
    #[error("cannot load the trusted certificates: {0}")]
    Trust(String),
    /// No connection could be opened to any permitted address.
    #[error("the server could not be reached")]
    Unreachable,
    /// The server was reached, and no TLS connection established.
    #[error("no secure connection to the server: {0}")]
    Tls(TlsFailure),
    /// The time limit of the request, or of connecting, elapsed.
    #[error("the request timed out")]
    Timeout,
    /// The response exceeds the limit.
    #[error("the response is longer than {max} bytes")]
    TooLarge {
        /// Maximum length, in bytes.
        max: usize,
    },
    /// The response was cut off or is not valid HTTP.
    #[error("the response could not be read")]
    Broken,
}
