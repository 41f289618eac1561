//! Calls that the server works on, and their start.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hospes_model::Method;
use tokio::time::Instant;

use crate::client::transport::http::link_shared::HttpLinkShared;

/// Start of a request.
pub(super) struct CallStart {
    pub(super) at: Instant,
    /// Time spent on authorization by then.
    pub(super) away: Duration,
    /// Until it is over the server is at work.
    pub(super) busy: Option<ActiveCall>,
}

/// A call that the server works on. One that listens wants nothing done, and a ping asks whether anything is.
pub(super) struct ActiveCall(Arc<HttpLinkShared>);

impl ActiveCall {
    /// Counts a call of `method`, if it is one that the server works on.
    pub(super) fn with(shared: &Arc<HttpLinkShared>, method: &Method) -> Option<Self> {
        if matches!(method, Method::SubscriptionsListen | Method::Ping) {
            return None;
        }
        // `Relaxed`: only the health check reads this number, and nothing else is read because of it.
        shared.calls.fetch_add(1, Ordering::Relaxed);
        Some(Self(Arc::clone(shared)))
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}
