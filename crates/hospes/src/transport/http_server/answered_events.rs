//! Events of another process, with an answer of this one if they end without one.

use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use hospes_proto::frame::SseDecoder;
use hospes_proto::frame::sse::{SseEventHead, write_event};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::body::EventSource;

/// Longest beginning of an event that is held back until its end is there, in bytes. What follows a longer one that is
/// cut off cannot be told from it, so nothing is added then.
const MAX_HELD_BYTES: usize = 1024 * 1024;

/// End of an event, as this program writes it.
const EVENT_END: &[u8] = b"\n\n";

/// Source that passes whole events on until the process that sends them has answered.
pub(super) struct AnsweredEvents {
    source: Box<dyn EventSource>,
    /// Answer that is added at the end; `None` once it is not needed.
    lost: Option<Vec<u8>>,
    /// Beginning of an event.
    held: Vec<u8>,
    decoder: SseDecoder,
}

impl AnsweredEvents {
    /// Adds the JSON text `lost` if the source ends without an answer, and without an event id after which its client
    /// could resume.
    pub(super) fn new(source: Box<dyn EventSource>, lost: Vec<u8>) -> Self {
        Self { source, lost: Some(lost), held: Vec::new(), decoder: SseDecoder::new(MAX_HELD_BYTES) }
    }

    /// Looks at whole events.
    fn look(&mut self, events: &[u8]) {
        let mut chunk = Bytes::copy_from_slice(events);
        while let Some(event) = self.decoder.poll_event(&mut chunk) {
            let is_answer = match event {
                Ok(event) => is_answer(event.data.as_deref().unwrap_or_default()),
                Err(oversize) => oversize.response().is_some(),
            };
            if is_answer {
                self.lost = None;
            }
        }
        if !self.decoder.last_event_id().is_empty() {
            self.lost = None;
        }
    }
}

/// Returns true for a response, which has no method.
fn is_answer(data: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct MessagePeek {
        method: Option<IgnoredAny>,
    }
    match data.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => {
            serde_json::from_slice::<MessagePeek>(data).is_ok_and(|message| message.method.is_none())
        }
        // A batch of 2025-03-26 may have some of the answers.
        byte => byte.is_some(),
    }
}

impl EventSource for AnsweredEvents {
    fn poll_events(&mut self, cx: &mut TaskContext<'_>, out: &mut Vec<u8>) -> Poll<()> {
        if self.lost.is_none() {
            return self.source.poll_events(cx, out);
        }
        let polled = self.source.poll_events(cx, &mut self.held);
        if let Some(end) = memchr::memmem::rfind(&self.held, EVENT_END) {
            let rest = self.held.split_off(end + EVENT_END.len());
            let whole = std::mem::replace(&mut self.held, rest);
            self.look(&whole);
            out.extend(whole);
        }
        if self.held.len() > MAX_HELD_BYTES {
            self.lost = None;
        }
        if self.lost.is_none() {
            out.append(&mut self.held);
        }
        if polled.is_ready()
            && let Some(lost) = self.lost.take()
        {
            write_event(out, SseEventHead::default(), &lost);
        }
        polled
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

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRESS: &str = "data: {\"method\":\"notifications/progress\"}\n\n";
    const ANSWER: &str = "data: {\"id\":1,\"result\":{}}\n\n";

    struct Pieces(Vec<&'static str>);

    impl EventSource for Pieces {
        fn poll_events(&mut self, _: &mut TaskContext<'_>, out: &mut Vec<u8>) -> Poll<()> {
            if self.0.is_empty() {
                return Poll::Ready(());
            }
            out.extend(self.0.remove(0).as_bytes());
            Poll::Pending
        }
    }

    fn passed(pieces: &[&'static str]) -> String {
        let mut events = AnsweredEvents::new(Box::new(Pieces(pieces.to_vec())), b"\"lost\"".to_vec());
        let (mut out, mut cx) = (Vec::new(), TaskContext::from_waker(std::task::Waker::noop()));
        while events.poll_events(&mut cx, &mut out).is_pending() {}
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_stream_that_ends_without_an_answer_gets_one() {
        assert_eq!(passed(&[]), "data: \"lost\"\n\n");
        assert_eq!(passed(&[": \n\n", PROGRESS]), format!(": \n\n{PROGRESS}data: \"lost\"\n\n"));
        // Not into the middle of an event.
        assert_eq!(passed(&[PROGRESS, "data: {\"id\":1,"]), format!("{PROGRESS}data: \"lost\"\n\n"));
    }

    #[test]
    fn an_answer_is_not_followed_by_another_one() {
        assert_eq!(passed(&[PROGRESS, ANSWER]), format!("{PROGRESS}{ANSWER}"));
        let (begin, end) = ANSWER.split_at(9);
        assert_eq!(passed(&[begin, end]), ANSWER);
        assert_eq!(passed(&["data: [{\"id\":1}]\n\n"]), "data: [{\"id\":1}]\n\n");
    }

    #[test]
    fn a_stream_that_can_be_resumed_is_left_to_its_client() {
        let event = format!("id: 1-1-1\n{PROGRESS}");
        let event: &'static str = event.leak();
        assert_eq!(passed(&[event]), event);
    }
}
