//! The seam to whatever keeps tasks.

use futures::future::BoxFuture;

use super::record::TaskRecord;

/// Storage of tasks: memory, a database.
///
/// A store only keeps; the rules of what a task may become, and who may see it, are ours. Several processes may share
/// one store: a task runs where it was made, and everywhere it can be asked for, answered and cancelled.
pub trait TaskStore: Send + Sync + 'static {
    /// Keeps a new task. Once this is done, [`TaskStore::get`] must find it, everywhere (TSKX-06).
    fn create(&self, record: TaskRecord) -> BoxFuture<'_, Result<(), TaskStoreError>>;

    /// The task of this id.
    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<TaskRecord>, TaskStoreError>>;

    /// Puts a task in the place of its last version, which is the one before: false when that is no longer so, or the
    /// task is gone.
    fn update(&self, record: TaskRecord) -> BoxFuture<'_, Result<bool, TaskStoreError>>;

    /// At most `most` tasks of this owner, the oldest first, behind the place `after`.
    fn list<'a>(
        &'a self,
        owner: Option<&'a str>,
        after: Option<TaskPosition>,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<TaskRecord>, TaskStoreError>>;

    /// Forgets every task whose time is over at `now` (in milliseconds since 1970), and says which those were and when
    /// the next one is due.
    fn expire(&self, now: u64) -> BoxFuture<'_, Result<ExpiredTasks, TaskStoreError>>;
}

/// A place in the list of an owner's tasks: they are ordered by when they were made, then by id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct TaskPosition {
    /// Time at which the task was created, in milliseconds since 1970.
    pub created_ms: u64,
    /// Its id.
    pub id: String,
}

impl TaskPosition {
    /// The place of a task.
    pub fn new(created_ms: u64, id: impl Into<String>) -> Self {
        Self { created_ms, id: id.into() }
    }
}

/// Result of [`TaskStore::expire`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpiredTasks {
    /// The tasks that are gone.
    pub ids: Vec<String>,
    /// Time at which the next one is due, in milliseconds since 1970; none if none ever is.
    pub next_ms: Option<u64>,
}

impl ExpiredTasks {
    /// These are gone, and the next one is due then.
    #[must_use]
    pub fn new(ids: Vec<String>, next_ms: Option<u64>) -> Self {
        Self { ids, next_ms }
    }
}

/// Error of a task store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskStoreError {
    /// It is full; the text names the limit and its setting.
    #[error("{0}")]
    Full(String),
    /// It could not be reached, or is broken.
    #[error("the task store failed")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}
