//! F6: Redis, then PostgreSQL, then Redis with its data end and come back while clients make calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::attempts::limit_attempts;
use crate::call::{CallKind, CallMix};
use crate::claim::{FleetClaim, history_claims};
use crate::cluster::ClusterOptions;
use crate::guarded_caller::{GuardedCaller, GuardedOutcome};
use crate::journal::{CallEnding, CallRecord, RunJournal, RunSummary};
use crate::legacy_client::LegacyClient;
use crate::modern_client::REVISION;
use crate::scenario::{CALM, POLICY, RunSize, RunningFleet};

/// Time after which a node without Redis has to refuse sessions: its lease is 1.5 s.
const FENCE_LIMIT: Duration = Duration::from_secs(3);

/// Time within which everything has to be served after an engine answers again.
const RECOVERY_BAR: Duration = Duration::from_secs(5);

/// Time for which nodes wait if Redis is another one, or was restarted.
const RECOVERY_WINDOW: Duration = Duration::from_secs(7);

/// Time for a recovery, after which the run stops.
const RECOVERY_LIMIT: Duration = Duration::from_secs(40);

const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// Outage of an engine.
#[derive(Debug)]
struct EngineOutage {
    begun: Instant,
    ended: Instant,
    refusals: usize,
    recovery: Duration,
    violations: Vec<String>,
}

/// Ends each engine for a time.
pub(crate) async fn end_engines(mut options: ClusterOptions, size: RunSize) -> Result<Vec<FleetClaim>> {
    // A fleet of its own, and before the other: its nodes have nothing else to do.
    let attempts = limit_attempts(options.clone()).await?;
    (options.policy, options.keeps_redis_data) = (Some(POLICY), true);
    let mut fleet = RunningFleet::start(options, size).await?;
    fleet.ends_redis = true;
    let begun = Instant::now();
    sleep(CALM).await;
    let kept = end_redis(&mut fleet, size.interval, false).await?;
    let mut claims = vec![attempts, outage_claim("sessions are refused and kept while Redis is gone", &kept)];
    sleep(CALM).await;
    let (postgres, approvals) = end_postgres(&mut fleet, size.interval).await?;
    claims.extend([outage_claim("sessions go on while PostgreSQL is gone", &postgres), approvals]);
    sleep(CALM).await;
    let gone_before = fleet.journal.sessions_gone();
    let empty = end_redis(&mut fleet, size.interval, true).await?;
    claims
        .push(outage_claim("sessions are refused while Redis is gone and after it came back empty", &empty));
    let is_late = Instant::now() > fleet.until;
    let (mut summary, owners) = fleet.finish().await?;
    let lost = summary.counts.sessions_gone - gone_before;
    // Sessions that an empty Redis does not know may end.
    summary.counts.sessions_gone = gone_before;
    claims.push(modern_claim(&summary, begun, &[&kept, &postgres, &empty], is_late));
    claims.extend(history_claims("F6", &summary, false));
    let measured = format!("{} adoptions, {lost} sessions ended with the data of Redis", owners.adoptions);
    claims.push(FleetClaim::new("F6", "one owner for each epoch", measured, owners.violations));
    Ok(claims)
}

/// Kills Redis and restarts it, with its data or without.
async fn end_redis(fleet: &mut RunningFleet, length: Duration, is_emptied: bool) -> Result<EngineOutage> {
    let probes = Probes::open(fleet).await?;
    fleet.cluster.redis.as_mut().context("there is no Redis")?.kill();
    let begun = Instant::now();
    let (mut refusals, mut violations) = (0, Vec::new());
    while begun.elapsed() < length {
        let is_fenced = begun.elapsed() > FENCE_LIMIT;
        refusals += probes.look(fleet, is_fenced, &mut violations).await;
        sleep(PROBE_INTERVAL).await;
    }
    let redis = fleet.cluster.redis.as_mut().context("there is no Redis")?;
    if is_emptied {
        let data = redis.folder().join("appendonlydir");
        std::fs::remove_dir_all(&data).with_context(|| format!("removing {}", data.display()))?;
    }
    redis.restart();
    let ended = Instant::now();
    // In doubt for the recovery window, whether or not there are data.
    let mut is_gone = false;
    while !probes.are_served(fleet).await {
        if ended.elapsed() > RECOVERY_LIMIT {
            violations.push("sessions are not served 40 s after Redis came back".to_owned());
            break;
        }
        if is_emptied && ended.elapsed() >= RECOVERY_WINDOW {
            // Nothing is in doubt any more.
            if probes.are_gone(fleet).await {
                is_gone = true;
                break;
            }
        } else {
            probes.look(fleet, false, &mut violations).await;
        }
        sleep(PROBE_INTERVAL).await;
    }
    if is_gone {
        open_everywhere(fleet).await?;
    }
    let recovery = ended.elapsed();
    let bar = RECOVERY_BAR + if is_emptied { RECOVERY_WINDOW } else { Duration::ZERO };
    check_recovery(recovery, bar, &mut violations);
    if refusals == 0 {
        violations.push("the run shows nothing: no request was refused".to_owned());
    }
    Ok(EngineOutage { begun, ended, refusals, recovery, violations })
}

/// Kills PostgreSQL and restarts it. Nobody decides meanwhile, so a call that needs a decision is not sent.
async fn end_postgres(fleet: &mut RunningFleet, length: Duration) -> Result<(EngineOutage, FleetClaim)> {
    let probes = Probes::open(fleet).await?;
    let caller = GuardedCaller::new(fleet.cluster.balancer.port(), &fleet.effects);
    let (mut violations, mut refused) = (Vec::new(), Vec::new());
    let allowed = caller.ask("own-before").await?;
    if !caller.redeem(&allowed).await.is_answered() || caller.effects("own-before")? != 1 {
        bail!("a call that is approved does not take effect while PostgreSQL runs, so the run shows nothing");
    }
    let waiting = caller.ask("own-across").await?;
    fleet.cluster.database.as_mut().context("there is no PostgreSQL")?.kill_primary();
    let begun = Instant::now();
    // Both take as long as changes are tried again. Sessions are looked at meanwhile.
    let attempts = async { tokio::join!(caller.begin("own-during"), caller.redeem(&waiting)) };
    let looks = async {
        loop {
            probes.look_at_all_served(fleet, &mut violations).await;
            sleep(PROBE_INTERVAL).await;
        }
    };
    let (asked, redeemed) = tokio::select! {
        attempts = attempts => attempts,
        () = looks => bail!("looks do not end"),
    };
    let refusal_took = begun.elapsed();
    for (key, outcome) in [("own-during", &asked), ("own-across", &redeemed)] {
        if caller.effects(key)? > 0 || outcome.is_answered() || outcome.is_question() {
            refused.push(format!("{key} was not refused without PostgreSQL: {}", outcome.0));
        }
    }
    while begun.elapsed() < length {
        probes.look_at_all_served(fleet, &mut violations).await;
        sleep(PROBE_INTERVAL).await;
    }
    fleet.cluster.database.as_mut().context("there is no PostgreSQL")?.restart_primary();
    let ended = Instant::now();
    let mut attempt = 0;
    let mut last = GuardedOutcome(Value::Null);
    let recovered = loop {
        let key = format!("own-after{attempt}");
        attempt += 1;
        if let Ok(allowed) = caller.ask(&key).await {
            last = caller.redeem(&allowed).await;
            if last.is_answered() {
                break ended.elapsed();
            }
        }
        if ended.elapsed() > RECOVERY_LIMIT {
            refused.push(format!("approvals do not work 40 s after PostgreSQL came back: {}", last.0));
            break ended.elapsed();
        }
        sleep(PROBE_INTERVAL).await;
    };
    check_recovery(recovered, RECOVERY_BAR, &mut refused);
    // Its decision was not taken, so it is still open.
    let later = caller.redeem(&waiting).await;
    let across = caller.effects("own-across")?;
    if across > 1 || (across == 1) != later.is_answered() {
        refused.push(format!("the approval that was open: {across} effects, the client saw {}", later.0));
    }
    let why = |outcome: &GuardedOutcome| outcome.0.to_string().chars().take(90).collect::<String>();
    let measured = format!(
        "refused after {:.1} s ({}; {}), approvals again {:.1} s after; the open one then: {}",
        refusal_took.as_secs_f64(),
        why(&asked),
        why(&redeemed),
        recovered.as_secs_f64(),
        if later.is_answered() { "used" } else { "refused" }
    );
    let approvals =
        FleetClaim::new("F6", "without PostgreSQL nothing is approved or sent", measured, refused);
    let outage = EngineOutage { begun, ended, refusals: 0, recovery: recovered, violations };
    Ok((outage, approvals))
}

fn check_recovery(recovery: Duration, bar: Duration, violations: &mut Vec<String>) {
    if recovery > bar {
        let (took, bar) = (recovery.as_secs_f64(), bar.as_secs());
        violations.push(format!("served {took:.1} s after the engine came back, later than {bar} s"));
    }
}

fn outage_claim(claim: &str, outage: &EngineOutage) -> FleetClaim {
    let measured = format!(
        "gone for {:.1} s: {} requests refused, served {:.1} s after",
        outage.ended.duration_since(outage.begun).as_secs_f64(),
        outage.refusals,
        outage.recovery.as_secs_f64()
    );
    FleetClaim::new("F6", claim, measured, outage.violations.clone())
}

/// Calls of 2026-07-28 go on. A question needs Redis, because its answer is used once in the fleet.
fn modern_claim(
    summary: &RunSummary,
    begun: Instant,
    outages: &[&EngineOutage],
    is_late: bool,
) -> FleetClaim {
    let modern = || summary.records.iter().filter(|call| call.revision == REVISION);
    let during = |call: &&CallRecord| {
        outages.iter().any(|outage| (outage.begun..outage.ended).contains(&call.sent_at))
    };
    let failed = |call: &&CallRecord| call.ending != CallEnding::Answered;
    let of_questions = |call: &&CallRecord| call.kind == CallKind::Question;
    let questions = modern().filter(failed).filter(of_questions).count();
    let failures = modern().filter(failed).filter(|call| !of_questions(call));
    let mut violations: Vec<String> = failures.map(|call| call.describe(begun)).collect();
    let (ran, all) = (modern().filter(during).count(), modern().count());
    if ran < 10 || is_late {
        violations.push(format!("the run shows nothing: {ran} calls during the outages"));
    }
    let longest = modern().filter(|call| call.kind == CallKind::Echo).map(|call| call.took).max();
    let measured = format!(
        "{ran} of {all} calls during the outages, {} failed, and {questions} with questions; longest short call {:.2} s",
        violations.len(),
        longest.unwrap_or_default().as_secs_f64()
    );
    FleetClaim::new("F6", "2026-07-28 goes on", measured, violations)
}

/// Client for single requests to one node.
fn client_of(port: u16) -> LegacyClient {
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

/// Waits until a session can be opened at each node.
async fn open_everywhere(fleet: &RunningFleet) -> Result<()> {
    let start = Instant::now();
    for node in &fleet.cluster.nodes {
        while let Err(why) = client_of(node.port()).try_open().await {
            if start.elapsed() > RECOVERY_LIMIT {
                bail!("no session can be opened at port {}: {why}", node.port());
            }
            sleep(PROBE_INTERVAL).await;
        }
    }
    Ok(())
}

/// A session of each node, which is asked for at the next node.
struct Probes(Vec<(String, LegacyClient)>);

impl Probes {
    async fn open(fleet: &RunningFleet) -> Result<Self> {
        open_everywhere(fleet).await?;
        let mut probes = Vec::new();
        let count = fleet.cluster.nodes.len();
        for (index, node) in fleet.cluster.nodes.iter().enumerate() {
            let session = client_of(node.port()).try_open().await;
            let session =
                session.map_err(anyhow::Error::msg).context("opening a session before an outage")?;
            probes.push((session, client_of(fleet.cluster.nodes[(index + 1) % count].port())));
        }
        Ok(Self(probes))
    }

    /// Looks at pages and sessions; returns the number of refusals.
    async fn look(&self, fleet: &RunningFleet, is_fenced: bool, violations: &mut Vec<String>) -> usize {
        self.look_at_pages(fleet, violations).await;
        let mut refusals = 0;
        for (session, client) in &self.0 {
            let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "ping" });
            match client.post(session, &body).await {
                Ok(response) if response.status == 503 && response.retry_after.is_some() => refusals += 1,
                Ok(response) if response.status == 200 && !is_fenced => {}
                Ok(response) => {
                    let (status, retry) = (response.status, response.retry_after.clone());
                    let text = response.text().await.unwrap_or_default();
                    violations.push(format!("a session in doubt: {status}, Retry-After {retry:?}: {text}"));
                }
                Err(why) => violations.push(format!("a request without a response: {why}")),
            }
        }
        refusals
    }

    async fn look_at_pages(&self, fleet: &RunningFleet, violations: &mut Vec<String>) {
        for (index, node) in fleet.cluster.nodes.iter().enumerate() {
            match node.probe("/readyz").await {
                Some(200) => {}
                other => violations.push(format!("/readyz of node {}: {other:?}", index + 1)),
            }
        }
    }

    async fn look_at_all_served(&self, fleet: &RunningFleet, violations: &mut Vec<String>) {
        self.look_at_pages(fleet, violations).await;
        for (session, client) in &self.0 {
            let said = client.ping(session).await;
            if said != Ok(200) {
                violations.push(format!("a session that needs no decision: {said:?}"));
            }
        }
    }

    /// Returns true if all sessions are served, and all nodes say that they serve sessions.
    async fn are_served(&self, fleet: &RunningFleet) -> bool {
        self.have_status(fleet, 200).await
    }

    /// Returns true if no node knows the sessions any more.
    async fn are_gone(&self, fleet: &RunningFleet) -> bool {
        self.have_status(fleet, 404).await
    }

    async fn have_status(&self, fleet: &RunningFleet, status: u16) -> bool {
        for node in &fleet.cluster.nodes {
            if node.probe("/readyz/sessions").await != Some(200) {
                return false;
            }
        }
        for (session, client) in &self.0 {
            if client.ping(session).await != Ok(status) {
                return false;
            }
        }
        true
    }
}
