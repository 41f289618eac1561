//! Streams, events and pending answers.

use futures::future::join_all;
use hospes_fleet::session::{SessionKey, SessionOwner};
use hospes_fleet::stream::{
    AppendResult, EventKind, EventPosition, NewEvent, NewStream, PendingAnswer, StreamKind, StreamNumber,
};
use hospes_fleet::{Relay, RelayError};

use super::cases_of;
use crate::fixture::{TestFleet, TestNode};

cases_of!(
    events_are_read_in_order_after_a_position,
    events_arrive_in_sequence,
    a_repeated_event_is_recognised,
    concurrent_events_of_one_sequence_are_one_event,
    each_request_is_answered_once,
    old_events_are_dropped_and_the_reader_is_told,
    a_stream_keeps_its_last_event_whatever_its_size,
    unknown_streams_have_no_events,
    an_adopter_goes_on_where_the_dead_owner_stopped,
    finished_streams_make_room,
    streams_of_changes_leave_room,
    streams_of_earlier_epochs_go_first,
    pending_answers_are_bounded,
    large_events_are_refused,
);

const STREAM: StreamNumber = StreamNumber { epoch: 1, counter: 1 };
const START: EventPosition = EventPosition { epoch: 0, sequence: 0 };

fn at(sequence: u64) -> AppendResult {
    AppendResult::At(EventPosition { epoch: 1, sequence })
}

fn pending(requests: &[&str]) -> Vec<PendingAnswer> {
    requests.iter().map(|request| PendingAnswer::new(request, *b"tools/call")).collect()
}

/// Session with a stream on which these requests are pending.
async fn open(node: &TestNode, requests: &[&str]) -> (SessionKey, SessionOwner) {
    let (session, owner) = node.open("s").await;
    let stream = NewStream::of_requests(STREAM, pending(requests));
    assert_eq!(node.relay.open_stream(&session, &owner, &stream).await, Ok(START));
    (session, owner)
}

/// Appends messages with these sequences, whose payloads are their sequences.
async fn say(
    node: &TestNode,
    session: &SessionKey,
    owner: &SessionOwner,
    sequences: impl IntoIterator<Item = u64>,
) {
    for sequence in sequences {
        let payload = sequence.to_string();
        let event = NewEvent::new(sequence, EventKind::Message, payload.as_bytes());
        assert_eq!(node.relay.append(session, owner, STREAM, &event).await, Ok(at(sequence)));
    }
}

/// Payloads of at most `max` events after a sequence, and whether some before were dropped.
async fn read(relay: &dyn Relay, session: &SessionKey, after: u64, max: usize) -> (Vec<String>, bool) {
    let after = EventPosition { epoch: 1, sequence: after };
    let page = relay.read(session, STREAM, after, max).await.unwrap().unwrap();
    let payloads = page.events.into_iter().map(|event| String::from_utf8(event.payload).unwrap());
    (payloads.collect(), page.is_trimmed)
}

async fn events_are_read_in_order_after_a_position(fleet: TestFleet) {
    let (node, other) = (fleet.node().await, fleet.node().await);
    let (session, owner) = open(&node, &["1"]).await;
    say(&node, &session, &owner, 1..=3).await;
    let relay = &*other.relay;
    assert_eq!(read(relay, &session, 0, 10).await.0, ["1", "2", "3"]);
    assert_eq!(read(relay, &session, 1, 1).await, (vec!["2".to_owned()], false));
    assert!(read(relay, &session, 3, 10).await.0.is_empty());
    let page = relay.read(&session, STREAM, START, 10).await.unwrap().unwrap();
    let positions: Vec<_> = page.events.iter().map(|event| event.position).collect();
    assert_eq!(positions, [1, 2, 3].map(|sequence| EventPosition { epoch: 1, sequence }));
    // An opened stream is the same when it is opened again.
    let stream = NewStream::of_requests(STREAM, pending(&["1"]));
    let last = node.relay.open_stream(&session, &owner, &stream).await;
    assert_eq!(last, Ok(EventPosition { epoch: 1, sequence: 3 }));
}

async fn events_arrive_in_sequence(fleet: TestFleet) {
    let node = fleet.node().await;
    let (session, owner) = open(&node, &[]).await;
    let event = |sequence| NewEvent::new(sequence, EventKind::Message, b"early");
    let early = node.relay.append(&session, &owner, STREAM, &event(2)).await;
    assert_eq!(early, Err(RelayError::OutOfOrder { expected: 1 }));
    say(&node, &session, &owner, 1..=2).await;
    let early = node.relay.append(&session, &owner, STREAM, &event(4)).await;
    assert_eq!(early, Err(RelayError::OutOfOrder { expected: 3 }));
    assert_eq!(read(&*node.relay, &session, 0, 10).await.0, ["1", "2"]);
}

async fn a_repeated_event_is_recognised(fleet: TestFleet) {
    let node = fleet.node().await;
    let (session, owner) = open(&node, &["1"]).await;
    say(&node, &session, &owner, [1, 2, 2, 1]).await;
    let answer = NewEvent::new(3, EventKind::Answer("1"), b"answer");
    for _ in 0..2 {
        assert_eq!(node.relay.append(&session, &owner, STREAM, &answer).await, Ok(at(3)));
    }
    assert_eq!(read(&*node.relay, &session, 0, 10).await.0, ["1", "2", "answer"]);
}

async fn concurrent_events_of_one_sequence_are_one_event(fleet: TestFleet) {
    let (node, other) = (fleet.node().await, fleet.node().await);
    let (session, owner) = open(&node, &["1", "2"]).await;
    let first = NewEvent::new(1, EventKind::Answer("1"), b"first");
    let second = NewEvent::new(1, EventKind::Answer("2"), b"second");
    let (first, second) = tokio::join!(
        node.relay.append(&session, &owner, STREAM, &first),
        other.relay.append(&session, &owner, STREAM, &second)
    );
    assert_eq!((first, second), (Ok(at(1)), Ok(at(1))));
    assert_eq!(read(&*node.relay, &session, 0, 10).await.0.len(), 1);
    assert_eq!(node.relay.streams(&session).await.unwrap()[0].pending.len(), 1);
}

async fn each_request_is_answered_once(fleet: TestFleet) {
    let (node, other) = (fleet.node().await, fleet.node().await);
    let (session, owner) = open(&node, &["1", "\"two\""]).await;
    let answer = |sequence, request| NewEvent::new(sequence, EventKind::Answer(request), b"answer");
    let append = async |event: NewEvent<'static>| node.relay.append(&session, &owner, STREAM, &event).await;
    assert_eq!(append(answer(1, "1")).await, Ok(at(1)));
    assert_eq!(append(answer(2, "1")).await, Ok(AppendResult::AlreadyAnswered));
    assert_eq!(append(answer(2, "3")).await, Ok(AppendResult::AlreadyAnswered));
    // The sequence of what was not appended is free.
    assert_eq!(append(answer(2, "\"two\"")).await, Ok(at(2)));
    let page = other.relay.read(&session, STREAM, START, 10).await.unwrap().unwrap();
    assert_eq!(page.events.iter().map(|event| event.is_answer).collect::<Vec<_>>(), [true, true]);
    assert!(other.relay.streams(&session).await.unwrap()[0].pending.is_empty());
    // Of several that answer with their own sequences, one does.
    let next = NewStream::of_requests(StreamNumber::new(1, 2), pending(&["4"]));
    node.relay.open_stream(&session, &owner, &next).await.unwrap();
    let answers: Vec<_> = (0..4).map(|_| answer(1, "4")).collect();
    let appended =
        join_all(answers.iter().map(|event| node.relay.append(&session, &owner, next.number, event)));
    assert!(appended.await.iter().all(Result::is_ok));
    let page = other.relay.read(&session, next.number, START, 10).await.unwrap().unwrap();
    assert_eq!(page.events.len(), 1);
}

async fn old_events_are_dropped_and_the_reader_is_told(fleet: TestFleet) {
    let node = fleet.node().await;
    let (session, owner) = open(&node, &[]).await;
    say(&node, &session, &owner, 1..=4).await;
    assert!(!read(&*node.relay, &session, 0, 10).await.1);
    say(&node, &session, &owner, 5..=6).await;
    let (events, is_trimmed) = read(&*node.relay, &session, 0, 10).await;
    assert_eq!((events.len(), events[0].as_str(), is_trimmed), (4, "3", true));
    assert!(read(&*node.relay, &session, 1, 10).await.1);
    // The reader has seen all that was dropped.
    assert!(!read(&*node.relay, &session, 2, 10).await.1);
}

async fn a_stream_keeps_its_last_event_whatever_its_size(fleet: TestFleet) {
    let node = fleet.node().await;
    let (session, owner) = open(&node, &[]).await;
    say(&node, &session, &owner, 1..=2).await;
    let event = NewEvent::new(3, EventKind::Message, &[b'x'; 9_000]);
    node.relay.append(&session, &owner, STREAM, &event).await.unwrap();
    let (events, is_trimmed) = read(&*node.relay, &session, 0, 10).await;
    assert_eq!((events.len(), events[0].len(), is_trimmed), (1, 9_000, true));
    say(&node, &session, &owner, [4]).await;
    assert_eq!(read(&*node.relay, &session, 3, 10).await, (vec!["4".to_owned()], false));
}

async fn unknown_streams_have_no_events(fleet: TestFleet) {
    let node = fleet.node().await;
    let (session, owner) = open(&node, &[]).await;
    let other = StreamNumber::new(1, 2);
    assert_eq!(node.relay.read(&session, other, START, 1).await, Ok(None));
    assert_eq!(node.relay.read(&SessionKey::new(None, "s"), STREAM, START, 1).await, Ok(None));
    let event = NewEvent::new(1, EventKind::Message, b"x");
    assert_eq!(node.relay.append(&session, &owner, other, &event).await, Err(RelayError::Gone));
}

async fn an_adopter_goes_on_where_the_dead_owner_stopped(fleet: TestFleet) {
    let (node, other) = (fleet.node().await, fleet.node().await);
    let (session, owner) = open(&node, &["1", "2"]).await;
    let listen = NewStream::listen(StreamNumber::new(1, 2));
    node.relay.open_stream(&session, &owner, &listen).await.unwrap();
    say(&node, &session, &owner, 1..=2).await;
    let answer = NewEvent::new(3, EventKind::Answer("1"), b"answer");
    node.relay.append(&session, &owner, STREAM, &answer).await.unwrap();
    node.die().await;
    let now = other.relay.adopt(&session, &owner, &other.id).await.unwrap().owner;
    let streams = other.relay.streams(&session).await.unwrap();
    let [requests, changes] = streams.as_slice() else { panic!("{streams:?}") };
    assert_eq!((requests.number, requests.kind, requests.last.sequence), (STREAM, StreamKind::Requests, 3));
    assert_eq!(requests.pending, pending(&["2"]));
    assert_eq!((changes.kind, changes.last, changes.pending.len()), (StreamKind::Listen, START, 0));
    let unknown = NewEvent::new(4, EventKind::Answer("2"), b"outcome unknown");
    let position = EventPosition { epoch: 2, sequence: 4 };
    assert_eq!(other.relay.append(&session, &now, STREAM, &unknown).await, Ok(AppendResult::At(position)));
    let late = NewEvent::new(4, EventKind::Answer("2"), b"late");
    let refused = node.relay.append(&session, &owner, STREAM, &late).await;
    assert_eq!(refused, Err(RelayError::Fenced { now: Some(now) }));
    let page = other.relay.read(&session, STREAM, START, 10).await.unwrap().unwrap();
    let positions: Vec<_> = page.events.iter().map(|event| event.position).collect();
    assert!(positions.is_sorted() && positions.last() == Some(&position), "{positions:?}");
    assert_eq!(page.events[3].payload, b"outcome unknown");
}

async fn finished_streams_make_room(fleet: TestFleet) {
    let node = fleet.node().await;
    let (session, owner) = node.open("s").await;
    let number = |counter| StreamNumber::new(1, counter);
    let listen = NewStream::listen(number(1));
    let requests = |counter, ids: &[&str]| NewStream::of_requests(number(counter), pending(ids));
    for stream in [listen.clone(), requests(9, &["1"]), requests(10, &["2"])] {
        node.relay.open_stream(&session, &owner, &stream).await.unwrap();
    }
    for (counter, request) in [(10, "2"), (9, "1")] {
        let answer = NewEvent::new(1, EventKind::Answer(request), b"x");
        node.relay.append(&session, &owner, number(counter), &answer).await.unwrap();
    }
    let numbers = async || {
        let streams = node.relay.streams(&session).await.unwrap();
        streams.iter().map(|stream| stream.number.counter).collect::<Vec<_>>()
    };
    // The oldest one of requests goes, then the stream of messages, and none that still owes an answer.
    node.relay.open_stream(&session, &owner, &requests(11, &["3"])).await.unwrap();
    assert_eq!(numbers().await, [1, 10, 11]);
    node.relay.open_stream(&session, &owner, &requests(12, &["4"])).await.unwrap();
    assert_eq!(numbers().await, [1, 11, 12]);
    node.relay.open_stream(&session, &owner, &requests(13, &["5"])).await.unwrap();
    assert_eq!(numbers().await, [11, 12, 13]);
    let refused = node.relay.open_stream(&session, &owner, &listen).await;
    assert_eq!(refused, Err(RelayError::LimitExceeded { limit: "max_streams", maximum: 3 }));
    assert_eq!(node.relay.read(&session, number(10), START, 1).await, Ok(None));
}

/// A client that opens one stream of changes after the other can still resume the stream of its last request.
async fn streams_of_changes_leave_room(fleet: TestFleet) {
    let node = fleet.node().await;
    let (session, owner) = node.open("s").await;
    let number = |counter| StreamNumber::new(1, counter);
    for stream in [
        NewStream::listen(number(1)),
        NewStream::listen(number(2)),
        NewStream::of_requests(number(3), pending(&["1"])),
    ] {
        node.relay.open_stream(&session, &owner, &stream).await.unwrap();
    }
    let answer = NewEvent::new(1, EventKind::Answer("1"), b"x");
    node.relay.append(&session, &owner, number(3), &answer).await.unwrap();
    let next = NewStream::of_requests(number(4), pending(&["2"]));
    node.relay.open_stream(&session, &owner, &next).await.unwrap();
    let streams = node.relay.streams(&session).await.unwrap();
    assert_eq!(streams.iter().map(|stream| stream.number.counter).collect::<Vec<_>>(), [2, 3, 4]);
}

async fn streams_of_earlier_epochs_go_first(fleet: TestFleet) {
    let node = fleet.node().await;
    let (session, owner) = node.open("s").await;
    let numbers =
        [StreamNumber::new(2, 1), StreamNumber::new(1, 9), StreamNumber::new(10, 1), StreamNumber::new(3, 1)];
    for number in numbers {
        node.relay.open_stream(&session, &owner, &NewStream::of_requests(number, Vec::new())).await.unwrap();
    }
    let streams = node.relay.streams(&session).await.unwrap();
    let left: Vec<_> = streams.iter().map(|stream| (stream.number.epoch, stream.number.counter)).collect();
    assert_eq!(left, [(2, 1), (3, 1), (10, 1)]);
}

async fn pending_answers_are_bounded(fleet: TestFleet) {
    let node = fleet.node().await;
    let (session, owner) = open(&node, &["1", "2", "3"]).await;
    let stream = NewStream::of_requests(StreamNumber::new(1, 2), pending(&["4", "5", "6"]));
    let refused = node.relay.open_stream(&session, &owner, &stream).await;
    assert_eq!(refused, Err(RelayError::LimitExceeded { limit: "max_pending_answers", maximum: 5 }));
    assert_eq!(node.relay.streams(&session).await.unwrap().len(), 1);
}

async fn large_events_are_refused(fleet: TestFleet) {
    let node = fleet.node().await;
    let (session, owner) = open(&node, &["1"]).await;
    let refused = RelayError::LimitExceeded { limit: "max_payload_bytes", maximum: 10_000 };
    let event = NewEvent::new(1, EventKind::Answer("1"), &[0; 10_001]);
    assert_eq!(node.relay.append(&session, &owner, STREAM, &event).await, Err(refused.clone()));
    let request = "1".repeat(10_001);
    let stream = NewStream::of_requests(StreamNumber::new(1, 2), pending(&[&request]));
    assert_eq!(node.relay.open_stream(&session, &owner, &stream).await, Err(refused));
    assert_eq!(node.relay.streams(&session).await.unwrap()[0].pending, pending(&["1"]));
}
