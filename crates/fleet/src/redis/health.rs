//! Checks of the engine's configuration.

use ::redis::{Value, cmd};

use super::RedisRelay;
use super::identity::field;
use super::reply::{UNEXPECTED, pairs};
use crate::relay::{EngineFault, RelayError, RelayHealth};

/// Lowest version that has the scripts' flags and `SET NX GET`.
const MIN_MAJOR_VERSION: u32 = 7;

impl RedisRelay {
    pub(super) async fn check_health(&self) -> Result<RelayHealth, RelayError> {
        let mut problems = Vec::new();
        let info = match self.lease_link.command(cmd("INFO").arg("default")).await {
            Ok(Value::BulkString(info)) => String::from_utf8_lossy(&info).into_owned(),
            Ok(Value::SimpleString(info) | Value::VerbatimString { text: info, .. }) => info,
            Err(RelayError::Unavailable(EngineFault::Authentication)) => {
                problems.push(
                    "the Redis user may not run INFO, so each reconnection opens a recovery window; \
                     allow it: ACL SETUSER <user> +info"
                        .to_owned(),
                );
                String::new()
            }
            Ok(_) => return Err(UNEXPECTED),
            Err(error) => return Err(error),
        };
        let major = field(&info, "redis_version").and_then(|version| version.split('.').next()?.parse().ok());
        if let Some(major) = major.filter(|major: &u32| *major < MIN_MAJOR_VERSION) {
            problems
                .push(format!("Redis {major} is too old; version {MIN_MAJOR_VERSION} or later is needed"));
        }
        let relay = &self.settings.relay;
        if relay.recovery_window < relay.lease + relay.max_replica_lag {
            problems.push(
                "recovery_window is shorter than lease and max_replica_lag together: after a failover a node can \
                 adopt a session whose owner is alive"
                    .to_owned(),
            );
        }
        let replicas = field(&info, "connected_slaves").and_then(|count| count.parse().ok()).unwrap_or(0);
        self.check_configuration(replicas, &mut problems).await?;
        Ok(RelayHealth { recovering: self.window.remaining(), dropped_hints: self.hints.dropped(), problems })
    }

    async fn check_configuration(&self, replicas: u32, problems: &mut Vec<String>) -> Result<(), RelayError> {
        let mut command = cmd("CONFIG");
        command.arg("GET").arg(&["maxmemory-policy", "min-replicas-to-write", "min-replicas-max-lag"]);
        let values = match self.lease_link.command(&command).await {
            Ok(Value::Map(values)) => {
                pairs(Value::Array(values.into_iter().flat_map(<[Value; 2]>::from).collect()))?
            }
            Ok(values) => pairs(values)?,
            Err(RelayError::Unavailable(EngineFault::Authentication | EngineFault::Protocol)) => {
                problems.push(
                    "the Redis user may not run CONFIG GET; check by hand that maxmemory-policy is noeviction"
                        .to_owned(),
                );
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let value = |name: &str| {
            let found = values.iter().find(|(field, _)| field == name)?;
            std::str::from_utf8(&found.1).ok()
        };
        if let Some(policy) = value("maxmemory-policy").filter(|policy| *policy != "noeviction") {
            problems.push(format!(
                "maxmemory-policy is {policy}, which can remove leases and sessions; set it to noeviction"
            ));
        }
        if replicas == 0 {
            return Ok(());
        }
        if value("min-replicas-to-write") == Some("0") {
            problems.push(
                "Redis has replicas and min-replicas-to-write is 0: an isolated primary goes on to acknowledge \
                 writes that are lost; set it to 1"
                    .to_owned(),
            );
        }
        let max_lag = self.settings.relay.max_replica_lag.as_secs();
        let lag = value("min-replicas-max-lag").and_then(|lag| lag.parse::<u64>().ok());
        if let Some(lag) = lag.filter(|lag| *lag > max_lag || *lag == 0) {
            problems.push(format!(
                "min-replicas-max-lag is {lag} s; set it between 1 and {max_lag} (setting max_replica_lag)"
            ));
        }
        Ok(())
    }
}
