//! Session that this process owns.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures::FutureExt as _;
use hospes::transport::http_server::shared_sessions::{
    DirectoryError, DirectoryFuture, NewStream, ResumedEvents, SessionHolder, SharedSession, SharedStream,
};
use hospes_fleet::node::NodeId;
use hospes_fleet::session::{RelaySession, SessionChange, SessionKey, SessionOwner, SessionState};
use hospes_fleet::stream::{self, EventId, PendingAnswer, StreamKind, StreamNumber};
use hospes_fleet::{Relay, RelayError};
use parking_lot::Mutex;

use crate::directory::directory_error;
use crate::membership::Membership;
use crate::owned_stream::OwnedStream;

/// Number of events that are read at once.
const PAGE_EVENTS: usize = 64;

/// Session that this process owns, until another one does.
pub(crate) struct OwnedSession {
    this: Weak<Self>,
    membership: Membership,
    key: SessionKey,
    /// Changes when this process continues the session under a new node id.
    owner: Mutex<SessionOwner>,
    /// First epoch in which this process owned the session without a break in its memory.
    generation: u64,
    lost: AtomicBool,
    /// Part of the session in the memory of this process.
    holder: Mutex<Option<Weak<dyn SessionHolder>>>,
}

impl OwnedSession {
    pub(crate) fn new(membership: Membership, key: SessionKey, owner: SessionOwner) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            membership,
            key,
            generation: owner.epoch,
            owner: Mutex::new(owner),
            lost: AtomicBool::new(false),
            holder: Mutex::default(),
        })
    }

    pub(crate) fn key(&self) -> &SessionKey {
        &self.key
    }

    pub(crate) fn owner(&self) -> SessionOwner {
        *self.owner.lock()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn relay(&self) -> &Arc<dyn Relay> {
        self.membership.relay()
    }

    /// Continues the session under a new owner, if nobody has owned it since `before`.
    pub(crate) fn continue_as(&self, before: &SessionOwner, now: SessionOwner) -> bool {
        let mut owner = self.owner.lock();
        let unbroken = *owner == *before && !self.lost.load(Ordering::Acquire);
        if unbroken {
            *owner = now;
        }
        unbroken
    }

    /// Notes a loss of the session, and returns the error as an endpoint has it.
    pub(crate) fn check<T>(&self, result: Result<T, RelayError>) -> Result<T, DirectoryError> {
        if let Err(RelayError::Fenced { now: Some(owner) }) = &result
            && self.membership.is_own(owner.node)
        {
            // This process is about to continue the session under a new node id.
            return Err(DirectoryError::Unavailable("the owner changes its node id".to_owned()));
        }
        let result = result.map_err(|error| directory_error(&error));
        if matches!(result, Err(DirectoryError::NotOwned)) {
            self.lose();
        }
        result
    }

    /// Stops what this process has of the session, if it is not its owner any more under any of its node ids.
    pub(crate) async fn stop_if_lost(&self) -> Result<(), RelayError> {
        if self.lost.load(Ordering::Acquire) {
            return Ok(());
        }
        let found = self.relay().find(&self.key).await?;
        let is_own = |found: RelaySession| {
            found.state != SessionState::Closed && self.membership.is_own(found.owner.node)
        };
        if !found.is_some_and(is_own) {
            self.lose();
        }
        Ok(())
    }

    fn lose(&self) {
        if !self.lost.swap(true, Ordering::AcqRel)
            && let Some(holder) = self.holder.lock().take().and_then(|holder| holder.upgrade())
        {
            holder.abandon();
        }
    }

    /// Gives the session to another node; false if that fails.
    pub(crate) async fn give_to(&self, target: NodeId) -> bool {
        let given = self.relay().hand_over(&self.key, &self.owner(), &target).await;
        match given {
            Ok(_) => self.lost.store(true, Ordering::Release),
            Err(error) => {
                tracing::warn!(%error, session = %self.key, "a session cannot be given to another node");
                return false;
            }
        }
        true
    }

    async fn change(&self, changes: &[SessionChange]) -> Result<(), DirectoryError> {
        let changed = self.relay().change(&self.key, &self.owner(), changes).await;
        self.check(changed)
    }

    fn this(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    async fn read_after(&self, id: EventId) -> Result<Option<ResumedEvents>, RelayError> {
        let streams = self.relay().streams(&self.key).await?;
        let Some(summary) = streams.into_iter().find(|stream| stream.number == id.stream) else {
            return Ok(None);
        };
        let Some(this) = self.this() else { return Ok(None) };
        let mut events: Vec<(Box<str>, Bytes)> = Vec::new();
        let mut position = id.position;
        let mut first = None;
        loop {
            let page = self.relay().read(&self.key, id.stream, position, PAGE_EVENTS).await?;
            let Some(page) = page else { return Ok(None) };
            if page.is_trimmed && first.is_none() {
                tracing::warn!(
                    session = %self.key, stream = %id.stream,
                    "events were dropped before the client resumed (limits max_stream_events, max_stream_bytes)"
                );
            }
            let count = page.events.len();
            for event in page.events {
                position = event.position;
                first.get_or_insert(position.sequence);
                let id = EventId { stream: id.stream, position };
                events.push((id.to_string().into(), event.payload.into()));
            }
            if count < PAGE_EVENTS {
                break;
            }
        }
        Ok(Some(ResumedEvents {
            stream: Arc::new(OwnedStream::new(this, id.stream)),
            is_listen: summary.kind == StreamKind::Listen,
            after: first.map_or(summary.last.sequence, |first| first - 1),
            events,
        }))
    }
}

impl fmt::Debug for OwnedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedSession")
            .field("key", &self.key)
            .field("owner", &self.owner())
            .finish_non_exhaustive()
    }
}

impl SharedSession for OwnedSession {
    fn is_owned(&self) -> bool {
        !self.lost.load(Ordering::Acquire) && self.membership.is_owner(self.owner().node)
    }

    fn save<'a>(&'a self, snapshot: &'a [u8]) -> DirectoryFuture<'a, ()> {
        async move {
            let active = SessionChange::State(SessionState::Active);
            self.change(&[active, SessionChange::Body(snapshot.to_vec())]).await
        }
        .boxed()
    }

    fn touch(&self) {
        // None while the runtime shuts down.
        let (Ok(runtime), Some(this)) = (tokio::runtime::Handle::try_current(), self.this()) else { return };
        runtime.spawn(async move {
            if let Err(error) = this.change(&[]).await {
                tracing::debug!(%error, session = %this.key, "the lifetime of a session was not extended");
            }
        });
    }

    fn end(&self) -> DirectoryFuture<'_, ()> {
        async move {
            let ended = self.change(&[SessionChange::State(SessionState::Closed)]).await;
            if ended.is_ok() {
                self.lost.store(true, Ordering::Release);
            }
            ended
        }
        .boxed()
    }

    fn set_holder(&self, holder: Weak<dyn SessionHolder>) {
        *self.holder.lock() = Some(holder);
    }

    fn open_stream(&self, number: u32, stream: NewStream) -> DirectoryFuture<'_, Arc<dyn SharedStream>> {
        async move {
            // The epoch at which this process began, because its numbers go on when its node id changes.
            let number = StreamNumber::new(self.generation, number);
            let new = match stream {
                NewStream::Listen => stream::NewStream::listen(number),
                NewStream::Requests(requests) => {
                    let pending = requests
                        .iter()
                        .map(|request| PendingAnswer::new(&request.id, request.method.as_bytes()));
                    stream::NewStream::of_requests(number, pending.collect())
                }
            };
            let this = self.this().ok_or(DirectoryError::NotOwned)?;
            self.check(self.relay().open_stream(&self.key, &self.owner(), &new).await)?;
            Ok(Arc::new(OwnedStream::new(this, number)) as Arc<dyn SharedStream>)
        }
        .boxed()
    }

    fn resume<'a>(&'a self, event_id: &'a str) -> DirectoryFuture<'a, Option<ResumedEvents>> {
        async move {
            let Some(id) = EventId::parse(event_id) else { return Ok(None) };
            let read = self.read_after(id).await;
            self.check(read)
        }
        .boxed()
    }
}
