//! Pin status of a server and its items, as calls look it up.

use std::collections::HashSet;

use crate::server::BlockReason;
use hospes_store::pins::{
    ItemKind, ItemPinState, ServerFingerprint, ServerPinState, Sha256Digest, StoredServer,
};

/// A server as calls see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PinStatus {
    /// Reason for which the whole server is blocked.
    whole: Option<BlockReason>,
    accepted: HashSet<Sha256Digest>,
    rejected: HashSet<Sha256Digest>,
    /// Names under which a definition was accepted.
    known: HashSet<(ItemKind, String)>,
    /// Items whose definitions a person has accepted, and not the first use.
    reviewed: HashSet<(ItemKind, String)>,
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
            reviewed: server.items_accepted_by_person().map(|(kind, name)| (kind, name.to_owned())).collect(),
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

    /// Returns true if a person has accepted each accepted definition of an item.
    pub(crate) fn is_accepted_by_person(&self, kind: ItemKind, name: &str) -> bool {
        self.whole.is_none() && self.reviewed.contains(&(kind, name.to_owned()))
    }

    /// Returns true if all of these definitions are accepted.
    pub(crate) fn accepts_all(&self, mut hashes: impl Iterator<Item = Sha256Digest>) -> bool {
        self.whole.is_none() && hashes.all(|hash| self.accepted.contains(&hash))
    }
}
