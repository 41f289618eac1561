//! Streamable HTTP, before and after the handler: who may come in, in which era, and with which headers.
//!
//! Pure functions from headers and body to "admitted" or [`Rejection`]; they allocate only to say no.

mod admission;
mod facts;
pub mod headers;
mod media;
mod mirror;
mod peers;
mod status;

pub use admission::{Admission, Head, Route, SseEndpoint, Verb};
pub use facts::Facts;
pub use headers::{SessionId, decode_value, encode_value};
pub use media::{Accepts, is_json};
pub use mirror::{Mirror, MirrorError, MirrorFault};
pub use peers::{AllowedHosts, AllowedOrigins};
pub use status::{Rejection, http_status_for};
