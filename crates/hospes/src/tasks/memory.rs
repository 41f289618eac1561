//! Tasks kept in memory.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, ready};

use super::record::TaskRecord;
use super::store::{ExpiredTasks, TaskPosition, TaskStore, TaskStoreError};

/// Default maximum number of tasks.
pub const DEFAULT_MAX_TASKS: usize = 10_000;
/// Default maximum number of tasks of one owner. All callers that are not signed in are one owner.
pub const DEFAULT_MAX_TASKS_PER_OWNER: usize = 1_000;
/// Default maximum size of running requests, answers and results, in bytes.
pub const DEFAULT_MAX_BYTES: usize = 256 * 1024 * 1024;

/// Tasks in memory: bounded, and gone with the process.
#[derive(Debug)]
pub struct MemoryTasks {
    max_tasks: usize,
    max_tasks_per_owner: usize,
    max_bytes: usize,
    state: Mutex<MemoryTasksState>,
}

#[derive(Debug, Default)]
struct MemoryTasksState {
    tasks: HashMap<String, TaskRecord>,
    owners: HashMap<Option<String>, BTreeSet<TaskPosition>>,
    due: BTreeSet<(u64, String)>,
    bytes: usize,
}

impl Default for MemoryTasks {
    fn default() -> Self {
        Self {
            max_tasks: DEFAULT_MAX_TASKS,
            max_tasks_per_owner: DEFAULT_MAX_TASKS_PER_OWNER,
            max_bytes: DEFAULT_MAX_BYTES,
            state: Mutex::default(),
        }
    }
}

impl MemoryTasks {
    /// With the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of tasks.
    #[must_use]
    pub fn max_tasks(mut self, tasks: usize) -> Self {
        self.max_tasks = tasks;
        self
    }

    /// Sets the maximum number of tasks of one owner.
    #[must_use]
    pub fn max_tasks_per_owner(mut self, tasks: usize) -> Self {
        self.max_tasks_per_owner = tasks;
        self
    }

    /// Sets the maximum size of running requests, answers and results, in bytes.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    fn lock(&self) -> MutexGuard<'_, MemoryTasksState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(&self, record: TaskRecord) -> Result<(), TaskStoreError> {
        let mut state = self.lock();
        let full = |what: &str, max: usize, setting: &str| {
            Err(TaskStoreError::Full(format!("too many tasks: {what} {max} (setting {setting})")))
        };
        if state.tasks.len() >= self.max_tasks {
            return full("the limit is", self.max_tasks, "max_tasks");
        }
        let own = state.owners.get(&record.owner).map_or(0, BTreeSet::len);
        if own >= self.max_tasks_per_owner {
            return full("the limit for each caller is", self.max_tasks_per_owner, "max_tasks_per_owner");
        }
        let bytes = state.bytes.saturating_add(record.weight());
        if bytes > self.max_bytes {
            return Err(self.over_byte_limit());
        }
        let id = record.task.task_id.clone();
        let place = TaskPosition::new(record.created_ms, id.clone());
        state.owners.entry(record.owner.clone()).or_default().insert(place);
        if let Some(due) = record.expires_ms {
            state.due.insert((due, id.clone()));
        }
        state.bytes = bytes;
        state.tasks.insert(id, record);
        Ok(())
    }

    fn over_byte_limit(&self) -> TaskStoreError {
        let max = self.max_bytes;
        TaskStoreError::Full(format!("more than {max} bytes of tasks at once (setting max_bytes)"))
    }

    fn replace(&self, record: TaskRecord) -> Result<bool, TaskStoreError> {
        let mut state = self.lock();
        let state = &mut *state;
        let Some(old) = state.tasks.get_mut(&record.task.task_id) else { return Ok(false) };
        // Another change came first; the manager tries again with that version.
        if old.version + 1 != record.version {
            return Ok(false);
        }
        let (before, after) = (old.weight(), record.weight());
        let bytes = state.bytes - before + after;
        // A record that shrinks is always taken, even over the limit, because it makes room.
        if after > before && bytes > self.max_bytes {
            return Err(self.over_byte_limit());
        }
        if old.expires_ms != record.expires_ms {
            old.expires_ms.map(|due| state.due.remove(&(due, record.task.task_id.clone())));
            record.expires_ms.map(|due| state.due.insert((due, record.task.task_id.clone())));
        }
        state.bytes = bytes;
        *old = record;
        Ok(true)
    }

    fn page(&self, owner: Option<&str>, after: Option<TaskPosition>, most: usize) -> Vec<TaskRecord> {
        let state = self.lock();
        let Some(own) = state.owners.get(&owner.map(str::to_owned)) else { return Vec::new() };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let places = own.range((from, Bound::Unbounded)).take(most);
        places.filter_map(|place| state.tasks.get(&place.id).cloned()).collect()
    }

    fn forget(&self, now: u64) -> ExpiredTasks {
        let mut state = self.lock();
        let mut ids = Vec::new();
        while let Some((due, _)) = state.due.first()
            && *due <= now
            && let Some((_, id)) = state.due.pop_first()
        {
            let Some(record) = state.tasks.remove(&id) else { continue };
            state.bytes -= record.weight();
            let place = TaskPosition::new(record.created_ms, id.clone());
            if let Some(own) = state.owners.get_mut(&record.owner) {
                own.remove(&place);
                if own.is_empty() {
                    state.owners.remove(&record.owner);
                }
            }
            ids.push(id);
        }
        ExpiredTasks::new(ids, state.due.first().map(|(due, _)| *due))
    }
}

impl TaskStore for MemoryTasks {
    fn create(&self, record: TaskRecord) -> BoxFuture<'_, Result<(), TaskStoreError>> {
        Box::pin(ready(self.insert(record)))
    }

    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<TaskRecord>, TaskStoreError>> {
        Box::pin(ready(Ok(self.lock().tasks.get(id).cloned())))
    }

    fn update(&self, record: TaskRecord) -> BoxFuture<'_, Result<bool, TaskStoreError>> {
        Box::pin(ready(self.replace(record)))
    }

    fn list<'a>(
        &'a self,
        owner: Option<&'a str>,
        after: Option<TaskPosition>,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<TaskRecord>, TaskStoreError>> {
        Box::pin(ready(Ok(self.page(owner, after, most))))
    }

    fn expire(&self, now: u64) -> BoxFuture<'_, Result<ExpiredTasks, TaskStoreError>> {
        Box::pin(ready(Ok(self.forget(now))))
    }
}
