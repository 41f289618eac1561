//! Records of the authorization server and their storage.
//!
//! Every change is one atomic step, so that several nodes can share one store: of any number that take the same code or
//! swap the same refresh token at the same time, one has it. What reads first and writes then fails the tests here.

mod memory;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(test)]
mod tests;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

pub use memory::MemoryAuthStore;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteAuthStore;

/// Kind of a record. Keys are unique within a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RecordKind {
    /// A client that has registered.
    Client,
    /// An authorization request that waits for its user.
    Pending,
    /// A code.
    Code,
    /// An access token.
    Access,
    /// A refresh token.
    Refresh,
    /// A consent of a user.
    Consent,
    /// A browser, and who is signed in with it.
    Browser,
    /// Something that may happen once.
    Claim,
    /// A key that tokens are signed with.
    Key,
    /// The provider tokens that a grant depends on.
    Upstream,
    /// A key that nonces are made with.
    Nonce,
}

impl RecordKind {
    /// Its name in a table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Pending => "pending",
            Self::Code => "code",
            Self::Access => "access",
            Self::Refresh => "refresh",
            Self::Consent => "consent",
            Self::Browser => "browser",
            Self::Claim => "claim",
            Self::Key => "key",
            Self::Upstream => "upstream",
            Self::Nonce => "nonce",
        }
    }
}

/// One stored record. Secrets are stored as hashes in the key, never in the value. Values that must be read again are
/// encrypted, except [`RecordKind::Key`] and [`RecordKind::Nonce`] of a server without
/// [`AuthServer::sealing`](super::AuthServer::sealing). Read access to a store with these allows signing tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthRecord {
    /// Kind of the record.
    pub kind: RecordKind,
    /// Key of the record.
    pub key: String,
    /// Contents, as JSON.
    pub value: String,
    /// The grant that it ends with.
    pub grant: Option<String>,
    /// Until when, in seconds since 1970.
    pub until: u64,
}

impl AuthRecord {
    /// One that belongs to no grant.
    #[must_use]
    pub fn new(kind: RecordKind, key: impl Into<String>, value: impl Into<String>, until: u64) -> Self {
        Self { kind, key: key.into(), value: value.into(), grant: None, until }
    }

    /// One that ends with this grant.
    #[must_use]
    pub fn of(mut self, grant: impl Into<String>) -> Self {
        self.grant = Some(grant.into());
        self
    }
}

/// Result of taking a single-use record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TakeRecordResult {
    /// It is the taker's now.
    First(AuthRecord),
    /// Somebody has taken it before.
    Again(AuthRecord),
    /// There is no such thing, or no longer.
    Unknown,
}

/// Result of swapping a refresh token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefreshSwapResult {
    /// The new one holds, the old one no longer. The old one, as it was.
    Done(AuthRecord),
    /// It was swapped a moment ago: perhaps the answer was lost. What was said of its successor then.
    Replayed(AuthRecord, String),
    /// It was swapped earlier: the token may have been stolen.
    Reused(AuthRecord),
    /// There is no such token, or no longer.
    Unknown,
}

/// The store does not answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the authorization server's store failed: {0}")]
pub struct AuthStoreError(pub(crate) Arc<str>);

/// Future of a store operation.
pub type AuthStoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, AuthStoreError>> + Send + 'a>>;

/// Keeps the records of an authorization server. Times are in seconds since 1970; what has run out is as if it were not
/// there.
pub trait AuthStore: fmt::Debug + Send + Sync + 'static {
    /// Keeps a record, in place of one with the same key. One of a grant that has been revoked is not kept; false.
    fn put(&self, record: AuthRecord) -> AuthStoreFuture<'_, bool>;

    /// Returns the record of this key, unless it was taken.
    fn get<'a>(&'a self, kind: RecordKind, key: &'a str, now: u64)
    -> AuthStoreFuture<'a, Option<AuthRecord>>;

    /// Takes a single-use record. The fact that it was taken is remembered until the record would have expired.
    fn take<'a>(&'a self, kind: RecordKind, key: &'a str, now: u64) -> AuthStoreFuture<'a, TakeRecordResult>;

    /// Claims a key of [`RecordKind::Claim`] until then, as a record with this value; false if it is already claimed.
    fn claim<'a>(&'a self, key: &'a str, by: &'a str, until: u64, now: u64) -> AuthStoreFuture<'a, bool>;

    /// Replaces the refresh token `old` with `new` and remembers `note` about it. A repetition with the old token
    /// within `window` seconds returns the same note.
    fn swap_refresh<'a>(
        &'a self,
        old: &'a str,
        new: AuthRecord,
        note: &'a str,
        now: u64,
        window: u64,
    ) -> AuthStoreFuture<'a, RefreshSwapResult>;

    /// Forgets one record; false when there was none.
    fn forget<'a>(&'a self, kind: RecordKind, key: &'a str) -> AuthStoreFuture<'a, bool>;

    /// Ends a grant and everything that belongs to it permanently: later records of it are not stored. `until` is when
    /// nothing of it could be left anyway. Returns the last record of [`RecordKind::Upstream`] of the grant, if there was
    /// one.
    fn revoke_grant<'a>(&'a self, grant: &'a str, until: u64) -> AuthStoreFuture<'a, Option<AuthRecord>>;

    /// Number of records of a kind, including expired ones.
    fn count(&self, kind: RecordKind) -> AuthStoreFuture<'_, usize>;

    /// All records of a kind, at most `most`.
    fn list(&self, kind: RecordKind, now: u64, most: usize) -> AuthStoreFuture<'_, Vec<AuthRecord>>;

    /// Drops what has run out.
    fn sweep(&self, now: u64) -> AuthStoreFuture<'_, ()>;
}
