//! Storage of tokens and registrations.

mod conformance;
mod file;
mod key;
#[cfg(feature = "keyring")]
mod keyring;
mod memory;
mod records;

use std::fmt;

use secrecy::SecretString;
use tokio::sync::watch;

use super::error::StepError;
pub use conformance::check_store_conformance;
pub use file::FileCredentialStore;
pub use key::StoreKey;
#[cfg(feature = "keyring")]
pub use keyring::{KeyringError, SystemKeyring};
pub use memory::MemoryCredentialStore;
pub(super) use records::{
    ClientBindingRecord, ClientRecord, binding_key, expose, expose_always, read_registration, read_tokens,
    registration_key, tokens_key, write_registration, write_tokens,
};
pub use records::{StoredTokens, shown_endpoint};

/// Stores secret documents under names that are not secret. Its methods may block; they are called on threads where
/// blocking is allowed.
pub trait CredentialStore: Send + Sync + fmt::Debug {
    /// Returns the document with this name.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn read(&self, name: &str) -> Result<Option<SecretString>, StepError>;

    /// Replaces the document with this name atomically.
    ///
    /// # Errors
    /// If the document could not be replaced.
    fn write(&self, name: &str, document: &SecretString) -> Result<(), StepError>;

    /// Removes the document with this name, if there is one.
    ///
    /// # Errors
    /// If the document could not be removed.
    fn remove(&self, name: &str) -> Result<(), StepError>;

    /// Returns all names with this prefix.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn names(&self, beginning: &str) -> Result<Vec<String>, StepError>;

    /// Prevents other processes from renewing the document with this name until the guard is dropped. A store may lock
    /// other documents with it, so a second one must not be locked while the guard exists. Returns `None` if no other
    /// process can use the store.
    ///
    /// # Errors
    /// If the lock cannot be acquired.
    fn lock(&self, name: &str) -> Result<Option<Box<dyn Send>>, StepError>;

    /// Returns a counter that changes after other processes may have changed documents. `None` if the store cannot tell:
    /// then its users look from time to time.
    fn changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }
}
