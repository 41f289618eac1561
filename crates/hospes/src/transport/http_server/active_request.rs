//! The requests of one connection: their number, and whether one of them is not answered to the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts of the requests of one connection.
#[derive(Debug, Default)]
pub(super) struct ConnectionActivity {
    /// Number of requests so far.
    requests: AtomicUsize,
    /// Number of requests whose answers are not complete.
    busy: AtomicUsize,
}

impl ConnectionActivity {
    /// Returns the number of requests so far.
    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns true if the answer to a request is not complete.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }
}

/// A request that is not answered to the end.
#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<ConnectionActivity>);

impl ActiveRequest {
    /// Counts one more request.
    pub(super) fn new(activity: &Arc<ConnectionActivity>) -> Self {
        activity.requests.fetch_add(1, Ordering::Relaxed);
        activity.busy.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(activity))
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}
