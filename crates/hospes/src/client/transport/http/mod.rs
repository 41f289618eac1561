//! The Streamable HTTP transport, calling side: one POST for each message, answers as JSON or as a stream, both eras.
//! HTTP+SSE, its predecessor, is in [`sse`].

mod active_call;
mod answer;
mod authorization_wait;
mod authorize;
mod call;
mod event_stream;
mod http_link;
mod link_shared;
mod mailbox;
mod pool;
mod reader;
mod request_subject;
mod session;
mod session_lifecycle;
mod sse;
mod stream;
mod unsolicited;

pub(crate) use http_link::HttpLink;
