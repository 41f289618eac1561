//! Tools that change what the server offers while it runs.

use hospes::prelude::*;
use hospes::server::{Prompt, ServerHandle, Tool};

const TOOL: &str = "test_dynamic_tool";
const PROMPT: &str = "test_dynamic_prompt";

pub(super) struct ListChangeTools;

#[hospes::server]
impl ListChangeTools {
    /// Adds the tool `test_dynamic_tool`, or takes it away again.
    #[tool]
    fn test_trigger_tool_change(server: &ServerHandle) -> Result<&'static str> {
        if server.remove_tool(TOOL) {
            return Ok("The tool was removed.");
        }
        let tool = Tool::new(TOOL).description("Added and removed in turn.").read_only(true);
        server.add_tool(tool, || async { "Still here." })?;
        Ok("The tool was added.")
    }

    /// Adds the prompt `test_dynamic_prompt`, or takes it away again.
    #[tool]
    fn test_trigger_prompt_change(server: &ServerHandle) -> Result<&'static str> {
        if server.remove_prompt(PROMPT) {
            return Ok("The prompt was removed.");
        }
        let prompt = Prompt::new(PROMPT).description("Added and removed in turn.");
        server.add_prompt(prompt, || async { "Still here." })?;
        Ok("The prompt was added.")
    }

    /// Tells those who watch it that `test://watched-resource` has changed.
    #[tool]
    fn test_trigger_resource_update(server: &ServerHandle) -> &'static str {
        server.resource_updated("test://watched-resource");
        "Subscribers have been notified."
    }
}
