//! Nodes of the fleet, as the approval queue asks about them.

use hospes_fleet::node::NodeId;
use hospes_host::approvals::{ApprovalNodes, EndedNodes};
use hospes_node::Membership;

/// Nodes whose leases say which of them have ended.
#[derive(Debug)]
pub(super) struct LeasedNodes(pub(super) Membership);

impl ApprovalNodes for LeasedNodes {
    fn node(&self) -> Option<String> {
        self.0.node().map(|node| node.to_string())
    }

    fn ended(&self, nodes: Vec<String>) -> EndedNodes<'_> {
        Box::pin(async move {
            // What is no id of a node is not known to have ended.
            let nodes = nodes.iter().filter_map(|node| NodeId::parse(node)).collect();
            let ended = self.0.ended(nodes).await?;
            Ok(ended.iter().map(ToString::to_string).collect())
        })
    }
}
