//! Events in, messages out.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use hospes_proto::frame::{OversizeMessage, SseDecoder};
use hyper::body::{Body as _, Incoming};

use crate::client::transport::http::pool::HttpConnection;

/// Maximum number of frames without content read in one poll, so that time limits are checked in between.
const MAX_FRAMES_PER_POLL: usize = 16;

/// Cuts a body into messages.
#[derive(Debug)]
pub(super) struct SseReader {
    decoder: SseDecoder,
    chunk: Bytes,
    last_id: String,
    retry: Option<Duration>,
    limit: usize,
    /// True if more has arrived than one poll reads.
    pub(super) crowded: bool,
}

/// Content of an event.
#[derive(Debug)]
pub(super) enum SseItem {
    Message(Bytes),
    Oversize(OversizeMessage),
    /// URL for messages (HTTP+SSE).
    Endpoint(Bytes),
    /// Nothing but a sign of life.
    Mark,
}

impl SseReader {
    pub(super) fn new(limit: usize) -> Self {
        let decoder = SseDecoder::new(limit);
        Self { decoder, chunk: Bytes::new(), last_id: String::new(), retry: None, limit, crowded: false }
    }

    /// A new body follows; where the last one stopped is remembered.
    pub(super) fn begin(&mut self) {
        self.decoder = SseDecoder::new(self.limit);
        self.chunk = Bytes::new();
    }

    pub(super) fn last_event_id(&self) -> &str {
        &self.last_id
    }

    pub(super) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// The next item; none at the body's end, however it came about.
    pub(super) async fn next(
        &mut self,
        body: &mut Incoming,
        connection: &mut HttpConnection,
    ) -> Option<SseItem> {
        poll_fn(|cx| self.poll_next(body, connection, cx)).await
    }

    pub(super) fn poll_next(
        &mut self,
        body: &mut Incoming,
        connection: &mut HttpConnection,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<SseItem>> {
        let mut frames = 0;
        self.crowded = false;
        loop {
            if let Some(event) = self.decoder.poll_event(&mut self.chunk) {
                let event = match event {
                    Ok(event) => event,
                    Err(over) => return Poll::Ready(Some(SseItem::Oversize(over))),
                };
                if event.has_id {
                    self.last_id.clear();
                    self.last_id.push_str(self.decoder.last_event_id());
                }
                self.retry = event.retry.or(self.retry);
                let item = match event.data {
                    Some(data) if !data.is_empty() && event.name() == "message" => SseItem::Message(data),
                    Some(data) if event.name() == "endpoint" => SseItem::Endpoint(data),
                    _ => SseItem::Mark,
                };
                return Poll::Ready(Some(item));
            }
            if frames == MAX_FRAMES_PER_POLL {
                self.crowded = true;
                // What has arrived wakes nobody a second time.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            frames += 1;
            let frame = match connection.poll_drive(cx, |cx| Pin::new(&mut *body).poll_frame(cx)) {
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(_) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            };
            if let Ok(data) = frame.into_data() {
                self.chunk = data;
            }
        }
    }
}
