//! Requests that wait until a call has ended.

use std::collections::{HashSet, VecDeque};

use bytes::Bytes;
use hospes_model::RequestId;

/// Size of a queued request besides its text, in bytes.
const QUEUED_OVERHEAD: usize = 64;

/// Requests that wait, in their order.
#[derive(Debug, Default)]
pub(super) struct RequestQueue {
    requests: VecDeque<(RequestId, Bytes)>,
    ids: HashSet<RequestId>,
    bytes: usize,
}

impl RequestQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns true if the request fits in; `limit` is the maximum size of the queue in bytes.
    pub(super) fn has_room(&self, whole: &Bytes, limit: usize) -> bool {
        self.bytes + whole.len() + QUEUED_OVERHEAD <= limit
    }

    /// Returns true if a request of this id is queued.
    pub(super) fn contains(&self, id: &RequestId) -> bool {
        self.ids.contains(id)
    }

    pub(super) fn push(&mut self, id: &RequestId, whole: &Bytes) {
        self.ids.insert(id.clone());
        self.requests.push_back((id.clone(), whole.clone()));
        self.bytes += whole.len() + QUEUED_OVERHEAD;
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let (id, whole) = self.requests.pop_front()?;
        self.ids.remove(&id);
        self.bytes -= whole.len() + QUEUED_OVERHEAD;
        Some(whole)
    }

    pub(super) fn remove(&mut self, id: &RequestId) {
        // The set is asked first: most cancellations are of running calls, and the queue may be long.
        if self.ids.remove(id)
            && let Some(position) = self.requests.iter().position(|(other, _)| other == id)
            && let Some((_, whole)) = self.requests.remove(position)
        {
            self.bytes -= whole.len() + QUEUED_OVERHEAD;
        }
    }

    /// The ids of what waits, in their order.
    pub(super) fn into_ids(self) -> impl Iterator<Item = RequestId> {
        self.requests.into_iter().map(|(id, _)| id)
    }
}
