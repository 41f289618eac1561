//! The Streamable HTTP transport, serving side: both eras on one path; and HTTP+SSE, its predecessor, beside it.

mod active_request;
mod answered_events;
mod body;
mod call_guard;
mod caller;
mod calls;
mod cors;
mod endpoint;
mod endpoint_inner;
mod endpoint_set;
mod event_log;
mod limits;
mod listen;
mod middleware;
mod outcome_unknown;
mod post;
mod receive;
mod request_route;
mod response;
mod server;
mod session_handover;
mod session_route;
mod session_share;
mod sessions;
mod settings;
mod shared_log;
pub mod shared_sessions;
mod sse;
mod sse_share;
mod sse_transport;
#[cfg(test)]
mod tests;

pub use body::Body;
pub use call_guard::{CallGuard, RejectionResponse, StreamDeadline};
pub use caller::{CallerLabel, Principal, PrincipalGroups};
pub use endpoint::Endpoint;
pub use endpoint_set::EndpointSet;
pub use hospes_proto::http::{AllowedHosts, AllowedOrigins};
pub use middleware::{ConnectionLocal, HttpMiddleware, MiddlewareFuture, RemoteAddress};
pub use server::{DEFAULT_IDLE_TIMEOUT, DEFAULT_MAX_CONNECTIONS, DEFAULT_SHUTDOWN_TIMEOUT, HttpServer};
pub use settings::{
    DEFAULT_BODY_TIMEOUT, DEFAULT_KEEP_ALIVE, DEFAULT_MAX_BUFFERED_BYTES, DEFAULT_MAX_CONCURRENT_CALLS,
    DEFAULT_MAX_MESSAGE_BYTES, DEFAULT_MAX_SESSIONS, DEFAULT_PATH, DEFAULT_RETRY,
    DEFAULT_SESSION_IDLE_TIMEOUT, DEFAULT_STREAM_AFTER, EndpointBuilder,
};
