//! A store whose steps a test sees, and holds up where it wants.

use std::fmt;
use std::pin::Pin;

use crate::server::store::StoreFuture;
use crate::server::{Kind, Record, Store, Swapped, Taken};

/// What a store is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Put,
    Get,
    Take,
    Claim,
    Swap,
    Forget(Kind),
    Revoke,
    Count,
    List,
    Sweep,
}

/// How long a step is held up.
pub(super) type Pause<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// What a test does at the steps of a store.
pub(super) trait Steps: Send + Sync + 'static {
    /// The step waits for this.
    fn before(&self, step: Step) -> Pause<'_>;

    /// It is done.
    fn after(&self, _: Step) {}
}

/// Does what the store within does.
pub(super) struct Watched<S, T> {
    inner: S,
    steps: T,
}

impl<S: Store, T: Steps> Watched<S, T> {
    pub(super) fn new(inner: S, steps: T) -> Self {
        Self { inner, steps }
    }

    fn step<'a, V: Send + 'a>(&'a self, step: Step, go: StoreFuture<'a, V>) -> StoreFuture<'a, V> {
        Box::pin(async move {
            self.steps.before(step).await;
            let done = go.await;
            self.steps.after(step);
            done
        })
    }
}

impl<S: Store, T: Steps> Store for Watched<S, T> {
    fn put(&self, record: Record) -> StoreFuture<'_, bool> {
        self.step(Step::Put, Box::pin(async move { self.inner.put(record).await }))
    }

    fn get<'a>(&'a self, kind: Kind, key: &'a str, now: u64) -> StoreFuture<'a, Option<Record>> {
        self.step(Step::Get, Box::pin(async move { self.inner.get(kind, key, now).await }))
    }

    fn take<'a>(&'a self, kind: Kind, key: &'a str, now: u64) -> StoreFuture<'a, Taken> {
        self.step(Step::Take, Box::pin(async move { self.inner.take(kind, key, now).await }))
    }

    fn claim<'a>(&'a self, key: &'a str, by: &'a str, until: u64, now: u64) -> StoreFuture<'a, bool> {
        self.step(Step::Claim, Box::pin(async move { self.inner.claim(key, by, until, now).await }))
    }

    fn swap_refresh<'a>(
        &'a self,
        old: &'a str,
        new: Record,
        note: &'a str,
        now: u64,
        window: u64,
    ) -> StoreFuture<'a, Swapped> {
        let go = async move { self.inner.swap_refresh(old, new, note, now, window).await };
        self.step(Step::Swap, Box::pin(go))
    }

    fn forget<'a>(&'a self, kind: Kind, key: &'a str) -> StoreFuture<'a, bool> {
        self.step(Step::Forget(kind), Box::pin(async move { self.inner.forget(kind, key).await }))
    }

    fn revoke_grant<'a>(&'a self, grant: &'a str, until: u64) -> StoreFuture<'a, Option<Record>> {
        self.step(Step::Revoke, Box::pin(async move { self.inner.revoke_grant(grant, until).await }))
    }

    fn count(&self, kind: Kind) -> StoreFuture<'_, usize> {
        self.step(Step::Count, Box::pin(async move { self.inner.count(kind).await }))
    }

    fn list(&self, kind: Kind, now: u64, most: usize) -> StoreFuture<'_, Vec<Record>> {
        self.step(Step::List, Box::pin(async move { self.inner.list(kind, now, most).await }))
    }

    fn sweep(&self, now: u64) -> StoreFuture<'_, ()> {
        self.step(Step::Sweep, Box::pin(async move { self.inner.sweep(now).await }))
    }
}

impl<S: fmt::Debug, T> fmt::Debug for Watched<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watched").field(&self.inner).finish()
    }
}
