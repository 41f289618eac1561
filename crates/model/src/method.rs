//! The one table of methods: who sends them, since and until when, and what they may do.

use std::fmt;
use std::sync::Arc;

use crate::Revision;
use crate::Revision::{V2024_11_05, V2025_06_18, V2025_11_25, V2026_07_28};

/// Direction in which a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there are two sides")]
pub enum Direction {
    /// Client to server.
    ToServer,
    /// Server to client.
    ToClient,
    /// Either.
    Both,
}

/// Kind of a message: a request needs a response, a notification does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC has exactly these two")]
pub enum MessageKind {
    /// Yes.
    Request,
    /// No.
    Notification,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MethodInfo {
    /// The name on the wire.
    pub name: &'static str,
    /// Request or notification.
    pub kind: MessageKind,
    /// Direction in which the message is sent.
    pub direction: Direction,
    /// First revision that has it as a separate message.
    pub first: Revision,
    /// Last revision that has it as a separate message.
    pub last: Revision,
    /// True if the request may be answered with input requests (`input_required`, 2026-07-28).
    pub input_required: bool,
    /// True if the result carries `ttlMs` and `cacheScope` (2026-07-28).
    pub cacheable: bool,
    /// The member of params that the header `Mcp-Name` repeats (2026-07-28).
    pub name_param: Option<&'static str>,
    /// The extension that must be negotiated from 2026-07-28 on.
    pub extension: Option<&'static str>,
}

impl MethodInfo {
    /// Returns true if the revision has this message.
    #[must_use]
    pub fn in_revision(&self, revision: Revision) -> bool {
        self.first <= revision && revision <= self.last
    }
}

/// The identifier of the tasks extension (2026-07-28).
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

macro_rules! methods {
    ($($(#[$doc:meta])* $variant:ident = $name:literal $kind:ident $direction:ident $first:ident ..= $last:ident
        $({ $($field:ident: $value:expr),* })?;)*) => {
        /// A method by name: one that the specification defines, or any other.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Method {
            $($(#[$doc])* $variant,)*
            /// A name that the specification does not define.
            Other(Arc<str>),
        }

        /// Every method of every revision.
        pub static METHODS: &[MethodInfo] = &[$(MethodInfo {
            $($($field: $value,)*)?
            ..plain($name, MessageKind::$kind, Direction::$direction, $first, $last)
        }),*];

        impl Method {
            /// The method with this name.
            #[must_use]
            pub fn from_name(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)*
                    other => Self::Other(other.into()),
                }
            }

            /// The name on the wire.
            #[must_use]
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other(name) => name,
                }
            }

            /// The row of the table; none for a name that the specification does not define.
            #[must_use]
            pub fn info(&self) -> Option<&'static MethodInfo> {
                let position = match self {
                    $(Self::$variant => Position::$variant as usize,)*
                    Self::Other(_) => return None,
                };
                METHODS.get(position)
            }
        }

        #[derive(Clone, Copy)]
        enum Position { $($variant),* }
    };
}

const fn plain(
    name: &'static str,
    kind: MessageKind,
    direction: Direction,
    first: Revision,
    last: Revision,
) -> MethodInfo {
    MethodInfo {
        name,
        kind,
        direction,
        first,
        last,
        input_required: false,
        cacheable: false,
        name_param: None,
        extension: None,
    }
}

methods! {
    /// Opens a legacy session.
    Initialize = "initialize" Request ToServer V2024_11_05..=V2025_11_25;
    /// The client is ready.
    Initialized = "notifications/initialized" Notification ToServer V2024_11_05..=V2025_11_25;
    /// Describes a modern server and the revisions it supports.
    Discover = "server/discover" Request ToServer V2026_07_28..=V2026_07_28 { cacheable: true };
    /// Is the other side there?
    Ping = "ping" Request Both V2024_11_05..=V2025_11_25;
    /// The tools, by pages.
    ToolsList = "tools/list" Request ToServer V2024_11_05..=V2026_07_28 { cacheable: true };
    /// Runs a tool.
    ToolsCall = "tools/call" Request ToServer V2024_11_05..=V2026_07_28
        { input_required: true, name_param: Some("name") };
    /// The prompts, by pages.
    PromptsList = "prompts/list" Request ToServer V2024_11_05..=V2026_07_28 { cacheable: true };
    /// Fills in a prompt.
    PromptsGet = "prompts/get" Request ToServer V2024_11_05..=V2026_07_28
        { input_required: true, name_param: Some("name") };
    /// The resources, by pages.
    ResourcesList = "resources/list" Request ToServer V2024_11_05..=V2026_07_28 { cacheable: true };
    /// The resource templates, by pages.
    ResourceTemplatesList = "resources/templates/list" Request ToServer V2024_11_05..=V2026_07_28
        { cacheable: true };
    /// Reads a resource.
    ResourcesRead = "resources/read" Request ToServer V2024_11_05..=V2026_07_28
        { input_required: true, cacheable: true, name_param: Some("uri") };
    /// Wants to hear of a resource's changes.
    ResourcesSubscribe = "resources/subscribe" Request ToServer V2024_11_05..=V2025_11_25;
    /// No longer.
    ResourcesUnsubscribe = "resources/unsubscribe" Request ToServer V2024_11_05..=V2025_11_25;
    /// Opens a stream of changes.
    SubscriptionsListen = "subscriptions/listen" Request ToServer V2026_07_28..=V2026_07_28;
    /// Confirms the changes that the stream will carry.
    SubscriptionsAcknowledged = "notifications/subscriptions/acknowledged" Notification ToClient
        V2026_07_28..=V2026_07_28;
    /// Suggests values for an argument.
    Complete = "completion/complete" Request ToServer V2024_11_05..=V2026_07_28;
    /// The least severe log message wanted.
    SetLevel = "logging/setLevel" Request ToServer V2024_11_05..=V2025_11_25;
    /// A log message.
    LogMessage = "notifications/message" Notification ToClient V2024_11_05..=V2026_07_28;
    /// Asks the client's model.
    CreateMessage = "sampling/createMessage" Request ToClient V2024_11_05..=V2025_11_25;
    /// Asks for the client's roots.
    RootsList = "roots/list" Request ToClient V2024_11_05..=V2025_11_25;
    /// Asks the person.
    Elicit = "elicitation/create" Request ToClient V2025_06_18..=V2025_11_25;
    /// A person finished what a URL elicitation opened.
    ElicitationComplete = "notifications/elicitation/complete" Notification ToClient V2025_11_25..=V2025_11_25;
    /// The client's roots changed.
    RootsListChanged = "notifications/roots/list_changed" Notification ToServer V2024_11_05..=V2025_11_25;
    /// The tools changed.
    ToolsListChanged = "notifications/tools/list_changed" Notification ToClient V2024_11_05..=V2026_07_28;
    /// The prompts changed.
    PromptsListChanged = "notifications/prompts/list_changed" Notification ToClient V2024_11_05..=V2026_07_28;
    /// The resources changed.
    ResourcesListChanged = "notifications/resources/list_changed" Notification ToClient
        V2024_11_05..=V2026_07_28;
    /// A resource changed.
    ResourceUpdated = "notifications/resources/updated" Notification ToClient V2024_11_05..=V2026_07_28;
    /// Reports the progress of a request.
    Progress = "notifications/progress" Notification Both V2024_11_05..=V2026_07_28;
    /// The request is no longer wanted.
    Cancelled = "notifications/cancelled" Notification Both V2024_11_05..=V2026_07_28;
    /// Returns the state of a task.
    TasksGet = "tasks/get" Request Both V2025_11_25..=V2026_07_28
        { name_param: Some("taskId"), extension: Some(TASKS_EXTENSION) };
    /// Ends a task.
    TasksCancel = "tasks/cancel" Request Both V2025_11_25..=V2026_07_28
        { name_param: Some("taskId"), extension: Some(TASKS_EXTENSION) };
    /// A task's result (2025-11-25).
    TasksResult = "tasks/result" Request Both V2025_11_25..=V2025_11_25;
    /// The tasks, by pages (2025-11-25).
    TasksList = "tasks/list" Request Both V2025_11_25..=V2025_11_25;
    /// Answers a task's questions.
    TasksUpdate = "tasks/update" Request ToServer V2026_07_28..=V2026_07_28
        { name_param: Some("taskId"), extension: Some(TASKS_EXTENSION) };
    /// A task changed (2025-11-25).
    TaskStatus = "notifications/tasks/status" Notification Both V2025_11_25..=V2025_11_25;
    /// A task changed (2026-07-28).
    TasksChanged = "notifications/tasks" Notification ToClient V2026_07_28..=V2026_07_28
        { extension: Some(TASKS_EXTENSION) };
}

impl Method {
    /// Returns true if the revision has this message as a separate message, not only embedded in a result. Every
    /// revision has the names that the specification does not define: they belong to the two peers.
    #[must_use]
    pub fn in_revision(&self, revision: Revision) -> bool {
        self.info().is_none_or(|info| info.in_revision(revision))
    }

    /// Returns true if the request may be answered with input requests.
    #[must_use]
    pub fn allows_input_requests(&self) -> bool {
        self.info().is_some_and(|info| info.input_required)
    }
}

impl From<&str> for Method {
    fn from(name: &str) -> Self {
        Self::from_name(name)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
