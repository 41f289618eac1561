//! Storage of what lasts for minutes: sign-ins that wait for their redirect, and links that lead to them.

mod conformance;
mod memory;

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use secrecy::SecretString;
use tokio::sync::watch;

pub use conformance::check_pending_conformance;
pub use memory::MemoryPendingStore;

use crate::error::StepError;

/// Future of an operation of [`PendingStore`].
pub type PendingFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StepError>> + Send + 'a>>;

/// Kind of a pending document. Ids, families and limits of one kind are apart from those of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a store has a name for each")]
pub enum PendingKind {
    /// A sign-in that waits for its redirect, with the PKCE verifier.
    SignIn,
    /// A link with which a user connects an account.
    Link,
}

impl PendingKind {
    /// Returns the name under which a store keeps documents of this kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SignIn => "sign-in",
            Self::Link => "link",
        }
    }
}

/// A document to be stored.
#[derive(Clone)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills in all of it")]
pub struct NewPendingDocument {
    /// Kind of the document.
    pub kind: PendingKind,
    /// Secret id by which the document is found: whoever knows it can use the document.
    pub id: String,
    /// Name of the account that the document belongs to.
    pub family: String,
    /// Text of the document, which may be secret.
    pub body: SecretString,
    /// Time after which the document is gone.
    pub lifetime: Duration,
}

/// Stored document.
#[derive(Clone)]
#[expect(clippy::exhaustive_structs, reason = "a store fills in all of it")]
pub struct PendingDocument {
    /// Id of the document.
    pub id: String,
    /// Family of the document.
    pub family: String,
    /// Stage that the document has reached; 0 at first. The user of the store gives it a meaning.
    pub stage: u8,
    /// Text of the document.
    pub body: SecretString,
    /// Remaining lifetime.
    pub left: Duration,
}

// The id and the text are secrets.
impl fmt::Debug for NewPendingDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewPendingDocument").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl fmt::Debug for PendingDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingDocument").field("stage", &self.stage).finish_non_exhaustive()
    }
}

/// Limits of a kind of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills in all of it")]
pub struct PendingLimits {
    /// Maximum number of documents of one family.
    pub family: usize,
    /// Maximum number of documents of the kind.
    pub all: usize,
    /// True if the oldest document is removed at a limit. Otherwise the new one is refused.
    pub removes_oldest: bool,
}

/// Result of adding a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the caller answers something else to each")]
pub enum AddPendingResult {
    /// Stored, without a limit in the way.
    Added,
    /// Stored, after the oldest document of the family was removed.
    AddedForOldestOfFamily,
    /// Stored, after the oldest document of all was removed.
    AddedForOldest,
    /// Refused: the family is at its limit.
    TooManyOfFamily,
    /// Refused: the kind is at its limit.
    TooMany,
}

/// Store of pending documents: in the memory of one process, or in a database that several nodes share. Documents that
/// have expired are gone. Each change is made once, however often a store repeats it.
pub trait PendingStore: Send + Sync + fmt::Debug {
    /// Stores a document.
    fn add(&self, document: NewPendingDocument, limits: PendingLimits)
    -> PendingFuture<'_, AddPendingResult>;

    /// Returns the document with this id.
    fn find<'a>(&'a self, kind: PendingKind, id: &'a str) -> PendingFuture<'a, Option<PendingDocument>>;

    /// Returns the documents of a family, the oldest first.
    fn list<'a>(&'a self, kind: PendingKind, family: &'a str) -> PendingFuture<'a, Vec<PendingDocument>>;

    /// Removes the document with this id, if it is of this family, and returns it. One of several callers gets it.
    fn take<'a>(
        &'a self,
        kind: PendingKind,
        id: &'a str,
        family: &'a str,
    ) -> PendingFuture<'a, Option<PendingDocument>>;

    /// Sets the stage of the document with this id, if it is at one of the stages `from`. Returns true for one of several
    /// callers.
    fn advance<'a>(
        &'a self,
        kind: PendingKind,
        id: &'a str,
        from: &'a [u8],
        to: u8,
    ) -> PendingFuture<'a, bool>;

    /// Sets the stage of all documents of a family that are at one of the stages `from`.
    fn advance_family<'a>(
        &'a self,
        kind: PendingKind,
        family: &'a str,
        from: &'a [u8],
        to: u8,
    ) -> PendingFuture<'a, ()>;

    /// Removes all documents of a family.
    fn remove_family<'a>(&'a self, kind: PendingKind, family: &'a str) -> PendingFuture<'a, ()>;

    /// Returns a counter that changes after documents have changed, here or in other processes. It may also change without
    /// that.
    fn changes(&self) -> watch::Receiver<u64>;
}
