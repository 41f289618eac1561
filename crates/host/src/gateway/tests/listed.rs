//! The lists of servers that are ready, of those that are still starting, and of those that speak another era.

use hospes::model::{CallToolResult, RpcError, code};
use hospes::{BoxService, Service};

use super::*;
use crate::server::KnownProtocol;

/// The first connection is made at once; each further one after `delay`, or not at all.
struct Crowded {
    made: AtomicUsize,
    delay: Duration,
    fails: bool,
    revision: Revision,
}

impl UpstreamConnector for Crowded {
    fn connect(
        &self,
        wish: ConnectOptions,
    ) -> ConnectorFuture<'_, Result<UpstreamConnection, UpstreamConnectError>> {
        Box::pin(async move {
            if self.made.fetch_add(1, Ordering::SeqCst) > 0 {
                tokio::time::sleep(self.delay).await;
                if self.fails {
                    return Err(UpstreamConnectError::new("the machine is busy"));
                }
            }
            let builder = Client::builder().revision(self.revision);
            let client = declaring(builder, wish.abilities, &[]).in_memory(curious()).await.unwrap();
            Ok(in_memory(&Arc::from("files"), client))
        })
    }
}

fn host_of(name: &str, transport: ServerTransport, connector: impl UpstreamConnector) -> crate::HostBuilder {
    let mut config = HostConfig::default();
    config.servers.push(ServerConfig::new(name, transport, ConfigSource::unwritten("a test")));
    let connector = Arc::new(connector);
    Host::builder(config).connectors(move |_, _| Arc::clone(&connector) as Arc<dyn UpstreamConnector>)
}

async fn names(client: &Client) -> Vec<String> {
    client.tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

async fn ready(host: &Host) {
    let mut seen = 0;
    while host.status().servers[0].state != UpState::Ready {
        seen = host.changed(seen).await;
    }
}

/// Regression: an application that answers requests has its own connections. While these were not up, for example on a
/// busy machine, lists omitted servers with status ready, and their tools were unknown.
#[tokio::test(start_paused = true)]
async fn a_ready_server_is_listed_while_a_further_connection_to_it_is_not_up() {
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        for fails in [false, true] {
            let crowded =
                Crowded { made: AtomicUsize::new(0), delay: Duration::from_secs(40), fails, revision: up };
            let host = host_of("files", ServerTransport::builtin("files", []), crowded).start().unwrap();
            ready(&host).await;
            let client = application(&host, down).await;
            assert_eq!(
                names(&client).await,
                ["files__both", "files__elicit", "files__roots", "files__sample"],
                "{up} behind {down}, fails: {fails}"
            );
            let warnings = host.status().servers.remove(0).warnings;
            assert!(
                warnings
                    .iter()
                    .any(|warning| warning.contains("elicitation.form") && warning.contains("starting")),
                "{warnings:?}"
            );
            let result = client.call("files__elicit", ()).await.unwrap();
            assert!(result.has_failed(), "{result:?}");
            let said = result.all_text();
            assert!(!said.contains("(ready)") && said.contains("starting"), "{said}");
            tokio::time::sleep(Duration::from_secs(45)).await;
            let status = host.status().servers.remove(0);
            if fails {
                let warnings = &status.warnings;
                assert!(warnings.iter().any(|one| one.contains("failed once")), "{warnings:?}");
                assert_eq!(names(&client).await.len(), 4);
            } else {
                assert!(status.warnings.is_empty(), "{status:?}");
                assert_eq!(client.call("files__elicit", ()).await.unwrap().all_text(), "window");
            }
        }
    }
}

/// Refuses its list of tools so many times.
struct Reluctant {
    refusals: Arc<AtomicUsize>,
    inner: BoxService,
}

impl Service for Reluctant {
    async fn call(&self, call: Call) -> Outcome {
        let counts = |left: usize| left.checked_sub(1);
        if call.method == Method::ToolsList
            && self.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, counts).is_ok()
        {
            return Outcome::Failed(RpcError::internal("too busy to say"));
        }
        self.inner.call(call).await
    }
}

/// A server whose list of tools could not be read when it was connected was ready with no tool until it changed its list.
#[tokio::test(start_paused = true)]
async fn a_list_that_could_not_be_read_at_first_is_read_again() {
    for (up, with_prompt) in ERAS.iter().flat_map(|up| [(*up, false), (*up, true)]) {
        let refusals = Arc::new(AtomicUsize::new(2));
        let make: Make = Arc::new(move || {
            let server = if with_prompt { echo("one").prompt("ask", || async { "?" }) } else { echo("one") };
            let (inner, refusals) = (BoxService::new(server), Arc::clone(&refusals));
            Ok(BoxService::new(Reluctant { refusals, inner }))
        });
        let host = House::default().made_by("one", up, Duration::ZERO, make).start();
        let client = plain(&host, Revision::LATEST).await;
        let listed = async {
            while names(&client).await != ["one__say"] {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let within = tokio::time::timeout(Duration::from_secs(60), listed).await;
        assert!(within.is_ok(), "{up}, with a prompt: {with_prompt}: {:?}", host.status());
        assert!(host.status().servers[0].warnings.is_empty(), "{:?}", host.status());
    }
}

/// A call waits for a server that is being started, and afterwards is not told that the tool does not exist.
#[tokio::test(start_paused = true)]
async fn a_tool_of_a_server_that_is_still_starting_is_not_called_unknown() {
    for down in ERAS {
        let host = House::default()
            .slow("soon", Revision::LATEST, Duration::from_secs(15), || Ok(echo("soon")))
            .slow("late", Revision::LATEST, Duration::from_secs(58), || Ok(echo("late")))
            .start();
        let client = plain(&host, down).await;
        assert_eq!(client.call("soon__say", ()).await.unwrap().all_text(), "this is soon", "{down}");
        let begun = Instant::now();
        let result = client.call("late__say", ()).await.unwrap();
        let (said, waited) = (result.all_text(), begun.elapsed());
        assert!(result.has_failed() && said.contains("`late`") && said.contains("starting"), "{said}");
        assert!(waited <= Duration::from_secs(21), "{waited:?}");
        let Err(CallError::Rpc(error)) = client.prompt("late__ask", [("", ""); 0]).await else { panic!() };
        assert!(error.message.contains("starting"), "{error:?}");
        // What it does not have is unknown once it is known what it has.
        tokio::time::sleep(Duration::from_secs(30)).await;
        let Err(CallError::Rpc(error)) = client.call("late__other", ()).await else { panic!() };
        assert!(error.message.starts_with("unknown tool"), "{error:?}");
    }
}

/// A server of both eras that sends requests of its own, which exist only in the older era.
struct TwoEras {
    eras: Arc<Mutex<Vec<Revision>>>,
    failure: Failure,
}

/// Failure of a call in the newer era, as the official Python SDK (2.3.0) and FastMCP (4.1.2) report it.
#[derive(Clone, Copy, Debug)]
enum Failure {
    Error(&'static str),
    Result(&'static str),
}

const FAILURES: [Failure; 4] = [
    Failure::Error(
        "Cannot send 'elicitation/create': this transport context has no back-channel for server-initiated requests.",
    ),
    Failure::Result("elicitation via server-initiated requests is unavailable on 2026-07-28 connections."),
    Failure::Result(
        "Error calling tool 'compose': Cannot send 'sampling/createMessage': this transport context has no \
         back-channel for server-initiated requests.",
    ),
    Failure::Result(
        "Error calling tool 'folders': Cannot send 'roots/list': this transport context has no back-channel for \
         server-initiated requests.",
    ),
];

struct AsksWithRequests(BoxService, Failure);

impl Service for AsksWithRequests {
    async fn call(&self, call: Call) -> Outcome {
        match (call.method == Method::ToolsCall, self.1) {
            (true, Failure::Error(said)) => Outcome::Failed(RpcError::new(code::INVALID_REQUEST, said)),
            (true, Failure::Result(said)) => Outcome::Complete(CallToolResult::error(said).into()),
            (false, _) => self.0.call(call).await,
        }
    }
}

impl UpstreamConnector for TwoEras {
    fn connect(
        &self,
        wish: ConnectOptions,
    ) -> ConnectorFuture<'_, Result<UpstreamConnection, UpstreamConnectError>> {
        Box::pin(async move {
            let is_older =
                wish.known.is_some_and(|known: KnownProtocol| known.era == hospes::model::Era::Legacy);
            let revision = if is_older { Revision::LATEST_LEGACY } else { Revision::LATEST };
            self.eras.lock().push(revision);
            let builder = declaring(Client::builder().revision(revision), wish.abilities, &[]);
            let client = match is_older {
                true => builder.in_memory(curious()).await,
                false => builder.in_memory(AsksWithRequests(BoxService::new(curious()), self.failure)).await,
            };
            Ok(in_memory(&Arc::from("asker"), client.unwrap()))
        })
    }
}

/// Servers on the Python SDK 2 speak 2026-07-28, but ask with requests that exist only up to 2025-11-25.
#[tokio::test]
async fn a_server_that_asks_with_requests_is_spoken_to_in_the_older_era_from_then_on() {
    for (failure, down) in FAILURES.into_iter().flat_map(|failure| ERAS.map(|down| (failure, down))) {
        let folder = tempfile::tempdir().unwrap();
        let eras: Arc<Mutex<Vec<Revision>>> = Arc::default();
        let start = || {
            let transport = ServerTransport::target("python asker.py").unwrap();
            host_of("asker", transport, TwoEras { eras: Arc::clone(&eras), failure })
                .memory(folder.path().join("memory.json"))
                .start()
                .unwrap()
        };
        let host = start();
        let client = application(&host, down).await;
        let result = client.call("asker__elicit", ()).await.unwrap();
        let said = result.all_text();
        assert!(result.has_failed(), "nothing is done twice by itself: {result:?}");
        assert!(said.contains("call again") && said.contains("era = \"legacy\""), "{failure:?}: {said}");
        assert_eq!(client.call("asker__elicit", ()).await.unwrap().all_text(), "window", "{down}");
        assert_eq!(host.status().servers[0].revision.as_deref(), Some(Revision::LATEST_LEGACY.as_str()));
        host.stop().await;

        // And the next host knows.
        eras.lock().clear();
        let host = start();
        let client = application(&host, down).await;
        assert_eq!(client.call("asker__elicit", ()).await.unwrap().all_text(), "window", "{down}");
        assert!(eras.lock().iter().all(|revision| revision.is_legacy()), "{eras:?}");
    }
}

/// A tool error with the text of the Python SDK's error, but unrelated to a request that the host could receive.
#[tokio::test]
async fn any_other_error_is_passed_on_as_it_came() {
    let refuse = |said: &'static str| move || async move { Err::<String, _>(Error::new(said)) };
    let host = House::default()
        .with("one", Revision::LATEST, move || {
            Server::new("one", "1").tool("fail", refuse("elicitation/create is what I would have wanted"))
        })
        .start();
    let client = application(&host, Revision::LATEST).await;
    let result = client.call("one__fail", ()).await.unwrap();
    assert_eq!(result.all_text(), "elicitation/create is what I would have wanted");
    assert_eq!(host.status().servers[0].revision.as_deref(), Some(Revision::LATEST.as_str()));
}

/// A process of which it is counted how many start at once.
struct Heavy {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    hangs: bool,
}

impl UpstreamConnector for Heavy {
    fn connect(
        &self,
        wish: ConnectOptions,
    ) -> ConnectorFuture<'_, Result<UpstreamConnection, UpstreamConnectError>> {
        Box::pin(async move {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            // The more there are, the longer each takes.
            tokio::time::sleep(Duration::from_secs(2) * u32::try_from(now).unwrap()).await;
            self.now.fetch_sub(1, Ordering::SeqCst);
            let builder = declaring(Client::builder(), wish.abilities, &[]);
            Ok(in_memory(&Arc::from("heavy"), builder.in_memory(echo("heavy")).await.unwrap()))
        })
    }
}

/// Twenty-four programs that start at once on a small machine ran into the time limit, each because of the others.
#[tokio::test(start_paused = true)]
async fn only_so_many_processes_start_at_once_and_one_that_hangs_holds_up_nobody_for_long() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut config = HostConfig::default();
    for number in 0..24 {
        let transport = ServerTransport::target(&format!("heavy {number}")).unwrap();
        config.servers.push(ServerConfig::new(
            format!("s{number}"),
            transport,
            ConfigSource::unwritten("a test"),
        ));
    }
    let settings =
        HostSettings { connect_timeout: Duration::from_secs(20), max_starting: 4, ..HostSettings::default() };
    let (counted, highest) = (Arc::clone(&now), Arc::clone(&most));
    let host = Host::builder(config)
        .settings(settings)
        .connectors(move |config, _| {
            let hangs = config.name == "s0" || config.name == "s1";
            Arc::new(Heavy { now: Arc::clone(&counted), most: Arc::clone(&highest), hangs })
        })
        .start()
        .unwrap();
    let begun = Instant::now();
    let are_ready = || host.status().servers.iter().skip(2).all(|server| server.state == UpState::Ready);
    let all = async {
        let mut seen = 0;
        while !are_ready() {
            seen = host.changed(seen).await;
        }
    };
    let within = tokio::time::timeout(Duration::from_secs(300), all).await;
    assert!(within.is_ok() && most.load(Ordering::SeqCst) <= 4, "{most:?} {:?}", host.status());
    let failed = host.status().servers.iter().skip(2).filter(|server| server.failures > 0).count();
    assert_eq!(failed, 0, "{:?}", host.status());
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
}
