//! The task manager of a server.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::tasks::{MemoryTasks, TaskManager, TaskManagerHandle, TaskSettings, TaskStore};

/// Task manager of a server, created with the first task.
#[derive(Clone, Default)]
pub(crate) struct LazyTaskManager {
    settings: TaskSettings,
    store: Option<Arc<dyn TaskStore>>,
    tasks: Arc<OnceLock<TaskManagerHandle>>,
}

impl LazyTaskManager {
    pub(crate) fn with_settings(self, settings: TaskSettings) -> Self {
        Self { settings, store: self.store, tasks: Arc::default() }
    }

    pub(crate) fn with_store(self, store: Arc<dyn TaskStore>) -> Self {
        Self { settings: self.settings, store: Some(store), tasks: Arc::default() }
    }

    /// Creates a manager without tasks, for calls that run as a task: they have no tasks of their own and do not keep
    /// the server's alive.
    pub(super) fn disabled() -> Self {
        Self::default()
    }

    /// Returns true if the manager has been created.
    pub(super) fn is_created(&self) -> bool {
        self.tasks.get().is_some()
    }

    /// Returns the manager, which the first call creates.
    pub(super) fn get(&self) -> &Arc<TaskManager> {
        self.tasks.get_or_init(|| {
            let store = self.store.clone().unwrap_or_else(|| Arc::new(MemoryTasks::new()));
            TaskManagerHandle::new(self.settings, store)
        })
    }
}

impl fmt::Debug for LazyTaskManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyTaskManager").field("settings", &self.settings).finish_non_exhaustive()
    }
}
