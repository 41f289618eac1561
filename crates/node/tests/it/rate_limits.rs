//! Rate limits of several nodes, while Redis answers, hangs, is gone, and is back.

use std::sync::Arc;
use std::time::Duration;

use hospes_fleet::Relay;
use hospes_fleet::keys::{RateKey, RateLimit, RateVerdict};
use hospes_fleet::redis::{RedisRelay, RedisSettings};
use hospes_fleet::sealing::FleetKeys;
use hospes_fleet_testkit::eventually;
use hospes_fleet_testkit::net_proxy::{AcceptMode, LinkDirection, LinkRules, NetProxy};
use hospes_fleet_testkit::redis_server::{RedisOptions, RedisServer};
use hospes_node::{DEFAULT_RENEWAL_INTERVAL, FleetRateLimits, Membership};
use tokio::time::Instant;

const LIMIT: RateLimit = RateLimit { interval: Duration::from_secs(3600), burst: 4 };

struct LimitedNode {
    limits: FleetRateLimits,
    link: NetProxy,
    _membership: Membership,
}

async fn two_nodes(redis: &RedisServer) -> [LimitedNode; 2] {
    let mut nodes = Vec::new();
    for address in ["127.0.0.1:1", "127.0.0.1:2"] {
        let link = NetProxy::to_port(redis.port()).await;
        let settings = RedisSettings::new(format!("redis://127.0.0.1:{}", link.port()).into());
        let relay = RedisRelay::new(settings, FleetKeys::new([[7; 32]]).unwrap()).unwrap();
        let relay: Arc<dyn Relay> = Arc::new(relay);
        let membership = Membership::start(Arc::clone(&relay), address, DEFAULT_RENEWAL_INTERVAL).unwrap();
        membership.joined().await;
        nodes.push(LimitedNode { limits: FleetRateLimits::new(relay), link, _membership: membership });
    }
    let Ok(nodes) = nodes.try_into() else { panic!("two nodes were started") };
    nodes
}

fn key(party: &str) -> RateKey {
    RateKey::new(&[party.as_bytes()])
}

/// Number of uses that both nodes allow, and the number of those without an answer.
async fn allowed([one, two]: &[LimitedNode; 2], party: &str) -> (u32, u32) {
    let (mut allowed, mut unanswered) = (0, 0);
    for _ in 0..LIMIT.burst {
        for node in [one, two] {
            match node.limits.count(&key(party), LIMIT).await {
                Some(verdict) => allowed += u32::from(verdict == RateVerdict::Allowed),
                None => unanswered += 1,
            }
        }
    }
    (allowed, unanswered)
}

#[tokio::test]
async fn nodes_share_a_limit_and_divide_it_without_redis() {
    let mut redis = RedisServer::start(RedisOptions::default());
    let nodes = two_nodes(&redis).await;
    assert_eq!(allowed(&nodes, "ann").await, (4, 0));
    assert!(nodes[1].limits.uncount(&key("ann"), LIMIT).await);
    assert_eq!(nodes[0].limits.count(&key("ann"), LIMIT).await, Some(RateVerdict::Allowed));
    for node in &nodes {
        eventually("both nodes are counted", async || (node.limits.nodes() == 2).then_some(())).await;
    }
    redis.kill();
    eventually("Redis is missed", async || {
        nodes[0].limits.count(&key("bob"), LIMIT).await.is_none().then_some(())
    })
    .await;
    assert_eq!(allowed(&nodes, "eve").await, (0, 8));
    assert!(!nodes[0].limits.uncount(&key("eve"), LIMIT).await);
    assert_eq!(nodes[0].limits.nodes(), 2, "as it was last counted");
    redis.restart();
    for node in &nodes {
        eventually("Redis is used again", async || node.limits.count(&key("joe"), LIMIT).await).await;
    }
    assert_eq!(allowed(&nodes, "kim").await, (4, 0));
}

#[tokio::test]
async fn a_redis_that_hangs_holds_few_requests_and_each_only_briefly() {
    let redis = RedisServer::start(RedisOptions::default());
    let [node, _other] = two_nodes(&redis).await;
    assert!(node.limits.count(&key("ann"), LIMIT).await.is_some());
    node.link.set_accept(AcceptMode::Silence);
    node.link.set(LinkDirection::ToClient, LinkRules::silent());
    let begun = Instant::now();
    assert_eq!(node.limits.count(&key("ann"), LIMIT).await, None);
    let held = begun.elapsed();
    assert!(held >= Duration::from_millis(90), "the run shows nothing: Redis does not hang: {held:?}");
    let begun = Instant::now();
    for _ in 0..100 {
        assert_eq!(node.limits.count(&key("ann"), LIMIT).await, None);
    }
    // One a second is held for 100 ms; the test itself may wait for the processor.
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    node.link.heal();
    node.link.reset_connections();
    eventually("Redis is used again", async || node.limits.count(&key("bob"), LIMIT).await).await;
}
