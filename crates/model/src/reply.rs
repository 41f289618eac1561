//! Results, typed by the method they answer.

use crate::{
    CallToolResult, CompleteResult, CreateMessageResult, DiscoverResult, ElicitResult, GetPromptResult,
    InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListRootsResult,
    ListToolsResult, RawJson, ReadResourceResult, Revision, SubscriptionsListenResult,
};

/// A result in the newest revision's shape.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reply {
    /// Nothing to say.
    Empty,
    /// Of `initialize`.
    Initialize(Box<InitializeResult>),
    /// Of `server/discover`.
    Discover(Box<DiscoverResult>),
    /// Of `tools/list`.
    ListTools(Box<ListToolsResult>),
    /// Of `tools/call`.
    CallTool(CallToolResult),
    /// Of `prompts/list`.
    ListPrompts(Box<ListPromptsResult>),
    /// Of `prompts/get`.
    GetPrompt(Box<GetPromptResult>),
    /// Of `resources/list`.
    ListResources(Box<ListResourcesResult>),
    /// Of `resources/templates/list`.
    ListResourceTemplates(Box<ListResourceTemplatesResult>),
    /// Of `resources/read`.
    ReadResource(Box<ReadResourceResult>),
    /// Of `completion/complete`.
    Complete(Box<CompleteResult>),
    /// Of `sampling/createMessage`.
    CreateMessage(Box<CreateMessageResult>),
    /// Of `roots/list`.
    ListRoots(Box<ListRootsResult>),
    /// Of `elicitation/create`.
    Elicit(Box<ElicitResult>),
    /// Of `subscriptions/listen`, when the server ends it.
    Listen(Box<SubscriptionsListenResult>),
    /// As it came, in the shape of a revision.
    Raw {
        /// That revision.
        revision: Revision,
        /// The result.
        json: RawJson,
    },
}
