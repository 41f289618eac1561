//! Sessions: keys, owners, records and changes.

use std::fmt;

use crate::keys::{digest, from_hex, to_hex};
use crate::node::NodeId;

/// Format of [`RelaySession::body`] that this version writes. Records of a later format are never adopted.
pub const RECORD_VERSION: u32 = 1;

/// Key of a session: SHA-256 of its principal and its id, so that the store holds no usable session id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey([u8; 32]);

impl SessionKey {
    /// Computes the key of a session; `principal` is `None` without sign-in.
    #[must_use]
    pub fn new(principal: Option<&str>, session_id: &str) -> Self {
        let tag: &[u8] = if principal.is_some() { b"1" } else { b"0" };
        let principal = principal.unwrap_or_default().as_bytes();
        Self(digest("session", &[tag, principal, session_id.as_bytes()]))
    }

    /// Computes the key of the claim of a server that one node runs for all nodes. Claims are sessions without streams:
    /// they have an owner and an epoch, and are adopted and handed over like them.
    #[must_use]
    pub fn of_server(server: &str) -> Self {
        Self(digest("server", &[server.as_bytes()]))
    }

    /// Reads the 64 hexadecimal digits that `Display` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text).map(Self)
    }

    #[cfg(feature = "redis")]
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionKey({self})")
    }
}

/// Owner of a session: a node and a fencing epoch, which grows by one with each new owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a pair that callers make")]
pub struct SessionOwner {
    /// Node that owns the session.
    pub node: NodeId,
    /// Number of the ownership, from 1, at most 2^53.
    pub epoch: u64,
}

impl SessionOwner {
    /// Creates the first owner of a session.
    #[must_use]
    pub fn first(node: NodeId) -> Self {
        Self { node, epoch: 1 }
    }

    /// Returns the owner after this one.
    #[must_use]
    pub fn next(self, node: NodeId) -> Self {
        Self { node, epoch: self.epoch + 1 }
    }
}

/// State of a session. It never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SessionState {
    /// `initialize` has not been answered.
    Pending,
    /// The session is in use.
    Active,
    /// Its upstream sessions are being ended.
    Closing,
    /// It has ended. Only this mark remains for a while.
    Closed,
}

/// Session as the directory knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelaySession {
    /// Present owner.
    pub owner: SessionOwner,
    /// State of the session.
    pub state: SessionState,
    /// Format of `body`.
    pub version: u32,
    /// Record of the host: principal, revision, client, log level. Sealed in a shared store; empty once closed.
    pub body: Vec<u8>,
}

/// Session that is created.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewSession {
    /// State of the session.
    pub state: SessionState,
    /// Format of `body`.
    pub version: u32,
    /// Record of the host.
    pub body: Vec<u8>,
}

impl NewSession {
    /// Creates a session whose `initialize` has not been answered.
    #[must_use]
    pub fn pending(body: impl Into<Vec<u8>>) -> Self {
        Self { state: SessionState::Pending, version: RECORD_VERSION, body: body.into() }
    }

    /// Sets the state, for a session that the engine has lost.
    #[must_use]
    pub fn with_state(mut self, state: SessionState) -> Self {
        self.state = state;
        self
    }
}

/// Change of a session by its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionChange {
    /// Moves the session on. `Closed` removes its record, entries and streams.
    State(SessionState),
    /// Replaces the record.
    Body(Vec<u8>),
    /// Adds or replaces an entry.
    Put(SessionEntry),
    /// Removes an entry, if it exists.
    Remove {
        /// Kind of the entry.
        kind: EntryKind,
        /// Key of the entry.
        key: Vec<u8>,
    },
}

/// Kinds of entries of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum EntryKind {
    /// Subscription to a resource; the key is its URI.
    Subscription,
    /// Task that the session follows; the key is its id.
    Task,
    /// Session at an upstream server; the key is the name of the server, the value the session id.
    Upstream,
}

/// Entry of a session. The owner adds and removes it alone; an adopter reads all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct SessionEntry {
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Key within the kind.
    pub key: Vec<u8>,
    /// Value, which may be empty.
    pub value: Vec<u8>,
}

impl SessionEntry {
    /// Creates an entry.
    #[must_use]
    pub fn new(kind: EntryKind, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { kind, key: key.into(), value: value.into() }
    }
}
