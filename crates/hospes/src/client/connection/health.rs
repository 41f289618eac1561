//! Health check: regular pings of the server.

use std::sync::{Arc, Weak};

use hospes_model::Method;
use hospes_proto::session::client::TimeLimits;

use crate::client::connection::core::ClientCore;
use crate::client::connection::settings::HealthCheck;
use crate::client::error::{CallError, ConnectionClosed};
use crate::client::link::OutgoingRequest;

impl ClientCore {
    /// Asks whether the server is there.
    pub(crate) async fn ping(&self, limits: TimeLimits) -> Result<(), CallError> {
        // 2026-07-28 has no `ping` (PING-11); `server/discover` is what all its servers implement (DISC-01).
        let method = if self.protocol.revision.is_legacy() { Method::Ping } else { Method::Discover };
        self.send_request(&OutgoingRequest::new(&method, limits), &mut None).await.map(drop)
    }

    /// Runs the health check, if enabled, until the connection ends.
    pub(crate) fn spawn_health_check(self: &Arc<Self>) {
        if let Some(check) = self.settings.health_check {
            tokio::spawn(run_health_check(Arc::downgrade(self), check));
        }
    }
}

async fn run_health_check(core: Weak<ClientCore>, check: HealthCheck) {
    let limits = TimeLimits { timeout: Some(check.timeout), max_timeout: Some(check.timeout) };
    let mut unanswered = 0;
    loop {
        // The connection is not kept meanwhile.
        tokio::time::sleep(check.interval).await;
        let Some(core) = core.upgrade() else { return };
        if core.dispatcher.closed().is_some() {
            return;
        }
        if core.link.is_busy() {
            continue;
        }
        match core.ping(limits).await {
            Ok(()) => unanswered = 0,
            Err(error) if error.is_closed() => return,
            Err(error) if is_answer(&error) => unanswered = 0,
            Err(error) => {
                unanswered += 1;
                tracing::warn!(%error, unanswered, "the server did not answer a ping");
                if unanswered >= check.max_unanswered {
                    let pings = if unanswered == 1 { "a ping".into() } else { format!("{unanswered} pings") };
                    let what = format!("the server did not answer {pings} within {:?}", check.timeout);
                    core.link.close_with_reason(ConnectionClosed::new(what));
                    return;
                }
            }
        }
    }
}

/// Returns true if the error shows that the server is reachable.
fn is_answer(error: &CallError) -> bool {
    match error {
        CallError::Rpc(_) | CallError::Malformed { .. } => true,
        #[cfg(feature = "http")]
        CallError::NotAuthorized(_) => true,
        // Bad gateway, gateway timeout: a proxy is there, and the server is not.
        CallError::Http(failure) => failure.status.is_some_and(|status| !matches!(status, 502 | 504)),
        _ => false,
    }
}
