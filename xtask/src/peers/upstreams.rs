//! Upstream servers for the checks: written by others, of both eras, over stdio and over HTTP; and one of this project.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::START_LIMIT;
use super::application::beside_the_packages;
use super::inspector::InspectorEra;
use crate::process::BackgroundServer;
use crate::tools::NodeTools;

/// Contents of the file that the filesystem server reads.
const MOTTO: &str = "both host and guest";

/// A server behind ours.
pub(super) struct PeerUpstream {
    pub(super) name: &'static str,
    /// Entry as in `mcpServers`.
    pub(super) entry: Value,
    /// The era in which the Inspector can ask it directly.
    pub(super) era: InspectorEra,
    /// A tool to call, with what, and a part of its answer.
    pub(super) call: (&'static str, Value, &'static str),
    /// True if it lists the same tools to every client; server-everything depends on the client's capabilities.
    pub(super) steady: bool,
}

/// All of them, and the processes of those that are reached by URL.
pub(super) struct PeerUpstreams {
    pub(super) servers: Vec<PeerUpstream>,
    pub(super) running: Vec<BackgroundServer>,
}

impl PeerUpstreams {
    /// Starts the servers that listen; the others are started by their clients. `ours` is the URL of a server of this
    /// project.
    pub(super) fn start(node: &NodeTools, folder: &Path, ours: &str) -> Result<Self> {
        let files = folder.join("files");
        fs::create_dir_all(&files)?;
        let motto = files.join("motto.txt");
        fs::write(&motto, MOTTO)?;
        let modern = beside_the_packages(node, "modern.mjs")?;
        let script = |path: &str| format!("@modelcontextprotocol/{path}/dist/index.js");
        let package = |path: &str| node.modules.join(script(path));
        let program = node.program();

        let everything = |transport: &str, path: &str| {
            let port = free_port()?;
            let mut command = node.script(&script("server-everything"));
            command.arg(transport).env("PORT", port.to_string());
            let (label, url) =
                (format!("server-everything {transport}"), format!("http://127.0.0.1:{port}{path}"));
            BackgroundServer::start_at(command, &label, &url, START_LIMIT)
        };
        let old = everything("streamableHttp", "/mcp")?;
        let older = everything("sse", "/sse")?;
        let mut new = node.script(&modern);
        new.arg("http");
        let new = BackgroundServer::start(new, "modern over HTTP", START_LIMIT)?;

        let sum = || ("get-sum", json!({ "a": 19, "b": 23 }), "42");
        let shout = || ("shout", json!({ "text": "ave" }), "AVE!");
        let (stdio, http) = (
            |arguments: Value| json!({ "command": program, "args": arguments }),
            |url: &str| json!({ "type": "http", "url": url }),
        );
        let at = |name, entry, era, call| PeerUpstream { name, entry, era, call, steady: true };
        let servers = vec![
            PeerUpstream {
                steady: false,
                ..at(
                    "everything",
                    stdio(json!([package("server-everything"), "stdio"])),
                    InspectorEra::Legacy,
                    sum(),
                )
            },
            PeerUpstream {
                steady: false,
                ..at("everything-http", http(&old.url), InspectorEra::Legacy, sum())
            },
            PeerUpstream {
                steady: false,
                ..at(
                    "everything-sse",
                    json!({ "type": "sse", "url": older.url }),
                    InspectorEra::Legacy,
                    sum(),
                )
            },
            at(
                "filesystem",
                stdio(json!([package("server-filesystem"), files])),
                InspectorEra::Legacy,
                ("read_text_file", json!({ "path": motto }), MOTTO),
            ),
            at(
                "memory",
                stdio(json!([package("server-memory")])),
                InspectorEra::Legacy,
                ("read_graph", json!({}), "entities"),
            ),
            at("modern", stdio(json!([modern])), InspectorEra::Modern, shout()),
            at("modern-http", http(&new.url), InspectorEra::Modern, shout()),
            at(
                "ours",
                http(ours),
                InspectorEra::Auto,
                ("test_simple_text", json!({}), "simple text response"),
            ),
        ];
        Ok(Self { servers, running: vec![old, older, new] })
    }
}

/// A port that nothing listens on at the moment, for programs that cannot pick one.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
