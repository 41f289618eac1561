//! The table of legacy sessions.

use std::borrow::Borrow;
use std::collections::hash_map::RandomState;
use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher as _, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hospes_proto::http::SessionId;

use super::event_log::EventLog;
use super::session_share::SessionShare;
use super::shared_log::SharedLog;
use super::shared_sessions::{DirectoryError, NewStream, ResumedEvents, SessionHolder};
use crate::transport::adapter::{CallStopReason, LegacySession, SessionListenCalls, random_bytes};

/// Maximum number of resumable streams of a session: the limit `max_logged_streams`. The oldest that has ended makes
/// room.
const MAX_LOGGED_STREAMS: usize = 16;
/// Number of streams of changes beyond which the oldest of them makes room.
const MAX_LISTEN_LOGS: usize = MAX_LOGGED_STREAMS / 4;
/// The session's idle time is measured in this many parts.
const IDLE_TICKS: u32 = 8;
const SHARD_COUNT: usize = 16;

/// One session over HTTP.
#[derive(Debug)]
pub(super) struct HttpSession {
    id: SessionId,
    session: Arc<LegacySession>,
    /// The tick of its last request.
    used: AtomicU32,
    /// Number of requests and streams that keep it open.
    holders: AtomicU32,
    ended: AtomicBool,
    /// Grows with every GET stream; a new one replaces the old one.
    listeners: AtomicU32,
    streams: Mutex<SessionStreams>,
    /// The session in the directory, if processes share it.
    shared: Option<Box<SessionShare>>,
}

#[derive(Debug, Default)]
struct SessionStreams {
    last: u32,
    logs: VecDeque<Arc<EventLog>>,
    /// Call for changes while no client reads them; it collects the changes meanwhile.
    listen: Option<Box<SessionListenCalls>>,
}

/// Keeps a session from expiring.
#[derive(Debug)]
pub(super) struct SessionGuard(Arc<HttpSession>);

impl HttpSession {
    pub(super) fn id(&self) -> &SessionId {
        &self.id
    }

    pub(super) fn session(&self) -> &Arc<LegacySession> {
        &self.session
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Keeps the session open while the returned value lives.
    pub(super) fn hold(self: &Arc<Self>) -> SessionGuard {
        self.holders.fetch_add(1, Ordering::AcqRel);
        SessionGuard(Arc::clone(self))
    }

    /// Returns the session in the directory, if processes share it.
    pub(super) fn shared(&self) -> Option<&SessionShare> {
        self.shared.as_deref()
    }

    /// Stores what has changed since the last time for the next process that serves the session.
    pub(super) async fn save(&self) -> Result<(), DirectoryError> {
        match &self.shared {
            Some(shared) => shared.save(&self.session).await,
            None => Ok(()),
        }
    }

    /// Begins a stream that can be taken up again.
    pub(super) fn begin_stream(self: &Arc<Self>, opened: impl FnOnce() -> NewStream) -> Arc<EventLog> {
        self.add_stream(|number| match &self.shared {
            Some(_) => {
                let opened = opened();
                let listen = opened == NewStream::Listen;
                EventLog::shared(number, listen, SharedLog::new(self, number, opened))
            }
            None => EventLog::new(number, opened() == NewStream::Listen),
        })
    }

    /// Continues a stream from the events that the directory has kept.
    pub(super) fn continue_stream(self: &Arc<Self>, resumed: ResumedEvents) -> Arc<EventLog> {
        let ResumedEvents { stream, is_listen, after, events } = resumed;
        let shared = SharedLog::of_stream(self, stream);
        self.add_stream(|number| EventLog::resumed(number, is_listen, shared, after, events))
    }

    fn add_stream(&self, log: impl FnOnce(u32) -> EventLog) -> Arc<EventLog> {
        let mut streams = self.streams();
        streams.last += 1;
        let log = Arc::new(log(streams.last));
        if streams.logs.len() >= MAX_LOGGED_STREAMS {
            // A stream of changes never ends, but only the last one gets any: without a bound of their own they would leave no
            // room for those that answer.
            let listening = streams.logs.iter().filter(|log| log.is_listen()).count();
            let excess = streams.logs.iter().position(|log| log.is_listen());
            let ended = || streams.logs.iter().position(|log| log.has_ended());
            let dropped = excess.filter(|_| listening > MAX_LISTEN_LOGS).or_else(ended).unwrap_or(0);
            streams.logs.remove(dropped);
        }
        streams.logs.push_back(Arc::clone(&log));
        log
    }

    /// The stream that an event id names, if it is still known, and the position of the event.
    pub(super) fn stream(&self, event_id: &str) -> Option<(Arc<EventLog>, u64)> {
        let streams = self.streams();
        streams.logs.iter().find_map(|log| Some((Arc::clone(log), log.position_of(event_id)?)))
    }

    /// Becomes the one that listens; returns its number and the call for changes, if there has been one.
    pub(super) fn become_listener(&self) -> (u32, Option<SessionListenCalls>) {
        let number = self.listeners.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        // The stream that is replaced has to see it and end:
        // each message goes out on one stream only (HMUL-02).
        self.session.wake_listener();
        (number, self.streams().listen.take().map(|listen| *listen))
    }

    /// Returns true if that listener has not been replaced.
    pub(super) fn is_listener(&self, number: u32) -> bool {
        self.listeners.load(Ordering::Acquire) == number && !self.has_ended()
    }

    /// Gives back the call for changes, for the next listener.
    pub(super) fn return_listen(&self, number: u32, listen: SessionListenCalls) {
        if self.is_listener(number) {
            self.streams().listen = Some(Box::new(listen));
        }
    }

    /// Stops what runs for the session here.
    fn stop(&self, why: CallStopReason) {
        self.ended.store(true, Ordering::Release);
        self.session.stop(why);
        let mut streams = self.streams();
        streams.listen = None;
        let logs = std::mem::take(&mut streams.logs);
        drop(streams);
        for log in logs {
            log.end();
        }
    }

    fn streams(&self) -> MutexGuard<'_, SessionStreams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionHolder for HttpSession {
    fn abandon(&self) {
        tracing::info!(id = ?self.id, "the session is served elsewhere or has ended");
        self.stop(CallStopReason::SessionLost);
    }
}

impl SessionGuard {
    pub(super) fn get(&self) -> &Arc<HttpSession> {
        &self.0
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        self.0.holders.fetch_sub(1, Ordering::AcqRel);
    }
}

/// All sessions.
#[derive(Debug)]
pub(super) struct SessionTable {
    shards: [Mutex<HashSet<SessionEntry>>; SHARD_COUNT],
    hasher: RandomState,
    count: AtomicUsize,
    tick: AtomicU32,
    max: usize,
}

/// A session, found by its id.
#[derive(Debug)]
struct SessionEntry(Arc<HttpSession>);

impl Borrow<str> for SessionEntry {
    fn borrow(&self) -> &str {
        self.0.id.as_str()
    }
}

impl Hash for SessionEntry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.as_str().hash(state);
    }
}

impl PartialEq for SessionEntry {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for SessionEntry {}

/// There are as many sessions as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionTableFull(pub(super) usize);

impl SessionTable {
    pub(super) fn new(max: usize) -> Self {
        Self {
            shards: Default::default(),
            hasher: RandomState::new(),
            count: AtomicUsize::new(0),
            tick: AtomicU32::new(0),
            max,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Returns the sessions that processes share.
    pub(super) fn shared(&self) -> Vec<Arc<HttpSession>> {
        let shards = self.shards.iter();
        let shared =
            |SessionEntry(session): &SessionEntry| session.shared.is_some().then(|| Arc::clone(session));
        shards.flat_map(|shard| lock(shard).iter().filter_map(shared).collect::<Vec<_>>()).collect()
    }

    /// Adds a session that has been opened. At the cap, unused sessions make room.
    pub(super) fn enter(&self, session: Arc<LegacySession>) -> Result<Arc<HttpSession>, SessionTableFull> {
        self.enter_as(new_session_id(), session, None)
    }

    /// Adds a session under an id that it has.
    pub(super) fn enter_as(
        &self,
        id: SessionId,
        session: Arc<LegacySession>,
        shared: Option<SessionShare>,
    ) -> Result<Arc<HttpSession>, SessionTableFull> {
        // Counted before it is compared, so that concurrent handshakes cannot exceed the maximum.
        if self.count.fetch_add(1, Ordering::AcqRel) >= self.max && !self.evict() {
            self.count.fetch_sub(1, Ordering::AcqRel);
            return Err(SessionTableFull(self.max));
        }
        let session = Arc::new(HttpSession {
            id,
            session,
            used: AtomicU32::new(self.tick.load(Ordering::Relaxed)),
            holders: AtomicU32::new(0),
            ended: AtomicBool::new(false),
            listeners: AtomicU32::new(0),
            streams: Mutex::default(),
            shared: shared.map(Box::new),
        });
        if let Some(shared) = &session.shared {
            let session = Arc::downgrade(&session);
            shared.handle().set_holder(session);
        }
        self.shard(session.id.as_str()).insert(SessionEntry(Arc::clone(&session)));
        Ok(session)
    }

    /// The session of this id, which counts as used now.
    pub(super) fn find(&self, id: &str) -> Option<Arc<HttpSession>> {
        let found = self.shard(id).get(id).map(|entry| Arc::clone(&entry.0))?;
        found.used.store(self.tick.load(Ordering::Relaxed), Ordering::Relaxed);
        Some(found)
    }

    /// Ends a session, for all processes that share it.
    pub(super) fn remove(&self, session: &HttpSession) {
        if let Some(shared) = &session.shared {
            shared.end_in_background();
        }
        self.end(session);
    }

    /// Ends a session here that has ended for all processes.
    pub(super) fn end(&self, session: &HttpSession) {
        self.take_out(session, CallStopReason::SessionEnded);
    }

    /// Ends a session here that goes on elsewhere.
    pub(super) fn forget(&self, session: &HttpSession) {
        self.take_out(session, CallStopReason::SessionLost);
    }

    fn take_out(&self, session: &HttpSession, why: CallStopReason) {
        let id = session.id.as_str();
        let mut shard = self.shard(id);
        // Another one may have been entered under its id by now.
        let is_entered = shard.get(id).is_some_and(|entry| std::ptr::eq(&raw const *entry.0, session));
        let found = if is_entered { shard.take(id) } else { None };
        drop(shard);
        if let Some(SessionEntry(session)) = found {
            self.count.fetch_sub(1, Ordering::AcqRel);
            session.stop(why);
        }
    }

    /// Ends every session here.
    pub(super) fn clear(&self) {
        for shard in &self.shards {
            for SessionEntry(session) in std::mem::take(&mut *lock(shard)) {
                self.count.fetch_sub(1, Ordering::AcqRel);
                session.stop(CallStopReason::SessionEnded);
            }
        }
    }

    /// Ends the sessions that have been unused for the idle timeout. Must be called [`IDLE_TICKS`] times in that time.
    pub(super) fn sweep(&self) {
        let now = self.tick.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        for shard in &self.shards {
            // More than `IDLE_TICKS`, because a session used late in a tick would otherwise end a tick too early.
            let expired = |SessionEntry(session): &SessionEntry| {
                session.holders.load(Ordering::Acquire) == 0
                    && now.wrapping_sub(session.used.load(Ordering::Relaxed)) > IDLE_TICKS
            };
            // Collected first, because `remove` takes the lock of the shard.
            let gone: Vec<_> =
                lock(shard).iter().filter(|entry| expired(entry)).map(|entry| Arc::clone(&entry.0)).collect();
            for SessionEntry(session) in &*lock(shard) {
                let idle = now.wrapping_sub(session.used.load(Ordering::Relaxed));
                if let Some(shared) = &session.shared
                    && (idle <= 2 || session.holders.load(Ordering::Acquire) > 0)
                {
                    shared.handle().touch();
                }
            }
            for session in gone {
                tracing::debug!(id = ?session.id, "session expired (setting session_idle_timeout)");
                self.remove(&session);
            }
        }
    }

    /// Returns the interval between calls of [`SessionTable::sweep`].
    pub(super) fn sweep_interval(idle_timeout: std::time::Duration) -> std::time::Duration {
        (idle_timeout / IDLE_TICKS).max(std::time::Duration::from_millis(10))
    }

    /// Makes room for one session: ends one that is not held and was not used in this tick.
    fn evict(&self) -> bool {
        let now = self.tick.load(Ordering::Relaxed);
        for shard in &self.shards {
            let idle = |entry: &&SessionEntry| {
                entry.0.holders.load(Ordering::Acquire) == 0 && entry.0.used.load(Ordering::Relaxed) != now
            };
            let oldest = lock(shard)
                .iter()
                .filter(idle)
                .max_by_key(|entry| now.wrapping_sub(entry.0.used.load(Ordering::Relaxed)))
                .map(|entry| Arc::clone(&entry.0));
            if let Some(oldest) = oldest {
                tracing::info!(id = ?oldest.id, "idle session evicted (setting max_sessions)");
                self.remove(&oldest);
                return true;
            }
        }
        false
    }

    fn shard(&self, id: &str) -> MutexGuard<'_, HashSet<SessionEntry>> {
        let hash = self.hasher.hash_one(id);
        #[expect(clippy::cast_possible_truncation, reason = "any bits do")]
        lock(&self.shards[hash as usize % SHARD_COUNT])
    }
}

/// HSES-02, HSES-13: 128 bits that nobody can guess.
pub(super) fn new_session_id() -> SessionId {
    SessionId::from_random(random_bytes())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
