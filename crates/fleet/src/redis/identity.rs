//! Identity of a server: which process it is, and which history of writes it continues.

use ::redis::aio::MultiplexedConnection;
use ::redis::{RedisResult, cmd};

use crate::keys::{random, to_hex};
use crate::relay::EngineFault;

use super::reply::fault_of;

/// Identity of the server at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EngineIdentity {
    /// Random id of the process.
    run_id: Box<str>,
    /// Id of the history of writes, which changes when a replica is promoted; empty if the server does not tell.
    pub(super) replication_id: Box<str>,
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
        Ok(Self { run_id: run_id.into(), replication_id: replication_id.into() })
    }

    fn unknown() -> Self {
        Self { run_id: to_hex(&random::<16>()).into(), replication_id: Box::default() }
    }

    /// Text that differs between identities.
    pub(super) fn to_text(&self) -> String {
        format!("{} {}", self.run_id, self.replication_id)
    }
}

/// Value of a field of `INFO`.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = info.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}
