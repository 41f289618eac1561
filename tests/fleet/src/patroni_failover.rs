//! F7 with Patroni, which promotes the replica by itself.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use hospes_fleet_testkit::patroni_cluster::{PatroniCluster, PatroniTimes};
use tokio::time::sleep;

use crate::approval_run::{ApprovalRun, UnusedDecision};
use crate::claim::FleetClaim;
use crate::cluster::{ClusterOptions, ClusterVariant};
use crate::failover::{FailoverFleet, HOLD_BAR, failover_claims};
use crate::scenario::{CALM, RunSize};

/// Time in which there has to be a primary again.
const FAILOVER_LIMIT: Duration = Duration::from_secs(90);

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Loss of the primary.
#[derive(Clone, Copy, Debug)]
enum PrimaryLoss {
    /// An administrator exchanges the two.
    SwitchOver,
    /// PostgreSQL is killed, and its Patroni gives up the lock.
    Crash,
    /// Patroni is killed with it, so that the lock has to expire.
    Machine,
}

/// Losses, with the lifetime of the lock in seconds: the least that later versions of Patroni take, and one with which the
/// loss of a machine is over within 15 s.
const LOSSES: [(PrimaryLoss, u64, &str); 4] = [
    (PrimaryLoss::SwitchOver, 20, "Patroni, switchover"),
    (PrimaryLoss::Crash, 20, "Patroni, PostgreSQL killed"),
    (PrimaryLoss::Machine, 10, "Patroni, both killed, ttl 10 s"),
    (PrimaryLoss::Machine, 20, "Patroni, both killed, ttl 20 s"),
];

/// Loses the primary in each way while approvals are asked for, decided and used.
pub(crate) async fn lose_primaries(options: ClusterOptions, size: RunSize) -> Result<Vec<FleetClaim>> {
    let mut claims = Vec::new();
    for (loss, lock, name) in LOSSES {
        // What the others show is shown even if one fails.
        claims.extend(lose_primary(&options, size, (loss, lock, name)).await.unwrap_or_else(|error| {
            let claim = format!("{name}: the run ends");
            vec![FleetClaim::new("F7", &claim, "it did not".to_owned(), vec![format!("{error:#}")])]
        }));
    }
    Ok(claims)
}

async fn lose_primary(
    options: &ClusterOptions,
    size: RunSize,
    (loss, lock, name): (PrimaryLoss, u64, &str),
) -> Result<Vec<FleetClaim>> {
    let times = PatroniTimes::new(Duration::from_secs(lock));
    let variant = ClusterVariant { patroni: Some(times), ..ClusterVariant::default() };
    let folder = name.replace(", ", "-").replace(' ', "-");
    let mut fleet = FailoverFleet::start_with(options, &folder, variant).await?;
    let run = ApprovalRun::start(&fleet.cluster, size.clients, size.length);
    sleep(CALM.max(size.length / 3)).await;
    let begun = Instant::now();
    let patroni = fleet.cluster.patroni.as_mut().context("the fleet has no Patroni")?;
    // Programs are waited for, and the links of the fleet run in this process.
    let without = tokio::task::block_in_place(|| fail_over(patroni, loss))?;
    let ended = Instant::now();
    let summary = run.finish(&fleet.effects, (begun, ended)).await?;
    let patroni = fleet.cluster.patroni.as_ref().context("the fleet has no Patroni")?;
    let lost = tokio::task::block_in_place(|| lost_decisions(patroni, &summary.unused, without));
    Ok(failover_claims(name, &summary, without, lost))
}

/// Loses the primary, and waits until there is another one. Returns how long there was none.
fn fail_over(patroni: &mut PatroniCluster, loss: PrimaryLoss) -> Result<Duration> {
    let old = patroni.primary().context("there is no primary to lose")?;
    match loss {
        PrimaryLoss::SwitchOver => {}
        PrimaryLoss::Crash => patroni.kill_postgres(old),
        PrimaryLoss::Machine => patroni.kill_member(old),
    }
    let patroni = &*patroni;
    thread::scope(|scope| {
        let order = match loss {
            PrimaryLoss::SwitchOver => Some(scope.spawn(|| patroni.switch_over(old))),
            PrimaryLoss::Crash | PrimaryLoss::Machine => None,
        };
        let without = wait_for_another(patroni, old);
        if order.is_some_and(|order| order.join().is_err()) {
            bail!("the switchover failed: {}", patroni.log());
        }
        without
    })
}

fn wait_for_another(patroni: &PatroniCluster, old: usize) -> Result<Duration> {
    let start = Instant::now();
    let (mut last_seen, mut is_gone) = (start, false);
    loop {
        match patroni.primary() {
            Some(primary) if primary != old => return Ok(last_seen.elapsed()),
            Some(_) if is_gone => bail!("the primary came back, and was not replaced: {}", patroni.log()),
            Some(_) => last_seen = Instant::now(),
            None => is_gone = true,
        }
        ensure!(start.elapsed() < FAILOVER_LIMIT, "no other primary in 90 s: {}", patroni.log());
        thread::sleep(POLL_INTERVAL);
    }
}

/// Decisions without an effect that are lost. After an outage that is longer than changes are held, those are not whose
/// call has waited at its node: it was refused, and its approval has ended with it.
fn lost_decisions(patroni: &PatroniCluster, unused: &[UnusedDecision], without: Duration) -> Vec<String> {
    let is_lost = |decision: &&UnusedDecision| {
        without < HOLD_BAR || (decision.was_presented && !is_used(patroni, &decision.approval))
    };
    unused.iter().filter(is_lost).map(UnusedDecision::describe).collect()
}

/// Returns true if the use of an approval is stored. A node that could not find that out in time has not sent the call.
fn is_used(patroni: &PatroniCluster, approval: &str) -> bool {
    let select = format!(
        "SELECT count(*) FROM matters WHERE id = '{approval}' AND decided IS NOT NULL AND used_by IS NOT NULL"
    );
    patroni.query(&select) == "1"
}
