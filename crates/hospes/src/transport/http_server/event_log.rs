//! Log of the events of a stream, kept for a client that lost it (HRES).

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use hospes_proto::frame::sse::{self, SseEventHead};

/// The most events of one stream that are kept: the limit `max_logged_events`.
const MAX_LOGGED_EVENTS: usize = 256;
/// The most bytes of events of one stream that are kept, beyond the last one: the limit `max_logged_bytes`.
const MAX_LOGGED_BYTES: usize = 1024 * 1024;

/// The events of one stream. Their ids say which stream it is and where in it they stand (HRES-02..04).
#[derive(Debug)]
pub(super) struct EventLog {
    number: u32,
    /// True for the session's stream of changes, false for a call's.
    listen: bool,
    state: Mutex<EventLogState>,
}

#[derive(Debug, Default)]
struct EventLogState {
    events: VecDeque<Bytes>,
    /// The position of the event that comes next; ids count from 1, 0 is where the stream begins.
    next: u64,
    bytes: usize,
    ended: bool,
    /// Grows with every reader; a new one replaces the old one.
    readers: u32,
    waker: Option<Waker>,
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
        Self { number, listen, state: Mutex::new(EventLogState { next: 1, ..EventLogState::default() }) }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
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
        let id = EventCursor { stream: self.number, position: 0 };
        sse::write_event(
            out,
            SseEventHead { name: None, id: Some(format_args!("{id}")), retry: Some(retry) },
            b"",
        );
    }

    /// Keeps a message and appends its event to `out`.
    pub(super) fn append(&self, json: &[u8], out: &mut Vec<u8>) {
        let position = self.keep(json);
        write_event(EventCursor { stream: self.number, position }, json, out);
    }

    /// Keeps a message for a client that resumes the stream.
    pub(super) fn keep(&self, json: &[u8]) -> u64 {
        let mut state = self.lock();
        // One event is always kept, however long: it may be the answer that the client comes back for.
        while !state.events.is_empty()
            && (state.events.len() >= MAX_LOGGED_EVENTS || state.bytes + json.len() > MAX_LOGGED_BYTES)
        {
            let old = state.events.pop_front();
            state.bytes -= old.map_or(0, |event| event.len());
        }
        state.events.push_back(Bytes::copy_from_slice(json));
        state.bytes += json.len();
        let position = state.next;
        state.next += 1;
        wake(state);
        position
    }

    /// Nothing comes any more.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        wake(state);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// Starts reading behind `position`; an earlier reader is ended.
    pub(super) fn reader(&self, position: u64) -> EventLogReader {
        let mut state = self.lock();
        state.readers += 1;
        // The position is the client's word: one from the future would skip events that are still to come.
        let reader = EventLogReader { position: position.min(state.next - 1), number: state.readers };
        wake(state);
        reader
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
        if state.ended {
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
        let first = state.next - state.events.len() as u64;
        if reader.position + 1 < first {
            tracing::warn!(
                stream = self.number,
                lost = first - reader.position - 1,
                "events were discarded before the client resumed (limits max_logged_events, max_logged_bytes)"
            );
            reader.position = first - 1;
        }
        let skip = usize::try_from(reader.position + 1 - first).unwrap_or(usize::MAX);
        for json in state.events.iter().skip(skip) {
            reader.position += 1;
            write_event(EventCursor { stream: self.number, position: reader.position }, json, out);
        }
    }

    fn lock(&self) -> MutexGuard<'_, EventLogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Position of a client that has resumed the stream.
#[derive(Debug)]
pub(super) struct EventLogReader {
    position: u64,
    number: u32,
}

fn write_event(id: EventCursor, json: &[u8], out: &mut Vec<u8>) {
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

    #[test]
    fn what_is_no_cursor_is_none() {
        for id in ["", "1", "-1", "1-", "a-1", "1-a", "1-1-1", "99999999999-1"] {
            assert_eq!(EventCursor::read(id), None, "{id}");
        }
    }
}
