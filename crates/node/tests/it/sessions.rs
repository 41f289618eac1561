//! Sessions at the nodes of a fleet.

use std::time::Duration;

use hospes_fleet_testkit::eventually;
use http::StatusCode;
use serde_json::{Value, json};

use crate::cluster::{Cluster, call, request};

fn result(answer: &Value) -> &Value {
    &answer["result"]["content"][0]["text"]
}

/// covers: HSES-05 HSES-07 HSES-09
#[tokio::test]
async fn any_node_serves_a_session_until_one_ends_it() {
    let cluster = Cluster::new(3).await;
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = cluster.nodes[0].session(revision).await;
        for node in &cluster.nodes {
            assert_eq!(*result(&node.post(&session, call(1, "echo")).await.json().await), "done");
        }
        assert_eq!(cluster.nodes.iter().map(|node| node.endpoint.sessions()).collect::<Vec<_>>(), [1, 0, 0]);
        // A session of one endpoint is none of another.
        for node in 0..3 {
            let foreign = request("/mcp/other", "POST", &session, call(2, "echo").to_string());
            let answer = cluster.nodes[node].other.handle(foreign).await;
            assert_eq!(answer.status(), StatusCode::NOT_FOUND);
        }
        let ended = cluster.nodes[2].send(request("/mcp", "DELETE", &session, String::new())).await;
        assert_eq!(ended.status, StatusCode::NO_CONTENT);
        for node in &cluster.nodes {
            assert_eq!(node.post(&session, call(3, "echo")).await.status, StatusCode::NOT_FOUND);
        }
    }
    assert_eq!(cluster.nodes[0].service.calls(), 9);
}

/// covers: HRES-05 HRES-07 HTTP-18 LIFE-11
#[tokio::test]
async fn a_session_and_its_streams_survive_the_node_that_owned_them() {
    let cluster = Cluster::new(3).await;
    let (owner, others) = cluster.nodes.split_first().unwrap();
    let session = owner.session("2025-11-25").await;
    let level =
        json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "error"}});
    assert_eq!(others[0].post(&session, level).await.json().await["result"], json!({}));
    let mut stream = others[0].post(&session, call(2, "wait")).await;
    let (last, progress) = stream.event().await.unwrap();
    assert_eq!(progress["params"]["progress"], 1);
    owner.kill();
    // The client comes back to whichever node, as soon as it likes: the request waits for the end of the lease.
    let mut resumed = others[1].resume(&session, &last).await;
    assert_eq!(resumed.status, StatusCode::OK);
    let (_, answer) = resumed.event().await.unwrap();
    assert_eq!((&answer["id"], &answer["result"]["_meta"]["outcome"]), (&json!(2), &json!("unknown")));
    assert!(resumed.event().await.is_none(), "one answer");
    for node in others {
        assert_eq!(*result(&node.post(&session, call(3, "echo")).await.json().await), "done");
    }
    assert_eq!((others[0].endpoint.sessions(), others[1].endpoint.sessions()), (0, 1));
    // Nobody called the tool again.
    assert_eq!((owner.service.calls(), others[0].service.calls(), others[1].service.calls()), (1, 0, 2));
}

/// A process that was killed leaves an address at which nothing listens, and a lease that is not renewed.
#[tokio::test]
async fn a_killed_node_is_replaced_before_its_lease_ends() {
    let cluster = Cluster::with_lease(3, Duration::from_secs(600)).await;
    let (owner, others) = cluster.nodes.split_first().unwrap();
    let session = owner.session("2025-11-25").await;
    owner.kill();
    for node in others {
        assert_eq!(*result(&node.post(&session, call(1, "echo")).await.json().await), "done");
    }
    assert_eq!((others[0].endpoint.sessions(), others[1].endpoint.sessions()), (1, 0));
}

/// The events that the client has not seen are those that the former owner had stored.
#[tokio::test]
async fn stored_events_and_answers_are_replayed_by_another_node() {
    let cluster = Cluster::new(2).await;
    let session = cluster.nodes[0].session("2025-06-18").await;
    let mut stream = cluster.nodes[0].post(&session, call(1, "wait")).await;
    let (first, _) = stream.event().await.unwrap();
    cluster.nodes[0].service.finish();
    while stream.event().await.is_some() {}
    cluster.nodes[0].kill();
    let mut resumed = cluster.nodes[1].resume(&session, &first).await;
    let (_, progress) = resumed.event().await.unwrap();
    assert_eq!(progress["params"]["progress"], 2);
    let (_, answer) = resumed.event().await.unwrap();
    assert_eq!(*result(&answer), "done");
    assert!(resumed.event().await.is_none());
}

/// A node that is cut off from the shared state serves no session, and another one adopts it. Afterwards it forwards.
#[tokio::test]
async fn a_node_without_a_lease_serves_no_session() {
    let cluster = Cluster::new(2).await;
    let (old, new) = (&cluster.nodes[0], &cluster.nodes[1]);
    let session = old.session("2025-06-18").await;
    let before = old.membership.node().unwrap();
    old.cut_off();
    eventually("the lease ends", async || old.membership.node().is_none().then_some(())).await;
    let refused = old.post(&session, call(1, "echo")).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(*result(&new.post(&session, call(2, "echo")).await.json().await), "done");
    old.heal();
    eventually("the node has joined again", async || old.membership.node().filter(|node| *node != before))
        .await;
    assert_eq!(*result(&old.post(&session, call(3, "echo")).await.json().await), "done");
    assert_eq!((old.service.calls(), new.service.calls()), (0, 2));
    assert_eq!((old.endpoint.sessions(), new.endpoint.sessions()), (0, 1));
}

/// A client whose stream is at a node that was without a lease, while its session went on elsewhere: nothing more is sent
/// on it, so it ends when the node is back.
///
/// covers: HRES-05
#[tokio::test]
async fn streams_end_at_a_node_that_returns_to_sessions_of_others() {
    let cluster = Cluster::new(2).await;
    let (old, new) = (&cluster.nodes[0], &cluster.nodes[1]);
    let session = old.session("2025-06-18").await;
    let mut listening = old.send(request("/mcp", "GET", &session, String::new())).await;
    let mut stream = old.post(&session, call(1, "wait")).await;
    let (last, _) = stream.event().await.unwrap();
    let before = old.membership.node().unwrap();
    old.cut_off();
    eventually("the lease ends", async || old.membership.node().is_none().then_some(())).await;
    assert_eq!(*result(&new.post(&session, call(2, "echo")).await.json().await), "done");
    old.heal();
    eventually("the node has joined again", async || old.membership.node().filter(|node| *node != before))
        .await;
    // By itself: neither the call nor a request of the session says anything.
    assert!(stream.event().await.is_none());
    while listening.event().await.is_some() {}
    let mut resumed = new.resume(&session, &last).await;
    let (_, answer) = resumed.event().await.unwrap();
    assert_eq!((&answer["id"], &answer["result"]["_meta"]["outcome"]), (&json!(1), &json!("unknown")));
}

/// The same for a call whose answer is to be a body: it ends without an event.
#[tokio::test]
async fn a_call_at_a_node_that_returns_to_sessions_of_others_has_an_unknown_outcome() {
    let cluster = Cluster::new(2).await;
    let (old, new) = (&cluster.nodes[0], &cluster.nodes[1]);
    let session = old.session("2025-06-18").await;
    let before = old.membership.node().unwrap();
    let mut silent = call(1, "wait");
    silent["params"].as_object_mut().unwrap().remove("_meta");
    let taken = async {
        eventually("the call runs", async || (old.service.calls() == 1).then_some(())).await;
        old.cut_off();
        eventually("the lease ends", async || old.membership.node().is_none().then_some(())).await;
        assert_eq!(*result(&new.post(&session, call(2, "echo")).await.json().await), "done");
        old.heal();
        eventually("the node has joined again", async || {
            old.membership.node().filter(|node| *node != before)
        })
        .await;
    };
    let (answer, ()) = tokio::join!(old.post(&session, silent), taken);
    let answer = answer.json().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["_meta"]["outcome"]),
        (&json!(1), &json!("unknown")),
        "{answer}"
    );
}

/// All nodes lose the shared state for longer than a lease: what ran meanwhile delivers its answers.
///
/// covers: HTTP-25 HRES-05
#[tokio::test]
async fn an_owner_that_returns_first_goes_on_with_what_runs() {
    let cluster = Cluster::new(2).await;
    let (owner, other) = (&cluster.nodes[0], &cluster.nodes[1]);
    let session = owner.session("2025-11-25").await;
    let mut stream = owner.post(&session, call(1, "wait")).await;
    let (last, _) = stream.event().await.unwrap();
    // Its client is lost, and the call goes on (HTTP-25).
    drop(stream);
    let before = owner.membership.node().unwrap();
    owner.cut_off();
    eventually("the lease ends", async || owner.membership.node().is_none().then_some(())).await;
    eventually("the lease is over at the engine, too", async || {
        let nodes = other.membership.relay().nodes().await.ok()?;
        nodes.iter().any(|node| node.record.id == before && !node.alive).then_some(())
    })
    .await;
    owner.heal();
    eventually("the node has joined again", async || owner.membership.node().filter(|node| *node != before))
        .await;
    assert_eq!(*result(&owner.post(&session, call(2, "echo")).await.json().await), "done");
    owner.service.finish();
    let mut resumed = other.resume(&session, &last).await;
    let mut messages = Vec::new();
    while let Some((_, message)) = resumed.event().await {
        messages.push(message);
    }
    assert_eq!(*result(messages.last().unwrap()), "done", "{messages:?}");
    assert_eq!(messages.iter().filter(|message| message["id"] == 1).count(), 1);
    assert_eq!((owner.service.calls(), other.service.calls()), (2, 0));
}

/// covers: HSES-07 HSES-08
#[tokio::test]
async fn without_redis_sessions_wait_and_nothing_is_lost() {
    let mut cluster = Cluster::new(2).await;
    let session = cluster.nodes[0].session("2025-06-18").await;
    cluster.redis.kill();
    for node in &cluster.nodes {
        eventually("the lease ends", async || node.membership.node().is_none().then_some(())).await;
        let answer = node.post(&session, call(1, "echo")).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    }
    cluster.redis.restart();
    let served = eventually("the session is served again", async || {
        let answer = cluster.nodes[1].post(&session, call(2, "echo")).await;
        (answer.status != StatusCode::SERVICE_UNAVAILABLE).then_some(answer)
    })
    .await;
    // This Redis keeps its data.
    assert_eq!(*result(&served.json().await), "done");
}

/// covers: HSES-06
#[tokio::test]
async fn a_session_that_nobody_uses_ends_for_all_nodes() {
    // Long enough that a busy machine uses the one session in time.
    let cluster = Cluster::with_lifetime(2, Duration::from_secs(3)).await;
    let (one, two) =
        (cluster.nodes[0].session("2025-06-18").await, cluster.nodes[0].session("2025-06-18").await);
    eventually("the unused session ends", async || {
        // The other one is used, at another node.
        assert_eq!(*result(&cluster.nodes[1].post(&one, call(1, "echo")).await.json().await), "done");
        (cluster.nodes[0].endpoint.sessions() == 1).then_some(())
    })
    .await;
    // By now longer than its lifetime ago.
    assert_eq!(*result(&cluster.nodes[1].post(&one, call(1, "echo")).await.json().await), "done");
    eventually("it has ended for all", async || {
        let answer = cluster.nodes[1].post(&two, call(1, "echo")).await;
        (answer.status == StatusCode::NOT_FOUND).then_some(())
    })
    .await;
}
