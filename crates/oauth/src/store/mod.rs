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

use super::error::StepError;
pub use conformance::check_store_conformance;
pub use file::FileCredentialStore;
pub use key::StoreKey;
#[cfg(feature = "keyring")]
pub use keyring::{KeyringError, SystemKeyring};
pub use memory::MemoryCredentialStore;
pub(super) use records::{
    ClientBindingRecord, binding_key, read_registration, read_tokens, registration_key, tokens_key,
    write_registration, write_tokens,
};
pub use records::{StoredTokens, shown_endpoint};

/// Stores secret documents under names that are not secret. Its methods may block; they are called on threads where
/// blocking is allowed.
pub trait CredentialStore: Send + Sync + fmt::Debug {
    /// The document of this name.
    ///
    /// # Errors
    /// When it cannot be known whether there is one.
    fn read(&self, name: &str) -> Result<Option<SecretString>, StepError>;

    /// Puts a document in the place of the one of this name, whole or not at all.
    ///
    /// # Errors
    /// When the old one still stands.
    fn write(&self, name: &str, document: &SecretString) -> Result<(), StepError>;

    /// Removes the document of this name, if there is one.
    ///
    /// # Errors
    /// When it still stands.
    fn remove(&self, name: &str) -> Result<(), StepError>;

    /// All names that begin so.
    ///
    /// # Errors
    /// When they cannot be known.
    fn names(&self, beginning: &str) -> Result<Vec<String>, StepError>;

    /// Prevents other processes from renewing the same tokens until the guard is dropped. Returns `None` if no other
    /// process can use the store.
    ///
    /// # Errors
    /// When they cannot be kept from it.
    fn lock(&self) -> Result<Option<Box<dyn Send>>, StepError>;
}
