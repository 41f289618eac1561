//! What the authorization server keeps, and for how long.
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

pub use memory::MemoryStore;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;

/// What kind of thing a record is. Keys are unique within a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
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
    /// What a user has agreed to before.
    Consent,
    /// A browser, and who is signed in with it.
    Browser,
    /// Something that may happen once.
    Claim,
    /// A key that tokens are signed with.
    Key,
    /// An account at somebody else's that a grant rests on.
    Upstream,
    /// A key that nonces are made with.
    Nonce,
}

impl Kind {
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

/// One thing that is kept. Secrets are kept as hashes: in the key, never in the value. What has to be read again is sealed
/// in the value, but for [`Kind::Key`] and [`Kind::Nonce`] of a server that seals nothing
/// ([`AuthServer::sealing`](super::AuthServer::sealing)): whoever can read a store with these can sign tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// What it is.
    pub kind: Kind,
    /// What it is found by.
    pub key: String,
    /// What it says, as JSON.
    pub value: String,
    /// The grant that it ends with.
    pub grant: Option<String>,
    /// Until when, in seconds since 1970.
    pub until: u64,
}

impl Record {
    /// One that belongs to no grant.
    #[must_use]
    pub fn new(kind: Kind, key: impl Into<String>, value: impl Into<String>, until: u64) -> Self {
        Self { kind, key: key.into(), value: value.into(), grant: None, until }
    }

    /// One that ends with this grant.
    #[must_use]
    pub fn of(mut self, grant: impl Into<String>) -> Self {
        self.grant = Some(grant.into());
        self
    }
}

/// What came of taking something that is there once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Taken {
    /// It is the taker's now.
    First(Record),
    /// Somebody has taken it before.
    Again(Record),
    /// There is no such thing, or no longer.
    Unknown,
}

/// What came of swapping a refresh token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Swapped {
    /// The new one holds, the old one no longer. The old one, as it was.
    Done(Record),
    /// It was swapped a moment ago: perhaps the answer was lost. What was said of its successor then.
    Replayed(Record, String),
    /// It was swapped, and not just now: somebody has it who should not.
    Reused(Record),
    /// There is no such token, or no longer.
    Unknown,
}

/// The store does not answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the store of the authorization server does not answer: {0}")]
pub struct StoreError(pub(crate) Arc<str>);

/// What a store answers, later.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Keeps the records of an authorization server. Times are in seconds since 1970; what has run out is as if it were not
/// there.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Keeps a record, in place of one with the same key. One of a grant that has been revoked is not kept; false.
    fn put(&self, record: Record) -> StoreFuture<'_, bool>;

    /// The record of this key that nobody has taken.
    fn get<'a>(&'a self, kind: Kind, key: &'a str, now: u64) -> StoreFuture<'a, Option<Record>>;

    /// Takes a record that is there once. What was taken is remembered for as long as it would have been kept.
    fn take<'a>(&'a self, kind: Kind, key: &'a str, now: u64) -> StoreFuture<'a, Taken>;

    /// Claims a key of [`Kind::Claim`] until then, as a record with this value; false when somebody has it.
    fn claim<'a>(&'a self, key: &'a str, by: &'a str, until: u64, now: u64) -> StoreFuture<'a, bool>;

    /// Puts `new` in the place of the refresh token `old` and remembers `note` about it. Within `window` seconds
    /// whoever comes with the old one again is told the same note.
    fn swap_refresh<'a>(
        &'a self,
        old: &'a str,
        new: Record,
        note: &'a str,
        now: u64,
        window: u64,
    ) -> StoreFuture<'a, Swapped>;

    /// Forgets one record; false when there was none.
    fn forget<'a>(&'a self, kind: Kind, key: &'a str) -> StoreFuture<'a, bool>;

    /// Ends a grant and everything that belongs to it, for good: what is put for it later is not kept. `until` is when
    /// nothing of it could be left anyway. What it rested on, the record of [`Kind::Upstream`], if there was one, as it was
    /// in the end.
    fn revoke_grant<'a>(&'a self, grant: &'a str, until: u64) -> StoreFuture<'a, Option<Record>>;

    /// How many records of a kind there are, expired ones among them.
    fn count(&self, kind: Kind) -> StoreFuture<'_, usize>;

    /// All records of a kind, at most `most`.
    fn list(&self, kind: Kind, now: u64, most: usize) -> StoreFuture<'_, Vec<Record>>;

    /// Drops what has run out.
    fn sweep(&self, now: u64) -> StoreFuture<'_, ()>;
}
