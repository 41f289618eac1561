//! Streamable HTTP, before and after the handler: who may come in, in which era, and with which headers.
//!
//! Pure functions from headers and body to "admitted" or [`HttpRejection`]; they allocate only to say no.

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
