//! Comparison of tools with their accepted definitions, without a connection of a host.

use hospes_model::Tool;

use super::definition::tool_definition;
use super::{ItemKind, ItemPinState, PinManager, PinManagerError};

impl PinManager {
    /// Returns the names of the tools whose accepted definitions differ from these. A tool that was never accepted, and one
    /// that is no longer offered, are left out.
    ///
    /// # Errors
    /// If the server was never seen, or the state cannot be read.
    pub async fn changed_tools(&self, server: &str, tools: &[Tool]) -> Result<Vec<String>, PinManagerError> {
        let mut known = self.history(server, None).await?;
        known.retain(|one| one.item.kind == ItemKind::Tool && one.item.state == ItemPinState::Accepted);
        let has_changed = |tool: &&Tool| {
            let now = tool_definition(tool);
            let mut accepted = known.iter().filter(|one| one.item.name == now.name).peekable();
            accepted.peek().is_some()
                && !accepted.any(|one| one.item.hash == now.hash || Some(one.item.hash) == now.earlier)
        };
        Ok(tools.iter().filter(has_changed).map(|tool| tool.name.to_string()).collect())
    }
}
