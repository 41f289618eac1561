//! Servers that a profile has with an account of its own: an approval and a request state count for that account alone.

use hospes::model::{ElicitParams, Implementation, InputRequest};
use hospes::transport::StateKeyRing;
use hospes::transport::stdio_server::StdioServer;
use hospes::{PendingInput, Round};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};

use super::guarded::{Anything, guard_on};
use super::*;
use crate::approvals::{ApprovalDecision, ApprovalSentence};
use crate::config::ConfigLoader;

const CONFIG: &str = "[servers.git]\ncommand = 'git'\nenv = { T = '${secret:token}' }\n
    [profiles.work]\nsecrets = { token = 'token.work' }\n[profiles.plain]\nservers = ['git']\n";

/// A host with `git` for everybody and for the profile `work`. Each call is noted with the label of its server.
async fn host(state: &StateStore, called: &Arc<Mutex<Vec<String>>>) -> (Host, Arc<PolicyEnforcer>) {
    let secret = |name: &str| Ok(Some(format!("value of {name}")));
    let config = ConfigLoader::new().secrets(secret).parse("h.toml", CONFIG).unwrap();
    let called = Arc::clone(called);
    let connect = move |config: &ServerConfig, settings: &HostSettings| -> Arc<dyn UpstreamConnector> {
        let (called, label) = (Arc::clone(&called), config.label());
        let make: Make = Arc::new(move || {
            let (called, label) = (Arc::clone(&called), label.clone());
            Ok(hospes::BoxService::new(Server::new("git", "1").tool("push", move |_: Anything| {
                called.lock().push(label.clone());
                async { "pushed" }
            })))
        });
        let (revision, delay, made) = (Revision::LATEST, Duration::ZERO, Arc::default());
        Arc::new(InMemory { make, revision, delay, settings: settings.clone(), made })
    };
    let guard = guard_on("[[rule]]\ndecide = 'ask'\n", state).await;
    let host = Host::builder(config).connectors(connect).guard(Arc::clone(&guard)).start().unwrap();
    (host, guard)
}

/// Calls `git__push` for an application that can show URLs.
async fn push(gateway: &crate::Gateway, round: Round) -> Outcome {
    let capabilities = serde_json::from_value(json!({ "elicitation": { "url": {} } })).unwrap();
    let info = Implementation::new("editor", "1");
    let peer = hospes::Peer::new(Revision::LATEST, Some(info), capabilities);
    let context = Context::builder(Arc::new(peer)).round(round).build();
    let params = json!({ "name": "git__push", "arguments": { "branch": "main" } });
    gateway.call(Call::new(Method::ToolsCall, params.into(), context)).await
}

/// The card that a person saw when the call was asked about, and the round with which the application comes back.
async fn ask(host: &Host, guard: &PolicyEnforcer, profile: &str, label: &str) -> (crate::Gateway, Round) {
    let asking = host.gateway_of_profile(profile).unwrap();
    let question = push(&asking, Round::default()).await;
    let Outcome::InputRequired(PendingInput { requests, mut round, .. }) = question else {
        panic!("{question:?}")
    };
    let InputRequest::Elicit(params) = &requests[0].1 else { panic!("{requests:?}") };
    let ElicitParams::Url(params) = &**params else { panic!("{params:?}") };
    assert!(params.message.contains(&format!("of the server `{label}`?")), "{}", params.message);
    let approval = guard.approvals().pending().pop().unwrap();
    assert_eq!((&*approval.server, approval.server_label()), ("git", label.to_owned()));
    let sentence = ApprovalSentence::of(&approval).render(str::to_owned);
    assert!(sentence.contains(&format!("push of {label}")), "{sentence}");
    guard.approvals().decide(&approval.id, ApprovalDecision::allow(), "me").await.unwrap();
    round.record_answers([(requests[0].0.clone(), json!({ "action": "accept" }).into())]);
    (asking, round)
}

/// The same call is sent to the endpoint of the other account, with the answer to the question about this one.
#[tokio::test]
async fn an_approval_counts_for_the_account_that_the_card_names() {
    for (profile, label) in [("work", "git (profile work)"), ("plain", "git")] {
        let folder = tempfile::tempdir().unwrap();
        let state = StateStore::open(folder.path().join("state.db")).unwrap();
        let called = Arc::default();
        let (host, guard) = host(&state, &called).await;
        let _attendance = guard.approvals().register_viewer(Some("http://127.0.0.1:7338"));
        let (asking, round) = ask(&host, &guard, profile, label).await;
        let other = if profile == "work" { host.gateway() } else { host.gateway_of_profile("work").unwrap() };
        let elsewhere = push(&other, round.clone()).await;
        assert!(called.lock().is_empty(), "{profile}: {elsewhere:?}");
        push(&asking, round).await;
        assert!(called.lock().is_empty(), "{profile}: the try used it up");

        let (asking, round) = ask(&host, &guard, profile, label).await;
        push(&asking, round).await;
        assert_eq!(*called.lock(), [label]);
    }
}

/// Sends one request to an endpoint with these keys. Returns its result or error.
async fn request(gateway: crate::Gateway, keys: StateKeyRing, params: Value) -> Value {
    let (here, there) = tokio::io::duplex(1 << 16);
    let (input, output) = tokio::io::split(there);
    let server = StdioServer::new(gateway).state_keys(keys);
    let serving = tokio::spawn(async move { server.serve_io(input, output).await });
    let (read, mut write) = tokio::io::split(here);
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": Revision::LATEST.to_string(),
        "io.modelcontextprotocol/clientInfo": { "name": "editor", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "url": {} } },
    });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    write.write_all(format!("{call}\n").as_bytes()).await.unwrap();
    let mut lines = tokio::io::BufReader::new(read).lines();
    let mut answer = Value::Null;
    while answer["id"] != 1 {
        answer = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    }
    drop((write, lines));
    let _ended = serving.await;
    answer
}

/// `plain` reaches the same server as the shared endpoint, so the binding of the approval alone would let it pass.
#[tokio::test]
async fn request_state_is_refused_at_every_endpoint_but_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateStore::open(folder.path().join("state.db")).unwrap();
    let (host, guard) = host(&state, &Arc::default()).await;
    let _attendance = guard.approvals().register_viewer(Some("http://127.0.0.1:7338"));
    let rounds = host.request_state().unwrap().unwrap();
    let gateways =
        [host.gateway(), host.gateway_of_profile("work").unwrap(), host.gateway_of_profile("plain").unwrap()];
    let call = json!({ "name": "git__push", "arguments": {} });
    for (at, asking) in gateways.iter().enumerate() {
        let asked = request(asking.clone(), rounds.keys_for(asking), call.clone()).await;
        let sealed = asked["result"]["requestState"].as_str().unwrap_or_else(|| panic!("{asked}"));
        let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
        let mut again = call.clone();
        again["requestState"] = json!(sealed);
        again["inputResponses"] = json!({ key: { "action": "cancel" } });
        for (to, other) in gateways.iter().enumerate() {
            let answer = request(other.clone(), rounds.keys_for(other), again.clone()).await;
            let is_refused =
                answer["error"]["message"].as_str().is_some_and(|why| why.contains("requestState"));
            assert_eq!(is_refused, to != at, "sealed at {at}, returned at {to}: {answer}");
        }
    }
}
