//! A store that lasts as long as the process.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Kind, Record, Store, StoreFuture, Swapped, Taken};

/// Keeps everything in memory: for tests, and where signing in again after a restart does no harm.
#[derive(Default)]
pub struct MemoryStore(Mutex<Tables>);

#[derive(Default)]
struct Tables {
    records: HashMap<(Kind, String), Entry>,
    revoked: HashMap<String, u64>,
}

struct Entry {
    record: Record,
    taken: bool,
    /// What was said of its successor, and when.
    swapped: Option<(String, u64)>,
}

impl MemoryStore {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn put(&mut self, record: Record) -> bool {
        if record.grant.as_ref().is_some_and(|grant| self.revoked.contains_key(grant)) {
            return false;
        }
        let key = (record.kind, record.key.clone());
        self.records.insert(key, Entry { record, taken: false, swapped: None });
        true
    }

    fn find(&mut self, kind: Kind, key: &str, now: u64) -> Option<&mut Entry> {
        self.records.get_mut(&(kind, key.to_owned())).filter(|entry| entry.record.until > now)
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(Ok(value)))
}

impl Store for MemoryStore {
    fn put(&self, record: Record) -> StoreFuture<'_, bool> {
        ready(self.tables().put(record))
    }

    fn get<'a>(&'a self, kind: Kind, key: &'a str, now: u64) -> StoreFuture<'a, Option<Record>> {
        let mut tables = self.tables();
        let entry = tables.find(kind, key, now).filter(|entry| !entry.taken && entry.swapped.is_none());
        ready(entry.map(|entry| entry.record.clone()))
    }

    fn take<'a>(&'a self, kind: Kind, key: &'a str, now: u64) -> StoreFuture<'a, Taken> {
        ready(match self.tables().find(kind, key, now) {
            None => Taken::Unknown,
            Some(entry) => match std::mem::replace(&mut entry.taken, true) {
                false => Taken::First(entry.record.clone()),
                true => Taken::Again(entry.record.clone()),
            },
        })
    }

    fn claim<'a>(&'a self, key: &'a str, by: &'a str, until: u64, now: u64) -> StoreFuture<'a, bool> {
        let mut tables = self.tables();
        let free = tables.find(Kind::Claim, key, now).is_none();
        ready(free && tables.put(Record::new(Kind::Claim, key, by, until)))
    }

    fn swap_refresh<'a>(
        &'a self,
        old: &'a str,
        new: Record,
        note: &'a str,
        now: u64,
        window: u64,
    ) -> StoreFuture<'a, Swapped> {
        let mut tables = self.tables();
        let Some(entry) = tables.find(Kind::Refresh, old, now) else { return ready(Swapped::Unknown) };
        let record = entry.record.clone();
        if let Some((note, when)) = &entry.swapped {
            let fresh = when.saturating_add(window) > now;
            let swapped =
                if fresh { Swapped::Replayed(record, note.clone()) } else { Swapped::Reused(record) };
            return ready(swapped);
        }
        entry.swapped = Some((note.to_owned(), now));
        tables.put(new);
        ready(Swapped::Done(record))
    }

    fn forget<'a>(&'a self, kind: Kind, key: &'a str) -> StoreFuture<'a, bool> {
        ready(self.tables().records.remove(&(kind, key.to_owned())).is_some())
    }

    fn revoke_grant<'a>(&'a self, grant: &'a str, until: u64) -> StoreFuture<'a, Option<Record>> {
        let mut tables = self.tables();
        tables.revoked.insert(grant.to_owned(), until);
        let of_it = |entry: &Entry| entry.record.grant.as_deref() == Some(grant);
        let rested =
            tables.records.values().find(|entry| of_it(entry) && entry.record.kind == Kind::Upstream);
        let rested = rested.map(|entry| entry.record.clone());
        tables.records.retain(|_, entry| !of_it(entry));
        ready(rested)
    }

    fn count(&self, kind: Kind) -> StoreFuture<'_, usize> {
        ready(self.tables().records.keys().filter(|(known, _)| *known == kind).count())
    }

    fn list(&self, kind: Kind, now: u64, most: usize) -> StoreFuture<'_, Vec<Record>> {
        let tables = self.tables();
        let all =
            tables.records.values().filter(|entry| entry.record.kind == kind && entry.record.until > now);
        let mut all: Vec<_> = all.map(|entry| entry.record.clone()).collect();
        all.sort_by(|one, other| one.key.cmp(&other.key));
        all.truncate(most);
        ready(all)
    }

    fn sweep(&self, now: u64) -> StoreFuture<'_, ()> {
        let mut tables = self.tables();
        tables.records.retain(|_, entry| entry.record.until > now);
        tables.revoked.retain(|_, until| *until > now);
        ready(())
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryStore({} records)", self.tables().records.len())
    }
}
