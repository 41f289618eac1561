//! The model: one session, the nodes that are alive, and the answers that an engine has to give.

use std::collections::{BTreeMap, BTreeSet};

use hospes_fleet::node::NodeId;
use hospes_fleet::session::SessionOwner;
use hospes_fleet::stream::EventPosition;

/// Ids of the requests that are pending on the stream at first.
pub(super) const REQUESTS: [&str; 3] = ["0", "1", "2"];

/// Write as it is sent, so that it can arrive again.
#[derive(Clone, Debug)]
pub(super) enum SessionWrite {
    Reserve { by: usize, owner: SessionOwner },
    Adopt { by: usize, dead: SessionOwner, me: NodeId },
    HandOver { by: usize, me: SessionOwner, target: NodeId },
    OpenStream { by: usize, me: SessionOwner },
    Append { by: usize, me: SessionOwner, sequence: u64, answers: Option<usize> },
    Close { by: usize, me: SessionOwner },
}

/// Answer of a write, without details that the model does not predict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WriteAnswer {
    Done,
    Owned(SessionOwner),
    Appended(u64),
    AlreadyAnswered,
    OutOfOrder(u64),
    Fenced(Option<SessionOwner>),
    Gone,
}

/// Session as the model knows it.
#[derive(Clone, Debug)]
pub(super) struct ModelSession {
    pub(super) owner: SessionOwner,
    pub(super) is_closed: bool,
    pub(super) stream: Option<ModelStream>,
}

#[derive(Clone, Debug)]
pub(super) struct ModelStream {
    /// Payload and position of each event, from sequence 1.
    pub(super) events: Vec<(Vec<u8>, EventPosition)>,
    pub(super) pending: BTreeSet<usize>,
}

#[derive(Debug, Default)]
pub(super) struct SessionModel {
    pub(super) session: Option<ModelSession>,
    pub(super) alive: BTreeSet<NodeId>,
    /// All owners that the session has had, by epoch.
    pub(super) owners: BTreeMap<u64, SessionOwner>,
}

impl SessionModel {
    /// Applies a write and predicts its answer.
    pub(super) fn apply(&mut self, write: &SessionWrite) -> WriteAnswer {
        let Some(session) = &mut self.session else {
            return match write {
                SessionWrite::Reserve { owner, .. } if self.alive.contains(&owner.node) => {
                    self.session = Some(ModelSession { owner: *owner, is_closed: false, stream: None });
                    self.owners.insert(owner.epoch, *owner);
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
                    self.owners.insert(session.owner.epoch, session.owner);
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
                self.owners.insert(session.owner.epoch, session.owner);
                return WriteAnswer::Owned(session.owner);
            }
            SessionWrite::OpenStream { me, .. }
            | SessionWrite::Append { me, .. }
            | SessionWrite::Close { me, .. } => me,
        };
        if *me != now {
            return fenced;
        }
        match write {
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

pub(super) fn payload(sequence: u64, answers: Option<usize>) -> Vec<u8> {
    format!("{sequence} {answers:?}").into_bytes()
}
