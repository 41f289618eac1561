//! The client: connects to a command or a URL, calls tools, reads resources, subscribes to changes, and answers the
//! server's requests.
//!
//! ```no_run
//! use hospes::client::Client;
//! use serde_json::json;
//!
//! # async fn f() -> hospes::Result<()> {
//! let client = Client::connect("https://example.com/mcp").await?;
//! let sum: f64 = client.call("add", json!({ "a": 1, "b": 2 })).await?.parse()?;
//! # Ok(())
//! # }
//! ```
//!
//! The revision is negotiated when connecting; the API is the same for all five revisions.

mod api;
mod cache;
mod calls;
mod connection;
pub(crate) mod error;
mod inbound;
pub(crate) mod link;
pub(crate) mod target;
mod tasks;
pub(crate) mod transport;

#[cfg(feature = "validate")]
pub use crate::json_schema::{MAX_SCHEMA_DEPTH, MAX_SUBSCHEMAS};
#[cfg(feature = "validate")]
pub use cache::output_schemas::OutputSchemas;
pub use cache::response_cache::{DEFAULT_CACHE_BYTES, MAX_CACHE_TTL, MAX_CACHED_RESPONSES};
pub use calls::listen::Subscription;
pub use calls::listing::{Listed, PaginatedStream};
pub use calls::request::{FromReply, RequestBuilder};
pub use connection::builder::ClientBuilder;
pub use connection::handle::Client;
pub use connection::lenient_lists::{UNREADABLE_ENTRIES, read_list};
pub use connection::settings::{
    DEFAULT_CONNECT_TIMEOUT, DEFAULT_MAX_INPUT_ROUNDS, DEFAULT_MAX_REQUEST_BYTES, DEFAULT_MAX_TIMEOUT,
    DEFAULT_PARK_TIMEOUT, DEFAULT_TIMEOUT, MAX_PARKED_CALLS,
};
pub use connection::settings::{DEFAULT_PING_TIMEOUT, HealthCheck, MIN_PING_INTERVAL};
pub use error::{
    CallError, ConnectAttempt, ConnectError, ConnectFailure, ConnectStage, ConnectionClosed, HttpFailure,
    TimeLimit,
};
pub use inbound::dispatcher::ListKind;
pub use inbound::handlers::DEFAULT_QUESTION_RATE;
pub use inbound::model_choice::{ModelCandidate, choose_model};
pub use inbound::roots::RootFolder;
pub use inbound::url_review::{UrlReview, UrlReviewError, UrlWarning};
pub use link::MAX_PAGES;
#[cfg(feature = "http")]
pub use target::authorizer::{
    Authorizer, AuthorizerError, AuthorizerFuture, OutboundRequest, RejectedRequest, RetryDecision,
};
#[cfg(feature = "stdio")]
pub use target::process_event::ProcessEvent;
pub use target::{CommandTarget, Launcher, Target, UrlTarget};
pub use tasks::running_task::{RunningTask, TaskRequest};
