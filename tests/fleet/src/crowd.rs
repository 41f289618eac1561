//! F10: many sessions with open streams over all nodes, and calls while they are open, beside another gateway.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use hospes_fleet_testkit::redis_server::RedisServer;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::call_load::{CallLoad, CallTarget, LoadResult};
use crate::claim::FleetClaim;
use crate::cluster::ClusterOptions;
use crate::cost::{GROUPS, groups, start_nodes, target};
use crate::figures::{FigureTable, ValueSpread, build_of, quantile, save, time};
use crate::load_server::LoadServer;
use crate::peer_gateway::PeerGateway;
use crate::scenario::RunSize;
use crate::stream_crowd::{NotificationRound, StreamCrowd};
use crate::usage::ProcessGroups;

/// Open files of a process that has a connection for each session, besides these.
const FILES_BESIDES: u64 = 4096;

/// Open files of a balancer besides those of connections.
const FILES_OF_BALANCER: u64 = 500;

/// Open files with which one balancer has room for all connections.
const WHOLE_FILES: u64 = 65_536;

/// Sessions of the first calls, after which memory is looked at.
const FIRST_SESSIONS: usize = 20;

/// Interval of looks at memory until it is steady.
const SETTLE_INTERVAL: Duration = Duration::from_millis(500);

/// Time within which memory has to be steady.
const SETTLE_LIMIT: Duration = Duration::from_secs(30);

/// Share by which memory may change between two looks while it is steady.
const STEADY_SHARE: f64 = 0.002;

/// Calls in flight.
const CLIENTS: usize = 16;

/// Sessions that calls belong to, which were called before.
const CALLED_SESSIONS: usize = 4 * CLIENTS;

/// Time before the calls are measured.
const WARM: Duration = Duration::from_secs(1);

/// Changes of the list of tools.
const ROUNDS: usize = 3;

/// Sessions of the other gateway in the short form, which opens a few in each second.
const SHORT_PEER_SESSIONS: usize = 40;

/// Time for one change to reach all streams.
const NOTIFICATION_LIMIT: Duration = Duration::from_secs(60);

/// Same times for the other gateway, which was never seen to tell anybody.
const PEER_NOTIFICATION_LIMIT: Duration = Duration::from_secs(10);

/// Time after which no repeated notification is expected.
const REPEAT_TIME: Duration = Duration::from_millis(500);

/// Calls per second beside those of the other gateway.
const RATE_BAR: f64 = 20.0;

/// p99 of a call beside that of the other gateway.
const TAIL_BAR: f64 = 1.0 / 20.0;

/// Gateway with many sessions.
struct CrowdGateway<'a> {
    target: CallTarget,
    /// Ports at which streams are opened besides that of the target.
    more_ports: Vec<u16>,
    groups: ProcessGroups,
    redis: &'a RedisServer,
    /// True if it is a fleet of ours, which serves revision 2026-07-28, too.
    is_ours: bool,
}

/// Observed capacity of a gateway.
struct CrowdResult {
    asked: usize,
    sessions: usize,
    open_time: Duration,
    failures: Vec<String>,
    /// Memory of each session, in KiB.
    node_kib: f64,
    redis_kib: f64,
    balancer_kib: f64,
    rounds: Vec<NotificationRound>,
    /// Calls of sessions, then of revision 2026-07-28.
    calls: Vec<(&'static str, LoadResult)>,
}

/// Holds the sessions; `size` has their number, the length of the calls and the seconds for opening them.
pub(crate) async fn hold_sessions(mut options: ClusterOptions, size: RunSize) -> Result<Vec<FleetClaim>> {
    let files = provide_files(size.clients)?;
    std::fs::create_dir_all(&options.folder)?;
    options.folder = std::fs::canonicalize(&options.folder)?;
    let (connections, balancers) = plan_balancers(size.clients, files);
    options.variant.connections = Some(connections);
    options.variant.more_balancers = balancers - 1;
    let server = LoadServer::start(&options.folder).await?;
    let cluster = start_nodes(&options, "fleet", options.nodes, true).await?;
    let gateway = CrowdGateway {
        target: target(cluster.balancer.port()),
        more_ports: cluster.more_balancers.iter().map(|balancer| balancer.port()).collect(),
        groups: groups(&cluster, &server),
        redis: cluster.redis.as_ref().context("F10 needs a fleet")?,
        is_ours: true,
    };
    let ours = gateway.measure(&server, size).await.context("the fleet")?;
    drop(cluster);
    let mut claims = ours.claims(size);
    let mut results = vec![(format!("Hospes, {} nodes", options.nodes), ours)];
    let (workers, peer_size) = if size.is_long {
        (&[1, 2][..], size)
    } else {
        (&[1][..], RunSize { clients: size.clients.min(SHORT_PEER_SESSIONS), ..size })
    };
    for workers in workers {
        match measure_peer(&options, &server, peer_size, *workers).await {
            Ok((name, theirs)) => {
                claims.push(compare(&results[0].1, &theirs, &name, size.is_long));
                results.push((name, theirs));
            }
            Err(error) => {
                let claim = format!("beside mcp-contextforge-gateway with {workers} workers");
                claims.push(FleetClaim::new(
                    "F10",
                    &claim,
                    "not measured".to_owned(),
                    vec![format!("{error:#}")],
                ));
            }
        }
    }
    print_tables(&results, &options)?;
    let figures = results.iter().map(|(name, result)| (name.clone(), result.to_json()));
    let figures = json!({ "gateways": figures.collect::<serde_json::Map<_, _>>() });
    save(&options.folder.join("sessions.json"), &options.program, figures)?;
    Ok(claims)
}

/// Measures the other gateway, and returns its name with its version.
async fn measure_peer(
    options: &ClusterOptions,
    server: &LoadServer,
    size: RunSize,
    workers: usize,
) -> Result<(String, CrowdResult)> {
    let folder = options.folder.join(format!("contextforge{workers}"));
    let peer = PeerGateway::start(&folder, &server.url(), workers).await?;
    let mut groups = ProcessGroups::default();
    peer.add_to(&mut groups);
    groups.add("server", vec![server.pid()]);
    let gateway = CrowdGateway {
        target: peer.target.clone(),
        more_ports: Vec::new(),
        groups,
        redis: peer.redis(),
        is_ours: false,
    };
    let name = format!("mcp-contextforge-gateway {}, workers: {workers}", peer.version);
    Ok((name, gateway.measure(server, size).await?))
}

/// Raises the limit of open files as far as this takes, for us and all that we start. Returns the limit.
fn provide_files(sessions: usize) -> Result<u64> {
    let wanted = u64::try_from(sessions)? + FILES_BESIDES;
    let limit = getrlimit(Resource::Nofile);
    let maximum = limit.maximum.unwrap_or(WHOLE_FILES).min(WHOLE_FILES);
    ensure!(
        maximum >= wanted,
        "{sessions} sessions need {wanted} open files of one process, and `ulimit -Hn` is {maximum}: raise `nofile` in \
         /etc/security/limits.conf, or LimitNOFILE of the service that started this, to {WHOLE_FILES}"
    );
    if limit.current.is_some_and(|current| current < maximum) {
        let raised = Rlimit { current: Some(maximum), maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised).with_context(|| format!("raising `ulimit -n` to {maximum}"))?;
    }
    Ok(maximum)
}

/// Returns the connections of each balancer, and the number of balancers: one opens two files for each connection.
fn plan_balancers(sessions: usize, files: u64) -> (usize, usize) {
    // Two and a half for each session: its stream, and others while it is opened.
    let wanted = (sessions * 5 / 2).max(4000);
    let most = usize::try_from(files.saturating_sub(FILES_OF_BALANCER) / 2).unwrap_or(usize::MAX).max(1);
    let balancers = wanted.div_ceil(most);
    (wanted.div_ceil(balancers), balancers)
}

impl CrowdGateway<'_> {
    async fn measure(&self, server: &LoadServer, size: RunSize) -> Result<CrowdResult> {
        let first =
            StreamCrowd::open(std::slice::from_ref(&self.target), FIRST_SESSIONS, size.interval).await;
        ensure!(!first.sessions.is_empty(), "no session was opened: {:?}", first.failures.first());
        self.call(&first.sessions, WARM).await?;
        drop(first);
        let before = self.steady_memory().await?;
        let mut targets = vec![self.target.clone()];
        targets.extend(self.more_ports.iter().map(|port| CallTarget { port: *port, ..self.target.clone() }));
        let mut crowd = StreamCrowd::open(&targets, size.clients, size.interval).await;
        let after = self.steady_memory().await?;
        let count = crowd.sessions.len().max(1) as f64;
        let [node_kib, redis_kib, balancer_kib] = [0, 1, 2].map(|part| (after[part] - before[part]) / count);
        let mut rounds = Vec::new();
        let limit = if self.is_ours { NOTIFICATION_LIMIT } else { PEER_NOTIFICATION_LIMIT };
        for _ in 0..ROUNDS {
            crowd.drain();
            let since = Instant::now();
            server.change_list().await?;
            let mut round = crowd.wait_for_notification(since, limit).await;
            sleep(REPEAT_TIME).await;
            round.repeats += crowd.drain();
            let is_none = round.times.is_empty();
            rounds.push(round);
            if is_none {
                break;
            }
        }
        let called = &crowd.sessions[..crowd.sessions.len().min(CALLED_SESSIONS)];
        let mut calls = vec![("sessions", self.call(called, size.length).await?)];
        if self.is_ours {
            calls.push(("2026-07-28", self.call(&[], size.length).await?));
        }
        crowd.drain();
        Ok(CrowdResult {
            asked: size.clients,
            sessions: crowd.sessions.len(),
            open_time: crowd.open_time,
            failures: std::mem::take(&mut crowd.failures),
            node_kib,
            redis_kib,
            balancer_kib,
            rounds,
            calls,
        })
    }

    async fn call(&self, sessions: &[String], length: Duration) -> Result<LoadResult> {
        let (target, sessions) = (self.target.clone(), Arc::from(sessions));
        CallLoad { target, sessions, clients: CLIENTS, warm: WARM, length }.run(&self.groups).await
    }

    /// KiB as [`Self::memory`], once they do not change any more.
    async fn steady_memory(&self) -> Result<[f64; 3]> {
        let (start, mut last) = (Instant::now(), self.memory()?);
        loop {
            sleep(SETTLE_INTERVAL).await;
            let now = self.memory()?;
            let is_steady = |(now, last): (f64, f64)| (now - last).abs() <= now * STEADY_SHARE;
            if now.into_iter().zip(last).all(is_steady) {
                return Ok(now);
            }
            ensure!(start.elapsed() < SETTLE_LIMIT, "the memory of the processes does not become steady");
            last = now;
        }
    }

    /// KiB of the nodes, of what Redis keeps, and of the balancer.
    fn memory(&self) -> Result<[f64; 3]> {
        let text: String = self.redis.command(&["INFO", "memory"]);
        let line = text.lines().find_map(|line| line.strip_prefix("used_memory:"));
        let bytes: f64 = line.context("Redis does not state its memory")?.trim().parse()?;
        let of = |name: &str| self.groups.usage(name).resident_kib as f64;
        Ok([of("nodes"), bytes / 1024.0, of("HAProxy")])
    }
}

impl CrowdResult {
    /// Times of the notifications of all rounds together: median, p99 and last.
    fn notification_times(&self) -> [u64; 3] {
        let mut times: Vec<u64> = self.rounds.iter().flat_map(|round| round.times.iter().copied()).collect();
        times.sort_unstable();
        [0.5, 0.99, 1.0].map(|share| quantile(&times, share))
    }

    fn notified(&self) -> usize {
        self.rounds.iter().map(|round| round.times.len()).min().unwrap_or_default()
    }

    fn claims(&self, size: RunSize) -> Vec<FleetClaim> {
        let mut open = self.failures.clone();
        if self.sessions < size.clients {
            open.push(format!("{} of {} sessions were opened", self.sessions, size.clients));
        }
        let open_rate = self.sessions as f64 / self.open_time.as_secs_f64().max(f64::EPSILON);
        let memory = format!(
            "{} sessions, {open_rate:.0} opened per second; {:.1} KiB of nodes, {:.1} of Redis, {:.1} of HAProxy for each",
            self.sessions, self.node_kib, self.redis_kib, self.balancer_kib
        );
        let mut told = Vec::new();
        if self.notified() < self.sessions {
            told.push(format!("a change reached {} of {} streams", self.notified(), self.sessions));
        }
        let lasts: Vec<f64> =
            self.rounds.iter().map(|round| quantile(&round.times, 1.0) as f64 / 1e6).collect();
        let [median, tail, _] = self.notification_times().map(time);
        let repeats: usize = self.rounds.iter().map(|round| round.repeats).sum();
        let notified = format!(
            "median {median}, p99 {tail}, last {:.0} ms in {} rounds; {repeats} repeated",
            ValueSpread::of(&lasts),
            self.rounds.len()
        );
        let calls = self.calls.iter().map(|(era, result)| format!("{era} {}", result.brief()));
        let failed = self.calls.iter().flat_map(|(era, result)| result.violations(era)).collect();
        let measured = format!("{}; {CLIENTS} clients", calls.collect::<Vec<_>>().join(", "));
        vec![
            FleetClaim::new("F10", "sessions with open streams", memory, open),
            FleetClaim::new("F10", "a changed list reaches all streams", notified, told),
            FleetClaim::new("F10", "calls while the streams are open", measured, failed),
        ]
    }

    fn to_json(&self) -> Value {
        let rounds = self.rounds.iter().map(|round| {
            let [median, tail, last] = [0.5, 0.99, 1.0].map(|share| quantile(&round.times, share) as f64 / 1e6);
            json!({
                "notified": round.times.len(), "repeats": round.repeats, "p50_ms": median, "p99_ms": tail, "last_ms": last,
            })
        });
        let calls = self.calls.iter().map(|(era, result)| ((*era).to_owned(), result.to_json()));
        json!({
            "sessions": self.sessions, "asked": self.asked, "open_s": self.open_time.as_secs_f64(),
            "failures": self.failures.len(), "first_failure": self.failures.first(),
            "node_kib": self.node_kib, "redis_kib": self.redis_kib, "balancer_kib": self.balancer_kib,
            "notifications": rounds.collect::<Vec<_>>(), "calls": calls.collect::<serde_json::Map<_, _>>(),
        })
    }
}

fn compare(ours: &CrowdResult, theirs: &CrowdResult, name: &str, is_asserted: bool) -> FleetClaim {
    let ([(_, our_calls), ..], [(_, their_calls), ..]) = (&ours.calls[..], &theirs.calls[..]) else {
        return FleetClaim::new("F10", name, String::new(), vec!["no calls were made".to_owned()]);
    };
    let rate = our_calls.rate() / their_calls.rate().max(f64::EPSILON);
    let tail = our_calls.quantile(0.99) as f64 / (their_calls.quantile(0.99) as f64).max(f64::EPSILON);
    let mut violations = Vec::new();
    for (calls, what) in [(our_calls, "ours"), (their_calls, "the other gateway")] {
        // Without answers, the ratio is one of nothing.
        if calls.times.is_empty() {
            violations.extend(calls.violations(what));
        }
    }
    if is_asserted && rate < RATE_BAR {
        violations.push(format!("{rate:.1} times its calls/s; the bar is {RATE_BAR}"));
    }
    if is_asserted && tail > TAIL_BAR {
        violations.push(format!("{tail:.3} of its p99; the bar is {TAIL_BAR}"));
    }
    let measured = format!(
        "{rate:.1} times its calls/s, {tail:.3} of its p99; it held {} of {} sessions, {} of them notified, {}, {} calls failed",
        theirs.sessions,
        theirs.asked,
        theirs.notified(),
        their_calls.brief(),
        their_calls.errors.len()
    );
    FleetClaim::new("F10", &format!("beside {name}"), measured, violations)
}

fn print_tables(results: &[(String, CrowdResult)], options: &ClusterOptions) -> Result<()> {
    let title = format!("Sessions with open streams ({} build)", build_of(&options.program));
    let columns = [
        "",
        "sessions",
        "opened/s",
        "KiB of nodes",
        "KiB of Redis",
        "KiB of HAProxy",
        "notified",
        "p50",
        "p99",
        "last",
    ];
    let mut held = FigureTable::new(&title, &columns);
    let title = format!("Calls while they are open, {CLIENTS} in flight; processor time for each call");
    let mut called =
        FigureTable::new(&title, &[&["", "calls/s", "p50", "p99", "failed"][..], &GROUPS].concat());
    for (name, result) in results {
        let mut row = vec![name.clone(), result.sessions.to_string()];
        row.push(format!("{:.0}", result.sessions as f64 / result.open_time.as_secs_f64().max(f64::EPSILON)));
        row.extend([result.node_kib, result.redis_kib, result.balancer_kib].map(|kib| format!("{kib:.1}")));
        row.push(result.notified().to_string());
        let is_notified = result.notified() > 0;
        row.extend(
            result.notification_times().map(|nanos| if is_notified { time(nanos) } else { "–".to_owned() }),
        );
        held.add(row);
        for (era, calls) in &result.calls {
            let mut row = vec![format!("{name}, {era}"), format!("{:.0}", calls.rate())];
            row.extend([0.5, 0.99].map(|share| time(calls.quantile(share))));
            row.push(calls.errors.len().to_string());
            row.extend(GROUPS.map(|group| calls.cpu_of_a_call(group)));
            called.add(row);
        }
    }
    held.print()?;
    called.print()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balancers_have_room_for_all_connections() {
        assert_eq!(plan_balancers(10_000, 65_536), (25_000, 1));
        assert_eq!(plan_balancers(10_000, 20_000), (8334, 3));
        assert_eq!(plan_balancers(300, 20_000), (4000, 1));
        assert_eq!(plan_balancers(10, 0).1, 4000);
    }
}
