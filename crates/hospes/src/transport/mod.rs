//! How messages come in and go out: stdio, HTTP, memory.
//!
//! On the serving side a transport cuts bytes into messages and hands each to the adapter, which knows the two eras;
//! everything above the adapter is a [`Service`](crate::Service).

#[cfg(feature = "server")]
mod adapter;
#[cfg(all(feature = "client", feature = "stdio"))]
pub(crate) mod child;
#[cfg(all(feature = "client", feature = "http"))]
pub(crate) mod http_client;
#[cfg(all(feature = "server", feature = "http"))]
pub mod http_server;
#[cfg(feature = "server")]
pub mod memory;
#[cfg(feature = "server")]
mod signal;
#[cfg(feature = "server")]
pub mod stdio_server;

#[cfg(all(test, feature = "server"))]
mod probe;

pub use hospes_proto::Revisions;
#[cfg(feature = "server")]
pub use hospes_proto::state::{Key, KeyError, KeyRing};
#[cfg(feature = "server")]
pub use signal::shutdown_signal;
