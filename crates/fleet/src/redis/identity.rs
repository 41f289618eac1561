//! Identity of a server: which process it is, and which history of writes it continues.

use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{RedisResult, cmd};

use crate::keys::{random, to_hex};
use crate::relay::EngineFault;

use super::reply::fault_of;

/// Identity of the server at the other end of a connection.
#[derive(Clone, Debug)]
pub(super) struct EngineIdentity {
    /// Random id of the process.
    run_id: Box<str>,
    /// Id of the history of writes, which changes when a replica is promoted; empty if the server does not tell.
    pub(super) replication_id: Box<str>,
    /// Time for which it has certainly been the primary, while no other one was.
    pub(super) alone_for: Duration,
}

impl EngineIdentity {
    /// Asks the server.
    ///
    /// # Errors
    /// If it does not answer, or is a replica.
    pub(super) async fn of(connection: &mut MultiplexedConnection) -> Result<Self, EngineFault> {
        let info: RedisResult<String> = cmd("INFO").arg("default").query_async(connection).await;
        let info = match info.as_ref().map_err(fault_of) {
            Ok(info) => info,
            // A user without the permission for INFO: each connection then counts as another server.
            Err(EngineFault::Authentication) => return Ok(Self::unknown()),
            Err(fault) => return Err(fault),
        };
        if field(info, "role") == Some("slave") {
            return Err(EngineFault::ReadOnly);
        }
        if field(info, "loading") == Some("1") {
            return Err(EngineFault::Loading);
        }
        let (run_id, replication_id) = (field(info, "run_id"), field(info, "master_replid"));
        let (Some(run_id), Some(replication_id)) = (run_id, replication_id) else {
            return Err(EngineFault::Protocol);
        };
        Ok(Self { run_id: run_id.into(), replication_id: replication_id.into(), alone_for: alone_for(info) })
    }

    fn unknown() -> Self {
        Self {
            run_id: to_hex(&random::<16>()).into(),
            replication_id: Box::default(),
            alone_for: Duration::ZERO,
        }
    }

    /// Text that differs between identities.
    pub(super) fn to_text(&self) -> String {
        format!("{} {}", self.run_id, self.replication_id)
    }
}

/// Returns the time for which a server has certainly been the only primary. One that continues the history of another
/// was promoted, nobody knows when.
fn alone_for(info: &str) -> Duration {
    let has_former_history =
        field(info, "master_replid2").is_none_or(|id| id.bytes().any(|digit| digit != b'0'));
    let uptime = field(info, "uptime_in_seconds").and_then(|seconds| seconds.parse::<u64>().ok());
    match uptime {
        // Both ends of this time were cut to seconds.
        Some(seconds) if !has_former_history => Duration::from_secs(seconds.saturating_sub(1)),
        _ => Duration::ZERO,
    }
}

/// Value of a field of `INFO`.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = info.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_promoted_may_not_have_been_alone() {
        let none = "0".repeat(40);
        let info = |uptime: &str, former: &str| {
            format!("role:master\r\nuptime_in_seconds:{uptime}\r\nmaster_replid2:{former}\r\n")
        };
        assert_eq!(alone_for(&info("3600", &none)), Duration::from_secs(3599));
        assert_eq!(alone_for(&info("0", &none)), Duration::ZERO);
        assert_eq!(alone_for(&info("3600", "9a")), Duration::ZERO);
        assert_eq!(alone_for(&info("long", &none)), Duration::ZERO);
        assert_eq!(alone_for("uptime_in_seconds:3600\r\n"), Duration::ZERO);
    }
}
