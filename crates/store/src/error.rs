use std::io;
use std::path::PathBuf;

/// Error of reading or writing stored data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database said no.
    #[error("database error in {}", .file.display())]
    Database {
        /// Its file.
        file: PathBuf,
        /// Cause of the failure.
        #[source]
        source: std::sync::Arc<rusqlite::Error>,
    },
    /// The file was written by a newer version of this program.
    #[error("{} was written by a newer version of hospes", .0.display())]
    Newer(PathBuf),
    /// A file beside the database cannot be read or made.
    #[error("cannot access {}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// The key's file holds no key.
    #[error("{} is not a key file: expected {} bytes in hexadecimal", .0.display(), crate::key::KEY_BYTES)]
    NotAKey(PathBuf),
    /// Others than the owner may read a file that is the owner's alone, or it is a link.
    #[error("{} must be a regular file that only its owner can read and write; run `chmod 600` on it", .0.display())]
    Exposed(PathBuf),
    /// There are entries, but the key they were made with is gone.
    #[error(
        "key file {} is missing; without it the audit log cannot be verified; restore it, or move the audit log \
         elsewhere to start a new one",
        .0.display()
    )]
    KeyGone(PathBuf),
    /// The sealed data cannot be opened: it was changed, or sealed with another key.
    #[error("cannot decrypt the stored data: it was modified, or encrypted with another key")]
    Sealed,
    /// The audit record is not what was recorded.
    #[error("the audit log {} was tampered with", .file.display())]
    Tampered {
        /// Its file.
        file: PathBuf,
        /// Fault that was found.
        #[source]
        found: crate::TamperEvidence,
    },
    /// The thread that writes is gone.
    #[error("the audit writer has stopped; see the log for the reason")]
    Closed,
}
