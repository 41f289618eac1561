//! From bytes to messages and back: newline framing for stdio, Server-Sent Events for HTTP.

pub mod line;
mod peek;
pub mod sse;

pub use line::{Line, LineFramer};
pub use peek::{Oversize, Subject};
pub use sse::{Event, EventHead, SseDecoder};
