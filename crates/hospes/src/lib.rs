//! The Model Context Protocol SDK: write a server or a client once, speak every revision.

mod context;
mod error;
mod exchange;
mod params;
mod peer;
mod round;
mod service;

pub use context::{Context, ContextBuilder, MAX_QUEUED_NOTIFICATIONS};
pub use error::{Error, Result};
pub use exchange::{Event, Exchange, MAX_ROUNDS};
pub use params::{Params, View};
pub use peer::Peer;
pub use round::Round;
pub use service::{BoxService, Call, Outcome, Questions, Service};

/// The types of the protocol.
pub use hospes_model as model;
