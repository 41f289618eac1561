//! The client and the artifacts, against registries on loopback.

mod artifacts;
mod cards;
mod client;
mod lists;
