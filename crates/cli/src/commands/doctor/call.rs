//! Check of one call.

use std::time::Duration;

use hospes::client::Client;
use hospes::model::Tool;
use serde_json::{Map, Value};

use super::check::{DoctorChain, DoctorFinding, T03};
use crate::arguments::{ArgumentSource, arguments, read_source, unknown_tool};
use crate::output::printable;
use crate::shown_commands::shown_command;

/// Maximum time of the call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Call that a check makes.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckCall<'a> {
    /// Tool that the person named.
    pub(super) tool: Option<&'a str>,
    /// Its arguments, as words.
    pub(super) words: &'a [String],
    /// Name of the built-in server. What it says about its tools can be relied on.
    pub(super) builtin: Option<&'a str>,
}

/// Calls the named tool; otherwise a tool that only reads and needs no argument, of a trusted server.
pub(super) async fn check(client: &Client, tools: &[Tool], call: CheckCall<'_>, chain: &mut DoctorChain) {
    let (tool, given) = match call.tool {
        None => {
            let Some(tool) = tools.iter().find(|tool| call.builtin.is_some() && is_harmless(tool)) else {
                return;
            };
            (tool, Map::new())
        }
        Some(name) => {
            let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
                let known = tools.iter().map(|tool| tool.name.as_str());
                let finding =
                    DoctorFinding::new(unknown_tool(name, known)).mend(shown_command("list", &chain.target));
                return chain.fail(&T03, finding, &[]);
            };
            let schema = tool.input_schema.to_value().unwrap_or(Value::Null);
            let source = ArgumentSource { json: None, words: call.words };
            match arguments(&tool.name, &schema, source, &read_source) {
                Ok(given) => (tool, given),
                Err(error) => {
                    let finding = DoctorFinding::new(format!("`{}` was not called", printable(name)))
                        .why(error.to_string())
                        .mend(format!("{} shows its arguments", shown_command("list", &chain.target)));
                    return chain.fail(&T03, finding, &[]);
                }
            }
        }
    };
    let name = printable(&tool.name);
    let request = client.call(tool.name.as_str(), Value::Object(given)).timeout(CALL_TIMEOUT);
    match request.await {
        Ok(result) if !result.has_failed() => chain.ok(&T03, format!("`{name}` answers")),
        Ok(result) => {
            let said = result.content.iter().find_map(|block| block.as_text().map(str::to_owned));
            let finding = DoctorFinding::new(format!("`{name}` answers with an error"))
                .mend(remedy(call, &chain.target))
                .evidence(said.unwrap_or_default());
            chain.fail(&T03, finding, &[]);
        }
        Err(error) => {
            let finding = DoctorFinding::new(format!("`{name}` cannot be called"))
                .why(error.to_string())
                .mend(shown_command("logs", &chain.target));
            chain.fail(&T03, finding, &[]);
        }
    }
}

/// Returns what to do about a tool that answers with an error.
fn remedy(call: CheckCall<'_>, target: &str) -> String {
    let logs = shown_command("logs", target);
    match call {
        CheckCall { tool: None, builtin: Some("files" | "git"), .. } => {
            format!("name folders in `args` of the server, such as args = [\".\"], or see: {logs}")
        }
        // Nobody gave arguments that could be corrected.
        CheckCall { tool: None, .. } => logs,
        _ => format!("correct the arguments, or see: {logs}"),
    }
}

/// Returns true if the tool says that it only reads, stays on this machine and needs no argument.
fn is_harmless(tool: &Tool) -> bool {
    let hints = tool.annotations.as_ref();
    let reads =
        hints.is_some_and(|hints| hints.read_only_hint == Some(true) && hints.open_world_hint == Some(false));
    let schema = tool.input_schema.to_value().unwrap_or(Value::Null);
    reads && schema.get("required").and_then(Value::as_array).is_none_or(Vec::is_empty)
}
