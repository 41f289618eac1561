//! A credential store that is opened on first use.
//!
//! A locked keyring delays neither the start of a host nor calls to servers that need no tokens. Once the keyring is
//! unlocked, a running host can use the other servers too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hospes_oauth::{CredentialStore, FileCredentialStore, StepError};
use parking_lot::Mutex;
use secrecy::SecretString;

use crate::exit::{CliError, CliResult};

/// Time after a failure in which opening is not retried. Each attempt may ask the person to unlock something.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// A store that is opened when it is first used.
#[derive(Debug)]
pub(crate) struct LazyStore {
    /// Opens the store. `None` if it does not exist. The flag is true if it is created then.
    open: fn(bool) -> CliResult<Option<Arc<FileCredentialStore>>>,
    state: Mutex<LazyStoreState>,
}

#[derive(Debug)]
enum LazyStoreState {
    Unopened,
    Opened(Arc<FileCredentialStore>),
    Failed(Instant, CliError),
}

impl LazyStore {
    pub(crate) fn new(open: fn(bool) -> CliResult<Option<Arc<FileCredentialStore>>>) -> Self {
        Self { open, state: Mutex::new(LazyStoreState::Unopened) }
    }

    /// Returns the error of the last attempt to open the store, if it failed.
    pub(crate) fn failure(&self) -> Option<CliError> {
        match &*self.state.lock() {
            LazyStoreState::Failed(_, failure) => Some(failure.clone()),
            _ => None,
        }
    }

    /// Returns the store. `None` if it does not exist yet, unless it is needed.
    fn store(&self, is_needed: bool) -> Result<Option<Arc<FileCredentialStore>>, StepError> {
        // Held while the store is opened, so that concurrent callers do not ask the person to unlock it several times.
        let mut state = self.state.lock();
        match &*state {
            LazyStoreState::Opened(store) => return Ok(Some(Arc::clone(store))),
            LazyStoreState::Failed(at, failure) if at.elapsed() < RETRY_INTERVAL => {
                return Err(StepError::new(describe_failure(failure)));
            }
            _ => {}
        }
        match (self.open)(is_needed) {
            Ok(Some(store)) => {
                *state = LazyStoreState::Opened(Arc::clone(&store));
                Ok(Some(store))
            }
            Ok(None) => Ok(None),
            Err(failure) => {
                let why = describe_failure(&failure);
                *state = LazyStoreState::Failed(Instant::now(), failure);
                Err(StepError::new(why))
            }
        }
    }
}

fn describe_failure(failure: &CliError) -> String {
    match &failure.hint {
        Some(hint) => format!("{failure} ({hint})"),
        None => failure.to_string(),
    }
}

impl CredentialStore for LazyStore {
    fn read(&self, name: &str) -> Result<Option<SecretString>, StepError> {
        self.store(false)?.map_or(Ok(None), |store| store.read(name))
    }

    fn write(&self, name: &str, document: &SecretString) -> Result<(), StepError> {
        self.store(true)?.map_or(Ok(()), |store| store.write(name, document))
    }

    fn remove(&self, name: &str) -> Result<(), StepError> {
        self.store(false)?.map_or(Ok(()), |store| store.remove(name))
    }

    fn names(&self, beginning: &str) -> Result<Vec<String>, StepError> {
        self.store(false)?.map_or_else(|| Ok(Vec::new()), |store| store.names(beginning))
    }

    fn lock(&self, name: &str) -> Result<Option<Box<dyn Send>>, StepError> {
        self.store(false)?.map_or(Ok(None), |store| store.lock(name))
    }
}
