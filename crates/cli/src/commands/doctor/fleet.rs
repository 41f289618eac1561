//! Checks of what nodes share: Redis, PostgreSQL, and the nodes themselves.

use std::time::Duration;

use futures::future::join_all;
use hospes_fleet::Relay as _;
use hospes_fleet::node::NodeStatus;
use hospes_host::config::FleetConfig;
use hospes_store::StateStore;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::check::{DoctorChain, DoctorCode, DoctorFinding, F01, F02, F03};
use crate::exit::CliError;
use crate::fleet::{postgres_settings, redis_relay};
use crate::output::printable;

/// Time for an answer of an engine.
const ENGINE_LIMIT: Duration = Duration::from_secs(10);

/// Time for which a transaction is tried again.
const RETRY_LIMIT: Duration = Duration::from_secs(3);

/// Beginning of errors that the finding says itself.
const SAID: &str = "the database cannot be used: ";

/// Time for a connection to another node.
const NODE_LIMIT: Duration = Duration::from_secs(2);

/// Interval of attempts, because the connection to Redis is opened in the background.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Checks the engines and the nodes of a fleet.
pub(super) async fn check(fleet: &FleetConfig) -> DoctorChain {
    let mut chain = DoctorChain::new("fleet");
    postgres(fleet, &mut chain).await;
    if let Some(nodes) = redis(fleet, &mut chain).await {
        reach(&nodes, &mut chain).await;
    }
    chain
}

/// Returns the nodes, if Redis answers.
async fn redis(fleet: &FleetConfig, chain: &mut DoctorChain) -> Option<Vec<NodeStatus>> {
    let relay = match redis_relay(fleet, true) {
        Ok(relay) => relay,
        Err(error) => {
            invalid(&F02, "fleet.redis", &error, chain);
            return None;
        }
    };
    let asked = async {
        loop {
            match relay.health().await {
                Ok(health) => return health,
                Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
            }
        }
    };
    let Ok(health) = timeout(ENGINE_LIMIT, asked).await else {
        let why = relay
            .health()
            .await
            .err()
            .map_or_else(|| "no answer in time".to_owned(), |error| error.to_string());
        let finding = DoctorFinding::new("Redis cannot be used").why(why);
        chain.fail(&F02, finding.mend("start it, or correct `redis` in `[fleet]`"), &[&F03]);
        return None;
    };
    settings(&F02, health.problems, chain);
    let nodes = relay.nodes().await.ok()?;
    Some(nodes.into_iter().filter(|node| node.alive).collect())
}

async fn postgres(fleet: &FleetConfig, chain: &mut DoctorChain) {
    let mut settings_of_url = match postgres_settings(fleet) {
        Ok(settings) => settings,
        Err(error) => return invalid(&F01, "fleet.postgres", &error, chain),
    };
    // So that the reason is told, not only that there was no answer.
    settings_of_url.retry_timeout = RETRY_LIMIT;
    match timeout(ENGINE_LIMIT, StateStore::server_problems(settings_of_url)).await {
        Ok(Ok(problems)) => settings(&F01, problems, chain),
        failed => {
            let why = match failed {
                Ok(Err(error)) => error.to_string(),
                _ => format!("no answer within {} s", ENGINE_LIMIT.as_secs()),
            };
            let finding = DoctorFinding::new("PostgreSQL cannot be used").why(why.trim_start_matches(SAID));
            chain.fail(&F01, finding.mend("start it, or correct `postgres` in `[fleet]`"), &[]);
        }
    }
}

fn invalid(code: &DoctorCode, key: &str, error: &CliError, chain: &mut DoctorChain) {
    let finding = DoctorFinding::new(format!("`{key}` cannot be used")).why(error.to_string());
    chain.fail(code, finding.mend("correct it in the configuration"), &[]);
}

/// Adds what the settings of an engine should be, each as a warning.
fn settings(code: &DoctorCode, problems: Vec<String>, chain: &mut DoctorChain) {
    if problems.is_empty() {
        return chain.ok(code, "");
    }
    for problem in problems {
        chain
            .warn(code, DoctorFinding::new(problem).mend("change the settings of the server: docs/fleet.md"));
    }
}

/// Connects to each node, as the others do.
async fn reach(nodes: &[NodeStatus], chain: &mut DoctorChain) {
    let tries = nodes.iter().map(async |node| {
        let address = node.record.address.as_str();
        let failed = match timeout(NODE_LIMIT, TcpStream::connect(address)).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no connection within {} s", NODE_LIMIT.as_secs())),
        };
        failed.map(|why| (address.to_owned(), why))
    });
    let failed: Vec<_> = join_all(tries).await.into_iter().flatten().collect();
    if failed.is_empty() {
        let what = match nodes.len() {
            0 => "no node runs".to_owned(),
            1 => "one node runs".to_owned(),
            count => format!("{count} nodes run"),
        };
        return chain.ok(&F03, what);
    }
    for (address, why) in failed {
        let finding =
            DoctorFinding::new(format!("no connection to the node at {}", printable(&address))).why(why);
        chain.warn(
            &F03,
            finding.mend("let this machine reach the port, or correct `node_address` of that node"),
        );
    }
}
