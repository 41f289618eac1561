//! Errors of requests to a registry.

use hospes_http_client::FetchError;

use crate::fetch::{fetch_advice, fetch_reason, status_advice};

/// Reasons a registry gave no usable answer. Each message says what happened and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The base URL cannot be used.
    #[error(
        "`{url}` cannot be the URL of a registry: {what}; expected https://HOST, or http:// on this machine"
    )]
    BaseUrl {
        /// The URL.
        url: String,
        /// Description of the problem.
        what: String,
    },
    /// The registry was not reached, and the cache has no answer.
    #[error("{host} could not be reached: {}; {}", fetch_reason(.source), fetch_advice(.source))]
    Offline {
        /// Host of the registry.
        host: String,
        /// Description of the failure.
        source: FetchError,
    },
    /// The registry has no such server or version.
    #[error("{host} has no {what}; `hospes search WORD` finds names")]
    NotFound {
        /// Host of the registry.
        host: String,
        /// Requested item.
        what: String,
    },
    /// The answer is that of another kind of server.
    #[error(
        "{url} did not answer as a registry does: {what}; check the URL, which must be that of a registry with API v0.1, without a path"
    )]
    NotRegistry {
        /// URL of the request.
        url: String,
        /// Description of the answer.
        what: String,
    },
    /// The registry redirects to another place.
    #[error("{url} redirects to {to}; use that URL if you trust it")]
    Redirect {
        /// URL of the request.
        url: String,
        /// Destination.
        to: String,
    },
    /// The registry refuses the request, or fails.
    #[error("{host} answered {status}: {message}; {}", status_advice(*.status))]
    Status {
        /// Host of the registry.
        host: String,
        /// HTTP status.
        status: u16,
        /// Text of the registry, shortened.
        message: String,
    },
    /// A part of the answer is wrong.
    #[error("{host} sent an entry that cannot be used: {source}")]
    Entry {
        /// Host of the registry.
        host: String,
        /// Description of the problem.
        source: crate::EntryError,
    },
    /// A list has more pages than the limit.
    #[error("the list of {host} has more than {limit} pages; search with a word instead")]
    TooManyPages {
        /// Host of the registry.
        host: String,
        /// The limit.
        limit: usize,
    },
    /// The name or version has characters that none can have.
    #[error(
        "`{0}` cannot be the name of a server in a registry; expected io.github.owner/server or com.example/server"
    )]
    Name(String),
    /// The cache cannot be used.
    #[error("the cache {file} cannot be used: {what}; delete the file, it holds only copies")]
    Cache {
        /// The file.
        file: String,
        /// Description of the failure.
        what: String,
    },
}
