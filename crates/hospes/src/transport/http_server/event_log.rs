//! Log of the events of a stream, kept for a client that lost it (HRES).

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use hospes_model::{RpcError, message};
use hospes_proto::frame::sse::{self, SseEventHead};

use super::shared_log::SharedLog;

/// The most events of one stream that are kept: the limit `max_logged_events`.
const MAX_LOGGED_EVENTS: usize = 256;
/// The most bytes of events of one stream that are kept, beyond the last one: the limit `max_logged_bytes`.
const MAX_LOGGED_BYTES: usize = 1024 * 1024;
/// The most events of one stream that wait for the directory of shared sessions; until it has some of them, the call
/// that makes them pauses.
const MAX_UNSTORED_EVENTS: u64 = 128;

/// The events of one stream. Their ids say which stream it is and where in it they stand (HRES-02..04).
///
/// An event of a session that several processes share is sent once the directory has it, which also gives it its id.
#[derive(Debug)]
pub(super) struct EventLog {
    number: u32,
    /// True for the session's stream of changes, false for a call's.
    listen: bool,
    shared: Option<Box<SharedLog>>,
    state: Mutex<EventLogState>,
}

#[derive(Debug, Default)]
struct EventLogState {
    events: VecDeque<LoggedEvent>,
    /// The position of the event that comes next; ids count from 1, 0 is where the stream begins.
    next: u64,
    /// Number of the last events that may not be sent yet: the directory does not have them.
    unstored: u64,
    bytes: usize,
    ended: bool,
    /// True if nothing is sent any more, although more may be kept: clients are to come back.
    closed: bool,
    /// Grows with every reader; a new one replaces the old one.
    readers: u32,
    waker: Option<Waker>,
    /// Waker of a writer that waits until the directory has more of the events.
    writer: Option<Waker>,
}

#[derive(Clone, Debug)]
struct LoggedEvent {
    json: Bytes,
    /// Id that the directory has given it.
    id: Option<Box<str>>,
    /// JSON text of the id of the request that it answers, while the directory does not have the event.
    answers: Option<Box<str>>,
}

/// Event that the directory does not have yet.
#[derive(Clone, Debug)]
pub(super) struct UnstoredEvent {
    pub(super) number: u64,
    pub(super) answers: Option<Box<str>>,
    pub(super) json: Bytes,
}

/// A place in a stream, as it stands in `Last-Event-ID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventCursor {
    pub(super) stream: u32,
    pub(super) position: u64,
}

impl EventCursor {
    /// Reads an id that [`EventLog`] has given out.
    pub(super) fn read(id: &str) -> Option<Self> {
        let (stream, position) = id.split_once('-')?;
        Some(Self { stream: stream.parse().ok()?, position: position.parse().ok()? })
    }
}

impl fmt::Display for EventCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream, self.position)
    }
}

impl EventLog {
    pub(super) fn new(number: u32, listen: bool) -> Self {
        let state = EventLogState { next: 1, ..EventLogState::default() };
        Self { number, listen, shared: None, state: Mutex::new(state) }
    }

    /// Creates the log of a stream that the directory keeps, too.
    pub(super) fn shared(number: u32, listen: bool, shared: SharedLog) -> Self {
        Self { shared: Some(Box::new(shared)), ..Self::new(number, listen) }
    }

    /// Creates the log of a stream that the directory has kept: its events after the number `after`.
    pub(super) fn resumed(
        number: u32,
        listen: bool,
        shared: SharedLog,
        after: u64,
        events: Vec<(Box<str>, Bytes)>,
    ) -> Self {
        let state = EventLogState {
            next: after + events.len() as u64 + 1,
            bytes: events.iter().map(|(_, json)| json.len()).sum(),
            events: events
                .into_iter()
                .map(|(id, json)| LoggedEvent { json, id: Some(id), answers: None })
                .collect(),
            // Whoever adopted the session has answered what was not answered.
            ended: !listen,
            ..EventLogState::default()
        };
        Self { number, listen, shared: Some(Box::new(shared)), state: Mutex::new(state) }
    }

    /// Returns the part of the log that the directory keeps, if the session is shared.
    pub(super) fn shared_log(&self) -> Option<&SharedLog> {
        self.shared.as_deref()
    }

    /// Returns the position that an event id names, if it is one of this stream.
    pub(super) fn position_of(&self, event_id: &str) -> Option<u64> {
        match &self.shared {
            Some(shared) => shared.stream()?.number_of(event_id),
            None => {
                let cursor = EventCursor::read(event_id)?;
                (cursor.stream == self.number).then_some(cursor.position)
            }
        }
    }

    pub(super) fn is_listen(&self) -> bool {
        self.listen
    }

    /// Returns true if a client has resumed the stream.
    pub(super) fn was_resumed(&self) -> bool {
        self.lock().readers > 0
    }

    /// Appends the event that lets a client resume before anything was said (HTTP-35, HTTP-36).
    pub(super) fn prime(&self, retry: Duration, out: &mut Vec<u8>) {
        write_prime(EventCursor { stream: self.number, position: 0 }, retry, out);
    }

    /// Keeps a message and appends its event to `out`.
    pub(super) fn append(&self, json: &[u8], out: &mut Vec<u8>) {
        let position = self.keep(json);
        write_event(EventCursor { stream: self.number, position }, json, out);
    }

    /// Keeps a message for a client that resumes the stream.
    pub(super) fn keep(&self, json: &[u8]) -> u64 {
        let mut state = self.lock();
        let position = state.push(json, None);
        wake(state);
        position
    }

    /// Keeps a message until the directory has it; then it is sent. `answers` is the JSON text of the id of the request
    /// that it answers.
    pub(super) fn store(self: &Arc<Self>, json: &[u8], answers: Option<String>) {
        let mut state = self.lock();
        state.push(json, answers.map(Into::into));
        state.unstored += 1;
        drop(state);
        SharedLog::start(self);
    }

    /// Returns true if so many events wait for the directory that no more should be made; then the task is woken once
    /// there is room.
    pub(super) fn is_congested(&self, cx: &TaskContext<'_>) -> bool {
        if self.shared.is_none() {
            return false;
        }
        let mut state = self.lock();
        let congested = state.unstored >= MAX_UNSTORED_EVENTS;
        if congested {
            state.writer = Some(cx.waker().clone());
        }
        congested
    }

    /// Returns the first event that the directory does not have.
    pub(super) fn first_unstored(&self) -> Option<UnstoredEvent> {
        let state = self.lock();
        let at = state.events.len().checked_sub(usize::try_from(state.unstored).ok()?)?;
        let event = state.events.get(at)?;
        let number = state.next - state.unstored;
        Some(UnstoredEvent { number, answers: event.answers.clone(), json: event.json.clone() })
    }

    /// The directory has the first event that it did not have, with this id; without one it does not take it, because
    /// the request was answered before.
    pub(super) fn mark_stored(&self, id: Option<Box<str>>) {
        let mut state = self.lock();
        let at = state.events.len().saturating_sub(usize::try_from(state.unstored).unwrap_or_default());
        match id {
            Some(id) => {
                if let Some(event) = state.events.get_mut(at) {
                    (event.id, event.answers) = (Some(id), None);
                }
            }
            None => {
                if let Some(event) = state.events.remove(at) {
                    state.bytes -= event.json.len();
                    // The events after it move up, and so do their numbers.
                    state.next -= 1;
                }
            }
        }
        state.unstored = state.unstored.saturating_sub(1);
        let writer = state.writer.take();
        wake(state);
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    /// Replaces the first event that the directory does not have, because it refuses it: an answer by an error, which is
    /// short. Other messages are left out.
    pub(super) fn refuse_first(&self, why: &str) {
        let mut state = self.lock();
        let at = state.events.len().saturating_sub(usize::try_from(state.unstored).unwrap_or_default());
        let Some(event) = state.events.get_mut(at) else { return };
        let id = event.answers.as_deref().and_then(|id| serde_json::from_str(id).ok());
        let mut json = Vec::new();
        if let Some(id) = &id {
            let error = RpcError::internal(format!("the answer cannot be kept: {why}"));
            message::write_error(&mut json, Some(id), &error);
        }
        // The error was refused, too, or there is none.
        if json.is_empty() || json.len() >= event.json.len() {
            drop(state);
            self.mark_stored(None);
            return;
        }
        let saved = event.json.len() - json.len();
        event.json = json.into();
        state.bytes -= saved;
    }

    /// Sends nothing more: clients are to resume the stream, here or elsewhere.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        wake(state);
    }

    /// Sends again what is kept, to the readers that come from now on.
    pub(super) fn reopen(&self) {
        self.lock().closed = false;
    }

    /// Ends the stream: no events follow. Can be called again, which wakes nobody: a reader that calls it at each poll
    /// would wake itself for as long as the directory does not have the last events.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        if !std::mem::replace(&mut state.ended, true) {
            wake(state);
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        let state = self.lock();
        state.ended && state.unstored == 0
    }

    /// Starts reading behind `position`; an earlier reader is ended.
    pub(super) fn reader(&self, position: u64) -> EventLogReader {
        let mut state = self.lock();
        state.readers += 1;
        // The position is the client's word: one from the future would skip events that are still to come.
        let position = position.min(state.next - 1);
        let reader = EventLogReader { position, number: state.readers, prime: None };
        wake(state);
        reader
    }

    /// Returns the reader of the response that opened the stream. It reads until another one does.
    pub(super) fn first_reader(&self, prime: Option<Duration>) -> EventLogReader {
        EventLogReader { position: 0, number: 0, prime }
    }

    /// Appends what `reader` has not had. Ready when nothing more will come for it.
    pub(super) fn poll(
        &self,
        reader: &mut EventLogReader,
        cx: &TaskContext<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<()> {
        let mut state = self.lock();
        if state.readers != reader.number {
            return Poll::Ready(());
        }
        self.read(&state, reader, out);
        if state.closed || (state.ended && state.unstored == 0) {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Appends what `reader` has not had so far.
    pub(super) fn catch_up(&self, reader: &mut EventLogReader, out: &mut Vec<u8>) {
        self.read(&self.lock(), reader, out);
    }

    fn read(&self, state: &EventLogState, reader: &mut EventLogReader, out: &mut Vec<u8>) {
        let stream = self.shared.as_ref().and_then(|shared| shared.stream());
        if let (Some(stream), Some(retry)) = (stream, reader.prime) {
            write_prime(stream.first_event_id(), retry, out);
            reader.prime = None;
        }
        let first = state.next - state.events.len() as u64;
        if reader.position + 1 < first {
            tracing::warn!(
                stream = self.number,
                lost = first - reader.position - 1,
                "events were discarded before the client resumed (limits max_logged_events, max_logged_bytes)"
            );
            reader.position = first - 1;
        }
        let stored = state.next - state.unstored;
        let skip = usize::try_from(reader.position + 1 - first).unwrap_or(usize::MAX);
        for event in state.events.iter().skip(skip) {
            if reader.position + 1 >= stored {
                break;
            }
            reader.position += 1;
            match &event.id {
                Some(id) => write_event(id, &event.json, out),
                None => {
                    let cursor = EventCursor { stream: self.number, position: reader.position };
                    write_event(cursor, &event.json, out);
                }
            }
        }
    }

    /// Wakes the reader.
    pub(super) fn wake(&self) {
        wake(self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, EventLogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventLogState {
    /// Keeps a message and returns its position.
    fn push(&mut self, json: &[u8], answers: Option<Box<str>>) -> u64 {
        // One event is always kept, however long: it may be the answer that the client comes back for. So is what the
        // directory does not have.
        while self.events.len() as u64 > self.unstored
            && (self.events.len() >= MAX_LOGGED_EVENTS || self.bytes + json.len() > MAX_LOGGED_BYTES)
        {
            let old = self.events.pop_front();
            self.bytes -= old.map_or(0, |event| event.json.len());
        }
        self.events.push_back(LoggedEvent { json: Bytes::copy_from_slice(json), id: None, answers });
        self.bytes += json.len();
        let position = self.next;
        self.next += 1;
        position
    }
}

/// Position of a client that reads the stream.
#[derive(Debug)]
pub(super) struct EventLogReader {
    position: u64,
    number: u32,
    /// Delay before a client resumes, until the client was told the beginning of the stream.
    prime: Option<Duration>,
}

fn write_prime(id: impl fmt::Display, retry: Duration, out: &mut Vec<u8>) {
    let head = SseEventHead { name: None, id: Some(format_args!("{id}")), retry: Some(retry) };
    sse::write_event(out, head, b"");
}

fn write_event(id: impl fmt::Display, json: &[u8], out: &mut Vec<u8>) {
    sse::write_event(out, SseEventHead { name: None, id: Some(format_args!("{id}")), retry: None }, json);
}

fn wake(mut state: MutexGuard<'_, EventLogState>) {
    let waker = state.waker.take();
    // The reader takes this lock as soon as it is woken.
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use futures::task::noop_waker;

    use super::*;

    fn read(log: &EventLog, reader: &mut EventLogReader) -> (String, bool) {
        let waker = noop_waker();
        let mut out = Vec::new();
        let ended = log.poll(reader, &TaskContext::from_waker(&waker), &mut out).is_ready();
        (String::from_utf8(out).unwrap(), ended)
    }

    /// covers: HRES-03 HRES-04 HRES-07
    #[test]
    fn a_stream_is_resumed_where_it_was_lost() {
        let log = EventLog::new(3, false);
        let mut live = Vec::new();
        log.prime(Duration::from_secs(1), &mut live);
        log.append(b"1", &mut live);
        log.append(b"2", &mut live);
        assert_eq!(
            String::from_utf8(live).unwrap(),
            "id: 3-0\nretry: 1000\ndata: \n\nid: 3-1\ndata: 1\n\nid: 3-2\ndata: 2\n\n"
        );
        let Some(EventCursor { stream: 3, position: 1 }) = EventCursor::read("3-1") else {
            panic!("a cursor")
        };
        let mut reader = log.reader(1);
        assert_eq!(read(&log, &mut reader), ("id: 3-2\ndata: 2\n\n".into(), false));
        assert_eq!(read(&log, &mut reader), (String::new(), false));
        log.keep(b"3");
        log.end();
        assert_eq!(read(&log, &mut reader), ("id: 3-3\ndata: 3\n\n".into(), true));
        // A position from the future is where the stream stands.
        assert_eq!(read(&log, &mut log.reader(u64::MAX)), (String::new(), true));
    }

    #[test]
    fn a_second_reader_sends_the_first_away() {
        let log = EventLog::new(1, false);
        let mut first = log.reader(0);
        let mut second = log.reader(0);
        log.keep(b"1");
        assert_eq!(read(&log, &mut first), (String::new(), true));
        assert_eq!(read(&log, &mut second).0, "id: 1-1\ndata: 1\n\n");
    }

    #[test]
    fn a_log_keeps_the_newest_events() {
        let log = EventLog::new(1, false);
        for n in 0..MAX_LOGGED_EVENTS + 10 {
            log.keep(n.to_string().as_bytes());
        }
        let (text, _) = read(&log, &mut log.reader(0));
        assert!(text.starts_with("id: 1-11\ndata: 10\n\n"), "{}", &text[..40]);
        log.keep(&vec![b'x'; 2 * MAX_LOGGED_BYTES]);
        let (text, _) = read(&log, &mut log.reader(0));
        assert!(text.len() > MAX_LOGGED_BYTES && text.matches("data").count() == 1);
    }

    /// The events that wait for a directory that does not answer are bounded; the writer continues once there is room.
    #[test]
    fn a_writer_pauses_while_too_many_events_wait() {
        let (waker, woken) = flag_waker();
        let cx = TaskContext::from_waker(&waker);
        let shared = SharedLog::orphan();
        let log = Arc::new(EventLog::shared(1, false, shared));
        for _ in 0..MAX_UNSTORED_EVENTS {
            assert!(!log.is_congested(&cx));
            log.store(b"{}", None);
        }
        assert!(log.is_congested(&cx));
        log.mark_stored(Some("a".into()));
        assert!(woken.load(std::sync::atomic::Ordering::SeqCst) && !log.is_congested(&cx));
        // Only what the directory has is sent.
        let mut reader = log.first_reader(None);
        assert_eq!(read(&log, &mut reader).0, "id: a\ndata: {}\n\n");
    }

    #[test]
    fn a_reader_is_woken_once_by_the_end_of_a_stream() {
        let (waker, woken) = flag_waker();
        let log = Arc::new(EventLog::shared(1, false, SharedLog::orphan()));
        log.store(b"{}", None);
        let mut reader = log.first_reader(None);
        let mut is_woken_by_end = || {
            assert!(log.poll(&mut reader, &TaskContext::from_waker(&waker), &mut Vec::new()).is_pending());
            woken.store(false, std::sync::atomic::Ordering::SeqCst);
            log.end();
            woken.load(std::sync::atomic::Ordering::SeqCst)
        };
        assert_eq!((is_woken_by_end(), is_woken_by_end()), (true, false));
    }

    fn flag_waker() -> (Waker, Arc<std::sync::atomic::AtomicBool>) {
        struct Flag(Arc<std::sync::atomic::AtomicBool>);
        impl std::task::Wake for Flag {
            fn wake(self: Arc<Self>) {
                self.0.store(true, std::sync::atomic::Ordering::SeqCst);
            }
        }
        let flag = Arc::<std::sync::atomic::AtomicBool>::default();
        (Arc::new(Flag(Arc::clone(&flag))).into(), flag)
    }

    #[test]
    fn what_is_no_cursor_is_none() {
        for id in ["", "1", "-1", "1-", "a-1", "1-a", "1-1-1", "99999999999-1"] {
            assert_eq!(EventCursor::read(id), None, "{id}");
        }
    }
}
