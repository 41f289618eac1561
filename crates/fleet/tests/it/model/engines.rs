//! The engines under test: in memory on a virtual clock, whose leases end by their time, and Redis.

use std::sync::Arc;
use std::time::Duration;

use hospes_fleet::redis::RedisRelay;
use hospes_fleet::{MemoryRelay, MemoryStore, Relay};
use hospes_fleet_testkit::redis_server::{RedisOptions, RedisServer};
use proptest::test_runner::{Config, TestRunner};

use super::sequential::LONG_LIFETIME;
use super::{ModelEngine, run, steps};
use crate::broken::{AlteredRelay, RelayMutation};
use crate::fixture::{LONG_LEASE, TestNode, fleet_keys, redis_settings, test_settings};

/// Time by which answers about leases are late in memory.
const ANSWER_DELAY: Duration = Duration::from_secs(4);

struct MemoryEngine {
    store: Arc<MemoryStore>,
    mutation: Option<RelayMutation>,
}

impl ModelEngine for MemoryEngine {
    const LEASE: Duration = Duration::from_secs(60);
    const WINDOW: Duration = Duration::from_secs(70);
    const HAS_REAL_LEASES: bool = true;

    fn relay(&self) -> Arc<dyn Relay> {
        let relay = Arc::new(MemoryRelay::new(Arc::clone(&self.store)).with_lease(Self::LEASE));
        Arc::new(AlteredRelay::new(relay, self.mutation, ANSWER_DELAY))
    }

    async fn wait(&self, time: Duration) {
        tokio::time::advance(time).await;
    }

    async fn end_lease(&self, _node: &TestNode) {
        unreachable!("leases end by their time")
    }

    async fn replace(&self, nodes: &[TestNode], lose: bool) {
        for node in nodes {
            // By another handle, so that the node does not know.
            MemoryRelay::new(Arc::clone(&self.store)).leave(&node.lease).await.unwrap();
        }
        self.store.restart(lose);
    }
}

/// Runs random sequences on engines in memory.
///
/// # Errors
/// The smallest sequence for which the engine differs from the model.
fn run_in_memory(mutation: Option<RelayMutation>) -> Result<(), String> {
    // A broken engine is found with one of the first few hundred.
    let cases = if mutation.is_some() { 10_000 } else { 400 };
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let checked = runner.run(&steps(), |steps| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let mut settings = test_settings();
        // The clock runs on with each lease that ends.
        settings.tombstone = LONG_LIFETIME;
        settings.recovery_window = MemoryEngine::WINDOW;
        let engine = MemoryEngine { store: MemoryStore::new(settings), mutation };
        runtime.unwrap().block_on(run(engine, "s", &steps));
        Ok(())
    });
    checked.map_err(|error| error.to_string())
}

#[test]
fn the_engine_in_memory_behaves_as_the_model() {
    run_in_memory(None).unwrap();
}

#[test]
fn the_model_finds_broken_engines() {
    for mutation in [
        RelayMutation::AdoptWithoutEpoch,
        RelayMutation::AppendWithoutPending,
        RelayMutation::AppendWithoutFence,
        RelayMutation::LeaseFromReply,
        RelayMutation::HintAsTruth,
    ] {
        let Err(found) = run_in_memory(Some(mutation)) else { panic!("{mutation:?} is not found") };
        assert!(found.contains("minimal failing input"), "{mutation:?}: {found}");
    }
}

struct RedisEngine<'a> {
    server: &'a RedisServer,
    prefix: String,
}

impl RedisEngine<'_> {
    fn lease_key(&self, node: &TestNode) -> String {
        format!("{}n:{}", self.prefix, node.id)
    }
}

impl ModelEngine for RedisEngine<'_> {
    const LEASE: Duration = LONG_LEASE;
    const WINDOW: Duration = Duration::from_millis(30);
    const HAS_REAL_LEASES: bool = false;

    fn relay(&self) -> Arc<dyn Relay> {
        let mut settings = redis_settings(&self.server.url(), &self.prefix);
        settings.relay.recovery_window = Self::WINDOW;
        Arc::new(RedisRelay::new(settings, fleet_keys()).unwrap())
    }

    async fn wait(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn end_lease(&self, node: &TestNode) {
        // The time of one lease cannot be moved, so an administrator ends it.
        let ended: u32 = self.server.command(&["DEL", &self.lease_key(node)]);
        assert_eq!(ended, 1);
    }

    async fn replace(&self, nodes: &[TestNode], lose: bool) {
        // The process and its connections stay, and the history of writes is another one, as after a failover.
        let () = self.server.command(&["DEBUG", "CHANGE-REPL-ID"]);
        if lose {
            let () = self.server.command(&["FLUSHALL"]);
            let () = self.server.command(&["SCRIPT", "FLUSH"]);
        }
        for node in nodes {
            let _: u32 = self.server.command(&["DEL", &self.lease_key(node)]);
        }
    }
}

#[test]
fn the_engine_on_redis_behaves_as_the_model() {
    let server = RedisServer::start(RedisOptions::default());
    let mut runner = TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let count = std::cell::Cell::new(0);
    let checked = runner.run(&steps(), |steps| {
        count.set(count.get() + 1);
        let engine = RedisEngine { server: &server, prefix: format!("m{}:", count.get()) };
        runtime.block_on(run(engine, "s", &steps));
        Ok(())
    });
    checked.unwrap();
}
