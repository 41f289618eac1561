//! F4: a node is cut from Redis, then the nodes are cut from each other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::time::sleep;

use crate::call::CallMix;
use crate::claim::{FleetClaim, history_claims};
use crate::cluster::ClusterOptions;
use crate::journal::RunJournal;
use crate::legacy_client::LegacyClient;
use crate::scenario::{CALM, RunSize, RunningFleet};

/// Time within which everything has to be served after a cut.
const RECOVERY_BAR: Duration = Duration::from_secs(5);

/// Time for a recovery, after which the run stops.
const RECOVERY_LIMIT: Duration = Duration::from_secs(30);

/// Time after which a node that is cut from Redis has to refuse sessions: its lease is 1.5 s.
const FENCE_LIMIT: Duration = Duration::from_secs(3);

const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// Runs both cuts while clients make calls.
pub(crate) async fn cut_links(options: ClusterOptions, size: RunSize) -> Result<Vec<FleetClaim>> {
    let mut fleet = RunningFleet::start(options, size).await?;
    sleep(CALM).await;
    let redis = cut_redis(&mut fleet, size.interval).await?;
    sleep(CALM).await;
    let nodes = cut_nodes(&mut fleet, size.interval).await?;
    let (summary, owners) = fleet.finish().await?;
    let measured = format!("{} adoptions, {} sessions", owners.adoptions, summary.counts.sessions);
    let mut claims =
        vec![redis, nodes, FleetClaim::new("F4", "one owner for each epoch", measured, owners.violations)];
    claims.extend(history_claims("F4", &summary, false));
    Ok(claims)
}

async fn cut_redis(fleet: &mut RunningFleet, length: Duration) -> Result<FleetClaim> {
    let probe = probe_client(fleet.cluster.nodes[0].port());
    fleet.cluster.cut_redis(0);
    let start = Instant::now();
    let mut violations = Vec::new();
    let node = &mut fleet.cluster.nodes[0];
    let fenced = wait_for(FENCE_LIMIT, async || node.probe("/readyz/sessions").await == Some(503)).await;
    let fenced_after = start.elapsed();
    if fenced.is_none() {
        violations.push(format!("/readyz/sessions is not 503 {} s after the cut", FENCE_LIMIT.as_secs()));
    }
    let mut refusals = 0;
    while start.elapsed() < length {
        if node.probe("/readyz").await != Some(200) {
            violations.push(
                "/readyz of the node is not 200 during the cut, so a balancer would remove it".to_owned(),
            );
        }
        match probe.try_open().await {
            Ok(_) => violations.push("a node that is cut from Redis opened a session".to_owned()),
            Err(_) => refusals += 1,
        }
        sleep(PROBE_INTERVAL).await;
    }
    fleet.cluster.heal_redis(0);
    let node = &mut fleet.cluster.nodes[0];
    let lease = node.wait_until_it_serves_sessions(RECOVERY_LIMIT).await;
    let lease = lease.context("a node that was cut from Redis")?;
    let healed = Instant::now();
    wait_for(RECOVERY_LIMIT, async || probe.try_open().await.is_ok())
        .await
        .context("a node that was cut from Redis opens no sessions")?;
    let recovery = lease + healed.elapsed();
    if recovery > RECOVERY_BAR {
        violations.push(format!(
            "sessions are served {:.1} s after the cut, later than 5 s",
            recovery.as_secs_f64()
        ));
    }
    let measured = format!(
        "cut for {} s: fenced after {:.1} s, {refusals} sessions refused, served {:.1} s after",
        length.as_secs(),
        fenced_after.as_secs_f64(),
        recovery.as_secs_f64()
    );
    Ok(FleetClaim::new("F4", "a node without Redis serves no session", measured, violations))
}

async fn cut_nodes(fleet: &mut RunningFleet, length: Duration) -> Result<FleetClaim> {
    let owner = probe_client(fleet.cluster.nodes[0].port());
    let other = probe_client(fleet.cluster.nodes[1].port());
    let mut session = String::new();
    let open = async || owner.try_open().await.map(|opened| session = opened).is_ok();
    wait_for(RECOVERY_LIMIT, open).await.context("a node opens no session before the nodes are cut")?;
    let served = async || other.ping(&session).await == Ok(200);
    wait_for(RECOVERY_LIMIT, served).await.context("another node does not serve a session before the cut")?;
    fleet.cluster.cut_nodes();
    let start = Instant::now();
    let (mut violations, mut refusals, mut longest) = (Vec::new(), 0, Duration::ZERO);
    // A node that is not scheduled for the length of its lease loses its sessions, to which nothing here is owed.
    let mut lost_leases = 0;
    let mut is_taken = false;
    while start.elapsed() < length {
        let sent = Instant::now();
        let there = other.ping(&session).await;
        longest = longest.max(sent.elapsed());
        let here = owner.ping(&session).await;
        match (&there, &here) {
            (Ok(404), _) | (_, Ok(404)) => violations.push("404 for a session whose owner lives".to_owned()),
            (Ok(200), Ok(200)) => violations.push("two nodes serve one session".to_owned()),
            (Ok(200), _) => {
                lost_leases += usize::from(!is_taken);
                is_taken = true;
            }
            (_, Ok(200)) => {
                refusals += 1;
                is_taken = false;
            }
            // Neither: between the end of a lease and the next one.
            _ => {}
        }
        sleep(PROBE_INTERVAL).await;
    }
    if refusals == 0 {
        violations.push("the run shows nothing: the owner never served its session".to_owned());
    }
    fleet.cluster.heal_nodes();
    let healed = Instant::now();
    wait_for(RECOVERY_LIMIT, served).await.context("another node does not serve a session after the cut")?;
    let recovery = healed.elapsed();
    if recovery > RECOVERY_BAR {
        violations.push(format!(
            "sessions are forwarded {:.1} s after the cut, later than 5 s",
            recovery.as_secs_f64()
        ));
    }
    let measured = format!(
        "cut for {} s: {refusals} requests refused (longest wait {:.1} s), {lost_leases} leases lost, forwarded \
         {:.1} s after",
        length.as_secs(),
        longest.as_secs_f64(),
        recovery.as_secs_f64()
    );
    Ok(FleetClaim::new("F4", "nodes apart adopt nothing", measured, violations))
}

/// A client for single requests to one node.
pub(crate) fn probe_client(port: u16) -> LegacyClient {
    let journal = Arc::new(RunJournal::default());
    LegacyClient {
        port,
        name: "probe".to_owned(),
        revision: "2025-11-25",
        journal,
        listens: false,
        mix: CallMix::All,
    }
}

/// Waits until a condition holds; `None` if it does not within the limit.
pub(crate) async fn wait_for(limit: Duration, mut condition: impl AsyncFnMut() -> bool) -> Option<()> {
    let start = Instant::now();
    while start.elapsed() < limit {
        if condition().await {
            return Some(());
        }
        sleep(PROBE_INTERVAL).await;
    }
    None
}
