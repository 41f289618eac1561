//! Notifications of changes.

use super::*;

/// covers: SUBS-02 SUBS-03 SUBS-04 SUBS-07
#[tokio::test]
async fn changes_arrive_on_a_stream_of_their_own() {
    let probe = ProbeService::new();
    let mut peer = Peer::new(&probe);
    peer.send(modern(5, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}))).await;
    let key = "io.modelcontextprotocol/subscriptionId";
    let acknowledged = peer.read().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["_meta"][key], 5);
    probe.change(ProbeChange::Prompts);
    probe.change(ProbeChange::Tools);
    let changed = peer.read().await;
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"][key], 5);
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}))
        .await;
    while probe.listening() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn changes_reach_a_session_unasked() {
    let probe = ProbeService::new();
    let mut peer = Peer::opened(&probe, "2025-06-18").await;
    peer.silence().await;
    while probe.listening() == 0 {
        tokio::task::yield_now().await;
    }
    probe.change(ProbeChange::Tools);
    assert_eq!(peer.read().await, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    probe.change(ProbeChange::Resource("x:1".into()));
    peer.send(json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "x:1"}}))
        .await;
    assert_eq!(peer.read().await["result"], json!({}));
    // Whoever has the answer misses nothing.
    probe.change(ProbeChange::Resource("x:1".into()));
    let changed = peer.read().await;
    assert_eq!(changed["method"], "notifications/resources/updated");
    assert_eq!(changed["params"], json!({"uri": "x:1"}));
}

/// Service that ends each stream of changes on demand.
#[derive(Clone)]
struct Moody {
    probe: ProbeService,
    begun: tokio::sync::mpsc::UnboundedSender<tokio::time::Instant>,
    end: std::sync::Arc<tokio::sync::Notify>,
}

impl crate::Service for Moody {
    async fn call(&self, call: crate::Call) -> crate::Outcome {
        if call.method != hospes_model::Method::SubscriptionsListen {
            return self.probe.call(call).await;
        }
        let params: hospes_model::SubscriptionsListenParams = call.decode().unwrap();
        let honoured = hospes_model::SubscriptionsAcknowledgedParams::new(params.notifications);
        call.context.notify(hospes_model::Notification::SubscriptionsAcknowledged(honoured));
        self.begun.send(tokio::time::Instant::now()).unwrap();
        self.end.notified().await;
        crate::Outcome::Complete(hospes_model::SubscriptionsListenResult::new().into())
    }
}

/// A session whose service ends its call for changes was deaf until its subscriptions changed.
#[tokio::test(start_paused = true)]
async fn a_stream_of_changes_that_the_service_ends_is_begun_again_later_and_later() {
    let (begun, mut beginnings) = tokio::sync::mpsc::unbounded_channel();
    let end = std::sync::Arc::new(tokio::sync::Notify::new());
    let moody = Moody { probe: ProbeService::new(), begun, end: std::sync::Arc::clone(&end) };
    let mut peer = Peer::of(StdioServer::new(moody));
    peer.open("2025-06-18").await;
    let mut last = beginnings.recv().await.unwrap();
    for pause in [500, 1000, 2000] {
        end.notify_one();
        let now = beginnings.recv().await.unwrap();
        let waited = now - last;
        assert!(waited >= Duration::from_millis(pause), "{waited:?} of {pause}");
        last = now;
        // What changed meanwhile is not known, so all of it may have.
        for list in ["tools", "prompts"] {
            assert_eq!(peer.read().await["method"], format!("notifications/{list}/list_changed"));
        }
    }
}

/// A subscription that the service could not take up at once was never taken up.
#[tokio::test(start_paused = true)]
async fn a_stream_of_changes_that_fails_to_begin_is_tried_again_while_the_old_one_goes_on() {
    #[derive(Clone)]
    struct Unwilling(ProbeService, std::sync::Arc<std::sync::atomic::AtomicUsize>);
    impl crate::Service for Unwilling {
        async fn call(&self, call: crate::Call) -> crate::Outcome {
            if call.method == hospes_model::Method::SubscriptionsListen {
                let params: hospes_model::SubscriptionsListenParams = call.decode().unwrap();
                let is_new = !params.notifications.resource_subscriptions.is_empty();
                if is_new && self.1.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 2 {
                    return hospes_model::RpcError::internal("not now").into();
                }
            }
            self.0.call(call).await
        }
    }
    let (probe, tries) = (ProbeService::new(), std::sync::Arc::default());
    let mut peer = Peer::of(StdioServer::new(Unwilling(probe.clone(), std::sync::Arc::clone(&tries))));
    peer.open("2025-06-18").await;
    while probe.listening() < 1 {
        tokio::task::yield_now().await;
    }
    let subscribe =
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "x:1"}});
    peer.send(subscribe).await;
    assert_eq!(peer.read().await["result"], json!({}));
    // What was told before is told all the time.
    probe.change(ProbeChange::Tools);
    assert_eq!(peer.read().await["method"], "notifications/tools/list_changed");
    // What changed before it was heard of may have changed.
    let mut told = std::collections::HashSet::new();
    while !told.contains("notifications/resources/updated") {
        told.insert(peer.read().await["method"].as_str().unwrap().to_owned());
    }
    assert_eq!(tries.load(std::sync::atomic::Ordering::SeqCst), 3);
    probe.change(ProbeChange::Resource("x:1".into()));
    assert_eq!(peer.read().await["params"], json!({"uri": "x:1"}));
}

/// A subscription that the service did not agree to was answered as if it held.
///
/// covers: RES-24
#[tokio::test(start_paused = true)]
async fn a_subscription_that_the_service_does_not_agree_to_is_an_error() {
    let probe = ProbeService::new();
    let mut peer = Peer::of(StdioServer::new(probe.clone()));
    peer.open("2025-06-18").await;
    let about = |id: u32, uri: &str| json!({"jsonrpc": "2.0", "id": id, "method": "resources/subscribe", "params": {"uri": uri}});
    // The first comes before the service has said anything, the others beside what it tells already.
    for (id, uri, is_told) in [
        (1, "x:secret", false),
        (2, "x:1", true),
        (3, "x:secret", false),
        (4, "x:2", true),
        (5, "x:1", true),
        (6, "x:secret", false),
    ] {
        peer.send(about(id, uri)).await;
        let answer = peer.read().await;
        assert_eq!((&answer["id"], answer.get("result").is_some()), (&json!(id), is_told), "{answer}");
        if !is_told {
            let said = answer["error"]["message"].as_str().unwrap();
            assert_eq!(said, "subscriptions to `x:secret` are not supported");
        }
    }
    for uri in ["x:secret", "x:1", "x:2"] {
        probe.change(ProbeChange::Resource(uri.into()));
    }
    for uri in ["x:1", "x:2"] {
        assert_eq!(peer.read().await["params"], json!({"uri": uri}));
    }
}

/// A service that never takes a subscription up holds its answer up for only so long.
#[tokio::test(start_paused = true)]
async fn the_answer_to_a_subscription_waits_for_a_slow_service_only_so_long() {
    #[derive(Clone)]
    struct Slow(ProbeService);
    impl crate::Service for Slow {
        async fn call(&self, call: crate::Call) -> crate::Outcome {
            if call.method == hospes_model::Method::SubscriptionsListen {
                std::future::pending::<()>().await;
            }
            self.0.call(call).await
        }
    }
    let mut peer = Peer::of(StdioServer::new(Slow(ProbeService::new())));
    peer.open("2025-06-18").await;
    let subscribe =
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "x:1"}});
    let begun = tokio::time::Instant::now();
    peer.send(subscribe).await;
    assert_eq!(peer.read().await["result"], json!({}));
    assert!(begun.elapsed() >= Duration::from_secs(5), "it has not even waited");
}
