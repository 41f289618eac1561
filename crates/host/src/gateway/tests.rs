//! The gateway between applications and servers of both eras, in memory.

mod tasks;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hospes::client::{CallError, ListKind};
use hospes::model::{
    CompleteArgument, CompleteParams, CompletionReference, CreateMessageResult, ElicitResult, LoggingLevel,
    Method, Notification, Reply, Revision, SamplingMessageContentBlock, SubscriptionFilter,
};
use hospes::prelude::*;
use hospes_store::StateStore;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::config::{ConfigSource, HostConfig, ServerConfig, ServerTransport};
use crate::server::{
    ConnectOptions, ConnectorFuture, UpstreamConnectError, UpstreamConnection, UpstreamConnector,
};
use crate::upstream::{UpstreamState as UpState, declaring, in_memory};
use crate::{Host, HostSettings, PinMode, PinningConfig, PolicyEnforcer, Sampler};

mod applications;
mod approvers;
mod checked;
mod console;
mod deny_paths;
mod elicited;
mod extensions;
mod faults;
mod forwarded;
mod guarded;
mod isolation;
mod kept;
mod labelled;
mod listed;
mod meanwhile;
mod measured;
mod pinned;
mod placed;
mod planned;
mod poisoned;
mod preset;
mod private;
mod profile_accounts;
mod profiles;
mod restarted;
mod sampled;
mod tainted;

const ERAS: [Revision; 2] = [Revision::LATEST_LEGACY, Revision::LATEST];

type Make = Arc<dyn Fn() -> Result<hospes::BoxService, UpstreamConnectError> + Send + Sync>;

/// Connects to a server in this process, by the same bytes as to any other.
#[derive(Clone)]
struct InMemory {
    make: Make,
    revision: Revision,
    delay: Duration,
    settings: HostSettings,
    /// The connections there were: to end one is how its server goes away.
    made: Arc<Mutex<Vec<Client>>>,
}

impl UpstreamConnector for InMemory {
    fn connect(
        &self,
        wish: ConnectOptions,
    ) -> ConnectorFuture<'_, Result<UpstreamConnection, UpstreamConnectError>> {
        Box::pin(async move {
            tokio::time::sleep(self.delay).await;
            let builder = Client::builder().revision(self.revision).park_timeout(self.settings.park_timeout);
            let (on_log, on_notification) = (Arc::clone(&wish.on_log), Arc::clone(&wish.on_notification));
            let client = declaring(builder, wish.abilities, &self.settings.roots)
                .on_log(move |message| on_log(message))
                .on_notification(move |notification| on_notification(notification));
            let client = client.in_memory((self.make)()?).await;
            let client = client.map_err(|error| UpstreamConnectError::new(error.to_string()))?;
            self.made.lock().push(client.clone());
            Ok(in_memory(&Arc::from("in memory"), client))
        })
    }
}

/// Methods that reached a server, and for streams of changes the kind of item that they follow.
type Seen = Arc<Mutex<Vec<String>>>;

/// A server that notes each call made on behalf of an application. Lists that the host reads for itself are not noted.
struct Recording {
    inner: hospes::BoxService,
    seen: Seen,
}

impl Service for Recording {
    async fn call(&self, call: Call) -> Outcome {
        let text = call.params.raw().to_value().unwrap_or_default();
        let mut follows = Vec::new();
        for (key, word) in [("resourceSubscriptions", "resources"), ("taskIds", "tasks")] {
            let wanted = &text["notifications"][key];
            if wanted.as_array().is_some_and(|wanted| !wanted.is_empty()) {
                follows.push(format!("{} {word}", call.method));
            }
        }
        match call.method {
            Method::SubscriptionsListen => self.seen.lock().extend(follows),
            Method::Discover
            | Method::ToolsList
            | Method::PromptsList
            | Method::ResourcesList
            | Method::ResourceTemplatesList => {}
            ref other => self.seen.lock().push(other.name().to_owned()),
        }
        self.inner.call(call).await
    }
}

/// A host under construction.
#[derive(Default)]
struct House {
    servers: Vec<(String, Arc<InMemory>)>,
    settings: HostSettings,
    guard: Option<Arc<PolicyEnforcer>>,
    pinning: Option<PinningConfig>,
    sampler: Option<Arc<Sampler>>,
    kept_in: Option<StateStore>,
    /// The file that remembers servers from one run to the next.
    memory: Option<std::path::PathBuf>,
    /// Command lines under which servers are configured. They are not run.
    command_lines: Vec<(String, &'static str)>,
    /// Servers that are part of the program, among pinned ones.
    built_in: Vec<&'static str>,
    /// Profiles, as in a configuration file.
    profiles: &'static str,
}

impl House {
    fn with(self, name: &str, revision: Revision, make: impl Fn() -> Server + Send + Sync + 'static) -> Self {
        self.slow(name, revision, Duration::ZERO, move || Ok(make()))
    }

    fn slow(
        self,
        name: &str,
        revision: Revision,
        delay: Duration,
        make: impl Fn() -> Result<Server, UpstreamConnectError> + Send + Sync + 'static,
    ) -> Self {
        self.made_by(name, revision, delay, Arc::new(move || make().map(hospes::BoxService::new)))
    }

    /// Adds a server that notes each call made on behalf of an application.
    fn recorded(
        self,
        name: &str,
        revision: Revision,
        seen: &Seen,
        make: impl Fn() -> Server + Send + Sync + 'static,
    ) -> Self {
        let seen = Arc::clone(seen);
        let recording = move || {
            let inner = hospes::BoxService::new(make());
            Ok(hospes::BoxService::new(Recording { inner, seen: Arc::clone(&seen) }))
        };
        self.made_by(name, revision, Duration::ZERO, Arc::new(recording))
    }

    fn made_by(mut self, name: &str, revision: Revision, delay: Duration, make: Make) -> Self {
        self.servers.push((
            name.to_owned(),
            Arc::new(InMemory {
                make,
                revision,
                delay,
                settings: HostSettings::default(),
                made: Arc::default(),
            }),
        ));
        self
    }

    /// The connections to a server.
    fn made(&self, name: &str) -> Arc<Mutex<Vec<Client>>> {
        let (_, found) = self.servers.iter().find(|(server, _)| server == name).unwrap();
        Arc::clone(&found.made)
    }

    fn settings(mut self, change: impl FnOnce(&mut HostSettings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Configures profiles, as in a configuration file.
    fn profiles(mut self, text: &'static str) -> Self {
        self.profiles = text;
        self
    }

    fn guarded(mut self, guard: &Arc<PolicyEnforcer>) -> Self {
        self.guard = Some(Arc::clone(guard));
        self
    }

    fn pinned(mut self, state: &StateStore, mode: PinMode) -> Self {
        self.pinning = Some(PinningConfig::new(state.clone(), mode));
        self
    }

    /// Configures a server with this command line, which is not run.
    fn run_by(mut self, name: &str, command_line: &'static str) -> Self {
        self.command_lines.push((name.to_owned(), command_line));
        self
    }

    /// Configures a server as part of the program.
    fn built_in(mut self, name: &'static str) -> Self {
        self.built_in.push(name);
        self
    }

    fn sampling(mut self, sampler: &Arc<Sampler>) -> Self {
        self.sampler = Some(Arc::clone(sampler));
        self
    }

    fn kept_in(mut self, state: &StateStore) -> Self {
        self.kept_in = Some(state.clone());
        self
    }

    fn start(self) -> Host {
        let mut config = profiles::config(self.servers.iter().map(|(name, _)| &**name), self.profiles);
        config.servers.clear();
        for (name, _) in &self.servers {
            let source = ConfigSource::unwritten("a test");
            // What is part of the program is not pinned.
            // Nor is it remembered.
            let is_written = self.pinning.is_some() || self.memory.is_some();
            let transport = match is_written && !self.built_in.contains(&name.as_str()) {
                true => ServerTransport::stdio("/bin/sh", [name.as_str()]),
                false => ServerTransport::builtin(name, []),
            };
            let line = self.command_lines.iter().find(|(server, _)| server == name).map(|(_, line)| *line);
            let transport = line.map_or(transport, |line| ServerTransport::target(line).unwrap());
            config.servers.push(ServerConfig::new(name, transport, source));
        }
        let servers = self.servers;
        let find = move |config: &ServerConfig, settings: &HostSettings| -> Arc<dyn UpstreamConnector> {
            // A server of a profile may be another than the one for everybody.
            let found = servers.iter().find(|(name, _)| *name == config.label());
            let (_, found) = found.or_else(|| servers.iter().find(|(name, _)| *name == config.name)).unwrap();
            Arc::new(InMemory { settings: settings.clone(), ..InMemory::clone(found) })
        };
        let mut builder = Host::builder(config).settings(self.settings).connectors(find);
        if let Some(guard) = self.guard {
            builder = builder.guard(guard);
        }
        if let Some(memory) = self.memory {
            builder = builder.memory(memory);
        }
        if let Some(pinning) = self.pinning {
            builder = builder.pins(pinning);
        }
        if let Some(sampler) = self.sampler {
            builder = builder.sampler(sampler);
        }
        if let Some(state) = &self.kept_in {
            builder = builder.store_tasks_in(state);
        }
        builder.start().unwrap()
    }
}

/// An application that answers whatever it is asked.
async fn application(host: &Host, revision: Revision) -> Client {
    Client::builder()
        .revision(revision)
        .sampling(async |_| {
            Ok(CreateMessageResult::new("scripted", SamplingMessageContentBlock::text("forty-two")))
        })
        .elicitation(async |_| Ok(ElicitResult::accept(json!({ "value": "window" }).into())))
        .roots(["file:///home/guest"])
        .in_memory(host.gateway())
        .await
        .unwrap()
}

async fn plain(host: &Host, revision: Revision) -> Client {
    Client::builder().revision(revision).in_memory(host.gateway()).await.unwrap()
}

/// Returns true for the result of a call of which nobody knows whether it took effect.
fn is_outcome_unknown(reply: &Reply) -> bool {
    let Reply::CallTool(result) = reply else { return false };
    result.has_failed() && result.meta.read::<String>("outcome").as_deref() == Some("unknown")
}

fn echo(name: &'static str) -> Server {
    Server::new(name, "1").tool("say", move || async move { format!("this is {name}") })
}

/// covers: ARCH-01 ARCH-06
#[tokio::test]
async fn tools_of_one_name_are_told_apart_by_their_servers() {
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        let host = House::default().with("one", up, || echo("one")).with("two", up, || echo("two")).start();
        let client = plain(&host, down).await;
        let names: Vec<String> =
            client.tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["one__say", "two__say"], "{up} {down}");
        for name in ["one", "two"] {
            let answer = client.call(&format!("{name}__say"), ()).await.unwrap();
            assert_eq!(answer.all_text(), format!("this is {name}"));
        }
        let Err(CallError::Rpc(error)) = client.call("three__say", ()).await else { panic!("no such tool") };
        assert_eq!(error.code, hospes::model::code::INVALID_PARAMS);
    }
}

fn curious() -> Server {
    Server::new("curious", "1")
        .tool("sample", |ctx: Context| async move { Ok::<_, Error>(ctx.sample("?").await?.text()) })
        .tool(
            "elicit",
            |ctx: Context| async move { Ok::<_, Error>(ctx.elicit::<String>("Which seat?").await?) },
        )
        .tool("roots", |ctx: Context| async move {
            let roots = ctx.roots().await?;
            Ok::<_, Error>(roots.iter().map(|root| root.uri.clone()).collect::<Vec<_>>().join(" "))
        })
        .tool("both", |ctx: Context| async move {
            let seat: String = ctx.elicit("Which seat?").await?;
            let note = ctx.sample("A line?").await?.text();
            Ok::<_, Error>(format!("{seat}, {note}"))
        })
}

/// Old application and old server, new and new; the mixed cases as well.
/// covers: ARCH-08 ARCH-12
#[tokio::test]
async fn what_a_server_asks_reaches_the_application() {
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        let host = House::default().with("other", up, || echo("other")).with("curious", up, curious).start();
        let client = application(&host, down).await;
        for (tool, answer) in [
            ("sample", "forty-two"),
            ("elicit", "window"),
            ("roots", "file:///home/guest"),
            ("both", "window, forty-two"),
        ] {
            let result = client.call(&format!("curious__{tool}"), ()).await;
            let result = result.unwrap_or_else(|error| panic!("{tool}, {up} behind {down}: {error}"));
            assert_eq!(result.all_text(), answer, "{tool}, {up} behind {down}");
            assert!(!result.has_failed());
        }
    }
}

/// A server must not be told of more capabilities than the application has. Otherwise it sends requests that cannot be
/// answered.
#[tokio::test]
async fn a_server_knows_what_the_application_cannot_do() {
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        let host = House::default().with("curious", up, curious).start();
        // Another application, which can.
        let able = application(&host, down).await;
        able.call("curious__elicit", ()).await.unwrap();
        let client = plain(&host, down).await;
        let answered = match client.call("curious__elicit", ()).await {
            Ok(result) => format!("{} {}", result.has_failed(), result.all_text()),
            Err(error) => format!("error {error}"),
        };
        assert!(!answered.contains("window"), "{up} behind {down}: {answered}");
        assert!(answered.contains("elicit"), "{up} behind {down}: {answered}");
    }
}

#[tokio::test]
async fn progress_and_log_messages_of_a_call_come_through() {
    let busy = || {
        Server::new("busy", "1").tool("work", |ctx: Context| async move {
            for step in 1..=3 {
                ctx.progress(f64::from(step), Some(3.0), Some("on it"));
                ctx.log(LoggingLevel::Warning, format!("step {step}"));
                tokio::task::yield_now().await;
            }
            "done"
        })
    };
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        let host = House::default().with("busy", up, busy).start();
        let logs = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&logs);
        let client = Client::builder()
            .revision(down)
            .on_log(move |message| heard.lock().push(message.data.as_str().to_owned()))
            .in_memory(host.gateway())
            .await
            .unwrap();
        client.set_log_level(LoggingLevel::Info).await.unwrap();
        let mut seen = Vec::new();
        let result = client.call("busy__work", ()).on_progress(|progress| seen.push(progress.progress)).await;
        assert_eq!(result.unwrap().all_text(), "done");
        assert_eq!(seen, [1.0, 2.0, 3.0], "{up} behind {down}");
        assert_eq!(*logs.lock(), ["\"step 1\"", "\"step 2\"", "\"step 3\""], "{up} behind {down}");
    }
}

/// Notifies when a handler is dropped before it has finished.
struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// covers: CANC-04
#[tokio::test]
async fn a_cancelled_call_is_cancelled_at_its_server() {
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        let (begun, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let signals = (Arc::clone(&begun), Arc::clone(&dropped));
        let host = House::default()
            .with("endless", up, move || {
                let signals = signals.clone();
                Server::new("endless", "1").tool("wait", move || {
                    let (begun, dropped) = signals.clone();
                    async move {
                        let _guard = Dropped(dropped);
                        begun.notify_one();
                        std::future::pending::<()>().await;
                    }
                })
            })
            .start();
        let client = plain(&host, down).await;
        tokio::select! {
            _ = client.call("endless__wait", ()) => panic!("it never ends"),
            () = begun.notified() => {}
        }
        let heard = tokio::time::timeout(Duration::from_secs(5), dropped.notified()).await;
        assert!(heard.is_ok(), "{up} behind {down}");
    }
}

/// covers: ARCH-08
#[tokio::test(start_paused = true)]
async fn changes_come_through() {
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        let server = echo("one").resource("notes://today", "sunny");
        let handle = server.handle();
        let host = House::default().with("one", up, move || server.clone()).start();
        let (tell, mut told) = mpsc::channel(16);
        let client = Client::builder()
            .revision(down)
            .on_list_changed(move |list| {
                let _full = tell.try_send(list);
            })
            .in_memory(host.gateway())
            .await
            .unwrap();
        assert_eq!(client.tools().all().await.unwrap().len(), 1);
        let filter = SubscriptionFilter::new()
            .with_tools_list_changed(true)
            .with_resource_subscriptions(vec!["notes://today".to_owned()]);
        let mut stream = client.listen(filter).await.unwrap();
        assert_eq!(stream.acknowledged().resource_subscriptions, ["notes://today"], "{up} behind {down}");
        handle.add_tool("more", || async { "more" }).unwrap();
        let limit = Duration::from_secs(5);
        let change = tokio::time::timeout(limit, stream.next()).await;
        assert!(matches!(change, Ok(Some(Notification::ToolsListChanged))), "{up} behind {down}: {change:?}");
        assert_eq!(tokio::time::timeout(limit, told.recv()).await, Ok(Some(ListKind::Tools)));
        let names: Vec<String> =
            client.tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["one__more", "one__say"]);
        handle.resource_updated("notes://today");
        let change = tokio::time::timeout(limit, stream.next()).await;
        let Ok(Some(Notification::ResourceUpdated(updated))) = change else {
            panic!("{up} behind {down}: {change:?}")
        };
        assert_eq!(updated.uri, "notes://today");
    }
}

#[tokio::test]
async fn resources_of_one_uri_are_told_apart_and_read_back() {
    let make = |weather: &'static str| {
        move || {
            Server::new("any", "1")
                .resource("notes://today", weather)
                .resource_template("notes://days/{day}", move |Args(Day { day }): Args<Day>| async move {
                    format!("{day}: {weather}")
                })
        }
    };
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        let host = House::default()
            .with("rome", up, make("sunny"))
            .with("york", up, make("rain"))
            .with("alone", up, || Server::new("alone", "1").resource("only://here", "mine"))
            .start();
        let client = plain(&host, down).await;
        let uris: Vec<String> =
            client.resources().all().await.unwrap().into_iter().map(|found| found.uri).collect();
        let expected =
            ["hospes://rome/notes://today", "hospes://status", "hospes://york/notes://today", "only://here"];
        assert_eq!(uris, expected);
        for (uri, text) in [
            (expected[0], "sunny"),
            (expected[2], "rain"),
            (expected[3], "mine"),
            ("hospes://york/notes://days/monday", "monday: rain"),
        ] {
            let read = client.read(uri).await.unwrap();
            assert_eq!(read.contents[0].as_text(), Some(text));
            assert_eq!(read.contents[0].uri, uri, "{up} behind {down}");
        }
        let Err(CallError::Rpc(error)) = client.read("notes://today").await else { panic!("ambiguous") };
        assert!(error.message.contains("hospes://rome/notes://today"), "{error}");
        assert!(client.read("none://such").await.is_err());
    }
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "hospes::schemars")]
struct Day {
    day: String,
}

#[tokio::test]
async fn prompts_and_completion_go_to_their_server() {
    let make = || {
        Server::new("any", "1")
            .prompt("greet", |Args(Day { day }): Args<Day>| async move { format!("Greet on {day}") })
            .complete(Completes::prompt("greet", "day"), ["monday", "tuesday"])
    };
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        let host = House::default().with("one", up, make).with("two", up, || echo("two")).start();
        let client = plain(&host, down).await;
        assert_eq!(client.prompts().all().await.unwrap()[0].name, "one__greet");
        let prompt = client.prompt("one__greet", [("day", "friday")]).await.unwrap();
        assert!(format!("{prompt:?}").contains("Greet on friday"));
        let reference = CompletionReference::Prompt { name: "one__greet".to_owned(), title: None };
        let typed = CompleteArgument::new("day", "mo");
        let completed = client.complete(&CompleteParams::new(reference, typed)).await.unwrap();
        assert_eq!(completed.completion.values, ["monday"], "{up} behind {down}");
    }
}

/// State of one call must not be usable for another call, regardless of the caller.
#[tokio::test]
async fn questions_cannot_be_answered_on_another_servers_call() {
    let host = House::default()
        .with("curious", Revision::LATEST_LEGACY, curious)
        .with("other", Revision::LATEST_LEGACY, curious)
        .start();
    let gateway = host.gateway();
    let capabilities = serde_json::from_value(json!({ "elicitation": {} })).unwrap();
    let peer = Arc::new(hospes::Peer::new(Revision::LATEST, None, capabilities));
    let call = |tool: &str, round| {
        let params = json!({ "name": tool, "arguments": {} }).into();
        Call::new(Method::ToolsCall, params, Context::builder(Arc::clone(&peer)).round(round).build())
    };
    let asked = gateway.call(call("curious__elicit", hospes::Round::default())).await;
    let Outcome::InputRequired(questions) = asked else { panic!("it asks: {asked:?}") };
    let mut round = questions.round;
    let key = questions.requests[0].0.clone();
    round.record_answers([(
        key,
        RawJson::from(json!({ "action": "accept", "content": { "value": "aisle" } })),
    )]);

    let Outcome::Failed(error) = gateway.call(call("other__elicit", round.clone())).await else {
        panic!("refused")
    };
    assert!(error.message.contains("belongs to the server `curious`"), "{error}");
    let mut forged = round.clone();
    forged.carried = Some("1 x - -".to_owned());
    assert!(matches!(gateway.call(call("curious__elicit", forged)).await, Outcome::Failed(_)));
    let mut elsewhere = round.clone();
    elsewhere.carried = round.carried.clone().map(|carried| {
        let (front, rest) = carried.split_at("7 curious ".len());
        let (_, inner) = rest.split_once(' ').unwrap();
        format!("{front}999999 {inner}")
    });
    let lost = gateway.call(call("curious__elicit", elsewhere)).await;
    let Outcome::Complete(reply) = lost else { panic!("the connection is gone: {lost:?}") };
    assert!(is_outcome_unknown(&reply), "{reply:?}");

    let Outcome::Complete(reply) = gateway.call(call("curious__elicit", round)).await else {
        panic!("answered")
    };
    assert!(format!("{reply:?}").contains("aisle"), "{reply:?}");
}

/// covers: PAGE-01 PAGE-04 PAGE-13
#[tokio::test]
async fn a_long_list_comes_in_pages() {
    let many = || {
        (0..25).fold(Server::new("many", "1"), |server, n| server.tool(format!("tool{n:02}"), || async {}))
    };
    for down in ERAS {
        let host = House::default()
            .with("many", Revision::LATEST, many)
            .settings(|settings| settings.page_size = 10)
            .start();
        let client = plain(&host, down).await;
        let first = client.raw("tools/list", &RawJson::empty_object()).await.unwrap().to_value().unwrap();
        assert_eq!(first["tools"].as_array().unwrap().len(), 10);
        assert!(first["nextCursor"].is_string());
        assert_eq!(client.tools().all().await.unwrap().len(), 25);
        let forged = client.raw("tools/list", &RawJson::from(json!({ "cursor": "10" }))).await;
        assert!(matches!(forged, Err(CallError::Rpc(error)) if error.code == -32602));
    }
}

/// One dead server must not hold up the others for longer than the setting says, and says so itself.
#[tokio::test(start_paused = true)]
async fn a_slow_server_holds_lists_up_only_so_long() {
    let host = House::default()
        .with("quick", Revision::LATEST, || echo("quick"))
        .slow("slow", Revision::LATEST, Duration::from_secs(30), || Ok(echo("slow")))
        .settings(|settings| settings.start_wait = Duration::from_secs(3))
        .start();
    let begun = Instant::now();
    let client = plain(&host, Revision::LATEST).await;
    let names = |tools: Vec<hospes::model::Tool>| tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>();
    assert_eq!(names(client.tools().all().await.unwrap()), ["quick__say"]);
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_millis(2500) && waited < Duration::from_secs(4), "{waited:?}");
    assert_eq!(names(client.tools().all().await.unwrap()), ["quick__say"], "and only once");
    assert!(begun.elapsed() < Duration::from_secs(4));
    assert_eq!(host.status().servers[1].state, UpState::Starting);

    let filter = SubscriptionFilter::new().with_tools_list_changed(true);
    let mut stream = client.listen(filter).await.unwrap();
    assert!(matches!(stream.next().await, Some(Notification::ToolsListChanged)));
    assert_eq!(names(client.tools().all().await.unwrap()), ["quick__say", "slow__say"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_reached_is_tried_again_with_growing_waits() {
    let tries = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&tries);
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    let host = House::default()
        .slow("flaky", Revision::LATEST, Duration::ZERO, move || {
            noted.lock().push(Instant::now());
            match is_broken.load(Ordering::Relaxed) {
                true => Err(UpstreamConnectError::new("the cable is out")),
                false => Ok(echo("flaky")),
            }
        })
        .start();
    tokio::time::sleep(Duration::from_secs(20)).await;
    let status = host.status().servers.remove(0);
    assert_eq!((status.state, status.problem.as_deref()), (UpState::Retrying, Some("the cable is out")));
    assert!(status.next_try_ms.is_some());
    let gaps: Vec<Duration> = tries.lock().windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.len() >= 3, "{gaps:?}");
    for (failure, gap) in gaps.iter().enumerate() {
        let nominal = Duration::from_millis(500) * (1 << failure);
        assert!(*gap >= nominal / 2 && *gap <= nominal + Duration::from_millis(10), "{failure}: {gap:?}");
    }
    // With the longest waits the eighth failure comes after 63.5 s; with the shortest ones the ninth try is due after
    // 32 s and half a quarantine, 182 s.
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(host.status().servers[0].state, UpState::Failed);
    let seen = tries.lock().len();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(tries.lock().len(), seen, "it is left alone");

    // A call brings the next try forward.
    broken.store(false, Ordering::Relaxed);
    let client = plain(&host, Revision::LATEST).await;
    let answer = client.call("flaky__say", ()).await.unwrap();
    assert_eq!(answer.all_text(), "this is flaky");
    assert_eq!(host.status().servers[0].state, UpState::Ready);
}

/// A server's list that cannot be read costs that list and nothing else (R1).
#[tokio::test]
async fn what_a_server_says_of_itself_is_passed_on_under_its_name() {
    let host = House::default()
        .with("one", Revision::LATEST_LEGACY, || echo("one").instructions("Speak softly."))
        .with("two", Revision::LATEST, || echo("two").instructions("Shout."))
        .start();
    for down in ERAS {
        let client = plain(&host, down).await;
        let said = client.instructions().unwrap();
        assert!(
            said.contains("# one") && said.contains("Speak softly.") && said.contains("Shout."),
            "{said}"
        );
        assert_eq!(client.server_info().unwrap().name, "hospes");
    }
}

#[tokio::test(start_paused = true)]
async fn connections_that_nobody_uses_are_closed() {
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let host = House::default()
        .with("one", Revision::LATEST_LEGACY, move || {
            count.fetch_add(1, Ordering::Relaxed);
            curious()
        })
        .settings(|settings| settings.idle_after = Duration::from_secs(200))
        .start();
    let client = application(&host, Revision::LATEST).await;
    client.call("one__elicit", ()).await.unwrap();
    assert_eq!(host.status().servers[0].connections, 2);
    drop(client);
    let mut seen = 0;
    while host.status().servers[0].connections > 1 {
        seen = host.changed(seen).await;
    }
    assert_eq!(made.load(Ordering::Relaxed), 2);
    let client = application(&host, Revision::LATEST).await;
    assert_eq!(client.call("one__elicit", ()).await.unwrap().all_text(), "window");
}
