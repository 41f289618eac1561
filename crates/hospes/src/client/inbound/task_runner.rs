//! Server requests that run as tasks of the client (2025-11-25): the server polls and fetches the result.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use hospes_model::{
    ClientCapabilities, ClientTaskRequests, ClientTasksCapability, CreateTaskResult, ElicitationTaskRequests,
    InputRequest, Meta, Method, PaginatedParams, RawJson, RelatedTask, Reply, Revision, RpcError,
    SamplingTaskRequests, ServerStamp, TaskMetadata, TaskParams, meta_key,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::tasks::{MemoryTasks, TaskManagerHandle, TaskSettings};

/// The revision that has this.
const REVISION: Revision = Revision::V2025_11_25;

/// The tasks that a client runs for its server.
pub(crate) struct ClientTaskRunner {
    tasks: TaskManagerHandle,
    /// Permits for running tasks, as many as requests that may be answered without tasks.
    places: Arc<Semaphore>,
    max_running: usize,
}

impl ClientTaskRunner {
    pub(crate) fn new(settings: TaskSettings, max_running: usize) -> Self {
        // `Semaphore::new` panics above this.
        let max_running = max_running.min(Semaphore::MAX_PERMITS);
        let tasks = TaskManagerHandle::new(settings, Arc::new(MemoryTasks::new()));
        Self { tasks, places: Arc::new(Semaphore::new(max_running)), max_running }
    }

    /// Declares task support for every capability that has a handler.
    pub(crate) fn declare_capability(capabilities: &mut ClientCapabilities) {
        let empty = || Some(RawJson::empty_object());
        let mut requests = ClientTaskRequests::new();
        if capabilities.sampling.is_some() {
            let mut sampling = SamplingTaskRequests::new();
            sampling.create_message = empty();
            requests.sampling = Some(sampling);
        }
        if capabilities.elicitation.is_some() {
            let mut elicitation = ElicitationTaskRequests::new();
            elicitation.create = empty();
            requests.elicitation = Some(elicitation);
        }
        let mut tasks = ClientTasksCapability::new();
        // There is one server at the other end, so it is always known whose tasks these are.
        (tasks.list, tasks.cancel, tasks.requests) = (empty(), empty(), Some(requests));
        capabilities.tasks = Some(tasks);
    }

    /// Runs a question as a task if the server requested that.
    pub(crate) async fn try_start_task<F>(
        &self,
        question: &InputRequest,
        bytes: usize,
        answer: impl FnOnce() -> F,
    ) -> Option<Result<RawJson, RpcError>>
    where
        F: Future<Output = Result<RawJson, RpcError>> + Send + 'static,
    {
        let wish: &TaskMetadata = match question {
            InputRequest::CreateMessage(params) => params.task.as_ref()?,
            InputRequest::Elicit(params) => match &**params {
                hospes_model::ElicitParams::Form(form) => form.task.as_ref()?,
                hospes_model::ElicitParams::Url(url) => url.task.as_ref()?,
                _ => return None,
            },
            _ => return None,
        };
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let max = self.max_running;
            let why = format!("more than {max} requests at once (setting max_server_requests)");
            return Some(Err(RpcError::internal(why)));
        };
        let (task, live) = match self.tasks.create(question.method(), None, wish.ttl, bytes).await {
            Ok(made) => made,
            Err(error) => return Some(Err(error)),
        };
        let (tasks, id, answer) = (Arc::clone(&self.tasks), task.task_id.clone(), answer());
        // The request is answered with the task at once (TASK-09), so that its work needs a task of its own.
        let work = tokio::spawn(async move {
            let outcome = AssertUnwindSafe(answer).catch_unwind().await;
            // The server waits for the task to end, whatever happens here.
            let outcome = outcome.unwrap_or_else(|_| Err(RpcError::internal("the handler panicked")));
            tasks.finish(&id, outcome).await;
            // Not earlier: the task counts as running until its end is stored.
            drop(place);
        });
        live.set_work(work.abort_handle());
        let method = Method::from_name(question.method());
        Some(encode_reply(&CreateTaskResult::new(task).into(), &method))
    }

    /// Ends all running tasks, because the connection is closed.
    pub(crate) fn close(&self) {
        self.tasks.close();
    }

    /// Handles the methods of tasks. Returns `None` for other methods.
    pub(crate) async fn handle_task_method(
        &self,
        method: &Method,
        params: &RawJson,
    ) -> Option<Result<RawJson, RpcError>> {
        Some(match method {
            Method::TasksGet => self.get(params).await,
            Method::TasksCancel => self.cancel(params).await,
            Method::TasksResult => self.result(params).await,
            Method::TasksList => self.list(params).await,
            _ => return None,
        })
    }

    async fn get(&self, params: &RawJson) -> Result<RawJson, RpcError> {
        let params: TaskParams = decode_params(params)?;
        let record = self.tasks.get(&params.task_id, None).await?;
        encode_reply(&record.view().into(), &Method::TasksGet)
    }

    async fn cancel(&self, params: &RawJson) -> Result<RawJson, RpcError> {
        let params: TaskParams = decode_params(params)?;
        let record = self.tasks.get(&params.task_id, None).await?;
        if record.is_over() {
            let why = format!("the task cannot be cancelled: its status is already {}", record.task.status);
            return Err(RpcError::invalid_params(why));
        }
        self.tasks.cancel(&record).await?;
        let record = self.tasks.get(&params.task_id, None).await?;
        encode_reply(&record.view().into(), &Method::TasksCancel)
    }

    async fn result(&self, params: &RawJson) -> Result<RawJson, RpcError> {
        let params: TaskParams = decode_params(params)?;
        loop {
            let record = self.tasks.get(&params.task_id, None).await?;
            if let Some(result) = record.result {
                return Ok(with_related_task(&result, &params.task_id));
            }
            if let Some(error) = record.error {
                return Err(error);
            }
            if record.is_over() {
                return Err(RpcError::internal("the task was cancelled"));
            }
            self.tasks.wait_for_change(&params.task_id, record.version, Duration::from_secs(5)).await;
        }
    }

    async fn list(&self, params: &RawJson) -> Result<RawJson, RpcError> {
        let params: PaginatedParams = decode_params(params)?;
        let page = self.tasks.list(None, params.cursor.as_deref()).await?;
        encode_reply(&page.into(), &Method::TasksList)
    }
}

impl std::fmt::Debug for ClientTaskRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Receiver")
    }
}

/// Adds the related task to a response (TASK-17).
pub(crate) fn tag_related_task(params: &RawJson, answer: RawJson) -> RawJson {
    #[derive(Deserialize)]
    struct RelatedTaskMetaPeek {
        #[serde(rename = "_meta")]
        meta: Meta,
    }
    let related_task: Option<RelatedTask> = params
        .decode::<RelatedTaskMetaPeek>()
        .ok()
        .and_then(|params| params.meta.read(meta_key::RELATED_TASK));
    match related_task {
        Some(task) => with_related_task(&answer, &task.task_id),
        None => answer,
    }
}

fn with_related_task(result: &RawJson, id: &str) -> RawJson {
    let Ok(Value::Object(mut members)) = result.to_value() else { return result.clone() };
    let meta = members.entry("_meta").or_insert_with(|| Value::Object(serde_json::Map::new()));
    if let Value::Object(meta) = meta {
        meta.insert(meta_key::RELATED_TASK.to_owned(), serde_json::json!({ "taskId": id }));
    }
    Value::Object(members).into()
}

fn decode_params<T: serde::de::DeserializeOwned>(params: &RawJson) -> Result<T, RpcError> {
    params.decode().map_err(|error| RpcError::invalid_params(format!("invalid params: {error}")))
}

fn encode_reply(reply: &Reply, method: &Method) -> Result<RawJson, RpcError> {
    let mut out = Vec::new();
    let done = reply.encode(method, REVISION, &ServerStamp::anonymous(), &mut out);
    done.map_err(|error| RpcError::internal(error.to_string()))?;
    RawJson::parse(out).map_err(|error| RpcError::internal(error.to_string()))
}
