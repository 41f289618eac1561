//! Owners and origins of tasks, because servers behind the gateway cannot distinguish its applications.
//!
//! If the host has a state database, owners are stored there as well, without the arguments of the calls. A task can
//! therefore outlive the host process while its server continues it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hospes::Context;
use hospes_model::{Task, TaskStatus};
use parking_lot::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};

use crate::guard::{StoredTaskOrigin, TaskOrigin};

/// Maximum number of tasks whose owners are remembered. Beyond it the oldest are removed, and their tasks can no longer
/// be queried.
const MAX_OWNED: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct TaskOwners(Mutex<OwnedTasks>);

#[derive(Debug, Default)]
struct OwnedTasks {
    tasks: HashMap<String, OwnedTask>,
    order: VecDeque<String>,
}

#[derive(Debug)]
struct OwnedTask {
    owner: Option<Arc<str>>,
    /// The call that began the task; set if calls are judged or recorded.
    origin: Option<Arc<TaskOrigin>>,
    /// Time of creation, in ISO 8601, as its server wrote it. `None` for tasks of former versions.
    created_at: Option<String>,
    /// Task status at the time of the last record.
    recorded: Option<TaskStatus>,
    is_ended: bool,
}

/// Stored owner and origin of a task.
#[derive(Debug, Serialize, Deserialize)]
struct StoredTaskOwner {
    /// The hash of its server's command line or URL: another server of that name has other tasks.
    target: String,
    owner: Option<String>,
    origin: Option<StoredTaskOrigin>,
    #[serde(default)]
    created_at: Option<String>,
}

impl TaskOwners {
    pub(super) fn note(&self, task: &Task, context: &Context, origin: Option<TaskOrigin>) {
        let owner = context.peer().principal.clone();
        // `allows` treats a task without an entry in the same way, so no room is taken.
        if owner.is_none() && origin.is_none() {
            return;
        }
        let created_at = Some(task.created_at.clone());
        let origin = origin.map(Arc::new);
        self.enter(&task.task_id, OwnedTask { owner, origin, created_at, recorded: None, is_ended: false });
    }

    fn enter(&self, id: &str, begun: OwnedTask) {
        let mut owned = self.owned();
        if owned.order.len() >= MAX_OWNED
            && let Some(oldest) = owned.order.pop_front()
        {
            owned.tasks.remove(&oldest);
        }
        owned.order.push_back(id.to_owned());
        owned.tasks.insert(id.to_owned(), begun);
    }

    pub(super) fn knows(&self, id: &str) -> bool {
        self.owned().tasks.contains_key(id)
    }

    /// Returns the text to store for a task at the server with this target. Returns `None` if the task is unknown.
    pub(super) fn kept(&self, id: &str, target: &str) -> Option<String> {
        let owned = self.owned();
        let begun = owned.tasks.get(id)?;
        let origin = begun.origin.as_deref().map(StoredTaskOrigin::from);
        let kept = StoredTaskOwner {
            target: target.to_owned(),
            owner: begun.owner.as_deref().map(str::to_owned),
            origin,
            created_at: begun.created_at.clone(),
        };
        serde_json::to_string(&kept).ok()
    }

    /// Restores a stored task if it belongs to the server with this target.
    pub(super) fn recall(&self, id: &str, target: &str, kept: &str) {
        let Ok(kept) = serde_json::from_str::<StoredTaskOwner>(kept) else { return };
        if kept.target == target && !self.knows(id) {
            let (owner, created_at) = (kept.owner.map(Arc::from), kept.created_at);
            let origin = kept.origin.map(TaskOrigin::from).map(Arc::new);
            self.enter(id, OwnedTask { owner, origin, created_at, recorded: None, is_ended: false });
        }
    }

    /// Returns true if the caller may access the task. A task without an owner is available to callers that are not
    /// signed in.
    pub(super) fn allows(&self, id: &str, context: &Context) -> bool {
        let owned = self.owned();
        owned.tasks.get(id).and_then(|begun| begun.owner.as_deref()) == context.principal()
    }

    /// Returns the call that started a task, if known.
    pub(super) fn origin(&self, id: &str) -> Option<Arc<TaskOrigin>> {
        self.owned().tasks.get(id)?.origin.clone()
    }

    /// Returns the time at which a task was created, if known.
    pub(super) fn created_at(&self, id: &str) -> Option<String> {
        self.owned().tasks.get(id)?.created_at.clone()
    }

    /// Returns true if this status has to be recorded. Each status is recorded once, not on every request.
    pub(super) fn is_news(&self, id: &str, status: &TaskStatus) -> bool {
        let is_news = status.is_terminal() || *status == TaskStatus::InputRequired;
        let mut owned = self.owned();
        let Some(begun) = owned.tasks.get_mut(id) else { return is_news };
        let before = begun.recorded.replace(status.clone());
        is_news && before.as_ref() != Some(status)
    }

    /// Marks a task as ended by the host. Returns true if it was not before.
    pub(super) fn end(&self, id: &str) -> bool {
        let mut owned = self.owned();
        owned.tasks.get_mut(id).is_none_or(|begun| !std::mem::replace(&mut begun.is_ended, true))
    }

    fn owned(&self) -> MutexGuard<'_, OwnedTasks> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use hospes::Peer;
    use hospes_model::{ClientCapabilities, Revision};

    use super::*;

    #[test]
    fn what_is_kept_of_a_task_is_of_its_server_alone() {
        let peer = Peer::new(Revision::LATEST, None, ClientCapabilities::new()).with_principal("ann");
        let context = Context::new(Arc::new(peer));
        let before = TaskOwners::default();
        before.note(&Task::new("jobs__1", "2026-11-01T00:00:00Z"), &context, None);
        let kept = before.kept("jobs__1", "t1").unwrap();
        assert_eq!(before.kept("jobs__2", "t1"), None);
        let after = TaskOwners::default();
        assert!(!after.allows("jobs__1", &context));
        // Another command line or URL has taken the name.
        after.recall("jobs__1", "t2", &kept);
        after.recall("jobs__1", "t1", "nonsense");
        assert!(!after.knows("jobs__1"));
        after.recall("jobs__1", "t1", &kept);
        assert!(after.knows("jobs__1") && after.allows("jobs__1", &context));
        assert_eq!(after.created_at("jobs__1").as_deref(), Some("2026-11-01T00:00:00Z"));
        assert!(!after.allows(
            "jobs__1",
            &Context::new(Arc::new(Peer::new(Revision::LATEST, None, ClientCapabilities::new())))
        ));
    }
}
