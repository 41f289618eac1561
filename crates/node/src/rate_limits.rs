//! Rate limits that all nodes share while the shared state answers soon.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hospes_fleet::keys::{RateKey, RateLimit, RateVerdict};
use hospes_fleet::{Relay, RelayError};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// Longest time for which a request is held for the shared state.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(100);
/// Time without questions after one that was not answered, so that few requests are held while the engine hangs.
const PAUSE: Duration = Duration::from_secs(1);
/// Interval at which the nodes are counted.
const COUNT_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of attempts to count them for the first time.
const FIRST_COUNT_INTERVAL: Duration = Duration::from_millis(200);

/// Rate limits of all nodes. Cheap to clone; all clones are the same limits.
///
/// Without an answer of the shared state, a caller applies its own share of the limit: one of [`Self::nodes`] parts.
#[derive(Clone)]
pub struct FleetRateLimits(Arc<RateLimitsInner>);

struct RateLimitsInner {
    relay: Arc<dyn Relay>,
    nodes: Arc<AtomicU32>,
    /// End of the pause; `None` while the engine answers.
    paused_until: Mutex<Option<Instant>>,
    /// Counts the nodes, until this is dropped.
    _counting: JoinSet<()>,
}

impl FleetRateLimits {
    /// Shares limits over this state. Nodes are counted in the background; it needs a tokio runtime.
    #[must_use]
    pub fn new(relay: Arc<dyn Relay>) -> Self {
        let nodes = Arc::new(AtomicU32::new(0));
        let mut counting = JoinSet::new();
        counting.spawn(count_nodes(Arc::clone(&relay), Arc::clone(&nodes)));
        Self(Arc::new(RateLimitsInner { relay, nodes, paused_until: Mutex::new(None), _counting: counting }))
    }

    /// Counts one use against a limit. Returns `None` without an answer within 100 ms, or of the shared state at all.
    pub async fn count(&self, key: &RateKey, limit: RateLimit) -> Option<RateVerdict> {
        self.ask(self.0.relay.limit(key, limit)).await
    }

    /// Takes back one use. Returns false without an answer, as [`Self::count`].
    pub async fn uncount(&self, key: &RateKey, limit: RateLimit) -> bool {
        self.ask(self.0.relay.uncount(key, limit)).await.is_some()
    }

    /// Returns the number of nodes when they were last counted; 1 before the first count.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.0.nodes.load(Ordering::Relaxed).max(1)
    }

    async fn ask<T>(&self, answer: impl Future<Output = Result<T, RelayError>>) -> Option<T> {
        {
            let (mut paused, now) = (self.0.paused_until.lock(), Instant::now());
            match *paused {
                Some(until) if now < until => return None,
                // The one request that finds out whether the engine answers again.
                Some(_) => *paused = Some(now + PAUSE),
                None => {}
            }
        }
        let answer = timeout(ANSWER_TIMEOUT, answer).await;
        let mut paused = self.0.paused_until.lock();
        let is_new = paused.is_none();
        match answer {
            Ok(Ok(answer)) => {
                *paused = None;
                return Some(answer);
            }
            Ok(Err(error)) if is_new => {
                tracing::warn!(%error, "Redis does not count attempts: rate limits are divided among the nodes");
            }
            Err(_) if is_new => {
                tracing::warn!("Redis answers too late: rate limits are divided among the nodes");
            }
            _ => {}
        }
        *paused = Some(Instant::now() + PAUSE);
        None
    }
}

impl fmt::Debug for FleetRateLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetRateLimits").field("nodes", &self.nodes()).finish_non_exhaustive()
    }
}

async fn count_nodes(relay: Arc<dyn Relay>, nodes: Arc<AtomicU32>) {
    let mut last = 0;
    loop {
        if let Ok(known) = relay.nodes().await {
            let counted = known.iter().filter(|node| node.alive).count();
            let counted = u32::try_from(counted).unwrap_or(u32::MAX);
            // Fewer only at the second look: an engine that was just restarted does not know all nodes yet.
            nodes.store(counted.max(last), Ordering::Relaxed);
            last = counted;
        }
        let is_known = nodes.load(Ordering::Relaxed) > 0;
        tokio::time::sleep(if is_known { COUNT_INTERVAL } else { FIRST_COUNT_INTERVAL }).await;
    }
}
