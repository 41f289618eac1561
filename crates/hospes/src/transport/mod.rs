//! How messages travel.

#[cfg(all(feature = "client", feature = "stdio"))]
pub(crate) mod child;
