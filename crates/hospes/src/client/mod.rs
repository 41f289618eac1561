//! Use a server: connect to a command or a URL, call, list, read, listen; answer what it asks.
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
//! Which of the five revisions the server speaks is found out once; nothing here depends on it.

mod api;
#[cfg(feature = "http")]
mod authorizer;
mod builder;
mod cache;
mod change_listeners;
mod connect;
pub(crate) mod core;
mod deferred_requests;
pub(crate) mod dispatcher;
pub(crate) mod duplex;
pub(crate) mod env_secrets;
pub(crate) mod error;
mod forwarded_params;
mod handlers;
mod health;
mod icon;
pub(crate) mod inbox;
mod legacy_tasks;
mod lenient_lists;
pub(crate) mod link;
mod listen;
mod listing;
mod model_choice;
pub(crate) mod network;
#[cfg(feature = "validate")]
mod output_schemas;
mod parked_calls;
#[cfg(feature = "stdio")]
mod process_event;
mod request;
mod roots;
mod service;
pub(crate) mod settings;
mod target;
mod task_runner;
mod task_support;
mod task_updates;
mod tasks;
mod trace_context;
mod url_review;

#[cfg(feature = "http")]
pub use crate::transport::http_client::proxy::proxy_to;
#[cfg(all(feature = "http", feature = "tls"))]
pub use crate::transport::http_client::trust::tls_config;
pub use api::Client;
#[cfg(feature = "http")]
pub use authorizer::{
    Authorizer, AuthorizerError, AuthorizerFuture, OutboundRequest, RejectedRequest, RetryDecision,
};
pub use builder::ClientBuilder;
pub use cache::{DEFAULT_CACHE_BYTES, MAX_CACHE_TTL, MAX_CACHED_RESPONSES};
pub use dispatcher::ListKind;
pub use error::{
    CallError, ConnectAttempt, ConnectError, ConnectFailure, ConnectStage, ConnectionClosed, HttpFailure,
    TimeLimit,
};
pub use health::{DEFAULT_PING_TIMEOUT, HealthCheck, MIN_PING_INTERVAL};
pub use icon::{IconError, IconFetch, IconKind, IconSource, MAX_ICON_BYTES, MAX_ICON_FRAMES, MAX_ICON_SIDE};
pub use lenient_lists::{UNREADABLE_ENTRIES, read_list};
pub use listen::Subscription;
pub use listing::{Listed, MAX_PAGES, PaginatedStream};
pub use model_choice::{ModelCandidate, choose_model};
#[cfg(feature = "validate")]
pub use output_schemas::OutputSchemas;
#[cfg(feature = "stdio")]
pub use process_event::ProcessEvent;
pub use request::{FromReply, RequestBuilder};
pub use roots::RootFolder;
pub use settings::{
    DEFAULT_CONNECT_TIMEOUT, DEFAULT_MAX_INPUT_ROUNDS, DEFAULT_MAX_REQUEST_BYTES, DEFAULT_MAX_TIMEOUT,
    DEFAULT_PARK_TIMEOUT, DEFAULT_QUESTION_RATE, DEFAULT_TIMEOUT, MAX_PARKED_CALLS,
};
pub use target::{CommandTarget, Launcher, Target, UrlTarget};
pub use tasks::{RunningTask, TaskRequest};
pub use url_review::{UrlReview, UrlReviewError, UrlWarning};
