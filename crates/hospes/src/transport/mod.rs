#![doc = include_str!("../../docs/transports.md")]

#[cfg(feature = "server")]
mod adapter;
#[cfg(feature = "server")]
mod duplex;
#[cfg(all(feature = "server", feature = "stdio", unix))]
mod hang_up;
#[cfg(all(feature = "server", feature = "http"))]
pub mod http_server;
#[cfg(feature = "server")]
pub mod memory;
pub mod messages;
#[cfg(feature = "server")]
mod signal;
#[cfg(feature = "server")]
pub mod stdio_server;
#[cfg(all(feature = "server", any(feature = "stdio", feature = "http")))]
mod watchdog;

#[cfg(all(test, feature = "server"))]
mod probe;

pub use hospes_proto::RevisionSet;
#[cfg(feature = "server")]
pub use hospes_proto::request_state::{StateKey, StateKeyError, StateKeyRing};
#[cfg(feature = "server")]
pub use signal::shutdown_signal;
