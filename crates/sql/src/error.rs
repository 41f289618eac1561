use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Error of using a database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// SQLite returned an error.
    #[error("database error in {}", .file.display())]
    Sqlite {
        /// Path of the database.
        file: PathBuf,
        /// Cause of the failure.
        #[source]
        source: Arc<rusqlite::Error>,
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
    NewerFile(PathBuf),
    /// The file was written by an older version of this program, and was opened for reading alone.
    #[error("{} was written by an older version of hospes", .0.display())]
    OlderFile(PathBuf),
    /// SQLite's check of the file found damage.
    #[error("{} is damaged: {found}", .file.display())]
    Damaged {
        /// Path of the database.
        file: PathBuf,
        /// First fault that the check reports.
        found: String,
    },
    /// The file cannot be read or created.
    #[error("cannot access {}", .file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
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
    Settings(#[from] crate::postgres::PostgresSettingsError),
    /// The thread of a transaction has ended.
    #[error("a transaction has stopped; see the log for the reason")]
    Stopped,
}
