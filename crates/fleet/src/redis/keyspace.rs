//! Names of keys and channels.

use crate::keys::{FlowKey, OnceKey, RateKey, to_hex};
use crate::node::NodeId;
use crate::session::SessionKey;

/// Names of keys below a prefix. The part in braces is hashed by clusters, so the keys of a session lie together.
#[derive(Clone, Debug)]
pub(super) struct RedisKeyspace(String);

impl RedisKeyspace {
    pub(super) fn new(prefix: &str) -> Self {
        Self(prefix.to_owned())
    }

    /// Lease of a node.
    pub(super) fn lease(&self, node: NodeId) -> String {
        format!("{}{node}", self.leases())
    }

    /// Beginning of all leases.
    pub(super) fn leases(&self) -> String {
        format!("{}n:", self.0)
    }

    /// Index of the sessions of a node.
    pub(super) fn index(&self, node: NodeId) -> String {
        format!("{}{node}", self.indexes())
    }

    /// Beginning of all indexes.
    pub(super) fn indexes(&self) -> String {
        format!("{}w:", self.0)
    }

    /// Records of nodes.
    pub(super) fn nodes(&self) -> String {
        format!("{}nodes", self.0)
    }

    /// Record of a session. Its other keys begin with this one.
    pub(super) fn session(&self, session: &SessionKey) -> String {
        format!("{}s:{{{session}}}", self.0)
    }

    pub(super) fn once(&self, key: &OnceKey) -> String {
        format!("{}1:{}", self.0, to_hex(&key.0))
    }

    pub(super) fn rate(&self, key: &RateKey) -> String {
        format!("{}g:{}", self.0, to_hex(&key.0))
    }

    pub(super) fn flow(&self, key: &FlowKey) -> String {
        format!("{}f:{}", self.0, to_hex(&key.0))
    }

    /// Channel of hints.
    pub(super) fn hints(&self) -> String {
        format!("{}hint", self.0)
    }
}
