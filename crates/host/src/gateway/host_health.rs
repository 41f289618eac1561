//! Health of the host, for load balancers and service managers: counts and states, without names. And its metrics.

use std::time::Duration;

use hospes_telemetry::{MetricData, MetricSource};
use serde::Serialize;

use super::host_servers::HostServers;
use crate::metrics::{CurrentValues, HostMetrics};
use crate::upstream::{UpstreamEntry, UpstreamState};

/// Time for an answer of the state database. The database of a fleet is tried for longer, and a load balancer that gets no
/// answer meanwhile removes every node.
const STATE_TIMEOUT: Duration = Duration::from_millis(500);

/// Health of the parts of a host. It has no name of a server, no path and no text of an error, so that everybody may
/// read it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostHealth {
    /// Numbers of servers.
    pub servers: ServerCounts,
    /// Time for which the policy has been in force. `None` without a policy.
    pub policy_age: Option<Duration>,
    /// The state database.
    pub state: PartHealth,
    /// The audit log.
    pub audit: PartHealth,
}

/// Numbers of servers by their state. Servers that are stopped because nobody needs them are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ServerCounts {
    /// Servers that can be called.
    pub ready: usize,
    /// Servers that are connecting for the first time or again.
    pub starting: usize,
    /// Servers that are not ready: they failed, or wait for a person to accept them.
    pub failed: usize,
}

/// Health of one part of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PartHealth {
    /// The host runs without it.
    Off,
    /// It works.
    Ok,
    /// It cannot be used now.
    Failing,
}

impl PartHealth {
    fn of(is_ok: Option<bool>) -> Self {
        match is_ok {
            None => Self::Off,
            Some(true) => Self::Ok,
            Some(false) => Self::Failing,
        }
    }
}

impl ServerCounts {
    fn count(states: impl Iterator<Item = UpstreamState>) -> Self {
        let mut counts = Self::default();
        for state in states {
            match state {
                UpstreamState::Ready => counts.ready += 1,
                UpstreamState::Starting => counts.starting += 1,
                UpstreamState::Retrying | UpstreamState::Failed | UpstreamState::Withheld => {
                    counts.failed += 1;
                }
                UpstreamState::Stopped => {}
            }
        }
        counts
    }
}

impl HostServers {
    /// Returns the metrics in the text format of Prometheus, whose media type is
    /// [`METRICS_CONTENT_TYPE`](crate::METRICS_CONTENT_TYPE).
    #[must_use]
    pub fn metrics(&self) -> String {
        self.with_current_values(|metrics, current| metrics.write(current))
    }

    /// Returns the metrics with their names in OTLP.
    #[must_use]
    pub fn metric_data(&self) -> Vec<MetricData> {
        self.with_current_values(HostMetrics::data)
    }

    /// Adds metrics of another part of the program to both outputs.
    pub fn add_metrics(&self, source: impl MetricSource) {
        self.shared().metrics.add_source(source);
    }

    fn with_current_values<T>(&self, output: impl FnOnce(&HostMetrics, &CurrentValues<'_>) -> T) -> T {
        let shared = self.shared();
        let is_up = |slot: &UpstreamEntry| slot.status().state == UpstreamState::Ready;
        let servers = shared.upstreams.current().filter(|(_, slot)| !slot.is_per_user());
        let servers = servers.map(|(_, slot)| (&*slot.server.name, is_up(slot))).collect();
        let approvals_open = shared.guard.as_ref().map_or(0, |guard| guard.approvals().pending().len());
        output(&shared.metrics, &CurrentValues { approvals_open, servers })
    }

    /// Returns the health of the host. Reads one row of the state database, if there is one.
    pub async fn health(&self) -> HostHealth {
        let shared = self.shared();
        let servers = ServerCounts::count(shared.upstreams.current().map(|(_, slot)| slot.status().state));
        // Any row does: no task has an empty id.
        let state = match &shared.tasks {
            Some(tasks) => {
                let found = tokio::time::timeout(STATE_TIMEOUT, tasks.find(String::new())).await;
                Some(matches!(found, Ok(Ok(_))))
            }
            None => None,
        };
        let guard = shared.guard.as_ref();
        let audit = guard.and_then(|guard| guard.audit()).map(|audit| !audit.is_failing());
        HostHealth {
            servers,
            policy_age: guard.and_then(|guard| guard.policy_age()),
            state: PartHealth::of(state),
            audit: PartHealth::of(audit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_counted_by_whether_they_can_be_called() {
        use UpstreamState::{Failed, Ready, Retrying, Starting, Stopped, Withheld};
        let states = [Ready, Starting, Failed, Ready, Retrying, Withheld, Stopped];
        let expected = ServerCounts { ready: 2, starting: 1, failed: 3 };
        assert_eq!(ServerCounts::count(states.into_iter()), expected);
    }
}
