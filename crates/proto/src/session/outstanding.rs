//! Outgoing requests that wait for a response: ids, progress and time limits.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::{Duration, Instant};

use hospes_model::{ProgressToken, RequestId};

/// Time limits for a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the two limits that the specification knows")]
pub struct TimeLimits {
    /// Maximum time without a response or progress.
    pub timeout: Option<Duration>,
    /// Maximum total time, regardless of progress.
    pub max_timeout: Option<Duration>,
}

impl TimeLimits {
    /// No limits, for requests that stay open by design.
    pub const NONE: Self = Self { timeout: None, max_timeout: None };
}

/// Limit that elapsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two limits that the specification knows")]
pub enum ElapsedLimit {
    /// [`TimeLimits::timeout`].
    Timeout,
    /// [`TimeLimits::max_timeout`].
    MaxTimeout,
}

/// A request that timed out.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "plain data for the driver")]
pub struct ExpiredRequest<T> {
    /// Id of the request. The server must be notified of the cancellation.
    pub id: i64,
    /// Value that the driver kept with the request.
    pub value: T,
    /// Limit that elapsed.
    pub ran: ElapsedLimit,
    /// Length of that limit.
    pub after: Duration,
}

/// Error for a request over the limit of concurrent ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {0} requests at once")]
#[non_exhaustive]
pub struct TooManyRequests(pub usize);

/// Table of pending requests. `T` is the value that the driver keeps with each.
///
/// Ids are integers and never reused. The id also serves as progress token, which is therefore unique as well. Timers
/// are lazy: a request that is answered in time costs only its table entry.
#[derive(Debug)]
pub(super) struct OutstandingRequests<T> {
    last_id: i64,
    waiting: HashMap<i64, OutstandingRequest<T>, BuildHasherDefault<SequentialHasher>>,
    max: usize,
    /// Time of the next check. It is never after the first deadline, but may be before it if its request is already
    /// gone.
    wake: Option<Instant>,
    strays: u64,
}

#[derive(Debug)]
struct OutstandingRequest<T> {
    value: T,
    limits: TimeLimits,
    deadline: Option<Instant>,
    ceiling: Option<Instant>,
    progress: f64,
}

impl<T> OutstandingRequest<T> {
    fn due(&self) -> Option<Instant> {
        match (self.deadline, self.ceiling) {
            (Some(deadline), Some(ceiling)) => Some(deadline.min(ceiling)),
            (deadline, ceiling) => deadline.or(ceiling),
        }
    }
}

impl<T> OutstandingRequests<T> {
    pub(super) fn new(max: usize) -> Self {
        Self { last_id: 0, waiting: HashMap::default(), max, wake: None, strays: 0 }
    }

    /// Continues the ids after `last`.
    pub(super) fn continue_ids_after(&mut self, last: i64) {
        self.last_id = self.last_id.max(last);
    }

    /// Registers an outgoing request. The returned id, which is also the progress token, has never been used before.
    ///
    /// # Errors
    /// If too many requests are pending.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        limits: TimeLimits,
        value: T,
    ) -> Result<i64, TooManyRequests> {
        if self.waiting.len() >= self.max {
            return Err(TooManyRequests(self.max));
        }
        self.last_id += 1;
        let waiting = OutstandingRequest {
            value,
            limits,
            deadline: limits.timeout.and_then(|timeout| now.checked_add(timeout)),
            ceiling: limits.max_timeout.and_then(|timeout| now.checked_add(timeout)),
            // So that any first value counts as growth.
            progress: f64::NEG_INFINITY,
        };
        if let Some(due) = waiting.due() {
            self.wake = Some(self.wake.map_or(due, |wake| wake.min(due)));
        }
        self.waiting.insert(self.last_id, waiting);
        Ok(self.last_id)
    }

    /// Value kept with a pending request.
    pub(super) fn waiting_mut(&mut self, id: i64) -> Option<&mut T> {
        self.waiting.get_mut(&id).map(|waiting| &mut waiting.value)
    }

    /// Values kept with all pending requests, in no order.
    pub(super) fn all_waiting_mut(&mut self) -> impl Iterator<Item = (i64, &mut T)> {
        self.waiting.iter_mut().map(|(id, waiting)| (*id, &mut waiting.value))
    }

    /// Number of pending outgoing requests.
    #[must_use]
    pub(super) fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    /// Handles a response. Returns the value kept with its request, or `None` if no request is pending; such stray
    /// responses are counted and otherwise ignored.
    pub(super) fn handle_response(&mut self, id: &RequestId) -> Option<T> {
        // All local ids are numbers; a string is another id, even if it spells a number.
        let found = match id {
            RequestId::Number(number) => self.waiting.remove(number),
            RequestId::Text(_) => None,
        };
        if found.is_none() {
            self.strays += 1;
        }
        found.map(|waiting| waiting.value)
    }

    /// Handles a progress notification, which restarts the timeout of its request. Returns `None` if it is not to be
    /// reported: the request is unknown or the value does not grow.
    pub(super) fn handle_progress(
        &mut self,
        now: Instant,
        token: &ProgressToken,
        progress: f64,
    ) -> Option<&mut T> {
        let RequestId::Number(number) = token.0 else { return None };
        let waiting = self.waiting.get_mut(&number)?;
        // A value that does not grow is not reported, but shows that the peer is working.
        waiting.deadline = waiting.limits.timeout.and_then(|timeout| now.checked_add(timeout));
        if progress <= waiting.progress || progress.is_nan() {
            return None;
        }
        waiting.progress = progress;
        Some(&mut waiting.value)
    }

    /// Cancels an outgoing request. If this returns a value, the server must be notified; a late response is stray.
    pub(super) fn cancel(&mut self, id: i64) -> Option<T> {
        self.waiting.remove(&id).map(|waiting| waiting.value)
    }

    /// Time at which [`OutstandingRequests::handle_timeout`] must be called next.
    #[must_use]
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.wake
    }

    /// Ends the requests that timed out, oldest first.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Vec<ExpiredRequest<T>> {
        if self.wake.is_none_or(|wake| now < wake) {
            return Vec::new();
        }
        let late = |waiting: &OutstandingRequest<T>| waiting.due().is_some_and(|due| due <= now);
        let mut ids: Vec<i64> =
            self.waiting.iter().filter(|(_, waiting)| late(waiting)).map(|(id, _)| *id).collect();
        // Ids grow, so this is the order in which the requests were sent.
        ids.sort_unstable();
        let expired = ids.into_iter().filter_map(|id| {
            let waiting = self.waiting.remove(&id)?;
            // Both limits may have elapsed. The ceiling is reported, because progress could not have extended it.
            let ceiling = waiting.ceiling.is_some_and(|ceiling| ceiling <= now);
            let (ran, after) = if ceiling {
                (ElapsedLimit::MaxTimeout, waiting.limits.max_timeout)
            } else {
                (ElapsedLimit::Timeout, waiting.limits.timeout)
            };
            Some(ExpiredRequest { id, value: waiting.value, ran, after: after.unwrap_or_default() })
        });
        let expired = expired.collect();
        // `wake` may have been too early; the exact next deadline is computed here.
        self.wake = self.waiting.values().filter_map(OutstandingRequest::due).min();
        expired
    }

    /// Restarts elapsed timeouts, up to their ceilings, because the peer is waiting for us.
    pub(super) fn restart_timeouts(&mut self, now: Instant) {
        for waiting in self.waiting.values_mut() {
            if waiting.deadline.is_some_and(|deadline| deadline <= now) {
                waiting.deadline = waiting.limits.timeout.and_then(|timeout| now.checked_add(timeout));
            }
        }
    }

    /// Removes all requests at the end of the connection.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (i64, T)> + '_ {
        self.wake = None;
        self.waiting.drain().map(|(id, waiting)| (id, waiting.value))
    }

    pub(super) fn stray_response_count(&self) -> u64 {
        self.strays
    }
}

/// Hasher for sequential ids. The ids are chosen locally, so a peer cannot cause collisions.
#[derive(Default)]
struct SequentialHasher(u64);

impl Hasher for SequentialHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // The product differs in the upper bits even for neighbouring ids; the hash map compares seven of those first.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher as _, BuildHasherDefault};

    use super::SequentialHasher;

    #[test]
    fn ids_do_not_collide() {
        let hasher = BuildHasherDefault::<SequentialHasher>::default();
        let hashes: HashSet<u64> = (0..1_000_i64).map(|id| hasher.hash_one(id)).collect();
        assert_eq!(hashes.len(), 1_000);
        // Several numbers or strings do not collide either.
        let pairs: HashSet<u64> = (0..1_024_u64).map(|n| hasher.hash_one((n / 32, n % 32))).collect();
        assert_eq!(pairs.len(), 1_024);
        assert_ne!(hasher.hash_one("a"), hasher.hash_one("b"));
    }
}
