//! F8: the clock of one node is 300 s ahead.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::sleep;

use crate::approval_run::{TOOL, use_decision};
use crate::claim::FleetClaim;
use crate::cluster::{ClusterOptions, ClusterVariant, EffectServers, NodeCluster};
use crate::cuts::{probe_client, wait_for};
use crate::decider;
use crate::node::CLOCK_OFFSET;
use crate::plain_client::PlainClient;
use crate::scenario::RunSize;
use crate::token_times::use_tokens;

/// Node whose clock is ahead, and two that are right.
const AHEAD: usize = 1;
const RIGHT: [usize; 2] = [0, 2];

/// Time for which a call waits for a person: far below the offset.
const ASK_TIME: Duration = Duration::from_secs(20);

/// Time before a decision, in which other nodes look at the approval several times.
const THINKING_TIME: Duration = Duration::from_secs(4);

/// Time in which an approval shows at another node, or is gone there after its end.
const SIGHT_LIMIT: Duration = Duration::from_secs(5);

/// Maximum difference of a clock from what it is set to: `Date` has whole seconds, and the machine may be busy.
const CLOCK_TOLERANCE: f64 = 5.0;

/// Time for an adoption.
const ADOPTION_LIMIT: Duration = Duration::from_secs(20);

/// Runs all checks.
pub(crate) async fn set_apart(mut options: ClusterOptions, _size: RunSize) -> Result<Vec<FleetClaim>> {
    std::fs::create_dir_all(&options.folder)?;
    options.folder = std::fs::canonicalize(&options.folder)?;
    let effects = options.folder.join("effects");
    std::fs::write(&effects, "")?;
    let servers = EffectServers::start(&options.folder, &effects).await?;
    options.servers.clone_from(&servers.file);
    options.variant =
        ClusterVariant { asks_for: Some(ASK_TIME), node_ahead: Some(AHEAD), ..ClusterVariant::default() };
    let mut cluster = NodeCluster::start(&options).await?;
    ensure!(cluster.nodes.len() == 3, "F8 needs three nodes");
    let mut claims = vec![
        read_clocks(&cluster).await?,
        use_approvals(&cluster).await?,
        end_approvals(&cluster).await?,
        hold_calls(&cluster).await?,
        serve_sessions(&mut cluster).await?,
    ];
    drop(cluster);
    claims.extend(use_tokens(options, AHEAD).await?);
    Ok(claims)
}

/// Shows that the clocks differ. Otherwise nothing else is shown.
async fn read_clocks(cluster: &NodeCluster) -> Result<FleetClaim> {
    let (mut offsets, mut violations) = (Vec::new(), Vec::new());
    for (index, node) in cluster.nodes.iter().enumerate() {
        let offset = node.clock().await?.duration_since(Timestamp::now()).as_secs_f64();
        let expected = if index == AHEAD { CLOCK_OFFSET.as_secs_f64() } else { 0.0 };
        if (offset - expected).abs() > CLOCK_TOLERANCE {
            violations.push(format!(
                "the run shows nothing: the clock of node {} is {offset:+.0} s off, not {expected:+.0} s",
                index + 1
            ));
        }
        offsets.push(format!("{offset:+.0} s"));
    }
    Ok(FleetClaim::new("F8", "the clocks of the nodes differ", offsets.join(", "), violations))
}

/// Calls that are asked about at one node, and decided and used at another.
async fn use_approvals(cluster: &NodeCluster) -> Result<FleetClaim> {
    let mut violations = Vec::new();
    let [right, other] = RIGHT;
    let places = [(right, AHEAD, AHEAD), (right, AHEAD, other), (AHEAD, right, right), (right, other, AHEAD)];
    for (number, (asked, decided, used)) in places.into_iter().enumerate() {
        let what = format!("asked at {}, decided at {}, used at {}", asked + 1, decided + 1, used + 1);
        if let Err(error) = use_approval(cluster, (asked, decided, used), &format!("use-{number}")).await {
            violations.push(format!("{what}: {error:#}"));
        }
    }
    let measured = format!("{} of {} used", places.len() - violations.len(), places.len());
    Ok(FleetClaim::new(
        "F8",
        "request state opens, and approvals are usable, at other nodes",
        measured,
        violations,
    ))
}

async fn use_approval(
    cluster: &NodeCluster,
    (asked, decided, used): (usize, usize, usize),
    key: &str,
) -> Result<()> {
    let client = |node: usize| PlainClient {
        port: cluster.nodes[node].port(),
        name: "clocks".to_owned(),
        can_ask: true,
    };
    let first = client(asked).call(TOOL, key, &Value::Null).await?;
    let id = first.approval().with_context(|| format!("nothing was asked: {}", first.brief()))?;
    sleep(THINKING_TIME).await;
    wait_until_shown(cluster, decided, key).await?;
    decider::allow(cluster.nodes[decided].settings(), id).await?;
    let answer = use_decision(&client(used), key, &first).await?;
    ensure!(answer.is_result(), "not usable: {}", answer.brief());
    Ok(())
}

async fn wait_until_shown(cluster: &NodeCluster, node: usize, key: &str) -> Result<()> {
    let start = Instant::now();
    while !decider::list(cluster.nodes[node].settings()).await?.iter().any(|open| open.key == key) {
        ensure!(start.elapsed() < SIGHT_LIMIT, "node {} does not show the approval", node + 1);
    }
    Ok(())
}

/// Approvals that nobody decides end when their time is over, at each node.
async fn end_approvals(cluster: &NodeCluster) -> Result<FleetClaim> {
    let (mut ends, mut violations) = (Vec::new(), Vec::new());
    for asked in [RIGHT[0], AHEAD] {
        let key = format!("end-{asked}");
        let client = PlainClient { port: cluster.nodes[asked].port(), name: key.clone(), can_ask: true };
        let (start, first) = (Instant::now(), client.call(TOOL, &key, &Value::Null).await?);
        first.approval().with_context(|| format!("nothing was asked: {}", first.brief()))?;
        let mut shown: Vec<Option<Duration>> = vec![None; cluster.nodes.len()];
        let mut is_gone = false;
        while !is_gone && start.elapsed() < ASK_TIME + 2 * SIGHT_LIMIT {
            is_gone = true;
            for (node, last) in cluster.nodes.iter().zip(&mut shown) {
                if decider::list(node.settings()).await?.iter().any(|open| open.key == key) {
                    *last = Some(start.elapsed());
                }
                is_gone &= start.elapsed() > ASK_TIME
                    && last.is_none_or(|last| start.elapsed() > last + Duration::from_secs(1));
            }
        }
        for (node, last) in shown.iter().enumerate() {
            let last = last.map_or(0.0, |last| last.as_secs_f64());
            let expected = ASK_TIME.as_secs_f64();
            ends.push(format!("{last:.0} s"));
            if (last - expected).abs() > CLOCK_TOLERANCE {
                violations.push(format!(
                    "asked at {} for {expected:.0} s, last shown at {} after {last:.1} s",
                    asked + 1,
                    node + 1
                ));
            }
        }
    }
    Ok(FleetClaim::new("F8", "approvals end neither early nor late", ends.join(", "), violations))
}

/// Calls that wait at a node while another one decides.
async fn hold_calls(cluster: &NodeCluster) -> Result<FleetClaim> {
    let mut violations = Vec::new();
    let places = [(RIGHT[0], AHEAD), (AHEAD, RIGHT[0])];
    for (held, decided) in places {
        let key = format!("held-{held}");
        let client = PlainClient { port: cluster.nodes[held].port(), name: key.clone(), can_ask: false };
        let call = {
            let key = key.clone();
            tokio::spawn(async move { client.call(TOOL, &key, &Value::Null).await })
        };
        let decide = async {
            sleep(THINKING_TIME).await;
            wait_until_shown(cluster, decided, &key).await?;
            let open = decider::list(cluster.nodes[decided].settings()).await?;
            let open = open.into_iter().find(|open| open.key == key).context("it is over")?;
            decider::allow(cluster.nodes[decided].settings(), &open.id).await
        };
        let done = decide.await;
        let answer = call.await??;
        let what = format!("held at {}, decided at {}", held + 1, decided + 1);
        match done {
            Err(error) => violations.push(format!("{what}: {error:#}")),
            Ok(()) if !answer.is_result() => violations.push(format!("{what}: {}", answer.brief())),
            Ok(()) => {}
        }
    }
    let measured = format!("{} of {} decided", places.len() - violations.len(), places.len());
    Ok(FleetClaim::new("F8", "calls that wait are decided at other nodes", measured, violations))
}

/// Sessions are forwarded between nodes, and adopted when their owner is killed.
async fn serve_sessions(cluster: &mut NodeCluster) -> Result<FleetClaim> {
    let mut violations = Vec::new();
    let (mut forwarded, mut adopted) = (0, Vec::new());
    for (owner, other) in [(RIGHT[0], AHEAD), (AHEAD, RIGHT[1])] {
        let what = format!("a session of node {}, at node {}", owner + 1, other + 1);
        let session = probe_client(cluster.nodes[owner].port()).try_open().await;
        let session = session.map_err(anyhow::Error::msg).context("no session is opened")?;
        let client = probe_client(cluster.nodes[other].port());
        match client.ping(&session).await {
            Ok(200) => forwarded += 1,
            refused => violations.push(format!("{what}: not forwarded: {refused:?}")),
        }
        cluster.nodes[owner].kill();
        let start = Instant::now();
        match wait_for(ADOPTION_LIMIT, async || client.ping(&session).await == Ok(200)).await {
            Some(()) => adopted.push(format!("{:.1} s", start.elapsed().as_secs_f64())),
            None => violations.push(format!("{what}: not adopted within {} s", ADOPTION_LIMIT.as_secs())),
        }
        cluster.nodes[owner].restart()?;
        cluster.nodes[owner].wait_and_restart(Duration::from_secs(60)).await?;
        cluster.nodes[owner].wait_until_it_serves_sessions(Duration::from_secs(30)).await?;
    }
    let measured = format!("{forwarded} forwarded, adopted after {}", adopted.join(" and "));
    Ok(FleetClaim::new("F8", "sessions are forwarded and adopted", measured, violations))
}
