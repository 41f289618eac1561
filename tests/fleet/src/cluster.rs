//! A fleet: Redis, PostgreSQL, nodes and a load balancer, all on loopback and below one folder.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use hospes_fleet_testkit::net_proxy::{AcceptMode, LinkDirection, LinkRules, NetProxy};
use hospes_fleet_testkit::patroni_cluster::{PatroniCluster, PatroniTimes};
use hospes_fleet_testkit::redis_server::{RedisOptions, RedisServer};
use serde_json::json;

use crate::balancer::LoadBalancer;
use crate::child::ChildProcess;
use crate::database::{ClusterDatabase, ReplicaKind};
use crate::decider;
use crate::node::{FleetNode, NodeFleetSettings, NodeSettings, NodeVariant};

/// Time for the first start of all nodes, which create the tables of the database.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Connections that the balancer accepts at once.
const CONNECTIONS: usize = 4000;

/// Secret of the fleet of a test.
const SECRET: &str = "a secret of this test alone, and long enough";

/// Parts of a fleet.
#[derive(Clone, Debug)]
pub(crate) struct ClusterOptions {
    /// Program of a node.
    pub(crate) program: PathBuf,
    /// Folder for everything.
    pub(crate) folder: PathBuf,
    /// Configuration file with the servers of all nodes.
    pub(crate) servers: PathBuf,
    /// Policy of all nodes.
    pub(crate) policy: Option<&'static str>,
    /// True if Redis keeps its data when it is killed.
    pub(crate) keeps_redis_data: bool,
    /// Number of nodes.
    pub(crate) nodes: usize,
    /// False: one node without `[fleet]`, to try the harness.
    pub(crate) is_fleet: bool,
    pub(crate) variant: ClusterVariant,
}

/// Differences from the usual fleet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClusterVariant {
    /// Time for which a call waits for a person, who is asked about each.
    pub(crate) asks_for: Option<Duration>,
    /// Node whose clock is ahead.
    pub(crate) node_ahead: Option<usize>,
    /// True if the endpoint of the nodes needs tokens, which their authorization server issues. Clients name
    /// [`NodeCluster::auth_host`] as the host of their requests.
    pub(crate) has_auth: bool,
    /// Replica of PostgreSQL; nodes know both.
    pub(crate) replica: Option<ReplicaKind>,
    /// PostgreSQL by Patroni, with these times, in place of another.
    pub(crate) patroni: Option<PatroniTimes>,
    /// True if nodes reach Redis and each other directly: links that can be cut take time, and accept connections for a
    /// killed node, whose address refuses them outside of tests.
    pub(crate) has_direct_links: bool,
    /// Connections of clients at each balancer at once, if they are more than usual.
    pub(crate) connections: Option<usize>,
    /// Balancers besides the first, where one may not open enough files.
    pub(crate) more_balancers: usize,
}

/// Fleet that ends when it is dropped.
#[derive(Debug)]
pub(crate) struct NodeCluster {
    pub(crate) nodes: Vec<FleetNode>,
    pub(crate) balancer: LoadBalancer,
    /// Others beside it, of the same nodes.
    pub(crate) more_balancers: Vec<LoadBalancer>,
    pub(crate) redis: Option<RedisServer>,
    /// Port of the public URL of the authorization server, at which nobody listens.
    auth_port: Option<u16>,
    /// Ways of each node to Redis.
    redis_links: Vec<NetProxy>,
    /// Ways of the other nodes to each node.
    node_links: Vec<NetProxy>,
    /// PostgreSQL, which ends after the nodes that use it, with its replica if there is one.
    pub(crate) database: Option<ClusterDatabase>,
    /// PostgreSQL by Patroni, in place of the other.
    pub(crate) patroni: Option<PatroniCluster>,
}

impl NodeCluster {
    /// Starts everything and waits until each node is ready.
    pub(crate) async fn start(options: &ClusterOptions) -> Result<Self> {
        fs::create_dir_all(&options.folder)
            .with_context(|| format!("creating {}", options.folder.display()))?;
        let folder = fs::canonicalize(&options.folder)?;
        let (mut redis, mut database, mut patroni, mut postgres) = (None, None, None, String::new());
        if options.is_fleet {
            let mut of_redis = RedisOptions::default();
            of_redis.append_only = options.keeps_redis_data;
            redis = Some(RedisServer::start(of_redis));
            if let Some(times) = options.variant.patroni {
                let cluster = tokio::task::block_in_place(|| PatroniCluster::start(times));
                postgres = patroni.insert(cluster).url();
            } else {
                postgres = database.insert(ClusterDatabase::start(options.variant.replica).await?).url();
            }
        }
        let auth_port = options.variant.has_auth.then(free_port).transpose()?;
        let (mut nodes, mut redis_links, mut node_links) = (Vec::new(), Vec::new(), Vec::new());
        for number in 1..=options.nodes {
            let mut fleet = None;
            if let Some(redis) = &redis {
                let node_port = free_port()?;
                let node_listen = format!("127.0.0.1:{node_port}");
                let (mut redis_port, mut node_address) = (redis.port(), node_listen.clone());
                if !options.variant.has_direct_links {
                    let redis_link = NetProxy::to_port(redis_port).await;
                    let node_link = NetProxy::to_port(node_port).await;
                    (redis_port, node_address) = (redis_link.port(), node_link.address().to_string());
                    redis_links.push(redis_link);
                    node_links.push(node_link);
                }
                fleet = Some(NodeFleetSettings {
                    secret: SECRET.to_owned(),
                    postgres: postgres.clone(),
                    redis: format!("redis://127.0.0.1:{redis_port}"),
                    node_listen,
                    node_address,
                });
            }
            let settings = NodeSettings {
                program: options.program.clone(),
                folder: folder.join(format!("node{number}")),
                port: free_port()?,
                servers: options.servers.clone(),
                policy: options.policy,
                fleet,
                variant: NodeVariant {
                    asks_for: options.variant.asks_for,
                    auth_port,
                    is_ahead: options.variant.node_ahead == Some(number - 1),
                },
            };
            if options.variant.asks_for.is_some() {
                decider::prepare(&settings)?;
            }
            nodes.push(FleetNode::start(settings)?);
        }
        for (index, node) in nodes.iter_mut().enumerate() {
            node.wait_and_restart(START_LIMIT).await.with_context(|| format!("node {}", index + 1))?;
        }
        let ports: Vec<u16> = nodes.iter().map(FleetNode::port).collect();
        let connections = options.variant.connections.unwrap_or(CONNECTIONS);
        let balancer = LoadBalancer::start(&folder, &ports, connections).await?;
        let mut more_balancers = Vec::new();
        for number in 0..options.variant.more_balancers {
            let folder = folder.join(format!("balancer{}", number + 2));
            fs::create_dir_all(&folder)?;
            more_balancers.push(LoadBalancer::start(&folder, &ports, connections).await?);
        }
        Ok(Self {
            nodes,
            balancer,
            more_balancers,
            redis,
            auth_port,
            redis_links,
            node_links,
            database,
            patroni,
        })
    }

    /// Host in the public URL of the authorization server, with [`ClusterVariant::has_auth`].
    pub(crate) fn auth_host(&self) -> Option<String> {
        self.auth_port.map(|port| format!("127.0.0.1:{port}"))
    }

    /// Drops all bytes between a node and Redis, without a word to either.
    pub(crate) fn cut_redis(&self, node: usize) {
        cut(&self.redis_links[node]);
    }

    /// Ends [`NodeCluster::cut_redis`].
    pub(crate) fn heal_redis(&self, node: usize) {
        heal(&self.redis_links[node]);
    }

    /// Delays what the nodes send to Redis.
    pub(crate) fn delay_redis(&self, delay: Duration) {
        for link in &self.redis_links {
            link.set(LinkDirection::ToServer, LinkRules::delayed(delay));
        }
    }

    /// Drops all bytes between the nodes.
    pub(crate) fn cut_nodes(&self) {
        self.node_links.iter().for_each(cut);
    }

    /// Ends [`NodeCluster::cut_nodes`].
    pub(crate) fn heal_nodes(&self) {
        self.node_links.iter().for_each(heal);
    }
}

fn cut(link: &NetProxy) {
    link.set_accept(AcceptMode::Silence);
    link.set(LinkDirection::ToServer, LinkRules::silent());
    link.set(LinkDirection::ToClient, LinkRules::silent());
}

fn heal(link: &NetProxy) {
    link.heal();
    // Connections that have lost bytes cannot go on; those of a real network would be reset by their first packet.
    link.reset_connections();
}

/// Returns a port that was free a moment ago.
pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("finding a free port")?;
    Ok(listener.local_addr()?.port())
}

/// Servers of which each call leaves a line in a file.
#[derive(Debug)]
pub(crate) struct EffectServers {
    /// Configuration file of the nodes.
    pub(crate) file: PathBuf,
    /// The server of an older revision: one process for all nodes, which goes on with a call when a node is killed.
    _legacy: ChildProcess,
}

impl EffectServers {
    /// Starts the server that nodes reach over HTTP. The other one is started by each node.
    pub(crate) async fn start(folder: &Path, effects: &Path) -> Result<Self> {
        let (program, port) = (std::env::current_exe()?, free_port()?);
        let effects = effects.to_string_lossy();
        let arguments = ["serve", "2025-11-25", &effects, &port.to_string()].map(str::to_owned);
        let mut legacy = ChildProcess::start(&program, &arguments, &[], &folder.join("legacy.log"))?;
        legacy.wait_until_it_listens(port, START_LIMIT).await?;
        // The strings of JSON are strings of TOML. Each session has a connection of its own to the older server.
        let url = format!("http://127.0.0.1:{port}/mcp");
        let tables = format!(
            "[servers.legacy]\nurl = {}\nmax_connections = 1024\n\
             [servers.modern]\nplacement = \"any\"\ncommand = {}\nargs = {}\n",
            json!(url),
            json!(program.to_string_lossy()),
            json!(["serve", "2026-07-28", effects])
        );
        let file = folder.join("servers.toml");
        fs::write(&file, tables).with_context(|| format!("writing {}", file.display()))?;
        Ok(Self { file, _legacy: legacy })
    }
}
