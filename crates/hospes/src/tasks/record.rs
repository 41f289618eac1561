//! Stored record of a task, and its transitions.
//!
//! ```text
//!              ask                      finish, cancel
//!   working ─────────► input_required ─────────────────► completed, failed, cancelled
//!      ▲                     │                                        ▲
//!      └─────────────────────┘ the last answer                        │
//!      └──────────────────────────────────────────────────────────────┘ finish, cancel
//! ```
//!
//! What has ended never changes again (TASK-11).

use hospes_model::{GetTaskResult, InputRequests, InputResponses, RawJson, RpcError, Task, TaskStatus};
use serde::{Deserialize, Serialize};

use super::clock::format_iso8601;

/// Stored record of a task. Stores keep it unchanged, and may write it as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskRecord {
    /// The task as its caller sees it.
    pub task: Task,
    /// Signed-in creator, who alone has access.
    #[serde(default)]
    pub owner: Option<String>,
    /// Method of the request that runs as the task.
    pub method: String,
    /// Time of creation, in milliseconds since 1970.
    pub created_ms: u64,
    /// Time at which it is forgotten, in milliseconds since 1970; none means never.
    #[serde(default)]
    pub expires_ms: Option<u64>,
    /// The questions that wait for answers.
    #[serde(default)]
    pub questions: InputRequests,
    /// The answers to questions that were asked before.
    #[serde(default)]
    pub answers: InputResponses,
    /// Result of the request.
    #[serde(default)]
    pub result: Option<RawJson>,
    /// Error of the request.
    #[serde(default)]
    pub error: Option<RpcError>,
    /// The bytes of the request, which are kept for as long as its work runs.
    #[serde(default)]
    pub request_bytes: usize,
    /// Grows by one with every change.
    pub version: u64,
}

impl TaskRecord {
    pub(super) fn new(
        id: String,
        owner: Option<String>,
        method: &str,
        now: u64,
        ttl_ms: u64,
        poll_interval_ms: u64,
        request_bytes: usize,
    ) -> Self {
        let task =
            Task::new(id, format_iso8601(now)).with_ttl_ms(ttl_ms).with_poll_interval_ms(poll_interval_ms);
        Self {
            task,
            owner,
            method: method.to_owned(),
            created_ms: now,
            expires_ms: Some(now.saturating_add(ttl_ms)),
            questions: InputRequests::new(),
            answers: InputResponses::new(),
            result: None,
            error: None,
            request_bytes,
            version: 1,
        }
    }

    /// The task with what it has come to, as `tasks/get` tells it.
    #[must_use]
    pub fn view(&self) -> GetTaskResult {
        let mut view = GetTaskResult::new(self.task.clone()).with_input_requests(self.questions.clone());
        view.result.clone_from(&self.result);
        view.error.clone_from(&self.error);
        view
    }

    /// The bytes of what it keeps for others, roughly: the request until it is over, answers, and what it comes to.
    #[must_use]
    pub fn weight(&self) -> usize {
        let request = if self.is_over() { 0 } else { self.request_bytes };
        let result = self.result.as_ref().map_or(0, |result| result.as_bytes().len());
        let answers: usize = self.answers.values().map(|answer| answer.as_bytes().len()).sum();
        let error = self.error.as_ref().and_then(|error| error.data.as_ref());
        request + result + answers + error.map_or(0, |data| data.as_bytes().len())
    }

    /// Returns true if the task has ended and will not change.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.task.status.is_terminal()
    }

    /// More questions. False when it is over.
    #[cfg(feature = "server")]
    pub(super) fn ask(&mut self, questions: InputRequests, now: u64) -> bool {
        if self.is_over() {
            return false;
        }
        self.questions.extend(questions);
        self.set_status(TaskStatus::InputRequired, now)
    }

    /// Takes the answers to pending questions, and no others (TSKX-12). Returns false if there were none.
    #[cfg(feature = "server")]
    pub(super) fn answer(&mut self, answers: InputResponses, now: u64) -> bool {
        if self.is_over() {
            return false;
        }
        let waiting = self.questions.len();
        for (key, answer) in answers {
            if self.questions.remove(&key).is_some() {
                // Detached, so that an answer does not keep the whole message in memory that it came in.
                self.answers.insert(key, answer.detached());
            }
        }
        if self.questions.len() == waiting {
            return false;
        }
        let status = match self.questions.is_empty() {
            true => TaskStatus::Working,
            false => TaskStatus::InputRequired,
        };
        self.set_status(status, now)
    }

    /// Records the result. Returns false if the task has ended.
    pub(super) fn finish(&mut self, outcome: Result<RawJson, RpcError>, now: u64) -> bool {
        if self.is_over() {
            return false;
        }
        let status = match outcome {
            Ok(result) => {
                self.task.status_message = None;
                self.result = Some(result);
                TaskStatus::Completed
            }
            Err(error) => {
                self.task.status_message = Some(error.message.to_string());
                self.error = Some(error);
                TaskStatus::Failed
            }
        };
        self.clear();
        self.set_status(status, now)
    }

    /// Cancels the task. Returns false if it has ended.
    pub(super) fn cancel(&mut self, why: &str, now: u64) -> bool {
        if self.is_over() {
            return false;
        }
        self.task.status_message = Some(why.to_owned());
        self.clear();
        self.set_status(TaskStatus::Cancelled, now)
    }

    /// A word on how it goes. False when it is over, or has said so.
    #[cfg(feature = "server")]
    pub(super) fn set_status_message(&mut self, message: &str, now: u64) -> bool {
        if self.is_over() || self.task.status_message.as_deref() == Some(message) {
            return false;
        }
        self.task.status_message = Some(message.to_owned());
        self.set_status(self.task.status.clone(), now)
    }

    fn clear(&mut self) {
        self.questions.clear();
        self.answers.clear();
    }

    fn set_status(&mut self, status: TaskStatus, now: u64) -> bool {
        self.task.status = status;
        self.task.last_updated_at = format_iso8601(now);
        self.version += 1;
        true
    }
}
