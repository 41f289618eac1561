//! Ids under which a handle has joined the fleet.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::node::NodeId;
use crate::relay::RelayError;

/// Maximum number of ids that are remembered. A process gets a new one with each lost lease.
const MAX_OWN_IDS: usize = 1024;

/// Ids of one handle, the latest last.
#[derive(Debug, Default)]
pub(crate) struct OwnNodes(Mutex<VecDeque<OwnNode>>);

#[derive(Clone, Copy, Debug)]
struct OwnNode {
    id: NodeId,
    has_ended: bool,
}

impl OwnNodes {
    /// Fails if the lease of this id is known to have ended: the engine may have forgotten it.
    pub(crate) fn check_new(&self, id: NodeId) -> Result<(), RelayError> {
        let has_ended = self.0.lock().iter().any(|node| node.id == id && node.has_ended);
        if has_ended { Err(RelayError::Gone) } else { Ok(()) }
    }

    pub(crate) fn add(&self, id: NodeId) {
        let mut nodes = self.0.lock();
        if nodes.iter().any(|node| node.id == id) {
            return;
        }
        if nodes.len() >= MAX_OWN_IDS {
            nodes.pop_front();
        }
        nodes.push_back(OwnNode { id, has_ended: false });
    }

    /// Notes the end of a lease if a result says so.
    pub(crate) fn note_end<T>(&self, id: NodeId, result: Result<T, RelayError>) -> Result<T, RelayError> {
        if matches!(result, Err(RelayError::Gone)) {
            self.0.lock().iter_mut().filter(|node| node.id == id).for_each(|node| node.has_ended = true);
        }
        result
    }

    pub(crate) fn contains(&self, id: NodeId) -> bool {
        self.0.lock().iter().any(|node| node.id == id)
    }
}
