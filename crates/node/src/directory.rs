//! Directory of the sessions of one endpoint, over the shared state of the fleet.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use hospes::transport::http_server::shared_sessions::{
    AdoptedSession, DirectoryError, DirectoryFuture, RequestPlace, SessionDirectory, SessionForwarder,
    SessionName, SessionPlace, SharedSession, StreamRequest, UnansweredStream,
};
use hospes_fleet::node::{NodeId, NodeRecord, NodeState, NodeStatus};
use hospes_fleet::session::{NewSession, RelaySession, SessionKey, SessionOwner, SessionState};
use hospes_fleet::{Relay, RelayError};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::membership::Membership;
use crate::node_list::{NodeList, find_node};
use crate::owned_session::OwnedSession;
use crate::owned_stream::OwnedStream;
use crate::owner_cache::OwnerCache;
use crate::rendezvous::choose_node;
use crate::transport::{ForwarderSource, NodeForwarder, NodeTransport};

/// Time for which the list of nodes is used.
const NODES_LIFETIME: Duration = Duration::from_millis(50);
/// Time for which the list is used to find the node that has sealed a request state.
const ORIGINS_LIFETIME: Duration = Duration::from_secs(5);
/// Time for which the list is used to find the node of a caller.
const CALLER_NODES_LIFETIME: Duration = Duration::from_secs(1);
/// Maximum number of sessions that are given away at the same time.
const MAX_GIVEN_AT_ONCE: usize = 32;
/// Maximum number of sessions whose owner is looked up at the same time.
const MAX_LOOKED_UP_AT_ONCE: usize = 32;
/// Number of looks at a session whose owner changes meanwhile.
const MAX_LOOKS: usize = 3;

/// Nodes that have to serve requests of 2026-07-28.
pub trait RequestPlacement: fmt::Debug + Send + Sync + 'static {
    /// Returns the node that has to serve requests with this method and name. The name of a process is the id of a node.
    fn request_place(&self, method: &str, name: Option<&str>) -> RequestPlace;
}

/// Directory of the sessions of one endpoint. Cheap to clone; all clones are the same directory.
#[derive(Clone)]
pub struct FleetSessions(Arc<FleetSessionsInner>);

pub(crate) struct FleetSessionsInner {
    membership: Membership,
    transport: Arc<dyn NodeTransport>,
    /// Path of the endpoint. A session of one endpoint does not exist at another.
    path: Box<str>,
    /// Time after which a session ends that nobody uses.
    lifetime: Duration,
    /// Sessions that this process has owned and may still have in memory.
    held: Mutex<HashMap<SessionKey, Weak<OwnedSession>>>,
    nodes: NodeList,
    /// Nodes of requests; any without servers that need it.
    placement: OnceLock<Arc<dyn RequestPlacement>>,
    /// Owners of the sessions whose requests were forwarded lately.
    owners: OwnerCache,
    /// Number of sessions that were given away one by one, to take turns.
    given: AtomicUsize,
}

impl FleetSessions {
    /// Creates the directory of the endpoint at `path`. `lifetime` is the idle timeout of its sessions. Must be called
    /// within a runtime.
    #[must_use]
    pub fn new(
        membership: Membership,
        transport: Arc<dyn NodeTransport>,
        path: &str,
        lifetime: Duration,
    ) -> Self {
        let changes = membership.changes();
        let inner = Arc::new(FleetSessionsInner {
            membership,
            transport,
            path: path.into(),
            lifetime,
            held: Mutex::default(),
            nodes: NodeList::default(),
            placement: OnceLock::new(),
            owners: OwnerCache::default(),
            given: AtomicUsize::new(0),
        });
        tokio::spawn(stop_lost_sessions(Arc::downgrade(&inner), inner.membership.id(), changes));
        Self(inner)
    }
}

/// Stops the sessions of this process that others have taken, each time the node has a new id: it was without a lease
/// before. Clients that wait at streams here would not be told otherwise.
async fn stop_lost_sessions(
    directory: Weak<FleetSessionsInner>,
    mut known: NodeId,
    mut changes: watch::Receiver<u64>,
) {
    while changes.changed().await.is_ok() {
        let Some(directory) = directory.upgrade() else { return };
        match directory.membership.node() {
            Some(node) if node != known => match directory.stop_lost_sessions().await {
                Ok(()) => known = node,
                // Again with the next renewal of the lease.
                Err(error) => tracing::debug!(%error, "the sessions of this node were not compared"),
            },
            _ => {}
        }
    }
}

impl FleetSessions {
    /// Lets those nodes serve requests that `placement` names. The first placement counts.
    #[must_use]
    pub fn request_placement(self, placement: Arc<dyn RequestPlacement>) -> Self {
        let _first = self.0.placement.set(placement);
        self
    }

    /// Gives the sessions of this process to other nodes, and returns their number. Those that take no new sessions get
    /// none. What still runs in a session is fenced off, so the endpoint holds its requests first.
    ///
    /// # Errors
    /// [`RelayError`] if the nodes cannot be listed. A session that cannot be given away stays, which is logged.
    pub async fn hand_over(&self) -> Result<usize, RelayError> {
        let inner = &*self.0;
        let nodes = inner.relay().nodes().await?;
        let takes = |node: &NodeStatus| {
            node.alive && node.record.state == NodeState::Serving && !inner.membership.is_own(node.record.id)
        };
        let targets: Vec<NodeId> = nodes.into_iter().filter(takes).map(|node| node.record.id).collect();
        if targets.is_empty() {
            return Ok(0);
        }
        let held: Vec<Arc<OwnedSession>> = inner.held.lock().values().filter_map(Weak::upgrade).collect();
        let given = futures::stream::iter(held.into_iter().filter(|session| session.is_owned()).enumerate())
            .map(|(index, session)| {
                let target = targets[index % targets.len()];
                async move { session.give_to(target).await }
            })
            .buffer_unordered(MAX_GIVEN_AT_ONCE);
        Ok(given.filter(|is_given| std::future::ready(*is_given)).count().await)
    }
}

impl FleetSessionsInner {
    fn relay(&self) -> &Arc<dyn Relay> {
        self.membership.relay()
    }

    /// Returns the key of a session in the shared state, which holds no usable session id.
    fn key(&self, session: SessionName<'_>) -> SessionKey {
        // Neither a path nor a session id has a space.
        SessionKey::new(session.principal, &format!("{} {}", self.path, session.id))
    }

    fn present_node(&self) -> Result<NodeId, DirectoryError> {
        let why = "this node has no lease: the shared state did not answer in time";
        self.membership.node().ok_or_else(|| DirectoryError::Unavailable(why.to_owned()))
    }

    async fn reserve(&self, session: SessionName<'_>) -> Result<Arc<dyn SharedSession>, DirectoryError> {
        let key = self.key(session);
        let owner = SessionOwner::first(self.present_node()?);
        let new = NewSession::pending(Vec::new());
        self.relay()
            .reserve(&key, &owner, &new, self.lifetime)
            .await
            .map_err(|error| directory_error(&error))?;
        Ok(self.hold(key, owner))
    }

    async fn locate(&self, session: SessionName<'_>) -> Result<SessionPlace, DirectoryError> {
        let key = self.key(session);
        if let Some(owner) = self.owners.get(&key) {
            return Ok(self.elsewhere(key, owner));
        }
        for _ in 0..MAX_LOOKS {
            let Some(found) = self.relay().find(&key).await.map_err(|error| directory_error(&error))? else {
                return Ok(SessionPlace::Unknown);
            };
            // Before its `initialize` is answered, nobody knows the id of a session.
            if found.state != SessionState::Active {
                return Ok(SessionPlace::Unknown);
            }
            if self.membership.is_owner(found.owner.node) {
                return self.own(key, found).await.map(SessionPlace::Here);
            }
            if !self.membership.is_own(found.owner.node)
                && let Some(node) = self.living(found.owner.node).await?
            {
                self.owners.insert(key, node.clone());
                return Ok(self.elsewhere(key, node));
            }
            match self.adopt(key, &found.owner).await {
                Ok(adopted) => return Ok(SessionPlace::Here(adopted)),
                // Another node was faster, or its lease has not ended: the next look says who owns it.
                Err(RelayError::Fenced { now: Some(_) }) => self.nodes.expire(),
                Err(error) => return Err(directory_error(&error)),
            }
        }
        Err(DirectoryError::Unavailable("the session changes its owner".to_owned()))
    }

    /// Gives one session to a node that takes new ones; false if there is none.
    async fn give_away(&self, session: SessionName<'_>) -> Result<bool, DirectoryError> {
        let held = self.held(&self.key(session)).filter(|held| held.is_owned());
        let Some(held) = held else { return Ok(false) };
        let nodes = self.living_nodes(NODES_LIFETIME).await?;
        let takes = |node: &&NodeRecord| node.state == NodeState::Serving && !self.membership.is_own(node.id);
        let targets: Vec<NodeId> = nodes.iter().filter(takes).map(|node| node.id).collect();
        if targets.is_empty() {
            return Ok(false);
        }
        let turn = self.given.fetch_add(1, Ordering::Relaxed);
        Ok(held.give_to(targets[turn % targets.len()]).await)
    }

    fn elsewhere(&self, key: SessionKey, owner: NodeRecord) -> SessionPlace {
        let source = ForwarderSource::Owner(self.owners.clone(), key);
        SessionPlace::Elsewhere(Arc::new(NodeForwarder::new(Arc::clone(&self.transport), owner, source)))
    }

    /// Takes the session of an owner that has ended. If that was this process, and it still has the session in memory,
    /// the session goes on as it is.
    async fn adopt(&self, key: SessionKey, dead: &SessionOwner) -> Result<AdoptedSession, RelayError> {
        let Some(me) = self.membership.node() else { return Err(RelayError::Fenced { now: None }) };
        let found = self.relay().adopt(&key, dead, &me).await?;
        tracing::info!(session = %key, epoch = found.owner.epoch, "session adopted");
        let held = self.held(&key).filter(|held| held.continue_as(dead, found.owner));
        let owned = held.unwrap_or_else(|| self.hold(key, found.owner));
        self.adopted(owned, key, found.body).await
    }

    /// Returns a session that this process owns.
    async fn own(&self, key: SessionKey, found: RelaySession) -> Result<AdoptedSession, DirectoryError> {
        // Else it was adopted for a request that has gone away, or handed over by another node.
        let held = self.held(&key).filter(|held| held.owner() == found.owner);
        let owned = held.unwrap_or_else(|| self.hold(key, found.owner));
        self.adopted(owned, key, found.body).await.map_err(|error| directory_error(&error))
    }

    /// Adds what is unanswered, whether or not this process holds the session: another request may have found it a
    /// moment ago and not continued it yet. An endpoint that has the session in memory ignores it.
    async fn adopted(
        &self,
        owned: Arc<OwnedSession>,
        key: SessionKey,
        body: Vec<u8>,
    ) -> Result<AdoptedSession, RelayError> {
        let unanswered = self.unanswered(&owned, &key).await?;
        let generation = owned.generation();
        Ok(AdoptedSession::new(owned, body, generation).with_unanswered(unanswered))
    }

    async fn unanswered(
        &self,
        owned: &Arc<OwnedSession>,
        key: &SessionKey,
    ) -> Result<Vec<UnansweredStream>, RelayError> {
        let streams = self.relay().streams(key).await?;
        let unanswered = streams.into_iter().filter(|stream| !stream.pending.is_empty());
        let unanswered = unanswered.map(|stream| UnansweredStream {
            stream: Arc::new(OwnedStream::new(Arc::clone(owned), stream.number)),
            last: stream.last.sequence,
            requests: stream
                .pending
                .into_iter()
                .map(|pending| StreamRequest {
                    id: pending.request.into(),
                    method: String::from_utf8_lossy(&pending.detail).into_owned(),
                })
                .collect(),
        });
        Ok(unanswered.collect())
    }

    /// Stops the sessions of this process that others own.
    async fn stop_lost_sessions(&self) -> Result<(), RelayError> {
        let held: Vec<Arc<OwnedSession>> = self.held.lock().values().filter_map(Weak::upgrade).collect();
        let mut looked_up = futures::stream::iter(held)
            .map(|session| async move { session.stop_if_lost().await })
            .buffer_unordered(MAX_LOOKED_UP_AT_ONCE);
        while let Some(result) = looked_up.next().await {
            result?;
        }
        Ok(())
    }

    fn held(&self, key: &SessionKey) -> Option<Arc<OwnedSession>> {
        self.held.lock().get(key)?.upgrade()
    }

    fn hold(&self, key: SessionKey, owner: SessionOwner) -> Arc<OwnedSession> {
        let owned = OwnedSession::new(self.membership.clone(), key, owner);
        let mut held = self.held.lock();
        // Those whose sessions have ended; seldom, so that each session pays for itself.
        if held.len().is_power_of_two() {
            held.retain(|_, session| session.strong_count() > 0);
        }
        held.insert(key, Arc::downgrade(&owned));
        owned
    }

    /// Returns the record of a node, if its process has a lease, also under a new id: after a fault of the engine all nodes
    /// have new ones, and each continues its own sessions, at once and from its memory.
    async fn living(&self, node: NodeId) -> Result<Option<NodeRecord>, DirectoryError> {
        Ok(find_node(&self.living_nodes(NODES_LIFETIME).await?, node))
    }

    /// Returns the records of the nodes with a lease, as they were within `age`.
    async fn living_nodes(&self, age: Duration) -> Result<Arc<Vec<NodeRecord>>, DirectoryError> {
        if let Some(nodes) = self.nodes.within(age) {
            return Ok(nodes);
        }
        let nodes = self.relay().nodes().await.map_err(|error| directory_error(&error))?;
        let living = nodes.into_iter().filter(|node| node.alive).map(|node| node.record);
        let nodes: Arc<Vec<_>> = Arc::new(living.collect());
        self.nodes.replace(Arc::clone(&nodes));
        Ok(nodes)
    }

    /// Finds the node that serves a caller, among those that take new sessions. While the nodes cannot be listed, the last
    /// list counts, whatever its age.
    async fn find_caller_node(
        &self,
        principal: Option<&str>,
        application: &str,
    ) -> Option<Arc<dyn SessionForwarder>> {
        let nodes = match self.living_nodes(CALLER_NODES_LIFETIME).await {
            Ok(nodes) => nodes,
            Err(_) => self.nodes.last(),
        };
        let serving = nodes.iter().filter(|node| node.state == NodeState::Serving);
        let node = choose_node(serving, &[principal.unwrap_or_default().as_bytes(), application.as_bytes()]);
        // Without a list this node is the only one that it knows.
        let node = node.filter(|node| !self.membership.is_own(node.id))?.clone();
        let source = ForwarderSource::Listed(self.nodes.clone());
        Some(Arc::new(NodeForwarder::new(Arc::clone(&self.transport), node, source)))
    }

    /// Finds the node that has or had this id. A node that ended a moment ago refuses the connection, so an older list does;
    /// while the nodes cannot be listed, also one of any age.
    async fn find_origin(&self, origin: &str) -> Result<Option<Arc<dyn SessionForwarder>>, DirectoryError> {
        let Some(id) = NodeId::parse(origin).filter(|id| !self.membership.is_own(*id)) else {
            return Ok(None);
        };
        let known = self.nodes.within(ORIGINS_LIFETIME).and_then(|nodes| find_node(&nodes, id));
        let node = match known {
            Some(node) => Some(node),
            None => match self.living_nodes(NODES_LIFETIME).await {
                Ok(nodes) => find_node(&nodes, id),
                Err(error) => Some(find_node(&self.nodes.last(), id).ok_or(error)?),
            },
        };
        Ok(node.map(|node| {
            let source = ForwarderSource::Listed(self.nodes.clone());
            Arc::new(NodeForwarder::new(Arc::clone(&self.transport), node, source))
                as Arc<dyn SessionForwarder>
        }))
    }
}

impl SessionDirectory for FleetSessions {
    fn reserve<'a>(&'a self, session: SessionName<'a>) -> DirectoryFuture<'a, Arc<dyn SharedSession>> {
        self.0.reserve(session).boxed()
    }

    fn locate<'a>(&'a self, session: SessionName<'a>) -> DirectoryFuture<'a, SessionPlace> {
        self.0.locate(session).boxed()
    }

    fn give_away<'a>(&'a self, session: SessionName<'a>) -> DirectoryFuture<'a, bool> {
        self.0.give_away(session).boxed()
    }

    fn origin(&self) -> Option<String> {
        Some(self.0.membership.id().to_string())
    }

    fn find_origin<'a>(&'a self, origin: &'a str) -> DirectoryFuture<'a, Option<Arc<dyn SessionForwarder>>> {
        self.0.find_origin(origin).boxed()
    }

    fn request_place(&self, method: &str, name: Option<&str>) -> RequestPlace {
        let placement = self.0.placement.get();
        placement.map_or(RequestPlace::Anywhere, |placement| placement.request_place(method, name))
    }

    fn find_caller_process<'a>(
        &'a self,
        principal: Option<&'a str>,
        application: &'a str,
    ) -> DirectoryFuture<'a, Option<Arc<dyn SessionForwarder>>> {
        self.0.find_caller_node(principal, application).map(Ok).boxed()
    }
}

impl fmt::Debug for FleetSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetSessions").field("path", &self.0.path).finish_non_exhaustive()
    }
}

/// Converts an error of the shared state for an endpoint.
pub(crate) fn directory_error(error: &RelayError) -> DirectoryError {
    match error {
        // Without a present owner, it is this node that may not act.
        RelayError::Fenced { now: Some(_) } | RelayError::Gone => DirectoryError::NotOwned,
        RelayError::LimitExceeded { .. } | RelayError::OutOfOrder { .. } => {
            DirectoryError::Refused(error.to_string())
        }
        _ => DirectoryError::Unavailable(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::future::BoxFuture;
    use hospes::transport::http_server::shared_sessions::{ForwardResult, NewStream};
    use hospes_fleet::settings::RelaySettings;
    use hospes_fleet::{MemoryRelay, MemoryStore};
    use http::request::Parts;

    use super::*;
    use crate::membership::DEFAULT_RENEWAL_INTERVAL;

    #[derive(Debug)]
    struct ClosedTransport;

    impl NodeTransport for ClosedTransport {
        fn forward<'a>(&'a self, _: &'a NodeRecord, _: Parts, _: Bytes) -> BoxFuture<'a, ForwardResult> {
            std::future::ready(ForwardResult::NotProcessed).boxed()
        }
    }

    async fn node(store: &Arc<MemoryStore>) -> (Membership, FleetSessions) {
        let relay = Arc::new(MemoryRelay::new(Arc::clone(store)));
        let membership = Membership::start(relay, "127.0.0.1:1", DEFAULT_RENEWAL_INTERVAL).unwrap();
        membership.joined().await;
        let lifetime = Duration::from_secs(60);
        let sessions = FleetSessions::new(membership.clone(), Arc::new(ClosedTransport), "/mcp", lifetime);
        (membership, sessions)
    }

    /// Of two requests that find the session of a dead node, the second may be the one that continues it.
    #[tokio::test]
    async fn each_request_that_finds_an_adopted_session_learns_what_is_unanswered() {
        let store = MemoryStore::new(RelaySettings::default());
        let (former, sessions) = node(&store).await;
        let name = SessionName { id: "a", principal: None };
        let session = sessions.reserve(name).await.unwrap();
        session.save(b"{}").await.unwrap();
        let request = StreamRequest { id: "7".into(), method: "tools/call".into() };
        session.open_stream(1, NewStream::Requests(vec![request])).await.unwrap();
        former.leave().await.unwrap();

        let (_present, sessions) = node(&store).await;
        let mut found = Vec::new();
        for _ in 0..2 {
            let SessionPlace::Here(adopted) = sessions.locate(name).await.unwrap() else {
                panic!("it is here now")
            };
            assert_eq!(adopted.unanswered.len(), 1);
            found.push(adopted);
        }
        assert_eq!(found[0].generation, found[1].generation);
    }
}
