//! Records of the authorization server and their storage.
//!
//! Every change is one atomic step, so that several nodes can share one store: if several callers take the same code or
//! swap the same refresh token at the same time, exactly one succeeds. An implementation that reads first and writes
//! later fails the tests here.

#[cfg(feature = "postgres")]
pub mod auth_copy;
#[cfg(test)]
#[cfg(feature = "sqlite")]
mod engine_tests;
#[cfg(test)]
#[cfg(all(feature = "postgres", target_os = "linux"))]
mod fault_tests;
mod memory;
pub(crate) mod secrets;
pub(crate) mod server_keys;
#[cfg(feature = "sqlite")]
mod sql;
#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

pub use memory::MemoryAuthStore;
#[cfg(feature = "sqlite")]
pub use sql::SqlAuthStore;

/// Kind of a record. Keys are unique within a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RecordKind {
    /// A client that has registered.
    Client,
    /// An authorization request that waits for its user.
    Pending,
    /// Authorization code.
    Code,
    /// Access token.
    Access,
    /// Refresh token.
    Refresh,
    /// A consent of a user.
    Consent,
    /// Browser session.
    Browser,
    /// Marker of a single-use event.
    Claim,
    /// A key that tokens are signed with.
    Key,
    /// The provider tokens that a grant depends on.
    Upstream,
    /// Key for nonces.
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
    /// Creates a record that belongs to no grant.
    #[must_use]
    pub fn new(kind: RecordKind, key: impl Into<String>, value: impl Into<String>, until: u64) -> Self {
        Self { kind, key: key.into(), value: value.into(), grant: None, until }
    }

    /// Assigns the record to a grant, with which it ends.
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
    /// The record was already taken.
    Again(AuthRecord),
    /// The record does not exist or has expired.
    Unknown,
}

/// Result of swapping a refresh token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefreshSwapResult {
    /// The new record has replaced the old one, which is returned.
    Done(AuthRecord),
    /// The record was swapped a moment ago, perhaps with a lost response. Contains it and the stored text about its
    /// successor.
    Replayed(AuthRecord, String),
    /// It was swapped earlier: the token may have been stolen.
    Reused(AuthRecord),
    /// There is no such token, or no longer.
    Unknown,
}

/// The store does not answer.
///
/// A change that failed was not made, or it is not known whether it was. Callers do not repeat it: each call is an
/// attempt of its own, and a second [`AuthStore::take`] would find taken what the first one took. They pass the error on
/// (503 at the token endpoint) and issue nothing. A client that then repeats its request gets tokens if its code is
/// unused. If it is used, the client is refused and its user signs in again; a refresh token has the same successor.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the authorization server's store failed: {0}")]
pub struct AuthStoreError(pub(crate) Arc<str>);

/// Future of a store operation.
pub type AuthStoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, AuthStoreError>> + Send + 'a>>;

/// Storage of an authorization server's records. Each method is one transaction, and a change that returned without an
/// error is permanent. Times are in seconds since 1970. Expired records count as absent.
///
/// `now` is the time of this node. A store that several nodes share may compare with its own clock instead, so that all
/// nodes agree whether a record has expired. The end of a record is computed by the node that stores it. So the clock of
/// each node ([`AuthServer::clock`](super::AuthServer::clock)) has to agree with that of the store: a node that is a
/// minute late issues codes that are accepted for a minute less.
pub trait AuthStore: fmt::Debug + Send + Sync + 'static {
    /// Keeps a record, in place of one with the same key. One of a grant that has been revoked is not kept; false.
    fn put(&self, record: AuthRecord) -> AuthStoreFuture<'_, bool>;

    /// Returns the record with this key, unless it was taken.
    fn get<'a>(&'a self, kind: RecordKind, key: &'a str, now: u64)
    -> AuthStoreFuture<'a, Option<AuthRecord>>;

    /// Takes a single-use record. The fact that it was taken is remembered until the record would have expired. A store
    /// that repeats this after a lost connection must recognise its own attempt, since a second use counts as theft.
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

    /// Deletes a record. Returns false if there was none.
    fn forget<'a>(&'a self, kind: RecordKind, key: &'a str) -> AuthStoreFuture<'a, bool>;

    /// Ends a grant and everything that belongs to it permanently: later records of it are not stored. `until` is the
    /// time when all its records would have expired. Returns the last record of [`RecordKind::Upstream`] of the grant,
    /// if there was one.
    fn revoke_grant<'a>(&'a self, grant: &'a str, until: u64) -> AuthStoreFuture<'a, Option<AuthRecord>>;

    /// Number of records of a kind, including expired ones.
    fn count(&self, kind: RecordKind) -> AuthStoreFuture<'_, usize>;

    /// Returns all records of a kind, at most `most`.
    fn list(&self, kind: RecordKind, now: u64, most: usize) -> AuthStoreFuture<'_, Vec<AuthRecord>>;

    /// Removes expired records.
    fn sweep(&self, now: u64) -> AuthStoreFuture<'_, ()>;
}

/// Returns the JSON text of a value, as it is stored or hashed.
pub(crate) fn encode(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
