//! Health check: regular pings of the server.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hospes_model::Method;
use hospes_proto::session::client::TimeLimits;

use crate::client::connection::core::ClientCore;
use crate::client::error::{CallError, ConnectionClosed};
use crate::client::link::OutgoingRequest;

/// Default time to wait for the answer to a ping.
pub const DEFAULT_PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Servers are not pinged more often than this.
pub const MIN_PING_INTERVAL: Duration = Duration::from_secs(1);
/// Default maximum of consecutive unanswered pings.
const DEFAULT_MAX_UNANSWERED: u32 = 3;

/// Settings of a connection's health check.
///
/// Pings are sent only while no call is in flight. Calls have time limits of their own, and some servers handle one
/// request at a time. Any answer counts as a sign of life, including an error, except a proxy's report that it cannot
/// reach the server.
///
/// ```no_run
/// # use std::time::Duration;
/// # use hospes::client::{Client, HealthCheck};
/// # async fn f() -> hospes::Result<()> {
/// let check = HealthCheck::every(Duration::from_secs(30)).timeout(Duration::from_secs(5)).max_unanswered(2);
/// let client = Client::builder().health_check(check).connect("https://example.com/mcp").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    interval: Duration,
    timeout: Duration,
    max_unanswered: u32,
}

impl HealthCheck {
    /// Pings after each such interval, at least [`MIN_PING_INTERVAL`].
    #[must_use]
    pub fn every(interval: Duration) -> Self {
        let interval = interval.max(MIN_PING_INTERVAL);
        Self { interval, timeout: DEFAULT_PING_TIMEOUT, max_unanswered: DEFAULT_MAX_UNANSWERED }
    }

    /// Sets the time to wait for an answer; it depends on the network. The default is [`DEFAULT_PING_TIMEOUT`].
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// After how many unanswered pings in a row the connection is closed: at least one, by default three.
    #[must_use]
    pub fn max_unanswered(mut self, pings: u32) -> Self {
        self.max_unanswered = pings.max(1);
        self
    }
}

impl ClientCore {
    /// Asks whether the server is there.
    pub(crate) async fn ping(&self, limits: TimeLimits) -> Result<(), CallError> {
        // 2026-07-28 has no `ping` (PING-11); `server/discover` is what all its servers implement (DISC-01).
        let method = if self.protocol.revision.is_legacy() { Method::Ping } else { Method::Discover };
        self.send_request(&OutgoingRequest::new(&method, limits), &mut None).await.map(drop)
    }

    /// Checks the connection's health, if that is wanted, until it ends.
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
