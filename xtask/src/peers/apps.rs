//! MCP Apps behind the gateway: published servers whose tools all name the same page, and an application that shows pages.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::application::beside_the_packages;
use super::inspector::InspectorEra;
use super::{CheckList, START_WAIT_SECONDS, start};
use crate::process;
use crate::tools::NodeTools;

const LIMIT: Duration = Duration::from_secs(120);
const EXTENSION: &str = "io.modelcontextprotocol/ui";

/// The servers, by the label that we give them: two instances of one package, and one of another, whose page is its own.
const SERVERS: [(&str, &str); 3] = [
    ("clock", "server-basic-vanillajs"),
    ("clock-again", "server-basic-vanillajs"),
    ("clock-preact", "server-basic-preact"),
];
/// The name of their tool, and the rest of the URI of their page.
const TOOL: &str = "get-time";
const PAGE: &str = "get-time/mcp-app.html";

/// Puts the servers behind `hospes up`, and the application in front of it.
pub(super) fn examine(node: &NodeTools, folder: &Path, checks: &mut CheckList) -> Result<()> {
    let package = |name: &str| node.modules.join("@modelcontextprotocol").join(name).join("dist");
    let stdio = |arguments: Value| json!({ "command": node.program(), "args": arguments });
    let mut servers = serde_json::Map::new();
    let mut pages = Vec::new();
    for (label, name) in SERVERS {
        servers.insert(label.to_owned(), stdio(json!([package(name).join("index.js"), "--stdio"])));
        let page = package(name).join("mcp-app.html");
        pages.push(fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?);
    }
    ensure!(pages[0] != pages[2], "two packages have the same page, so it tells nothing which one was read");
    let declares = beside_the_packages(node, "declares.mjs")?;
    servers.insert("declares".to_owned(), stdio(json!([declares])));

    let config = folder.join("apps.json");
    fs::write(&config, json!({ "mcpServers": servers }).to_string())?;
    let config = config.to_string_lossy().into_owned();
    let gateway = start(
        node,
        folder,
        "peers apps",
        &[
            "up",
            "--config",
            &config,
            "--listen",
            "127.0.0.1:0",
            "--console",
            "off",
            "--start-wait",
            START_WAIT_SECONDS,
        ],
    )?;
    for era in [InspectorEra::Modern, InspectorEra::Legacy] {
        // What servers declare is known once they have been started; an application that connects before hears nothing of
        // it. The lists of this one wait for them.
        if let Err(error) = ApplicationView::at(node, era, &gateway.url) {
            checks.add(&format!("apps: all servers start ({})", era.name()), Err(error));
        }
        match ApplicationView::at(node, era, &gateway.url) {
            Ok(seen) => {
                for ((label, _), page) in SERVERS.iter().zip(&pages) {
                    let tool = seen.shows(&format!("{label}__{TOOL}"), &format!("ui://{label}/{PAGE}"), page);
                    checks.add(&format!("apps: {label} shows its own page ({})", era.name()), tool);
                }
                checks.add(
                    &format!("apps: the extension is declared to the application ({})", era.name()),
                    seen.is_declared_to_the_application(),
                );
                checks.add(
                    &format!("apps: the extension is declared to the server ({})", era.name()),
                    seen.is_declared_to_the_server(),
                );
            }
            Err(error) => checks.add(&format!("apps: all servers ({})", era.name()), Err(error)),
        }
        for ((label, _), page) in SERVERS.iter().zip(&pages) {
            let alone = ApplicationView::at(node, era, &format!("{}/{label}", gateway.url));
            let alone = alone.and_then(|seen| {
                ensure!(seen.names() == [TOOL], "lists {:?}", seen.names());
                ensure!(seen.resources() == [format!("ui://{PAGE}")], "lists {:?}", seen.resources());
                seen.shows(TOOL, &format!("ui://{PAGE}"), page)
            });
            checks.add(&format!("apps: /mcp/{label} has the server's own names ({})", era.name()), alone);
        }
    }
    checks.stop("apps: stops when asked to", gateway);
    Ok(())
}

/// Tools and resources that the application saw at one endpoint.
struct ApplicationView(Value);

impl ApplicationView {
    fn at(node: &NodeTools, era: InspectorEra, url: &str) -> Result<Self> {
        let mut command = node.script(&beside_the_packages(node, "apps.mjs")?);
        command.args([era.name(), url]);
        let done = process::run(command, &format!("apps {}", era.name()), LIMIT)?.success()?;
        let seen = serde_json::from_str(&done.stdout);
        seen.map(Self).with_context(|| format!("in {:?}", done.stdout))
    }

    fn names(&self) -> Vec<&str> {
        let tools = self.0["tools"].as_array().into_iter().flatten();
        tools.filter_map(|tool| tool["name"].as_str()).collect()
    }

    fn resources(&self) -> Vec<&str> {
        self.0["resources"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// The tool is listed, was called, names this URI, and what was read there is this page.
    fn shows(&self, tool: &str, uri: &str, page: &str) -> Result<String> {
        let tools = self.0["tools"].as_array().into_iter().flatten();
        let found = { tools }.find(|listed| listed["name"] == tool);
        let found = found.with_context(|| format!("{tool} is not listed among {:?}", self.names()))?;
        ensure!(found["uri"] == uri, "{tool} names {}, not {uri}", found["uri"]);
        ensure!(self.resources().contains(&uri), "{uri} is not listed among {:?}", self.resources());
        ensure!(found["page"] == page, "{uri} is another server's page");
        let text = found["text"].as_str().unwrap_or_default();
        ensure!(text.starts_with("20") && text.ends_with('Z'), "{tool} answered {text:?}");
        Ok(format!("{uri}, {} bytes", page.len()))
    }

    fn is_declared_to_the_application(&self) -> Result<String> {
        let settings = &self.0["extensions"][EXTENSION];
        ensure!(settings["declaredBy"] == "declares", "declared are {}", self.0["extensions"]);
        Ok(settings.to_string())
    }

    fn is_declared_to_the_server(&self) -> Result<String> {
        let settings = &self.0["declared"][EXTENSION];
        ensure!(settings["mimeTypes"].is_array(), "declared are {}", self.0["declared"]);
        Ok(settings.to_string())
    }
}
