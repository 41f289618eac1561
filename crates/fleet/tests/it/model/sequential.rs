//! The model: one session, the nodes that are alive, and the answers that an engine has to give.

use std::collections::{BTreeMap, BTreeSet};

use hospes_fleet::node::NodeId;
use hospes_fleet::session::SessionOwner;
use hospes_fleet::stream::EventPosition;

/// Ids of the requests that are pending on the stream at first.
pub(super) const REQUESTS: [&str; 3] = ["0", "1", "2"];

/// Write as it is sent, so that it can arrive again.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Reserve { by: usize, owner: SessionOwner },
    Adopt { by: usize, dead: SessionOwner, me: NodeId },
    HandOver { by: usize, me: SessionOwner, target: NodeId },
    OpenStream { by: usize, me: SessionOwner },
    Append { by: usize, me: SessionOwner, sequence: u64, answers: Option<usize> },
    Close { by: usize, me: SessionOwner },
}

/// Answer of a write, without details that the model does not predict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
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
pub(super) struct Model {
    pub(super) session: Option<ModelSession>,
    pub(super) alive: BTreeSet<NodeId>,
    /// All owners that the session has had, by epoch.
    pub(super) owners: BTreeMap<u64, SessionOwner>,
}

impl Model {
    /// Applies a write and predicts its answer.
    pub(super) fn apply(&mut self, write: &Write) -> Answer {
        let Some(session) = &mut self.session else {
            return match write {
                Write::Reserve { owner, .. } if self.alive.contains(&owner.node) => {
                    self.session = Some(ModelSession { owner: *owner, is_closed: false, stream: None });
                    self.owners.insert(owner.epoch, *owner);
                    Answer::Done
                }
                Write::Reserve { .. } => Answer::Fenced(None),
                _ => Answer::Gone,
            };
        };
        if session.is_closed {
            return Answer::Gone;
        }
        let now = session.owner;
        let fenced = Answer::Fenced(Some(now));
        let me = match write {
            Write::Reserve { owner, .. } => return if *owner == now { Answer::Done } else { fenced },
            Write::Adopt { dead, me, .. } => {
                if !self.alive.contains(me) {
                    return Answer::Fenced(None);
                }
                if now != dead.next(*me) {
                    if now != *dead || self.alive.contains(&dead.node) {
                        return fenced;
                    }
                    session.owner = dead.next(*me);
                    self.owners.insert(session.owner.epoch, session.owner);
                }
                return Answer::Owned(session.owner);
            }
            Write::HandOver { me, target, .. } => {
                if now == me.next(*target) {
                    return Answer::Owned(now);
                }
                if now != *me {
                    return fenced;
                }
                if !self.alive.contains(target) {
                    return Answer::Fenced(None);
                }
                session.owner = me.next(*target);
                self.owners.insert(session.owner.epoch, session.owner);
                return Answer::Owned(session.owner);
            }
            Write::OpenStream { me, .. } | Write::Append { me, .. } | Write::Close { me, .. } => me,
        };
        if *me != now {
            return fenced;
        }
        match write {
            Write::Close { .. } => {
                session.is_closed = true;
                session.stream = None;
                Answer::Done
            }
            Write::OpenStream { .. } => {
                let pending = (0..REQUESTS.len()).collect();
                session.stream.get_or_insert(ModelStream { events: Vec::new(), pending });
                Answer::Done
            }
            Write::Append { sequence, answers, .. } => {
                let Some(stream) = &mut session.stream else { return Answer::Gone };
                let expected = stream.events.len() as u64 + 1;
                if *sequence < expected {
                    return Answer::Appended(*sequence);
                }
                if *sequence > expected {
                    return Answer::OutOfOrder(expected);
                }
                if answers.is_some_and(|request| !stream.pending.remove(&request)) {
                    return Answer::AlreadyAnswered;
                }
                let position = EventPosition { epoch: me.epoch, sequence: *sequence };
                stream.events.push((payload(*sequence, *answers), position));
                Answer::Appended(*sequence)
            }
            Write::Reserve { .. } | Write::Adopt { .. } | Write::HandOver { .. } => {
                unreachable!("treated above")
            }
        }
    }
}

pub(super) fn payload(sequence: u64, answers: Option<usize>) -> Vec<u8> {
    format!("{sequence} {answers:?}").into_bytes()
}
