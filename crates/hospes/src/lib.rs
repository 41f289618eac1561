#![doc = include_str!("../docs/crate.md")]
#![cfg_attr(
    not(all(feature = "client", feature = "server", feature = "stdio", feature = "http")),
    allow(
        dead_code,
        unused_imports,
        unused_variables,
        reason = "sides and transports share modules; that nothing is left over shows where all of them are there"
    )
)]

pub mod ask;
#[cfg(feature = "client")]
pub mod client;
mod context;
mod deprecated;
mod error;
mod exchange;
#[cfg(feature = "client")]
pub mod icon;
#[cfg(any(feature = "server", all(feature = "client", feature = "validate")))]
mod json_schema;
mod logging;
mod params;
mod peer;
pub mod prelude;
mod progress;
mod rate;
pub mod redact;
mod replay_cache;
mod round;
#[cfg(feature = "server")]
mod serve;
#[cfg(feature = "server")]
pub mod server;
mod service;
pub mod tasks;
pub mod transport;

pub use context::{Context, ContextBuilder, MAX_QUEUED_NOTIFICATIONS};
pub use error::{Error, Result};
pub use exchange::{Exchange, ExchangeEvent, MAX_ROUNDS};
#[cfg(all(feature = "validate", any(feature = "server", feature = "client")))]
pub use json_schema::check_against_schema;
pub use logging::DEFAULT_LOG_RATE;
pub use params::{Params, ParamsView};
pub use peer::Peer;
pub use progress::DEFAULT_PROGRESS_RATE;
pub use rate::Rate;
pub use round::Round;
#[cfg(feature = "server")]
pub use serve::{ALLOWED_HOSTS_VARIABLE, HTTP_VARIABLE, serve};
#[cfg(feature = "server")]
pub use server::{IntoServer, Server};
pub use service::{BoxService, Call, IntoService, Outcome, PendingInput, Service};

/// The types of the protocol.
pub use hospes_model as model;

#[cfg(feature = "macros")]
#[doc = include_str!("../docs/server_macro.md")]
pub use hospes_macros::server;

pub use {schemars, serde, serde_json};

/// The examples of the project's front page compile.
#[cfg(all(doctest, feature = "macros", feature = "client", feature = "http"))]
#[doc = include_str!("../../../README.md")]
mod readme {}
