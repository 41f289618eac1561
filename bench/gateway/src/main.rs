//! The gateway of `hospes up` in front of one server: routing, renaming, supervision, everything at its default.
//!
//! ```text
//! hospes-bench-gateway PORT BACKEND_URL [guarded]
//! ```
//!
//! The server's name is `b`, so its tools are listed as `b__echo` and so on. With `guarded`, calls pass every check
//! between a person and a server: a rule that requires approval, a lasting permission, pins and the audit log. This is
//! a package of its own because the host needs more SDK features than a server does. A package is built with one set of
//! features.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use hospes::client::Client;
use hospes::transport::http_server::{Endpoint, HttpServer};
use hospes_host::approvals::{ApprovalDecision, ApprovalScope, LastingPermission};
use hospes_host::config::ConfigLoader;
use hospes_host::{Host, PinMode, PinningConfig, PolicyEnforcer};
use hospes_policy::{Policy, PolicyEnvironment};
use hospes_store::{AuditLog, StateStore};
use serde_json::json;

type BenchResult<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "hospes-bench-gateway PORT BACKEND_URL [guarded]";

fn main() -> BenchResult<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (port, backend, is_guarded) = match words.as_slice() {
        [port, backend] => (port, backend, false),
        [port, backend, "guarded"] => (port, backend, true),
        _ => return Err(USAGE.into()),
    };
    let configuration = json!({ "mcpServers": { "b": { "url": backend } } }).to_string();
    let configuration = ConfigLoader::new().parse("bench.json", &configuration)?;
    hospes_bench::raise_descriptor_limit();
    hospes_bench::runtime()?.block_on(async {
        let mut builder = Host::builder(configuration);
        let folder = RunFolder::new();
        if is_guarded {
            std::fs::create_dir_all(&folder.0)?;
            let state = StateStore::open(folder.0.join("state.db"))?;
            let policy =
                Policy::read("[[rule]]\ndecide = \"ask\"\nserver = \"b\"\n", &PolicyEnvironment::default())?;
            let guard = PolicyEnforcer::new(Some(policy))
                .with_audit(AuditLog::open(folder.0.join("audit.db"), folder.0.join("audit.key"))?)
                .with_approvals(hospes_host::ApprovalQueue::open(&state).await?);
            builder = builder.guard(Arc::new(guard)).pins(PinningConfig::new(state, PinMode::FirstUse));
        }
        let host = builder.start()?;
        if is_guarded {
            permit(&host).await?;
        }
        let endpoint = Endpoint::new(host.gateway());
        Ok(HttpServer::bind(("127.0.0.1", port.parse()?), endpoint).await?.serve().await?)
    })
}

/// Calls `echo` once, and gives the lasting permission that a person would give at the console.
async fn permit(host: &Host) -> BenchResult<()> {
    let queue = host.guard().ok_or("there is no guard")?.approvals().clone();
    let _there = queue.register_viewer(None);
    let mut changes = queue.subscribe();
    let client = Client::in_memory(host.gateway()).await?;
    let deciding = async {
        loop {
            if let Some(approval) = queue.pending().into_iter().next() {
                let mut permission = LastingPermission::default();
                permission.any_application = true;
                let decision =
                    ApprovalDecision::Allow { edited: None, scope: ApprovalScope::Always(permission) };
                queue.decide(&approval.id, decision, "the benchmark").await?;
                return Ok::<(), Box<dyn Error>>(());
            }
            changes.changed().await?;
        }
    };
    let arguments = json!({ "text": "x", "message": "x" });
    let (called, decided) = tokio::join!(client.call("b__echo", arguments), deciding);
    decided?;
    called?;
    client.close().await;
    Ok(())
}

/// Folder with the state and the audit log of one run.
struct RunFolder(PathBuf);

impl RunFolder {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("hospes-bench-gateway-{}", std::process::id())))
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}
