//! Framing of messages: newlines for stdio, Server-Sent Events for HTTP.

pub mod line;
mod peek;
pub mod sse;

pub use line::{DEFAULT_MAX_MESSAGE_BYTES, FramedLine, LineFramer, MAX_OVERSIZE_FACTOR, end_line};
pub use peek::{OversizeMessage, OversizeSubject};
pub use sse::{SseDecoder, SseEvent, SseEventHead};
