//! Faults of a fleet while clients use it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use crate::call::CallMix;
use crate::claim::{FleetClaim, history_claims};
use crate::cluster::{ClusterOptions, EffectServers, NodeCluster};
use crate::journal::{RunJournal, RunSummary};
use crate::legacy_client::LegacyClient;
use crate::modern_client::ModernClient;
use crate::owners::{OwnerHistory, OwnerWatch};

/// Policy that asks about one tool.
pub(crate) const POLICY: &str =
    "data_flow = 'off'\n[[rule]]\ndecide = 'ask'\ntool = 'guarded'\n[[rule]]\ndecide = 'allow'\n";

/// Revisions with sessions and streams that resume.
const LEGACY_REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// Time between a kill and the start of the node.
const DOWN_TIME: Duration = Duration::from_secs(1);

/// Time for a restart.
const RESTART_LIMIT: Duration = Duration::from_secs(60);

/// Time that clients get for their last calls.
const LAST_CALLS: Duration = Duration::from_secs(60);

/// Time in which servers of killed nodes may still note an effect.
const LAST_EFFECTS: Duration = Duration::from_secs(1);

/// Time that clients get before the first fault.
pub(crate) const CALM: Duration = Duration::from_secs(3);

/// Time after which a new Redis may have lost nothing any more, so that sessions of killed nodes are adopted at once.
const SETTLING: Duration = Duration::from_secs(9);

/// Size of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunSize {
    pub(crate) clients: usize,
    pub(crate) length: Duration,
    /// Interval of kills, or length of a cut.
    pub(crate) interval: Duration,
    /// True if times are asserted, not only reported.
    pub(crate) is_long: bool,
}

/// Fleet with clients that make calls.
#[derive(Debug)]
pub(crate) struct RunningFleet {
    pub(crate) cluster: NodeCluster,
    /// End of the clients' last calls.
    pub(crate) until: Instant,
    pub(crate) journal: Arc<RunJournal>,
    clients: JoinSet<()>,
    watch: Option<OwnerWatch>,
    pub(crate) effects: PathBuf,
    /// True for a run in which Redis ends.
    pub(crate) ends_redis: bool,
    _servers: EffectServers,
}

impl RunningFleet {
    /// Starts the fleet, and clients that make calls for a time.
    pub(crate) async fn start(options: ClusterOptions, size: RunSize) -> Result<Self> {
        Self::start_with(options, size, CallMix::All).await
    }

    /// Starts the fleet, and clients that make these calls.
    async fn start_with(mut options: ClusterOptions, size: RunSize, mix: CallMix) -> Result<Self> {
        std::fs::create_dir_all(&options.folder)?;
        options.folder = std::fs::canonicalize(&options.folder)?;
        let effects = options.folder.join("effects");
        std::fs::write(&effects, "")?;
        let servers = EffectServers::start(&options.folder, &effects).await?;
        options.servers.clone_from(&servers.file);
        let cluster = NodeCluster::start(&options).await?;
        let watch = cluster.redis.as_ref().map(|redis| OwnerWatch::start(redis.port())).transpose()?;
        let (journal, mut clients) = (Arc::new(RunJournal::default()), JoinSet::new());
        let (port, until) = (cluster.balancer.port(), Instant::now() + size.length);
        for number in 0..size.clients {
            let (name, journal) = (format!("c{number}"), Arc::clone(&journal));
            if number % 4 == 3 {
                clients.spawn(ModernClient { port, name, journal, mix }.run(until));
            } else {
                let revision = LEGACY_REVISIONS[number / 4 % LEGACY_REVISIONS.len()];
                let listens = number % 4 == 0;
                clients.spawn(LegacyClient { port, name, revision, journal, listens, mix }.run(until));
            }
        }
        Ok(Self { cluster, until, journal, clients, watch, effects, ends_redis: false, _servers: servers })
    }

    /// Adds a client of each era that makes calls of one kind.
    pub(crate) fn add_pair(&mut self, name: &str, mix: CallMix) {
        let (port, until) = (self.cluster.balancer.port(), self.until);
        let (name, journal) = (format!("{name}-modern"), Arc::clone(&self.journal));
        let legacy = LegacyClient {
            port,
            name: name.replace("modern", "legacy"),
            revision: "2025-11-25",
            journal: Arc::clone(&journal),
            listens: false,
            mix,
        };
        self.clients.spawn(ModernClient { port, name, journal, mix }.run(until));
        self.clients.spawn(legacy.run(until));
    }

    /// Waits for the clients and checks what they have seen.
    pub(crate) async fn finish(mut self) -> Result<(RunSummary, OwnerHistory)> {
        let all = async { while self.clients.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_CALLS, all).await.is_err() {
            self.journal.record_unended();
        }
        sleep(LAST_EFFECTS).await;
        for (index, node) in self.cluster.nodes.iter_mut().enumerate() {
            node.check_alive().with_context(|| format!("node {}", index + 1))?;
        }
        let mut owners = self.watch.take().map(OwnerWatch::finish).unwrap_or_default();
        if owners.has_gaps && !self.ends_redis {
            owners.violations.push("the directory could not be read for a time".to_owned());
        }
        Ok((self.journal.check(&self.effects)?, owners))
    }
}

/// F2: nodes are killed in turn while all kinds of calls run.
pub(crate) async fn kill_owners(mut options: ClusterOptions, size: RunSize) -> Result<Vec<FleetClaim>> {
    (options.policy, options.variant.has_direct_links) = (Some(POLICY), true);
    let mut fleet = RunningFleet::start_with(options, size, CallMix::WithApprovals).await?;
    let end = tokio::time::Instant::now() + size.length;
    let mut next = tokio::time::Instant::now() + SETTLING;
    let (mut kills, mut longest) = (0, Duration::ZERO);
    // The last node is back before the clients end.
    while next + size.interval <= end {
        sleep_until(next).await;
        let count = fleet.cluster.nodes.len();
        let node = &mut fleet.cluster.nodes[kills % count];
        node.kill();
        kills += 1;
        sleep(DOWN_TIME).await;
        let start = Instant::now();
        node.restart()?;
        node.wait_and_restart(RESTART_LIMIT).await.context("a killed node that was started again")?;
        longest = longest.max(start.elapsed());
        next = (next + size.interval).max(tokio::time::Instant::now());
    }
    let failed_starts: usize = fleet.cluster.nodes.iter().map(|node| node.failed_starts.len()).sum();
    let (summary, owners) = fleet.finish().await?;
    let mut claims = history_claims("F2", &summary, size.is_long);
    let mut idle = owners.violations;
    if summary.counts.resumptions.is_empty() || summary.answered < size.clients {
        idle.push(format!(
            "the run shows nothing: {} calls answered, {} streams resumed",
            summary.answered,
            summary.counts.resumptions.len()
        ));
    }
    let mut measured = format!(
        "{kills} kills, {} adoptions, slowest start {:.1} s",
        owners.adoptions,
        longest.as_secs_f64()
    );
    if failed_starts > 0 {
        measured.push_str(&format!(", {failed_starts} starts failed and were repeated"));
    }
    claims.push(FleetClaim::new("F2", "one owner for each epoch", measured, idle));
    Ok(claims)
}
