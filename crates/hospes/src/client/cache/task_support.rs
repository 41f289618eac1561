//! Task support of an older server's tools, from its list of tools (TASK-04).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hospes_model::{ListToolsResult, Notification, TaskSupport};

use crate::client::error::CallError;
use crate::client::handle::Client;

/// Maximum number of tools whose task support is remembered.
const MAX_REMEMBERED_TOOLS: usize = 10_000;
/// Maximum number of consecutive listings while the list keeps changing.
const MAX_LIST_ATTEMPTS: usize = 3;

/// Task support of a server's tools.
#[derive(Debug, Default)]
pub(crate) struct TaskSupportCache {
    known: Mutex<TaskSupportState>,
    /// Held during a listing; other callers wait for it.
    listing: tokio::sync::Mutex<()>,
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
    /// Remembers what a list, or a page of it, says, unless the tools have changed since it was asked for.
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

    /// The tools have changed: what was said of them may be so no more.
    pub(crate) fn invalidate(&self, change: &Notification) {
        if *change == Notification::ToolsListChanged {
            let mut known = self.lock();
            *known = TaskSupportState { changes: known.changes + 1, ..TaskSupportState::default() };
        }
    }

    /// Has the whole list asked for, which teaches us what comes; once, until it changes.
    pub(crate) async fn load_all(&self, client: &Client) -> Result<(), CallError> {
        let _turn = self.listing.lock().await;
        for _ in 0..MAX_LIST_ATTEMPTS {
            // Read before the listing, so that a change during it is noticed and the list read again.
            let before = self.lock().changes;
            if self.lock().is_whole {
                break;
            }
            client.tools().all().await?;
            let mut known = self.lock();
            known.is_whole = known.changes == before;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, TaskSupportState> {
        // Consistent after every statement that can panic.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
