//! Servers on the current Python SDKs behind the gateway. They speak 2026-07-28 and ask with requests of their own, which
//! exist only up to 2025-11-25: the first such call fails and says so, every later one works.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::application::{self, CallAnswer, PeerCall};
use super::inspector::InspectorEra;
use super::{CheckList, START_LIMIT, START_WAIT_SECONDS, contains, start_with};
use crate::paths;
use crate::process::BackgroundServer;
use crate::tools::{NodeTools, PythonTools};

/// The servers, by the label that we give them: how each is written, and whether it is reached over HTTP.
const SERVERS: [(&str, &str, bool); 3] = [
    ("asks-mcp", "asks_mcp.py", false),
    ("asks-fastmcp", "asks_fastmcp.py", false),
    ("asks-fastmcp-http", "asks_fastmcp.py", true),
];

/// The tools that ask: what they ask with, and a part of the answer.
const TOOLS: [(&str, &str, &str); 3] = [
    ("greet", "elicitation/create", "Salve, Hospes!"),
    ("compose", "sampling/createMessage", "composed: the scripted answer"),
    ("folders", "roots/list", "file:///scripted/root"),
];

/// A part of what the first call is answered with.
const NOTICE: &str = "sends requests that exist only up to 2025-11-25";

/// Puts the servers behind `hospes up`, once for each tool that is called first, and once behind `hospes stdio`; the
/// application is in front of it, before and after a restart.
pub(super) fn examine(node: &NodeTools, folder: &Path, checks: &mut CheckList) -> Result<()> {
    let python = PythonTools::servers()?;
    let script = |name: &str| paths::root().join("tools/peers").join(name);
    let mut running = Vec::new();
    let mut servers = serde_json::Map::new();
    for (label, file, is_http) in SERVERS {
        let entry = if is_http {
            let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            let url = format!("http://127.0.0.1:{port}/mcp");
            let mut command = python.script(&script(file));
            command.arg(port.to_string());
            running.push(BackgroundServer::start_at(command, label, &url, START_LIMIT)?);
            json!({ "type": "http", "url": url })
        } else {
            let environment = json!({ "PYTHONPATH": python.packages(), "PYTHONDONTWRITEBYTECODE": "1" });
            json!({ "command": "python3", "args": [script(file)], "env": environment })
        };
        servers.insert(label.to_owned(), entry);
    }
    let config = folder.join("python.json");
    fs::write(&config, json!({ "mcpServers": servers }).to_string())?;

    for first in TOOLS {
        // What was found out about a server is remembered there.
        let state = folder.join(format!("python-state-{}", first.0));
        let up = || {
            let set = |command: &mut Command| {
                command.env("XDG_STATE_HOME", &state);
            };
            let config = config.to_string_lossy();
            let arguments = ["up", "--config", &config, "--start-wait", START_WAIT_SECONDS];
            let arguments = [&arguments[..], &["--listen", "127.0.0.1:0", "--console", "off"]].concat();
            start_with(node, folder, &format!("peers python {}", first.0), &arguments, set)
        };
        let gateway = up()?;
        called(node, "up", &json!({ "url": gateway.url }), (first, false), checks);
        checks.stop("python: stops when asked to", gateway);
        let gateway = up()?;
        called(node, "up", &json!({ "url": gateway.url }), (first, true), checks);
        checks.stop("python: stops when asked to", gateway);
    }
    let entry = over_stdio(&folder.join("python-stdio"), &config)?;
    called(node, "stdio", &entry, (TOOLS[1], false), checks);
    called(node, "stdio", &entry, (TOOLS[1], true), checks);
    Ok(())
}

fn over_stdio(state: &Path, config: &Path) -> Result<Value> {
    // The application passes on no variables but those that it is told of here.
    let state = format!("XDG_STATE_HOME={}", state.display());
    Ok(json!({
        "command": "env",
        "args": [state, paths::program("hospes")?, "stdio", "--config", config, "--start-wait", START_WAIT_SECONDS],
    }))
}

/// Calls one tool of each server, and then all of them.
fn called(
    node: &NodeTools,
    front: &str,
    entry: &Value,
    ((first, ..), is_again): ((&str, &str, &str), bool),
    checks: &mut CheckList,
) {
    let call = |label: &str, tool: &str| PeerCall { tool: format!("{label}__{tool}"), arguments: json!({}) };
    let mut calls = Vec::new();
    for (label, ..) in SERVERS {
        calls.push(call(label, "plain"));
        if !is_again {
            calls.push(call(label, first));
        }
        calls.extend(TOOLS.iter().map(|(tool, ..)| call(label, tool)));
    }
    let what = if is_again { "when it is known" } else { "when it is new" };
    let what = |label: &str, tool: &str| format!("{front}: {label}__{tool} {what}, {first} first");
    let answers = match application::run(node, front, InspectorEra::Modern, entry, &calls) {
        Ok(answers) => answers,
        Err(error) => return checks.add(&what("python", "all"), Err(error)),
    };
    let mut answers = answers.iter();
    let mut next = |what: String, judge: &dyn Fn(&CallAnswer) -> Result<String>| {
        let judged = answers.next().map_or_else(|| Err(anyhow::anyhow!("no answer")), judge);
        checks.add(&what, judged);
    };
    for (label, ..) in SERVERS {
        next(what(label, "plain"), &|answer| contains(&answer.text, "nothing was asked"));
        if !is_again {
            next(what(label, "(notice)"), &|answer| {
                ensure!(answer.failed, "did not fail: {}", answer.text);
                contains(&answer.text, NOTICE)
            });
        }
        for (tool, method, part) in TOOLS {
            next(what(label, tool), &|answer| {
                ensure!(!answer.failed, "failed: {}", answer.text);
                ensure!(answer.asked == [method], "the application was asked {:?}", answer.asked);
                contains(&answer.text, part)
            });
        }
    }
}
