//! The client and the artifacts, against registries on loopback.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod artifacts;
mod cards;
mod certificates;
mod client;
mod lists;
