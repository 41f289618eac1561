//! The engine on Redis 7 or Valkey, without Cluster.
//!
//! Each change is one script, so Redis compares owner and epoch in the step that writes. Records, events, entries and
//! hints are sealed with the [`FleetKeys`]; ids and names are digests. Owners, epochs, states and times are not sealed.
//!
//! | Key (below the prefix) | Content |
//! |---|---|
//! | `n:<node>` | lease |
//! | `nodes` | hash of node to record |
//! | `w:<node>` | set of the sessions that a node owns |
//! | `s:{<session>}` | hash: owner, epoch, state, version, body, lifetime |
//! | `s:{<session>}:x`, `:o` | hashes of entries, and of pending answers |
//! | `s:{<session>}:t` | hash of streams: kind, last position, trimmed position, bytes, number of pending answers |
//! | `s:{<session>}:e:<stream>` | stream of events |
//! | `1:<key>`, `g:<key>`, `f:<key>` | single use, rate limit, labels of a data flow |
//! | `hint` | channel of hints |

mod directory;
mod health;
mod hints;
mod identity;
mod keyspace;
mod link;
mod records;
mod reply;
mod scripts;
mod settings;
mod streams;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Value, cmd};
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use self::hints::HintChannel;
use self::keyspace::RedisKeyspace;
use self::link::{EngineLink, LEASE_LINK};
use self::reply::{UNEXPECTED, byte_strings};
use crate::keys::{AttemptId, FlowKey, OnceKey, RateKey, RateLimit, RateVerdict};
use crate::node::{NodeId, NodeLease, NodeRecord, NodeStatus};
use crate::own_nodes::OwnNodes;
use crate::recovery::RecoveryWindow;
use crate::relay::{Relay, RelayError, RelayFuture, RelayHealth, RelayHint};
use crate::sealing::FleetKeys;
use crate::session::{NewSession, RelaySession, SessionChange, SessionEntry, SessionKey, SessionOwner};
use crate::settings::MAX_DURATION;
use crate::stream::{
    AppendResult, EventPage, EventPosition, NewEvent, NewStream, StreamNumber, StreamSummary,
};

pub use settings::{RedisClientIdentity, RedisSettings, RedisSettingsError};

/// Relay in Redis. It connects in the background, and again after each failure.
pub struct RedisRelay {
    settings: RedisSettings,
    keys: FleetKeys,
    keyspace: RedisKeyspace,
    window: Arc<RecoveryWindow>,
    /// Own connection, so that a renewal never waits behind data.
    lease_link: EngineLink,
    data_links: Vec<EngineLink>,
    hints: Arc<HintChannel>,
    own_nodes: OwnNodes,
    /// Tasks of the links and hints, which end with the relay.
    _tasks: JoinSet<()>,
}

impl RedisRelay {
    /// Creates a relay; it needs a tokio runtime.
    ///
    /// # Errors
    /// If a setting is not valid.
    pub fn new(settings: RedisSettings, keys: FleetKeys) -> Result<Self, RedisSettingsError> {
        let client = settings.client()?;
        let window = Arc::new(RecoveryWindow::new(settings.relay.recovery_window));
        let keyspace = RedisKeyspace::new(&settings.prefix);
        let mut tasks = JoinSet::new();
        let mut link = |name| {
            let (link, task) = EngineLink::new(name, client.clone(), &settings, Arc::clone(&window));
            tasks.spawn(task);
            link
        };
        let lease_link = link(LEASE_LINK);
        let hint_link = link("hint");
        let data_links = (0..settings.data_connections).map(|_| link("data")).collect();
        let (hints, queue) = HintChannel::new(&settings);
        tasks.spawn(hints::publish(hint_link, keyspace.hints(), keys.clone(), Arc::clone(&hints), queue));
        tasks.spawn(hints::receive(
            client,
            settings.clone(),
            keyspace.hints(),
            keys.clone(),
            Arc::clone(&hints),
        ));
        Ok(Self {
            settings,
            keys,
            keyspace,
            window,
            lease_link,
            data_links,
            hints,
            own_nodes: OwnNodes::default(),
            _tasks: tasks,
        })
    }

    /// Link for data that is found by this key. Changes of one session use one link, so they arrive in order.
    fn data_link(&self, key: &[u8; 32]) -> &EngineLink {
        &self.data_links[usize::from(key[0]) % self.data_links.len()]
    }

    async fn once_used(
        &self,
        key: &OnceKey,
        attempt: &AttemptId,
        lifetime: Duration,
    ) -> Result<bool, RelayError> {
        let mut command = cmd("SET");
        command.arg(self.keyspace.once(key)).arg(&attempt.0).arg("NX").arg("GET");
        command.arg("PX").arg(millis(lifetime));
        match self.data_link(&key.0).command(&command).await? {
            Value::Nil => Ok(true),
            Value::BulkString(used_by) => Ok(used_by == attempt.0),
            _ => Err(UNEXPECTED),
        }
    }

    async fn count_use(&self, key: &RateKey, limit: RateLimit) -> Result<RateVerdict, RelayError> {
        let (interval, burst) = limit.times();
        let (interval, burst) = (interval.as_micros().to_string(), burst.as_micros().to_string());
        let link = self.data_link(&key.0);
        let arguments = [interval.as_bytes(), burst.as_bytes()];
        let connection = link.connection().await?;
        match link.script_on(connection, &scripts::LIMIT, &[&self.keyspace.rate(key)], &arguments).await? {
            Value::Int(0) => Ok(RateVerdict::Allowed),
            Value::Int(wait) if wait > 0 => {
                Ok(RateVerdict::Exceeded { retry_in: Duration::from_micros(wait.unsigned_abs()) })
            }
            _ => Err(UNEXPECTED),
        }
    }

    async fn uncount_use(&self, key: &RateKey, limit: RateLimit) -> Result<(), RelayError> {
        let (interval, _) = limit.times();
        let interval = interval.as_micros().to_string();
        let link = self.data_link(&key.0);
        let connection = link.connection().await?;
        let keys: [&str; 1] = [&self.keyspace.rate(key)];
        match link.script_on(connection, &scripts::UNCOUNT, &keys, &[interval.as_bytes()]).await? {
            Value::Int(0) => Ok(()),
            _ => Err(UNEXPECTED),
        }
    }

    async fn labels_added(
        &self,
        flow: &FlowKey,
        labels: &[&str],
        lifetime: Duration,
    ) -> Result<Vec<Box<str>>, RelayError> {
        let limits = &self.settings.relay.limits;
        limits.check_labels(labels)?;
        let mut labels = labels.to_vec();
        // The script counts each label that is not there yet.
        labels.sort_unstable();
        labels.dedup();
        let mut arguments =
            vec![millis(lifetime).into_bytes(), limits.max_flow_labels.to_string().into_bytes()];
        for label in &labels {
            arguments.push(records::label_field(flow, label).into_bytes());
            arguments.push(records::seal_label(&self.keys, flow, label));
        }
        let arguments: Vec<_> = arguments.iter().map(Vec::as_slice).collect();
        let link = self.data_link(&flow.0);
        let mut reply = link.script(&scripts::LABELS, &[&self.keyspace.flow(flow)], &arguments).await?;
        if reply.word()? == "limit" {
            return Err(limits.labels_exceeded());
        }
        let sealed = byte_strings(reply.take(1))?;
        let opened = sealed.iter().map(|sealed| records::open_label(&self.keys, flow, sealed));
        let mut all = opened.collect::<Result<Vec<_>, _>>()?;
        all.sort_unstable();
        Ok(all)
    }
}

impl fmt::Debug for RedisRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisRelay").finish_non_exhaustive()
    }
}

/// Whole milliseconds of a duration, at least one.
fn millis(duration: Duration) -> String {
    duration.min(MAX_DURATION).as_millis().max(1).to_string()
}

impl Relay for RedisRelay {
    fn join<'a>(&'a self, node: &'a NodeRecord) -> RelayFuture<'a, NodeLease> {
        Box::pin(self.join_fleet(node))
    }

    fn renew<'a>(&'a self, lease: &'a NodeLease) -> RelayFuture<'a, NodeLease> {
        Box::pin(self.renew_lease(lease.node))
    }

    fn announce<'a>(&'a self, lease: &'a NodeLease, record: &'a NodeRecord) -> RelayFuture<'a, ()> {
        Box::pin(self.announce_record(lease.node, record))
    }

    fn leave<'a>(&'a self, lease: &'a NodeLease) -> RelayFuture<'a, ()> {
        Box::pin(self.end_lease(lease.node))
    }

    fn end_silent_lease<'a>(&'a self, node: &'a NodeId, silent_for: Duration) -> RelayFuture<'a, bool> {
        Box::pin(self.end_lease_of(*node, silent_for))
    }

    fn nodes(&self) -> RelayFuture<'_, Vec<NodeStatus>> {
        Box::pin(self.known_nodes())
    }

    fn sessions_of<'a>(&'a self, node: &'a NodeId, max: usize) -> RelayFuture<'a, Vec<SessionKey>> {
        Box::pin(self.indexed_sessions(*node, max))
    }

    fn reserve<'a>(
        &'a self,
        session: &'a SessionKey,
        owner: &'a SessionOwner,
        record: &'a NewSession,
        lifetime: Duration,
    ) -> RelayFuture<'a, ()> {
        Box::pin(self.reserve_session(session, *owner, record, lifetime))
    }

    fn find<'a>(&'a self, session: &'a SessionKey) -> RelayFuture<'a, Option<RelaySession>> {
        Box::pin(self.find_session(session))
    }

    fn change<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        changes: &'a [SessionChange],
    ) -> RelayFuture<'a, ()> {
        Box::pin(self.change_session(session, *me, changes))
    }

    fn entries<'a>(&'a self, session: &'a SessionKey) -> RelayFuture<'a, Vec<SessionEntry>> {
        Box::pin(self.session_entries(session))
    }

    fn adopt<'a>(
        &'a self,
        session: &'a SessionKey,
        dead: &'a SessionOwner,
        me: &'a NodeId,
    ) -> RelayFuture<'a, RelaySession> {
        Box::pin(self.adopt_session(session, *dead, *me))
    }

    fn hand_over<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        target: &'a NodeId,
    ) -> RelayFuture<'a, SessionOwner> {
        Box::pin(self.hand_session_over(session, *me, *target))
    }

    fn open_stream<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        stream: &'a NewStream,
    ) -> RelayFuture<'a, EventPosition> {
        Box::pin(self.open_session_stream(session, *me, stream))
    }

    fn streams<'a>(&'a self, session: &'a SessionKey) -> RelayFuture<'a, Vec<StreamSummary>> {
        Box::pin(self.session_streams(session))
    }

    fn append<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        stream: StreamNumber,
        event: &'a NewEvent<'a>,
    ) -> RelayFuture<'a, AppendResult> {
        Box::pin(self.append_event(session, *me, stream, event))
    }

    fn read<'a>(
        &'a self,
        session: &'a SessionKey,
        stream: StreamNumber,
        after: EventPosition,
        max: usize,
    ) -> RelayFuture<'a, Option<EventPage>> {
        Box::pin(self.read_events(session, stream, after, max))
    }

    fn once<'a>(
        &'a self,
        key: &'a OnceKey,
        attempt: &'a AttemptId,
        lifetime: Duration,
    ) -> RelayFuture<'a, bool> {
        Box::pin(self.once_used(key, attempt, lifetime))
    }

    fn limit<'a>(&'a self, key: &'a RateKey, limit: RateLimit) -> RelayFuture<'a, RateVerdict> {
        Box::pin(self.count_use(key, limit))
    }

    fn uncount<'a>(&'a self, key: &'a RateKey, limit: RateLimit) -> RelayFuture<'a, ()> {
        Box::pin(self.uncount_use(key, limit))
    }

    fn add_labels<'a>(
        &'a self,
        flow: &'a FlowKey,
        labels: &'a [&'a str],
        lifetime: Duration,
    ) -> RelayFuture<'a, Vec<Box<str>>> {
        Box::pin(self.labels_added(flow, labels, lifetime))
    }

    fn hint(&self, hint: RelayHint) {
        self.hints.send(hint);
    }

    fn hints(&self) -> broadcast::Receiver<RelayHint> {
        self.hints.subscribe()
    }

    fn health(&self) -> RelayFuture<'_, RelayHealth> {
        Box::pin(self.check_health())
    }
}
