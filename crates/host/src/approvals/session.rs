//! Session to which a permission "for this session" is bound.

use std::sync::{Arc, Weak};

use hospes::Peer;
use jiff::{SignedDuration, Timestamp};

/// Lifetime of a permission for a session in 2026-07-28, which has no sessions with a defined end.
pub const SESSION_LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// Identity of a session. The application's name is not part of it, because any application can choose it; the grant
/// compares the name separately.
#[derive(Clone, Debug)]
pub(crate) enum GrantSession {
    /// A session over HTTP or a connection over pipes, of a revision before 2026-07-28. It ends when its peer is
    /// dropped. Until then the peer's memory is not reused, so its address identifies the session.
    Connection(Weak<Peer>),
    /// The calling process with 2026-07-28, as the transport has identified it. None if it has not; then the signed-in
    /// user or the host's single connection identifies the session.
    Process(Option<Arc<str>>),
}

impl GrantSession {
    pub(crate) fn of(peer: &Arc<Peer>) -> Self {
        if peer.revision.is_legacy() {
            Self::Connection(Arc::downgrade(peer))
        } else {
            Self::Process(peer.caller.clone())
        }
    }

    /// Returns true if a call of this peer belongs to the session.
    pub(crate) fn includes(&self, peer: &Arc<Peer>) -> bool {
        match self {
            Self::Connection(known) => Weak::as_ptr(known) == Arc::as_ptr(peer),
            Self::Process(known) => !peer.revision.is_legacy() && peer.caller == *known,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Self::Connection(peer) if peer.strong_count() == 0)
    }

    /// Returns the latest end of a permission that is given for the session at `now`. None if the session's own end is
    /// known when it comes.
    pub(super) fn end(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Connection(_) => None,
            Self::Process(_) => Some(now.checked_add(SESSION_LIFETIME).unwrap_or(Timestamp::MAX)),
        }
    }

    /// Describes the session and the lifetime of a permission for it, to be read after "for".
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Connection(_) => "this connection of the application, until it ends".to_owned(),
            Self::Process(Some(process)) => format!("{process}, for one hour"),
            Self::Process(None) => "this application, for one hour".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use hospes_model::{ClientCapabilities, Revision};

    use super::*;

    fn peer(revision: Revision, caller: Option<&str>) -> Arc<Peer> {
        let mut peer = Peer::new(revision, None, ClientCapabilities::default());
        peer.caller = caller.map(Arc::from);
        Arc::new(peer)
    }

    #[test]
    fn a_connection_is_a_session_and_so_is_a_process_where_there_are_none() {
        for revision in Revision::ALL {
            let mine = peer(revision, Some("process 1"));
            let session = GrantSession::of(&mine);
            assert!(session.includes(&mine) && !session.is_over());
            let same_process = peer(revision, Some("process 1"));
            assert_eq!(session.includes(&same_process), !revision.is_legacy());
            assert!(!session.includes(&peer(revision, Some("process 2"))));
            assert!(!session.includes(&peer(revision, None)));
            assert_eq!(session.end(Timestamp::UNIX_EPOCH).is_some(), !revision.is_legacy());
            drop(mine);
            assert_eq!(session.is_over(), revision.is_legacy());
        }
    }
}
