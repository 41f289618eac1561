//! The tasks of 2025-11-25, and of clients that know none, made of those of the newest revision.
//!
//! There the caller wishes for a task, fetches its result with a call that waits, and is asked what the task needs to
//! know by real requests on that call. Here such a call is an ordinary one: its questions are the task's, and the
//! answers go into `tasks/update`. A tool that only runs as a task is run so for a client of an older revision, whose
//! call waits for the end.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hospes_model::{
    CallToolResult, GetTaskResult, InputRequest, Meta, Method, Notification, PeerResult, RawJson,
    RelatedTask, Reply, Revision, RpcError, SubscriptionFilter, SubscriptionsListenParams, TASKS_EXTENSION,
    TaskMetadata, TaskParams, TaskStatus, ToolTaskRequests, UpdateTaskParams, code, meta_key,
};
use hospes_model::{PaginatedParams, TaskSupport};
use hospes_model::{ServerCapabilities, ServerTaskRequests, ServerTasksCapability};

use super::LegacySession;
use crate::context::Context;
use crate::exchange::{Exchange, ExchangeEvent};
use crate::params::Params;
use crate::peer::Peer;
use crate::round::PendingInput;
use crate::service::{BoxService, Call, Outcome, Service};
use crate::tasks::{TaskPreference, is_tasks_not_declared};

/// The least and the longest that is waited between two looks at a task.
const POLL_DELAY_RANGE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// Under which a call that waits for a task remembers it from one round of questions to the next.
const TASK_STEP_KEY: &str = "hospes/task";

/// A question that one call has put before the client, so that no other does.
struct QuestionClaim {
    session: Arc<LegacySession>,
    question: (String, String),
}

impl Drop for QuestionClaim {
    fn drop(&mut self) {
        self.session.tasks().release(&self.question);
    }
}

/// Returns true if a service runs tools as tasks. Adds the capability of 2025-11-25 if the service does not declare it.
pub(super) fn complete_task_capability(capabilities: &mut ServerCapabilities) -> bool {
    let tools = |tasks: &ServerTasksCapability| {
        let requests = tasks.requests.as_ref().and_then(|requests| requests.tools.as_ref());
        requests.is_some_and(|tools| tools.call.is_some())
    };
    if let Some(tasks) = &capabilities.tasks {
        return tools(tasks);
    }
    if !capabilities.extensions.contains_key(TASKS_EXTENSION) {
        return false;
    }
    let empty = RawJson::empty_object;
    let requests = ServerTaskRequests::new().with_tools(ToolTaskRequests::new().with_call(empty()));
    // Without `list`: the extension of the newest revision, which the service speaks, has no such method.
    capabilities.tasks = Some(ServerTasksCapability::new().with_cancel(empty()).with_requests(requests));
    true
}

/// Returns the task preference of a tool call (TASK-07: read only if the service runs tasks).
pub(super) fn read_task_preference(
    method: &Method,
    revision: Revision,
    params: &Params,
) -> Result<TaskPreference, RpcError> {
    #[derive(serde::Deserialize)]
    struct ToolCallTaskPeek {
        #[serde(default)]
        task: Option<TaskMetadata>,
    }
    if *method != Method::ToolsCall || revision != Revision::V2025_11_25 {
        return Ok(TaskPreference::None);
    }
    let ToolCallTaskPeek { task } = params.decode()?;
    Ok(task.map_or(TaskPreference::None, TaskPreference::Asked))
}

/// Returns true if a method concerns tasks.
pub(super) fn is_task_method(method: &Method) -> bool {
    use Method::{TasksCancel, TasksGet, TasksResult, ToolsCall};
    matches!(method, ToolsCall | TasksGet | TasksResult | TasksCancel)
}

/// A service that runs tasks, as a session of an older revision sees it.
pub(super) struct LegacyTasks {
    pub(super) service: BoxService,
    pub(super) session: Arc<LegacySession>,
}

impl Service for LegacyTasks {
    async fn call(&self, call: Call) -> Outcome {
        match call.method {
            Method::ToolsCall => self.call_tool(call).await,
            Method::TasksGet => match task_id(&call) {
                Ok(id) => self.get(&call, &id).await.into(),
                Err(error) => error.into(),
            },
            Method::TasksCancel => self.cancel(&call).await.into(),
            Method::TasksResult => match task_id(&call) {
                Ok(id) => self.wait(&call, &id, true).await,
                Err(error) => error.into(),
            },
            _ => self.service.call(call).await,
        }
    }
}

/// Restarts a call that was refused because it must be a task, in a session that was not offered any. The tool was
/// added later; it runs to its end.
pub(super) fn retry_as_task(
    service: &BoxService,
    session: &Arc<LegacySession>,
    call: &Call,
    error: &RpcError,
) -> Option<Exchange> {
    if call.method != Method::ToolsCall || session.offers().tasks || !is_tasks_not_declared(error) {
        return None;
    }
    let tasks = LegacyTasks { service: service.clone(), session: Arc::clone(session) };
    call.context.begin_round(call.context.round());
    Some(Exchange::new(BoxService::new(tasks), call.clone()))
}

impl LegacyTasks {
    async fn call_tool(&self, call: Call) -> Outcome {
        let step = call.context.step(TASK_STEP_KEY);
        if let Some(id) = step.as_ref().and_then(|id| id.decode::<String>().ok()) {
            return self.wait(&call, &id, false).await;
        }
        match self.service.call(call.clone()).await {
            Outcome::Complete(Reply::CreateTask(made)) => {
                self.session.tasks().follow(&made.task.task_id);
                // The standing call for changes names its tasks
                // (TSKX-16), so it has to be made anew with this one.
                self.session.subscriptions_changed();
                Outcome::Complete(Reply::CreateTask(made))
            }
            Outcome::Failed(error) if is_tasks_not_declared(&error) => {
                let session = &self.session;
                if session.peer().revision == Revision::V2025_11_25
                    && session.offers().tasks
                    && self.is_listed_as_required(&call).await
                {
                    // TASK-05
                    let why = "this tool must be called as a task: send `task` along with its arguments";
                    return RpcError::new(code::METHOD_NOT_FOUND, why).into();
                }
                self.run_to_end(&call).await
            }
            other => other,
        }
    }

    /// Returns true if the client could know from the list that the tool is only called as a task. A newer server
    /// behind a gateway has no such list.
    async fn is_listed_as_required(&self, call: &Call) -> bool {
        /// No list has more pages than this.
        const MAX_PAGES: usize = 100;
        let name = call.params.view().name.clone().unwrap_or_default();
        let mut params = PaginatedParams::new();
        for _ in 0..MAX_PAGES {
            let Ok(Reply::ListTools(page)) = self.ask(call, Method::ToolsList, &params).await else {
                return true;
            };
            if let Some(tool) = page.tools.iter().find(|tool| *tool.name == *name) {
                let support = tool.execution.as_ref().and_then(|execution| execution.task_support.as_ref());
                return support == Some(&TaskSupport::Required);
            }
            params.cursor = page.next_cursor;
            if params.cursor.is_none() {
                break;
            }
        }
        true
    }

    /// Runs the call as a task for a client that does not know tasks, or could not know that this tool requires one.
    async fn run_to_end(&self, call: &Call) -> Outcome {
        let context = Context::builder(Arc::clone(call.context.peer()))
            .meta(call.context.meta().cloned())
            .progress_token(call.context.progress_token().cloned())
            // Whichever of the two dialects its server speaks.
            .task(TaskPreference::Open)
            .round(call.context.round());
        let made = Call { method: Method::ToolsCall, params: call.params.clone(), context: context.build() };
        let id = match self.service.call(made).await {
            Outcome::Complete(Reply::CreateTask(made)) => made.task.task_id,
            other => return other,
        };
        // From here on the call runs from the top only to wait.
        if let Ok(step) = RawJson::from_serialize(&id) {
            call.context.remember_step(TASK_STEP_KEY, step);
        }
        // Whoever gives up the call gives up the task.
        let peer = Arc::clone(call.context.peer());
        call.context.keep(CancelTaskOnDrop { service: self.service.clone(), peer, id: id.clone() });
        self.wait(call, &id, false).await
    }

    /// Returns the state of a task.
    async fn get(&self, call: &Call, id: &str) -> Result<GetTaskResult, RpcError> {
        let params = TaskParams::new(id);
        let mut found = match self.ask(call, Method::TasksGet, &params).await? {
            Reply::GetTask(found) => *found,
            _ => return Err(RpcError::internal("unexpected result type for tasks/get")),
        };
        found.meta.remove(meta_key::RELATED_TASK);
        if self.session.tasks().is_cancelled(id) {
            // TASK-21: whatever its work may still come to.
            found = GetTaskResult::new(found.task.with_status(TaskStatus::Cancelled));
        }
        Ok(found)
    }

    async fn cancel(&self, call: &Call) -> Result<GetTaskResult, RpcError> {
        let id = task_id(call)?;
        let found = self.get(call, &id).await?;
        if found.task.status.is_terminal() {
            let why = format!("the task cannot be cancelled: its status is already {}", found.task.status);
            return Err(RpcError::invalid_params(why));
        }
        self.ask(call, Method::TasksCancel, &TaskParams::new(id.as_str())).await?;
        self.session.tasks().cancel(&id);
        self.get(call, &id).await
    }

    /// Waits for the end of a task, asking what it needs to know; `named`, the result says whose it is.
    async fn wait(&self, call: &Call, id: &str, named: bool) -> Outcome {
        match self.try_wait(call, id, named).await {
            Ok(outcome) => outcome,
            Err(error) => error.into(),
        }
    }

    async fn try_wait(&self, call: &Call, id: &str, named: bool) -> Result<Outcome, RpcError> {
        let round = call.context.round();
        let fresh = round.fresh.iter();
        let answers: BTreeMap<String, RawJson> =
            fresh.filter_map(|key| Some((key.clone(), round.answers.get(key)?.clone()))).collect();
        if !answers.is_empty() {
            self.ask(call, Method::TasksUpdate, &UpdateTaskParams::new(id, answers)).await?;
        }
        let mut changes = Some(self.listen(call, id)?);
        // First the ear, then the look: what changes in between is not lost.
        wait_for_task_change(call, &mut changes, Duration::ZERO).await;
        loop {
            let found = self.get(call, id).await?;
            match found.task.status {
                TaskStatus::Completed => {
                    let result = found.result.ok_or_else(|| RpcError::internal("the task has no result"))?;
                    return completed(&result, id, named).map(Outcome::Complete);
                }
                TaskStatus::Failed => {
                    return Err(found.error.unwrap_or_else(|| RpcError::internal("the task failed")));
                }
                TaskStatus::Cancelled => return Err(RpcError::internal("the task was cancelled")),
                _ => {}
            }
            let mut requests = Vec::new();
            for (key, mut request) in found.input_requests {
                if !self.session.tasks().claim(id, &key) {
                    continue;
                }
                let (session, question) = (Arc::clone(&self.session), (id.to_owned(), key.clone()));
                // Kept with the call, so that another call may ask if this one ends without an answer.
                call.context.keep(QuestionClaim { session, question });
                if named {
                    relate_to_task(&mut request, id);
                }
                requests.push((key, request));
            }
            if !requests.is_empty() {
                let round = call.context.round().without_answers();
                return Ok(Outcome::InputRequired(PendingInput::new(requests, round)));
            }
            let pause = Duration::from_millis(found.task.poll_interval_ms.unwrap_or(1000));
            wait_for_task_change(call, &mut changes, pause.clamp(POLL_DELAY_RANGE.0, POLL_DELAY_RANGE.1))
                .await;
            // Every report of progress is a change: looks are as rare as requests have to be (TASK-15).
            tokio::time::sleep(POLL_DELAY_RANGE.0).await;
        }
    }

    /// Hears of a task's changes.
    fn listen(&self, call: &Call, id: &str) -> Result<Exchange, RpcError> {
        let filter = SubscriptionFilter::new().with_task_ids(vec![id.to_owned()]);
        let params = raw(&SubscriptionsListenParams::new(filter))?;
        let context = Context::new(Arc::clone(call.context.peer()));
        Ok(Exchange::new(self.service.clone(), Call::new(Method::SubscriptionsListen, params, context)))
    }

    /// One call of the service on behalf of another.
    async fn ask(
        &self,
        call: &Call,
        method: Method,
        params: &(impl serde::Serialize + Sync),
    ) -> Result<Reply, RpcError> {
        let context = Context::new(Arc::clone(call.context.peer()));
        match self.service.call(Call::new(method.clone(), raw(params)?, context)).await {
            Outcome::Complete(Reply::Prepared(prepared)) => Ok(prepared.reply().clone()),
            Outcome::Complete(reply) => match reply.resolved(&method) {
                Ok(PeerResult::Complete(reply)) => Ok(reply),
                Ok(_) => Err(RpcError::internal(format!("unexpected result type for {method}"))),
                Err(error) => Err(RpcError::internal(error.to_string())),
            },
            Outcome::InputRequired(_) => Err(RpcError::internal(format!("{method} asked a question"))),
            Outcome::Failed(error) => Err(error),
        }
    }
}

/// Waits for a change of the task, at most for `pause`. Notifications of the task are meanwhile sent in the call.
async fn wait_for_task_change(call: &Call, changes: &mut Option<Exchange>, pause: Duration) {
    let changed = poll_fn(|cx| {
        while let Some(exchange) = changes {
            match exchange.poll_event(cx) {
                Poll::Ready(ExchangeEvent::Notify(Notification::SubscriptionsAcknowledged(_)))
                    if pause.is_zero() =>
                {
                    return Poll::Ready(());
                }
                Poll::Ready(ExchangeEvent::Notify(Notification::TasksChanged(_))) => return Poll::Ready(()),
                Poll::Ready(ExchangeEvent::Notify(
                    said @ (Notification::Progress(_) | Notification::LogMessage(_)),
                )) => {
                    call.context.notify(said);
                }
                Poll::Ready(ExchangeEvent::Notify(_)) => {}
                Poll::Ready(ExchangeEvent::Ask(_) | ExchangeEvent::Done(_)) => *changes = None,
                Poll::Pending => break,
            }
        }
        Poll::Pending
    });
    // Whoever does not tell in time is asked.
    let _ = tokio::time::timeout(pause, changed).await;
}

fn task_id(call: &Call) -> Result<String, RpcError> {
    let id = call.params.view().task_id.as_deref().map(str::to_owned);
    id.ok_or_else(|| {
        RpcError::invalid_params(format!("{} requires the task's `taskId`, a string", call.method))
    })
}

/// Returns the result of the call, with the id of its task (TASK-17).
fn completed(result: &RawJson, id: &str, named: bool) -> Result<Reply, RpcError> {
    // Not read as an answer to any method: programs would carry code for results of every kind.
    let Ok(mut result) = result.decode::<CallToolResult>() else {
        return Err(RpcError::internal("the task's result is not a tool result"));
    };
    if named && let Ok(related) = raw(&RelatedTask::new(id)) {
        result.meta.insert(meta_key::RELATED_TASK, related);
    }
    Ok(result.into())
}

/// Adds the id of the task to a question (TASK-17).
fn relate_to_task(request: &mut InputRequest, id: &str) {
    let meta: &mut Meta = match request {
        InputRequest::CreateMessage(params) => &mut params.meta,
        InputRequest::Elicit(params) => params.meta_mut(),
        InputRequest::ListRoots(params) => &mut params.meta,
        _ => return,
    };
    if let Ok(related) = raw(&RelatedTask::new(id)) {
        meta.insert(meta_key::RELATED_TASK, related);
    }
}

fn raw(value: &impl serde::Serialize) -> Result<RawJson, RpcError> {
    RawJson::from_serialize(value).map_err(|error| RpcError::internal(error.to_string()))
}

/// Gives up a task with the call that it was run for. One that is over is not touched by that.
struct CancelTaskOnDrop {
    service: BoxService,
    peer: Arc<Peer>,
    id: String,
}

impl Drop for CancelTaskOnDrop {
    fn drop(&mut self) {
        let (Ok(runtime), Ok(params)) =
            (tokio::runtime::Handle::try_current(), raw(&TaskParams::new(self.id.as_str())))
        else {
            return;
        };
        let call = Call::new(Method::TasksCancel, params, Context::new(Arc::clone(&self.peer)));
        let service = self.service.clone();
        // A destructor cannot wait, and nobody is left to learn how the cancellation went.
        runtime.spawn(async move { drop(service.call(call).await) });
    }
}
