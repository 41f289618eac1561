//! Messages and types of the Model Context Protocol, in every revision.
//!
//! For people who write a transport, a proxy or an analyser of this traffic. Servers and clients are written with the crate
//! `hospes`, which exports all of this as `hospes::model`.
//!
//! One set of domain types, shaped like the newest revision ([`Revision::LATEST`]); one module of conversions for each
//! older one ([`revision`]); one table of methods ([`METHODS`]). Nothing here does I/O.
//!
//! Decoding takes two steps: [`message::decode`] decodes the envelope and leaves params and results undecoded, then the
//! method determines the type ([`RawJson::decode`], [`PeerResult::decode`], [`Notification::decode`]). Encoding takes
//! one: [`Reply::encode`] and [`Notification::encode`] write a value in the peer's revision directly into the buffer.
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | [`message`] | the JSON-RPC envelope |
//! | `method` | [`METHODS`]: direction, first and last revision of each method |
//! | `types` | the domain types, one file for each subject |
//! | `reply`, `notification` | results and notifications, encoded and decoded by their method |
//! | `params`, `input` | params of requests; questions of servers and their answers |
//! | [`revision`] | the dated revisions, and the conversions between neighbours |
//! | `json`, `raw_members`, `write` | checked JSON text, read in place and written into a buffer |
//! | `error` | [`RpcError`] and the [codes](code) |

mod error;
mod input;
mod json;
pub mod message;
mod method;
mod notification;
mod params;
mod raw_members;
mod reply;
pub mod revision;
mod types;
mod write;

pub use error::{RpcError, code};
pub use input::InputResponse;
pub use json::{RawJson, decode_params};
pub use message::{DecodeError, Frame, JsonRpcMessage, RequestId};
pub use method::{Direction, METHODS, MessageKind, Method, MethodInfo, TASKS_EXTENSION};
pub use notification::Notification;
pub use params::{ClientStamp, lower_params, write_params};
pub use raw_members::RawMember;
pub use reply::{
    EncodeError, PeerResult, PeerResultError, PreparedResult, Reply, ResultTranslator, ServerStamp,
};
pub use revision::errors::{decode_error, encode_error};
pub use revision::{Era, LoweringError, LoweringErrorKind, Revision, UnknownRevision};
pub use types::*;
