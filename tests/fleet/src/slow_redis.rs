//! F5: what the nodes send to Redis arrives late.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use redis::{Commands as _, Connection};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use crate::claim::FleetClaim;
use crate::cluster::{ClusterOptions, EffectServers, NodeCluster};
use crate::plain_client::PlainClient;
use crate::scenario::RunSize;
use crate::usage::ProcessGroups;

/// Delays of the phases. Those without one are what the others are compared with.
const DELAYS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(50), Duration::from_millis(500), Duration::ZERO];

/// Time of a look at the commands of Redis.
const COUNT_TIME: Duration = Duration::from_secs(3);

/// Interval of the calls of a client, whether those before are answered or not. With calls that wait for the last answer, the
/// calls of sessions would become fewer with the delay, and those without a session would meet a machine with another load.
const CALL_INTERVAL: Duration = Duration::from_millis(250);

/// Interval of the looks at the nodes.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// Share of the delay by which the fastest tenth of the calls may rise: calls that wait for Redis once would all rise by
/// all of it, whereas the load of the machine slows some more than others.
const NOISE_SHARE: u32 = 2;

/// Ratio of the medians that a long run asserts.
const RATIO_BAR: f64 = 1.25;

/// Ratio of the processor times of the nodes for the same calls: one that waits does no more work.
const CPU_BAR: f64 = 2.0;

/// Measurements of one phase.
#[derive(Debug, Default)]
struct DelayPhase {
    modern: Vec<Duration>,
    legacy: Vec<Duration>,
    failures: Vec<String>,
    /// Processor seconds of the nodes, from the first call to the last answer.
    cpu_s: f64,
    /// Looks at `/readyz/sessions`, and how many of them were not 200.
    looks: usize,
    fenced: usize,
}

/// Runs the phases, each with calls of both eras.
pub(crate) async fn delay_links(mut options: ClusterOptions, size: RunSize) -> Result<Vec<FleetClaim>> {
    std::fs::create_dir_all(&options.folder)?;
    options.folder = std::fs::canonicalize(&options.folder)?;
    let effects = options.folder.join("effects");
    std::fs::write(&effects, "")?;
    let servers = EffectServers::start(&options.folder, &effects).await?;
    options.servers.clone_from(&servers.file);
    let cluster = NodeCluster::start(&options).await?;
    let redis = cluster.redis.as_ref().context("F5 needs a fleet")?;
    let mut redis = redis::Client::open(format!("redis://127.0.0.1:{}", redis.port()))?.get_connection()?;
    let mut clients = Vec::new();
    for number in 0..size.clients.max(2) {
        let client =
            PlainClient { port: cluster.balancer.port(), name: format!("c{number}"), can_ask: false };
        let session = if number % 2 == 0 { None } else { Some(client.open().await?) };
        clients.push((client, session));
    }
    let mut claims = vec![count_commands(&mut redis, &clients).await?];
    let nodes = node_keys(&mut redis)?;
    let length = size.length / u32::try_from(DELAYS.len())?;
    let mut phases = Vec::new();
    for (index, delay) in DELAYS.into_iter().enumerate() {
        cluster.delay_redis(delay);
        phases.push(run_phase(&cluster, &clients, index, length).await);
    }
    claims.extend(compare(&phases, size.is_long));
    let mut joined = Vec::new();
    if node_keys(&mut redis)? != nodes {
        joined.push("a node has lost its lease and joined with a new id".to_owned());
    }
    let epochs = epochs(&mut redis)?;
    if epochs.iter().any(|epoch| *epoch != 1) {
        joined.push("a session was adopted although its owner lives".to_owned());
    }
    let (looks, fenced) =
        phases.iter().fold((0, 0), |(looks, fenced), phase| (looks + phase.looks, fenced + phase.fenced));
    if fenced > 0 {
        joined.push(format!("/readyz/sessions of a node was not 200 at {fenced} of {looks} looks"));
    }
    let measured = format!("{} nodes, {} sessions, {looks} looks", nodes.len(), epochs.len());
    claims.push(FleetClaim::new("F5", "no node is fenced by a slow Redis", measured, joined));
    Ok(claims)
}

/// Counts the commands that Redis gets while nothing is called, then with calls of each era.
async fn count_commands(
    redis: &mut Connection,
    clients: &[(PlainClient, Option<String>)],
) -> Result<FleetClaim> {
    let modern =
        clients.iter().find(|(_, session)| session.is_none()).context("no client without session")?;
    let legacy = clients.iter().find(|(_, session)| session.is_some()).context("no client with a session")?;
    // What calls need once, such as the lists of tools, is not counted.
    for client in [modern, legacy] {
        call(client, "warm").await.map_err(anyhow::Error::msg)?;
    }
    let mut counted = Vec::new();
    for client in [None, Some(modern), Some(legacy)] {
        let (start, before, mut calls) = (Instant::now(), commands(redis)?, 0);
        while start.elapsed() < COUNT_TIME {
            match client {
                None => sleep(WATCH_INTERVAL).await,
                Some(client) => {
                    let era = if client.1.is_some() { "legacy" } else { "modern" };
                    call(client, &format!("count-{era}-{calls}")).await.map_err(anyhow::Error::msg)?;
                    calls += 1;
                }
            }
        }
        let rate = COUNT_TIME.as_secs_f64() / start.elapsed().as_secs_f64();
        counted.push((calls, (commands(redis)?.saturating_sub(before)) as f64 * rate));
    }
    let [(_, idle), (modern_calls, modern), (legacy_calls, legacy)] = counted[..] else {
        anyhow::bail!("three times were counted");
    };
    let per_call = |commands: f64, calls: i32| (commands - idle) / f64::from(calls.max(1));
    let (of_modern, of_legacy) = (per_call(modern, modern_calls), per_call(legacy, legacy_calls));
    let mut violations = Vec::new();
    // Renewals of leases come at a steady rate; a command for each call would be far above what that varies by.
    if of_modern > 0.3 {
        violations.push(format!("{of_modern:.2} Redis commands for each call of 2026-07-28"));
    }
    if of_legacy < 0.5 || modern_calls < 10 {
        violations.push(format!(
            "the run shows nothing: {modern_calls} calls of 2026-07-28, and {of_legacy:.2} commands for each of \
             {legacy_calls} calls of a session"
        ));
    }
    let measured = format!(
        "{idle:.0} commands in {} s without calls; per call {of_modern:+.2} of {modern_calls} of 2026-07-28, \
         {of_legacy:+.2} of {legacy_calls} of sessions",
        COUNT_TIME.as_secs()
    );
    Ok(FleetClaim::new("F5", "calls of 2026-07-28 make no Redis command", measured, violations))
}

async fn run_phase(
    cluster: &NodeCluster,
    clients: &[(PlainClient, Option<String>)],
    index: usize,
    length: Duration,
) -> DelayPhase {
    let mut groups = ProcessGroups::default();
    groups.add("nodes", cluster.nodes.iter().map(|node| node.pid()).collect());
    let cpu_before = groups.usage("nodes").cpu_s;
    let (begin, until) = (Instant::now(), Instant::now() + length);
    let mut tasks = JoinSet::new();
    let count = u32::try_from(clients.len().max(1)).unwrap_or(u32::MAX);
    for (number, client) in (0..count).zip(clients) {
        let client = client.clone();
        tasks.spawn(async move {
            let (mut calls, mut number_of_call) = (JoinSet::new(), 0);
            // The clients take turns, so that their calls do not arrive together.
            let mut next = begin + CALL_INTERVAL * number / count;
            while next < until {
                sleep_until(next.into()).await;
                let (client, key) = (client.clone(), format!("{}-{index}-{number_of_call}", client.0.name));
                calls.spawn(async move {
                    let start = Instant::now();
                    call(&client, &key).await.map(|()| start.elapsed())
                });
                number_of_call += 1;
                next += CALL_INTERVAL;
            }
            let (mut took, mut failures) = (Vec::new(), Vec::new());
            while let Some(done) = calls.join_next().await {
                match done {
                    Ok(Ok(time)) => took.push(time),
                    Ok(Err(failure)) => failures.push(failure),
                    Err(error) => failures.push(format!("a call failed: {error}")),
                }
            }
            (client.1.is_some(), took, failures)
        });
    }
    let mut phase = DelayPhase::default();
    while Instant::now() < until {
        for node in &cluster.nodes {
            phase.looks += 1;
            phase.fenced += usize::from(node.probe("/readyz/sessions").await != Some(200));
        }
        sleep(WATCH_INTERVAL).await;
    }
    while let Some(done) = tasks.join_next().await {
        match done {
            Ok((true, took, failures)) => {
                phase.legacy.extend(took);
                phase.failures.extend(failures);
            }
            Ok((false, took, failures)) => {
                phase.modern.extend(took);
                phase.failures.extend(failures);
            }
            Err(error) => phase.failures.push(format!("a client failed: {error}")),
        }
    }
    phase.cpu_s = groups.usage("nodes").cpu_s - cpu_before;
    phase
}

async fn call((client, session): &(PlainClient, Option<String>), key: &str) -> Result<(), String> {
    let answer = match session {
        None => client.call("modern__echo", key, &serde_json::Value::Null).await,
        Some(session) => client.call_in(session, "modern", key).await,
    };
    match answer {
        Ok(answer) if answer.is_result() => Ok(()),
        Ok(answer) => Err(format!("{key}: {}", answer.brief())),
        Err(error) => Err(format!("{key}: {error:#}")),
    }
}

fn compare(phases: &[DelayPhase], is_asserted: bool) -> Vec<FleetClaim> {
    let without = |index: usize| DELAYS[index].is_zero();
    let base: Vec<Duration> = (0..phases.len())
        .filter(|index| without(*index))
        .flat_map(|index| phases[index].modern.iter().copied())
        .collect();
    let (base, fastest) = (median(&base), fastest_tenth(&base));
    let (mut modern, mut violations) = (Vec::new(), Vec::new());
    let (mut legacy, mut failures) = (Vec::new(), Vec::new());
    for (phase, delay) in phases.iter().zip(DELAYS) {
        let (took, ms) = (median(&phase.modern), delay.as_millis());
        let ratio = took.as_secs_f64() / base.as_secs_f64().max(f64::EPSILON);
        modern.push(format!("{ms} ms: {:.1} ms ({ratio:.2}, {} calls)", millis(took), phase.modern.len()));
        legacy.push(format!("{ms} ms: {:.0} ms ({})", millis(median(&phase.legacy)), phase.legacy.len()));
        failures.extend(phase.failures.iter().cloned());
        if phase.modern.is_empty() || phase.legacy.is_empty() {
            failures.push(format!("the run shows nothing: no calls with a delay of {ms} ms"));
        }
        let rise = fastest_tenth(&phase.modern).saturating_sub(fastest);
        if !delay.is_zero() && rise > delay / NOISE_SHARE {
            let rise = millis(rise);
            violations
                .push(format!("a delay of {ms} ms adds {rise:.0} ms to the fastest calls of 2026-07-28"));
        } else if is_asserted && ratio > RATIO_BAR {
            violations.push(format!("with {ms} ms the median is {ratio:.2} times that without a delay"));
        }
        if !delay.is_zero() && median(&phase.legacy) < delay / 2 {
            failures.push(format!("the run shows nothing: calls of sessions do not feel a delay of {ms} ms"));
        }
    }
    let without_delay = phases.iter().zip(DELAYS).filter(|(_, delay)| delay.is_zero());
    let cpu_base = without_delay.map(|(phase, _)| phase.cpu_s).fold(0.0, f64::max);
    let (mut cpu, mut busy) = (Vec::new(), Vec::new());
    for (phase, delay) in phases.iter().zip(DELAYS) {
        let (ratio, ms) = (phase.cpu_s / cpu_base.max(f64::EPSILON), delay.as_millis());
        cpu.push(format!("{ms} ms: {:.1} s ({ratio:.2})", phase.cpu_s));
        if ratio > CPU_BAR {
            busy.push(format!("with {ms} ms the nodes use {ratio:.2} times the processor time"));
        }
    }
    vec![
        FleetClaim::new("F5", "nodes use no processor while they wait for Redis", cpu.join("; "), busy),
        FleetClaim::new("F5", "calls of 2026-07-28 take as long as before", modern.join("; "), violations),
        FleetClaim::new("F5", "sessions go on, slower by the delay", legacy.join("; "), failures),
    ]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn median(times: &[Duration]) -> Duration {
    part(times, 2)
}

fn fastest_tenth(times: &[Duration]) -> Duration {
    part(times, 10)
}

/// Returns the time within which one of so many calls has ended.
fn part(times: &[Duration], of: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / of).copied().unwrap_or_default()
}

/// Number of commands that Redis has had, without this count.
fn commands(redis: &mut Connection) -> redis::RedisResult<u64> {
    let text: String = redis::cmd("INFO").arg("commandstats").query(redis)?;
    let of_line = |line: &str| {
        let (name, values) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let calls = values.strip_prefix("calls=")?.split_once(',')?.0.parse::<u64>().ok()?;
        (name != "info").then_some(calls)
    };
    Ok(text.lines().filter_map(of_line).sum())
}

/// Keys of the leases, which a node that joins again has another one of.
fn node_keys(redis: &mut Connection) -> redis::RedisResult<BTreeSet<String>> {
    redis.keys("h:n:*")
}

fn epochs(redis: &mut Connection) -> redis::RedisResult<Vec<u64>> {
    let keys: Vec<String> = redis.keys("h:s:{*}")?;
    let mut epochs = Vec::new();
    for key in keys.iter().filter(|key| key.ends_with('}')) {
        epochs.extend(redis.hget::<_, _, Option<u64>>(key, "epoch")?);
    }
    Ok(epochs)
}
