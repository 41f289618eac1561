//! Pending documents in memory, for the lifetime of the program.

use std::collections::HashMap;
use std::fmt;
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use secrecy::SecretString;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{
    AddPendingResult, NewPendingDocument, PendingDocument, PendingFuture, PendingKind, PendingLimits,
    PendingStore,
};

/// Pending documents in memory.
pub struct MemoryPendingStore {
    documents: Mutex<StoredDocuments>,
    changes: watch::Sender<u64>,
}

/// Documents by the digest of their kind and id. Time that a look-up takes says nothing about an id: whoever finds one out
/// could complete the sign-in of somebody else.
type StoredDocuments = HashMap<[u8; 32], StoredDocument>;

struct StoredDocument {
    kind: PendingKind,
    id: String,
    family: String,
    stage: u8,
    body: SecretString,
    until: Instant,
    /// Place in the order of additions.
    place: u64,
}

impl StoredDocument {
    fn shown(&self) -> PendingDocument {
        PendingDocument {
            id: self.id.clone(),
            family: self.family.clone(),
            stage: self.stage,
            body: self.body.clone(),
            left: self.until.saturating_duration_since(Instant::now()),
        }
    }

    fn is_of(&self, kind: PendingKind, family: &str) -> bool {
        self.kind == kind && self.family == family
    }
}

impl MemoryPendingStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self { documents: Mutex::default(), changes: watch::Sender::new(0) }
    }

    /// Returns the documents that have not expired.
    fn documents(&self) -> MutexGuard<'_, StoredDocuments> {
        let mut documents = self.documents.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        documents.retain(|_, document| now < document.until);
        documents
    }

    fn count_change(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn add_now(&self, new: NewPendingDocument, limits: PendingLimits) -> AddPendingResult {
        let mut documents = self.documents();
        let mut result = AddPendingResult::Added;
        let of_family = |document: &StoredDocument| document.is_of(new.kind, &new.family);
        while documents.values().filter(|document| of_family(document)).count() >= limits.family.max(1) {
            if !limits.removes_oldest {
                return AddPendingResult::TooManyOfFamily;
            }
            remove_oldest(&mut documents, of_family);
            result = AddPendingResult::AddedForOldestOfFamily;
        }
        let of_kind = |document: &StoredDocument| document.kind == new.kind;
        while documents.values().filter(|document| of_kind(document)).count() >= limits.all.max(1) {
            if !limits.removes_oldest {
                return AddPendingResult::TooMany;
            }
            remove_oldest(&mut documents, of_kind);
            result = AddPendingResult::AddedForOldest;
        }
        let place = documents.values().map(|document| document.place).max().map_or(0, |last| last + 1);
        let NewPendingDocument { kind, id, family, body, lifetime } = new;
        let until = Instant::now() + lifetime;
        documents.insert(key(kind, &id), StoredDocument { kind, id, family, stage: 0, body, until, place });
        drop(documents);
        self.count_change();
        result
    }

    fn change(&self, what: impl FnOnce(&mut StoredDocuments)) {
        what(&mut self.documents());
        self.count_change();
    }
}

impl Default for MemoryPendingStore {
    fn default() -> Self {
        Self::new()
    }
}

fn key(kind: PendingKind, id: &str) -> [u8; 32] {
    let mut key = [0; 32];
    key.copy_from_slice(digest(&SHA256, format!("{} {id}", kind.name()).as_bytes()).as_ref());
    key
}

fn remove_oldest(documents: &mut StoredDocuments, which: impl Fn(&StoredDocument) -> bool) {
    let oldest = documents.iter().filter(|(_, document)| which(document));
    if let Some(key) = oldest.min_by_key(|(_, document)| document.place).map(|(key, _)| *key) {
        documents.remove(&key);
    }
}

impl PendingStore for MemoryPendingStore {
    fn add(
        &self,
        document: NewPendingDocument,
        limits: PendingLimits,
    ) -> PendingFuture<'_, AddPendingResult> {
        Box::pin(ready(Ok(self.add_now(document, limits))))
    }

    fn find<'a>(&'a self, kind: PendingKind, id: &'a str) -> PendingFuture<'a, Option<PendingDocument>> {
        let found = self.documents().get(&key(kind, id)).map(StoredDocument::shown);
        Box::pin(ready(Ok(found)))
    }

    fn list<'a>(&'a self, kind: PendingKind, family: &'a str) -> PendingFuture<'a, Vec<PendingDocument>> {
        let documents = self.documents();
        let mut found: Vec<_> = documents.values().filter(|document| document.is_of(kind, family)).collect();
        found.sort_by_key(|document| document.place);
        let found = found.into_iter().map(StoredDocument::shown).collect();
        Box::pin(ready(Ok(found)))
    }

    fn take<'a>(
        &'a self,
        kind: PendingKind,
        id: &'a str,
        family: &'a str,
    ) -> PendingFuture<'a, Option<PendingDocument>> {
        let mut documents = self.documents();
        let key = key(kind, id);
        let is_theirs = documents.get(&key).is_some_and(|document| document.family == family);
        let taken = if is_theirs { documents.remove(&key) } else { None };
        drop(documents);
        if taken.is_some() {
            self.count_change();
        }
        Box::pin(ready(Ok(taken.map(|document| document.shown()))))
    }

    fn advance<'a>(
        &'a self,
        kind: PendingKind,
        id: &'a str,
        from: &'a [u8],
        to: u8,
    ) -> PendingFuture<'a, bool> {
        let mut is_done = false;
        self.change(|documents| {
            if let Some(document) = documents.get_mut(&key(kind, id))
                && from.contains(&document.stage)
            {
                document.stage = to;
                is_done = true;
            }
        });
        Box::pin(ready(Ok(is_done)))
    }

    fn advance_family<'a>(
        &'a self,
        kind: PendingKind,
        family: &'a str,
        from: &'a [u8],
        to: u8,
    ) -> PendingFuture<'a, ()> {
        self.change(|documents| {
            for document in documents.values_mut() {
                if document.is_of(kind, family) && from.contains(&document.stage) {
                    document.stage = to;
                }
            }
        });
        Box::pin(ready(Ok(())))
    }

    fn remove_family<'a>(&'a self, kind: PendingKind, family: &'a str) -> PendingFuture<'a, ()> {
        self.change(|documents| documents.retain(|_, document| !document.is_of(kind, family)));
        Box::pin(ready(Ok(())))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

impl fmt::Debug for MemoryPendingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryPendingStore").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn documents_in_memory_keep_what_a_store_promises_and_expire() {
        let store = MemoryPendingStore::new();
        super::super::check_pending_conformance(&store).await;
        let document = NewPendingDocument {
            kind: PendingKind::Link,
            id: "id".into(),
            family: "ann".into(),
            body: "body".into(),
            lifetime: Duration::from_secs(10),
        };
        let limits = PendingLimits { family: 1, all: 1, removes_oldest: false };
        assert_eq!(store.add(document, limits).await.unwrap(), AddPendingResult::Added);
        tokio::time::advance(Duration::from_secs(9)).await;
        let found = store.find(PendingKind::Link, "id").await.unwrap().unwrap();
        assert_eq!(found.left, Duration::from_secs(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(store.find(PendingKind::Link, "id").await.unwrap().is_none());
        assert!(!store.advance(PendingKind::Link, "id", &[0], 1).await.unwrap());
    }
}
