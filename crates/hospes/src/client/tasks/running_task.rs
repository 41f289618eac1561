//! Tool calls that run as tasks of the server.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::future::IntoFuture;
use std::time::Duration;

use futures::future::BoxFuture;
use hospes_model::{
    CallToolResult, GetTaskResult, InputRequests, ListToolsResult, Method, PeerResult, RawJson, Reply,
    Revision, RpcError, Task, TaskParams, TaskStatus, TaskSupport, UpdateTaskParams, code,
};
use hospes_proto::session::client::TimeLimits;
use serde::Serialize;

use crate::client::cache::task_support::TaskSupportCache;
use crate::client::calls::listing::PaginatedStream;
use crate::client::calls::request::{FromReply, RequestBuilder};
use crate::client::connection::connect::build_task_protocol;
use crate::client::connection::core::ClientCore;
use crate::client::connection::handle::Client;
use crate::client::error::CallError;
use crate::client::error::malformed;
use crate::client::link::NegotiatedProtocol;
use crate::client::link::json_members;
use crate::client::link::{OutgoingParams, OutgoingRequest};
use crate::tasks::is_tasks_not_declared;

/// Poll interval if the server gives none.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of consecutive listings while the list keeps changing.
const MAX_LIST_ATTEMPTS: usize = 3;
/// Minimum time between two polls, even if the server gives less.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Client {
    /// Returns a handle of an existing task by its id, from an earlier connection or an earlier run of the program.
    #[must_use]
    pub fn task(&self, id: impl Into<String>) -> RunningTask {
        RunningTask::new(self.clone(), RunningTaskStage::Running(id.into()))
    }

    /// Lists the tasks that the server keeps for this client (2025-11-25, and only if the server identifies the
    /// client).
    pub fn list_tasks(&self) -> PaginatedStream<'_, Task> {
        let tasks = self.capabilities().and_then(|has| has.tasks.as_ref());
        let offered = match tasks.is_some_and(|tasks| tasks.list.is_some()) {
            true => Ok(()),
            false => Err(CallError::NotOffered("listing tasks")),
        };
        PaginatedStream::new(self, offered)
    }
}

impl<'c> RequestBuilder<'c, CallToolResult> {
    /// Calls the tool so that it may continue as a task. The returned handle is used to await the result or to cancel
    /// the task at any time.
    ///
    /// A server of 2026-07-28 decides if the call becomes a task; if not, the handle already has the result. A server
    /// of 2025-11-25 is asked for a task.
    ///
    /// ```no_run
    /// # use serde_json::json;
    /// # async fn f(client: hospes::client::Client) -> hospes::Result<()> {
    /// let mut training = client.call("train", json!({ "epochs": 300 })).as_task().await?;
    /// println!("to be taken up again with client.task({:?})", training.id());
    /// let result = training.result().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_task(self) -> TaskRequest<'c> {
        TaskRequest { request: self, ttl: None }
    }
}

/// A call of a tool that may become a task; it is sent when it is awaited.
#[must_use = "a call does nothing unless awaited"]
pub struct TaskRequest<'c> {
    request: RequestBuilder<'c, CallToolResult>,
    ttl: Option<Duration>,
}

impl TaskRequest<'_> {
    /// Sets the time the server keeps the task and its result (2025-11-25; newer servers decide themselves).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }
}

impl<'c> IntoFuture for TaskRequest<'c> {
    type Output = Result<RunningTask, CallError>;
    type IntoFuture = BoxFuture<'c, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { mut request, ttl } = self;
        Box::pin(async move { start_task_call(&mut request, ttl).await })
    }
}

impl fmt::Debug for TaskRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskRequest").field("request", &self.request).finish_non_exhaustive()
    }
}

/// Sends a call that may become a task.
pub(crate) async fn start_task_call<T: FromReply>(
    request: &mut RequestBuilder<'_, T>,
    ttl: Option<Duration>,
) -> Result<RunningTask, CallError> {
    if let Some(fault) = request.take_fault() {
        return Err(fault);
    }
    let client = request.client().clone();
    let core = &client.core;
    let method = Method::ToolsCall;
    let mut on_progress = request.take_on_progress();
    let reply = if core.protocol.revision.is_legacy() {
        core.check_task_allowed(&client, request.name().unwrap_or_default()).await?;
        let ttl = ttl.map(|ttl| format!("\"ttl\":{}", ttl.as_millis())).unwrap_or_default();
        let wish = format!("\"task\":{{{ttl}}}");
        let outgoing = OutgoingRequest { more: wish.as_bytes(), ..request.outgoing(on_progress.is_some()) };
        let raw = core.send_request(&outgoing, &mut on_progress).await?;
        match PeerResult::decode_task(&method, &raw) {
            Ok(made) => made.into(),
            // It was done at once after all.
            Err(_) => expect_complete(core.decode(&method, &raw)?, &method)?,
        }
    } else {
        let outgoing = request.outgoing(on_progress.is_some());
        core.complete_request_as(core.task_protocol(), outgoing, on_progress).await?
    };
    let (stage, last) = match reply {
        Reply::CreateTask(made) => (RunningTaskStage::Running(made.task.task_id.clone()), Some(made.task)),
        Reply::CallTool(result) => (RunningTaskStage::Done(result), None),
        _ => return Err(malformed(&method, "unexpected result type")),
    };
    let mut task = RunningTask::new(client, stage);
    task.last = last;
    Ok(task)
}

fn expect_complete(answer: PeerResult, method: &Method) -> Result<Reply, CallError> {
    match answer {
        PeerResult::Complete(reply) => Ok(reply),
        _ => Err(malformed(method, "unexpected result type")),
    }
}

/// A call that is a task of the server, or was answered before it became one.
///
/// Dropping it has no effect on the task; [`Client::task`] resumes it. [`RunningTask::cancel`] ends it.
#[derive(Debug)]
pub struct RunningTask {
    client: Client,
    stage: RunningTaskStage,
    last: Option<Task>,
    /// Keys of the questions already answered; each question is asked only once.
    answered: HashSet<String>,
}

#[derive(Debug)]
enum RunningTaskStage {
    Running(String),
    Done(CallToolResult),
}

impl RunningTask {
    fn new(client: Client, stage: RunningTaskStage) -> Self {
        Self { client, stage, last: None, answered: HashSet::new() }
    }

    /// Returns the id of the task, which allows resuming it after a restart. `None` if the call was answered
    /// immediately.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        match &self.stage {
            RunningTaskStage::Running(id) => Some(id),
            RunningTaskStage::Done(_) => None,
        }
    }

    /// Returns the last known state of the task.
    #[must_use]
    pub fn last(&self) -> Option<&Task> {
        self.last.as_ref()
    }

    /// Polls the state of the task. Returns `None` if the call was answered immediately.
    ///
    /// # Errors
    /// If the server does not know the task, or does not respond.
    pub async fn poll(&mut self) -> Result<Option<&Task>, CallError> {
        if let RunningTaskStage::Running(id) = &self.stage {
            let found = self.client.core.get_task(id).await?;
            self.last = Some(found.task);
        }
        Ok(self.last.as_ref())
    }

    /// Waits for the result. Polls at the server's interval and answers the task's input requests with the client's
    /// handlers.
    ///
    /// # Errors
    /// The server's error if the task failed, [`CallError::TaskCancelled`] if it was cancelled, and the errors of any
    /// call. If an input request of the task is refused, the task is cancelled.
    pub async fn result(&mut self) -> Result<CallToolResult, CallError> {
        loop {
            let id = match &self.stage {
                RunningTaskStage::Running(id) => id.clone(),
                RunningTaskStage::Done(result) => return Ok(result.clone()),
            };
            let core = &self.client.core;
            let GetTaskResult { task, input_requests, result, error, .. } = core.get_task(&id).await?;
            let status = task.status.clone();
            let interval = task.poll_interval_ms.map_or(POLL_INTERVAL, Duration::from_millis);
            self.last = Some(task);
            if core.protocol.revision.is_legacy() {
                if status == TaskStatus::Cancelled {
                    return Err(CallError::TaskCancelled);
                }
                // Where it waits for answers it asks for them while its result is awaited (TASK-16).
                if status.is_terminal() || status == TaskStatus::InputRequired {
                    let result = core.wait_task_result(&id).await?;
                    self.stage = RunningTaskStage::Done(result);
                    continue;
                }
            }
            match status {
                TaskStatus::Completed => {
                    let raw = result.ok_or_else(|| malformed(&Method::TasksGet, "the task has no result"))?;
                    let reply = expect_complete(core.decode(&Method::ToolsCall, &raw)?, &Method::ToolsCall)?;
                    let Reply::CallTool(result) = reply else {
                        return Err(malformed(&Method::TasksGet, "the result is not a tool result"));
                    };
                    self.stage = RunningTaskStage::Done(result);
                    continue;
                }
                TaskStatus::Failed => {
                    let error = error.unwrap_or_else(|| RpcError::internal("the task failed"));
                    return Err(CallError::Rpc(error));
                }
                TaskStatus::Cancelled => return Err(CallError::TaskCancelled),
                _ => {}
            }
            let mut questions = input_requests;
            questions.retain(|key, _| !self.answered.contains(key));
            if !questions.is_empty() {
                self.answer(&id, questions).await?;
            }
            tokio::time::sleep(interval.max(MIN_POLL_INTERVAL)).await;
        }
    }

    /// Asks the server to cancel the task, which may complete before.
    ///
    /// # Errors
    /// If the server refuses: there is no such task, or (2025-11-25) it has ended.
    pub async fn cancel(&mut self) -> Result<(), CallError> {
        let RunningTaskStage::Running(id) = &self.stage else { return Ok(()) };
        let core = &self.client.core;
        let tasks = core.server.capabilities.as_ref().and_then(|has| has.tasks.as_ref());
        if core.protocol.revision.is_legacy() && tasks.is_none_or(|tasks| tasks.cancel.is_none()) {
            return Err(CallError::NotOffered("cancelling tasks"));
        }
        let raw = core
            .send_task_request(&Method::TasksCancel, id, &TaskParams::new(id.as_str()), core.settings.times)
            .await?;
        if let Ok(PeerResult::Complete(Reply::GetTask(found))) = core.decode(&Method::TasksCancel, &raw) {
            self.last = Some(found.task);
        }
        Ok(())
    }

    async fn answer(&mut self, id: &str, questions: InputRequests) -> Result<(), CallError> {
        let keys: Vec<String> = questions.keys().cloned().collect();
        let core = &self.client.core;
        let answers = match core.dispatcher.handlers.answer_all(questions).await {
            Ok(answers) => answers,
            Err(error) => {
                // Nothing else tells the server that nobody will answer.
                if let Err(error) = self.cancel().await {
                    tracing::debug!(%error, "cannot cancel a task whose questions were not answered");
                }
                return Err(error);
            }
        };
        let encoded = answers.iter().map(|(key, answer)| {
            let answer = answer.encode(Revision::LATEST);
            answer.map(|answer| (key.clone(), answer)).map_err(|error| CallError::Arguments(error.into()))
        });
        let answers: BTreeMap<String, RawJson> = encoded.collect::<Result<_, _>>()?;
        let params = UpdateTaskParams::new(id, answers);
        core.send_task_request(&Method::TasksUpdate, id, &params, core.settings.times).await?;
        self.answered.extend(keys);
        Ok(())
    }
}

impl ClientCore {
    /// Returns the protocol data of requests that may be answered with tasks.
    pub(crate) fn task_protocol(&self) -> &NegotiatedProtocol {
        if self.protocol.revision.is_legacy() {
            return &self.protocol;
        }
        self.tasks.protocol.get_or_init(|| build_task_protocol(&self.settings, self.protocol.revision))
    }

    /// A list of tools has come: which of them run as tasks.
    pub(crate) fn record_task_support(&self, list: &ListToolsResult, is_current: impl Fn() -> bool) {
        if !self.supports_legacy_tasks() {
            return;
        }
        self.dispatcher.task_tools.record(list, is_current);
    }

    /// Returns true if an older server runs tools as tasks.
    pub(crate) fn supports_legacy_tasks(&self) -> bool {
        let tasks = self.server.capabilities.as_ref().and_then(|has| has.tasks.as_ref());
        let requests = tasks.and_then(|tasks| tasks.requests.as_ref());
        self.protocol.revision == Revision::V2025_11_25
            && requests.and_then(|requests| requests.tools.as_ref()).is_some_and(|tools| tools.call.is_some())
    }

    /// Returns true if an older server's list requires the tool to be called as a task (TASK-04). The list is requested
    /// once, and only from servers that run tasks.
    pub(crate) async fn requires_task(&self, client: &Client, tool: &str) -> bool {
        self.supports_legacy_tasks()
            && matches!(Box::pin(self.find_task_support(client, tool)).await, Ok(Some(TaskSupport::Required)))
    }

    pub(crate) async fn find_task_support(
        &self,
        client: &Client,
        tool: &str,
    ) -> Result<Option<TaskSupport>, CallError> {
        let tools = &self.dispatcher.task_tools;
        if tools.find(tool).is_none() {
            load_task_support(client, tools).await?;
        }
        Ok(tools.find(tool))
    }

    /// Checks that an older server accepts this call as a task (TASK-02, TASK-03).
    async fn check_task_allowed(&self, client: &Client, tool: &str) -> Result<(), CallError> {
        if self.protocol.revision < Revision::V2025_11_25 {
            let method = "tasks/get".into();
            return Err(CallError::NotInRevision { method, revision: self.protocol.revision });
        }
        if !self.supports_legacy_tasks() {
            return Err(CallError::NotOffered("tasks"));
        }
        match self.find_task_support(client, tool).await? {
            Some(TaskSupport::Optional | TaskSupport::Required) => Ok(()),
            _ => Err(CallError::NotOffered("tasks for this tool")),
        }
    }

    /// Returns true if a call was refused because it must be a task.
    pub(crate) async fn is_task_required_error(
        &self,
        client: &Client,
        tool: &str,
        error: &CallError,
    ) -> bool {
        match error {
            CallError::Rpc(error) if !self.protocol.revision.is_legacy() => is_tasks_not_declared(error),
            // A tool that must be a task is refused with this code
            // (TASK-05); so is much else, and the list decides.
            CallError::Rpc(error) if error.code == code::METHOD_NOT_FOUND && self.supports_legacy_tasks() => {
                matches!(self.find_task_support(client, tool).await, Ok(Some(TaskSupport::Required)))
            }
            _ => false,
        }
    }

    /// Fetches the status of a task.
    pub(crate) async fn get_task(&self, id: &str) -> Result<GetTaskResult, CallError> {
        let method = Method::TasksGet;
        let raw = self.send_task_request(&method, id, &TaskParams::new(id), self.settings.times).await?;
        match expect_complete(self.decode(&method, &raw)?, &method)? {
            Reply::GetTask(found) => Ok(*found),
            _ => Err(malformed(&method, "unexpected result type")),
        }
    }

    /// Waits for a task of an older server to end, which may take as long as the task does.
    async fn wait_task_result(&self, id: &str) -> Result<CallToolResult, CallError> {
        // Only the total limit applies: the server is silent until the task ends (TASK-15).
        let limits = TimeLimits { timeout: None, ..self.settings.times };
        let raw = self.send_task_request(&Method::TasksResult, id, &TaskParams::new(id), limits).await?;
        match expect_complete(self.decode(&Method::ToolsCall, &raw)?, &Method::ToolsCall)? {
            Reply::CallTool(result) => Ok(result),
            _ => Err(malformed(&Method::TasksResult, "the result is not a tool result")),
        }
    }

    pub(crate) async fn send_task_request(
        &self,
        method: &Method,
        id: &str,
        params: &(impl Serialize + Sync),
        limits: TimeLimits,
    ) -> Result<RawJson, CallError> {
        let text = json_members(params)?;
        // TSKX-17: the header repeats which task it is about.
        let outgoing = OutgoingRequest {
            name: Some(id),
            members: OutgoingParams::Text(&text),
            ..OutgoingRequest::new(method, limits)
        };
        self.send_request_as(self.task_protocol(), &outgoing, &mut None).await
    }
}

/// Requests the whole list of tools, which records their task support; once, until the list changes.
async fn load_task_support(client: &Client, tools: &TaskSupportCache) -> Result<(), CallError> {
    let _turn = tools.listing.lock().await;
    for _ in 0..MAX_LIST_ATTEMPTS {
        // Read before the listing, so that a change during it is noticed and the list read again.
        let before = tools.change_count();
        if tools.is_whole() {
            break;
        }
        client.tools().all().await?;
        tools.set_whole_if_unchanged(before);
    }
    Ok(())
}
