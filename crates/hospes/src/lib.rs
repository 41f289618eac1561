#![doc = include_str!("../docs/crate.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "server", feature = "client"))]
pub mod ask;
#[cfg(feature = "client")]
pub mod client;
#[cfg(any(feature = "server", feature = "client"))]
mod context;
#[cfg(any(feature = "server", feature = "client"))]
mod deprecated;
#[cfg(any(feature = "server", feature = "client"))]
mod error;
#[cfg(any(feature = "server", feature = "client"))]
mod exchange;
#[cfg(feature = "client")]
pub mod icon;
#[cfg(any(feature = "server", all(feature = "client", feature = "validate")))]
mod json_schema;
#[cfg(any(feature = "server", feature = "client"))]
mod logging;
#[cfg(any(feature = "server", feature = "client"))]
mod message_content;
#[cfg(any(feature = "server", feature = "client"))]
mod params;
#[cfg(any(feature = "server", feature = "client"))]
mod peer;
#[cfg(any(feature = "server", feature = "client"))]
pub mod prelude;
#[cfg(any(feature = "server", feature = "client"))]
mod progress;
#[cfg(any(feature = "server", feature = "client"))]
mod rate;
pub mod redact;
#[cfg(any(feature = "server", feature = "client"))]
mod replay_cache;
#[cfg(any(feature = "server", feature = "client"))]
mod round;
#[cfg(feature = "server")]
mod serve;
#[cfg(feature = "server")]
pub mod server;
#[cfg(any(feature = "server", feature = "client"))]
mod service;
#[cfg(any(feature = "server", feature = "client"))]
pub mod tasks;
#[cfg(any(feature = "server", feature = "client"))]
pub mod transport;

#[cfg(any(feature = "server", feature = "client"))]
pub use context::{Context, ContextBuilder, MAX_QUEUED_NOTIFICATIONS};
#[cfg(any(feature = "server", feature = "client"))]
pub use error::{Error, Result};
#[cfg(any(feature = "server", feature = "client"))]
pub use exchange::{Exchange, ExchangeEvent, MAX_ROUNDS};
#[cfg(all(feature = "validate", any(feature = "server", feature = "client")))]
pub use json_schema::check_against_schema;
#[cfg(any(feature = "server", feature = "client"))]
pub use logging::DEFAULT_LOG_RATE;
#[cfg(any(feature = "server", feature = "client"))]
pub use params::{Params, ParamsView};
#[cfg(any(feature = "server", feature = "client"))]
pub use peer::Peer;
#[cfg(any(feature = "server", feature = "client"))]
pub use progress::DEFAULT_PROGRESS_RATE;
#[cfg(any(feature = "server", feature = "client"))]
pub use rate::Rate;
#[cfg(any(feature = "server", feature = "client"))]
pub use round::{PendingInput, Round};
#[cfg(feature = "server")]
pub use serve::{ALLOWED_HOSTS_VARIABLE, HTTP_VARIABLE, serve};
#[cfg(feature = "server")]
pub use server::{IntoServer, Server};
#[cfg(any(feature = "server", feature = "client"))]
pub use service::{BoxService, Call, IntoService, Outcome, Service};

/// The types of the protocol.
pub use hospes_model as model;

#[cfg(feature = "macros")]
#[doc = include_str!("../docs/server_macro.md")]
pub use hospes_macros::server;

#[cfg(any(feature = "server", feature = "client"))]
pub use schemars;
pub use {serde, serde_json};

/// The examples of the project's front page compile.
#[cfg(all(doctest, feature = "macros", feature = "client", feature = "http"))]
#[doc = include_str!("../../../README.md")]
mod readme {}
