//! Common imports of servers and clients: `use hospes::prelude::*;`.

pub use hospes_model::{
    Annotations, CallToolResult, ContentBlock, GetPromptResult, LoggingLevel, PromptMessage, RawJson,
    ReadResourceResult, ResourceContents, Role, Root, RpcError, SamplingMessage,
};
pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};
pub use serde_json::json;

pub use crate::ask::{AskError, Question};
#[cfg(feature = "client")]
pub use crate::client::{Client, Target};
pub use crate::context::Context;
pub use crate::error::{Error, Result};
#[cfg(feature = "server")]
pub use crate::server::{
    Args, Completes, Contents, Extension, IntoServer, Json, Prompt, Resource, Server, ServerHandle, State,
    Template, Tool, Typed, Uri,
};
pub use crate::service::{Call, Outcome, Service};
