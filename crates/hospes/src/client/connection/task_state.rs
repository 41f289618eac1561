//! State of the tasks that the server runs for one connection.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::task::AbortHandle;

use crate::client::connection::parked_calls::ParkedCall;
use crate::client::connection::settings::MAX_PARKED_CALLS;
use crate::client::error::CallError;
use crate::client::link::NegotiatedProtocol;

/// State of the server's tasks.
#[derive(Debug, Default)]
pub(crate) struct ServerTaskState {
    pub(crate) protocol: OnceLock<NegotiatedProtocol>,
    /// Result fetches at an older server, for forwarded calls.
    pub(crate) fetching: TaskResultFetches,
}

/// The calls that fetch results and have questions, by their tasks.
#[derive(Debug, Default)]
pub(crate) struct TaskResultFetches(Mutex<HashMap<String, Arc<TaskResultFetch>>>);

/// The call that fetches one task's result.
#[derive(Debug, Default)]
pub(crate) struct TaskResultFetch {
    /// Locked during a poll. With two concurrent polls, a question asked on one call would be answered on the other.
    pub(crate) call: tokio::sync::Mutex<Option<ParkedCall>>,
    /// Number of finished polls.
    pub(crate) looks: AtomicU64,
    pub(crate) timer: Mutex<Option<AbortHandle>>,
}

impl TaskResultFetches {
    pub(crate) fn find(&self, id: &str) -> Option<Arc<TaskResultFetch>> {
        self.lock().get(id).cloned()
    }

    /// Returns the entry of this task, created if it does not exist, and true if it was created.
    pub(crate) fn get_or_insert(&self, id: &str) -> Result<(Arc<TaskResultFetch>, bool), CallError> {
        let mut all = self.lock();
        if let Some(fetch) = all.get(id) {
            return Ok((Arc::clone(fetch), false));
        }
        if all.len() >= MAX_PARKED_CALLS {
            let what = "tasks with questions";
            return Err(CallError::TooMany { what, max: MAX_PARKED_CALLS, setting: "MAX_PARKED_CALLS" });
        }
        let fetch = Arc::<TaskResultFetch>::default();
        all.insert(id.to_owned(), Arc::clone(&fetch));
        Ok((fetch, true))
    }

    /// Removes the entry of a task. Its open questions are refused once no poll uses it.
    pub(crate) fn remove(&self, id: &str) {
        // Dropped once the lock is let go.
        let _gone = self.lock().remove(id);
    }

    /// Removes the entry of a task unless another one has replaced it.
    pub(crate) fn remove_if_same(&self, id: &str, fetch: &Arc<TaskResultFetch>) {
        let mut all = self.lock();
        let gone = all.get(id).is_some_and(|other| Arc::ptr_eq(other, fetch)).then(|| all.remove(id));
        // Released first: dropping the fetch refuses its open questions, which writes to the connection.
        drop(all);
        drop(gone);
    }

    pub(crate) fn contains(&self, id: &str, fetch: &Arc<TaskResultFetch>) -> bool {
        self.lock().get(id).is_some_and(|other| Arc::ptr_eq(other, fetch))
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<TaskResultFetch>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TaskResultFetch {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.get_mut().unwrap_or_else(PoisonError::into_inner) {
            timer.abort();
        }
    }
}
