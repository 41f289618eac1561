//! The state of the tasks of a legacy session: those followed, cancelled, and asking.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hospes_model::Notification;

/// Maximum number of tasks of a session whose changes are sent; the oldest are left out.
const MAX_FOLLOWED: usize = 256;
/// Maximum number of cancelled tasks that a session remembers, in case their work continues.
const MAX_CANCELLED: usize = 256;

/// Tasks of a session.
#[derive(Debug, Default)]
pub(super) struct SessionTasks(Mutex<SessionTasksState>);

#[derive(Debug, Default)]
struct SessionTasksState {
    followed: VecDeque<String>,
    cancelled: VecDeque<String>,
    /// Questions of tasks that the client is being asked.
    asking: HashSet<(String, String)>,
}

impl SessionTasks {
    /// Returns the ids of the tasks whose changes are sent.
    pub(super) fn followed(&self) -> Vec<String> {
        self.lock().followed.iter().cloned().collect()
    }

    pub(super) fn follow(&self, id: &str) {
        let mut state = self.lock();
        if state.followed.len() >= MAX_FOLLOWED {
            state.followed.pop_front();
        }
        state.followed.push_back(id.to_owned());
    }

    /// A change has been told; of a task that is over there will be no more.
    pub(super) fn record_status(&self, notification: &Notification) {
        if let Notification::TasksChanged(changed) = notification
            && changed.task.status.is_terminal()
        {
            self.lock().followed.retain(|id| *id != changed.task.task_id);
        }
    }

    pub(super) fn cancel(&self, id: &str) {
        let mut state = self.lock();
        if state.cancelled.len() >= MAX_CANCELLED {
            state.cancelled.pop_front();
        }
        state.cancelled.push_back(id.to_owned());
    }

    pub(super) fn is_cancelled(&self, id: &str) -> bool {
        self.lock().cancelled.iter().any(|cancelled| cancelled == id)
    }

    /// Claims a question of a task for one call; returns false if another has it.
    pub(super) fn claim(&self, id: &str, key: &str) -> bool {
        self.lock().asking.insert((id.to_owned(), key.to_owned()))
    }

    /// Returns a question that was claimed.
    pub(super) fn release(&self, question: &(String, String)) {
        self.lock().asking.remove(question);
    }

    fn lock(&self) -> MutexGuard<'_, SessionTasksState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
