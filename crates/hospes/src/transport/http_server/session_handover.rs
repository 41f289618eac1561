//! Sessions that a process which ends gives to others: each as soon as nothing runs in it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use futures::StreamExt as _;

use super::endpoint::Endpoint;
use super::sessions::HttpSession;
use super::shared_sessions::SessionName;

/// Maximum number of sessions that are given away at the same time.
const MAX_GIVEN_AT_ONCE: usize = 32;

/// Mark of a session that is being given away.
const LEAVING: u32 = 1 << 31;

/// Number of requests, calls and appends of a session, and whether it is being given away. In one value, so that nothing
/// begins between the look and the mark.
#[derive(Debug, Default)]
pub(super) struct SessionActivity(AtomicU32);

/// Request, call or append of a session. While it lives, the session is not given away. For sessions of this process alone
/// it does nothing.
#[derive(Debug)]
pub(super) struct ActivityGuard(Weak<HttpSession>);

/// Session that is being given away. Requests wait until this is dropped.
struct LeavingGuard<'a>(&'a SessionActivity);

impl ActivityGuard {
    /// Begins a request; `None` while the session is being given away.
    pub(super) fn begin(session: &Arc<HttpSession>) -> Option<Self> {
        let before = session.shared().map_or(0, |shared| shared.activity().0.fetch_add(1, Ordering::AcqRel));
        let guard = Self(Arc::downgrade(session));
        // Otherwise the guard takes it back.
        (before & LEAVING == 0).then_some(guard)
    }

    /// Adds what a request or a call leaves behind, which may go on when they have ended.
    pub(super) fn add(session: &Arc<HttpSession>) -> Self {
        if let Some(shared) = session.shared() {
            shared.activity().0.fetch_add(1, Ordering::AcqRel);
        }
        Self(Arc::downgrade(session))
    }
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        // A session that is gone is not given away either.
        if let Some(session) = self.0.upgrade()
            && let Some(shared) = session.shared()
        {
            shared.activity().0.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl<'a> LeavingGuard<'a> {
    fn new(activity: &'a SessionActivity) -> Option<Self> {
        let idle = activity.0.compare_exchange(0, LEAVING, Ordering::AcqRel, Ordering::Acquire);
        idle.is_ok().then_some(Self(activity))
    }
}

impl Drop for LeavingGuard<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_and(!LEAVING, Ordering::AcqRel);
    }
}

impl Endpoint {
    /// Gives shared sessions in which nothing runs to other processes. Their streams of changes end, so that clients
    /// take them up at the next owner. A process that ends repeats this while calls run, so that no session waits for
    /// the calls of another one.
    pub async fn hand_over_idle_sessions(&self) {
        let inner = &self.0;
        let Some(directory) = &inner.directory else { return };
        let give = async |session: Arc<HttpSession>| {
            let Some(shared) = session.shared() else { return };
            let Some(_leaving) = LeavingGuard::new(shared.activity()) else { return };
            let principal = session.session().peer().principal.as_deref();
            let name = SessionName { id: session.id().as_str(), principal };
            match directory.give_away(name).await {
                Ok(true) => inner.sessions.forget(&session),
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, id = ?session.id(), "a session was not given away"),
            }
        };
        futures::stream::iter(inner.sessions.shared()).for_each_concurrent(MAX_GIVEN_AT_ONCE, give).await;
    }
}
