//! Replay cache of sealed states that have been used to run a step, which must not run twice.

use std::collections::HashSet;
use std::collections::VecDeque;
#[cfg(feature = "server")]
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Maximum number of states that are remembered within their lifetime; the oldest are forgotten first.
pub(crate) const MAX_CONSUMED_STATES: usize = 100_000;

/// The states of a server that are spent. Known to this process alone: another node with the same keys does not know.
#[derive(Debug)]
pub(crate) struct ReplayCache {
    lifetime: Duration,
    #[cfg(feature = "server")]
    hasher: RandomState,
    spent: Mutex<ConsumedStates>,
}

#[derive(Debug, Default)]
struct ConsumedStates {
    all: HashSet<u64>,
    in_order: VecDeque<(Instant, u64)>,
}

#[cfg(feature = "server")]
impl ReplayCache {
    pub(crate) fn new(lifetime: Duration) -> Arc<Self> {
        Arc::new(Self { lifetime, hasher: RandomState::new(), spent: Mutex::default() })
    }

    /// The right to use this state for a step.
    pub(crate) fn nonce(self: &Arc<Self>, state: &str) -> StateNonce {
        StateNonce { states: Arc::clone(self), state: self.hasher.hash_one(state) }
    }
}

/// The right to use a state, for one run of a handler.
#[derive(Clone, Debug)]
pub(crate) struct StateNonce {
    states: Arc<ReplayCache>,
    state: u64,
}

impl StateNonce {
    /// Uses the state up; returns false if it was used before.
    pub(crate) fn consume(&self) -> bool {
        let now = Instant::now();
        let mut spent = self.states.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let ConsumedStates { all, in_order } = &mut *spent;
        // A state past its lifetime is refused by its seal, and need not be remembered.
        while let Some((at, state)) = in_order.front()
            && (now.duration_since(*at) > self.states.lifetime || in_order.len() >= MAX_CONSUMED_STATES)
        {
            all.remove(state);
            in_order.pop_front();
        }
        let fresh = all.insert(self.state);
        if fresh {
            in_order.push_back((now, self.state));
        }
        fresh
    }

    /// Gives it back: the step came to nothing.
    pub(crate) fn release(&self) {
        let mut spent = self.states.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.all.remove(&self.state);
        spent.in_order.retain(|(_, state)| *state != self.state);
    }
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_state_is_spent_once_and_forgotten_in_time() {
        let states = ReplayCache::new(Duration::from_secs(60));
        assert!(states.nonce("a").consume() && !states.nonce("a").consume());
        assert!(states.nonce("b").consume());
        states.nonce("b").release();
        assert!(states.nonce("b").consume());
        tokio::time::advance(Duration::from_secs(61)).await;
        for n in 0..MAX_CONSUMED_STATES {
            assert!(states.nonce(&format!("{n}")).consume());
        }
        let held = states.spent.lock().unwrap().all.len();
        assert!(held <= MAX_CONSUMED_STATES, "{held}");
    }
}
