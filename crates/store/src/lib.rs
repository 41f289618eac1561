//! Persistent data of the host.
//!
//! For the host, which opens one of each for a user.
//!
//! [`AuditLog`] is the append-only log of events, in which each entry is bound to the previous one by a keyed hash.
//! [`StateStore`] has the decisions of people and the pending approvals; a method such as [`StateStore::pins`] returns
//! each part. Both are SQLite files that several processes of one machine can share. With the feature `postgres` the
//! state can be a PostgreSQL database that several nodes share (`StateStore::connect`).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use hospes_store::{AuditLog, AuditEntry, AuditEntryKind, AuditQuery};
//!
//! let folder = tempfile::tempdir()?;
//! let audit = AuditLog::open(folder.path().join("audit.db"), folder.path().join("audit.key"))?;
//! let mut entry = AuditEntry::new(AuditEntryKind::Call);
//! entry.server = Some("files".to_owned());
//! entry.subject = Some("read_file".to_owned());
//! let place = audit.record(entry).await?;
//!
//! let found = audit.search(AuditQuery::new().with_server("files")).await?;
//! assert_eq!(found[0].seq, place.seq);
//! assert_eq!(audit.verify(None).await?.entries, 1);
//! # Ok(()) }
//! ```
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `audit` | [`AuditLog`]: entries, the writer's thread, search and verification |
//! | `state` | [`StateStore`] with its parts: [`approvals`], [`budgets`], [`credentials`], [`grants`], [`pending`], [`pins`], [`tasks`] |
//! | `key`, `hex` | keys in files of their own; hexadecimal text of keys and hashes |
//! | `error` | [`StoreError`] |

mod audit;
mod error;
mod hex;
mod key;
mod state;

pub use audit::{
    AFTER_UNTRUSTED, AuditDigest, AuditEntry, AuditEntryKind, AuditLog, AuditOutcome, AuditPosition,
    AuditQuery, AuditReader, DEFAULT_QUEUE_CAPACITY, DecisionBasis, EntryOrigin, GatheredEntry,
    ParsePositionError, PassedCalls, PendingWrite, RecordedEntry, ServerDigest, TamperEvidence, VerifiedLog,
};
#[cfg(feature = "postgres")]
pub use audit::{
    AuditAnchor, AuditShipper, SharedAuditLog, SharedTamperEvidence, VerifiedChain, VerifiedSharedLog,
};
pub use error::StoreError;
#[cfg(feature = "postgres")]
pub use hospes_sql::{PostgresMetrics, PostgresSettings, PostgresSettingsError};
#[cfg(feature = "postgres")]
pub use state::migration;
pub use state::{
    StateClock, StateStore, approvals, budgets, console_sessions, credentials, grants, pending, pins, tasks,
};
