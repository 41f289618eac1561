//! PostgreSQL of a fleet, with a replica that can take its place.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use hospes_fleet_testkit::net_proxy::{AcceptMode, LinkDirection, LinkRules, NetProxy};
use hospes_fleet_testkit::postgres_server::{PostgresOptions, PostgresServer};
use tokio::time::sleep;

/// Time in which a replica has to follow the primary.
const FOLLOW_LIMIT: Duration = Duration::from_secs(30);

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Replication to the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaKind {
    /// A commit is acknowledged once the replica has it.
    Synchronous,
    /// The replica follows when it can.
    Asynchronous,
}

/// PostgreSQL of a fleet.
#[derive(Debug)]
pub(crate) struct ClusterDatabase {
    primary: PostgresServer,
    replica: Option<DatabaseReplica>,
}

#[derive(Debug)]
struct DatabaseReplica {
    server: PostgresServer,
    /// Way of the replica to the primary.
    link: NetProxy,
}

impl ClusterDatabase {
    /// Starts the primary, and a replica that follows it.
    pub(crate) async fn start(replica: Option<ReplicaKind>) -> Result<Self> {
        let primary = PostgresServer::start(PostgresOptions::default().with("fsync", "off"));
        let Some(kind) = replica else {
            return Ok(Self { primary, replica: None });
        };
        let link = NetProxy::to_port(primary.port()).await;
        // The programs of PostgreSQL are waited for, and the proxy runs in this process.
        let server = tokio::task::block_in_place(|| primary.start_replica(link.port()));
        let mut state = "async";
        if kind == ReplicaKind::Synchronous {
            let _done = primary.query("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'");
            let _done = primary.query("SELECT pg_reload_conf()");
            state = "quorum";
        }
        let following = format!(
            "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = '{state}'"
        );
        let start = Instant::now();
        while primary.query(&following) != "1" {
            ensure!(start.elapsed() < FOLLOW_LIMIT, "the replica does not follow the primary");
            sleep(POLL_INTERVAL).await;
        }
        Ok(Self { primary, replica: Some(DatabaseReplica { server, link }) })
    }

    /// URL for the nodes, with all hosts.
    pub(crate) fn url(&self) -> String {
        let url = self.primary.url();
        let Some(replica) = &self.replica else { return url };
        let host = |port: u16| format!("127.0.0.1:{port}");
        let (one, other) = (host(self.primary.port()), host(replica.server.port()));
        format!("{}&target_session_attrs=read-write", url.replace(&one, &format!("{one},{other}")))
    }

    /// Ids of the processes that the others of the servers are children of.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let replica = self.replica.iter().map(|replica| replica.server.pid());
        std::iter::once(self.primary.pid()).chain(replica).collect()
    }

    /// Runs a query at the primary.
    pub(crate) fn query_primary(&self, sql: &str) -> String {
        self.primary.query(sql)
    }

    /// Runs a query at the replica.
    pub(crate) fn query_replica(&self, sql: &str) -> Result<String> {
        Ok(self.replica()?.server.query(sql))
    }

    /// Drops all bytes between the primary and its replica, without a word to either.
    pub(crate) fn cut_replica(&self) -> Result<()> {
        let link = &self.replica()?.link;
        link.set_accept(AcceptMode::Silence);
        link.set(LinkDirection::ToServer, LinkRules::silent());
        link.set(LinkDirection::ToClient, LinkRules::silent());
        Ok(())
    }

    /// Kills the primary (SIGKILL).
    pub(crate) fn kill_primary(&mut self) {
        self.primary.kill();
    }

    /// Starts the primary again, on its port and with its data.
    pub(crate) fn restart_primary(&mut self) {
        self.primary.restart();
    }

    /// Makes the replica the primary.
    pub(crate) fn promote(&self) -> Result<()> {
        let server = &self.replica()?.server;
        tokio::task::block_in_place(|| server.promote());
        Ok(())
    }

    fn replica(&self) -> Result<&DatabaseReplica> {
        self.replica.as_ref().context("the fleet has no replica of its database")
    }
}
