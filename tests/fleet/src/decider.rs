//! Person who decides approvals at a node, by its command `approve`.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::node::NodeSettings;

/// Time for a command, far above that for which a node holds it.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// Time within which a node shows what another one asks.
const SHOWING_LIMIT: Duration = Duration::from_secs(20);

/// Approval that a node shows.
#[derive(Clone, Debug)]
pub(crate) struct OpenApproval {
    pub(crate) id: String,
    /// Key of the call.
    pub(crate) key: String,
}

/// Makes the token with which programs decide at a node. It is made at a terminal, which `script` provides.
pub(crate) fn prepare(settings: &NodeSettings) -> Result<()> {
    for (_, folder) in settings.variables() {
        fs::create_dir_all(&folder).with_context(|| format!("creating {folder}"))?;
    }
    let mut script = Command::new("script");
    script.args(["-qec", "\"$HOSPES_PROGRAM\" --json approve --make-token tests", "/dev/null"]);
    script.envs(settings.variables()).env("HOSPES_PROGRAM", &settings.program).stdin(Stdio::null());
    let made = script.output().context("starting `script`, of Debian's package bsdutils")?;
    let text = String::from_utf8_lossy(&made.stdout);
    let token = text.split('"').find(|part| part.starts_with("hospes-"));
    let token = token.with_context(|| format!("no token was made: {text}"))?;
    Ok(fs::write(settings.folder.join("token"), token)?)
}

/// Returns the approvals that a node shows and that nobody has decided.
pub(crate) async fn list(node: &NodeSettings) -> Result<Vec<OpenApproval>> {
    let text = approve(node, &["--list"]).await?;
    let mut open = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let shown: Value = serde_json::from_str(line).with_context(|| format!("no approval: {line}"))?;
        let (id, key) = (shown["id"].as_str(), shown["card"]["arguments"]["key"].as_str());
        if let (Some("open"), Some(id), Some(key)) = (shown["state"].as_str(), id, key) {
            open.push(OpenApproval { id: id.to_owned(), key: key.to_owned() });
        }
    }
    Ok(open)
}

/// Allows a call once. The decision is acknowledged unless this fails.
pub(crate) async fn allow(node: &NodeSettings, id: &str) -> Result<()> {
    approve(node, &["--allow", id]).await.map(drop)
}

/// Allows a call once, as soon as the node shows it: another node has asked, so that may take a moment.
pub(crate) async fn allow_when_shown(node: &NodeSettings, id: &str) -> Result<()> {
    let start = Instant::now();
    while !list(node).await?.iter().any(|open| open.id == id) {
        ensure!(start.elapsed() < SHOWING_LIMIT, "the node does not show the approval {id}");
        sleep(Duration::from_millis(50)).await;
    }
    allow(node, id).await
}

async fn approve(node: &NodeSettings, arguments: &[&str]) -> Result<String> {
    let mut command = tokio::process::Command::new(&node.program);
    command.args(["approve", "--json"]).args(arguments).envs(node.variables()).stdin(Stdio::null());
    command.env("HOSPES_APPROVE_TOKEN", fs::read_to_string(node.folder.join("token"))?);
    command.kill_on_drop(true);
    let Ok(ran) = timeout(COMMAND_LIMIT, command.output()).await else {
        bail!("`approve` of a node does not end within {} s", COMMAND_LIMIT.as_secs());
    };
    let ran = ran?;
    let said = String::from_utf8_lossy(&ran.stderr);
    ensure!(ran.status.success(), "`approve` failed ({}): {}", ran.status, said.trim());
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}
