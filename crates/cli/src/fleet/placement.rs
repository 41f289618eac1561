//! Nodes that run servers and serve callers: the setting `placement`.

use std::sync::Arc;

use hospes::transport::http_server::shared_sessions::RequestPlace;
use hospes::transport::stdio_server::StdioServer;
use hospes_fleet::node::{NodeId, NodeRecord};
use hospes_host::server::{
    ConnectorFuture, FleetNodeStatus, ServerHold, ServerPlace, ServerPlaces, ServerStream,
    UpstreamConnectError,
};
use hospes_host::{Gateway, HostServers, RequestStateConfig};
use hospes_node::{
    AcceptedServer, ClaimedPlace, Membership, NodePeers, NodeStream, RequestPlacement, ServerClaims,
};
use tokio::sync::watch;

/// Nodes that have to serve requests to an endpoint.
#[derive(Debug)]
pub(super) struct EndpointPlacement(pub(super) Gateway);

impl RequestPlacement for EndpointPlacement {
    fn request_place(&self, method: &str, name: Option<&str>) -> RequestPlace {
        self.0.request_place(method, name)
    }
}

/// Returns why a node serves no sessions; `None` if it does.
pub(super) fn session_problem(membership: &Membership) -> Option<&'static str> {
    let why = "this node has no lease: Redis does not answer in time, or the node has just started";
    membership.node().is_none().then_some(why)
}

/// Servers that one node runs for all, by the claims of the fleet.
#[derive(Debug)]
pub(super) struct ClaimedServers {
    pub(super) membership: Membership,
    /// `HOST:PORT` at which other nodes reach this one.
    pub(super) address: Arc<str>,
    pub(super) claims: ServerClaims,
    pub(super) peers: Arc<NodePeers>,
}

impl ServerPlaces for ClaimedServers {
    fn node(&self) -> Option<String> {
        Some(self.membership.id().to_string())
    }

    fn status(&self) -> Option<FleetNodeStatus> {
        Some(FleetNodeStatus::new(&*self.address, session_problem(&self.membership).map(str::to_owned)))
    }

    fn is_here(&self, node: &str) -> bool {
        NodeId::parse(node).is_some_and(|node| self.membership.is_own(node))
    }

    fn has_ended<'a>(&'a self, node: &'a str) -> ConnectorFuture<'a, bool> {
        Box::pin(async move {
            let Some(node) = NodeId::parse(node) else { return false };
            match self.membership.ended(vec![node]).await {
                Ok(ended) => ended.contains(&node),
                Err(error) => {
                    tracing::debug!(%error, "cannot find out if a node has ended");
                    false
                }
            }
        })
    }

    fn follow(&self, server: &str) -> watch::Receiver<ServerPlace> {
        let mut claimed = self.claims.follow(server);
        let place = server_place(&claimed.borrow_and_update());
        let (sender, receiver) = watch::channel(place);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    changed = claimed.changed() => if changed.is_err() { return },
                    // The claim ends with the last one who follows it.
                    () = sender.closed() => return,
                }
                let place = server_place(&claimed.borrow_and_update());
                sender.send_replace(place);
            }
        });
        receiver
    }

    fn hold(&self, server: &str) -> ServerHold {
        Box::new(self.claims.hold(server))
    }

    fn open<'a>(
        &'a self,
        server: &'a str,
    ) -> ConnectorFuture<'a, Result<ServerStream, UpstreamConnectError>> {
        Box::pin(async move {
            let Some(ClaimedPlace::Elsewhere { node, address, .. }) = self.claims.place(server) else {
                return Err(UpstreamConnectError::new("no other node runs it now"));
            };
            let opened = self.peers.open_server(&NodeRecord::new(node, &address), server).await;
            let opened = opened.map_err(|why| {
                UpstreamConnectError::new(why).with_hint(Some(
                    "nodes reach each other at their `node_address`; see the log of that node",
                ))
            })?;
            let revision = opened.revision.parse();
            let revision = revision.map_err(|_| {
                let said = &opened.revision;
                UpstreamConnectError::new(format!(
                    "the node {address} has a server of an unknown revision: {said}"
                ))
            })?;
            let (read, write) = tokio::io::split(opened.stream);
            Ok(ServerStream { revision, read: Box::new(read), write: Box::new(write) })
        })
    }
}

fn server_place(claimed: &ClaimedPlace) -> ServerPlace {
    match claimed {
        ClaimedPlace::Unknown(why) => ServerPlace::Unknown(Arc::clone(why)),
        ClaimedPlace::Here { epoch } => ServerPlace::Here { epoch: *epoch },
        ClaimedPlace::Leaving => ServerPlace::Leaving,
        ClaimedPlace::Elsewhere { address, epoch, .. } => {
            ServerPlace::Elsewhere { node: Arc::clone(address), epoch: *epoch }
        }
    }
}

/// Places of the servers for a host that is not a node: it runs none of them.
#[derive(Debug)]
pub(super) struct OutsidePlaces;

impl ServerPlaces for OutsidePlaces {
    fn follow(&self, _: &str) -> watch::Receiver<ServerPlace> {
        let why = "one node runs it, and this host is none: use the endpoint of the fleet";
        watch::channel(ServerPlace::Unknown(why.into())).1
    }

    fn hold(&self, _: &str) -> ServerHold {
        Box::new(())
    }

    fn open<'a>(&'a self, _: &'a str) -> ConnectorFuture<'a, Result<ServerStream, UpstreamConnectError>> {
        Box::pin(async { Err(UpstreamConnectError::new("only nodes use it")) })
    }
}

/// Finds a server for another node.
pub(super) async fn accept_server(
    server: String,
    claims: ServerClaims,
    servers: HostServers,
    rounds: Option<RequestStateConfig>,
) -> Result<AcceptedServer, String> {
    // Asked first, because following a server claims it, and this node may not have it.
    if !claims.place(&server).is_some_and(|place| is_here(&place)) {
        return Err(format!("the server `{server}` does not run at this node now"));
    }
    let place = claims.follow(&server);
    let placed = servers.placed(&server).await?;
    let revision = placed.revision().to_string();
    let mut stdio = StdioServer::new(placed).caller("another node");
    if let Some(rounds) = rounds {
        stdio = stdio.state_keys(rounds.keys_for_server(&server)).state_lifetime(rounds.lifetime);
    }
    let serve = move |stream: NodeStream| async move {
        let (read, write) = tokio::io::split(stream);
        // Calls that run have a moment to end.
        if let Err(error) = stdio.serve_until(read, write, left(place)).await {
            tracing::debug!(%error, server, "a node does not use the server any more");
        }
    };
    Ok(AcceptedServer { revision, serve: Box::new(move |stream| Box::pin(serve(stream))) })
}

fn is_here(place: &ClaimedPlace) -> bool {
    matches!(place, ClaimedPlace::Here { .. })
}

/// Waits until this node does not run the server any more.
async fn left(mut place: watch::Receiver<ClaimedPlace>) {
    // Without a sender nobody claims anything.
    let _ = place.wait_for(|place| !is_here(place)).await;
}
