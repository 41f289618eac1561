//! A directory in memory, for endpoints in one process that act as several, with owners that end and an engine that
//! fails.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::request::Parts;
use http_body_util::{BodyExt as _, Full};

use super::super::shared_sessions::*;
use super::super::{Body, Endpoint};
use super::direct;

/// The longest event that is stored.
const MAX_EVENT_BYTES: usize = 100_000;

/// State that all nodes share.
#[derive(Debug, Default)]
pub(super) struct Fleet {
    sessions: Mutex<HashMap<String, SessionRecord>>,
    nodes: Mutex<Vec<Option<Endpoint>>>,
    dead: Mutex<HashSet<usize>>,
    fails: AtomicBool,
    /// True while events of first owners are not stored.
    pub(super) holds: AtomicBool,
    changed: tokio::sync::Notify,
}

#[derive(Clone, Debug, Default)]
struct SessionRecord {
    principal: Option<String>,
    owner: usize,
    epoch: u64,
    snapshot: Vec<u8>,
    streams: Vec<StreamRecord>,
}

#[derive(Clone, Debug, Default)]
struct StreamRecord {
    is_listen: bool,
    unanswered: Vec<StreamRequest>,
    events: Vec<(u64, Bytes)>,
}

impl Fleet {
    /// Adds a node.
    pub(super) fn node(self: &Arc<Self>) -> Arc<NodeDirectory> {
        let mut nodes = self.nodes.lock().unwrap();
        nodes.push(None);
        Arc::new(NodeDirectory { fleet: Arc::clone(self), node: nodes.len() - 1 })
    }

    /// Ends a node's lease. It may not know.
    pub(super) fn kill(&self, node: usize) {
        self.dead.lock().unwrap().insert(node);
        self.changed.notify_waiters();
    }

    pub(super) fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    pub(super) fn release_events(&self) {
        self.holds.store(false, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Number of events of all streams of all sessions.
    pub(super) fn events(&self) -> usize {
        let sessions = self.sessions.lock().unwrap();
        sessions.values().flat_map(|session| &session.streams).map(|stream| stream.events.len()).sum()
    }

    pub(super) fn sessions(&self) -> usize {
        self.sessions.lock().unwrap().len()
    }

    fn is_dead(&self, node: usize) -> bool {
        self.dead.lock().unwrap().contains(&node)
    }

    fn records(&self) -> Result<MutexGuard<'_, HashMap<String, SessionRecord>>, DirectoryError> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(DirectoryError::Unavailable("as asked".to_owned()));
        }
        Ok(self.sessions.lock().unwrap())
    }
}

/// The directory as one node has it.
#[derive(Debug)]
pub(super) struct NodeDirectory {
    fleet: Arc<Fleet>,
    pub(super) node: usize,
}

impl NodeDirectory {
    /// Makes the node's endpoint known to the others.
    pub(super) fn serve(&self, endpoint: &Endpoint) {
        self.fleet.nodes.lock().unwrap()[self.node] = Some(endpoint.clone());
    }

    fn owned(&self, id: &str, epoch: u64) -> Arc<OwnedSession> {
        Arc::new_cyclic(|this| OwnedSession {
            this: Weak::clone(this),
            fleet: Arc::clone(&self.fleet),
            node: self.node,
            id: id.to_owned(),
            epoch,
        })
    }
}

impl SessionDirectory for NodeDirectory {
    fn reserve<'a>(&'a self, session: SessionName<'a>) -> DirectoryFuture<'a, Arc<dyn SharedSession>> {
        let reserved = self.fleet.records().map(|mut records| {
            let principal = session.principal.map(str::to_owned);
            let record = SessionRecord { principal, owner: self.node, epoch: 1, ..SessionRecord::default() };
            records.insert(session.id.to_owned(), record);
            self.owned(session.id, 1) as Arc<dyn SharedSession>
        });
        std::future::ready(reserved).boxed()
    }

    fn locate<'a>(&'a self, session: SessionName<'a>) -> DirectoryFuture<'a, SessionPlace> {
        let place = self.fleet.records().map(|mut records| {
            let Some(record) = records.get_mut(session.id) else { return SessionPlace::Unknown };
            if record.principal.as_deref() != session.principal {
                return SessionPlace::Unknown;
            }
            if record.owner != self.node && !self.fleet.is_dead(record.owner) {
                let owner = ForwarderToNode { fleet: Arc::clone(&self.fleet), node: record.owner };
                return SessionPlace::Elsewhere(Arc::new(owner));
            }
            if record.owner != self.node || self.fleet.is_dead(self.node) {
                record.owner = self.node;
                record.epoch += 1;
            }
            let owned = self.owned(session.id, record.epoch);
            let unanswered =
                record.streams.iter().enumerate().filter(|(_, stream)| !stream.unanswered.is_empty());
            let unanswered = unanswered.map(|(at, stream)| UnansweredStream {
                stream: Arc::new(OwnedStream { session: Arc::clone(&owned), at }),
                last: stream.events.len() as u64,
                requests: stream.unanswered.clone(),
            });
            let unanswered = unanswered.collect();
            let adopted = AdoptedSession::new(owned, record.snapshot.clone(), record.epoch);
            SessionPlace::Here(adopted.with_unanswered(unanswered))
        });
        // Others run between the look and the answer, as with a real engine.
        async move {
            tokio::task::yield_now().await;
            place
        }
        .boxed()
    }
}

#[derive(Debug)]
struct OwnedSession {
    this: Weak<Self>,
    fleet: Arc<Fleet>,
    node: usize,
    id: String,
    epoch: u64,
}

impl OwnedSession {
    fn with<T>(&self, change: impl FnOnce(&mut SessionRecord) -> T) -> Result<T, DirectoryError> {
        let mut records = self.fleet.records()?;
        match records.get_mut(&self.id) {
            Some(record) if (record.owner, record.epoch) == (self.node, self.epoch) => Ok(change(record)),
            _ => Err(DirectoryError::NotOwned),
        }
    }

    fn this(&self) -> Arc<Self> {
        self.this.upgrade().unwrap()
    }
}

impl SharedSession for OwnedSession {
    fn is_owned(&self) -> bool {
        !self.fleet.is_dead(self.node)
    }

    fn save<'a>(&'a self, snapshot: &'a [u8]) -> DirectoryFuture<'a, ()> {
        std::future::ready(self.with(|record| record.snapshot = snapshot.to_vec())).boxed()
    }

    fn touch(&self) {}

    fn end(&self) -> DirectoryFuture<'_, ()> {
        let ended = self.with(|_| {});
        if ended.is_ok() {
            self.fleet.sessions.lock().unwrap().remove(&self.id);
        }
        std::future::ready(ended).boxed()
    }

    fn open_stream(&self, _: u32, stream: NewStream) -> DirectoryFuture<'_, Arc<dyn SharedStream>> {
        let opened = self.with(|record| {
            let (is_listen, unanswered) = match stream {
                NewStream::Listen => (true, Vec::new()),
                NewStream::Requests(requests) => (false, requests),
            };
            record.streams.push(StreamRecord { is_listen, unanswered, events: Vec::new() });
            record.streams.len() - 1
        });
        let opened =
            opened.map(|at| Arc::new(OwnedStream { session: self.this(), at }) as Arc<dyn SharedStream>);
        std::future::ready(opened).boxed()
    }

    fn resume<'a>(&'a self, event_id: &'a str) -> DirectoryFuture<'a, Option<ResumedEvents>> {
        let resumed = self.with(|record| {
            let (at, after) = parse(event_id)?;
            let stream = record.streams.get(at)?;
            let events = stream.events.iter().enumerate().skip(usize::try_from(after).ok()?);
            let events = events.map(|(n, (_, message))| (event_name(at, n as u64 + 1), message.clone()));
            Some(ResumedEvents {
                stream: Arc::new(OwnedStream { session: self.this(), at }),
                is_listen: stream.is_listen,
                after,
                events: events.collect(),
            })
        });
        std::future::ready(resumed).boxed()
    }
}

#[derive(Debug)]
struct OwnedStream {
    session: Arc<OwnedSession>,
    at: usize,
}

fn event_name(stream: usize, number: u64) -> Box<str> {
    format!("s{stream}e{number}").into()
}

fn parse(id: &str) -> Option<(usize, u64)> {
    let (stream, number) = id.strip_prefix('s')?.split_once('e')?;
    Some((stream.parse().ok()?, number.parse().ok()?))
}

impl SharedStream for OwnedStream {
    fn first_event_id(&self) -> String {
        event_name(self.at, 0).into()
    }

    fn number_of(&self, event_id: &str) -> Option<u64> {
        parse(event_id).filter(|(at, _)| *at == self.at).map(|(_, number)| number)
    }

    fn append<'a>(&'a self, event: NewStreamEvent<'a>) -> DirectoryFuture<'a, Option<Box<str>>> {
        async move {
            let fleet = &self.session.fleet;
            tokio::task::yield_now().await;
            loop {
                let changed = fleet.changed.notified();
                // Those of a later owner are stored: it is another connection that hangs.
                if !fleet.holds.load(Ordering::SeqCst) || self.session.epoch > 1 {
                    break;
                }
                changed.await;
            }
            if event.message.len() > MAX_EVENT_BYTES {
                return Err(DirectoryError::Refused(format!(
                    "the limit max_event_bytes is {MAX_EVENT_BYTES}"
                )));
            }
            let epoch = self.session.epoch;
            self.session.with(|record| {
                let stream = &mut record.streams[self.at];
                if let Some(answered) = event.answers {
                    let at = stream.unanswered.iter().position(|request| request.id == answered)?;
                    stream.unanswered.remove(at);
                }
                assert_eq!(event.number, stream.events.len() as u64 + 1, "numbers are gapless");
                stream.events.push((epoch, Bytes::copy_from_slice(event.message)));
                Some(event_name(self.at, event.number))
            })
        }
        .boxed()
    }
}

/// Hands requests to the endpoint of another node.
#[derive(Debug)]
struct ForwarderToNode {
    fleet: Arc<Fleet>,
    node: usize,
}

impl SessionForwarder for ForwarderToNode {
    fn forward(&self, mut parts: Parts, body: Bytes) -> BoxFuture<'_, ForwardResult> {
        async move {
            if self.fleet.is_dead(self.node) {
                return ForwardResult::NotProcessed;
            }
            let Some(endpoint) = self.fleet.nodes.lock().unwrap()[self.node].clone() else {
                return ForwardResult::NotProcessed;
            };
            parts.extensions.insert(ForwardedRequest);
            let request = http::Request::from_parts(parts, Full::new(body));
            let lost = async {
                loop {
                    let changed = self.fleet.changed.notified();
                    if self.fleet.is_dead(self.node) {
                        return;
                    }
                    changed.await;
                }
            };
            let (parts, body) = tokio::select! {
                response = direct(&endpoint, request) => response.into_parts(),
                () = lost => return ForwardResult::OutcomeUnknown,
            };
            let is_stream =
                parts.headers.get("content-type").is_some_and(|value| value == "text/event-stream");
            let body = if is_stream {
                Body::forwarded_events(body)
            } else {
                Body::from(body.collect().await.unwrap().to_bytes())
            };
            ForwardResult::Response(http::Response::from_parts(parts, body))
        }
        .boxed()
    }
}
