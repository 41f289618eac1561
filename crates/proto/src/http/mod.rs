//! Streamable HTTP without I/O: admission of requests, routing to an era, and headers.
//!
//! These are pure functions from headers and body to an admitted request or an [`HttpRejection`]. They allocate memory
//! only for rejections.

mod admission;
mod allowed_peers;
mod header_params;
pub mod headers;
mod media;
mod routing_fields;
mod status;

pub use admission::{AdmissionRules, AdmittedHead, EndpointMethod, MessageRoute, SseEndpoint};
pub use allowed_peers::{AllowedHosts, AllowedOrigins};
pub use header_params::{HeaderParams, HeaderParamsError, HeaderParamsFault};
pub use headers::{SessionId, decode_value, encode_value};
pub use media::{AcceptedMedia, is_json};
pub use routing_fields::RoutingFields;
pub use status::{HttpRejection, http_status_for};
