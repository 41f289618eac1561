//! From bytes to messages and back: newline framing for stdio, Server-Sent Events for HTTP.

pub mod line;
mod peek;
pub mod sse;

pub use line::{DEFAULT_MAX_MESSAGE_BYTES, Line, LineFramer, MAX_SKIPPED, end_line};
pub use peek::{Oversize, Subject};
pub use sse::{Event, EventHead, SseDecoder};
