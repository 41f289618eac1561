//! `tools/peers/application.mjs`: an application by others that answers what servers ask. (The Inspector's
//! command line does not.)

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::inspector::InspectorEra;
use crate::tools::NodeTools;
use crate::{paths, process};

const LIMIT: Duration = Duration::from_secs(120);

/// One tool call.
pub(super) struct PeerCall {
    pub(super) tool: String,
    pub(super) arguments: Value,
}

/// Result of a call.
#[derive(Debug)]
pub(super) struct CallAnswer {
    /// All text of the result, or the error.
    pub(super) text: String,
    /// True if the result was an error of the tool or of the protocol.
    pub(super) failed: bool,
    /// Number of progress notifications received.
    pub(super) progress: u64,
    /// The methods by which the server asked for something.
    pub(super) asked: Vec<String>,
}

/// Connects to a server (an entry as in `mcpServers`), makes the calls one after another, and disconnects.
pub(super) fn run(
    node: &NodeTools,
    label: &str,
    era: InspectorEra,
    server: &Value,
    calls: &[PeerCall],
) -> Result<Vec<CallAnswer>> {
    let script = beside_the_packages(node, "application.mjs")?;
    let calls: Vec<Value> =
        calls.iter().map(|call| json!({ "tool": call.tool, "arguments": call.arguments })).collect();
    let mut command = node.script(&script);
    command.args([era.name(), &server.to_string(), &Value::from(calls).to_string()]);
    let done = process::run(command, &format!("application {label} {}", era.name()), LIMIT)?.success()?;
    let heard: Value = serde_json::from_str(&done.stdout).with_context(|| format!("in {:?}", done.stdout))?;
    let answers = heard.get("answers").and_then(Value::as_array).context("no answers")?;
    answers.iter().map(|answer| CallAnswer::read(answer).with_context(|| answer.to_string())).collect()
}

impl CallAnswer {
    fn read(answer: &Value) -> Option<Self> {
        let asked = answer.get("asked")?.as_array()?.iter();
        Some(Self {
            text: answer.get("text")?.as_str()?.to_owned(),
            failed: answer.get("failed")?.as_bool()?,
            progress: answer.get("progress")?.as_u64()?,
            asked: asked.map(|method| method.as_str().map(str::to_owned)).collect::<Option<_>>()?,
        })
    }
}

/// Copies a script of `tools/peers` to where its imports resolve; the path is good for [`NodeTools::script`].
pub(super) fn beside_the_packages(node: &NodeTools, script: &str) -> Result<String> {
    let there = node.modules.with_file_name(script);
    fs::copy(paths::root().join("tools/peers").join(script), &there)
        .with_context(|| format!("copying {script}"))?;
    Ok(there.to_string_lossy().into_owned())
}
