//! Observations of which calls return quickly, so that they may run in their connection's task.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hospes_model::Method;

use crate::service::Call;

/// Maximum number of kinds of call that are remembered.
const MAX_CALL_KINDS: usize = 256;
/// Maximum time of the first stretch of a call that counts as quick.
const QUICK_CALL_TIME: Duration = Duration::from_millis(1);
/// Minimum time of one that counts as slow. What lies between may be the machine's doing.
const SLOW_CALL_TIME: Duration = Duration::from_millis(10);

/// Observations of the calls of one service, without their arguments. Newer ones take the place of older ones.
#[derive(Debug)]
pub(crate) struct CallTimings {
    hasher: RandomState,
    seen: Box<[AtomicU64]>,
}

/// A kind of call: a tool, a prompt, a resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallTimingKey(u64);

impl Default for CallTimings {
    fn default() -> Self {
        Self { hasher: RandomState::new(), seen: (0..MAX_CALL_KINDS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl CallTimings {
    /// Returns the kind of a call that runs user code; none for the others, which are quick.
    pub(crate) fn kind(&self, call: &Call) -> Option<CallTimingKey> {
        let view = call.params.view();
        let of = match call.method {
            Method::ToolsCall | Method::PromptsGet => view.name.as_deref(),
            Method::ResourcesRead => view.uri.as_deref(),
            Method::Complete => Some(""),
            _ => return None,
        };
        // Never 0, which stands for nothing.
        Some(CallTimingKey(self.hasher.hash_one((call.method.name(), of)) | 1))
    }

    fn entry(&self, kind: CallTimingKey) -> &AtomicU64 {
        // The lowest bit is always set, so the index comes from the upper half of the hash.
        let index = usize::try_from(kind.0 >> 32).unwrap_or_default() % self.seen.len();
        &self.seen[index]
    }

    /// Returns whether such calls were seen to be quick.
    pub(crate) fn is_quick(&self, kind: CallTimingKey) -> bool {
        // `Relaxed`, because this is only a hint: a lost update costs one task more or less.
        self.entry(kind).load(Ordering::Relaxed) == kind.0
    }

    /// Records the first stretch of such a call, which began at `start`.
    pub(crate) fn record(&self, kind: CallTimingKey, start: Instant) {
        let took = start.elapsed();
        if took >= SLOW_CALL_TIME {
            // If this fails, the place belongs to another kind by now, whose record must stay.
            let _ = self.entry(kind).compare_exchange(kind.0, 0, Ordering::Relaxed, Ordering::Relaxed);
        } else if took < QUICK_CALL_TIME && !self.is_quick(kind) {
            self.entry(kind).store(kind.0, Ordering::Relaxed);
        }
    }
}
