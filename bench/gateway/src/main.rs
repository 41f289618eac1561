//! The gateway of `hospes up` in front of one server: routing, renaming, supervision, everything at its default.
//!
//! ```text
//! hospes-bench-gateway PORT BACKEND_URL [guarded|reads|rules]
//! ```
//!
//! The server's name is `b`, so its tools are listed as `b__echo` and so on. With `guarded`, calls pass every check
//! between a person and a server: a rule that requires approval, a lasting permission, pins and the audit log. With
//! `reads`, the server is also trusted, so the end of a call to a read-only tool is not on the disk before its answer.
//! With `rules`, there is no audit log. This is a package of its own because the host needs more SDK features than a
//! server does. A package is built with one set of features.

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

const USAGE: &str = "hospes-bench-gateway PORT BACKEND_URL [guarded|reads|rules]";

/// Checks that calls pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checks {
    /// None: the gateway without policy and audit log.
    Bare,
    /// Rules, permission and pins, without an audit log.
    Rules,
    /// Everything; the server is trusted.
    Reads,
    /// Everything.
    Guarded,
}

fn main() -> BenchResult<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (port, backend, checks) = match words.as_slice() {
        [port, backend] => (port, backend, Checks::Bare),
        [port, backend, "guarded"] => (port, backend, Checks::Guarded),
        [port, backend, "reads"] => (port, backend, Checks::Reads),
        [port, backend, "rules"] => (port, backend, Checks::Rules),
        _ => return Err(USAGE.into()),
    };
    let configuration = json!({ "mcpServers": { "b": { "url": backend } } }).to_string();
    let configuration = ConfigLoader::new().parse("bench.json", &configuration)?;
    hospes_bench::raise_descriptor_limit();
    hospes_bench::runtime()?.block_on(async {
        let mut builder = Host::builder(configuration);
        let folder = RunFolder::new();
        if checks != Checks::Bare {
            std::fs::create_dir_all(&folder.0)?;
            let state = StateStore::open(folder.0.join("state.db"))?;
            let trusted = if checks == Checks::Reads { "trusted = [\"b\"]\n" } else { "" };
            let rules = format!("{trusted}[[rule]]\ndecide = \"ask\"\nserver = \"b\"\n");
            let mut guard = PolicyEnforcer::new(Some(Policy::read(&rules, &PolicyEnvironment::default())?));
            if checks != Checks::Rules {
                guard =
                    guard.with_audit(AuditLog::open(folder.0.join("audit.db"), folder.0.join("audit.key"))?);
            }
            let guard = guard.with_approvals(hospes_host::ApprovalQueue::open(&state).await?);
            builder = builder.guard(Arc::new(guard)).pins(PinningConfig::new(state, PinMode::FirstUse));
        }
        let host = builder.start()?;
        if checks != Checks::Bare {
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
