//! Profiles: what they show, and that no method leads out of them.

use std::collections::BTreeSet;

use hospes::model::{ClientCapabilities, RawJson, ServerStamp};
use hospes::transport::stdio_server::StdioServer;
use serde_json::Value;

use super::tasks::{Jobs, peer_with_tasks};
use super::*;
use crate::config::ConfigLoader;

/// The profile shows `open`, without its tool `hidden`, and nothing of `shut`.
const WORK: &str =
    "[profiles.work]\ntitle = 'Work'\nservers = ['open']\ntools.open = { exclude = ['hidden*'] }\n";

/// Returns a configuration with these built-in servers and profiles. The servers have no secrets.
pub(super) fn config<'a>(servers: impl Iterator<Item = &'a str>, profiles: &str) -> HostConfig {
    // A label is that of a server of a profile.
    let names = servers.filter(|name| !name.contains('('));
    let entries: String = names.map(|name| format!("[servers.'{name}']\nbuiltin = '{name}'\n")).collect();
    let secret = |name: &str| Ok(Some(format!("value of {name}")));
    ConfigLoader::new().secrets(secret).parse("h.toml", &format!("{entries}{profiles}")).unwrap()
}

/// A server with everything that a method can name.
fn rich(name: &'static str) -> Server {
    Server::new(name, "1")
        .instructions(format!("instructions of {name}"))
        .tool("say", move || async move { format!("this is {name}") })
        .tool("hidden", move || async move { format!("hidden of {name}") })
        .prompt("greet", move || async move { format!("hello from {name}") })
        .resource(&*format!("{name}://today"), move || async move { format!("sunny at {name}") })
        .resource("notes://shared", move || async move { format!("notes of {name}") })
}

fn house(up: Revision, seen: &[Seen; 2]) -> House {
    House::default()
        .recorded("open", up, &seen[0], || rich("open"))
        .recorded("shut", up, &seen[1], || rich("shut"))
        .profiles(WORK)
}

async fn in_profile(host: &Host, revision: Revision) -> Client {
    let gateway = host.gateway_of_profile("work").unwrap();
    Client::builder().revision(revision).in_memory(gateway).await.unwrap()
}

async fn tool_names(client: &Client) -> Vec<String> {
    client.tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

#[tokio::test]
async fn a_profile_shows_its_servers_and_tools_in_every_revision() {
    for (up, down) in ERAS.iter().flat_map(|up| Revision::ALL.map(|down| (*up, down))) {
        let seen = [Seen::default(), Seen::default()];
        let host = house(up, &seen).start();
        let client = in_profile(&host, down).await;
        let what = format!("{up} behind {down}");
        assert_eq!(tool_names(&client).await, ["open__say"], "{what}");
        let prompts = client.prompts().all().await.unwrap();
        assert_eq!(
            prompts.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
            ["open__greet"],
            "{what}"
        );
        let resources = client.resources().all().await.unwrap();
        let uris: Vec<&str> = resources.iter().map(|one| one.uri.as_str()).collect();
        assert_eq!(uris, ["hospes://status", "notes://shared", "open://today"], "{what}");
        assert_eq!(client.call("open__say", ()).await.unwrap().all_text(), "this is open", "{what}");
        assert_eq!(client.read("notes://shared").await.unwrap().contents[0].as_text(), Some("notes of open"));
        // The status names no other server.
        let status = client.read("hospes://status").await.unwrap().contents[0].as_text().unwrap().to_owned();
        assert!(status.contains("\"open\"") && !status.contains("shut"), "{what}: {status}");
        assert!(!client.instructions().unwrap_or_default().contains("shut"), "{what}");
        // Everything is there beside it.
        assert_eq!(tool_names(&plain(&host, down).await).await.len(), 4, "{what}");
        assert!(seen[1].lock().is_empty(), "{what}: {:?}", seen[1]);
    }
}

/// Every spelling of an item of another server that the shared endpoint shows, and some that it does not.
fn spellings(of: &str) -> Vec<String> {
    let mut all: Vec<String> = ["say", "hidden", "greet", "other"].map(|item| format!("{of}__{item}")).into();
    all.extend(["__say", "@work__say", "__", ""].map(|end| format!("{of}{end}")));
    all.extend([
        format!("{}__say", of.to_uppercase()),
        format!("{of}://today"),
        format!("{of}://other/{{x}}"),
    ]);
    all.extend([format!("notes://{of}/shared"), format!("skill://{of}/a"), format!("ui://{of}/a")]);
    all.extend([format!("hospes://{of}/notes://shared"), format!("hospes://r/{of}/notes%3A%2F%2Fshared")]);
    all.extend([format!("hospes+{of}://today"), format!("hospes://{of}")]);
    all
}

/// Calls a method of the profile's gateway directly, as no client would, and returns what comes back as text.
async fn said(gateway: &crate::Gateway, peer: &Arc<hospes::Peer>, method: &Method, params: &Value) -> String {
    let call = Call::new(method.clone(), RawJson::from(params.clone()), Context::new(Arc::clone(peer)));
    match tokio::time::timeout(Duration::from_millis(300), gateway.call(call)).await {
        Ok(Outcome::Complete(reply)) => {
            let mut out = Vec::new();
            let written = reply.encode(method, Revision::LATEST, &ServerStamp::anonymous(), &mut out);
            written.map(|()| String::from_utf8(out).unwrap()).unwrap_or_else(|error| error.to_string())
        }
        Ok(Outcome::Failed(error)) => serde_json::to_string(&error).unwrap(),
        Ok(other) => format!("{other:?}"),
        // A stream of changes stays open.
        Err(_) => "open".to_owned(),
    }
}

/// A table of all methods with all spellings: the hidden server hears nothing, and its name gets the same answers as a
/// name that no server has.
#[tokio::test(start_paused = true)]
async fn no_method_crosses_the_profile() {
    let methods = [
        "tools/list",
        "tools/call",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "completion/complete",
        "subscriptions/listen",
        "server/discover",
        "tasks/get",
        "tasks/update",
        "tasks/cancel",
        "resources/subscribe",
        "resources/unsubscribe",
        "logging/setLevel",
        "skills/list",
        "skills/get",
        "acme/where",
        "tasks/list",
        "tasks/result",
    ];
    for (up, legacy) in ERAS.iter().flat_map(|up| [false, true].map(|legacy| (*up, legacy))) {
        let seen = [Seen::default(), Seen::default()];
        let host = house(up, &seen).start();
        let everything = plain(&host, Revision::LATEST).await;
        assert_eq!(tool_names(&everything).await.len(), 4);
        let gateway = host.gateway_of_profile("work").unwrap();
        let mut peer = peer_with_tasks(None);
        if legacy {
            peer = hospes::Peer::new(Revision::LATEST_LEGACY, None, peer.capabilities.as_ref().clone());
        }
        let peer = Arc::new(peer);
        for method in methods.map(Method::from_name) {
            // The name of a server that is not shown, and one that nobody has. They are alike, so a suggestion would tell.
            for (hidden, unknown) in spellings("shut").into_iter().zip(spellings("shux")) {
                let params = |name: &str| {
                    [
                        json!({ "name": name, "arguments": {} }),
                        json!({ "uri": name }),
                        json!({ "ref": { "type": "ref/prompt", "name": name }, "argument": { "name": "a", "value": "" } }),
                        json!({ "ref": { "type": "ref/resource", "uri": name }, "argument": { "name": "a", "value": "" } }),
                        json!({ "taskId": name, "inputResponses": {} }),
                        json!({ "cursor": format!("after:{name}") }),
                        json!({ "notifications": { "resourceSubscriptions": [name], "taskIds": [name] } }),
                    ]
                };
                for (one, other) in params(&hidden).iter().zip(&params(&unknown)) {
                    let found = said(&gateway, &peer, &method, one).await;
                    let wanted = said(&gateway, &peer, &method, other).await;
                    let wanted = wanted.replace("shux", "shut").replace("SHUX", "SHUT");
                    assert_eq!(found, wanted, "{up} {} {one}", method.name());
                }
            }
        }
        // A tool that the profile hides is as unknown as one that its server does not have.
        let call = async |name: &str| {
            said(&gateway, &peer, &Method::ToolsCall, &json!({ "name": name, "arguments": {} })).await
        };
        let (hidden, unknown) = (call("open__hidden").await, call("open__hidxxx").await);
        assert_eq!(hidden, unknown.replace("hidxxx", "hidden"));
        assert!(hidden.contains("unknown tool"), "{hidden}");
        assert!(call("open__say").await.contains("this is open"));
        gateway
            .notified(
                Notification::Other {
                    method: Method::from_name("notifications/acme/tick"),
                    params: Some(RawJson::from(json!({ "uri": "shut://today" }))),
                },
                Context::new(Arc::clone(&peer)),
            )
            .await;
        assert!(seen[1].lock().is_empty(), "{up}: {:?}", seen[1]);
        assert!(!seen[0].lock().is_empty());
    }
}

/// Makes a task that lasts for an hour. Returns its id.
async fn make_task(gateway: &crate::Gateway, peer: &Arc<hospes::Peer>, tool: &str) -> String {
    let context = Context::builder(Arc::clone(peer)).task(hospes::tasks::TaskPreference::Open).build();
    let params = RawJson::from(json!({ "name": tool, "arguments": { "seconds": 3600 } }));
    match gateway.call(Call::new(Method::ToolsCall, params, context)).await {
        Outcome::Complete(hospes::model::Reply::CreateTask(made)) => made.task.task_id,
        other => panic!("{other:?}"),
    }
}

/// A task is a server's, and its id names the server.
#[tokio::test(start_paused = true)]
async fn a_task_of_a_hidden_server_is_unknown() {
    let jobs = || Jobs.into_server();
    let host =
        House::default().with("open", Revision::LATEST, || rich("open")).with("shut", Revision::LATEST, jobs);
    let host = host.profiles(WORK).start();
    let (all, work) = (host.gateway(), host.gateway_of_profile("work").unwrap());
    let peer = Arc::new(peer_with_tasks(None));
    plain(&host, Revision::LATEST).await.tools().all().await.unwrap();
    let id = make_task(&all, &peer, "shut__slow").await;
    for method in [Method::TasksGet, Method::TasksUpdate, Method::TasksCancel] {
        let params = json!({ "taskId": id, "inputResponses": {} });
        let found = said(&work, &peer, &method, &params).await;
        assert!(found.contains("unknown or expired task"), "{found}");
    }
    let found = said(&all, &peer, &Method::TasksGet, &json!({ "taskId": id })).await;
    assert!(found.contains("working"), "{found}");
}

fn changed(profiles: &str) -> HostConfig {
    config(["open", "shut"].into_iter(), profiles)
}

#[tokio::test]
async fn a_profile_changes_and_goes_while_sessions_are_open() {
    for down in Revision::ALL {
        let seen = [Seen::default(), Seen::default()];
        let host = house(Revision::LATEST, &seen).start();
        let (sender, mut changes) = mpsc::unbounded_channel();
        let client = Client::builder()
            .revision(down)
            .on_list_changed(move |kind| {
                let _ = sender.send(kind);
            })
            .in_memory(host.gateway_of_profile("work").unwrap())
            .await
            .unwrap();
        assert_eq!(tool_names(&client).await, ["open__say"]);
        let nothing = host.update_servers(changed(WORK)).await.unwrap();
        assert!(nothing.is_empty(), "{nothing:?}");
        // Grown: the other server comes in, and the hidden tool comes back.
        let found = host.update_servers(changed("[profiles.work]\n")).await.unwrap();
        assert_eq!(found.changed_profiles, ["work"]);
        assert!(found.added.is_empty() && found.replaced.is_empty(), "{found:?}");
        while changes.recv().await != Some(ListKind::Tools) {}
        assert_eq!(tool_names(&client).await.len(), 4, "{down}");
        assert_eq!(client.call("shut__say", ()).await.unwrap().all_text(), "this is shut");
        // And shrunk.
        host.update_servers(changed(WORK)).await.unwrap();
        let Err(CallError::Rpc(error)) = client.call("shut__say", ()).await else {
            panic!("{down}: it is hidden")
        };
        assert_eq!(error.message, "unknown tool: shut__say", "{down}");
        // Gone: it says so, and stays unknown to new sessions.
        let found = host.update_servers(changed("[profiles.home]\n")).await.unwrap();
        let names = (found.removed_profiles.as_slice(), found.added_profiles.as_slice());
        assert_eq!(names, (["work".to_owned()].as_slice(), ["home".to_owned()].as_slice()));
        let Err(CallError::Rpc(error)) = client.call("open__say", ()).await else {
            panic!("{down}: it is gone")
        };
        assert!(
            error.message.starts_with("the profile `work` was removed from the configuration"),
            "{error}"
        );
        assert!(host.gateway_of_profile("work").is_none());
        let names: Vec<String> = host.profiles().iter().map(|profile| profile.name.clone()).collect();
        assert_eq!(names, ["home"]);
        // It comes back to the sessions that are still there.
        host.update_servers(changed(WORK)).await.unwrap();
        assert_eq!(client.call("open__say", ()).await.unwrap().all_text(), "this is open", "{down}");
    }
}

#[tokio::test]
async fn a_profile_named_like_a_server_is_refused() {
    let host = House::default()
        .with("open", Revision::LATEST, || rich("open"))
        .profiles("[profiles.work]\n")
        .start();
    let config = config(["open", "Wo.rk", "w-ork"].into_iter(), "[profiles.wo_rk]\n");
    let error = host.update_servers(config).await.unwrap_err().to_string();
    assert!(
        error.contains("the profile `wo_rk` and the server `Wo.rk` would have the same endpoint"),
        "{error}"
    );
    assert!(host.gateway_of_profile("work").is_some(), "nothing has changed");
}

/// Returns a configuration of a server with a secret, one without, and these profiles. Names of secrets that begin with
/// `missing` are not stored.
fn with_secrets(profiles: &str) -> HostConfig {
    const TEXT: &str =
        "[servers.git]\ncommand = 'git'\nenv = { T = '${secret:token}' }\n[servers.other]\nbuiltin = 'x'\n";
    read(&format!("{TEXT}{profiles}"))
}

fn read(text: &str) -> HostConfig {
    let secret = |name: &str| Ok(Some(format!("value of {name}")).filter(|_| !name.starts_with("missing")));
    ConfigLoader::new().secrets(secret).keep_going(true).parse("h.toml", text).unwrap()
}

/// Starts servers whose tool `who` says under which label they were started, and notes the labels.
fn labelled(
    started: &Arc<Mutex<Vec<String>>>,
) -> impl Fn(&ServerConfig, &HostSettings) -> Arc<dyn UpstreamConnector> + use<> {
    let started = Arc::clone(started);
    move |config, settings| {
        let label = config.label();
        started.lock().push(label.clone());
        let make: Make = Arc::new(move || {
            let label = label.clone();
            let jobs = Jobs.into_server().tool("who", move || {
                let label = label.clone();
                async move { label }
            });
            Ok(hospes::BoxService::new(jobs))
        });
        let (revision, delay, made) = (Revision::LATEST, Duration::ZERO, Arc::default());
        Arc::new(InMemory { make, revision, delay, settings: settings.clone(), made })
    }
}

async fn who(gateway: crate::Gateway) -> String {
    let client = Client::in_memory(gateway).await.unwrap();
    let names: BTreeSet<String> = tool_names(&client).await.into_iter().collect();
    assert!(names.contains("git__who"), "{names:?}");
    client.call("git__who", ()).await.unwrap().all_text()
}

/// The server for everybody and the one of the profile are told apart by their labels.
#[tokio::test]
async fn a_profile_with_other_secrets_has_a_server_of_its_own() {
    let with = with_secrets;
    let profile =
        "[profiles.work]\nsecrets = { token = 'token.work' }\n[profiles.plain]\nservers = ['git']\n";
    let started = Arc::default();
    let host = Host::builder(with(profile)).connectors(labelled(&started)).start().unwrap();
    assert_eq!(*started.lock(), ["git", "other", "git (profile work)"]);
    assert_eq!(who(host.gateway()).await, "git");
    assert_eq!(who(host.gateway_of_profile("work").unwrap()).await, "git (profile work)");
    assert_eq!(who(host.gateway_of_profile("plain").unwrap()).await, "git");
    let names: Vec<String> = host.status().servers.into_iter().map(|server| server.name).collect();
    assert_eq!(names, ["git", "other", "git (profile work)"]);
    assert!(host.servers().listing("git (profile work)").unwrap().is_some());
    let labels: Vec<String> = host.labels().into_iter().map(|(name, _)| name).collect();
    assert_eq!(labels, ["git", "other"]);

    // Tasks of the two are different tasks.
    let (work, all) = (host.gateway_of_profile("work").unwrap(), host.gateway());
    let peer = Arc::new(peer_with_tasks(None));
    let id = make_task(&work, &peer, "git__slow").await;
    assert!(id.starts_with("git@work__"), "{id}");
    let get = json!({ "taskId": id });
    assert!(said(&work, &peer, &Method::TasksGet, &get).await.contains("working"));
    for gateway in [&all, &host.gateway_of_profile("plain").unwrap()] {
        let found = said(gateway, &peer, &Method::TasksGet, &get).await;
        assert!(found.contains("unknown or expired task"), "{found}");
    }

    // Another secret starts the profile's server anew and no other; without one it is that of everybody again.
    let found = host.update_servers(with(&profile.replace("token.work", "token.new"))).await.unwrap();
    assert_eq!(
        (found.replaced.as_slice(), found.added.len()),
        (["git (profile work)".to_owned()].as_slice(), 0)
    );
    assert_eq!(who(host.gateway_of_profile("work").unwrap()).await, "git (profile work)");
    let found = host.update_servers(with("[profiles.work]\n")).await.unwrap();
    assert_eq!(found.removed, ["git (profile work)"]);
    assert_eq!(who(host.gateway_of_profile("work").unwrap()).await, "git");
}

/// A mistake in the entry of a server ends neither the server for everybody nor the one of a profile.
#[tokio::test]
async fn a_typing_mistake_stops_no_server_of_a_profile() {
    const PROFILE: &str = "[profiles.work]\nsecrets = { token = 'token.work' }\n";
    let host = Host::builder(with_secrets(PROFILE)).connectors(labelled(&Arc::default())).start().unwrap();
    let mistaken = format!(
        "[servers.git]\ncommand = 3\nenv = {{ T = '${{secret:token}}' }}\n[servers.other]\nbuiltin = 5\n{PROFILE}"
    );
    let found = host.update_servers(read(&mistaken)).await.unwrap();
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(who(host.gateway()).await, "git");
    let work = host.gateway_of_profile("work").unwrap();
    assert_eq!(who(work.clone()).await, "git (profile work)");
    // The other server has no secret, so that it is the same one for the profile.
    assert!(tool_names(&Client::in_memory(work).await.unwrap()).await.contains(&"other__who".to_owned()));
    // Without a secret of its own the profile has no server of its own either.
    let found = host.update_servers(read(&mistaken.replace("secrets", "# secrets"))).await.unwrap();
    assert_eq!((found.removed.len(), &*found.changed_profiles), (1, &["work".to_owned()][..]), "{found:?}");
}

/// Servers of one name share what is pinned of them, whichever of them came first.
#[tokio::test]
async fn a_new_profile_restarts_no_server_and_shares_its_pins() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateStore::open(folder.path().join("state.db")).unwrap();
    // The server for everybody has no secret and does not run.
    let text = "[servers.git]\ncommand = '/bin/sh'\nenv = { T = '${secret:missing}' }\n";
    let work = format!("{text}[profiles.work]\nsecrets = {{ missing = 'work' }}\n");
    let both = format!(
        "{text}[profiles.home]\nsecrets = {{ missing = 'home' }}\n[profiles.work]\nsecrets = {{ missing = 'work' }}\n"
    );
    let host = Host::builder(read(&work))
        .connectors(labelled(&Arc::default()))
        .pins(PinningConfig::new(state, PinMode::FirstUse))
        .start()
        .unwrap();
    let client = in_profile(&host, Revision::LATEST).await;
    assert_eq!(client.call("git__who", ()).await.unwrap().all_text(), "git (profile work)");
    let found = host.update_servers(read(&both)).await.unwrap();
    assert_eq!((&*found.added, found.replaced.len()), (&["git (profile home)".to_owned()][..], 0));
    assert_eq!(who(host.gateway_of_profile("home").unwrap()).await, "git (profile home)");
    host.pins().unwrap().reject("git", None, "ann").await.unwrap();
    let is_refused = async || client.call("git__who", ()).await.is_ok_and(|result| result.has_failed());
    let waiting = async {
        while !is_refused().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("the running one is rejected too");
}

/// One server with two accounts offers two lists, and neither is news to the other.
#[tokio::test]
async fn profiles_that_list_other_tools_are_pinned_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateStore::open(folder.path().join("state.db")).unwrap();
    let connect = |config: &ServerConfig, settings: &HostSettings| -> Arc<dyn UpstreamConnector> {
        let tools: &[&str] = if config.profile.is_some() { &["read", "write"] } else { &["read"] };
        let make: Make = Arc::new(move || {
            let server = tools.iter().fold(Server::new("git", "1"), |server, tool| {
                server.tool(*tool, move || async move { *tool })
            });
            Ok(hospes::BoxService::new(server))
        });
        let (revision, delay, made) = (Revision::LATEST, Duration::ZERO, Arc::default());
        Arc::new(InMemory { make, revision, delay, settings: settings.clone(), made })
    };
    let text = "[servers.git]\ncommand = '/bin/sh'\nenv = { T = '${secret:token}' }\n\
        [profiles.work]\nsecrets = { token = 'token.work' }\n";
    let host = Host::builder(read(text))
        .connectors(connect)
        .pins(PinningConfig::new(state, PinMode::FirstUse))
        .start()
        .unwrap();
    assert_eq!(tool_names(&plain(&host, Revision::LATEST).await).await, ["git__read"]);
    let work = in_profile(&host, Revision::LATEST).await;
    assert_eq!(tool_names(&work).await, ["git__read", "git__write"]);
    assert_eq!(work.call("git__write", ()).await.unwrap().all_text(), "write");
}

/// A server that gets an account for each user stays the shared one until the host starts again.
#[tokio::test]
async fn a_server_with_new_accounts_stays_as_it_is() {
    let text = "[servers.git]\nurl = 'https://e.com/mcp'\n";
    let host = Host::builder(read(text)).connectors(labelled(&Arc::default())).start().unwrap();
    let found = host.update_servers(read(&format!("{text}account = 'per-user'\n"))).await.unwrap();
    assert_eq!((&*found.deferred, found.removed.len()), (&["git".to_owned()][..], 0), "{found:?}");
    assert_eq!(who(host.gateway()).await, "git");
}

/// Over a duplex connection, as `hospes stdio` serves a profile.
#[tokio::test]
async fn a_profile_is_served_over_a_stream() {
    let seen = [Seen::default(), Seen::default()];
    let host = house(Revision::LATEST, &seen).start();
    let (here, there) = tokio::io::duplex(4096);
    let (input, output) = tokio::io::split(there);
    let server = StdioServer::new(host.gateway_of_profile("work").unwrap());
    let serving = tokio::spawn(async move { server.serve_io(input, output).await });
    let (read, mut write) = tokio::io::split(here);
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": ClientCapabilities::new(),
        "clientInfo": { "name": "t", "version": "1" } } });
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let call =
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "shut__say" } });
    for message in [hello, ready, call] {
        write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    let mut lines = tokio::io::BufReader::new(read).lines();
    let mut answer = Value::Null;
    while answer["id"] != 2 {
        answer = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    }
    assert_eq!(answer["error"]["message"], "unknown tool: shut__say", "{answer}");
    drop((write, lines));
    let _ended = serving.await;
}
