//! Tasks: work that outlives its request. An extension in 2026-07-28, experimental core in 2025-11-25.

use serde::{Deserialize, Serialize};

use crate::types::lenient::{self, or_default};
use crate::{InputRequests, InputResponses, Meta, RawJson, RpcError};

/// Request to run as a task (2025-11-25 only).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TaskMetadata {
    /// Time to keep the task, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u64>,
}

impl TaskMetadata {
    /// Creates an empty `TaskMetadata`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(TaskMetadata {
    some with_ttl(ttl: u64);
});

/// The task that a message belongs to (2025-11-25 only; in `_meta`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RelatedTask {
    /// Id of the task.
    pub task_id: String,
}

impl RelatedTask {
    /// Creates a `RelatedTask` with the required members; all others are absent.
    pub fn new(task_id: impl Into<String>) -> Self {
        Self { task_id: task_id.into() }
    }
}

open_enum! {
    /// Status of a task.
    TaskStatus {
        /// The task is running.
        Working = "working",
        /// The task waits for responses to input requests.
        InputRequired = "input_required",
        /// The task is completed.
        Completed = "completed",
        /// The task failed.
        Failed = "failed",
        /// The task was cancelled.
        Cancelled = "cancelled",
    }
}

impl TaskStatus {
    /// Returns true if the status is final.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Task {
    /// Id, chosen by the receiver of the request.
    pub task_id: String,
    /// Status of the task.
    pub status: TaskStatus,
    /// Additional description of the status, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// Time of creation, in ISO 8601.
    pub created_at: String,
    /// Time of the last change, in ISO 8601.
    pub last_updated_at: String,
    /// Time for which the task is kept after its creation, in milliseconds. `None` means no limit.
    #[serde(default, deserialize_with = "lenient::millis")]
    pub ttl_ms: Option<u64>,
    /// Recommended time between polls, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::millis")]
    pub poll_interval_ms: Option<u64>,
}

impl Task {
    /// Creates a running task.
    pub fn new(task_id: impl Into<String>, created_at: impl Into<String>) -> Self {
        let created_at = created_at.into();
        Self {
            task_id: task_id.into(),
            status: TaskStatus::Working,
            status_message: None,
            last_updated_at: created_at.clone(),
            created_at,
            ttl_ms: None,
            poll_interval_ms: None,
        }
    }
}

setters!(Task {
    set with_status(status: TaskStatus);
    some with_status_message(status_message: String);
    set with_last_updated_at(last_updated_at: String);
    some with_ttl_ms(ttl_ms: u64);
    some with_poll_interval_ms(poll_interval_ms: u64);
});

/// Result of a request that became a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateTaskResult {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// The created task.
    #[serde(flatten)]
    pub task: Task,
}

impl CreateTaskResult {
    /// Creates the result for a task.
    #[must_use]
    pub fn new(task: Task) -> Self {
        Self { meta: Meta::new(), task }
    }
}

setters!(CreateTaskResult {
    set with_meta(meta: Meta);
});

/// Params with a task id (tasks/get, tasks/cancel, tasks/result).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TaskParams {
    /// Id of the task.
    pub task_id: String,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl TaskParams {
    /// Creates a `TaskParams` with the required members; all others are absent.
    pub fn new(task_id: impl Into<String>) -> Self {
        Self { task_id: task_id.into(), meta: Meta::new() }
    }
}

setters!(TaskParams {
    set with_meta(meta: Meta);
});

/// State of a task with its result or error (tasks/get; the params of `notifications/tasks`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct GetTaskResult {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// Input requests that the task waits for (2026-07-28).
    #[serde(default, skip_serializing_if = "InputRequests::is_empty", deserialize_with = "or_default")]
    pub input_requests: InputRequests,
    /// Result of the request, if the task is completed (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RawJson>,
    /// Error, if the task failed (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RpcError>,
    /// The task.
    #[serde(flatten)]
    pub task: Task,
}

impl GetTaskResult {
    /// Creates the state of a task without result, error or input requests.
    #[must_use]
    pub fn new(task: Task) -> Self {
        Self { meta: Meta::new(), input_requests: InputRequests::new(), result: None, error: None, task }
    }
}

impl GetTaskResult {
    /// Returns the task with its status in 2025-11-25, where a task whose tool failed has failed (TASK-23).
    #[must_use]
    pub fn to_legacy(&self) -> Task {
        crate::revision::v2025_11_25::WireTask::from(self).into()
    }
}

setters!(GetTaskResult {
    set with_input_requests(input_requests: InputRequests);
    some with_result(result: RawJson);
    some with_error(error: RpcError);
    set with_meta(meta: Meta);
});

/// Params of `tasks/update`: responses to a task's input requests (2026-07-28).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpdateTaskParams {
    /// Id of the task.
    pub task_id: String,
    /// Responses by the key of their input request.
    pub input_responses: InputResponses,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl UpdateTaskParams {
    /// Creates an `UpdateTaskParams` with the required members; all others are absent.
    pub fn new(task_id: impl Into<String>, input_responses: InputResponses) -> Self {
        Self { task_id: task_id.into(), input_responses, meta: Meta::new() }
    }
}

setters!(UpdateTaskParams {
    set with_meta(meta: Meta);
});

/// Result of `tasks/list`: one page of tasks (2025-11-25 only).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListTasksResult {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// Tasks of this page.
    pub tasks: Vec<Task>,
    /// Cursor of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl ListTasksResult {
    /// Creates a `ListTasksResult` with the required members; all others are absent.
    #[must_use]
    pub fn new(tasks: Vec<Task>) -> Self {
        Self { tasks, meta: Meta::new(), next_cursor: None }
    }
}

setters!(ListTasksResult {
    set with_meta(meta: Meta);
    some with_next_cursor(next_cursor: String);
});
