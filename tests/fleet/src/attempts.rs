//! Rate limits of the built-in authorization server: attempts at all nodes, with Redis and without.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hyper::Method;
use serde_json::json;
use tokio::time::sleep;

use crate::claim::FleetClaim;
use crate::cluster::{ClusterOptions, EffectServers, NodeCluster};
use crate::http::{HttpRequest, send};

/// Registrations of clients from one address: so many at once, and one more after each interval.
const BURST: usize = 10;
const INTERVAL: Duration = Duration::from_secs(6);

/// Attempts of a round, at all nodes in turn.
const ATTEMPTS: usize = 30;

/// Time after which each node has counted the others.
const COUNTING_TIME: Duration = Duration::from_secs(7);

/// Time within which the limits are shared again after Redis is back.
const RECOVERY_LIMIT: Duration = Duration::from_secs(15);

/// Longest time of an attempt: nodes do not wait for Redis.
const ANSWER_BAR: Duration = Duration::from_secs(2);

/// Attempts of one address.
#[derive(Debug, Default)]
struct AttemptRound {
    admitted: usize,
    took: Duration,
    longest: Duration,
    others: Vec<String>,
}

impl AttemptRound {
    /// Attempts that a limit of one server admits in the time of the round.
    fn limit(&self) -> usize {
        let later = self.took.as_secs_f64() / INTERVAL.as_secs_f64();
        // Whole numbers far below what a float can represent.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small positive number"
        )]
        let later = later.ceil() as usize;
        BURST + later
    }

    fn check(&self, at_least: usize, what: &str, violations: &mut Vec<String>) {
        if self.admitted > self.limit() || self.admitted < at_least {
            violations.push(format!(
                "{what}: {} of {ATTEMPTS} attempts admitted, not {at_least} to {}",
                self.admitted,
                self.limit()
            ));
        }
        if self.longest > ANSWER_BAR {
            violations.push(format!("{what}: an attempt took {:.1} s", self.longest.as_secs_f64()));
        }
        violations.extend(self.others.iter().map(|other| format!("{what}: {other}")));
    }
}

/// Starts a fleet with an authorization server and makes attempts before, during and after an outage of Redis.
pub(crate) async fn limit_attempts(mut options: ClusterOptions) -> Result<FleetClaim> {
    options.folder = options.folder.join("attempts");
    (options.policy, options.keeps_redis_data, options.variant.has_auth) = (None, false, true);
    std::fs::create_dir_all(&options.folder)?;
    let effects = options.folder.join("effects");
    std::fs::write(&effects, "")?;
    let servers = EffectServers::start(&options.folder, &effects).await?;
    options.servers.clone_from(&servers.file);
    let mut cluster = NodeCluster::start(&options).await?;
    sleep(COUNTING_TIME).await;
    let mut violations = Vec::new();
    let before = attempt(&cluster, 1).await?;
    before.check(BURST, "with Redis", &mut violations);
    cluster.redis.as_mut().context("there is no Redis")?.kill();
    let during = attempt(&cluster, 2).await?;
    let share = BURST / cluster.nodes.len();
    during.check(share, "without Redis", &mut violations);
    cluster.redis.as_mut().context("there is no Redis")?.restart();
    let (begun, mut address) = (Instant::now(), 3);
    let after = loop {
        let after = attempt(&cluster, address).await?;
        // While one node still applies its part, the nodes admit a few more.
        let is_shared = (BURST..=after.limit()).contains(&after.admitted);
        if is_shared || begun.elapsed() > RECOVERY_LIMIT {
            break after;
        }
        address += 1;
    };
    after.check(BURST, "after Redis is back", &mut violations);
    let measured = format!(
        "{ATTEMPTS} attempts at {} nodes: {} admitted with Redis, {} without, {} after {:.1} s; longest {:.2} s",
        cluster.nodes.len(),
        before.admitted,
        during.admitted,
        after.admitted,
        begun.elapsed().as_secs_f64(),
        during.longest.as_secs_f64()
    );
    Ok(FleetClaim::new("F6", "attempts at all nodes are limited as at one", measured, violations))
}

/// Registers clients from one address, at all nodes in turn.
async fn attempt(cluster: &NodeCluster, address: u8) -> Result<AttemptRound> {
    let (begun, mut round) = (Instant::now(), AttemptRound::default());
    for number in 0..ATTEMPTS {
        let node = &cluster.nodes[number % cluster.nodes.len()];
        let body = json!({
            "client_name": format!("client {number}"),
            "redirect_uris": ["http://127.0.0.1/callback"],
            "token_endpoint_auth_method": "none"
        });
        let request = HttpRequest {
            port: node.port(),
            method: Method::POST,
            path: "/register".to_owned(),
            headers: vec![
                ("host", cluster.auth_host().context("the nodes have no authorization server")?),
                ("content-type", "application/json".to_owned()),
                // Nodes trust this machine as a proxy.
                ("x-forwarded-for", format!("192.0.2.{address}")),
            ],
            body: body.to_string(),
        };
        let sent = Instant::now();
        let response = send(request).await?;
        round.longest = round.longest.max(sent.elapsed());
        match response.status {
            201 => round.admitted += 1,
            429 => {}
            status => round.others.push(format!("status {status}: {}", response.text().await?)),
        }
    }
    round.took = begun.elapsed();
    Ok(round)
}
