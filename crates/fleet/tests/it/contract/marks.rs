//! Single uses, rate limits, labels and hints.

use std::time::Duration;

use futures::future::join_all;
use hospes_fleet::RelayError;
use hospes_fleet::keys::{AttemptId, FlowKey, OnceKey, RateKey, RateLimit, RateVerdict};
use hospes_fleet::relay::RelayHint;
use hospes_fleet_testkit::eventually;
use tokio::time::Instant;

use super::cases_of;
use crate::fixture::{LIFETIME, TestFleet};

cases_of!(
    a_key_is_used_once,
    one_of_several_attempts_uses_a_key,
    a_used_key_is_free_after_its_lifetime,
    a_rate_limit_is_shared,
    a_rate_limit_frees_uses_over_time,
    a_use_of_a_rate_limit_is_taken_back,
    labels_are_added_and_shared,
    labels_of_another_node_are_seen_after_none,
    too_many_labels_are_an_error,
    labels_are_forgotten_after_their_lifetime,
    a_hint_reaches_every_node,
);

async fn a_key_is_used_once(fleet: TestFleet) {
    let (one, two) = (fleet.relay(), fleet.relay());
    let (key, first, second) = (OnceKey::new(&[b"state"]), AttemptId::random(), AttemptId::random());
    assert_eq!(one.once(&key, &first, LIFETIME).await, Ok(true));
    assert_eq!(two.once(&key, &second, LIFETIME).await, Ok(false));
    assert_eq!(one.once(&key, &first, LIFETIME).await, Ok(true), "a repeat");
    assert_eq!(two.once(&key, &second, LIFETIME).await, Ok(false));
    // Parts do not run into each other.
    assert_eq!(two.once(&OnceKey::new(&[b"sta", b"te"]), &second, LIFETIME).await, Ok(true));
}

async fn one_of_several_attempts_uses_a_key(fleet: TestFleet) {
    let relays = [fleet.relay(), fleet.relay(), fleet.relay(), fleet.relay()];
    for round in 0..5_u8 {
        let key = OnceKey::new(&[&[round]]);
        let attempts = [(); 4].map(|()| AttemptId::random());
        let uses = relays.iter().zip(&attempts).map(|(relay, attempt)| relay.once(&key, attempt, LIFETIME));
        let used = join_all(uses).await.into_iter().filter(|used| *used == Ok(true)).count();
        assert_eq!(used, 1);
    }
}

async fn a_used_key_is_free_after_its_lifetime(fleet: TestFleet) {
    let relay = fleet.relay();
    let key = OnceKey::new(&[b"short"]);
    relay.once(&key, &AttemptId::random(), Duration::from_millis(100)).await.unwrap();
    eventually("the key is free", async || {
        relay.once(&key, &AttemptId::random(), LIFETIME).await.unwrap().then_some(())
    })
    .await;
}

async fn a_rate_limit_is_shared(fleet: TestFleet) {
    let relays = [fleet.relay(), fleet.relay()];
    let (key, interval) = (RateKey::new(&[b"ann"]), Duration::from_secs(3600));
    let limit = RateLimit { interval, burst: 3 };
    for use_number in 0..3 {
        assert_eq!(relays[use_number % 2].limit(&key, limit).await, Ok(RateVerdict::Allowed), "{use_number}");
    }
    for relay in &relays {
        let Ok(RateVerdict::Exceeded { retry_in }) = relay.limit(&key, limit).await else {
            panic!("the limit is not shared")
        };
        assert!(retry_in <= interval && retry_in > interval / 2, "{retry_in:?}");
    }
    assert_eq!(relays[0].limit(&RateKey::new(&[b"bob"]), limit).await, Ok(RateVerdict::Allowed));
}

async fn a_rate_limit_frees_uses_over_time(fleet: TestFleet) {
    let relay = fleet.relay();
    let (key, limit) = (RateKey::new(&[b"x"]), RateLimit { interval: Duration::from_millis(100), burst: 1 });
    let start = Instant::now();
    let mut allowed = 0_u32;
    eventually("four uses are allowed", async || {
        allowed += u32::from(relay.limit(&key, limit).await.unwrap() == RateVerdict::Allowed);
        (allowed == 4).then_some(())
    })
    .await;
    // The engine's clock may run in whole milliseconds, beside the one of this test.
    assert!(start.elapsed() >= 3 * limit.interval - Duration::from_millis(5), "{:?}", start.elapsed());
}

async fn a_use_of_a_rate_limit_is_taken_back(fleet: TestFleet) {
    let (one, two) = (fleet.relay(), fleet.relay());
    let (key, limit) = (RateKey::new(&[b"ann"]), RateLimit { interval: Duration::from_secs(3600), burst: 2 });
    // Without a use there is nothing to take back, and nothing is saved up.
    assert_eq!(one.uncount(&key, limit).await, Ok(()));
    for relay in [&one, &two] {
        assert_eq!(relay.limit(&key, limit).await, Ok(RateVerdict::Allowed));
    }
    assert_eq!(two.uncount(&key, limit).await, Ok(()));
    assert_eq!(one.limit(&key, limit).await, Ok(RateVerdict::Allowed));
    assert_ne!(two.limit(&key, limit).await, Ok(RateVerdict::Allowed));
    for _ in 0..3 {
        assert_eq!(one.uncount(&key, limit).await, Ok(()));
    }
    let mut allowed = 0;
    for _ in 0..4 {
        allowed += u32::from(two.limit(&key, limit).await == Ok(RateVerdict::Allowed));
    }
    assert_eq!(allowed, 2, "no more than a burst");
}

async fn labels_are_added_and_shared(fleet: TestFleet) {
    let (one, two) = (fleet.relay(), fleet.relay());
    let flow = FlowKey::new(&[b"ann", b"editor"]);
    let add = async |relay: &std::sync::Arc<dyn hospes_fleet::Relay>, flow: &FlowKey, labels: &[&str]| {
        let labels = relay.add_labels(flow, labels, LIFETIME).await.unwrap();
        labels.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(add(&one, &flow, &[]).await.is_empty());
    assert_eq!(add(&one, &flow, &["private", "private"]).await, ["private"]);
    assert_eq!(add(&two, &flow, &["a untrusted"]).await, ["a untrusted", "private"]);
    assert_eq!(add(&one, &flow, &[]).await, ["a untrusted", "private"]);
    assert!(add(&one, &FlowKey::new(&[b"ann", b"other"]), &[]).await.is_empty());
}

/// A flow without labels has to be looked up again: another node may have added some.
async fn labels_of_another_node_are_seen_after_none(fleet: TestFleet) {
    let (one, two) = (fleet.relay(), fleet.relay());
    let flow = FlowKey::new(&[b"ann", b"browser"]);
    assert!(one.add_labels(&flow, &[], LIFETIME).await.unwrap().is_empty());
    two.add_labels(&flow, &["private"], LIFETIME).await.unwrap();
    assert_eq!(one.add_labels(&flow, &[], LIFETIME).await.unwrap(), [Box::from("private")]);
}

async fn too_many_labels_are_an_error(fleet: TestFleet) {
    let relay = fleet.relay();
    let flow = FlowKey::new(&[b"many"]);
    relay.add_labels(&flow, &["1", "2"], LIFETIME).await.unwrap();
    let refused = relay.add_labels(&flow, &["3", "4"], LIFETIME).await;
    assert_eq!(refused, Err(RelayError::LimitExceeded { limit: "max_flow_labels", maximum: 3 }));
    assert_eq!(relay.add_labels(&flow, &["3"], LIFETIME).await.unwrap().len(), 3);
    let long = "x".repeat(257);
    let refused = relay.add_labels(&flow, &[&long], LIFETIME).await;
    assert_eq!(refused, Err(RelayError::LimitExceeded { limit: "max_label_bytes", maximum: 256 }));
}

async fn labels_are_forgotten_after_their_lifetime(fleet: TestFleet) {
    let relay = fleet.relay();
    let flow = FlowKey::new(&[b"short"]);
    relay.add_labels(&flow, &["x"], Duration::from_millis(100)).await.unwrap();
    // Each look extends the lifetime, so it is short as well, and the looks are far enough apart.
    eventually("the labels are forgotten", async || {
        tokio::time::sleep(Duration::from_millis(150)).await;
        let labels = relay.add_labels(&flow, &[], Duration::from_millis(100)).await.unwrap();
        labels.is_empty().then_some(())
    })
    .await;
}

async fn a_hint_reaches_every_node(fleet: TestFleet) {
    let relays = [fleet.relay(), fleet.relay()];
    let mut receivers = relays.each_ref().map(|relay| relay.hints());
    // A hint that is too long is dropped, by whichever engine.
    relays[0].hint(RelayHint::new("approval", &"x".repeat(2_000)));
    let hint = RelayHint::new("approval", "ann");
    for receiver in &mut receivers {
        let received = eventually("the hint arrives", async || {
            // Those that are sent before a node has subscribed are lost.
            relays[0].hint(hint.clone());
            tokio::time::timeout(Duration::from_millis(50), receiver.recv()).await.ok()
        })
        .await;
        assert_eq!(received, Ok(hint.clone()));
    }
}
