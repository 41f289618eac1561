use std::io;
use std::path::PathBuf;

use hospes_sql::DatabaseError;

#[cfg(feature = "postgres")]
use crate::audit::SharedTamperEvidence;
use crate::audit::TamperEvidence;
use crate::hex::KEY_BYTES;

/// Error of reading or writing stored data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// SQLite returned an error.
    #[error("database error in {}", .file.display())]
    Database {
        /// Path of the database.
        file: PathBuf,
        /// Cause of the failure.
        #[source]
        source: std::sync::Arc<rusqlite::Error>,
    },
    /// A stored value was not written by this program, or a row is missing.
    #[error("{} has contents that this program did not write: {found}", .file.display())]
    Contents {
        /// Path of the database.
        file: PathBuf,
        /// Fault that was found.
        found: String,
    },
    /// The file was written by a newer version of this program.
    #[error("{} was written by a newer version of hospes", .0.display())]
    Newer(PathBuf),
    /// The file was written by an older version of this program, and was opened for reading alone.
    #[error("{} was written by an older version of hospes", .0.display())]
    Older(PathBuf),
    /// SQLite's check of the file found damage.
    #[error("{} is damaged: {found}", .file.display())]
    Damaged {
        /// Path of the database.
        file: PathBuf,
        /// First fault that the check reports.
        found: String,
    },
    /// A file beside the database cannot be read or created.
    #[error("cannot access {}", .file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// The key file is empty or malformed.
    #[error("{} is not a key file: expected {} bytes in hexadecimal", .0.display(), KEY_BYTES)]
    NotAKey(PathBuf),
    /// A private file is accessible to other users, or is a symbolic link.
    #[error(
        "{} must be a regular file that only its owner can read and write; run `{}`",
        .0.display(), hospes_fs::protection_hint(.0)
    )]
    Exposed(PathBuf),
    /// The audit log has entries, but its key file is missing.
    #[error(
        "key file {} is missing; without it the audit log cannot be verified; restore it, or move the audit log \
         elsewhere to start a new one",
        .0.display()
    )]
    KeyGone(PathBuf),
    /// Sealed data cannot be decrypted: it was modified, or sealed with another key.
    #[error("cannot decrypt the stored data: it was modified, or encrypted with another key")]
    Sealed,
    /// The operating system provides no random bytes.
    #[error("the operating system provides no random bytes")]
    NoRandomBytes,
    /// The audit log was modified.
    #[error("the audit log {} was tampered with", .file.display())]
    Tampered {
        /// Path of the database.
        file: PathBuf,
        /// Fault that was found.
        #[source]
        found: TamperEvidence,
    },
    /// The audit record of all nodes was modified.
    #[cfg(feature = "postgres")]
    #[error("the audit record of the fleet was tampered with")]
    SharedTampered(#[source] SharedTamperEvidence),
    /// The database cannot be used at present.
    #[cfg(feature = "postgres")]
    #[error("the database cannot be used{}: {reason}", if *.is_unknown { "; whether the change was made is not known" } else { "" })]
    Unavailable {
        /// Failure of the last try.
        reason: String,
        /// True if a commit was not answered: the change was made, or not.
        is_unknown: bool,
    },
    /// The database rejected a statement of this program.
    #[cfg(feature = "postgres")]
    #[error("database error: {0}")]
    Rejected(String),
    /// A part of the database was written by a newer version of this program.
    #[cfg(feature = "postgres")]
    #[error("the database was written by a newer version of hospes; update hospes on this node")]
    NewerDatabase,
    /// The settings of the database are not valid.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Settings(#[from] hospes_sql::PostgresSettingsError),
    /// The writer thread has ended.
    #[error("the audit writer has stopped; see the log for the reason")]
    Closed,
}

impl StoreError {
    /// Returns true if a database that several nodes share cannot be used at present: nothing is wrong with what is
    /// stored.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        #[cfg(feature = "postgres")]
        return matches!(self, Self::Unavailable { .. });
        #[cfg(not(feature = "postgres"))]
        false
    }
}

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Sqlite { file, source } => Self::Database { file, source },
            DatabaseError::Contents { file, found } => Self::Contents { file, found },
            DatabaseError::NewerFile(file) => Self::Newer(file),
            DatabaseError::OlderFile(file) => Self::Older(file),
            DatabaseError::Damaged { file, found } => Self::Damaged { file, found },
            DatabaseError::File { file, source } => Self::File { file, source },
            #[cfg(feature = "postgres")]
            DatabaseError::Unavailable { reason, is_unknown } => Self::Unavailable { reason, is_unknown },
            #[cfg(feature = "postgres")]
            DatabaseError::Rejected(reason) => Self::Rejected(reason),
            #[cfg(feature = "postgres")]
            DatabaseError::NewerDatabase => Self::NewerDatabase,
            #[cfg(feature = "postgres")]
            DatabaseError::Settings(error) => Self::Settings(error),
            // The error is non-exhaustive; the last one of today is a thread that has ended.
            _ => Self::Closed,
        }
    }
}
