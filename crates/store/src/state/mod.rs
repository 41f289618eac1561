//! Decisions of users, pending approvals and other state: one database, in which each part has its own tables.
//!
//! To add a part: a module beside `pins` with its schemas `SQLITE` and `POSTGRES` and a type that wraps `StatePart`, a
//! line in each list of parts, and a method here that returns it. A part reads with `StatePart::read` and writes with
//! `StatePart::write`, in SQL that both engines have.

pub mod approvals;
pub mod budgets;
mod clock;
pub mod console_sessions;
pub mod credentials;
mod decisions;
pub mod grants;
#[cfg(feature = "postgres")]
pub mod migration;
pub mod pending;
pub mod pins;
#[cfg(feature = "postgres")]
mod shared_key;
mod store;
pub mod tasks;

use std::path::Path;

#[cfg(feature = "postgres")]
use hospes_sql::{PostgresPart, PostgresSettings};
use hospes_sql::{SqlEngine, SqlitePart, SqliteSchema};
#[cfg(feature = "postgres")]
use zeroize::Zeroizing;

use crate::error::StoreError;
use crate::key;
pub use clock::StateClock;
#[cfg(feature = "postgres")]
pub(crate) use store::StatePart;
pub use store::StateStore;
use store::{StateDatabase, StateKey};

/// All parts in SQLite. A part comes after those whose tables it changes.
const SQLITE_PARTS: &[SqlitePart] = &[
    ("budgets", budgets::SQLITE),
    ("console sessions", console_sessions::SQLITE),
    ("grants", grants::SQLITE),
    ("matters", approvals::SQLITE),
    ("held matters", approvals::HELD_SQLITE),
    ("pins", pins::SQLITE),
    ("tasks", tasks::SQLITE),
];

/// All parts in PostgreSQL.
#[cfg(feature = "postgres")]
const POSTGRES_PARTS: &[PostgresPart] = &[
    ("audit", crate::audit::SHARED_SCHEMA),
    ("budgets", budgets::POSTGRES),
    ("console sessions", console_sessions::POSTGRES),
    ("credentials", credentials::POSTGRES),
    ("grants", grants::POSTGRES),
    (shared_key::PART, shared_key::POSTGRES),
    ("migrations", migration::POSTGRES),
    ("matters", approvals::POSTGRES),
    ("held matters", approvals::HELD_POSTGRES),
    ("pending documents", pending::POSTGRES),
    ("pins", pins::POSTGRES),
    ("tasks", tasks::POSTGRES),
];

impl StateStore {
    /// Opens the state in this file. A missing file is created, accessible to its owner alone.
    ///
    /// # Errors
    /// If the file cannot be used, is accessible to other users, or has a newer version.
    pub fn open(file: impl AsRef<Path>) -> Result<Self, StoreError> {
        let file = file.as_ref().to_owned();
        // Checked before any content is trusted. A missing file is created for its owner alone.
        if matches!(key::is_private(&file), Ok(false)) {
            return Err(StoreError::Exposed(file));
        }
        let engine = SqlEngine::open_sqlite(file.clone(), SqliteSchema::Parts(SQLITE_PARTS))?;
        Ok(Self::new(StateDatabase { engine, key: StateKey::Beside(file) }))
    }

    /// Connects to the state in a database that several nodes share. `secrets` are those of the nodes, the present one
    /// first: it seals the key of what only the nodes may read. To change it, give all nodes the new one behind the old
    /// one, then in front of it, then remove the old one.
    ///
    /// # Errors
    /// If the settings are not valid, the database cannot be used, a part of it is newer than this program, or its key is
    /// sealed with another secret ([`StoreError::Sealed`]).
    #[cfg(feature = "postgres")]
    pub async fn connect(
        settings: PostgresSettings,
        secrets: Vec<Zeroizing<[u8; 32]>>,
    ) -> Result<Self, StoreError> {
        let engine = SqlEngine::connect_postgres(settings, POSTGRES_PARTS).await?;
        let key = shared_key::shared_key(&engine, &secrets).await?;
        Ok(Self::new(StateDatabase { engine, key: StateKey::Shared(key) }))
    }

    /// Connects to a database and returns what should be changed in the settings of its server so that it keeps what it
    /// acknowledges, as sentences. Changes nothing.
    ///
    /// # Errors
    /// If the settings are not valid, or the database cannot be used.
    #[cfg(feature = "postgres")]
    pub async fn server_problems(settings: PostgresSettings) -> Result<Vec<String>, StoreError> {
        Ok(SqlEngine::inspect_postgres(settings).await?.problems().await?)
    }

    /// Checks an existing file without changing it: it is not damaged, and of no newer version.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or has a newer version.
    pub fn examine(file: impl AsRef<Path>) -> Result<(), StoreError> {
        SqlEngine::examine_sqlite(file.as_ref(), SqliteSchema::Parts(SQLITE_PARTS))?;
        Ok(())
    }

    /// Returns the pins: the offers of servers that a person accepted.
    #[must_use]
    pub fn pins(&self) -> pins::PinRecords {
        pins::PinRecords::new(self.part("pins"))
    }

    /// Returns the lasting grants.
    #[must_use]
    pub fn grants(&self) -> grants::GrantRecords {
        grants::GrantRecords::new(self.part("grants"))
    }

    /// Returns the spending on models.
    #[must_use]
    pub fn budgets(&self) -> budgets::BudgetRecords {
        budgets::BudgetRecords::new(self.part("budgets"))
    }

    /// Returns the pending approvals, sealed with the key of the state.
    ///
    /// # Errors
    /// The errors of [`StateStore::secret`].
    pub fn approvals(&self) -> Result<approvals::ApprovalRecords, StoreError> {
        approvals::ApprovalRecords::new(self.part("matters"))
    }

    /// Returns the browser sessions of a team's console, sealed with the key of the state.
    ///
    /// # Errors
    /// The errors of [`StateStore::secret`].
    pub fn console_sessions(&self) -> Result<console_sessions::ConsoleSessionRecords, StoreError> {
        console_sessions::ConsoleSessionRecords::new(self.part("console sessions"))
    }

    /// Returns the tokens of accounts at servers, which all nodes share. `None` for a state in a file: a single host has
    /// a file of its own for them.
    ///
    /// # Errors
    /// The errors of [`StateStore::secret`].
    pub fn credentials(&self) -> Result<Option<credentials::CredentialRecords>, StoreError> {
        let part = self.part("credentials");
        part.is_shared().then(|| credentials::CredentialRecords::new(part)).transpose()
    }

    /// Returns what waits for sign-ins at servers, which all nodes share. `None` for a state in a file.
    ///
    /// # Errors
    /// The errors of [`StateStore::secret`].
    pub fn pending(&self) -> Result<Option<pending::PendingRecords>, StoreError> {
        let part = self.part("pending documents");
        part.is_shared().then(|| pending::PendingRecords::new(part)).transpose()
    }

    /// Returns the audit record of all nodes. `None` for a state in a file.
    ///
    /// # Errors
    /// The errors of [`StateStore::secret`].
    #[cfg(feature = "postgres")]
    pub fn audit(&self) -> Result<Option<crate::audit::SharedAuditLog>, StoreError> {
        let part = self.part("audit");
        part.is_shared().then(|| crate::audit::SharedAuditLog::new(part)).transpose()
    }

    /// Returns the records of tasks and the calls that started them.
    #[must_use]
    pub fn tasks(&self) -> tasks::TaskRecords {
        tasks::TaskRecords::new(self.part("tasks"))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_that_others_could_change_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state.db");
        drop(StateStore::open(&file).unwrap());
        set_permissions(&file, Permissions::from_mode(0o660)).unwrap();
        assert!(matches!(StateStore::open(&file), Err(StoreError::Exposed(_))));
    }
}
