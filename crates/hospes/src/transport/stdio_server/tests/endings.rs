//! End of a connection.

use super::*;

/// covers: STDIO-13 LIFE-12 SUBS-08
#[tokio::test(start_paused = true)]
async fn when_input_ends_what_was_accepted_is_answered() {
    let probe = ProbeService::new();
    let mut peer = Peer::new(&probe);
    peer.send(modern(1, "tools/call", json!({"name": "sleep", "arguments": {"millis": 300}}))).await;
    peer.send(modern(2, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}))).await;
    assert_eq!(peer.read().await["method"], "notifications/subscriptions/acknowledged");
    peer.send(modern(3, "tools/call", json!({"name": "forever"}))).await;
    while probe.running() < 2 {
        tokio::task::yield_now().await;
    }
    // Half closed: the client still reads.
    peer.output.shutdown().await.unwrap();
    let ended = peer.read().await;
    assert_eq!(ended["id"], 2);
    assert_eq!(ended["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 2);
    assert_eq!(text(&peer.read().await), "slept");
    let stopped = peer.read().await;
    assert_eq!((code(&stopped), &stopped["id"]), (-32603, &json!(3)));
    assert_eq!(peer.read_or_end().await, None);
    assert_eq!(probe.running(), 0);
}

/// covers: STDIO-13
#[tokio::test(start_paused = true)]
async fn what_waits_for_its_turn_when_input_ends_is_served_too() {
    let mut peer = Peer::of(StdioServer::new(ProbeService::new()).max_concurrent_calls(1));
    peer.open("2025-11-25").await;
    for id in 1..=3 {
        peer.tool(id, "sleep", json!({"millis": 100})).await;
    }
    peer.output.shutdown().await.unwrap();
    for id in 1..=3 {
        let answer = peer.read().await;
        assert_eq!((text(&answer), &answer["id"]), ("slept", &json!(id)));
    }
    assert_eq!(peer.read_or_end().await, None);
}

#[tokio::test]
async fn when_output_breaks_the_server_ends_and_drops_its_calls() {
    let probe = ProbeService::new();
    let (ours, theirs) = pair();
    let (input, output) = tokio::io::split(ours);
    let server = tokio::spawn(StdioServer::new(probe.clone()).serve_io(input, output));
    let (_, mut write) = tokio::io::split(theirs);
    let call = modern(1, "tools/call", json!({"name": "forever"}));
    write.write_all(format!("{call}\n").as_bytes()).await.unwrap();
    while probe.running() == 0 {
        tokio::task::yield_now().await;
    }
    server.abort();
    while probe.running() > 0 {
        tokio::task::yield_now().await;
    }
}

/// A client that does not read does not make the server take in ever more.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_not_read_from() {
    let mut peer = Peer::opened(&ProbeService::new(), "2025-11-25").await;
    let call = format!("{}\n", tool(1, "echo", json!({"text": "x".repeat(10_000)})));
    let flood = async {
        for _ in 0..10_000 {
            peer.output.write_all(call.as_bytes()).await.unwrap();
        }
    };
    // The clock moves once nothing else can.
    assert!(timeout(Duration::from_millis(500), flood).await.is_err(), "100 MB were taken in");
    assert_eq!(peer.read().await["id"], 1);
}
