//! Warnings of a node about settings of the engines.

use std::sync::Arc;
use std::time::Duration;

use hospes_fleet::Relay;
use hospes_store::StateStore;

/// Interval of attempts while an engine cannot be asked.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Logs once what should be changed in the settings of the engines. `hospes doctor` says it at any time.
pub(super) async fn warn_about_engines(state: StateStore, relay: Arc<dyn Relay>) {
    let postgres = async {
        loop {
            match state.problems().await {
                Ok(problems) => return problems,
                Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
            }
        }
    };
    let redis = async {
        loop {
            match relay.health().await {
                Ok(health) => return health.problems,
                Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
            }
        }
    };
    let (postgres, redis) = tokio::join!(postgres, redis);
    for problem in postgres {
        tracing::warn!("the database of the fleet: {problem}");
    }
    for problem in redis {
        tracing::warn!("Redis of the fleet: {problem}");
    }
}
