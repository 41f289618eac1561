//! Results: encoded for any revision, decoded by their method.

mod encode;
mod peer_result;
mod prepared;
mod text_result;
mod translator;

use std::sync::Arc;

pub use encode::{EncodeError, ServerStamp};
pub use peer_result::{PeerResult, PeerResultError};
pub use prepared::PreparedResult;
pub use translator::ResultTranslator;

use crate::types::*;
use crate::{RawJson, Revision};

/// A complete result, in the form of the newest revision.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reply {
    /// An empty result.
    Empty,
    /// Result of `initialize`.
    Initialize(Box<InitializeResult>),
    /// Result of `server/discover`.
    Discover(Box<DiscoverResult>),
    /// Result of `tools/list`.
    ListTools(Box<ListToolsResult>),
    /// Result of `tools/call`.
    CallTool(CallToolResult),
    /// Result of `prompts/list`.
    ListPrompts(Box<ListPromptsResult>),
    /// Result of `prompts/get`.
    GetPrompt(Box<GetPromptResult>),
    /// Result of `resources/list`.
    ListResources(Box<ListResourcesResult>),
    /// Result of `resources/templates/list`.
    ListResourceTemplates(Box<ListResourceTemplatesResult>),
    /// Result of `resources/read`.
    ReadResource(Box<ReadResourceResult>),
    /// Result of `completion/complete`.
    Complete(Box<CompleteResult>),
    /// Result of `subscriptions/listen`, sent when the stream ends.
    Listen(Box<SubscriptionsListenResult>),
    /// Result of `sampling/createMessage` (up to 2025-11-25).
    CreateMessage(Box<CreateMessageResult>),
    /// Result of `roots/list` (up to 2025-11-25).
    ListRoots(Box<ListRootsResult>),
    /// Result of `elicitation/create` (up to 2025-11-25).
    Elicit(Box<ElicitResult>),
    /// Result of a request that became a task.
    CreateTask(Box<CreateTaskResult>),
    /// Result of `tasks/get`, and of `tasks/cancel` in 2025-11-25.
    GetTask(Box<GetTaskResult>),
    /// Result of `tasks/list` (2025-11-25).
    ListTasks(Box<ListTasksResult>),
    /// A result received from a peer, unchanged, or the result of a method that the specification does not define.
    Raw {
        /// Revision of the JSON.
        revision: Revision,
        /// The result.
        json: RawJson,
        /// Translator into other revisions; set by [`Reply::raw`].
        bridge: ResultTranslator,
    },
    /// A result that is encoded once and sent many times.
    Prepared(Arc<PreparedResult>),
}

macro_rules! from_result {
    ($($type:ident => $variant:ident $(($wrap:path))?),+ $(,)?) => {$(
        impl From<$type> for Reply {
            fn from(result: $type) -> Self {
                Self::$variant($($wrap)?(result))
            }
        }
    )+};
}

from_result!(
    InitializeResult => Initialize(Box::new),
    DiscoverResult => Discover(Box::new),
    ListToolsResult => ListTools(Box::new),
    CallToolResult => CallTool,
    ListPromptsResult => ListPrompts(Box::new),
    GetPromptResult => GetPrompt(Box::new),
    ListResourcesResult => ListResources(Box::new),
    ListResourceTemplatesResult => ListResourceTemplates(Box::new),
    ReadResourceResult => ReadResource(Box::new),
    CompleteResult => Complete(Box::new),
    SubscriptionsListenResult => Listen(Box::new),
    CreateMessageResult => CreateMessage(Box::new),
    ListRootsResult => ListRoots(Box::new),
    ElicitResult => Elicit(Box::new),
    CreateTaskResult => CreateTask(Box::new),
    GetTaskResult => GetTask(Box::new),
    ListTasksResult => ListTasks(Box::new),
    PreparedResult => Prepared(Arc::new),
);

impl From<EmptyResult> for Reply {
    /// The metadata of an empty result is dropped.
    fn from(_: EmptyResult) -> Self {
        Self::Empty
    }
}

impl From<Arc<PreparedResult>> for Reply {
    fn from(prepared: Arc<PreparedResult>) -> Self {
        Self::Prepared(prepared)
    }
}

#[cfg(test)]
mod tests;
