//! Streams of a session: numbers, events and pending answers.

use std::fmt;

/// Number of a stream: the epoch in which it was opened, and a counter. A new owner needs no round trip to allocate one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a pair that callers make")]
pub struct StreamNumber {
    /// Epoch of the owner that opened the stream.
    pub epoch: u64,
    /// Counter within the epoch.
    pub counter: u32,
}

impl StreamNumber {
    /// Creates a number.
    #[must_use]
    pub fn new(epoch: u64, counter: u32) -> Self {
        Self { epoch, counter }
    }

    /// Reads the text that `Display` writes, for example `3.7`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (epoch, counter) = text.split_once('.')?;
        Some(Self { epoch: number(epoch)?, counter: number(counter)?.try_into().ok()? })
    }
}

impl fmt::Display for StreamNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.counter)
    }
}

/// Position in a stream: after the event with this sequence, which was appended in this epoch. The default is the
/// beginning of every stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a pair that callers make")]
pub struct EventPosition {
    /// Epoch of the owner that appended the event.
    pub epoch: u64,
    /// Number of the event in its stream, from 1.
    pub sequence: u64,
}

impl EventPosition {
    /// Reads the text that `Display` writes, for example `3-12`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (epoch, sequence) = text.split_once('-')?;
        Some(Self { epoch: number(epoch)?, sequence: number(sequence)? })
    }
}

impl fmt::Display for EventPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.sequence)
    }
}

/// Id of an event for clients: its stream and position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a pair that callers make")]
pub struct EventId {
    /// Stream of the event.
    pub stream: StreamNumber,
    /// Position of the event.
    pub position: EventPosition,
}

impl EventId {
    /// Reads the text that `Display` writes, for example `3.7-4-12`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (stream, position) = text.split_once('-')?;
        Some(Self { stream: StreamNumber::parse(stream)?, position: EventPosition::parse(position)? })
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream, self.position)
    }
}

/// Stream that is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewStream {
    /// Number of the stream.
    pub number: StreamNumber,
    /// Kind of the stream.
    pub kind: StreamKind,
    /// Requests that will be answered on it.
    pub pending: Vec<PendingAnswer>,
}

impl NewStream {
    /// Creates the stream of requests.
    #[must_use]
    pub fn of_requests(number: StreamNumber, pending: Vec<PendingAnswer>) -> Self {
        Self { number, kind: StreamKind::Requests, pending }
    }

    /// Creates a stream for messages that belong to no request.
    #[must_use]
    pub fn listen(number: StreamNumber) -> Self {
        Self { number, kind: StreamKind::Listen, pending: Vec::new() }
    }
}

/// Kind of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamKind {
    /// It answers requests and ends with the last answer.
    Requests,
    /// It carries messages that belong to no request, until the session ends.
    Listen,
}

/// Request that will be answered on a stream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct PendingAnswer {
    /// JSON text of the request's id.
    pub request: Box<str>,
    /// Notes of the host for an adopter, for example the method.
    pub detail: Vec<u8>,
}

impl PendingAnswer {
    /// Creates a pending answer.
    #[must_use]
    pub fn new(request: &str, detail: impl Into<Vec<u8>>) -> Self {
        Self { request: request.into(), detail: detail.into() }
    }
}

/// Event that is appended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewEvent<'a> {
    /// Number of the event in its stream: one more than that of the last one, from 1.
    pub sequence: u64,
    /// Kind of the event.
    pub kind: EventKind<'a>,
    /// Message that the client receives.
    pub payload: &'a [u8],
}

impl<'a> NewEvent<'a> {
    /// Creates an event.
    #[must_use]
    pub fn new(sequence: u64, kind: EventKind<'a>, payload: &'a [u8]) -> Self {
        Self { sequence, kind, payload }
    }
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "an engine has to treat each kind")]
pub enum EventKind<'a> {
    /// Notification or question.
    Message,
    /// Answer to the pending request whose id has this JSON text. It is appended only while the request is pending.
    Answer(&'a str),
}

/// Result of [`Relay::append`](crate::Relay::append).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AppendResult {
    /// The event stands at this position.
    At(EventPosition),
    /// The request is not pending on this stream. Nothing was appended, and the sequence is free.
    AlreadyAnswered,
}

/// Events that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventPage {
    /// Events, in order.
    pub events: Vec<StoredEvent>,
    /// True if events between the position and the first of these were dropped.
    pub is_trimmed: bool,
}

impl EventPage {
    pub(crate) fn new(events: Vec<StoredEvent>, is_trimmed: bool) -> Self {
        Self { events, is_trimmed }
    }
}

/// Event in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredEvent {
    /// Position of the event.
    pub position: EventPosition,
    /// True if it answers a request.
    pub is_answer: bool,
    /// Message that the client receives.
    pub payload: Vec<u8>,
}

impl StoredEvent {
    pub(crate) fn new(position: EventPosition, is_answer: bool, payload: Vec<u8>) -> Self {
        Self { position, is_answer, payload }
    }
}

/// Stream of a session, for an adopter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamSummary {
    /// Number of the stream.
    pub number: StreamNumber,
    /// Kind of the stream.
    pub kind: StreamKind,
    /// Position of its last event.
    pub last: EventPosition,
    /// Requests that have not been answered, by their ids.
    pub pending: Vec<PendingAnswer>,
}

impl StreamSummary {
    pub(crate) fn new(
        number: StreamNumber,
        kind: StreamKind,
        last: EventPosition,
        pending: Vec<PendingAnswer>,
    ) -> Self {
        Self { number, kind, last, pending }
    }
}

/// Reads a decimal number in the one spelling that `Display` has.
fn number(text: &str) -> Option<u64> {
    let canonical = text == "0" || !text.starts_with(['0', '+']);
    canonical.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_ids_have_one_spelling() {
        let id =
            EventId { stream: StreamNumber::new(3, 7), position: EventPosition { epoch: 4, sequence: 12 } };
        assert_eq!(id.to_string(), "3.7-4-12");
        assert_eq!(EventId::parse("3.7-4-12"), Some(id));
        for bad in ["", "3.7", "3.7-4", "3-4-12", "3.07-4-12", "3.7-4-+1", "3.7-4-12-1", "3.4294967296-1-1"] {
            assert_eq!(EventId::parse(bad), None, "{bad}");
        }
    }
}
