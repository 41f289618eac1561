//! A fleet of real processes behind a load balancer, its clients and its faults, for `cargo xtask fleet`.
//!
//! ```text
//! hospes-fleet-acceptance serve REVISION EFFECTS [PORT]      the server under test, over stdio or HTTP
//! hospes-fleet-acceptance serve-load PORT                    the server behind what is measured, over HTTP
//! hospes-fleet-acceptance up FOLDER CONFIG                   a fleet until it is told to end; prints its URL
//! hospes-fleet-acceptance check PART FOLDER CLIENTS SECONDS INTERVAL [assert]
//!                                                            claims and tables as lines of JSON
//! ```
//!
//! `HOSPES_PROGRAM` names the program of a node; with `HOSPES_FLEET_NODES=0` there is one node without `[fleet]`, to try
//! the clients.

mod approval_run;
mod attempts;
mod balancer;
mod call;
mod call_load;
mod child;
mod claim;
mod clocks;
mod cluster;
mod cost;
mod crowd;
mod cuts;
mod database;
mod decider;
mod failover;
mod figures;
mod guarded_caller;
mod http;
mod journal;
mod kept_connection;
mod legacy_client;
mod load_server;
mod modern_client;
mod node;
mod outages;
mod owners;
mod patroni_failover;
mod peer_gateway;
mod plain_client;
mod rolls;
mod scenario;
mod slow_redis;
mod stream_crowd;
mod token_times;
mod upstream;
mod usage;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hospes::transport::shutdown_signal;

use crate::cluster::{ClusterOptions, ClusterVariant, NodeCluster};
use crate::scenario::RunSize;

// Engines and nodes end with the thread that starts them, and `block_on` stays on the main thread.
#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hospes-fleet-acceptance: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(words: &[&str]) -> Result<()> {
    match words {
        ["serve", revision, effects, port @ ..] => {
            let revision = revision.parse().with_context(|| format!("{revision} is no revision"))?;
            let port = port.first().map(|port| port.parse()).transpose()?;
            upstream::serve(revision, Path::new(effects), port).await
        }
        ["serve-load", port] => load_server::serve(port.parse()?).await,
        ["up", folder, servers] => {
            let mut options = options(folder)?;
            options.servers = std::fs::canonicalize(servers).with_context(|| format!("finding {servers}"))?;
            let end = shutdown_signal()?;
            let cluster = NodeCluster::start(&options).await?;
            eprintln!("listening on http://127.0.0.1:{}/mcp", cluster.balancer.port());
            end.await;
            Ok(())
        }
        ["check", part, folder, clients, length, interval, bar @ ..] => {
            let size = run_size([clients, length, interval], !bar.is_empty())?;
            let claims = match *part {
                "F2" => scenario::kill_owners(options(folder)?, size).await?,
                "F3" => rolls::replace_nodes(options(folder)?, size).await?,
                "F4" => cuts::cut_links(options(folder)?, size).await?,
                "F5" => slow_redis::delay_links(options(folder)?, size).await?,
                "F6" => outages::end_engines(options(folder)?, size).await?,
                "F7" => failover::lose_primary(options(folder)?, size).await?,
                "F7-patroni" => patroni_failover::lose_primaries(options(folder)?, size).await?,
                "F8" => clocks::set_apart(options(folder)?, size).await?,
                "F9" => cost::compare_costs(options(folder)?, size).await?,
                "F10" => crowd::hold_sessions(options(folder)?, size).await?,
                _ => bail!("no part is called {part}; there are F2 to F10 and F7-patroni"),
            };
            claims.iter().try_for_each(claim::FleetClaim::print)
        }
        _ => bail!(
            "expected `serve REVISION EFFECTS [PORT]`, `serve-load PORT`, `up FOLDER CONFIG` or \
             `check F2|F3|F4|F5|F6|F7|F7-patroni|F8|F9|F10 FOLDER CLIENTS SECONDS INTERVAL [assert]`"
        ),
    }
}

fn options(folder: &str) -> Result<ClusterOptions> {
    let program = std::env::var_os("HOSPES_PROGRAM").context("HOSPES_PROGRAM is not set")?;
    let nodes = std::env::var("HOSPES_FLEET_NODES").map_or(Ok(3), |count| count.parse::<usize>())?;
    Ok(ClusterOptions {
        program: PathBuf::from(program),
        folder: PathBuf::from(folder),
        servers: PathBuf::new(),
        nodes: nodes.max(1),
        policy: None,
        keeps_redis_data: false,
        is_fleet: nodes > 0,
        variant: ClusterVariant::default(),
    })
}

fn run_size(numbers: [&str; 3], is_long: bool) -> Result<RunSize> {
    let [clients, length, interval] = numbers;
    let seconds = |text: &str| anyhow::Ok(Duration::from_secs(text.parse()?));
    Ok(RunSize { clients: clients.parse()?, length: seconds(length)?, interval: seconds(interval)?, is_long })
}
