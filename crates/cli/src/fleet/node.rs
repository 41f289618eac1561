//! Node of a fleet: its lease, the sessions that it shares with the others, and the listener for them.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use hospes::transport::http_server::{DEFAULT_SESSION_IDLE_TIMEOUT, Endpoint, EndpointBuilder, EndpointSet};
use hospes_fleet::Relay;
use hospes_fleet::redis::{RedisClientIdentity, RedisRelay, RedisSettings};
use hospes_fleet::sealing::FleetKeys;
use hospes_host::approvals::ApprovalNodes;
use hospes_host::config::{FleetConfig, HostConfig};
use hospes_host::server::ServerPlaces;
use hospes_host::{Gateway, HostServers, RequestStateConfig, SharedFlowLabels};
use hospes_node::{
    DEFAULT_RENEWAL_INTERVAL, FleetRateLimits, FleetSecrets, FleetSessions, MeasuredRelay, Membership,
    NodeListener, NodeMetrics, NodePeers, NodeServer, ServerClaims,
};
use hospes_store::{AuditLog, AuditShipper, SharedAuditLog, StateStore};
use parking_lot::Mutex;

use super::approval_nodes::LeasedNodes;
use super::engine_settings::warn_about_engines;
use super::flows::RelayFlows;
use super::placement::{ClaimedServers, EndpointPlacement, accept_server, session_problem};
use super::rate_limits::NodeRateLimits;
use super::{read_identity, read_pem, secrets_for};
use crate::commands::serve::listen_error;
use crate::exit::{CliError, CliResult};
use crate::telemetry;

/// Longest time for which a node that ends gives its sessions away.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time for which a node that ends tells the others so.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Node that has joined its fleet and does not serve the others yet.
pub(crate) struct FleetNode {
    listener: NodeListener,
    member: FleetMember,
    secrets: FleetSecrets,
}

/// Membership of this process, with what its endpoints share.
#[derive(Clone)]
pub(crate) struct FleetMember {
    membership: Membership,
    /// Address at which other nodes reach this one.
    address: Arc<str>,
    peers: Arc<NodePeers>,
    rate_limits: NodeRateLimits,
    /// Servers that one node runs for all.
    claims: ServerClaims,
    /// Directories of the endpoints, by path.
    directories: Arc<Mutex<HashMap<String, FleetSessions>>>,
    metrics: NodeMetrics,
    /// Ships the audit log to the record of all nodes.
    shipper: Arc<Mutex<Option<AuditShipper>>>,
}

impl FleetNode {
    /// Listens for the other nodes and joins the fleet in the background. Returns `None` if the configuration has no
    /// fleet.
    pub(crate) async fn start(config: &HostConfig) -> CliResult<Option<Self>> {
        let Some(fleet) = &config.fleet else { return Ok(None) };
        let listener = NodeServer::bind(fleet.node_listen).await;
        let listener =
            listener.map_err(|error| listen_error(fleet.node_listen, "[fleet] node_listen", &error))?;
        let secrets = FleetSecrets::new(secret_bytes(fleet, "nodes")).ok_or_else(no_secret)?;
        let metrics = NodeMetrics::default();
        let relay: Arc<dyn Relay> =
            Arc::new(MeasuredRelay::new(Arc::new(redis_relay(fleet, false)?), metrics.clone()));
        let address = fleet.node_address.clone().unwrap_or_else(|| listener.local_addr().to_string());
        let membership = Membership::start(relay, &address, DEFAULT_RENEWAL_INTERVAL)
            .map_err(|error| CliError::usage("cannot start the thread of this node").with_cause(&error))?;
        metrics.set_membership(membership.clone());
        let peers = NodePeers::new(membership.clone(), secrets.clone());
        let peers = Arc::new(peers.metrics(metrics.clone()).tracer(telemetry::tracer()));
        let (address, directories) = (address.into(), Arc::default());
        let (claims, shipper) = (ServerClaims::new(membership.clone()), Arc::default());
        let rate_limits = NodeRateLimits(FleetRateLimits::new(Arc::clone(membership.relay())));
        let member =
            FleetMember { membership, address, peers, rate_limits, claims, directories, metrics, shipper };
        Ok(Some(Self { listener, member, secrets }))
    }

    /// Returns the membership.
    pub(crate) fn member(&self) -> FleetMember {
        self.member.clone()
    }

    /// Serves the endpoints to the other nodes, and the servers that run here for all of them. Never returns.
    pub(crate) async fn serve(
        self,
        (main, others): (Endpoint, EndpointSet),
        servers: HostServers,
        rounds: Option<RequestStateConfig>,
    ) -> Infallible {
        let claims = self.member.claims.clone();
        let accept =
            move |server| accept_server(server, claims.clone(), servers.clone(), rounds.clone()).boxed();
        let find = move |path: &str| if main.serves(path) { Some(main.clone()) } else { others.find(path) };
        let server = self.listener.servers(accept).server(self.member.membership, self.secrets, find);
        server.serve_until(std::future::pending(), Duration::ZERO).await;
        std::future::pending().await
    }
}

/// Returns the Redis server of a fleet. Connections are opened in the background; failures are logged unless it `is_quiet`.
pub(crate) fn redis_relay(fleet: &FleetConfig, is_quiet: bool) -> CliResult<RedisRelay> {
    let mut settings = RedisSettings::new(fleet.redis.reveal().into());
    settings.is_quiet = is_quiet;
    settings.ca_pem = read_pem("fleet.redis_ca", fleet.redis_ca.as_deref())?;
    let identity = read_identity("redis", fleet.redis_client.as_ref())?;
    settings.client_identity = identity.map(|(certificate, key)| RedisClientIdentity::new(certificate, key));
    let keys = FleetKeys::new(secret_bytes(fleet, "relay")).ok_or_else(no_secret)?;
    RedisRelay::new(settings, keys)
        .map_err(|error| CliError::usage("`fleet.redis` cannot be used").with_cause(&error))
}

fn secret_bytes(fleet: &FleetConfig, purpose: &str) -> impl Iterator<Item = [u8; 32]> {
    secrets_for(fleet, purpose).into_iter().map(|secret| *secret)
}

fn no_secret() -> CliError {
    CliError::usage("`fleet.secret` has no secret")
}

impl FleetMember {
    /// Returns the address at which other nodes reach this one.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the metrics of the node.
    pub(crate) fn metrics(&self) -> NodeMetrics {
        self.metrics.clone()
    }

    /// Returns the present id of the node.
    pub(crate) fn node_id(&self) -> String {
        self.membership.id().to_string()
    }

    /// Returns the nodes for the approval queue.
    pub(crate) fn approval_nodes(&self) -> Arc<dyn ApprovalNodes> {
        Arc::new(LeasedNodes(self.membership.clone()))
    }

    /// Ships an audit log to the record of all nodes from now on, under the address of this node.
    pub(crate) fn ship_audit(&self, log: &AuditLog, record: SharedAuditLog) {
        *self.shipper.lock() = Some(AuditShipper::spawn(log, record, &*self.address));
    }

    /// Returns the time since all audit entries were shipped; `None` if none are.
    pub(super) fn audit_lag(&self) -> Option<Duration> {
        self.shipper.lock().as_ref().map(AuditShipper::lag)
    }

    /// Logs what should be changed in the settings of the engines, once they can be asked.
    pub(crate) fn warn_about_engines(&self, state: &StateStore) {
        tokio::spawn(warn_about_engines(state.clone(), Arc::clone(self.membership.relay())));
    }

    /// Returns the rate limits of all nodes.
    pub(crate) fn rate_limits(&self) -> NodeRateLimits {
        self.rate_limits.clone()
    }

    /// Returns the data flows of all nodes.
    pub(crate) fn flows(&self) -> Arc<dyn SharedFlowLabels> {
        Arc::new(RelayFlows(Arc::clone(self.membership.relay())))
    }

    /// Returns the nodes that run servers with placement `one`.
    pub(super) fn places(&self) -> Arc<dyn ServerPlaces> {
        let (claims, peers) = (self.claims.clone(), Arc::clone(&self.peers));
        let (membership, address) = (self.membership.clone(), Arc::clone(&self.address));
        Arc::new(ClaimedServers { membership, address, claims, peers })
    }

    /// Shares the sessions of the endpoint at a path, and the requests that one node serves for each caller.
    pub(crate) fn share(&self, endpoint: EndpointBuilder, path: &str, gateway: Gateway) -> EndpointBuilder {
        let transport = Arc::clone(&self.peers);
        let sessions =
            FleetSessions::new(self.membership.clone(), transport, path, DEFAULT_SESSION_IDLE_TIMEOUT)
                .request_placement(Arc::new(EndpointPlacement(gateway)));
        self.directories.lock().insert(path.to_owned(), sessions.clone());
        endpoint.session_directory(Arc::new(sessions))
    }

    /// Returns why this node serves no sessions; `None` if it does.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        session_problem(&self.membership)
    }

    /// Tells the other nodes that this one ends soon.
    pub(crate) async fn drain(&self) {
        let drained = tokio::time::timeout(LEAVE_TIMEOUT, self.membership.drain()).await;
        if let Ok(Err(error)) = drained {
            tracing::warn!(%error, "the other nodes do not know that this one is about to end");
        }
    }

    /// Gives the sessions of this node away: from now on the other nodes serve them. This one forwards their requests.
    pub(crate) async fn give_sessions_away(&self) {
        let directories: Vec<FleetSessions> = self.directories.lock().values().cloned().collect();
        let given = async {
            for directory in directories {
                if let Err(error) = directory.hand_over().await {
                    tracing::warn!(%error, "the sessions of this node cannot be given to others");
                }
            }
        };
        // What was not given away by then, others take when the lease is over.
        let _ = tokio::time::timeout(HAND_OVER_TIMEOUT, given).await;
    }

    /// Gives the servers that run here for all nodes to the others, each when it has stopped here.
    pub(crate) async fn give_servers_up(&self) {
        if tokio::time::timeout(HAND_OVER_TIMEOUT, self.claims.give_up()).await.is_err() {
            tracing::warn!("servers of this node run at others when its lease has run out");
        }
    }

    /// Leaves the fleet, when no request is served any more.
    pub(crate) async fn leave(&self) {
        let left = tokio::time::timeout(LEAVE_TIMEOUT, self.membership.leave()).await;
        if !matches!(left, Ok(Ok(()))) {
            tracing::warn!("the other nodes serve the sessions of this one when its lease has run out");
        }
        let shipper = self.shipper.lock().take();
        if let Some(shipper) = shipper
            && !shipper.finish(LEAVE_TIMEOUT).await
        {
            tracing::warn!(
                "the last audit entries are not in the record of all nodes; they are shipped at the next start"
            );
        }
    }
}

impl fmt::Debug for FleetMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FleetMember").field(&self.membership).finish()
    }
}
