//! Servers that are late, and servers whose lists are not as they should be.

use std::sync::atomic::AtomicU32;

use hospes::model::{
    DiscoverResult, ListPromptsResult, PromptsCapability, Reply, RpcError, ServerCapabilities,
    SubscriptionsAcknowledgedParams, ToolsCapability,
};
use hospes::{BoxService, Service};

use super::*;

/// Regression: a resource whose server was not connected yet was never followed.
#[tokio::test(start_paused = true)]
async fn a_resource_is_followed_once_its_server_is_there() {
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        let late = Server::new("late", "1").resource("notes://today", "sunny");
        let handle = late.handle();
        let host = House::default()
            .with("quick", up, || echo("quick").resource("other://x", "y"))
            .slow("late", up, Duration::from_secs(30), move || Ok(late.clone()))
            .start();
        let client = plain(&host, down).await;
        let filter = SubscriptionFilter::new().with_resource_subscriptions(vec!["notes://today".to_owned()]);
        let mut stream = client.listen(filter).await.unwrap();
        assert_eq!(stream.acknowledged().resource_subscriptions, ["notes://today"], "{up} behind {down}");
        tokio::time::sleep(Duration::from_secs(40)).await;
        handle.resource_updated("notes://today");
        let change = tokio::time::timeout(Duration::from_secs(5), stream.next()).await;
        let Ok(Some(Notification::ResourceUpdated(updated))) = change else {
            panic!("{up} behind {down}: {change:?}")
        };
        assert_eq!(updated.uri, "notes://today");
    }
}

/// A first start, in which `npx` may download packages, has a longer time limit, once. A command that hangs must not
/// cost that time on every start.
#[tokio::test(start_paused = true)]
async fn a_command_that_was_never_started_is_waited_for_longer() {
    let folder = tempfile::tempdir().unwrap();
    let start = |name: &'static str| {
        let mut config = HostConfig::default();
        let transport = ServerTransport::target("npx -y slow").unwrap();
        config.servers.push(ServerConfig::new("slow", transport, ConfigSource::unwritten("a test")));
        let make: Make = Arc::new(move || Ok(hospes::BoxService::new(echo(name))));
        let (delay, settings) = (Duration::from_secs(7), HostSettings::default());
        let connector =
            Arc::new(InMemory { make, revision: Revision::LATEST, delay, settings, made: Arc::default() });
        Host::builder(config)
            .connectors(move |_, _| Arc::clone(&connector) as Arc<dyn UpstreamConnector>)
            .memory(folder.path().join("memory.json"))
            .start()
            .unwrap()
    };
    for (run, (tools, seconds)) in [(1, 7), (0, 5)].into_iter().enumerate() {
        let begun = Instant::now();
        let host = start("slow");
        let client = plain(&host, Revision::LATEST).await;
        assert_eq!(client.tools().all().await.unwrap().len(), tools, "run {run}");
        assert_eq!(begun.elapsed().as_secs(), seconds, "run {run}");
    }
}

/// After the acknowledgement the application receives the very next change.
#[tokio::test]
async fn a_stream_of_changes_is_acknowledged_when_the_servers_listen() {
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        let server = echo("one").resource("notes://today", "sunny");
        let handle = server.handle();
        let host = House::default().with("one", up, move || server.clone()).start();
        let client = plain(&host, down).await;
        client.tools().all().await.unwrap();
        let mut stream = client.subscribe("notes://today").await.unwrap();
        handle.resource_updated("notes://today");
        let change = tokio::time::timeout(Duration::from_secs(10), stream.next()).await;
        assert!(
            matches!(change, Ok(Some(Notification::ResourceUpdated(_)))),
            "{up} behind {down}: {change:?}"
        );
    }
}

/// A server whose list of tools has invalid entries and a cursor cycle, and whose prompts cannot be read.
struct Broken {
    changed: Arc<Notify>,
}

impl Service for Broken {
    async fn call(&self, call: Call) -> Outcome {
        match call.method {
            Method::Discover => Outcome::Complete(DiscoverResult::new(Vec::new(), capabilities()).into()),
            Method::ToolsList => {
                let list = json!({ "nextCursor": "again", "tools": [
                    { "name": "good", "inputSchema": { "type": "object" } },
                    { "name": "bad", "inputSchema": 7 },
                    "worse",
                ] });
                Outcome::Complete(Reply::raw(Revision::LATEST, list.into()))
            }
            Method::PromptsList => Outcome::Failed(RpcError::internal("the prompts are lost")),
            Method::SubscriptionsListen => {
                let filter = SubscriptionFilter::new().with_tools_list_changed(true);
                let acknowledged = SubscriptionsAcknowledgedParams::new(filter);
                call.context.notify(Notification::SubscriptionsAcknowledged(acknowledged));
                loop {
                    self.changed.notified().await;
                    call.context.notify(Notification::ToolsListChanged);
                }
            }
            _ => Outcome::Complete(ListPromptsResult::new(Vec::new()).into()),
        }
    }
}

fn capabilities() -> ServerCapabilities {
    let mut tools = ToolsCapability::new();
    tools.list_changed = Some(true);
    ServerCapabilities::new().with_tools(tools).with_prompts(PromptsCapability::new())
}

impl UpstreamConnector for Broken {
    fn connect(
        &self,
        _: ConnectOptions,
    ) -> ConnectorFuture<'_, Result<UpstreamConnection, UpstreamConnectError>> {
        let service = BoxService::new(Self { changed: Arc::clone(&self.changed) });
        let mut connection = UpstreamConnection::new(service, Revision::LATEST);
        connection.capabilities = capabilities();
        Box::pin(std::future::ready(Ok(connection)))
    }
}

/// One bad entry cost the whole list, and reading one list again hid what was wrong with the others.
#[tokio::test(start_paused = true)]
async fn what_is_good_in_a_broken_list_is_shown_and_what_is_not_is_named() {
    let changed = Arc::new(Notify::new());
    let broken = Arc::new(Broken { changed: Arc::clone(&changed) });
    let mut config = HostConfig::default();
    config.servers.push(ServerConfig::new(
        "broken",
        ServerTransport::builtin("broken", []),
        ConfigSource::unwritten("a test"),
    ));
    let host = Host::builder(config)
        .connectors(move |_, _| Arc::clone(&broken) as Arc<dyn UpstreamConnector>)
        .start()
        .unwrap();
    let client = plain(&host, Revision::LATEST).await;
    for _ in 0..2 {
        let names: Vec<String> =
            client.tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["broken__good"]);
        let warnings = host.status().servers.remove(0).warnings;
        for part in [
            "tools/list: `bad` was left out",
            "tools/list: entry 3 was left out",
            "tools/list: its cursors repeat",
            "prompts/list: the prompts are lost",
        ] {
            assert!(warnings.iter().any(|warning| warning.starts_with(part)), "{part}: {warnings:#?}");
        }
        changed.notify_one();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// A server that declares no notifications of changes: its tools are other ones with each list.
struct Silent {
    lists: Arc<AtomicU32>,
}

impl Service for Silent {
    async fn call(&self, call: Call) -> Outcome {
        match call.method {
            Method::ToolsList => {
                let count = self.lists.fetch_add(1, Ordering::SeqCst);
                let tool = json!({ "name": format!("tool{count}"), "inputSchema": { "type": "object" } });
                Outcome::Complete(Reply::raw(Revision::LATEST, json!({ "tools": [tool] }).into()))
            }
            _ => Outcome::Complete(ListPromptsResult::new(Vec::new()).into()),
        }
    }
}

impl UpstreamConnector for Silent {
    fn connect(
        &self,
        _: ConnectOptions,
    ) -> ConnectorFuture<'_, Result<UpstreamConnection, UpstreamConnectError>> {
        let service = BoxService::new(Self { lists: Arc::clone(&self.lists) });
        let mut connection = UpstreamConnection::new(service, Revision::LATEST);
        connection.capabilities = ServerCapabilities::new()
            .with_tools(ToolsCapability::new())
            .with_prompts(PromptsCapability::new());
        Box::pin(std::future::ready(Ok(connection)))
    }
}

/// An application that lists again receives the list as it is now, and the server is asked at most once a second.
#[tokio::test(start_paused = true)]
async fn lists_of_a_server_that_announces_no_changes_are_read_again() {
    let silent = Arc::new(Silent { lists: Arc::default() });
    let lists = Arc::clone(&silent.lists);
    let mut config = HostConfig::default();
    let transport = ServerTransport::builtin("silent", []);
    config.servers.push(ServerConfig::new("silent", transport, ConfigSource::unwritten("a test")));
    let host = Host::builder(config)
        .connectors(move |_, _| Arc::clone(&silent) as Arc<dyn UpstreamConnector>)
        .start()
        .unwrap();
    let client = plain(&host, Revision::LATEST_LEGACY).await;
    let listed = async || client.tools().all().await.unwrap().remove(0).name;
    assert_eq!(listed().await, "silent__tool0");
    client.prompts().all().await.unwrap();
    assert_eq!(listed().await, "silent__tool1");
    assert_eq!(listed().await, "silent__tool1", "just read");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(listed().await, "silent__tool2");
    assert_eq!(lists.load(Ordering::SeqCst), 3);
}
