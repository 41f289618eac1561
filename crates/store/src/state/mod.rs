//! Decisions of users, pending approvals and other state: one file, in which each part has its own tables.
//!
//! To add a part: a module beside `pins` with its `MIGRATIONS` and a type that wraps [`StateStore`], a line in
//! `PARTS`, and a method here that returns it. A part reads with `StateStore::read` and writes with
//! `StateStore::write`.

pub mod approvals;
pub mod budgets;
mod change_watch;
pub mod grants;
pub mod pins;
mod store;
pub mod tasks;

use std::path::Path;

use crate::error::StoreError;
use store::SchemaPart;
pub use store::StateStore;

/// All parts. Their order does not matter.
const PARTS: &[SchemaPart] = &[
    ("budgets", budgets::MIGRATIONS),
    ("grants", grants::MIGRATIONS),
    ("matters", approvals::MIGRATIONS),
    ("pins", pins::MIGRATIONS),
    ("tasks", tasks::MIGRATIONS),
];

impl StateStore {
    /// Opens the state in this file. A missing file is created, accessible to its owner alone.
    ///
    /// # Errors
    /// If the file cannot be used, is accessible to other users, or has a newer version.
    pub fn open(file: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_parts(file.as_ref().to_owned(), PARTS)
    }

    /// Checks an existing file without changing it: it is not damaged, and of no newer version.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or has a newer version.
    pub fn examine(file: impl AsRef<Path>) -> Result<(), StoreError> {
        Self::examine_parts(file.as_ref(), PARTS)
    }

    /// Returns the pins: the offers of servers that a person accepted.
    #[must_use]
    pub fn pins(&self) -> pins::PinRecords {
        pins::PinRecords::new(self.clone())
    }

    /// Returns the lasting grants.
    #[must_use]
    pub fn grants(&self) -> grants::GrantRecords {
        grants::GrantRecords::new(self.clone())
    }

    /// Returns the spending on models.
    #[must_use]
    pub fn budgets(&self) -> budgets::BudgetRecords {
        budgets::BudgetRecords::new(self.clone())
    }

    /// Returns the pending approvals, sealed with the key of the state.
    ///
    /// # Errors
    /// The errors of [`StateStore::secret`].
    pub fn approvals(&self) -> Result<approvals::ApprovalRecords, StoreError> {
        approvals::ApprovalRecords::new(self.clone())
    }

    /// Returns the records of tasks and the calls that started them.
    #[must_use]
    pub fn tasks(&self) -> tasks::TaskRecords {
        tasks::TaskRecords::new(self.clone())
    }
}
