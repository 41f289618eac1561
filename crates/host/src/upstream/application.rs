//! Identity of an application that makes calls, as far as applications can be told apart.

use std::sync::{Arc, Weak};

use hospes::Peer;
use hospes_model::Implementation;

/// An application that uses the host.
///
/// An application of the older era is its session. One of 2026-07-28 says with each request what it is, and nothing
/// more; two of them that say the same, for the same person, are one to everybody.
#[derive(Clone, Debug)]
pub(crate) enum ApplicationIdentity {
    /// The peer of its session.
    Session(Weak<Peer>),
    /// The application's description of itself, and the signed-in principal.
    Named { principal: Option<Arc<str>>, info: Option<Arc<Implementation>> },
}

impl ApplicationIdentity {
    pub(crate) fn of(peer: &Arc<Peer>) -> Self {
        if peer.revision.is_legacy() {
            return Self::Session(Arc::downgrade(peer));
        }
        Self::Named { principal: peer.principal.clone(), info: peer.info.clone() }
    }

    /// Returns true if the application will never call again.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Session(peer) if peer.strong_count() == 0)
    }
}

impl PartialEq for ApplicationIdentity {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            // The memory of a peer is not used again while somebody remembers it, so the address is its name.
            (Self::Session(one), Self::Session(other)) => one.ptr_eq(other),
            (
                Self::Named { principal, info },
                Self::Named { principal: other_principal, info: other_info },
            ) => principal == other_principal && info == other_info,
            _ => false,
        }
    }
}
