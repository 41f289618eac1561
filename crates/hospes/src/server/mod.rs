//! Writing servers.
//!
//! A [`Server`] is built by registering plain async functions, and is a [`Service`](crate::Service) as it
//! stands:
//!
//! ```
//! use hospes::server::{Args, Server, Tool};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! /// Adds two numbers.
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: f64,
//!     b: f64,
//! }
//!
//! let server = Server::new("calc", "1.0")
//!     .tool("add", |Args(Add { a, b })| async move { a + b })
//!     .tool(Tool::new("pi").description("The number.").read_only(true), || async { 3.141_592_653_59 })
//!     .resource("calc://about", "A small calculator.")
//!     .resource_template("calc://squares/{of}", |Args(Square { of })| async move { (of * of).to_string() });
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Square {
//!     of: u32,
//! }
//! # let _ = server;
//! ```
//!
//! `#[hospes::server]` on an `impl` block writes these calls.
//!
//! # What blocks
//!
//! Handlers are polled in the task of their connection, so that a quick one is answered without a detour. An async
//! handler must therefore not block. Await what waits, and move long computations and blocking calls to a thread with
//! [`blocking`](fn@blocking) or `tokio::task::spawn_blocking`. Synchronous methods of `#[hospes::server]` do this
//! automatically; `#[tool(inline)]` runs a tiny one in place.
//!
//! An async handler that does not yield (a loop without an `await`) holds one thread of the runtime until it does. On a
//! runtime with several threads the connection is still served. Calls of tools, prompts and resources that were not
//! seen to return quickly have tasks of their own. On a `current_thread` runtime nothing else is answered meanwhile. On
//! neither can it keep the process from ending; see
//! [`StdioServer::serve`](crate::transport::stdio_server::StdioServer::serve).

mod arguments;
pub(crate) mod blocking;
mod builder;
mod cache_hint;
mod call_parts;
mod catalogue;
mod change_bus;
#[cfg(feature = "validate")]
mod compiled_schema;
mod complete;
mod completed_argument;
mod content_checks;
mod contents;
mod cursor;
mod dispatch;
mod entries;
mod error;
mod extract;
mod handle;
mod handler;
mod handles;
mod mistakes;
mod output_contract;
mod prompt;
mod resource;
mod result;
mod rules;
mod schema;
mod shared;
mod suggest;
mod task_manager;
mod tasks;
mod template;
#[cfg(test)]
mod tests;
mod tool;
#[cfg(feature = "validate")]
mod validate;
mod variables;

pub use crate::json_schema::{MAX_SCHEMA_DEPTH, MAX_SUBSCHEMAS};
pub use blocking::{Blocking, blocking};
pub use builder::{DEFAULT_PAGE_SIZE, IntoServer, Server};
pub use call_parts::{CallParts, Declaration, FromCall};
pub use change_bus::MAX_SUBSCRIBED_URIS;
#[cfg(feature = "validate")]
pub use compiled_schema::CompiledSchema;
pub use complete::{FixedValues, IntoCompleter, IntoCompletion, fitting};
pub use completed_argument::Completes;
pub use contents::{Contents, IntoContents};
pub use entries::Completer;
pub use error::RegisterError;
pub use extract::{Args, Extension, State, Typed, Uri};
pub use handle::ServerHandle;
pub use handler::Handler;
pub use handles::{HandleError, Handles, MAX_HANDLES};
pub use prompt::{IntoPrompt, Prompt};
pub use resource::{FixedContents, IntoResourceReader, Resource, ResourceReader, Template};
pub use result::{IntoToolResult, Json};
pub use rules::{DEFAULT_COMPLETION_RATE, Feature, MAX_COUNTED_CALLERS, hide_invisible};
pub use shared::MAX_BLOCKING_CALLS;
pub use template::{MAX_URI_LENGTH, UriTemplate, UriTemplateError};
pub use tool::{MAX_TOOL_NAME, Tool};
pub use variables::{TemplateVariables, VariableValue};
