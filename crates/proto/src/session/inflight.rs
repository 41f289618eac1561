//! Requests of the peer that are being served. Each gets one response, or none if it is cancelled.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use hospes_model::{RequestId, RpcError};

/// Table of requests that are being served. `T` is the handle that stops the work.
#[derive(Debug)]
pub struct InFlightRequests<T> {
    entries: HashMap<RequestId, (RequestTicket, T)>,
    limit: usize,
    last: u64,
}

/// Proof that a request was admitted, needed to finish it. It distinguishes the request from a later one with the same
/// id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTicket(u64);

impl<T> InFlightRequests<T> {
    /// Creates a table for at most `max_in_flight` requests.
    #[must_use]
    pub fn new(max_in_flight: usize) -> Self {
        Self { entries: HashMap::new(), limit: max_in_flight, last: 0 }
    }

    /// Checks that [`InFlightRequests::begin`] would admit a request.
    ///
    /// # Errors
    /// The errors of [`InFlightRequests::begin`].
    pub fn check(&self, id: &RequestId) -> Result<(), RpcError> {
        if self.entries.contains_key(id) {
            return Err(duplicate_id_error(id));
        }
        if self.has_room() { Ok(()) } else { Err(too_many_requests_error(self.limit)) }
    }

    /// Admits a request.
    ///
    /// # Errors
    /// If a request with the same id is being served (MSG-08, MSG-09), or there are too many. The error is the response
    /// to the new request; the old one still gets its own.
    pub fn begin(&mut self, id: &RequestId, stop: T) -> Result<RequestTicket, RpcError> {
        // Computed before `entry` borrows the table. A duplicate is reported first, even if the table is full.
        let full = self.entries.len() >= self.limit;
        match self.entries.entry(id.clone()) {
            Entry::Occupied(_) => Err(duplicate_id_error(id)),
            Entry::Vacant(_) if full => Err(too_many_requests_error(self.limit)),
            Entry::Vacant(slot) => {
                self.last += 1;
                let ticket = RequestTicket(self.last);
                slot.insert((ticket, stop));
                Ok(ticket)
            }
        }
    }

    /// Finishes a request. `None` means that it was cancelled in the meantime and its response must not be sent
    /// (CANC-06, CANC-15).
    pub fn finish(&mut self, id: &RequestId, ticket: RequestTicket) -> Option<T> {
        if self.entries.get(id).is_some_and(|(held, _)| *held == ticket) {
            return self.entries.remove(id).map(|(_, stop)| stop);
        }
        None
    }

    /// Cancels a request. `None` for an unknown or finished request, which is not an error: the notification may have
    /// crossed the response (CANC-07, CANC-09, CANC-12).
    pub fn cancel(&mut self, id: &RequestId) -> Option<T> {
        self.entries.remove(id).map(|(_, stop)| stop)
    }

    /// Returns true if the request is still being served, so that notifications about it may be sent (PROG-07,
    /// PROG-10).
    #[must_use]
    pub fn is_served(&self, id: &RequestId, ticket: RequestTicket) -> bool {
        self.entries.get(id).is_some_and(|(held, _)| *held == ticket)
    }

    /// Number of requests that are being served.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if no request is being served.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns true if another request can be admitted; otherwise a driver may stop reading.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.entries.len() < self.limit
    }

    /// Removes all requests at the end of the connection.
    pub fn drain(&mut self) -> impl Iterator<Item = (RequestId, T)> + '_ {
        self.entries.drain().map(|(id, (_, stop))| (id, stop))
    }
}

fn duplicate_id_error(id: &RequestId) -> RpcError {
    RpcError::invalid_request(format!("the request id {id} is still in use by an earlier request"))
}

/// Creates the error for a request over the limit.
fn too_many_requests_error(limit: usize) -> RpcError {
    RpcError::internal(format!("too many requests in flight: the limit is {limit} (setting max_in_flight)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// covers: CANC-06 CANC-07 CANC-12
    #[test]
    fn a_cancelled_request_gets_no_answer_and_unknown_ones_are_ignored() {
        let mut table = InFlightRequests::new(9);
        let id = RequestId::Number(1);
        let ticket = table.begin(&id, "work").unwrap();
        assert_eq!(table.cancel(&RequestId::Number(2)), None);
        assert_eq!(table.cancel(&id), Some("work"));
        assert_eq!(table.finish(&id, ticket), None);
        assert_eq!(table.cancel(&id), None);
    }

    /// covers: MSG-08 MSG-09
    #[test]
    fn an_id_in_use_is_refused_and_its_request_goes_on() {
        let mut table = InFlightRequests::new(9);
        let id = RequestId::from("a");
        let ticket = table.begin(&id, 1).unwrap();
        assert_eq!(table.check(&id).unwrap_err().code, -32600);
        assert_eq!(table.begin(&id, 2).unwrap_err().code, -32600);
        assert!(table.is_served(&id, ticket));
        assert_eq!(table.finish(&id, ticket), Some(1));
        assert!(table.is_empty() && !table.is_served(&id, ticket));
    }

    #[test]
    fn work_that_outlives_its_cancellation_cannot_answer_a_later_request() {
        let mut table = InFlightRequests::new(9);
        let id = RequestId::Number(1);
        let old = table.begin(&id, "old").unwrap();
        table.cancel(&id);
        let new = table.begin(&id, "new").unwrap();
        assert_eq!(table.finish(&id, old), None);
        assert_eq!(table.finish(&id, new), Some("new"));
    }

    #[test]
    fn what_is_served_is_counted() {
        let mut table = InFlightRequests::new(2);
        let count = |table: &InFlightRequests<_>| (table.len(), table.is_empty(), table.has_room());
        assert_eq!(count(&table), (0, true, true));
        let (one, two) = (RequestId::Number(1), RequestId::from("1"));
        let ticket = table.begin(&one, "one").unwrap();
        assert_eq!(count(&table), (1, false, true));
        assert_eq!(table.check(&two), Ok(()));
        assert_ne!(table.begin(&two, "two").unwrap(), ticket);
        assert_eq!(count(&table), (2, false, false));
        let mut all: Vec<_> = table.drain().collect();
        all.sort_unstable_by_key(|(_, stop)| *stop);
        assert_eq!(all, [(one, "one"), (two, "two")]);
        assert!(table.is_empty());
    }

    #[test]
    fn there_is_a_limit_with_a_name() {
        let mut table = InFlightRequests::new(1);
        table.begin(&RequestId::Number(1), ()).unwrap();
        assert!(!table.has_room() && table.check(&RequestId::Number(2)).is_err());
        assert!(table.begin(&RequestId::Number(2), ()).unwrap_err().message.contains("max_in_flight"));
        assert_eq!(table.len(), 1);
    }
}
