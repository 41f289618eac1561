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
mod settings;
mod store;
#[cfg(test)]
mod tests;

use hospes_model::{ClientCapabilities, RawJson, RpcError, TASKS_EXTENSION, TaskMetadata};

pub use memory::{DEFAULT_MAX_BYTES, DEFAULT_MAX_TASKS, DEFAULT_MAX_TASKS_PER_OWNER, MemoryTasks};
pub use record::TaskRecord;
pub use settings::{
    DEFAULT_MAX_REQUESTS_PER_SECOND, DEFAULT_MAX_TTL, DEFAULT_POLL_INTERVAL, DEFAULT_TTL, TaskSettings,
};
pub use store::{ExpiredTasks, TaskPosition, TaskStore, TaskStoreError};

#[cfg(feature = "server")]
pub(crate) use live_task::{LiveTask, TaskEvent};
#[cfg(feature = "server")]
pub(crate) use manager::TaskManager;
pub(crate) use manager::TaskManagerHandle;

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
