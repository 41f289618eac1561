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
mod changes;
mod connect;
pub(crate) mod core;
pub(crate) mod desk;
pub(crate) mod duplex;
mod entries;
pub(crate) mod error;
mod forward;
mod handlers;
mod health;
mod held;
pub(crate) mod hidden;
mod icon;
pub(crate) mod inbox;
pub(crate) mod link;
mod listen;
mod listing;
mod model_choice;
pub(crate) mod network;
mod older_tasks;
#[cfg(feature = "validate")]
mod outputs;
mod parked;
#[cfg(feature = "stdio")]
mod process;
mod receiver;
mod request;
mod roots;
mod service;
pub(crate) mod settings;
mod target;
mod task_news;
mod task_tools;
mod tasks;
mod trace;
mod url_review;

#[cfg(feature = "http")]
pub use crate::transport::http_client::proxy::proxy_to;
#[cfg(all(feature = "http", feature = "tls"))]
pub use crate::transport::http_client::trust::tls_config;
pub use api::Client;
#[cfg(feature = "http")]
pub use authorizer::{Authorizer, Authorizing, NotAuthorized, Outbound, Refusal, Verdict};
pub use builder::ClientBuilder;
pub use cache::{DEFAULT_CACHE_BYTES, MAX_CACHED_ANSWERS, MAX_CACHED_FOR};
pub use desk::List;
pub use entries::{UNREADABLE_ENTRIES, read_list};
pub use error::{Attempt, CallError, Closed, ConnectError, ConnectFailure, HttpFailure, Stage, TimeLimit};
pub use health::{DEFAULT_PING_TIMEOUT, HealthCheck, MIN_PING_INTERVAL};
pub use icon::{
    IconFetch, IconKind, IconRefusal, IconSource, MAX_ICON_BYTES, MAX_ICON_FRAMES, MAX_ICON_SIDE,
};
pub use listen::Subscription;
pub use listing::{Listed, Listing, MAX_PAGES};
pub use model_choice::{ModelCandidate, choose_model};
#[cfg(feature = "validate")]
pub use outputs::OutputSchemas;
#[cfg(feature = "stdio")]
pub use process::ProcessNews;
pub use request::{FromReply, Request};
pub use roots::RootFolder;
pub use settings::{
    DEFAULT_CONNECT_TIMEOUT, DEFAULT_MAX_INPUT_ROUNDS, DEFAULT_MAX_REQUEST_BYTES, DEFAULT_MAX_TIMEOUT,
    DEFAULT_PARK_TIMEOUT, DEFAULT_QUESTION_RATE, DEFAULT_TIMEOUT, MAX_PARKED_CALLS,
};
pub use target::{Command, Launcher, Target, Url};
pub use tasks::{RunningTask, TaskRequest};
pub use url_review::{UrlRefusal, UrlReview, UrlWarning};
