//! Tasks: calls that outlive their requests.
//!
//! A tool that takes long says so when it is registered ([`Tool::task`](crate::server::Tool::task), `#[tool(task)]`).
//! Its call is then answered with a task at once, and the caller polls. All of it is written in the terms of the
//! newest revision, where tasks are an extension: `tasks/get` has the status and the result in it, questions wait
//! there too and are answered by `tasks/update`. For peers of 2025-11-25, whose tasks are another dialect, the
//! adapter translates; to clients of older revisions the call is answered when it is done.
//!
//! Tasks are kept by a [`TaskStore`]: in memory ([`MemoryTasks`]) unless the server is given another. The signed-in
//! creator of a task is its owner and has sole access to it. Without sign-in, its id grants access. The id cannot be
//! guessed, but use short lifetimes there.
//!
//! A task outlives the connection on which it was made, for its caller may come back. What runs for it ends when it is
//! cancelled, when its time is over, or when the [`Server`](crate::Server) and all its clones are gone.

mod clock;
mod live_task;
mod manager;
mod memory;
mod record;
mod store;
#[cfg(test)]
mod tests;

use std::time::Duration;

use hospes_model::{ClientCapabilities, RawJson, RpcError, TASKS_EXTENSION, TaskMetadata};

pub use memory::{DEFAULT_MAX_BYTES, DEFAULT_MAX_TASKS, DEFAULT_MAX_TASKS_PER_OWNER, MemoryTasks};
pub use record::TaskRecord;
pub use store::{ExpiredTasks, TaskPosition, TaskStore, TaskStoreError};

#[cfg(feature = "server")]
pub(crate) use live_task::{LiveTask, TaskEvent};
#[cfg(feature = "server")]
pub(crate) use manager::TaskManager;
pub(crate) use manager::TaskManagerHandle;

/// Default lifetime of a task from its creation, unless its caller asks for another.
pub const DEFAULT_TTL: Duration = Duration::from_secs(60 * 60);
/// The longest that a task is kept, whatever its caller asks for, unless the settings say otherwise.
pub const DEFAULT_MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// Default interval between two polls that callers are told.
pub const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Default maximum number of requests a second that one task answers. For tasks that do not exist, the maximum over all
/// of them.
pub const DEFAULT_MAX_REQUESTS_PER_SECOND: u32 = 100;

/// Lifetimes and limits of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskSettings {
    /// Lifetime of a task from its creation, unless its caller asks for another.
    pub ttl: Duration,
    /// The longest that a task is kept, whatever its caller asks for. Then it ends, even if it still runs.
    pub max_ttl: Duration,
    /// Interval between two polls that callers are told.
    pub poll_interval: Duration,
    /// Maximum number of requests a second that one task answers.
    pub max_requests_per_second: u32,
}

impl Default for TaskSettings {
    fn default() -> Self {
        Self {
            ttl: DEFAULT_TTL,
            max_ttl: DEFAULT_MAX_TTL,
            poll_interval: DEFAULT_POLL_INTERVAL,
            max_requests_per_second: DEFAULT_MAX_REQUESTS_PER_SECOND,
        }
    }
}

impl TaskSettings {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the lifetime of a task from its creation, unless its caller asks for another.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// The longest that a task is kept, whatever its caller asks for.
    #[must_use]
    pub fn with_max_ttl(mut self, ttl: Duration) -> Self {
        self.max_ttl = ttl;
        self
    }

    /// Sets the interval between two polls that callers are told.
    #[must_use]
    pub fn with_poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    /// Sets the maximum number of requests a second that one task answers.
    #[must_use]
    pub fn with_max_requests_per_second(mut self, requests: u32) -> Self {
        self.max_requests_per_second = requests;
        self
    }
}

/// Preference of a caller for or against a task, for one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "each is answered in its own way")]
pub enum TaskPreference {
    /// It wants the result and no task.
    #[default]
    None,
    /// It takes either (2026-07-28, a client that declares the extension).
    Open,
    /// It wants a task (2025-11-25).
    Asked(TaskMetadata),
}

impl TaskPreference {
    /// The lifetime asked for, in milliseconds.
    pub(crate) fn ttl(&self) -> Option<u64> {
        match self {
            Self::Asked(metadata) => metadata.ttl,
            Self::None | Self::Open => None,
        }
    }
}

/// The error for a client that has not declared the extension (TSKX-04, TSKX-15); for services that have tasks.
#[must_use]
pub fn tasks_not_declared() -> RpcError {
    let mut required = ClientCapabilities::new();
    required.extensions.insert(TASKS_EXTENSION.to_owned(), RawJson::empty_object());
    RpcError::missing_client_capability(&required)
}

/// Returns true if the error is that of [`tasks_not_declared`].
pub(crate) fn is_tasks_not_declared(error: &RpcError) -> bool {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct RequiredCapabilitiesPeek {
        required_capabilities: ClientCapabilities,
    }
    let data = error.data.as_ref().and_then(|data| data.decode::<RequiredCapabilitiesPeek>().ok());
    error.code == hospes_model::code::MISSING_CLIENT_CAPABILITY
        && data.is_some_and(|data| data.required_capabilities.has_extension(TASKS_EXTENSION))
}
