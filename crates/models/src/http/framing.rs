//! Splitting of an answer into its pieces.

use bytes::{Bytes, BytesMut};
use hospes_proto::frame::{FramedLine, LineFramer, SseDecoder};
use http::Response;
use http::header::CONTENT_TYPE;
use serde_json::value::RawValue;

use crate::answer_draft::ReadError;

/// Streaming format of a provider, used if its response does not declare one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamStyle {
    /// Server-Sent Events.
    Events,
    /// One JSON text a line.
    Lines,
}

impl StreamStyle {
    pub(super) fn accept(self) -> &'static str {
        match self {
            Self::Events => "text/event-stream, application/json;q=0.9",
            Self::Lines => "application/x-ndjson, application/json;q=0.9",
        }
    }
}

/// Splits an answer into its pieces.
#[derive(Debug)]
pub(crate) enum AnswerFraming {
    /// Server-Sent Events.
    Events(Box<SseDecoder>),
    /// One JSON text a line.
    Lines(LineFramer),
    /// JSON that is parsed at its end: one text, several, or one array of them.
    Whole(BytesMut),
}

/// Reasons an answer cannot be read further.
#[derive(Debug, PartialEq)]
pub(crate) enum FramingError {
    Read(ReadError),
    TooLong,
}

impl From<ReadError> for FramingError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

type PieceHandler<'a> = dyn FnMut(&[u8]) -> Result<(), ReadError> + 'a;

impl AnswerFraming {
    /// Creates the framing that the response declares. The provider's own style is used if the declared type is
    /// unknown.
    pub(super) fn of<B>(response: &Response<B>, style: StreamStyle, limit: usize) -> Self {
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match (kind.as_str(), style) {
            ("text/event-stream", _) => Self::new(StreamStyle::Events, limit),
            ("application/x-ndjson" | "application/jsonl" | "application/x-jsonlines", _) => {
                Self::new(StreamStyle::Lines, limit)
            }
            // A server that does not stream sends the whole answer as one text.
            ("application/json", _) => Self::Whole(BytesMut::new()),
            (_, style) => Self::new(style, limit),
        }
    }

    pub(super) fn new(style: StreamStyle, limit: usize) -> Self {
        match style {
            StreamStyle::Events => Self::Events(Box::new(SseDecoder::new(limit))),
            StreamStyle::Lines => Self::Lines(LineFramer::new(limit)),
        }
    }

    /// Adds a chunk of the answer. The caller limits its total size.
    pub(super) fn feed(&mut self, mut chunk: Bytes, read: &mut PieceHandler<'_>) -> Result<(), FramingError> {
        match self {
            Self::Events(decoder) => {
                while let Some(event) = decoder.poll_event(&mut chunk) {
                    let event = event.map_err(|_| FramingError::TooLong)?;
                    if let Some(data) = event.data.filter(|data| !data.trim_ascii().is_empty()) {
                        read(&data)?;
                    }
                }
                Ok(())
            }
            Self::Lines(framer) => {
                framer.buffer().extend_from_slice(&chunk);
                while let Some(line) = framer.poll_line() {
                    Self::line(line, read)?;
                }
                Ok(())
            }
            Self::Whole(text) => {
                text.extend_from_slice(&chunk);
                Ok(())
            }
        }
    }

    /// Handles the end of the answer.
    pub(super) fn finish(&mut self, read: &mut PieceHandler<'_>) -> Result<(), FramingError> {
        match self {
            // Some servers omit the blank line after the last event. Data that is cut inside an event is invalid JSON;
            // the caller notices that the answer is incomplete.
            Self::Events(_) => {
                let mut lenient = |json: &[u8]| match read(json) {
                    Err(ReadError::Malformed(_)) => Ok(()),
                    other => other,
                };
                self.feed(Bytes::from_static(b"\n\n"), &mut lenient)
            }
            Self::Lines(framer) => {
                let mut lenient = |json: &[u8]| match read(json) {
                    Err(ReadError::Malformed(_)) => Ok(()),
                    other => other,
                };
                framer.finish().map_or(Ok(()), |line| Self::line(line, &mut lenient))
            }
            Self::Whole(text) => {
                let text = std::mem::take(text);
                for json in serde_json::Deserializer::from_slice(&text).into_iter::<&RawValue>() {
                    let json = json.map_err(|error| FramingError::Read(ReadError::json(&error)))?;
                    match json.get().as_bytes() {
                        [b'[', ..] => {
                            let parts: Vec<&RawValue> =
                                serde_json::from_str(json.get()).map_err(|e| ReadError::json(&e))?;
                            parts.into_iter().try_for_each(|part| read(part.get().as_bytes()))?;
                        }
                        json => read(json)?,
                    }
                }
                Ok(())
            }
        }
    }

    fn line(line: FramedLine, read: &mut PieceHandler<'_>) -> Result<(), FramingError> {
        match line {
            FramedLine::Message(json) => Ok(read(&json)?),
            FramedLine::Oversize(_) => Err(FramingError::TooLong),
        }
    }
}
