//! Tests of servers that disappear silently and come back: the host notices both.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hospes::client::Client;
use hospes::model::{CacheScope, Revision};
use hospes::server::Server;
use hospes::transport::http_server::{Endpoint, HttpServer};
use hospes_host::config::ConfigLoader;
use hospes_host::upstream::UpstreamState;
use hospes_host::{Host, HostSettings, PolicyEnforcer};
use hospes_store::{AuditEntry, AuditEntryKind, AuditLog, AuditOutcome, AuditQuery, RecordedEntry};
use serde_json::json;
use tokio::runtime::Runtime;

/// Time limit for events that a test waits for.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server whose lists stay fresh for an hour. All of it, its open connections too, ends with the runtime.
async fn serve(address: SocketAddr) -> (SocketAddr, Runtime) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let bound = runtime.spawn(async move {
        let server = Server::new("good", "1")
            .cache_lists(Duration::from_secs(3600), CacheScope::Public)
            .tool("say", || async { "well" })
            .prompt("ask", || async { "How are you?" });
        let server = HttpServer::bind(address, Endpoint::new(server)).await.unwrap();
        let address = server.local_addr();
        tokio::spawn(server.serve());
        address
    });
    (bound.await.unwrap(), runtime)
}

fn start(address: SocketAddr, era: &str, settings: HostSettings) -> Host {
    let text = format!("[servers.good]\nurl = \"http://{address}/mcp\"\nera = \"{era}\"\n");
    let config = ConfigLoader::new().parse("/nowhere/hospes.toml", &text).unwrap();
    Host::builder(config).settings(settings).start().unwrap()
}

/// Starts a host with an audit log.
fn recorded(address: SocketAddr, settings: HostSettings) -> (Host, AuditLog, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let audit = AuditLog::open(folder.path().join("audit.db"), folder.path().join("audit.key")).unwrap();
    let text = format!("[servers.good]\nurl = \"http://me:s3cret@{address}/mcp?key=s3cret\"\n");
    let config = ConfigLoader::new().parse("/nowhere/hospes.toml", &text).unwrap();
    let guard = PolicyEnforcer::new(None).with_audit(audit.clone());
    let host = Host::builder(config).settings(settings).guard(Arc::new(guard)).start().unwrap();
    (host, audit, folder)
}

async fn until(host: &Host, wanted: impl Fn(UpstreamState) -> bool) {
    let waiting = async {
        let mut seen = 0;
        while !wanted(host.status().servers[0].state) {
            seen = host.changed(seen).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("still {:?}", host.status()));
}

/// No request is sent on a connection to an HTTP server that is not called.
#[tokio::test]
async fn a_server_that_is_gone_is_shown_so_before_anybody_calls_it() {
    for era in ["legacy", "modern"] {
        let (address, serving) = serve(([127, 0, 0, 1], 0).into()).await;
        let mut settings = HostSettings::default();
        settings.health_check = Some(Duration::from_secs(1));
        let host = start(address, era, settings);
        until(&host, |state| state == UpstreamState::Ready).await;
        serving.shutdown_background();
        until(&host, |state| state == UpstreamState::Retrying).await;
        let problem = host.status().servers[0].problem.clone().unwrap();
        assert!(!problem.is_empty(), "{era}");
        let (_, serving) = serve(address).await;
        until(&host, |state| state == UpstreamState::Ready).await;
        host.stop().await;
        serving.shutdown_background();
    }
}

#[tokio::test]
async fn what_becomes_of_connections_is_recorded_and_each_try_is_not() {
    let (address, serving) = serve(([127, 0, 0, 1], 0).into()).await;
    serving.shutdown_background();
    let mut settings = HostSettings::default();
    settings.health_check = Some(Duration::from_secs(1));
    settings.restart.first = Duration::from_millis(20);
    settings.restart.max = Duration::from_millis(20);
    settings.restart.quarantine_after = u32::MAX;
    let (host, audit, _folder) = recorded(address, settings);
    let failed_often = async {
        let mut seen = 0;
        while host.status().servers[0].failures < 3 {
            seen = host.changed(seen).await;
        }
    };
    tokio::time::timeout(PATIENCE, failed_often).await.unwrap();
    let (_, serving) = serve(address).await;
    until(&host, |state| state == UpstreamState::Ready).await;
    serving.shutdown_background();
    until(&host, |state| state == UpstreamState::Retrying).await;
    let (_, serving) = serve(address).await;
    until(&host, |state| state == UpstreamState::Ready).await;
    host.stop().await;
    serving.shutdown_background();
    audit.record(AuditEntry::new(AuditEntryKind::Policy)).await.unwrap();
    let mut found = audit.search(AuditQuery::new().with_kind(AuditEntryKind::Server)).await.unwrap();
    found.reverse();
    let said = |one: &RecordedEntry| (one.entry.decision.clone().unwrap(), one.entry.ending.unwrap());
    let expected = [
        ("not connected", AuditOutcome::Failed),
        ("connected", AuditOutcome::Done),
        ("disconnected", AuditOutcome::Failed),
        ("connected", AuditOutcome::Done),
        ("disconnected", AuditOutcome::Done),
    ];
    let expected = expected.map(|(what, ending)| (what.to_owned(), ending));
    assert_eq!(found.iter().map(said).collect::<Vec<_>>(), expected, "{found:?}");
    for one in &found {
        let entry = &one.entry;
        let shown = format!("http://[redacted]@{address}/mcp?key=[redacted]");
        assert_eq!(entry.subject.as_deref(), Some(&*shown));
        assert_eq!(entry.by.as_deref(), Some("/nowhere/hospes.toml:1:10"));
        assert_eq!(entry.target.as_ref().unwrap().len(), 64);
        assert!(entry.sandbox.is_none() && entry.call.is_none());
    }
}

/// The lists that are read to see whether the server still answers came from the client's own cache.
#[tokio::test]
async fn a_failed_call_is_looked_into_though_the_lists_are_fresh() {
    let (address, serving) = serve(([127, 0, 0, 1], 0).into()).await;
    let mut settings = HostSettings::default();
    settings.health_check = None;
    let host = start(address, "modern", settings);
    until(&host, |state| state == UpstreamState::Ready).await;
    let client = Client::builder().revision(Revision::LATEST).in_memory(host.gateway()).await.unwrap();
    assert_eq!(client.call("good__say", ()).await.unwrap().all_text(), "well");
    serving.shutdown_background();
    let failed = client.call("good__say", json!({})).await;
    assert!(failed.is_err() || failed.unwrap().has_failed());
    until(&host, |state| state != UpstreamState::Ready).await;
    host.stop().await;
}
