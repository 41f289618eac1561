//! A store that is opened when it is wanted.
//!
//! A keyring that is locked holds up neither a host nor calls to servers that want no tokens; once it is unlocked, a host
//! that runs is let in by the others too.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hospes_auth::client::{FileStore, StepError, Store};
use secrecy::SecretString;

use crate::exit::{Failure, Outcome};

/// Time after a failure in which opening is not retried. Each attempt may ask the person to unlock something.
const PAUSE: Duration = Duration::from_secs(60);

/// A store that is opened when it is first used.
#[derive(Debug)]
pub(crate) struct Later {
    open: fn() -> Outcome<Arc<FileStore>>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Unopened,
    Opened(Arc<FileStore>),
    Failed(Instant, Failure),
}

impl Later {
    pub(crate) fn new(open: fn() -> Outcome<Arc<FileStore>>) -> Self {
        Self { open, state: Mutex::new(State::Unopened) }
    }

    /// Returns the error of the last attempt to open the store, if it failed.
    pub(crate) fn failure(&self) -> Option<Failure> {
        match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Failed(_, failure) => Some(failure.clone()),
            _ => None,
        }
    }

    fn store(&self) -> Result<Arc<FileStore>, StepError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Opened(store) => return Ok(Arc::clone(store)),
            State::Failed(at, failure) if at.elapsed() < PAUSE => return Err(StepError::new(said(failure))),
            _ => {}
        }
        match (self.open)() {
            Ok(store) => {
                *state = State::Opened(Arc::clone(&store));
                Ok(store)
            }
            Err(failure) => {
                let why = said(&failure);
                *state = State::Failed(Instant::now(), failure);
                Err(StepError::new(why))
            }
        }
    }
}

fn said(failure: &Failure) -> String {
    match &failure.hint {
        Some(hint) => format!("{failure} ({hint})"),
        None => failure.to_string(),
    }
}

impl Store for Later {
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

    fn lock(&self) -> Result<Option<Box<dyn Send>>, StepError> {
        self.store()?.lock()
    }
}
