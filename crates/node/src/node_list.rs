//! Nodes of the fleet as they were last listed.

use std::sync::Arc;
use std::time::Duration;

use hospes_fleet::node::{NodeId, NodeRecord};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Records of the nodes with a lease. Cheap to clone; all clones are the same list.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeList(Arc<Mutex<ListedNodes>>);

#[derive(Debug, Default)]
struct ListedNodes {
    /// Moment of the list; `None` if it is out of date, whatever its age.
    listed_at: Option<Instant>,
    nodes: Arc<Vec<NodeRecord>>,
}

impl NodeList {
    /// Returns the list if it is not older.
    pub(crate) fn within(&self, age: Duration) -> Option<Arc<Vec<NodeRecord>>> {
        let listed = self.0.lock();
        listed.listed_at.filter(|at| at.elapsed() < age).map(|_| Arc::clone(&listed.nodes))
    }

    /// Returns the last list, however old it is; empty without one.
    pub(crate) fn last(&self) -> Arc<Vec<NodeRecord>> {
        Arc::clone(&self.0.lock().nodes)
    }

    pub(crate) fn replace(&self, nodes: Arc<Vec<NodeRecord>>) {
        *self.0.lock() = ListedNodes { listed_at: Some(Instant::now()), nodes };
    }

    /// Makes the next reader list the nodes anew.
    pub(crate) fn expire(&self) {
        self.0.lock().listed_at = None;
    }
}

/// Finds the node that has or had this id.
pub(crate) fn find_node(nodes: &[NodeRecord], id: NodeId) -> Option<NodeRecord> {
    nodes.iter().find(|record| record.id == id || record.former_ids.contains(&id)).cloned()
}
