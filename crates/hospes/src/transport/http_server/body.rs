//! The body of a response: nothing, a text of known length, or a stream of events.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use hospes_proto::frame::sse;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::active_request::ActiveRequest;
use super::answered_events::AnsweredEvents;

/// Maximum size of one chunk of an event stream, in bytes.
const MAX_CHUNK_BYTES: usize = 64 * 1024;

/// Interval of keep-alives of a body that has none.
const NO_KEEP_ALIVE: Duration = Duration::from_secs(365 * 24 * 3600);

/// The body of a response of an [`Endpoint`](super::Endpoint).
pub struct Body(BodyKind);

enum BodyKind {
    Empty,
    Full(Bytes),
    Events(Box<EventStreamBody>),
}

/// Something that says events, one after the other.
pub(super) trait EventSource: Send {
    /// Appends what is there to `out`. Ready when nothing comes after it. Must not be called again then.
    fn poll_events(&mut self, cx: &mut TaskContext<'_>, out: &mut Vec<u8>) -> Poll<()>;

    /// Returns true if the stream reports changes for as long as a client listens; other streams end themselves.
    fn is_lasting(&self) -> bool {
        true
    }

    /// It is about to be cut off, after one more poll.
    fn end(&mut self) {}

    /// Returns true if the source ends itself once told to, instead of being cut off.
    fn lingers(&self) -> bool {
        false
    }
}

struct EventStreamBody {
    /// Text before the events of the source.
    first: Vec<u8>,
    /// None when it has ended.
    source: Option<Box<dyn EventSource>>,
    keep_alive: Duration,
    /// Timer that runs while there is no event.
    silence: Option<Pin<Box<Sleep>>>,
    /// Time at which a lasting source is cut off.
    until: Option<Pin<Box<Sleep>>>,
    busy: Option<ActiveRequest>,
}

impl Body {
    /// No body.
    pub(super) const fn empty() -> Self {
        Self(BodyKind::Empty)
    }

    /// Creates a body of a text, sent unchanged.
    pub(super) fn full(text: impl Into<Bytes>) -> Self {
        Self(BodyKind::Full(text.into()))
    }

    /// Creates a body of `first` and the events of `source`; after each `keep_alive` without an event a comment is
    /// sent.
    pub(super) fn events(first: Vec<u8>, source: impl EventSource + 'static, keep_alive: Duration) -> Self {
        let source: Option<Box<dyn EventSource>> = Some(Box::new(source));
        Self(BodyKind::Events(Box::new(EventStreamBody {
            first,
            source,
            keep_alive,
            silence: None,
            until: None,
            busy: None,
        })))
    }

    /// Lets go of `busy` when the body has gone out.
    pub(super) fn hold(&mut self, busy: ActiveRequest) {
        if let BodyKind::Events(events) = &mut self.0 {
            events.busy = Some(busy);
        }
    }

    /// Cuts off a stream of changes then.
    pub(super) fn until(&mut self, deadline: Instant) {
        if let BodyKind::Events(events) = &mut self.0
            && events.source.as_ref().is_some_and(|source| source.is_lasting())
        {
            events.until = Some(Box::pin(tokio::time::sleep_until(deadline)));
        }
    }

    /// Creates a body of the events that another process sends. It ends when `body` ends or fails, and adds nothing to
    /// it: events may lie across its frames.
    #[must_use]
    pub fn forwarded_events<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
    {
        let source = ForwardedEvents { body: Box::pin(body) };
        Self::events(Vec::new(), source, NO_KEEP_ALIVE)
    }

    /// Ends a stream of events when `end` does, also between the frames of its source. Other bodies stay as they are.
    pub(super) fn end_with(mut self, end: BoxFuture<'static, ()>) -> Self {
        if let BodyKind::Events(events) = &mut self.0
            && let Some(source) = events.source.take()
        {
            events.source = Some(Box::new(EndedEvents { source, end }));
        }
        self
    }

    /// Adds an answer to a stream that ends without one, and that its client cannot resume. Other bodies stay as they are.
    pub(super) fn or_answer(mut self, lost: Vec<u8>) -> Self {
        if let BodyKind::Events(events) = &mut self.0
            && let Some(source) = events.source.take()
        {
            events.source = Some(Box::new(AnsweredEvents::new(source, lost)));
        }
        self
    }

    /// Events that are all there.
    pub(super) fn ended(events: Vec<u8>) -> Self {
        Self::full(events)
    }
}

impl EventStreamBody {
    fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<Option<Bytes>> {
        let mut out = std::mem::take(&mut self.first);
        let cut_off = self.until.as_mut().is_some_and(|until| until.as_mut().poll(cx).is_ready());
        if cut_off {
            self.until = None;
            if let Some(source) = &mut self.source {
                source.end();
            }
        }
        while out.len() < MAX_CHUNK_BYTES {
            let Some(source) = &mut self.source else { break };
            let before = out.len();
            match source.poll_events(cx, &mut out) {
                Poll::Ready(()) => self.source = None,
                Poll::Pending if out.len() == before => break,
                Poll::Pending => {}
            }
        }
        // After the poll, so that the last words of the source still go out.
        if cut_off && self.source.as_ref().is_some_and(|source| !source.lingers()) {
            self.source = None;
        }
        if !out.is_empty() {
            self.silence = None;
            return Poll::Ready(Some(out.into()));
        }
        if self.source.is_none() {
            return Poll::Ready(None);
        }
        let keep_alive = self.keep_alive;
        let silence = self.silence.get_or_insert_with(|| Box::pin(tokio::time::sleep(keep_alive)));
        std::task::ready!(silence.as_mut().poll(cx));
        // The next one begins with the next poll.
        self.silence = None;
        sse::write_comment(&mut out, "");
        Poll::Ready(Some(out.into()))
    }
}

/// Events of another process.
struct ForwardedEvents<B> {
    body: Pin<Box<B>>,
}

impl<B: http_body::Body<Data = Bytes> + Send> EventSource for ForwardedEvents<B> {
    fn poll_events(&mut self, cx: &mut TaskContext<'_>, out: &mut Vec<u8>) -> Poll<()> {
        while out.len() < MAX_CHUNK_BYTES {
            match std::task::ready!(self.body.as_mut().poll_frame(cx)) {
                Some(Ok(frame)) => out.extend(frame.into_data().unwrap_or_default()),
                // Its client resumes the stream.
                Some(Err(_)) | None => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Events of another process, until this one ends.
struct EndedEvents {
    source: Box<dyn EventSource>,
    end: BoxFuture<'static, ()>,
}

impl EventSource for EndedEvents {
    fn poll_events(&mut self, cx: &mut TaskContext<'_>, out: &mut Vec<u8>) -> Poll<()> {
        if self.end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        self.source.poll_events(cx, out)
    }

    fn is_lasting(&self) -> bool {
        self.source.is_lasting()
    }

    fn end(&mut self) {
        self.source.end();
    }

    fn lingers(&self) -> bool {
        self.source.lingers()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        match &mut this.0 {
            BodyKind::Empty => Poll::Ready(None),
            BodyKind::Full(text) => {
                let text = std::mem::take(text);
                this.0 = BodyKind::Empty;
                Poll::Ready((!text.is_empty()).then_some(Ok(Frame::data(text))))
            }
            BodyKind::Events(events) => {
                events.poll(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyKind::Empty => true,
            BodyKind::Full(text) => text.is_empty(),
            BodyKind::Events(events) => events.source.is_none() && events.first.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyKind::Empty => SizeHint::with_exact(0),
            BodyKind::Full(text) => SizeHint::with_exact(text.len() as u64),
            BodyKind::Events(_) => SizeHint::default(),
        }
    }
}

impl From<Bytes> for Body {
    fn from(text: Bytes) -> Self {
        Self::full(text)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            BodyKind::Empty => f.write_str("Body::Empty"),
            BodyKind::Full(text) => write!(f, "Body::Full({} bytes)", text.len()),
            BodyKind::Events(_) => f.write_str("Body::Events"),
        }
    }
}
