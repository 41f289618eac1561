//! Where tokens and registrations are kept.

mod file;
mod key;
#[cfg(feature = "keyring")]
mod keyring;
mod memory;
mod records;
mod suite;

use std::fmt;

use secrecy::SecretString;

use super::error::StepError;
pub use file::FileStore;
pub use key::StoreKey;
#[cfg(feature = "keyring")]
pub use keyring::{Keyring, KeyringError};
pub use memory::MemoryStore;
pub(super) use records::{
    Binding, binding_key, read_registration, read_tokens, registration_key, tokens_key, write_registration,
    write_tokens,
};
pub use records::{Kept, shown_endpoint};
pub use suite::examine;

/// Keeps secret documents under names that are not secret. Its methods may block: they are called where that harms
/// nobody.
pub trait Store: Send + Sync + fmt::Debug {
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

    /// Takes the document of this name away, if there is one.
    ///
    /// # Errors
    /// When it still stands.
    fn remove(&self, name: &str) -> Result<(), StepError>;

    /// All names that begin so.
    ///
    /// # Errors
    /// When they cannot be known.
    fn names(&self, beginning: &str) -> Result<Vec<String>, StepError>;

    /// Keeps other processes from renewing what this one is about to renew, until the guard is dropped. None where
    /// there are none.
    ///
    /// # Errors
    /// When they cannot be kept from it.
    fn lock(&self) -> Result<Option<Box<dyn Send>>, StepError>;
}
