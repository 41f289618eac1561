//! Task support of an older server's tools, from its list of tools (TASK-04).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hospes_model::{ListToolsResult, Notification, TaskSupport};

/// Maximum number of tools whose task support is remembered.
const MAX_REMEMBERED_TOOLS: usize = 10_000;

/// Task support of a server's tools.
#[derive(Debug, Default)]
pub(crate) struct TaskSupportCache {
    known: Mutex<TaskSupportState>,
    /// Held during a listing; other callers wait for it.
    pub(crate) listing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct TaskSupportState {
    support: HashMap<Box<str>, TaskSupport>,
    /// True if the whole list has been read since the last change.
    is_whole: bool,
    /// Number of changes.
    changes: u64,
}

impl TaskSupportCache {
    /// Stores the task support from a list, or a page of it, unless the tools have changed since the request.
    pub(crate) fn record(&self, list: &ListToolsResult, is_current: impl Fn() -> bool) {
        let support = &mut self.lock().support;
        // Asked under the lock: what changes now waits to take out what is learned here.
        if !is_current() {
            return;
        }
        for tool in &list.tools {
            let says = tool.execution.as_ref().and_then(|execution| execution.task_support.clone());
            if support.len() < MAX_REMEMBERED_TOOLS || support.contains_key(tool.name.as_str()) {
                // A tool that says nothing is not run as a task (TASK-03).
                support.insert(tool.name.as_str().into(), says.unwrap_or(TaskSupport::Forbidden));
            }
        }
    }

    /// Returns the task support of a tool, if it is known.
    pub(crate) fn find(&self, tool: &str) -> Option<TaskSupport> {
        self.lock().support.get(tool).cloned()
    }

    /// Discards the stored support after a change of the tools.
    pub(crate) fn invalidate(&self, change: &Notification) {
        if *change == Notification::ToolsListChanged {
            let mut known = self.lock();
            *known = TaskSupportState { changes: known.changes + 1, ..TaskSupportState::default() };
        }
    }

    /// Returns the number of changes to the list of tools.
    pub(crate) fn change_count(&self) -> u64 {
        self.lock().changes
    }

    /// Returns true if the whole list has been read since the last change.
    pub(crate) fn is_whole(&self) -> bool {
        self.lock().is_whole
    }

    /// Records that the whole list has been read, unless it has changed since `before`.
    pub(crate) fn set_whole_if_unchanged(&self, before: u64) {
        let mut known = self.lock();
        known.is_whole = known.changes == before;
    }

    fn lock(&self) -> MutexGuard<'_, TaskSupportState> {
        // Consistent after every statement that can panic.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
