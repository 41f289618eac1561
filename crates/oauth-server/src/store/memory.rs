//! Store in memory, for the lifetime of the process.

use std::collections::HashMap;
use std::fmt;

use parking_lot::{Mutex, MutexGuard};

use super::{AuthRecord, AuthStore, AuthStoreFuture, RecordKind, RefreshSwapResult, TakeRecordResult};

/// Keeps everything in memory: for tests, and where signing in again after a restart does no harm.
#[derive(Default)]
pub struct MemoryAuthStore(Mutex<MemoryTables>);

#[derive(Default)]
struct MemoryTables {
    records: HashMap<(RecordKind, String), MemoryRecord>,
    revoked: HashMap<String, u64>,
}

struct MemoryRecord {
    record: AuthRecord,
    taken: bool,
    /// Note about its successor, and the time of the swap.
    swapped: Option<(String, u64)>,
}

impl MemoryAuthStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn tables(&self) -> MutexGuard<'_, MemoryTables> {
        self.0.lock()
    }
}

impl MemoryTables {
    fn put(&mut self, record: AuthRecord) -> bool {
        if record.grant.as_ref().is_some_and(|grant| self.revoked.contains_key(grant)) {
            return false;
        }
        let key = (record.kind, record.key.clone());
        self.records.insert(key, MemoryRecord { record, taken: false, swapped: None });
        true
    }

    fn find(&mut self, kind: RecordKind, key: &str, now: u64) -> Option<&mut MemoryRecord> {
        self.records.get_mut(&(kind, key.to_owned())).filter(|entry| entry.record.until > now)
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> AuthStoreFuture<'a, T> {
    Box::pin(std::future::ready(Ok(value)))
}

impl AuthStore for MemoryAuthStore {
    fn put(&self, record: AuthRecord) -> AuthStoreFuture<'_, bool> {
        ready(self.tables().put(record))
    }

    fn get<'a>(
        &'a self,
        kind: RecordKind,
        key: &'a str,
        now: u64,
    ) -> AuthStoreFuture<'a, Option<AuthRecord>> {
        let mut tables = self.tables();
        let entry = tables.find(kind, key, now).filter(|entry| !entry.taken && entry.swapped.is_none());
        ready(entry.map(|entry| entry.record.clone()))
    }

    fn take<'a>(&'a self, kind: RecordKind, key: &'a str, now: u64) -> AuthStoreFuture<'a, TakeRecordResult> {
        ready(match self.tables().find(kind, key, now) {
            None => TakeRecordResult::Unknown,
            Some(entry) => match std::mem::replace(&mut entry.taken, true) {
                false => TakeRecordResult::First(entry.record.clone()),
                true => TakeRecordResult::Again(entry.record.clone()),
            },
        })
    }

    fn claim<'a>(&'a self, key: &'a str, by: &'a str, until: u64, now: u64) -> AuthStoreFuture<'a, bool> {
        let mut tables = self.tables();
        let free = tables.find(RecordKind::Claim, key, now).is_none();
        ready(free && tables.put(AuthRecord::new(RecordKind::Claim, key, by, until)))
    }

    fn swap_refresh<'a>(
        &'a self,
        old: &'a str,
        new: AuthRecord,
        note: &'a str,
        now: u64,
        window: u64,
    ) -> AuthStoreFuture<'a, RefreshSwapResult> {
        let mut tables = self.tables();
        let Some(entry) = tables.find(RecordKind::Refresh, old, now) else {
            return ready(RefreshSwapResult::Unknown);
        };
        let record = entry.record.clone();
        if let Some((note, when)) = &entry.swapped {
            let fresh = when.saturating_add(window) > now;
            let swapped = if fresh {
                RefreshSwapResult::Replayed(record, note.clone())
            } else {
                RefreshSwapResult::Reused(record)
            };
            return ready(swapped);
        }
        entry.swapped = Some((note.to_owned(), now));
        // It cannot be refused: of a revoked grant there is no old token left to swap.
        tables.put(new);
        ready(RefreshSwapResult::Done(record))
    }

    fn forget<'a>(&'a self, kind: RecordKind, key: &'a str) -> AuthStoreFuture<'a, bool> {
        ready(self.tables().records.remove(&(kind, key.to_owned())).is_some())
    }

    fn revoke_grant<'a>(&'a self, grant: &'a str, until: u64) -> AuthStoreFuture<'a, Option<AuthRecord>> {
        let mut tables = self.tables();
        tables.revoked.insert(grant.to_owned(), until);
        let of_it = |entry: &MemoryRecord| entry.record.grant.as_deref() == Some(grant);
        let rested =
            tables.records.values().find(|entry| of_it(entry) && entry.record.kind == RecordKind::Upstream);
        let rested = rested.map(|entry| entry.record.clone());
        tables.records.retain(|_, entry| !of_it(entry));
        ready(rested)
    }

    fn count(&self, kind: RecordKind) -> AuthStoreFuture<'_, usize> {
        ready(self.tables().records.keys().filter(|(known, _)| *known == kind).count())
    }

    fn list(&self, kind: RecordKind, now: u64, most: usize) -> AuthStoreFuture<'_, Vec<AuthRecord>> {
        let tables = self.tables();
        let all =
            tables.records.values().filter(|entry| entry.record.kind == kind && entry.record.until > now);
        let mut all: Vec<_> = all.map(|entry| entry.record.clone()).collect();
        // Sorted like the list of the SQLite store, so that the same records are cut off.
        all.sort_by(|one, other| one.key.cmp(&other.key));
        all.truncate(most);
        ready(all)
    }

    fn sweep(&self, now: u64) -> AuthStoreFuture<'_, ()> {
        let mut tables = self.tables();
        tables.records.retain(|_, entry| entry.record.until > now);
        tables.revoked.retain(|_, until| *until > now);
        ready(())
    }
}

impl fmt::Debug for MemoryAuthStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryAuthStore({} records)", self.tables().records.len())
    }
}
