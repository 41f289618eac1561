//! Fleets for the tests: handles that act as nodes, in memory and on Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use hospes_fleet::node::{NodeId, NodeLease, NodeRecord};
use hospes_fleet::redis::{RedisRelay, RedisSettings};
use hospes_fleet::sealing::FleetKeys;
use hospes_fleet::session::{NewSession, SessionKey, SessionOwner, SessionState};
use hospes_fleet::settings::{RelayLimits, RelaySettings};
use hospes_fleet::{MemoryRelay, MemoryStore, Relay, RelayError};
use hospes_fleet_testkit::eventually;
use hospes_fleet_testkit::net_proxy::{LinkDirection, LinkRules, NetProxy};
use hospes_fleet_testkit::redis_server::RedisServer;

use crate::broken::{AlteredRelay, RelayMutation};

/// Lease that does not end within a test.
pub(crate) const LONG_LEASE: Duration = Duration::from_secs(600);

/// Lease that ends within a test.
pub(crate) const SHORT_LEASE: Duration = Duration::from_millis(150);

/// Lifetime that does not end within a test.
pub(crate) const LIFETIME: Duration = Duration::from_secs(600);

/// Limits that a test can reach.
pub(crate) fn small_limits() -> RelayLimits {
    let mut limits = RelayLimits::default();
    limits.max_streams = 3;
    limits.max_stream_events = 4;
    limits.max_stream_bytes = 4_000;
    limits.max_pending_answers = 5;
    limits.max_session_entries = 3;
    limits.max_payload_bytes = 10_000;
    limits.max_flow_labels = 3;
    limits
}

/// Settings without a recovery window, so that a test can adopt at once.
pub(crate) fn test_settings() -> RelaySettings {
    let mut settings = RelaySettings::default();
    settings.lease = LONG_LEASE;
    settings.tombstone = LIFETIME / 2;
    settings.recovery_window = Duration::ZERO;
    settings.limits = small_limits();
    settings
}

pub(crate) fn fleet_keys() -> FleetKeys {
    FleetKeys::new([[7; 32]]).unwrap()
}

/// Settings for a server, with a prefix of their own.
pub(crate) fn redis_settings(url: &str, prefix: &str) -> RedisSettings {
    let mut settings = RedisSettings::new(url.to_owned().into());
    settings.prefix = prefix.to_owned();
    settings.relay = test_settings();
    settings
}

/// Handles on one shared store.
pub(crate) struct TestFleet {
    engine: TestEngine,
    mutation: Option<RelayMutation>,
    proxies: Vec<NetProxy>,
}

enum TestEngine {
    Memory(Arc<MemoryStore>),
    Redis { url: String, port: u16, prefix: String },
}

impl TestFleet {
    pub(crate) fn memory(mutation: Option<RelayMutation>) -> Self {
        let engine = TestEngine::Memory(MemoryStore::new(test_settings()));
        Self { engine, mutation, proxies: Vec::new() }
    }

    /// Uses keys of its own on a server.
    pub(crate) fn redis(server: &RedisServer, mutation: Option<RelayMutation>) -> Self {
        static FLEETS: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("t{}:", FLEETS.fetch_add(1, Ordering::SeqCst));
        let engine = TestEngine::Redis { url: server.url(), port: server.port(), prefix };
        Self { engine, mutation, proxies: Vec::new() }
    }

    /// Handle whose leases do not end by themselves.
    pub(crate) fn relay(&self) -> Arc<dyn Relay> {
        self.relay_with_lease(LONG_LEASE)
    }

    pub(crate) fn relay_with_lease(&self, lease: Duration) -> Arc<dyn Relay> {
        let relay: Arc<dyn Relay> = match &self.engine {
            TestEngine::Memory(store) => Arc::new(MemoryRelay::new(Arc::clone(store)).with_lease(lease)),
            TestEngine::Redis { url, prefix, .. } => {
                let mut settings = redis_settings(url, prefix);
                settings.relay.lease = lease;
                Arc::new(RedisRelay::new(settings, fleet_keys()).unwrap())
            }
        };
        self.mutated(relay)
    }

    /// Handle whose answers are late.
    pub(crate) async fn slow_relay(&mut self, delay: Duration) -> Arc<dyn Relay> {
        let relay: Arc<dyn Relay> = match &self.engine {
            TestEngine::Memory(store) => {
                Arc::new(AlteredRelay::late(Arc::new(MemoryRelay::new(Arc::clone(store))), delay))
            }
            TestEngine::Redis { port, prefix, .. } => {
                let proxy = NetProxy::to_port(*port).await;
                let settings = redis_settings(&format!("redis://127.0.0.1:{}", proxy.port()), prefix);
                let relay = RedisRelay::new(settings, fleet_keys()).unwrap();
                // Connected before, because the handshake takes several answers.
                relay.health().await.unwrap();
                proxy.set(LinkDirection::ToClient, LinkRules::delayed(delay));
                self.proxies.push(proxy);
                Arc::new(relay)
            }
        };
        self.mutated(relay)
    }

    fn mutated(&self, relay: Arc<dyn Relay>) -> Arc<dyn Relay> {
        match self.mutation {
            None => relay,
            Some(mutation) => Arc::new(AlteredRelay::broken(relay, mutation)),
        }
    }

    /// Node that has joined.
    pub(crate) async fn node(&self) -> TestNode {
        TestNode::join(self.relay()).await
    }
}

/// Handle with a lease.
pub(crate) struct TestNode {
    pub(crate) relay: Arc<dyn Relay>,
    pub(crate) id: NodeId,
    pub(crate) lease: NodeLease,
}

impl TestNode {
    pub(crate) async fn join(relay: Arc<dyn Relay>) -> Self {
        let id = NodeId::random();
        let record = NodeRecord::new(id, "127.0.0.1:1");
        // The links of some tests break.
        let lease = eventually("the node joins", async || match relay.join(&record).await {
            Err(RelayError::Unavailable(_)) => None,
            joined => Some(joined.unwrap()),
        })
        .await;
        Self { relay, id, lease }
    }

    /// First owner of a session.
    pub(crate) fn first(&self) -> SessionOwner {
        SessionOwner::first(self.id)
    }

    /// Ends the lease, as its time would.
    pub(crate) async fn die(&self) {
        self.relay.leave(&self.lease).await.unwrap();
    }

    /// Creates an active session.
    pub(crate) async fn open(&self, name: &str) -> (SessionKey, SessionOwner) {
        let (session, owner) = (SessionKey::new(Some("ann"), name), self.first());
        let record = NewSession::pending(*b"body").with_state(SessionState::Active);
        self.relay.reserve(&session, &owner, &record, LIFETIME).await.unwrap();
        (session, owner)
    }
}

/// Case of the contract. It panics if the contract is broken.
pub(crate) struct ContractCase {
    pub(crate) name: &'static str,
    pub(crate) run: fn(TestFleet) -> LocalBoxFuture<'static, ()>,
}

/// Runs the chosen cases, each in a fleet of its own, and returns the names of those that fail.
pub(crate) async fn failed_cases(
    new_fleet: impl Fn() -> TestFleet,
    is_chosen: impl Fn(&str) -> bool,
) -> Vec<&'static str> {
    let mut failed = Vec::new();
    for case in crate::contract::cases().into_iter().filter(|case| is_chosen(case.name)) {
        let run = std::panic::AssertUnwindSafe((case.run)(new_fleet())).catch_unwind();
        if run.await.is_err() {
            failed.push(case.name);
        }
    }
    failed
}
