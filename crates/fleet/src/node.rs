//! Nodes: ids, records and leases.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::keys::{from_hex, random, to_hex};

/// Random id of a node, made at the start of a process and again after a lost lease. It is never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct NodeId([u8; 16]);

impl NodeId {
    /// Draws an id.
    ///
    /// # Panics
    /// If the operating system provides no random numbers.
    #[must_use]
    pub fn random() -> Self {
        Self(random())
    }

    /// Reads the 32 hexadecimal digits that `Display` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text).map(Self)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeId({self})")
    }
}

impl From<NodeId> for String {
    fn from(id: NodeId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for NodeId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a node id has 32 hexadecimal digits")
    }
}

/// Record of a node for the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NodeRecord {
    /// Id of the node.
    pub id: NodeId,
    /// Address at which other nodes reach it, as `host:port`.
    pub address: String,
    /// Lowest and highest version of the protocol between nodes that it speaks.
    pub wire_versions: (u32, u32),
    /// State of the node.
    pub state: NodeState,
    /// Number of sessions, for the choice of a node.
    pub load: u32,
    /// Earlier ids of the same process, whose leases it has lost. The latest comes last.
    #[serde(default)]
    pub former_ids: Vec<NodeId>,
}

impl NodeRecord {
    /// Creates the record of a node that serves.
    #[must_use]
    pub fn new(id: NodeId, address: &str) -> Self {
        Self {
            id,
            address: address.to_owned(),
            wire_versions: (1, 1),
            state: NodeState::Serving,
            load: 0,
            former_ids: Vec::new(),
        }
    }
}

/// State of a node with a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NodeState {
    /// It takes new sessions.
    Serving,
    /// It shuts down and hands its sessions over.
    Draining,
}

/// Node as the directory knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStatus {
    /// Its last record.
    pub record: NodeRecord,
    /// True while it has its lease. Once false, it stays false.
    pub alive: bool,
}

impl NodeStatus {
    pub(crate) fn new(record: NodeRecord, alive: bool) -> Self {
        Self { record, alive }
    }
}

/// Lease of a node: the time for which no other node adopts its sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeLease {
    /// Node that holds the lease.
    pub node: NodeId,
    /// Time until which the node may act as an owner. It lies before the end of the lease at the engine.
    pub valid_until: Instant,
}

impl NodeLease {
    /// Creates a lease from the time at which its request was sent: `duration` is that of the lease at the engine,
    /// `margin` the time by which the node stops before it.
    #[must_use]
    pub fn measured(node: NodeId, sent: Instant, duration: Duration, margin: Duration) -> Self {
        Self { node, valid_until: sent + duration.saturating_sub(margin) }
    }

    /// Returns true if the node may act as an owner at this time.
    #[must_use]
    pub fn is_valid(&self, now: Instant) -> bool {
        now < self.valid_until
    }
}
