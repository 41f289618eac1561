//! Pin status of a server and its items, as calls look it up.

use std::collections::HashSet;

use hospes_store::pins::{
    ItemKind, ItemPinState, ServerFingerprint, ServerPinState, Sha256Digest, StoredServer,
};

/// Reasons for which a server or an item is blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BlockReason {
    /// The server was never accepted.
    NewServer,
    /// Somebody has rejected it.
    RejectedServer,
    /// Its program is not the one that was accepted.
    Replaced,
    /// It cannot be read what was accepted.
    Unreadable(String),
    /// It was not there when the server was accepted.
    New,
    /// It is not as it was accepted.
    Changed,
    /// Somebody has rejected it.
    Rejected,
    /// The server does not offer it any more, or not here.
    NotOffered,
    /// The server's definitions have changed, and cannot be read.
    Unread,
}

impl BlockReason {
    /// Returns the reason as the end of a sentence that says which action failed. The model reads it and may tell the
    /// person.
    pub(crate) fn message(&self, server: &str) -> String {
        let (why, item) = match self {
            Self::NewServer => ("this server has not been accepted yet", ""),
            Self::RejectedServer => ("this server was rejected", ""),
            Self::Replaced => ("the program of this server is not the one that was accepted", ""),
            Self::Unreadable(why) => {
                return format!("the pins of this server cannot be read: {why}");
            }
            Self::New => ("it is new since this server was accepted", " with its new items"),
            Self::Changed => {
                ("the server has changed its definition since it was accepted", " with its changes")
            }
            Self::Rejected => ("it was rejected", ""),
            Self::NotOffered => return "the server does not offer it now".to_owned(),
            Self::Unread => {
                return "the server's lists have changed and have not been read again yet; try again"
                    .to_owned();
            }
        };
        format!(
            "{why}. A person has to review {server} in the host's console and can accept it{item}; until \
             then calls are refused"
        )
    }

    /// Returns the reason for the audit log.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::NewServer => "the server is not accepted",
            Self::RejectedServer => "the server is rejected",
            Self::Replaced => "the server's program was replaced",
            Self::Unreadable(_) => "the pins cannot be read",
            Self::New => "the definition is new",
            Self::Changed => "the definition has changed",
            Self::Rejected => "the definition is rejected",
            Self::NotOffered => "the item is not offered",
            Self::Unread => "the definition is being read",
        }
    }
}

/// A server as calls see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PinStatus {
    /// Reason for which the whole server is blocked.
    whole: Option<BlockReason>,
    accepted: HashSet<Sha256Digest>,
    rejected: HashSet<Sha256Digest>,
    /// Names under which a definition was accepted.
    known: HashSet<(ItemKind, String)>,
    /// Number of items that wait for a decision.
    pub(crate) waiting: usize,
}

impl PinStatus {
    /// Creates the status of a server that was never seen.
    pub(crate) fn unseen() -> Self {
        Self { whole: Some(BlockReason::NewServer), ..Self::default() }
    }

    /// Creates the status of a server from its stored pins; none if it was never seen.
    pub(crate) fn of(server: Option<&StoredServer>, fingerprint: &ServerFingerprint) -> Self {
        let Some(server) = server else { return Self::unseen() };
        let whole = match server.state {
            // The state is about the command line; the program behind it is compared by itself.
            ServerPinState::Accepted if server.accepted_program != fingerprint.program_hash => {
                Some(BlockReason::Replaced)
            }
            ServerPinState::Accepted => None,
            ServerPinState::Rejected => Some(BlockReason::RejectedServer),
            _ => Some(BlockReason::NewServer),
        };
        let with = |state| server.items.iter().filter(move |item| item.state == state);
        Self {
            whole,
            accepted: with(ItemPinState::Accepted).map(|item| item.hash).collect(),
            rejected: with(ItemPinState::Rejected).map(|item| item.hash).collect(),
            known: with(ItemPinState::Accepted).map(|item| (item.kind, item.name.clone())).collect(),
            waiting: with(ItemPinState::Waiting).filter(|item| item.is_current).count(),
        }
    }

    /// Creates the status of a server whose pins cannot be read.
    pub(crate) fn unreadable(why: String) -> Self {
        // Nothing counts as accepted, so that nothing is used.
        Self { whole: Some(BlockReason::Unreadable(why)), ..Self::default() }
    }

    /// Returns the reason for which the whole server is blocked, if it is.
    pub(crate) fn server_block_reason(&self) -> Option<&BlockReason> {
        self.whole.as_ref()
    }

    /// Returns the reason for which a definition is blocked, if it is.
    pub(crate) fn item_block_reason(
        &self,
        kind: ItemKind,
        name: &str,
        hash: Option<Sha256Digest>,
    ) -> Option<BlockReason> {
        if let Some(whole) = &self.whole {
            return Some(whole.clone());
        }
        match hash {
            None => Some(BlockReason::NotOffered),
            Some(hash) if self.accepted.contains(&hash) => None,
            Some(hash) if self.rejected.contains(&hash) => Some(BlockReason::Rejected),
            Some(_) if self.known.contains(&(kind, name.to_owned())) => Some(BlockReason::Changed),
            Some(_) => Some(BlockReason::New),
        }
    }

    /// Returns true if all of these definitions are accepted.
    pub(crate) fn accepts_all(&self, mut hashes: impl Iterator<Item = Sha256Digest>) -> bool {
        self.whole.is_none() && hashes.all(|hash| self.accepted.contains(&hash))
    }
}
