//! Credential store in memory, for the lifetime of the program.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use secrecy::SecretString;

use super::CredentialStore;
use crate::error::StepError;

/// Credential store in memory.
#[derive(Default)]
pub struct MemoryCredentialStore(Mutex<BTreeMap<String, SecretString>>);

impl MemoryCredentialStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn documents(&self) -> MutexGuard<'_, BTreeMap<String, SecretString>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CredentialStore for MemoryCredentialStore {
    fn read(&self, name: &str) -> Result<Option<SecretString>, StepError> {
        Ok(self.documents().get(name).cloned())
    }

    fn write(&self, name: &str, document: &SecretString) -> Result<(), StepError> {
        self.documents().insert(name.to_owned(), document.clone());
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), StepError> {
        self.documents().remove(name);
        Ok(())
    }

    fn names(&self, beginning: &str) -> Result<Vec<String>, StepError> {
        Ok(self.documents().keys().filter(|name| name.starts_with(beginning)).cloned().collect())
    }

    fn lock(&self, _name: &str) -> Result<Option<Box<dyn Send>>, StepError> {
        Ok(None)
    }
}

impl fmt::Debug for MemoryCredentialStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.documents().keys()).finish()
    }
}
