//! Places of servers with placement `one`: the node of a fleet that runs a server for all nodes.

use std::fmt;
use std::sync::Arc;

use hospes_model::Revision;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::connector::{ConnectorFuture, UpstreamConnectError};

/// Node that runs a server, as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a connector has to treat each case")]
pub enum ServerPlace {
    /// No node is known to run the server, for this reason.
    Unknown(Arc<str>),
    /// This node may run the server, and no other.
    Here {
        /// Number of the claim, which grows with each change of the place.
        epoch: u64,
    },
    /// This node gives the server to another one: what runs may end within a moment, and nothing begins.
    Leaving,
    /// Another node may run the server.
    Elsewhere {
        /// Address of the node.
        node: Arc<str>,
        /// Number of the claim.
        epoch: u64,
    },
}

/// Connection to a server at the node that runs it. Messages are lines, as over stdio.
#[expect(clippy::exhaustive_structs, reason = "what an implementation hands over")]
pub struct ServerStream {
    /// Revision that the server speaks there.
    pub revision: Revision,
    /// Messages of the server.
    pub read: Box<dyn AsyncRead + Send + Unpin>,
    /// Messages to the server.
    pub write: Box<dyn AsyncWrite + Send + Unpin>,
}

impl fmt::Debug for ServerStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerStream").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// Keeps the claim of a server from being given to another node. It is dropped once nothing of the server is left here.
pub type ServerHold = Box<dyn Send + Sync>;

/// Status of a node of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FleetNodeStatus {
    /// `HOST:PORT` at which other nodes reach this one.
    pub address: String,
    /// Reason why the node serves no sessions at present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl FleetNodeStatus {
    /// Creates the status of a node.
    #[must_use]
    pub fn new(address: impl Into<String>, problem: Option<String>) -> Self {
        Self { address: address.into(), problem }
    }
}

/// Nodes that run servers: those with placement `one`, and the processes of this node and of others.
pub trait ServerPlaces: fmt::Debug + Send + Sync + 'static {
    /// Returns the present name of this node: 1 to 64 lower-case letters and digits. Tasks that only a process of this node
    /// knows are named after it. `None`, the default, for a host that is no node.
    fn node(&self) -> Option<String> {
        None
    }

    /// Returns the status of this node; `None`, the default, for a host that is no node.
    fn status(&self) -> Option<FleetNodeStatus> {
        None
    }

    /// Returns true if this node has this name, or had it since it started. False by default.
    fn is_here(&self, node: &str) -> bool {
        let _ = node;
        false
    }

    /// Returns true if the node of this name has certainly ended, and its processes with it. False by default.
    fn has_ended<'a>(&'a self, node: &'a str) -> ConnectorFuture<'a, bool> {
        let _ = node;
        Box::pin(std::future::ready(false))
    }

    /// Follows the place of a server. A node that follows it runs the server when no other node does.
    fn follow(&self, server: &str) -> watch::Receiver<ServerPlace>;

    /// Keeps the claim of a server that runs here.
    fn hold(&self, server: &str) -> ServerHold;

    /// Opens a connection to a server that another node runs.
    ///
    /// # Errors
    /// If the node cannot be reached or does not run the server.
    fn open<'a>(&'a self, server: &'a str)
    -> ConnectorFuture<'a, Result<ServerStream, UpstreamConnectError>>;
}
