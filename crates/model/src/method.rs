//! The table of all methods: direction, first and last revision, and permitted features.

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
    /// In both directions.
    Both,
}

/// Kind of a message: a request needs a response, a notification does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC has exactly these two")]
pub enum MessageKind {
    /// A request.
    Request,
    /// A notification.
    Notification,
}

/// Entry of the method table.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MethodInfo {
    /// Name of the method.
    pub name: &'static str,
    /// Request or notification.
    pub kind: MessageKind,
    /// Direction in which the message is sent.
    pub direction: Direction,
    /// First revision that has it as a message of its own.
    pub first: Revision,
    /// Last revision that has it as a message of its own.
    pub last: Revision,
    /// True if the request may be answered with input requests (`input_required`, 2026-07-28).
    pub input_required: bool,
    /// True if the result carries `ttlMs` and `cacheScope` (2026-07-28).
    pub cacheable: bool,
    /// Member of params that the header `Mcp-Name` repeats (2026-07-28).
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
        /// A method, by name: one that the specification defines, or any other.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Method {
            $($(#[$doc])* $variant,)*
            /// A name that the specification does not define.
            Other(Arc<str>),
        }

        /// All methods of all revisions.
        pub static METHODS: &[MethodInfo] = &[$(MethodInfo {
            $($($field: $value,)*)?
            ..plain($name, MessageKind::$kind, Direction::$direction, $first, $last)
        }),*];

        impl Method {
            /// Returns the method with this name.
            #[must_use]
            pub fn from_name(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)*
                    other => Self::Other(other.into()),
                }
            }

            /// Returns the name of the method.
            #[must_use]
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other(name) => name,
                }
            }

            /// Returns the table entry. `None` for a name that the specification does not define.
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
    /// Reports that the client is ready.
    Initialized = "notifications/initialized" Notification ToServer V2024_11_05..=V2025_11_25;
    /// Describes a modern server and the revisions it supports.
    Discover = "server/discover" Request ToServer V2026_07_28..=V2026_07_28 { cacheable: true };
    /// Checks that the other side responds.
    Ping = "ping" Request Both V2024_11_05..=V2025_11_25;
    /// Lists tools, page by page.
    ToolsList = "tools/list" Request ToServer V2024_11_05..=V2026_07_28 { cacheable: true };
    /// Calls a tool.
    ToolsCall = "tools/call" Request ToServer V2024_11_05..=V2026_07_28
        { input_required: true, name_param: Some("name") };
    /// Lists prompts, page by page.
    PromptsList = "prompts/list" Request ToServer V2024_11_05..=V2026_07_28 { cacheable: true };
    /// Returns the messages of a prompt.
    PromptsGet = "prompts/get" Request ToServer V2024_11_05..=V2026_07_28
        { input_required: true, name_param: Some("name") };
    /// Lists resources, page by page.
    ResourcesList = "resources/list" Request ToServer V2024_11_05..=V2026_07_28 { cacheable: true };
    /// Lists resource templates, page by page.
    ResourceTemplatesList = "resources/templates/list" Request ToServer V2024_11_05..=V2026_07_28
        { cacheable: true };
    /// Reads a resource.
    ResourcesRead = "resources/read" Request ToServer V2024_11_05..=V2026_07_28
        { input_required: true, cacheable: true, name_param: Some("uri") };
    /// Subscribes to changes of a resource.
    ResourcesSubscribe = "resources/subscribe" Request ToServer V2024_11_05..=V2025_11_25;
    /// Unsubscribes from changes of a resource.
    ResourcesUnsubscribe = "resources/unsubscribe" Request ToServer V2024_11_05..=V2025_11_25;
    /// Opens a stream of changes.
    SubscriptionsListen = "subscriptions/listen" Request ToServer V2026_07_28..=V2026_07_28;
    /// Confirms the changes that the stream will carry.
    SubscriptionsAcknowledged = "notifications/subscriptions/acknowledged" Notification ToClient
        V2026_07_28..=V2026_07_28;
    /// Suggests values for an argument.
    Complete = "completion/complete" Request ToServer V2024_11_05..=V2026_07_28;
    /// Sets the minimum severity of log messages.
    SetLevel = "logging/setLevel" Request ToServer V2024_11_05..=V2025_11_25;
    /// A log message.
    LogMessage = "notifications/message" Notification ToClient V2024_11_05..=V2026_07_28;
    /// Requests a completion from the client's model.
    CreateMessage = "sampling/createMessage" Request ToClient V2024_11_05..=V2025_11_25;
    /// Lists the client's roots.
    RootsList = "roots/list" Request ToClient V2024_11_05..=V2025_11_25;
    /// Asks the user for input.
    Elicit = "elicitation/create" Request ToClient V2025_06_18..=V2025_11_25;
    /// Reports that a URL elicitation is complete.
    ElicitationComplete = "notifications/elicitation/complete" Notification ToClient V2025_11_25..=V2025_11_25;
    /// Reports that the client's roots have changed.
    RootsListChanged = "notifications/roots/list_changed" Notification ToServer V2024_11_05..=V2025_11_25;
    /// Reports that the list of tools has changed.
    ToolsListChanged = "notifications/tools/list_changed" Notification ToClient V2024_11_05..=V2026_07_28;
    /// Reports that the list of prompts has changed.
    PromptsListChanged = "notifications/prompts/list_changed" Notification ToClient V2024_11_05..=V2026_07_28;
    /// Reports that the list of resources has changed.
    ResourcesListChanged = "notifications/resources/list_changed" Notification ToClient
        V2024_11_05..=V2026_07_28;
    /// Reports that a resource has changed.
    ResourceUpdated = "notifications/resources/updated" Notification ToClient V2024_11_05..=V2026_07_28;
    /// Reports the progress of a request.
    Progress = "notifications/progress" Notification Both V2024_11_05..=V2026_07_28;
    /// Cancels a request.
    Cancelled = "notifications/cancelled" Notification Both V2024_11_05..=V2026_07_28;
    /// Returns the state of a task.
    TasksGet = "tasks/get" Request Both V2025_11_25..=V2026_07_28
        { name_param: Some("taskId"), extension: Some(TASKS_EXTENSION) };
    /// Cancels a task.
    TasksCancel = "tasks/cancel" Request Both V2025_11_25..=V2026_07_28
        { name_param: Some("taskId"), extension: Some(TASKS_EXTENSION) };
    /// Returns the result of a task (2025-11-25).
    TasksResult = "tasks/result" Request Both V2025_11_25..=V2025_11_25;
    /// Lists tasks, page by page (2025-11-25).
    TasksList = "tasks/list" Request Both V2025_11_25..=V2025_11_25;
    /// Responds to input requests of a task.
    TasksUpdate = "tasks/update" Request ToServer V2026_07_28..=V2026_07_28
        { name_param: Some("taskId"), extension: Some(TASKS_EXTENSION) };
    /// Reports the new status of a task (2025-11-25).
    TaskStatus = "notifications/tasks/status" Notification Both V2025_11_25..=V2025_11_25;
    /// Reports the new state of a task (2026-07-28).
    TasksChanged = "notifications/tasks" Notification ToClient V2026_07_28..=V2026_07_28
        { extension: Some(TASKS_EXTENSION) };
}

impl Method {
    /// Returns true if the revision has this method as a message of its own, not only embedded in a result. Methods
    /// that the specification does not define are allowed in every revision.
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
