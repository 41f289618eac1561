//! A store whose steps a test can observe and delay.

use std::fmt;
use std::pin::Pin;

use crate::store::AuthStoreFuture;
use crate::{AuthRecord, AuthStore, RecordKind, RefreshSwapResult, TakeRecordResult};

/// Next operation of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Put,
    Get,
    Take,
    Claim,
    Swap,
    Forget(RecordKind),
    Revoke,
    Count,
    List,
    Sweep,
}

/// Future that delays a step.
pub(super) type Pause<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Hook of a test at the steps of a store.
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

impl<S: AuthStore, T: Steps> Watched<S, T> {
    pub(super) fn new(inner: S, steps: T) -> Self {
        Self { inner, steps }
    }

    fn step<'a, V: Send + 'a>(&'a self, step: Step, go: AuthStoreFuture<'a, V>) -> AuthStoreFuture<'a, V> {
        Box::pin(async move {
            self.steps.before(step).await;
            let done = go.await;
            self.steps.after(step);
            done
        })
    }
}

impl<S: AuthStore, T: Steps> AuthStore for Watched<S, T> {
    fn put(&self, record: AuthRecord) -> AuthStoreFuture<'_, bool> {
        self.step(Step::Put, Box::pin(async move { self.inner.put(record).await }))
    }

    fn get<'a>(
        &'a self,
        kind: RecordKind,
        key: &'a str,
        now: u64,
    ) -> AuthStoreFuture<'a, Option<AuthRecord>> {
        self.step(Step::Get, Box::pin(async move { self.inner.get(kind, key, now).await }))
    }

    fn take<'a>(&'a self, kind: RecordKind, key: &'a str, now: u64) -> AuthStoreFuture<'a, TakeRecordResult> {
        self.step(Step::Take, Box::pin(async move { self.inner.take(kind, key, now).await }))
    }

    fn claim<'a>(&'a self, key: &'a str, by: &'a str, until: u64, now: u64) -> AuthStoreFuture<'a, bool> {
        self.step(Step::Claim, Box::pin(async move { self.inner.claim(key, by, until, now).await }))
    }

    fn swap_refresh<'a>(
        &'a self,
        old: &'a str,
        new: AuthRecord,
        note: &'a str,
        now: u64,
        window: u64,
    ) -> AuthStoreFuture<'a, RefreshSwapResult> {
        let go = async move { self.inner.swap_refresh(old, new, note, now, window).await };
        self.step(Step::Swap, Box::pin(go))
    }

    fn forget<'a>(&'a self, kind: RecordKind, key: &'a str) -> AuthStoreFuture<'a, bool> {
        self.step(Step::Forget(kind), Box::pin(async move { self.inner.forget(kind, key).await }))
    }

    fn revoke_grant<'a>(&'a self, grant: &'a str, until: u64) -> AuthStoreFuture<'a, Option<AuthRecord>> {
        self.step(Step::Revoke, Box::pin(async move { self.inner.revoke_grant(grant, until).await }))
    }

    fn count(&self, kind: RecordKind) -> AuthStoreFuture<'_, usize> {
        self.step(Step::Count, Box::pin(async move { self.inner.count(kind).await }))
    }

    fn list(&self, kind: RecordKind, now: u64, most: usize) -> AuthStoreFuture<'_, Vec<AuthRecord>> {
        self.step(Step::List, Box::pin(async move { self.inner.list(kind, now, most).await }))
    }

    fn sweep(&self, now: u64) -> AuthStoreFuture<'_, ()> {
        self.step(Step::Sweep, Box::pin(async move { self.inner.sweep(now).await }))
    }
}

impl<S: fmt::Debug, T> fmt::Debug for Watched<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watched").field(&self.inner).finish()
    }
}
