//! The Model Context Protocol's messages and types, in every revision.
//!
//! One set of domain types, shaped like the newest revision ([`Revision::LATEST`]); one module of conversions for
//! each older one; one table of methods ([`METHODS`]). Nothing here does I/O.

mod error;
mod json;
pub mod message;
mod method;
mod notification;
mod reply;
mod revision;
mod types;

pub use error::{RpcError, code};
pub use json::{RawJson, decode_params};
pub use message::{DecodeError, Frame, Id, Message};
pub use method::{Direction, Kind, METHODS, Method, MethodInfo, TASKS_EXTENSION};
pub use notification::Notification;
pub use reply::Reply;
pub use revision::{Era, Revision, UnknownRevision};
pub use types::*;
