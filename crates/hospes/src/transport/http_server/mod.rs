//! The Streamable HTTP transport, serving side: both eras on one path; and HTTP+SSE, its predecessor, beside it.

mod body;
mod calls;
mod cors;
mod endpoint;
mod event_log;
mod listen;
mod middleware;
mod post;
mod receive;
mod server;
mod sessions;
mod settings;
mod sse;
#[cfg(test)]
mod tests;

pub use body::Body;
pub use endpoint::{CallerLabel, Endpoint, Principal};
pub use hospes_proto::http::{AllowedHosts, AllowedOrigins};
pub use middleware::{
    CallGuard, ConnectionLocal, HttpMiddleware, MiddlewareFuture, RejectionResponse, RemoteAddress,
    StreamDeadline,
};
pub use server::{DEFAULT_IDLE_TIMEOUT, DEFAULT_MAX_CONNECTIONS, DEFAULT_SHUTDOWN_TIMEOUT, HttpServer};
pub use settings::{
    DEFAULT_BODY_TIMEOUT, DEFAULT_KEEP_ALIVE, DEFAULT_MAX_BUFFERED_BYTES, DEFAULT_MAX_CONCURRENT_CALLS,
    DEFAULT_MAX_MESSAGE_BYTES, DEFAULT_MAX_SESSIONS, DEFAULT_PATH, DEFAULT_RETRY,
    DEFAULT_SESSION_IDLE_TIMEOUT, DEFAULT_STREAM_AFTER, EndpointBuilder,
};
