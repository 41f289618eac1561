//! Where tokens and registrations are kept.

mod file;
mod memory;
mod records;

use std::fmt;

use secrecy::SecretString;

pub use file::{FileStore, StoreKey};
pub use memory::MemoryStore;
pub(super) use records::{
    Binding, binding_key, read_registration, read_tokens, registration_key, tokens_key, write_registration,
    write_tokens,
};

/// Why something could not be kept, or found again.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
#[non_exhaustive]
pub struct StoreError {
    what: String,
    #[source]
    source: Option<std::io::Error>,
}

impl StoreError {
    /// With words; nothing secret may be in them.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), source: None }
    }

    /// With the error of the system underneath.
    #[must_use]
    pub fn because(mut self, source: std::io::Error) -> Self {
        self.source = Some(source);
        self
    }
}

/// Keeps secret documents under names that are not secret. Its methods may block: they are called where that harms
/// nobody.
pub trait Store: Send + Sync + fmt::Debug {
    /// The document of this name.
    ///
    /// # Errors
    /// When it cannot be known whether there is one.
    fn read(&self, name: &str) -> Result<Option<SecretString>, StoreError>;

    /// Puts a document in the place of the one of this name, whole or not at all.
    ///
    /// # Errors
    /// When the old one still stands.
    fn write(&self, name: &str, document: &SecretString) -> Result<(), StoreError>;

    /// Takes the document of this name away, if there is one.
    ///
    /// # Errors
    /// When it still stands.
    fn remove(&self, name: &str) -> Result<(), StoreError>;

    /// All names that begin so.
    ///
    /// # Errors
    /// When they cannot be known.
    fn names(&self, beginning: &str) -> Result<Vec<String>, StoreError>;

    /// Keeps other processes from renewing what this one is about to renew, until the guard is dropped. None where
    /// there are none.
    ///
    /// # Errors
    /// When they cannot be kept from it.
    fn lock(&self) -> Result<Option<Box<dyn Send>>, StoreError>;
}
