//! The server behind the gateways that are measured: it does next to nothing, in every revision, and can change its list
//! of tools.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hospes::prelude::*;
use hospes::transport::http_server::{Endpoint, HttpServer};
use hospes::transport::shutdown_signal;
use serde_json::json;

use crate::call_load::modern_request;
use crate::child::ChildProcess;
use crate::cluster::free_port;
use crate::kept_connection::KeptConnection;

/// Time for the start.
const START_LIMIT: Duration = Duration::from_secs(30);

#[derive(Deserialize, JsonSchema)]
struct TextArgument {
    text: String,
}

/// Serves over HTTP on a loopback port until told to end.
pub(crate) async fn serve(port: u16) -> Result<()> {
    let changes = AtomicU64::new(0);
    let echo = Tool::new("echo").description("Repeats a text.").read_only(true).open_world(false);
    let server = Server::new("load", "1")
        .tool(echo, async |Args(TextArgument { text }): Args<TextArgument>| text)
        .tool(
            Tool::new("change").description("Adds a tool, or removes it again."),
            move |handle: ServerHandle, Args(TextArgument { text }): Args<TextArgument>| {
                let number = changes.fetch_add(1, Ordering::SeqCst);
                async move {
                    if number.is_multiple_of(2) {
                        let tool = Tool::new("added").description("Comes and goes.");
                        handle
                            .add_tool(tool, async |Args(TextArgument { text }): Args<TextArgument>| text)
                            .map_err(Error::new)?;
                    } else {
                        handle.remove_tool("added");
                    }
                    Ok::<_, Error>(text)
                }
            },
        );
    let server = HttpServer::bind(("127.0.0.1", port), Endpoint::builder(server).build()).await?;
    Ok(server.serve_until(shutdown_signal()?).await?)
}

/// The server as a process, which is the only one for all nodes.
#[derive(Debug)]
pub(crate) struct LoadServer {
    process: ChildProcess,
    port: u16,
}

impl LoadServer {
    /// Starts the server, and writes the configuration of nodes.
    pub(crate) async fn start(folder: &std::path::Path) -> Result<Self> {
        let (program, port) = (std::env::current_exe()?, free_port()?);
        let arguments = ["serve-load".to_owned(), port.to_string()];
        let mut process = ChildProcess::start(&program, &arguments, &[], &folder.join("server.log"))?;
        process.wait_until_it_listens(port, START_LIMIT).await?;
        let server = Self { process, port };
        let table = format!("[servers.load]\nurl = {}\n", json!(server.url()));
        std::fs::write(server_file(folder), table).context("writing the configuration of the server")?;
        Ok(server)
    }

    /// Address of its endpoint.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Process of the server.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Changes its list of tools.
    pub(crate) async fn change_list(&self) -> Result<()> {
        let mut body = Vec::new();
        let (head, content) = modern_request(self.port, "/mcp", "change", "now", 1);
        let mut connection = KeptConnection::open(self.port).await?;
        let head = connection.post(&head, content.as_bytes(), &mut body).await?;
        let text = String::from_utf8_lossy(&body);
        ensure!(
            head.status == 200 && text.contains("\"now\""),
            "the list was not changed: {} {text}",
            head.status
        );
        Ok(())
    }
}

/// Configuration file of the nodes in a folder.
pub(crate) fn server_file(folder: &std::path::Path) -> std::path::PathBuf {
    folder.join("servers.toml")
}
