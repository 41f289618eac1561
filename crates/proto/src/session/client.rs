//! Requests in flight between a client and its server, in both directions.
//!
//! For outgoing requests it tracks ids, a timeout that progress restarts, and a total time limit that it does not. For
//! requests of the server (up to 2025-11-25) it tracks those in progress, so that a cancelled one gets no response.
//!
//! ```text
//!            begin                 handle_response
//!   (none) ─────────► waiting ─────────────────────► (none)      the answer
//!                      │  ▲ │
//!      handle_progress └──┘ ├── handle_timeout ────► (none)      notifications/cancelled, then a late answer is stray
//!                           └── cancel ────────────► (none)      likewise
//! ```

use std::collections::HashSet;
use std::time::Instant;

use hospes_model::{ProgressToken, RequestId};

use super::outstanding::OutstandingRequests;
pub use super::outstanding::{ElapsedLimit, ExpiredRequest, TimeLimits, TooManyRequests};

/// Default maximum number of outgoing requests in flight: the setting `max_in_flight`.
pub const DEFAULT_MAX_IN_FLIGHT: usize = 16 * 1024;
/// Default maximum number of server requests that are processed concurrently: the setting `max_server_requests`.
pub const DEFAULT_MAX_SERVER_REQUESTS: usize = 64;

/// Reasons a request of the server is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "each is answered in its own way")]
pub enum ServerRequestError {
    /// A request with this id is already in progress.
    Duplicate,
    /// The maximum number of requests is being processed.
    TooMany(usize),
}

/// Requests in flight on one connection. `T` is the value that the driver keeps with each outgoing request.
#[derive(Debug)]
pub struct ClientSession<T> {
    asked: OutstandingRequests<T>,
    answering: HashSet<RequestId>,
    /// True if a response was sent since the last timeout check. A request that times out only now was waiting for this
    /// side.
    answered: bool,
    max_answering: usize,
}

impl<T> Default for ClientSession<T> {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_IN_FLIGHT, DEFAULT_MAX_SERVER_REQUESTS)
    }
}

impl<T> ClientSession<T> {
    /// Creates the state of a connection with these limits on concurrent requests.
    #[must_use]
    pub fn new(max_in_flight: usize, max_server_requests: usize) -> Self {
        Self {
            asked: OutstandingRequests::new(max_in_flight),
            answering: HashSet::new(),
            answered: false,
            max_answering: max_server_requests,
        }
    }

    /// Registers an outgoing request. The returned id, which is also the progress token, has never been used before.
    ///
    /// # Errors
    /// If too many requests are pending.
    pub fn begin(&mut self, now: Instant, limits: TimeLimits, value: T) -> Result<i64, TooManyRequests> {
        self.asked.begin(now, limits, value)
    }

    /// Value kept with a pending request.
    pub fn waiting_mut(&mut self, id: i64) -> Option<&mut T> {
        self.asked.waiting_mut(id)
    }

    /// Values kept with all pending requests, in no order.
    pub fn all_waiting_mut(&mut self) -> impl Iterator<Item = (i64, &mut T)> {
        self.asked.all_waiting_mut()
    }

    /// Number of pending outgoing requests.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.asked.in_flight()
    }

    /// Handles a response. Returns the value kept with its request, or `None` if no request is pending; such stray
    /// responses are counted and otherwise ignored.
    pub fn handle_response(&mut self, id: &RequestId) -> Option<T> {
        self.asked.handle_response(id)
    }

    /// Handles a progress notification, which restarts the timeout of its request. Returns `None` if it is not to be
    /// reported: the request is unknown or the value does not grow.
    pub fn handle_progress(&mut self, now: Instant, token: &ProgressToken, progress: f64) -> Option<&mut T> {
        self.asked.handle_progress(now, token, progress)
    }

    /// Cancels an outgoing request. If this returns a value, the server must be notified; a late response is stray.
    pub fn cancel(&mut self, id: i64) -> Option<T> {
        self.asked.cancel(id)
    }

    /// Time at which [`ClientSession::handle_timeout`] must be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.asked.poll_timeout()
    }

    /// Ends the requests that timed out, oldest first. A server that waits for a response from this side is not silent,
    /// so only ceilings count then.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<ExpiredRequest<T>> {
        if !self.answering.is_empty() || std::mem::take(&mut self.answered) {
            self.asked.restart_timeouts(now);
        }
        self.asked.handle_timeout(now)
    }

    /// Handles the end of the connection. Returns all pending requests.
    pub fn close(&mut self) -> Vec<(i64, T)> {
        self.answering.clear();
        self.asked.drain().collect()
    }

    /// Handles a request from the server.
    ///
    /// # Errors
    /// If the id is in use or too many requests are in progress.
    pub fn handle_request(&mut self, id: &RequestId) -> Result<(), ServerRequestError> {
        if self.answering.contains(id) {
            return Err(ServerRequestError::Duplicate);
        }
        if self.answering.len() >= self.max_answering {
            return Err(ServerRequestError::TooMany(self.max_answering));
        }
        self.answering.insert(id.clone());
        Ok(())
    }

    /// Returns true if the server still wants a response to its request; it gets at most one.
    pub fn finish_request(&mut self, id: &RequestId) -> bool {
        let wanted = self.answering.remove(id);
        self.answered |= wanted;
        wanted
    }

    /// Handles a cancellation by the server. Returns true if the request was in progress; anything else is ignored, as
    /// the specification requires for unknown and finished requests.
    pub fn handle_cancelled(&mut self, id: &RequestId) -> bool {
        self.answering.remove(id)
    }

    /// Number of responses that matched no pending request.
    #[must_use]
    pub fn stray_response_count(&self) -> u64 {
        self.asked.stray_response_count()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn limits(timeout: u32, max_timeout: u32) -> TimeLimits {
        TimeLimits { timeout: Some(SECOND * timeout), max_timeout: Some(SECOND * max_timeout) }
    }

    fn start() -> Instant {
        // The only clock reading of these tests, because an instant cannot be created otherwise.
        #[expect(clippy::disallowed_methods, reason = "an instant cannot be made otherwise")]
        Instant::now()
    }

    /// covers: MSG-08 MSG-09 PROG-03
    #[test]
    fn ids_are_never_used_twice() {
        let (mut session, now) = (ClientSession::default(), start());
        let first = session.begin(now, TimeLimits::NONE, ()).unwrap();
        session.handle_response(&first.into()).unwrap();
        let second = session.begin(now, TimeLimits::NONE, ()).unwrap();
        assert_ne!(first, second);
    }

    /// covers: TIME-01 TIME-04 TIME-05
    #[test]
    fn progress_puts_the_timeout_off_but_not_the_ceiling() {
        let (mut session, now) = (ClientSession::default(), start());
        let id = session.begin(now, limits(10, 25), "call").unwrap();
        let token = ProgressToken::from(id);
        assert_eq!(session.poll_timeout(), Some(now + SECOND * 10));
        assert!(session.handle_timeout(now + SECOND * 9).is_empty());
        for (second, value) in [(9, 1.0), (18, 2.0)] {
            assert!(session.handle_progress(now + SECOND * second, &token, value).is_some());
            assert!(session.handle_timeout(now + SECOND * (second + 6)).is_empty());
        }
        assert_eq!(session.poll_timeout(), Some(now + SECOND * 25));
        let expired = session.handle_timeout(now + SECOND * 25);
        assert_eq!(expired.len(), 1);
        assert_eq!((expired[0].ran, expired[0].after), (ElapsedLimit::MaxTimeout, SECOND * 25));
        assert_eq!(session.poll_timeout(), None);
    }

    /// covers: TIME-01
    #[test]
    fn silence_ends_a_request_and_names_the_limit() {
        let (mut session, now) = (ClientSession::default(), start());
        let id = session.begin(now, limits(10, 60), "call").unwrap();
        let listen = session.begin(now, TimeLimits::NONE, "listen").unwrap();
        let expired = session.handle_timeout(now + SECOND * 10);
        assert_eq!((expired[0].id, expired[0].value, expired[0].ran), (id, "call", ElapsedLimit::Timeout));
        assert_eq!(session.poll_timeout(), None);
        assert!(session.waiting_mut(listen).is_some());
    }

    /// covers: CANC-08 CANC-09
    #[test]
    fn an_answer_after_the_end_is_ignored_and_counted() {
        let (mut session, now) = (ClientSession::default(), start());
        let id = session.begin(now, limits(1, 1), ()).unwrap();
        assert!(session.cancel(id).is_some());
        assert!(session.cancel(id).is_none());
        assert!(session.handle_response(&id.into()).is_none());
        assert!(session.handle_response(&"who?".into()).is_none());
        assert_eq!(session.stray_response_count(), 2);
    }

    /// covers: PROG-05 PROG-07
    #[test]
    fn progress_that_does_not_grow_is_not_told_but_is_a_sign_of_life() {
        let (mut session, now) = (ClientSession::default(), start());
        let id = session.begin(now, limits(10, 100), ()).unwrap();
        let token = ProgressToken::from(id);
        assert!(session.handle_progress(now, &token, 5.0).is_some());
        assert!(session.handle_progress(now + SECOND * 8, &token, 5.0).is_none());
        assert!(session.handle_progress(now + SECOND * 8, &token, f64::NAN).is_none());
        assert!(session.handle_timeout(now + SECOND * 17).is_empty());
        assert!(session.handle_progress(now, &ProgressToken::from("other"), 9.0).is_none());
        assert!(session.handle_progress(now, &ProgressToken::from(99), 9.0).is_none());
    }

    /// covers: CANC-04 CANC-06 CANC-12
    #[test]
    fn a_request_of_the_server_gets_one_answer_and_none_once_cancelled() {
        let mut session = ClientSession::<()>::new(1, 2);
        let (a, b) = (RequestId::from("a"), RequestId::from(7));
        session.handle_request(&a).unwrap();
        assert_eq!(session.handle_request(&a), Err(ServerRequestError::Duplicate));
        session.handle_request(&b).unwrap();
        assert_eq!(session.handle_request(&"c".into()), Err(ServerRequestError::TooMany(2)));
        assert!(session.finish_request(&a));
        assert!(!session.finish_request(&a));
        assert!(session.handle_cancelled(&b));
        assert!(!session.handle_cancelled(&b));
        assert!(!session.finish_request(&b));
    }

    #[test]
    fn a_server_that_waits_for_us_is_not_silent() {
        let (mut session, now) = (ClientSession::default(), start());
        session.begin(now, limits(10, 25), ()).unwrap();
        session.handle_request(&"q".into()).unwrap();
        assert!(session.handle_timeout(now + SECOND * 10).is_empty());
        assert_eq!(session.poll_timeout(), Some(now + SECOND * 20));
        assert_eq!(session.handle_timeout(now + SECOND * 25)[0].ran, ElapsedLimit::MaxTimeout);
    }

    #[test]
    fn a_server_has_its_whole_time_again_once_we_have_answered() {
        let (mut session, now) = (ClientSession::default(), start());
        session.begin(now, limits(10, 100), ()).unwrap();
        session.handle_request(&"q".into()).unwrap();
        assert!(session.handle_timeout(now + SECOND * 10).is_empty());
        session.finish_request(&"q".into());
        assert!(session.handle_timeout(now + SECOND * 20).is_empty());
        assert_eq!(session.handle_timeout(now + SECOND * 30)[0].ran, ElapsedLimit::Timeout);
    }

    /// Each response from this side restarts the timeouts of the server, however many there are in a row.
    #[test]
    fn several_answers_are_no_less_than_one() {
        let (mut session, now) = (ClientSession::default(), start());
        session.begin(now, limits(10, 100), ()).unwrap();
        for id in ["p", "q"] {
            session.handle_request(&id.into()).unwrap();
        }
        for id in ["p", "q"] {
            assert!(session.finish_request(&id.into()));
        }
        // Finishing an unknown request changes nothing.
        assert!(!session.finish_request(&"r".into()));
        assert!(session.handle_timeout(now + SECOND * 10).is_empty());
        assert_eq!(session.handle_timeout(now + SECOND * 20)[0].ran, ElapsedLimit::Timeout);
    }

    #[test]
    fn an_answer_finds_its_request_by_the_very_id() {
        let (mut session, now) = (ClientSession::default(), start());
        let (one, two) =
            (session.begin(now, limits(9, 9), 1).unwrap(), session.begin(now, limits(5, 9), 2).unwrap());
        let mut all: Vec<_> =
            session.all_waiting_mut().map(|(id, value)| (id, std::mem::replace(value, 3))).collect();
        all.sort_unstable();
        assert_eq!(all, [(one, 1), (two, 2)]);
        assert_eq!((session.in_flight(), session.poll_timeout()), (2, Some(now + SECOND * 5)));
        assert_eq!(session.waiting_mut(one), Some(&mut 3));
        // A string that spells a number is another id.
        assert_eq!(session.handle_response(&RequestId::from(&*two.to_string())), None);
        assert_eq!(session.handle_response(&two.into()), Some(3));
        assert_eq!(session.handle_response(&one.into()), Some(3));
        assert_eq!((session.in_flight(), session.stray_response_count()), (0, 1));
        assert_eq!(session.waiting_mut(one), None);
    }

    #[test]
    fn what_waits_is_bounded() {
        let (mut session, now) = (ClientSession::new(2, 1), start());
        session.begin(now, TimeLimits::NONE, 1).unwrap();
        session.begin(now, TimeLimits::NONE, 2).unwrap();
        assert_eq!(session.begin(now, TimeLimits::NONE, 3), Err(TooManyRequests(2)));
        assert_eq!(session.close().len(), 2);
        assert_eq!(session.in_flight(), 0);
    }

    proptest! {
        /// Each request ends exactly once, in any order of events.
        #[test]
        fn every_request_ends_once(steps in proptest::collection::vec((0u8..5, 0i64..12, 1u32..20), 1..200)) {
            let (mut session, start) = (ClientSession::new(8, 8), start());
            let mut now = start;
            let mut open = HashSet::new();
            for (step, id, seconds) in steps {
                now += SECOND;
                match step {
                    0 => {
                        if let Ok(id) = session.begin(now, limits(seconds, seconds * 2), ()) {
                            prop_assert!(open.insert(id));
                        }
                    }
                    1 => prop_assert_eq!(session.handle_response(&id.into()).is_some(), open.remove(&id)),
                    2 => prop_assert_eq!(session.cancel(id).is_some(), open.remove(&id)),
                    3 => {
                        session.handle_progress(now, &ProgressToken::from(id), f64::from(seconds));
                    }
                    _ => {
                        for expired in session.handle_timeout(now) {
                            prop_assert!(open.remove(&expired.id));
                        }
                        prop_assert!(session.poll_timeout().is_none_or(|wake| wake > now));
                    }
                }
                prop_assert_eq!(session.in_flight(), open.len());
                // A request with a limit always has a next timeout.
                prop_assert!(open.is_empty() || session.poll_timeout().is_some());
            }
        }
    }
}
