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

/// Time for which a node is stopped: its lease of 1.5 s ends, and others have time to adopt its sessions.
const SHORT_PAUSE: Duration = Duration::from_secs(5);
const LONG_PAUSE: Duration = Duration::from_secs(10);

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

    /// Number of sessions that were adopted so far.
    fn adoptions(&self) -> u64 {
        self.watch.as_ref().map_or(0, OwnerWatch::adoptions)
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

/// Fault of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeFault {
    /// Killed, and started again.
    Kill,
    /// Stopped for longer than its lease lasts, and continued.
    Pause,
}

/// F2: nodes are killed or stopped in turn while all kinds of calls run.
pub(crate) async fn kill_owners(mut options: ClusterOptions, size: RunSize) -> Result<Vec<FleetClaim>> {
    (options.policy, options.variant.has_direct_links) = (Some(POLICY), true);
    let mut fleet = RunningFleet::start_with(options, size, CallMix::WithApprovals).await?;
    let end = tokio::time::Instant::now() + size.length;
    let mut next = tokio::time::Instant::now() + SETTLING;
    let mut faults = FaultHistory::default();
    let pause = if size.is_long { LONG_PAUSE } else { SHORT_PAUSE };
    // The last node is back before the clients end.
    while next + size.interval <= end {
        sleep_until(next).await;
        match faults.next() {
            NodeFault::Kill => faults.kill(&mut fleet).await?,
            NodeFault::Pause => faults.pause(&mut fleet, pause).await?,
        }
        next = (next + size.interval).max(tokio::time::Instant::now());
    }
    let failed_starts: usize = fleet.cluster.nodes.iter().map(|node| node.failed_starts.len()).sum();
    let (mut summary, owners) = fleet.finish().await?;
    summary.pauses.clone_from(&faults.pauses);
    let mut claims = history_claims("F2", &summary, size.is_long);
    let mut idle = owners.violations;
    if summary.counts.resumptions.is_empty() || summary.answered < size.clients {
        idle.push(format!(
            "the run shows nothing: {} calls answered, {} streams resumed",
            summary.answered,
            summary.counts.resumptions.len()
        ));
    }
    if faults.adopted_from_stopped == 0 || owners.appends == 0 {
        idle.push(format!(
            "the run shows nothing: {} sessions adopted from stopped nodes, {} events compared with the epochs",
            faults.adopted_from_stopped, owners.appends
        ));
    }
    let mut measured = format!(
        "{} kills, {} stops of {} s, {} adoptions ({} from stopped nodes), {} events, slowest start {:.1} s, slowest \
         return {:.1} s",
        faults.kills,
        faults.pauses.len(),
        pause.as_secs(),
        owners.adoptions,
        faults.adopted_from_stopped,
        owners.appends,
        faults.slowest_start.as_secs_f64(),
        faults.slowest_return.as_secs_f64()
    );
    if failed_starts > 0 {
        measured.push_str(&format!(", {failed_starts} starts failed and were repeated"));
    }
    claims.push(FleetClaim::new("F2", "one owner for each epoch", measured, idle));
    Ok(claims)
}

/// Faults of a run.
#[derive(Debug, Default)]
struct FaultHistory {
    kills: usize,
    pauses: Vec<(Instant, Instant)>,
    /// Sessions that other nodes adopted while their node was stopped.
    adopted_from_stopped: u64,
    slowest_start: Duration,
    /// Longest time until a node that was continued served sessions.
    slowest_return: Duration,
}

impl FaultHistory {
    fn count(&self) -> usize {
        self.kills + self.pauses.len()
    }

    /// Fault that follows. With three nodes, each meets both. Starts take long on a busy machine, so a stop comes first.
    fn next(&self) -> NodeFault {
        if self.count().is_multiple_of(2) { NodeFault::Pause } else { NodeFault::Kill }
    }

    /// Node that follows.
    fn index(&self, fleet: &RunningFleet) -> usize {
        self.count() % fleet.cluster.nodes.len()
    }

    async fn kill(&mut self, fleet: &mut RunningFleet) -> Result<()> {
        let index = self.index(fleet);
        let node = &mut fleet.cluster.nodes[index];
        node.kill();
        self.kills += 1;
        sleep(DOWN_TIME).await;
        let start = Instant::now();
        node.restart()?;
        node.wait_and_restart(RESTART_LIMIT).await.context("a killed node that was started again")?;
        self.slowest_start = self.slowest_start.max(start.elapsed());
        Ok(())
    }

    async fn pause(&mut self, fleet: &mut RunningFleet, length: Duration) -> Result<()> {
        let (index, adopted) = (self.index(fleet), fleet.adoptions());
        fleet.cluster.nodes[index].pause()?;
        let begun = Instant::now();
        sleep(length).await;
        // Before it goes on: it takes back what nobody has taken, under a new id.
        self.adopted_from_stopped += fleet.adoptions() - adopted;
        let node = &mut fleet.cluster.nodes[index];
        node.resume()?;
        let ended = Instant::now();
        self.pauses.push((begun, ended));
        node.wait_until_it_serves_sessions(RESTART_LIMIT)
            .await
            .context("a stopped node that was continued")?;
        self.slowest_return = self.slowest_return.max(ended.elapsed());
        Ok(())
    }
}
