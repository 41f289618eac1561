//! Notifications, typed by their method.

use crate::{
    CancelledParams, ElicitationCompleteParams, LogMessageParams, Method, ProgressParams, RawJson,
    ResourceUpdatedParams, SubscriptionsAcknowledgedParams,
};

/// A notification in the newest revision's shape.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Notification {
    /// How far a request has come.
    Progress(ProgressParams),
    /// A log message.
    LogMessage(LogMessageParams),
    /// The tools changed.
    ToolsListChanged,
    /// The prompts changed.
    PromptsListChanged,
    /// The resources changed.
    ResourcesListChanged,
    /// A resource changed.
    ResourceUpdated(ResourceUpdatedParams),
    /// A request is no longer wanted.
    Cancelled(CancelledParams),
    /// A person finished what a URL elicitation opened.
    ElicitationComplete(ElicitationCompleteParams),
    /// What a stream of changes will carry.
    SubscriptionsAcknowledged(SubscriptionsAcknowledgedParams),
    /// The client's roots changed.
    RootsListChanged,
    /// The client is ready.
    Initialized,
    /// Any other, as it came.
    Other {
        /// The method.
        method: Method,
        /// Its params.
        params: Option<RawJson>,
    },
}
