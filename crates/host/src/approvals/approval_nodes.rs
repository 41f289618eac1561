//! Nodes of a fleet, as the approval queue knows them.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;

/// Result of [`ApprovalNodes::ended`].
pub type EndedNodes<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<String>, Box<dyn Error + Send + Sync>>> + Send + 'a>>;

/// Nodes of a fleet whose processes share a state. The program implements it over its membership of the fleet.
pub trait ApprovalNodes: Send + Sync {
    /// Returns the id of this node; `None` before it has joined. An id that has ended is never used again.
    fn node(&self) -> Option<String>;

    /// Returns those of these nodes that have ended. A node whose end is not certain is not among them.
    fn ended(&self, nodes: Vec<String>) -> EndedNodes<'_>;
}
