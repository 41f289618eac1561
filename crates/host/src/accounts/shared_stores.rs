//! Accounts in the state that the nodes of a fleet share: tokens, links, and sign-ins that wait for their redirect.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hospes_oauth::pending::{
    AddPendingResult, NewPendingDocument, PendingDocument, PendingFuture, PendingKind, PendingLimits,
};
use hospes_oauth::{CredentialStore, PendingStore, StepError};
use hospes_store::credentials::{
    CredentialLease, CredentialRecords, CredentialWrite, MAX_CREDENTIAL_BYTES, MAX_CREDENTIALS,
};
use hospes_store::pending::{
    MAX_PENDING_BYTES, NewPendingRecord, PendingAddition, PendingRecord, PendingRecords,
};
use hospes_store::{StateStore, StoreError};
use jiff::SignedDuration;
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;
use zeroize::Zeroizing;

/// Time for which one node may renew the tokens of an account. It is longer than two requests to an authorization server and
/// the writing of what they return, which take at most 10 s each and 15 s.
pub const REFRESH_LEASE: Duration = Duration::from_secs(40);
/// Maximum time to wait for another node that renews the tokens of the same account.
const LOCK_LIMIT: Duration = Duration::from_secs(60);
/// Interval at which a node that waits tries again: the shortest, and the longest.
const LOCK_POLL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));

/// Store of tokens that all nodes of a fleet share. Its methods block a thread of the runtime in which it was created, so
/// they are for threads where that is allowed.
pub struct SharedCredentialStore {
    records: CredentialRecords,
    lease: Duration,
    runtime: Handle,
    /// Leases that this process holds, by the name of their document.
    leases: Arc<Mutex<HashMap<String, CredentialLease>>>,
}

impl SharedCredentialStore {
    /// Creates the store in this state, within a runtime. `None` if the state is a file, which nodes do not share.
    ///
    /// # Errors
    /// If the key of the state cannot be used.
    pub fn new(state: &StateStore) -> Result<Option<Self>, StoreError> {
        let Some(records) = state.credentials()? else { return Ok(None) };
        Ok(Some(Self { records, lease: REFRESH_LEASE, runtime: Handle::current(), leases: Arc::default() }))
    }

    /// Sets the time after which another node takes over a renewal; by default [`REFRESH_LEASE`]. For tests.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    async fn write_document(&self, name: &str, document: &SecretString) -> Result<(), StepError> {
        let mut lease = self.leases.lock().get(name).cloned();
        let written = self.records.write(name, document.expose_secret(), lease.as_mut()).await;
        match written.map_err(failed)? {
            CredentialWrite::Stored => {
                let mut leases = self.leases.lock();
                if let (Some(lease), Some(known)) = (lease, leases.get_mut(name))
                    && known.is_of_same_holder(&lease)
                {
                    // With the revision of what was written.
                    *known = lease;
                }
                Ok(())
            }
            CredentialWrite::Superseded => Err(StepError::superseded()),
            CredentialWrite::TooMany => Err(StepError::new(format!(
                "the database of the fleet has {MAX_CREDENTIALS} documents of accounts, which is the limit"
            ))),
            CredentialWrite::TooLarge => Err(StepError::new(format!(
                "the tokens of the account are larger than {MAX_CREDENTIAL_BYTES} bytes, which is the limit"
            ))),
        }
    }

    async fn acquire(&self, name: &str) -> Result<HeldLease, StepError> {
        let end = Instant::now() + LOCK_LIMIT;
        let time = SignedDuration::try_from(self.lease).unwrap_or(SignedDuration::MAX);
        let mut pause = LOCK_POLL.0;
        loop {
            if let Some(lease) = self.records.acquire(name, time).await.map_err(failed)? {
                self.leases.lock().insert(name.to_owned(), lease.clone());
                return Ok(HeldLease {
                    name: name.to_owned(),
                    lease,
                    records: self.records.clone(),
                    runtime: self.runtime.clone(),
                    leases: Arc::clone(&self.leases),
                });
            }
            if Instant::now() >= end {
                return Err(StepError::new(format!(
                    "another node has renewed the tokens of this account for {} s",
                    LOCK_LIMIT.as_secs()
                )));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOCK_POLL.1);
        }
    }
}

/// A lease that ends when it is dropped.
struct HeldLease {
    name: String,
    lease: CredentialLease,
    records: CredentialRecords,
    runtime: Handle,
    leases: Arc<Mutex<HashMap<String, CredentialLease>>>,
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        let (lease, records) = (self.lease.clone(), self.records.clone());
        let mut leases = self.leases.lock();
        // After the end of this one, the process may have acquired another.
        if leases.get(&self.name).is_some_and(|known| known.is_of_same_holder(&lease)) {
            leases.remove(&self.name);
        }
        drop(leases);
        // Whoever waits goes on when it has ended. If that fails, it ends by itself.
        self.runtime.spawn(async move {
            if let Err(error) = records.release(&lease).await {
                tracing::warn!(%error, "the lease of an account's tokens could not be released");
            }
        });
    }
}

impl CredentialStore for SharedCredentialStore {
    fn read(&self, name: &str) -> Result<Option<SecretString>, StepError> {
        let found = self.runtime.block_on(self.records.read(name)).map_err(failed)?;
        Ok(found.map(|text| SecretString::from(text.as_str())))
    }

    fn write(&self, name: &str, document: &SecretString) -> Result<(), StepError> {
        self.runtime.block_on(self.write_document(name, document))
    }

    fn remove(&self, name: &str) -> Result<(), StepError> {
        self.runtime.block_on(self.records.remove(name)).map_err(failed)
    }

    fn names(&self, beginning: &str) -> Result<Vec<String>, StepError> {
        self.runtime.block_on(self.records.names(beginning)).map_err(failed)
    }

    fn lock(&self, name: &str) -> Result<Option<Box<dyn Send>>, StepError> {
        let lease = self.runtime.block_on(self.acquire(name))?;
        Ok(Some(Box::new(lease)))
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.records.changes())
    }
}

impl fmt::Debug for SharedCredentialStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedCredentialStore").field(&self.records).finish()
    }
}

/// Store of pending documents that all nodes of a fleet share.
#[derive(Debug)]
pub struct SharedPendingStore(PendingRecords);

impl SharedPendingStore {
    /// Creates the store in this state. `None` if the state is a file, which nodes do not share.
    ///
    /// # Errors
    /// If the key of the state cannot be used.
    pub fn new(state: &StateStore) -> Result<Option<Self>, StoreError> {
        Ok(state.pending()?.map(Self))
    }
}

impl PendingStore for SharedPendingStore {
    fn add(
        &self,
        document: NewPendingDocument,
        limits: PendingLimits,
    ) -> PendingFuture<'_, AddPendingResult> {
        let NewPendingDocument { kind, id, family, body, lifetime } = document;
        let new = NewPendingRecord {
            kind: kind.name(),
            id,
            family,
            body: Zeroizing::new(body.expose_secret().to_owned()),
            lifetime,
            most_of_family: limits.family,
            most: limits.all,
            removes_oldest: limits.removes_oldest,
        };
        Box::pin(async move {
            Ok(match self.0.add(new).await.map_err(failed)? {
                PendingAddition::Added => AddPendingResult::Added,
                PendingAddition::AddedForOldestOfFamily => AddPendingResult::AddedForOldestOfFamily,
                PendingAddition::AddedForOldest => AddPendingResult::AddedForOldest,
                PendingAddition::TooManyOfFamily => AddPendingResult::TooManyOfFamily,
                PendingAddition::TooMany => AddPendingResult::TooMany,
                PendingAddition::TooLarge => {
                    return Err(StepError::new(format!(
                        "the pending sign-in is larger than {MAX_PENDING_BYTES} bytes, which is the limit"
                    )));
                }
            })
        })
    }

    fn find<'a>(&'a self, kind: PendingKind, id: &'a str) -> PendingFuture<'a, Option<PendingDocument>> {
        Box::pin(async move { Ok(self.0.find(kind.name(), id).await.map_err(failed)?.map(document)) })
    }

    fn list<'a>(&'a self, kind: PendingKind, family: &'a str) -> PendingFuture<'a, Vec<PendingDocument>> {
        Box::pin(async move {
            let found = self.0.list(kind.name(), family).await.map_err(failed)?;
            Ok(found.into_iter().map(document).collect())
        })
    }

    fn take<'a>(
        &'a self,
        kind: PendingKind,
        id: &'a str,
        family: &'a str,
    ) -> PendingFuture<'a, Option<PendingDocument>> {
        Box::pin(async move { Ok(self.0.take(kind.name(), id, family).await.map_err(failed)?.map(document)) })
    }

    fn advance<'a>(
        &'a self,
        kind: PendingKind,
        id: &'a str,
        from: &'a [u8],
        to: u8,
    ) -> PendingFuture<'a, bool> {
        Box::pin(async move { self.0.advance(kind.name(), id, from, to).await.map_err(failed) })
    }

    fn advance_family<'a>(
        &'a self,
        kind: PendingKind,
        family: &'a str,
        from: &'a [u8],
        to: u8,
    ) -> PendingFuture<'a, ()> {
        Box::pin(async move { self.0.advance_family(kind.name(), family, from, to).await.map_err(failed) })
    }

    fn remove_family<'a>(&'a self, kind: PendingKind, family: &'a str) -> PendingFuture<'a, ()> {
        Box::pin(async move { self.0.remove_family(kind.name(), family).await.map_err(failed) })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes()
    }
}

fn document(record: PendingRecord) -> PendingDocument {
    let PendingRecord { id, family, stage, body, left } = record;
    PendingDocument { id, family, stage, body: SecretString::from(body.as_str()), left }
}

// By value, for use with `map_err`.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn failed(error: StoreError) -> StepError {
    StepError::new(format!("cannot use the accounts in the database of the fleet: {error}"))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
