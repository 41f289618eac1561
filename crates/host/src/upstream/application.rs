//! Identity of calling applications, as far as they can be distinguished.

use std::sync::{Arc, Weak};

use hospes::Peer;
use hospes_model::Implementation;

/// An application that uses the host.
///
/// A legacy application is identified by its session. An application of 2026-07-28 only describes itself in each
/// request; two with the same description and the same user cannot be distinguished.
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
