//! Tokens of a fleet for commands, which connect to its database when a token is needed.

use std::fmt;
use std::sync::Arc;

use hospes_host::config::FleetConfig;
use hospes_oauth::{CredentialStore, StepError};
use parking_lot::Mutex;
use secrecy::SecretString;
use tokio::runtime::Handle;

use super::{SharedState, postgres_settings};
use crate::exit::CliResult;

/// Store of tokens in the database of a fleet. It is connected to when it is first used.
pub(crate) struct FleetTokenStore {
    fleet: FleetConfig,
    runtime: Handle,
    /// Held while the store is connected, so that concurrent callers do not connect several times.
    store: Mutex<Option<Arc<dyn CredentialStore>>>,
}

impl FleetTokenStore {
    /// Creates the store, within a runtime. Its methods block, so they are for threads where that is allowed.
    pub(crate) fn new(fleet: FleetConfig) -> Arc<Self> {
        Arc::new(Self { fleet, runtime: Handle::current(), store: Mutex::default() })
    }

    fn store(&self) -> Result<Arc<dyn CredentialStore>, StepError> {
        let mut store = self.store.lock();
        if let Some(store) = &*store {
            return Ok(Arc::clone(store));
        }
        let connected = self.connect().map_err(|error| {
            let hint = error.hint.as_deref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            StepError::new(format!("{error}{hint}"))
        })?;
        Ok(Arc::clone(store.insert(connected)))
    }

    fn connect(&self) -> CliResult<Arc<dyn CredentialStore>> {
        let settings = postgres_settings(&self.fleet)?;
        self.runtime.block_on(async {
            let shared = SharedState::connect_with(&self.fleet, settings).await?;
            Ok(shared.accounts()?.tokens)
        })
    }
}

impl CredentialStore for FleetTokenStore {
    fn read(&self, name: &str) -> Result<Option<SecretString>, StepError> {
        self.store()?.read(name)
    }

    fn write(&self, name: &str, document: &SecretString) -> Result<(), StepError> {
        self.store()?.write(name, document)
    }

    fn remove(&self, name: &str) -> Result<(), StepError> {
        self.store()?.remove(name)
    }

    fn names(&self, beginning: &str) -> Result<Vec<String>, StepError> {
        self.store()?.names(beginning)
    }

    fn lock(&self, name: &str) -> Result<Option<Box<dyn Send>>, StepError> {
        self.store()?.lock(name)
    }
}

impl fmt::Debug for FleetTokenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetTokenStore").finish_non_exhaustive()
    }
}
