//! Sessions that several processes share: endpoints with one directory, each at a port of its own.

use super::shared_directory::{Fleet, NodeDirectory};
use super::*;
use crate::transport::http_server::Principal;
use crate::transport::http_server::shared_sessions::ForwardedRequest;
use crate::transport::probe::ProbeChange;

const REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

struct Nodes {
    fleet: std::sync::Arc<Fleet>,
    sites: Vec<Site>,
}

impl Nodes {
    async fn new(count: usize) -> Self {
        let fleet = std::sync::Arc::<Fleet>::default();
        let mut sites = Vec::new();
        for _ in 0..count {
            let node: std::sync::Arc<NodeDirectory> = fleet.node();
            let directory = std::sync::Arc::clone(&node);
            let site =
                Site::with(|builder| builder.session_directory(directory).retry(Duration::from_millis(20)))
                    .await;
            node.serve(&site.endpoint);
            sites.push(site);
        }
        Self { fleet, sites }
    }

    fn site(&self, at: usize) -> &Site {
        &self.sites[at]
    }
}

fn progress(id: u32, millis: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": "progress", "arguments": {"millis": millis}, "_meta": {"progressToken": id}}})
}

/// covers: HSES-01 HSES-05 HSES-07 HSES-09
#[tokio::test]
async fn any_process_serves_a_session() {
    let nodes = Nodes::new(3).await;
    for revision in REVISIONS {
        let session = nodes.site(0).session(revision).await;
        for (at, site) in nodes.sites.iter().enumerate() {
            let answer = site.in_session(&session, tool(1, "echo", json!({"text": "hi"}))).await;
            assert_eq!(text(&answer.json().await), "hi", "{revision} at {at}");
            let mut stream = site.in_session(&session, progress(2, 0)).await;
            let mut events = Vec::new();
            while let Some(event) = stream.event().await {
                if !event.data.is_null() {
                    assert!(event.id.is_some());
                    events.push(event.data);
                }
            }
            assert_eq!(events.len(), 4, "{events:?}");
            assert_eq!(text(&events[3]), "there");
        }
        // One process has it.
        let held: Vec<_> = nodes.sites.iter().map(|site| site.endpoint.sessions()).collect();
        assert_eq!(held, [1, 0, 0]);
        assert!(nodes.site(2).delete(&session).await.status.is_success());
        for site in &nodes.sites {
            let answer = site.in_session(&session, tool(3, "echo", json!({}))).await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND);
            assert_eq!(site.get(&session, &[]).await.status, StatusCode::NOT_FOUND);
        }
        assert_eq!((nodes.fleet.sessions(), nodes.site(0).endpoint.sessions()), (0, 0));
    }
    let answer = nodes.site(1).in_session("never-given", tool(1, "echo", json!({}))).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
}

/// covers: HSES-14
#[tokio::test]
async fn a_shared_session_is_its_principals_alone_at_every_process() {
    let nodes = Nodes::new(2).await;
    let request = |who: Option<&str>, session: &str, body| {
        let mut request = post(body, &[("mcp-session-id", session)]);
        if let Some(who) = who {
            request.extensions_mut().insert(Principal::new(who));
        }
        request
    };
    let answer = direct(&nodes.site(0).endpoint, request(Some("ada"), "", initialize("2025-11-25"))).await;
    let id = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    for killed in [false, true] {
        if killed {
            nodes.fleet.kill(0);
        }
        for (who, status) in
            [(Some("eve"), 404), (None, 404), (Some("ada"), 200), (Some("eve"), 404), (None, 404)]
        {
            let call = request(who, &id, tool(1, "echo", json!({})));
            let answer = direct(&nodes.site(1).endpoint, call).await;
            assert_eq!(answer.status(), status, "{who:?}");
        }
        for verb in [Method::GET, Method::DELETE] {
            let (site, who) = (nodes.site(usize::from(killed)), Some("eve"));
            let mut ended = request(who, &id, Value::String(String::new()));
            *ended.method_mut() = verb;
            assert_eq!(direct(&site.endpoint, ended).await.status(), 404);
        }
    }
}

/// covers: HTTP-33 HMUL-02 LIFE-11
#[tokio::test]
async fn a_session_continues_where_its_owner_ended() {
    for revision in REVISIONS {
        let nodes = Nodes::new(2).await;
        let (old, new) = (nodes.site(0), nodes.site(1));
        let session = old.session(revision).await;
        for (id, uri) in [(1, "x:1"), (2, "x:2")] {
            let params = json!({"uri": uri});
            let subscribe =
                json!({"jsonrpc": "2.0", "id": id, "method": "resources/subscribe", "params": params});
            assert_eq!(old.in_session(&session, subscribe).await.json().await["result"], json!({}));
        }
        let unsubscribe = json!({"jsonrpc": "2.0", "id": 3, "method": "resources/unsubscribe",
                                 "params": {"uri": "x:2"}});
        new.in_session(&session, unsubscribe).await;
        let level =
            json!({"jsonrpc": "2.0", "id": 4, "method": "logging/setLevel", "params": {"level": "error"}});
        assert_eq!(new.in_session(&session, level).await.json().await["result"], json!({}));
        nodes.fleet.kill(0);
        // The level holds: a message of the level `info` does not come.
        let answer = new.in_session(&session, tool(5, "log", json!({}))).await;
        assert!(!answer.is_stream(), "{revision}: the log level was lost");
        assert_eq!(text(&answer.json().await), "logged");
        let mut stream = new.get(&session, &[]).await;
        until(|| new.probe.listening() == 1).await;
        for uri in ["x:2", "x:1"] {
            new.probe.change(ProbeChange::Resource(uri.into()));
        }
        assert_eq!(stream.message().await["params"]["uri"], "x:1");
        assert_eq!(new.endpoint.sessions(), 1);
    }
}

/// A client that sends several requests at once after its process ended must not get several sessions.
#[tokio::test]
async fn a_session_is_continued_once() {
    let nodes = Nodes::new(2).await;
    let session = nodes.site(0).session("2025-11-25").await;
    // Its answer has to be written before the session goes on, which takes a while.
    let unanswered = nodes.site(0).in_session(&session, progress(99, 60_000)).await;
    until(|| nodes.fleet.events() == 1).await;
    nodes.fleet.kill(0);
    let calls = (1..40).map(|id| nodes.site(1).in_session(&session, tool(id, "echo", json!({"text": "hi"}))));
    for answer in futures::future::join_all(calls).await {
        assert_eq!(text(&answer.json().await), "hi");
    }
    assert_eq!(nodes.site(1).endpoint.sessions(), 1);
    drop(unanswered);
}

/// covers: HRES-05 HRES-07 HRES-08 HTTP-18
#[tokio::test]
async fn a_stream_is_resumed_at_the_next_owner_and_ends_with_one_answer() {
    for revision in REVISIONS {
        let nodes = Nodes::new(3).await;
        let session = nodes.site(0).session(revision).await;
        // Long enough that its process ends first.
        let mut stream = nodes.site(1).in_session(&session, progress(7, 60_000)).await;
        let first = loop {
            let event = stream.event().await.unwrap();
            if !event.data.is_null() {
                break event;
            }
        };
        assert_eq!(first.data["params"]["progress"], 1.0);
        nodes.fleet.kill(0);
        for at in [2, 1, 2] {
            let last = first.id.as_deref().unwrap();
            let mut resumed = nodes.site(at).get(&session, &[("last-event-id", last)]).await;
            assert_eq!(resumed.status, StatusCode::OK);
            let answer = resumed.message().await;
            assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(7), &json!(true)));
            assert_eq!(answer["result"]["_meta"]["outcome"], "unknown");
            assert!(resumed.event().await.is_none(), "one answer");
        }
        for unknown in ["s99e0", "1-1", "nonsense"] {
            let answer = nodes.site(2).get(&session, &[("last-event-id", unknown)]).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        }
    }
}

/// covers: HTTP-25 HRES-05
#[tokio::test]
async fn an_answer_that_was_stored_is_the_answer_at_the_next_owner() {
    let nodes = Nodes::new(2).await;
    let session = nodes.site(0).session("2025-11-25").await;
    let mut stream = nodes.site(0).in_session(&session, progress(1, 1)).await;
    let prime = stream.event().await.unwrap();
    stream.hang_up().await;
    until(|| nodes.fleet.events() == 4).await;
    nodes.fleet.kill(0);
    let last = prime.id.unwrap();
    let mut resumed = nodes.site(1).get(&session, &[("last-event-id", &last)]).await;
    for step in 1..=3 {
        assert_eq!(resumed.message().await["params"]["progress"], f64::from(step));
    }
    assert_eq!(text(&resumed.message().await), "there");
    assert!(resumed.event().await.is_none());
}

#[tokio::test]
async fn a_request_whose_owner_is_lost_is_answered_and_not_repeated() {
    let nodes = Nodes::new(2).await;
    let session = nodes.site(0).session("2025-03-26").await;
    let calls = [
        (tool(1, "forever", json!({})), false),
        (json!([tool(2, "forever", json!({})), tool(3, "forever", json!({}))]), true),
    ];
    let ask = |body: Value| nodes.site(1).in_session(&session, body);
    let (single, batch) = (ask(calls[0].0.clone()), ask(calls[1].0.clone()));
    let killed = async {
        nodes.site(0).running(3).await;
        nodes.fleet.kill(0);
    };
    let (single, batch, ()) = tokio::join!(single, batch, killed);
    let single = single.json().await;
    assert_eq!((&single["id"], &single["result"]["_meta"]["outcome"]), (&json!(1), &json!("unknown")));
    let batch = batch.json().await;
    let ids: Vec<_> = batch.as_array().unwrap().iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, [2, 3]);
    assert_eq!(nodes.site(1).probe.most_running(), 0, "nothing was sent again");
}

/// A client relies on events that it has received, so that they leave only once the directory has them.
#[tokio::test]
async fn an_event_is_sent_once_the_directory_has_it() {
    let nodes = Nodes::new(1).await;
    let site = nodes.site(0);
    let session = site.session("2025-06-18").await;
    nodes.fleet.holds.store(true, std::sync::atomic::Ordering::SeqCst);
    let mut call = site.in_session(&session, progress(1, 0)).await;
    let mut changes = site.get(&session, &[]).await;
    until(|| site.probe.listening() == 1 && site.probe.running() == 0).await;
    site.probe.change(ProbeChange::Tools);
    for stream in [&mut call, &mut changes] {
        let early = tokio::time::timeout(Duration::from_millis(50), stream.next_event()).await;
        assert!(early.is_err(), "{early:?}");
    }
    nodes.fleet.release_events();
    assert_eq!(changes.message().await["method"], "notifications/tools/list_changed");
    for step in 1..=3 {
        assert_eq!(call.message().await["params"]["progress"], f64::from(step));
    }
    assert_eq!(text(&call.message().await), "there");
    assert!(call.event().await.is_none());
}

/// covers: HSES-07 HSES-08
#[tokio::test]
async fn without_the_directory_a_client_keeps_its_session() {
    let nodes = Nodes::new(2).await;
    let session = nodes.site(0).session("2025-11-25").await;
    nodes.fleet.fail(true);
    let answer = nodes.site(0).post(initialize("2025-11-25"), &[]).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.headers["retry-after"], "1");
    let answer = nodes.site(1).in_session(&session, tool(1, "echo", json!({"text": "hi"}))).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    let answer = answer.json().await;
    assert_eq!(answer["id"], 1);
    assert!(answer["error"]["message"].as_str().unwrap().contains("directory"), "{answer}");
    nodes.fleet.fail(false);
    let answer = nodes.site(1).in_session(&session, tool(1, "echo", json!({"text": "hi"}))).await;
    assert_eq!(text(&answer.json().await), "hi");
    assert_eq!(nodes.fleet.sessions(), 1, "the one that was not answered is gone");
}

#[tokio::test]
async fn an_owner_that_has_lost_its_lease_serves_nothing_of_the_session() {
    let nodes = Nodes::new(2).await;
    let (old, new) = (nodes.site(0), nodes.site(1));
    let session = old.session("2025-11-25").await;
    nodes.fleet.holds.store(true, std::sync::atomic::Ordering::SeqCst);
    let mut stream = old.in_session(&session, progress(1, 0)).await;
    until(|| old.probe.most_running() == 1).await;
    nodes.fleet.kill(0);
    // Adopted before the events of the old owner were stored.
    let answer = new.in_session(&session, tool(2, "echo", json!({"text": "hi"}))).await;
    assert_eq!(text(&answer.json().await), "hi");
    nodes.fleet.release_events();
    // Its events are refused, and the client is to come back.
    while let Some(event) = stream.event().await {
        assert!(event.data.is_null(), "{event:?}");
    }
    // Its own clients are served by the present owner.
    let answer = old.in_session(&session, tool(3, "echo", json!({"text": "hi"}))).await;
    assert_eq!(text(&answer.json().await), "hi");
    assert_eq!((old.endpoint.sessions(), new.endpoint.sessions()), (0, 1));
    assert_eq!(old.probe.most_running(), 1);
}

/// Also before it has noticed by a failure.
#[tokio::test]
async fn an_owner_without_a_lease_looks_for_the_present_owner() {
    let nodes = Nodes::new(2).await;
    let session = nodes.site(0).session("2025-06-18").await;
    nodes.fleet.kill(0);
    for site in [1, 0, 1, 0] {
        let answer = nodes.site(site).in_session(&session, tool(1, "echo", json!({"text": "hi"}))).await;
        assert_eq!(text(&answer.json().await), "hi");
    }
    let (old, new) = (nodes.site(0), nodes.site(1));
    assert_eq!((old.probe.most_running(), new.probe.most_running()), (0, 1));
    assert_eq!((old.endpoint.sessions(), new.endpoint.sessions()), (0, 1));
}

#[tokio::test]
async fn a_session_that_was_not_opened_is_not_kept() {
    let nodes = Nodes::new(1).await;
    let mut bad = initialize("2025-11-25");
    bad["params"]["clientInfo"] = json!(7);
    assert_eq!(code(&nodes.site(0).post(bad, &[]).await.json().await), -32602);
    until(|| nodes.fleet.sessions() == 0).await;
}

/// A late answer to a question of the old owner must not answer one of the new owner.
#[tokio::test]
async fn questions_of_two_owners_have_different_ids() {
    let nodes = Nodes::new(2).await;
    let session = nodes.site(0).session("2025-06-18").await;
    let mut first = nodes.site(0).in_session(&session, tool(1, "ask", json!({}))).await;
    let old = first.message().await["id"].clone();
    nodes.fleet.kill(0);
    let mut second = nodes.site(1).in_session(&session, tool(2, "ask", json!({}))).await;
    let new = second.message().await["id"].clone();
    assert_ne!(old, new);
    assert!(new.as_i64().unwrap() < 1 << 53, "{new}");
    for (id, name) in [(old, "late"), (new, "Ada")] {
        let result = json!({"action": "accept", "content": {"name": name}});
        let reply = json!({"jsonrpc": "2.0", "id": id, "result": result});
        assert_eq!(nodes.site(1).in_session(&session, reply).await.status, StatusCode::ACCEPTED);
    }
    assert!(text(&second.message().await).contains("Ada"));
}

#[tokio::test]
async fn a_forwarded_request_is_not_forwarded_again() {
    let nodes = Nodes::new(2).await;
    let session = nodes.site(0).session("2025-06-18").await;
    let mut request = post(tool(1, "echo", json!({})), &[("mcp-session-id", &session)]);
    request.extensions_mut().insert(ForwardedRequest);
    let answer = direct(&nodes.site(1).endpoint, request).await;
    assert_eq!(answer.status(), StatusCode::MISDIRECTED_REQUEST);
}

/// More events than may wait for the directory, none of which is lost or moved.
#[tokio::test]
async fn many_events_wait_for_the_directory_in_their_order() {
    let nodes = Nodes::new(1).await;
    let site = nodes.site(0);
    let session = site.session("2025-06-18").await;
    nodes.fleet.holds.store(true, std::sync::atomic::Ordering::SeqCst);
    let mut call = progress(1, 0);
    call["params"]["arguments"]["steps"] = 300.into();
    let mut stream = site.in_session(&session, call).await;
    let early = tokio::time::timeout(Duration::from_millis(50), stream.next_event()).await;
    assert!(early.is_err(), "{early:?}");
    nodes.fleet.release_events();
    // The service itself leaves out progress that nobody reads.
    let mut last = 0;
    for number in 1.. {
        let event = stream.event().await.unwrap();
        assert_eq!(event.id.unwrap(), format!("s0e{number}"));
        if event.data["id"] == 1 {
            assert_eq!(text(&event.data), "there");
            break;
        }
        let progress = event.data["params"]["progress"].as_u64().unwrap();
        assert!(progress > last, "{progress} after {last}");
        last = progress;
    }
    assert_eq!(last, 300);
    assert!(stream.event().await.is_none());
}

/// An answer that the directory does not take must not hold up the stream.
#[tokio::test]
async fn an_answer_that_the_directory_refuses_is_an_error() {
    let nodes = Nodes::new(1).await;
    let session = nodes.site(0).session("2025-06-18").await;
    let mut call = progress(1, 0);
    call["params"]["arguments"]["text"] = "x".repeat(200_000).into();
    let mut stream = nodes.site(0).in_session(&session, call).await;
    for step in 1..=3 {
        assert_eq!(stream.message().await["params"]["progress"], step);
    }
    let answer = stream.message().await;
    assert_eq!((&answer["id"], code(&answer)), (&json!(1), -32603));
    assert!(answer["error"]["message"].as_str().unwrap().contains("max_event_bytes"), "{answer}");
    assert!(stream.event().await.is_none());
}
