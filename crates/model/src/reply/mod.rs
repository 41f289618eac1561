//! Results: encoded as any revision has them, decoded by their method.

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

/// A complete result, in the shape of the newest revision.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reply {
    /// Nothing but that it was done.
    Empty,
    /// To `initialize`.
    Initialize(Box<InitializeResult>),
    /// To `server/discover`.
    Discover(Box<DiscoverResult>),
    /// To `tools/list`.
    ListTools(Box<ListToolsResult>),
    /// To `tools/call`.
    CallTool(CallToolResult),
    /// To `prompts/list`.
    ListPrompts(Box<ListPromptsResult>),
    /// To `prompts/get`.
    GetPrompt(Box<GetPromptResult>),
    /// To `resources/list`.
    ListResources(Box<ListResourcesResult>),
    /// To `resources/templates/list`.
    ListResourceTemplates(Box<ListResourceTemplatesResult>),
    /// To `resources/read`.
    ReadResource(Box<ReadResourceResult>),
    /// To `completion/complete`.
    Complete(Box<CompleteResult>),
    /// To `subscriptions/listen`, when the stream ends.
    Listen(Box<SubscriptionsListenResult>),
    /// To `sampling/createMessage` (up to 2025-11-25).
    CreateMessage(Box<CreateMessageResult>),
    /// To `roots/list` (up to 2025-11-25).
    ListRoots(Box<ListRootsResult>),
    /// To `elicitation/create` (up to 2025-11-25).
    Elicit(Box<ElicitResult>),
    /// To a request that became a task.
    CreateTask(Box<CreateTaskResult>),
    /// To `tasks/get`, and to `tasks/cancel` in 2025-11-25.
    GetTask(Box<GetTaskResult>),
    /// To `tasks/list` (2025-11-25).
    ListTasks(Box<ListTasksResult>),
    /// A result as it came from a peer, or of a method that the specification does not define.
    Raw {
        /// The revision it is written in.
        revision: Revision,
        /// The result.
        json: RawJson,
        /// Translator into other revisions; set by [`Reply::raw`].
        bridge: ResultTranslator,
    },
    /// A result that is written once and sent often.
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
