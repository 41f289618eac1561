//! The interface of the engines, its errors, and the report on an engine's state.

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::broadcast;

use crate::keys::{AttemptId, FlowKey, OnceKey, RateKey, RateLimit, RateVerdict};
use crate::node::{NodeId, NodeLease, NodeRecord, NodeStatus};
use crate::session::{NewSession, RelaySession, SessionChange, SessionEntry, SessionKey, SessionOwner};
use crate::stream::{
    AppendResult, EventPage, EventPosition, NewEvent, NewStream, StreamNumber, StreamSummary,
};

/// Result of an operation of a [`Relay`], later.
pub type RelayFuture<'a, T> = BoxFuture<'a, Result<T, RelayError>>;

/// Shared state of a fleet: node leases, session directory, event logs, single uses, limits, labels and hints.
///
/// The contract, which one test suite checks for each engine:
/// - Changes of a session are linearizable. They compare owner and epoch in the step that writes.
/// - An operation may be repeated with the same arguments after [`RelayError::Unavailable`]. The repeat gives the same
///   answer and has no second effect; only [`Relay::limit`] and [`Relay::uncount`] count twice.
/// - After `Unavailable` it is not known whether the operation was applied, unless [`EngineFault::is_refusal`]. The
///   caller repeats it, or looks, before it concludes anything.
/// - Time is that of the engine. Leases are also measured by the node, from before the request was sent.
/// - Nothing depends on hints: they may be lost, repeated and reordered.
pub trait Relay: fmt::Debug + Send + Sync {
    /// Announces a node and takes its lease.
    ///
    /// # Errors
    /// [`RelayError::Gone`] if a node of this id has been in the fleet before.
    fn join<'a>(&'a self, node: &'a NodeRecord) -> RelayFuture<'a, NodeLease>;

    /// Extends a lease. A lease that has ended is never extended.
    ///
    /// # Errors
    /// [`RelayError::Gone`] if the lease has ended: this node id is dead for ever.
    fn renew<'a>(&'a self, lease: &'a NodeLease) -> RelayFuture<'a, NodeLease>;

    /// Replaces the record of a node.
    ///
    /// # Errors
    /// [`RelayError::Gone`] if the lease has ended.
    fn announce<'a>(&'a self, lease: &'a NodeLease, record: &'a NodeRecord) -> RelayFuture<'a, ()>;

    /// Ends a lease, so that others need not wait for its end.
    fn leave<'a>(&'a self, lease: &'a NodeLease) -> RelayFuture<'a, ()>;

    /// Ends the lease of another node that has not renewed it for `silent_for`, and returns true if that node has none now.
    ///
    /// Meant for a node whose process has ended as far as its address shows. If it lives all the same, it is treated as one
    /// whose lease has ended: it takes a new id, and what it writes as the former one is fenced.
    fn end_silent_lease<'a>(&'a self, node: &'a NodeId, silent_for: Duration) -> RelayFuture<'a, bool>;

    /// Lists the nodes with a lease, and those without one that still own sessions.
    fn nodes(&self) -> RelayFuture<'_, Vec<NodeStatus>>;

    /// Lists sessions of a node, at most `max`, in no order.
    fn sessions_of<'a>(&'a self, node: &'a NodeId, max: usize) -> RelayFuture<'a, Vec<SessionKey>>;

    /// Creates a session that `owner` owns. The engine forgets it `lifetime` after the last change or event.
    ///
    /// The epoch is 1 for a new session. A node whose session the engine has lost creates it again with the next epoch.
    ///
    /// # Errors
    /// [`RelayError::Fenced`] if the session exists with another owner or epoch, or the owner has no lease;
    /// [`RelayError::Gone`] if it was closed.
    fn reserve<'a>(
        &'a self,
        session: &'a SessionKey,
        owner: &'a SessionOwner,
        record: &'a NewSession,
        lifetime: Duration,
    ) -> RelayFuture<'a, ()>;

    /// Reads a session. `None` is certain: no session of this key exists.
    ///
    /// # Errors
    /// [`RelayError::Recovering`] if the session is missing while the engine may have lost it.
    fn find<'a>(&'a self, session: &'a SessionKey) -> RelayFuture<'a, Option<RelaySession>>;

    /// Applies changes, all or none, and extends the lifetime of the session with all its streams. No changes only
    /// extend it; an owner does so at least twice per lifetime.
    ///
    /// # Errors
    /// [`RelayError::Fenced`] if `me` is not the owner; [`RelayError::Gone`] if the session is missing or closed, or the
    /// new state lies before the present one; [`RelayError::LimitExceeded`].
    fn change<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        changes: &'a [SessionChange],
    ) -> RelayFuture<'a, ()>;

    /// Reads the entries of a session.
    fn entries<'a>(&'a self, session: &'a SessionKey) -> RelayFuture<'a, Vec<SessionEntry>>;

    /// Takes the session of a node whose lease has ended, with the next epoch. A repeat by the node that has won
    /// succeeds again.
    ///
    /// # Errors
    /// [`RelayError::Fenced`] if `dead` still has its lease, another node was faster, the record has a later format
    /// (`now` is the present owner), or `me` has no lease (`None`); [`RelayError::Gone`] if the session is missing or
    /// closed; [`RelayError::Recovering`] while leases may be unknown to the engine, except for a former id of this
    /// handle.
    fn adopt<'a>(
        &'a self,
        session: &'a SessionKey,
        dead: &'a SessionOwner,
        me: &'a NodeId,
    ) -> RelayFuture<'a, RelaySession>;

    /// Gives a session to another node, with the next epoch, without waiting for the end of a lease.
    ///
    /// # Errors
    /// [`RelayError::Fenced`] if `me` is not the owner, or `target` has no lease (`None`); [`RelayError::Gone`].
    fn hand_over<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        target: &'a NodeId,
    ) -> RelayFuture<'a, SessionOwner>;

    /// Opens a stream and returns its last position, which is its beginning unless this is a repeat.
    ///
    /// When a session has too many streams, the oldest one of requests without pending answers is dropped, else the
    /// oldest other one without.
    ///
    /// # Errors
    /// As [`Relay::change`].
    fn open_stream<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        stream: &'a NewStream,
    ) -> RelayFuture<'a, EventPosition>;

    /// Lists the streams of a session with their pending answers.
    fn streams<'a>(&'a self, session: &'a SessionKey) -> RelayFuture<'a, Vec<StreamSummary>>;

    /// Appends an event. Its sequence is one more than that of the last event; one that is not greater than that of the
    /// last is a repeat and changes nothing.
    ///
    /// # Errors
    /// [`RelayError::Fenced`], [`RelayError::Gone`] (also if the stream is missing), [`RelayError::OutOfOrder`],
    /// [`RelayError::LimitExceeded`].
    fn append<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        stream: StreamNumber,
        event: &'a NewEvent<'a>,
    ) -> RelayFuture<'a, AppendResult>;

    /// Reads at most `max` events after a position; `None` if the session has no such stream.
    ///
    /// # Errors
    /// [`RelayError::Recovering`] if the session or stream is missing while the engine may have lost it.
    fn read<'a>(
        &'a self,
        session: &'a SessionKey,
        stream: StreamNumber,
        after: EventPosition,
        max: usize,
    ) -> RelayFuture<'a, Option<EventPage>>;

    /// Uses a key; true for the first attempt within `lifetime`, and for its repeats.
    ///
    /// The mark is as durable as the engine: a failover may forget marks of the last moments before it, and a restart
    /// without data forgets all.
    fn once<'a>(
        &'a self,
        key: &'a OnceKey,
        attempt: &'a AttemptId,
        lifetime: Duration,
    ) -> RelayFuture<'a, bool>;

    /// Counts one use against a rate limit.
    fn limit<'a>(&'a self, key: &'a RateKey, limit: RateLimit) -> RelayFuture<'a, RateVerdict>;

    /// Takes back one use that [`Relay::limit`] has counted against the same limit.
    fn uncount<'a>(&'a self, key: &'a RateKey, limit: RateLimit) -> RelayFuture<'a, ()>;

    /// Adds labels to a data flow and returns all of its labels, in order. Labels are never removed; the flow is
    /// forgotten `lifetime` after the last call.
    ///
    /// # Errors
    /// [`RelayError::LimitExceeded`] if there are too many; the caller then has to assume every label.
    fn add_labels<'a>(
        &'a self,
        flow: &'a FlowKey,
        labels: &'a [&'a str],
        lifetime: Duration,
    ) -> RelayFuture<'a, Vec<Box<str>>>;

    /// Sends a hint to all nodes, this one included. It may be dropped.
    fn hint(&self, hint: RelayHint);

    /// Receives hints from now on.
    fn hints(&self) -> broadcast::Receiver<RelayHint>;

    /// Checks whether the engine can be reached, and whether its configuration is sufficient.
    fn health(&self) -> RelayFuture<'_, RelayHealth>;
}

/// Errors of the operations of a [`Relay`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The engine did not answer, or not with success. The operation may have been applied or may still be, unless
    /// [`EngineFault::is_refusal`].
    #[error("the shared store is not available: {0}")]
    Unavailable(EngineFault),
    /// The caller may not write: the session has this owner, or the node has no lease (`None`).
    #[error("another node owns the session, or the lease of this node has ended")]
    Fenced {
        /// Present owner of the session.
        now: Option<SessionOwner>,
    },
    /// The session was closed or is missing, or the lease has ended.
    #[error("the session or lease has ended")]
    Gone,
    /// The engine was restarted or replaced, so it may have lost sessions and leases.
    #[error("the shared store was replaced or restarted; retry in {} ms", retry_in.as_millis())]
    Recovering {
        /// Time after which the engine is certain again.
        retry_in: Duration,
    },
    /// An event before this one is missing.
    #[error("event out of order: the next sequence of the stream is {expected}")]
    OutOfOrder {
        /// Sequence that the next event has to have.
        expected: u64,
    },
    /// A value or a number of values is above a limit of [`RelayLimits`](crate::settings::RelayLimits).
    #[error("more than {maximum} (limit {limit})")]
    LimitExceeded {
        /// Name of the setting.
        limit: &'static str,
        /// Its value.
        maximum: usize,
    },
    /// A record was not sealed with a key of this node, or was modified.
    #[error("a shared record does not open with the fleet keys of this node; give all nodes the same keys")]
    Sealed,
}

/// Causes of [`RelayError::Unavailable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum EngineFault {
    /// There is no connection.
    #[error("no connection")]
    NotConnected,
    /// The connection broke before the answer.
    #[error("the connection broke")]
    Disconnected,
    /// No answer arrived in time.
    #[error("no answer within response_timeout")]
    Timeout,
    /// The engine has no memory left for writes.
    #[error("the engine is out of memory; raise maxmemory")]
    OutOfMemory,
    /// The engine is a replica.
    #[error("the engine is a read-only replica")]
    ReadOnly,
    /// The engine is reading its data.
    #[error("the engine is loading its data")]
    Loading,
    /// The engine refuses writes: too few replicas, or its disk fails.
    #[error("the engine refuses writes (MISCONF or NOREPLICAS); check its replicas and its disk")]
    WritesRefused,
    /// The engine refuses the user or the password.
    #[error("the engine refuses the credentials or lacks permissions for them")]
    Authentication,
    /// The answer could not be understood.
    #[error("unexpected answer of the engine")]
    Protocol,
}

impl EngineFault {
    /// Returns true if the operation was certainly not applied and will not be.
    #[must_use]
    pub fn is_refusal(self) -> bool {
        !matches!(self, Self::Disconnected | Self::Timeout | Self::Protocol)
    }
}

/// Message to all nodes that something has changed. Receivers look up what; they never rely on the hint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayHint {
    /// Kind of the change, for example `approval`.
    pub topic: Box<str>,
    /// Key of what has changed, for example a principal.
    pub detail: Box<str>,
}

impl RelayHint {
    /// Creates a hint.
    #[must_use]
    pub fn new(topic: &str, detail: &str) -> Self {
        Self { topic: topic.into(), detail: detail.into() }
    }
}

/// Report on the state of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayHealth {
    /// Time until the engine is certain again after it was replaced or restarted.
    pub recovering: Option<Duration>,
    /// Number of hints that were dropped because too many waited.
    pub dropped_hints: u64,
    /// Faults of the engine's configuration, as sentences for an operator.
    pub problems: Vec<String>,
}
