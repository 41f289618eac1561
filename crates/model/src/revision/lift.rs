//! Conversion of received values to the newest revision.

use super::{v2024_11_05, v2025_11_25};
use crate::Revision;
use crate::types::*;

/// A value that has a different form in some revision. By default, nothing is converted.
pub(crate) trait Lift {
    fn lift(&mut self, _from: Revision) {}
}

impl Lift for CallToolResult {
    fn lift(&mut self, from: Revision) {
        if from.is_legacy() {
            v2025_11_25::lift_call_result(self);
        }
    }
}

impl Lift for InitializeResult {
    fn lift(&mut self, from: Revision) {
        self.capabilities.lift(from);
    }
}

impl Lift for ServerCapabilities {
    fn lift(&mut self, from: Revision) {
        if from.is_legacy() {
            v2025_11_25::lift_server_capabilities(self);
        }
        if from == Revision::V2024_11_05 {
            v2024_11_05::lift_server_capabilities(self);
        }
    }
}

impl Lift for ClientCapabilities {
    fn lift(&mut self, from: Revision) {
        if from.is_legacy() {
            v2025_11_25::lift_client_capabilities(self);
        }
    }
}

impl ClientCapabilities {
    /// Converts capabilities that a client of this revision sent to the newest revision.
    #[must_use]
    pub fn lifted_from(mut self, from: Revision) -> Self {
        self.lift(from);
        self
    }
}

impl ServerCapabilities {
    /// Converts capabilities that a server of this revision sent to the newest revision.
    #[must_use]
    pub fn lifted_from(mut self, from: Revision) -> Self {
        self.lift(from);
        self
    }
}

macro_rules! same {
    ($($type:ident)+) => {
        $(impl Lift for $type {})+
    };
}

same!(EmptyResult DiscoverResult ListToolsResult ListPromptsResult GetPromptResult ListResourcesResult);
same!(ListResourceTemplatesResult ReadResourceResult CompleteResult SubscriptionsListenResult);
same!(CreateMessageResult ListRootsResult ElicitResult GetTaskResult);
