//! The two ends of a connection.

pub mod client;

pub use client::ClientSession;
