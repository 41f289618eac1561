//! The model: one session, the nodes that are alive, and the answers that an engine has to give.
//!
//! The random sequences and the histories of concurrent operations are compared with the same model.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hospes_fleet::node::NodeId;
use hospes_fleet::session::{NewSession, SessionChange, SessionKey, SessionOwner, SessionState};
use hospes_fleet::stream::{
    AppendResult, EventKind, EventPosition, NewEvent, NewStream, PendingAnswer, StreamNumber,
};
use hospes_fleet::{Relay, RelayError};

/// The stream of the session.
pub(crate) const STREAM: StreamNumber = StreamNumber { epoch: 1, counter: 1 };

/// Lifetime that does not end while leases do, again and again.
pub(crate) const LONG_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// Ids of the requests that are pending on the stream at first.
pub(crate) const REQUESTS: [&str; 3] = ["0", "1", "2"];

/// Write as it is sent, so that it can arrive again.
#[derive(Clone, Debug)]
pub(crate) enum SessionWrite {
    Reserve { by: usize, owner: SessionOwner },
    Adopt { by: usize, dead: SessionOwner, me: NodeId },
    HandOver { by: usize, me: SessionOwner, target: NodeId },
    OpenStream { by: usize, me: SessionOwner },
    Append { by: usize, me: SessionOwner, sequence: u64, answers: Option<usize> },
    Touch { by: usize, me: SessionOwner },
    Close { by: usize, me: SessionOwner },
}

impl SessionWrite {
    /// Handle that sends the write.
    pub(crate) fn by(&self) -> usize {
        match self {
            Self::Reserve { by, .. }
            | Self::Adopt { by, .. }
            | Self::HandOver { by, .. }
            | Self::OpenStream { by, .. }
            | Self::Append { by, .. }
            | Self::Touch { by, .. }
            | Self::Close { by, .. } => *by,
        }
    }
}

/// Answer of a write, without details that the model does not predict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WriteAnswer {
    Done,
    Owned(SessionOwner),
    Appended(u64),
    AlreadyAnswered,
    OutOfOrder(u64),
    Fenced(Option<SessionOwner>),
    Gone,
}

/// Session as the model knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ModelSession {
    pub(crate) owner: SessionOwner,
    pub(crate) is_closed: bool,
    pub(crate) stream: Option<ModelStream>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ModelStream {
    /// Payload and position of each event, from sequence 1.
    pub(crate) events: Vec<(Vec<u8>, EventPosition)>,
    pub(crate) pending: BTreeSet<usize>,
}

impl ModelStream {
    /// Events that an engine still has which keeps this many, and whether it has dropped some.
    pub(crate) fn kept(&self, max: usize) -> (&[(Vec<u8>, EventPosition)], bool) {
        let dropped = self.events.len().saturating_sub(max);
        (&self.events[dropped..], dropped > 0)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SessionModel {
    pub(crate) session: Option<ModelSession>,
    pub(crate) alive: BTreeSet<NodeId>,
    /// All owners that the session has had, by epoch.
    pub(crate) owners: BTreeMap<u64, SessionOwner>,
}

impl SessionModel {
    /// Applies a write and predicts its answer.
    pub(crate) fn apply(&mut self, write: &SessionWrite) -> WriteAnswer {
        let Some(session) = &mut self.session else {
            return match write {
                SessionWrite::Reserve { owner, .. } if self.alive.contains(&owner.node) => {
                    self.session = Some(ModelSession { owner: *owner, is_closed: false, stream: None });
                    note_owner(&mut self.owners, *owner);
                    WriteAnswer::Done
                }
                SessionWrite::Reserve { .. } => WriteAnswer::Fenced(None),
                _ => WriteAnswer::Gone,
            };
        };
        if session.is_closed {
            return WriteAnswer::Gone;
        }
        let now = session.owner;
        let fenced = WriteAnswer::Fenced(Some(now));
        let me = match write {
            SessionWrite::Reserve { owner, .. } => {
                return if *owner == now { WriteAnswer::Done } else { fenced };
            }
            SessionWrite::Adopt { dead, me, .. } => {
                if !self.alive.contains(me) {
                    return WriteAnswer::Fenced(None);
                }
                if now != dead.next(*me) {
                    if now != *dead || self.alive.contains(&dead.node) {
                        return fenced;
                    }
                    session.owner = dead.next(*me);
                    note_owner(&mut self.owners, session.owner);
                }
                return WriteAnswer::Owned(session.owner);
            }
            SessionWrite::HandOver { me, target, .. } => {
                if now == me.next(*target) {
                    return WriteAnswer::Owned(now);
                }
                if now != *me {
                    return fenced;
                }
                if !self.alive.contains(target) {
                    return WriteAnswer::Fenced(None);
                }
                session.owner = me.next(*target);
                note_owner(&mut self.owners, session.owner);
                return WriteAnswer::Owned(session.owner);
            }
            SessionWrite::OpenStream { me, .. }
            | SessionWrite::Append { me, .. }
            | SessionWrite::Touch { me, .. }
            | SessionWrite::Close { me, .. } => me,
        };
        if *me != now {
            return fenced;
        }
        match write {
            SessionWrite::Touch { .. } => WriteAnswer::Done,
            SessionWrite::Close { .. } => {
                session.is_closed = true;
                session.stream = None;
                WriteAnswer::Done
            }
            SessionWrite::OpenStream { .. } => {
                let pending = (0..REQUESTS.len()).collect();
                session.stream.get_or_insert(ModelStream { events: Vec::new(), pending });
                WriteAnswer::Done
            }
            SessionWrite::Append { sequence, answers, .. } => {
                let Some(stream) = &mut session.stream else { return WriteAnswer::Gone };
                let expected = stream.events.len() as u64 + 1;
                if *sequence < expected {
                    return WriteAnswer::Appended(*sequence);
                }
                if *sequence > expected {
                    return WriteAnswer::OutOfOrder(expected);
                }
                if answers.is_some_and(|request| !stream.pending.remove(&request)) {
                    return WriteAnswer::AlreadyAnswered;
                }
                let position = EventPosition { epoch: me.epoch, sequence: *sequence };
                stream.events.push((payload(*sequence, *answers), position));
                WriteAnswer::Appended(*sequence)
            }
            SessionWrite::Reserve { .. } | SessionWrite::Adopt { .. } | SessionWrite::HandOver { .. } => {
                unreachable!("treated above")
            }
        }
    }
}

/// Notes the next owner. Epochs rise by one, also when an owner restores a session that the engine has lost.
fn note_owner(owners: &mut BTreeMap<u64, SessionOwner>, owner: SessionOwner) {
    let last = owners.keys().last().copied().unwrap_or_default();
    assert_eq!(owner.epoch, last + 1, "the epoch does not rise by one");
    owners.insert(owner.epoch, owner);
}

/// Performs a write and returns its answer without the details that the model does not predict.
///
/// # Errors
/// If the engine is in doubt or away.
pub(crate) async fn perform_write(
    relay: &dyn Relay,
    session: &SessionKey,
    write: &SessionWrite,
) -> Result<WriteAnswer, RelayError> {
    let answer = match write {
        SessionWrite::Reserve { owner, .. } => {
            let record = NewSession::pending(*b"").with_state(SessionState::Active);
            relay.reserve(session, owner, &record, LONG_LIFETIME).await.map(|()| WriteAnswer::Done)
        }
        SessionWrite::Adopt { dead, me, .. } => {
            relay.adopt(session, dead, me).await.map(|session| WriteAnswer::Owned(session.owner))
        }
        SessionWrite::HandOver { me, target, .. } => {
            relay.hand_over(session, me, target).await.map(WriteAnswer::Owned)
        }
        SessionWrite::OpenStream { me, .. } => {
            let pending = REQUESTS.map(|request| PendingAnswer::new(request, *b""));
            let stream = NewStream::of_requests(STREAM, pending.to_vec());
            relay.open_stream(session, me, &stream).await.map(|_| WriteAnswer::Done)
        }
        SessionWrite::Append { me, sequence, answers, .. } => {
            let kind = answers.map_or(EventKind::Message, |request| EventKind::Answer(REQUESTS[request]));
            let payload = payload(*sequence, *answers);
            let event = NewEvent::new(*sequence, kind, &payload);
            relay.append(session, me, STREAM, &event).await.map(|appended| match appended {
                AppendResult::At(position) => WriteAnswer::Appended(position.sequence),
                _ => WriteAnswer::AlreadyAnswered,
            })
        }
        SessionWrite::Touch { me, .. } => relay.change(session, me, &[]).await.map(|()| WriteAnswer::Done),
        SessionWrite::Close { me, .. } => {
            let close = [SessionChange::State(SessionState::Closed)];
            relay.change(session, me, &close).await.map(|()| WriteAnswer::Done)
        }
    };
    match answer {
        Err(RelayError::Fenced { now }) => Ok(WriteAnswer::Fenced(now)),
        Err(RelayError::Gone) => Ok(WriteAnswer::Gone),
        Err(RelayError::OutOfOrder { expected }) => Ok(WriteAnswer::OutOfOrder(expected)),
        answer => answer,
    }
}

fn payload(sequence: u64, answers: Option<usize>) -> Vec<u8> {
    format!("{sequence} {answers:?}").into_bytes()
}
