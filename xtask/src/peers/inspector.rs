//! Runner of the Inspector's command line, an application written by others.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};

use crate::process;
use crate::tools::NodeTools;

const SCRIPT: &str = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";
const LIMIT: Duration = Duration::from_secs(60);

/// Protocol mode of the Inspector. Only `auto` falls back: `modern` against an old server is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InspectorEra {
    Legacy,
    Modern,
    /// The Inspector finds out.
    Auto,
}

impl InspectorEra {
    pub(super) const ALL: [Self; 3] = [Self::Legacy, Self::Modern, Self::Auto];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
            Self::Auto => "auto",
        }
    }
}

/// The Inspector, with the servers it may be pointed at.
pub(super) struct InspectorRunner<'a> {
    node: &'a NodeTools,
    folder: PathBuf,
    servers: Map<String, Value>,
}

impl<'a> InspectorRunner<'a> {
    /// Keeps its configuration file in `folder`.
    pub(super) fn new(node: &'a NodeTools, folder: PathBuf) -> Self {
        Self { node, folder, servers: Map::new() }
    }

    /// Adds a server: an entry as in `mcpServers`.
    pub(super) fn add(&mut self, name: &str, entry: Value) {
        self.servers.insert(name.to_owned(), entry);
    }

    /// The names of all tools of a server.
    pub(super) fn tools(&self, server: &str, era: InspectorEra) -> Result<BTreeSet<String>> {
        let result = self.ask(server, era, &["--method", "tools/list"])?;
        let tools = result.get("tools").and_then(Value::as_array).context("the answer has no tools")?;
        let names = tools.iter().map(|tool| tool.get("name").and_then(Value::as_str).map(str::to_owned));
        names.collect::<Option<_>>().context("a tool has no name")
    }

    /// Calls a tool; the answer is all its text.
    pub(super) fn call(
        &self,
        server: &str,
        era: InspectorEra,
        tool: &str,
        arguments: &Value,
    ) -> Result<String> {
        let arguments = arguments.to_string();
        let request = ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", &arguments];
        let result = self.ask(server, era, &request)?;
        let content = result.get("content").and_then(Value::as_array).context("the answer has no content")?;
        Ok(content.iter().filter_map(|block| block.get("text")?.as_str()).collect())
    }

    fn ask(&self, server: &str, era: InspectorEra, request: &[&str]) -> Result<Value> {
        // Servers are named in a file because the Inspector would take a target's own dashes for its flags.
        let config = self.folder.join("inspector.json");
        fs::write(&config, json!({ "mcpServers": self.servers }).to_string())?;
        let mut command = self.node.script(SCRIPT);
        command.arg("--cli").arg("--config").arg(&config).args(["--server", server]);
        command.args(["--protocol-era", era.name(), "--format", "json", "--quiet", "--stored-auth-only"]);
        command.args(request).current_dir(&self.folder);
        let done = process::run(command, &format!("inspector {server} {}", era.name()), LIMIT)?;
        if done.code != Some(0) {
            bail!("{}\n{}", done.ending(), done.tail());
        }
        let answer: Value =
            serde_json::from_str(&done.stdout).with_context(|| format!("in {:?}", done.stdout))?;
        answer.get("result").cloned().context("no result")
    }
}
