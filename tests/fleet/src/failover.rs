//! F7: the primary of PostgreSQL is lost while approvals are asked for, decided and used.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::time::sleep;

use crate::approval_run::{ApprovalRun, ApprovalSummary, TOOL, UnusedDecision, use_decision};
use crate::claim::FleetClaim;
use crate::cluster::{ClusterOptions, ClusterVariant, EffectServers, NodeCluster};
use crate::database::{ClusterDatabase, ReplicaKind};
use crate::decider;
use crate::plain_client::{PlainAnswer, PlainClient};
use crate::scenario::{CALM, RunSize};

/// Time between the loss of the primary and the promotion, which something has to notice and decide first.
const DETECTION_TIME: Duration = Duration::from_secs(1);

/// Time for which a replica is cut off before the primary is killed: longer than a statement may take. What the primary
/// commits meanwhile must not be acknowledged.
const CUT_TIME: Duration = Duration::from_secs(7);

/// Time for which a call waits for a person.
const ASK_TIME: Duration = Duration::from_secs(120);

/// Longest time for which a call may be held.
pub(crate) const HOLD_BAR: Duration = Duration::from_secs(15);

/// Time in which a call is refused after it was held.
const REFUSAL_GRACE: Duration = Duration::from_secs(5);

/// Time in which the replica has to get what was written before it is cut.
const REPLICATION_LIMIT: Duration = Duration::from_secs(10);

/// Fleet with a replica, and the servers behind it.
pub(crate) struct FailoverFleet {
    pub(crate) cluster: NodeCluster,
    pub(crate) effects: std::path::PathBuf,
    _servers: EffectServers,
}

impl FailoverFleet {
    async fn start(options: &ClusterOptions, name: &str, replica: ReplicaKind) -> Result<Self> {
        let variant = ClusterVariant { replica: Some(replica), ..ClusterVariant::default() };
        Self::start_with(options, name, variant).await
    }

    /// Starts it, with the name of its folder. A person is asked about each call.
    pub(crate) async fn start_with(
        options: &ClusterOptions,
        name: &str,
        variant: ClusterVariant,
    ) -> Result<Self> {
        let folder = options.folder.join(name);
        std::fs::create_dir_all(&folder)?;
        let folder = std::fs::canonicalize(folder)?;
        let effects = folder.join("effects");
        std::fs::write(&effects, "")?;
        let servers = EffectServers::start(&folder, &effects).await?;
        let cluster = NodeCluster::start(&ClusterOptions {
            policy: None,
            keeps_redis_data: false,
            program: options.program.clone(),
            folder,
            servers: servers.file.clone(),
            nodes: options.nodes,
            is_fleet: true,
            variant: ClusterVariant { asks_for: Some(ASK_TIME), ..variant },
        })
        .await?;
        ensure!(cluster.nodes.len() >= 2, "F7 needs two nodes");
        Ok(Self { cluster, effects, _servers: servers })
    }

    fn database(&mut self) -> Result<&mut ClusterDatabase> {
        self.cluster.database.as_mut().context("the fleet has no database")
    }

    /// Kills the primary and promotes the replica. Returns when the primary was killed, and how long there was none.
    async fn fail_over(&mut self) -> Result<(Instant, Duration)> {
        let database = self.database()?;
        let killed = Instant::now();
        database.kill_primary();
        sleep(DETECTION_TIME).await;
        database.promote()?;
        Ok((killed, killed.elapsed()))
    }
}

/// Runs both kinds of replicas.
pub(crate) async fn lose_primary(options: ClusterOptions, size: RunSize) -> Result<Vec<FleetClaim>> {
    let mut claims = Vec::new();
    for cut in [Duration::ZERO, CUT_TIME] {
        claims.extend(lose_synchronous(&options, size, cut).await?);
    }
    // What the others have shown is shown even if this fails.
    claims.push(lose_asynchronous(&options).await.unwrap_or_else(|error| {
        FleetClaim::new(
            "F7",
            "asynchronous: the run ends",
            "it did not".to_owned(),
            vec![format!("{error:#}")],
        )
    }));
    Ok(claims)
}

/// Clients go on while the primary is killed, at once or after its replica was cut off.
async fn lose_synchronous(options: &ClusterOptions, size: RunSize, cut: Duration) -> Result<Vec<FleetClaim>> {
    let name = if cut.is_zero() { "synchronous" } else { "synchronous, cut first" };
    let folder = name.replace(", ", "-").replace(' ', "-");
    let mut fleet = FailoverFleet::start(options, &folder, ReplicaKind::Synchronous).await?;
    let run = ApprovalRun::start(&fleet.cluster, size.clients, size.length);
    sleep(CALM.max(size.length / 3)).await;
    let begun = Instant::now();
    if !cut.is_zero() {
        fleet.database()?.cut_replica()?;
        sleep(cut).await;
    }
    let (_, without) = fleet.fail_over().await?;
    let ended = Instant::now();
    let summary = run.finish(&fleet.effects, (begun, ended)).await?;
    let lost = summary.unused.iter().map(UnusedDecision::describe).collect();
    Ok(failover_claims(name, &summary, without, lost))
}

/// Claims about a failover, with the decisions that are lost.
pub(crate) fn failover_claims(
    name: &str,
    summary: &ApprovalSummary,
    without: Duration,
    mut lost: Vec<String>,
) -> Vec<FleetClaim> {
    let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
    if summary.spanning == 0 || summary.after == 0 {
        lost.push(format!(
            "the run shows nothing: {} calls were under way while there was no primary, {} ended after it",
            summary.spanning, summary.after
        ));
    }
    // Without a primary for longer, decisions and uses are refused, and calls that wait for a decision wait on. What begins
    // afterwards is not refused.
    let is_held = without < HOLD_BAR;
    let mut held = if is_held { summary.failures.clone() } else { summary.late_failures.clone() };
    let more = if is_held { Duration::ZERO } else { REFUSAL_GRACE };
    let bars = [(&summary.longest, HOLD_BAR + more), (&summary.longest_wait, HOLD_BAR.max(without) + more)];
    for (step, bar) in bars {
        if step.took > bar {
            held.push(format!("{step}, longer than {}", seconds(bar)));
        }
    }
    let first = summary.failures.first().filter(|_| !is_held);
    let first = first.map(|failure| format!(" (first: {failure})")).unwrap_or_default();
    vec![
        FleetClaim::new(
            "F7",
            &format!("{name}: no acknowledged decision is lost"),
            format!(
                "{} decided, {} used, {} without an effect; {} under way without a primary for {}",
                summary.decided,
                summary.used + summary.redeemed,
                summary.unused.len(),
                summary.spanning,
                seconds(without)
            ),
            lost,
        ),
        FleetClaim::new(
            "F7",
            &format!("{name}: none is used twice"),
            format!("{} effects; {} rounds sent again after their use", summary.effects, summary.repeated),
            summary.twice.clone(),
        ),
        FleetClaim::new(
            "F7",
            &format!("{name}: calls are held{}", if is_held { ", not failed" } else { " for 15 s" }),
            format!(
                "longest {}; longest at a node {}; {} failed{first}, {} of them used afterwards",
                summary.longest,
                summary.longest_wait,
                summary.failures.len(),
                summary.redeemed
            ),
            held,
        ),
    ]
}

/// Shows what an asynchronous replica loses: a decision that was acknowledged, and a use.
async fn lose_asynchronous(options: &ClusterOptions) -> Result<FleetClaim> {
    let mut fleet = FailoverFleet::start(options, "asynchronous", ReplicaKind::Asynchronous).await?;
    let [one, other] = [0, 1].map(|index: usize| {
        let (port, name) = (fleet.cluster.nodes[index].port(), format!("async-{index}"));
        PlainClient { port, name: format!("{name}-client"), can_ask: true }
    });
    // The process that asks is a part of what an approval is for.
    let other = PlainClient { name: one.name.clone(), ..other };
    let none = serde_json::Value::Null;
    let used = one.call(TOOL, "used", &none).await?;
    let decided = one.call(TOOL, "decided", &none).await?;
    let id = |answer: &PlainAnswer| {
        let id = answer.approval().map(str::to_owned);
        id.with_context(|| format!("no approval is asked for: {}", answer.brief()))
    };
    let (used_id, decided_id) = (id(&used)?, id(&decided)?);
    decider::allow_when_shown(fleet.cluster.nodes[1].settings(), &used_id).await?;
    let is_decided =
        |id: &str| format!("SELECT count(*) FROM matters WHERE id = '{id}' AND decided IS NOT NULL");
    let database = fleet.database()?;
    wait_for_row(database, &is_decided(&used_id)).await?;
    database.cut_replica()?;
    let first_use = use_decision(&other, "used", &used).await?;
    ensure!(first_use.is_result(), "the approval cannot be used: {}", first_use.brief());
    decider::allow_when_shown(fleet.cluster.nodes[1].settings(), &decided_id).await?;
    let mut violations = Vec::new();
    let database = fleet.database()?;
    if database.query_primary(&is_decided(&decided_id)) != "1" {
        violations.push("the run shows nothing: the primary does not have the decision".to_owned());
    }
    fleet.fail_over().await?;
    let database = fleet.database()?;
    let is_lost = database.query_replica(&is_decided(&decided_id))? == "0";
    if !is_lost {
        violations.push("the run shows nothing: the decision is not lost".to_owned());
    }
    // At a node that has not used it itself.
    let second_use = use_decision(&one, "used", &used).await?;
    let effects = count_effects(&fleet.effects, "used")?;
    let measured = format!(
        "the acknowledged decision is {}; the used approval, presented again, has {effects} effects ({})",
        if is_lost { "gone" } else { "there" },
        if second_use.is_result() { "used again" } else { "refused" }
    );
    Ok(FleetClaim::new("F7", "asynchronous: an acknowledged decision is lost", measured, violations))
}

async fn wait_for_row(database: &ClusterDatabase, query: &str) -> Result<()> {
    let start = Instant::now();
    while database.query_replica(query)? != "1" {
        ensure!(start.elapsed() < REPLICATION_LIMIT, "the replica does not get what was written");
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

fn count_effects(effects: &Path, key: &str) -> Result<usize> {
    let text = std::fs::read_to_string(effects)?;
    Ok(text.lines().filter(|line| line.split(' ').next() == Some(key)).count())
}
