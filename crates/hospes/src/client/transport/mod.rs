//! Client side of the transports. They know of the client what [`link`](super::link) and [`target`](super::target) have.

#[cfg(feature = "stdio")]
pub(crate) mod child;
pub(crate) mod duplex;
#[cfg(feature = "http")]
pub(crate) mod http;
