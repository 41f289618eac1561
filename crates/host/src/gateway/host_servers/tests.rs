use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hospes::BoxService;
use hospes_model::Revision;
use tokio::time::Instant;

use super::*;
use crate::Host;
use crate::server::{
    ConnectOptions, ConnectorFuture, UpstreamConnectError, UpstreamConnection, UpstreamConnector,
};
use crate::upstream::UpstreamState;

/// Cannot be connected until `mended`, and counts what it opens and closes.
#[derive(Default)]
struct Counting {
    mended: std::sync::atomic::AtomicBool,
    opened: AtomicUsize,
    closed: Arc<AtomicUsize>,
}

impl UpstreamConnector for Counting {
    fn connect(
        &self,
        _: ConnectOptions,
    ) -> ConnectorFuture<'_, Result<UpstreamConnection, UpstreamConnectError>> {
        Box::pin(async move {
            if !self.mended.load(Ordering::SeqCst) {
                return Err(UpstreamConnectError::new("it is broken"));
            }
            self.opened.fetch_add(1, Ordering::SeqCst);
            let service = BoxService::new(hospes::Server::new("steady", "1"));
            let mut connection = UpstreamConnection::new(service, Revision::LATEST);
            let closed = Arc::clone(&self.closed);
            connection.close = Box::new(move || {
                closed.fetch_add(1, Ordering::SeqCst);
                Box::pin(async {})
            });
            Ok(connection)
        })
    }
}

fn host(connector: &Arc<Counting>) -> Host {
    let text = r#"{ "mcpServers": { "a": { "command": "x" } } }"#;
    let config = crate::config::ConfigLoader::new().parse("mcp.json", text).unwrap();
    let connector = Arc::clone(connector);
    Host::builder(config).connectors(move |_, _| Arc::clone(&connector) as _).start().unwrap()
}

async fn until(host: &Host, wanted: impl Fn(&crate::upstream::UpstreamStatus) -> bool) {
    let mut seen = 0;
    while !wanted(&host.status().servers[0]) {
        seen = host.changed(seen).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_had_failed_for_good_is_started_at_once_when_a_person_wants_it() {
    let connector = Arc::new(Counting::default());
    let host = host(&connector);
    until(&host, |server| server.state == UpstreamState::Failed).await;
    connector.mended.store(true, Ordering::SeqCst);
    let asked = Instant::now();
    host.restart("a").unwrap();
    until(&host, |server| server.state == UpstreamState::Ready && server.failures == 0).await;
    assert!(asked.elapsed() < Duration::from_secs(1), "it waited {:?}", asked.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_well_is_closed_and_opened_once_for_one_wish() {
    let connector = Arc::new(Counting::default());
    connector.mended.store(true, Ordering::SeqCst);
    let host = host(&connector);
    until(&host, |server| server.state == UpstreamState::Ready).await;
    let asked = Instant::now();
    host.restart("a").unwrap();
    until(&host, |server| {
        server.state == UpstreamState::Ready && connector.opened.load(Ordering::SeqCst) == 2
    })
    .await;
    // No failure of the server's, so no pause.
    assert!(asked.elapsed() < Duration::from_secs(1), "it waited {:?}", asked.elapsed());
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(connector.opened.load(Ordering::SeqCst), 2);
    assert_eq!(connector.closed.load(Ordering::SeqCst), 1);
    assert_eq!(host.status().servers[0].failures, 0);
    assert_eq!(host.restart("b"), Err(UnknownServerError("b".to_owned())));
}
