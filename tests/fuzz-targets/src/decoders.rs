//! Bytes to messages.

use bytes::Bytes;
use hospes::serde::de::IgnoredAny;
use hospes_model::message::{self, DecodeError, Frame};
use hospes_model::{JsonRpcMessage, code};
use hospes_proto::frame::{FramedLine, LineFramer, SseDecoder};

/// A message is read, or refused with the code that JSON-RPC has for it.
pub(crate) fn envelope(data: &[u8]) {
    let json = if serde_json::from_slice::<IgnoredAny>(data).is_err() {
        Some(false)
    } else {
        // Half a surrogate pair and what is no UTF-8 are JSON only to those who do not look.
        let sound = std::str::from_utf8(data).is_ok_and(|text| !text.contains("\\u"));
        sound.then_some(true)
    };
    match message::decode(data) {
        Ok(frame) => {
            assert!(json != Some(false), "read as a message, and no JSON");
            match frame {
                Frame::Single(message) => single(&message),
                Frame::Batch(parts) => {
                    assert!(!parts.is_empty() && parts.len() <= message::MAX_BATCH);
                    for part in parts {
                        match part {
                            Ok(message) => single(&message),
                            Err(fault) => refused(&fault, None),
                        }
                    }
                }
            }
        }
        Err(fault) => refused(&fault, json),
    }
}

/// An id is written as it can be read again.
fn single(message: &JsonRpcMessage<'_>) {
    let id = match message {
        JsonRpcMessage::Request(request) => Some(&request.id),
        JsonRpcMessage::Response(response) => response.id.as_ref(),
        JsonRpcMessage::Notification(_) => None,
    };
    if let Some(id) = id {
        let mut out = Vec::new();
        let Ok(()) = message::write_result(&mut out, id, |out| {
            out.extend_from_slice(b"{}");
            Ok::<(), std::convert::Infallible>(())
        });
        let Ok(Frame::Single(JsonRpcMessage::Response(again))) = message::decode(&out) else {
            panic!("an answer of ours is none: {}", String::from_utf8_lossy(&out));
        };
        assert_eq!(again.id.as_ref(), Some(id));
    }
}

/// `json` is whether it was JSON, where that is known.
fn refused(fault: &DecodeError, json: Option<bool>) {
    let codes: &[i64] = match json {
        Some(true) => &[code::INVALID_REQUEST],
        Some(false) => &[code::PARSE_ERROR],
        None => &[code::INVALID_REQUEST, code::PARSE_ERROR],
    };
    assert!(codes.contains(&fault.error.code), "{fault}");
    let mut out = Vec::new();
    message::write_error(&mut out, fault.id.as_ref(), &fault.error);
    assert!(matches!(message::decode(&out), Ok(Frame::Single(JsonRpcMessage::Response(_)))));
}

/// Checks that the lines are the same however the bytes are cut. A line over the limit is dropped and the others stay
/// whole.
pub(crate) fn lines(data: &[u8]) {
    let [limit, step, data @ ..] = data else { return };
    let (limit, step) = (usize::from(*limit), usize::from(*step).max(1));
    let cut = |step: usize| {
        let mut framer = LineFramer::new(limit);
        let mut lines = Vec::new();
        for piece in data.chunks(step) {
            framer.buffer().extend_from_slice(piece);
            while let Some(line) = framer.poll_line() {
                lines.push(line);
            }
        }
        lines.extend(framer.finish());
        let kept = |line| match line {
            FramedLine::Message(text) => Some(text),
            FramedLine::Oversize(_) => None,
        };
        lines.into_iter().map(kept).collect::<Vec<Option<Bytes>>>()
    };
    let whole = cut(data.len().max(1));
    assert_eq!(whole, cut(step));
    for text in whole.iter().flatten() {
        assert!(text.len() <= limit && !text.contains(&b'\n') && !text.trim_ascii().is_empty());
    }
}

/// Checks that the events are the same however the bytes are cut.
pub(crate) fn events(data: &[u8]) {
    let [limit, step, data @ ..] = data else { return };
    let (limit, step) = (usize::from(*limit) * 4, usize::from(*step).max(1));
    let cut = |step: usize| {
        let mut decoder = SseDecoder::new(limit);
        let mut events = Vec::new();
        for piece in data.chunks(step) {
            let mut piece = Bytes::copy_from_slice(piece);
            while let Some(event) = decoder.poll_event(&mut piece) {
                events.push((event.ok(), decoder.last_event_id().to_owned()));
            }
        }
        events
    };
    let whole = cut(data.len().max(1));
    assert_eq!(whole, cut(step));
    for (event, _) in whole {
        assert!(event.and_then(|event| event.data).is_none_or(|data| data.len() <= limit));
    }
}
