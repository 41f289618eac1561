//! Tools that run as tasks.

use std::collections::{BTreeMap, HashSet};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use futures::future::BoxFuture;
use futures::stream::{BoxStream, SelectAll, StreamExt as _};
use hospes_model::{
    CreateTaskResult, InputRequests, Method, Notification, PaginatedParams, RawJson, RelatedTask, Reply,
    Revision, RpcError, ServerStamp, ServerTaskRequests, ServerTasksCapability, TASKS_EXTENSION, TaskParams,
    ToolTaskRequests, UpdateTaskParams, meta_key,
};

use crate::exchange::MAX_ROUNDS;
use crate::round::PendingInput;
use crate::round::read_answer;
use crate::server::builder::Server;
use crate::server::change_bus::MAX_SUBSCRIBED_URIS;
use crate::server::dispatch::ToolRunOutcome;
use crate::server::entries::TaskMode;
use crate::server::task_manager::LazyTaskManager;
use crate::service::{Call, Outcome};
use crate::tasks::{LiveTask, TaskEvent, TaskManager, TaskPreference, tasks_not_declared};

/// A run of a tool's handler.
type ToolFuture = BoxFuture<'static, Outcome>;

impl Server {
    /// Returns true if there are tools that run as tasks, or were.
    pub(super) fn has_tasks(&self) -> bool {
        self.tasks.is_created() || self.shared.read(|all| all.tools.iter().any(|tool| tool.tasks.is_some()))
    }

    /// Returns the tasks capability of 2025-11-25. Tasks are listed only to callers that can be told apart (TASK-25).
    pub(super) fn legacy_tasks(&self, signed_in: bool) -> ServerTasksCapability {
        let empty = RawJson::empty_object;
        let requests = ServerTaskRequests::new().with_tools(ToolTaskRequests::new().with_call(empty()));
        let mut tasks = ServerTasksCapability::new().with_cancel(empty()).with_requests(requests);
        tasks.list = signed_in.then(empty);
        tasks
    }

    /// Answers a call of a tool that runs as a task: with the task, or, if that is quicker or the caller knows no tasks,
    /// with the result.
    pub(super) async fn call_as_task(&self, call: &Call, mode: TaskMode) -> Outcome {
        match (call.context.task_wish(), mode) {
            (TaskPreference::None, TaskMode { required: true, .. }) => tasks_not_declared().into(),
            (TaskPreference::None, _) => self.start_handler(call).await,
            (TaskPreference::Open, TaskMode { ask_first: true, .. }) => {
                call.context.allow_task();
                let mut work = self.start_handler(call);
                let done = poll_fn(|cx| match work.as_mut().poll(cx) {
                    Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
                    Poll::Pending if call.context.has_begun_task() => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                });
                match done.await {
                    Some(outcome) => outcome,
                    None => self.begin_task(call, work, None).await,
                }
            }
            (TaskPreference::Open, TaskMode { required: false, .. }) => {
                let mut work = self.start_handler(call);
                // Polled once: a tool that is done by then needs no task.
                match poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
                    Poll::Ready(Outcome::InputRequired(asked)) => {
                        self.begin_task(call, work, Some(asked)).await
                    }
                    Poll::Ready(outcome) => outcome,
                    Poll::Pending => self.begin_task(call, work, None).await,
                }
            }
            (TaskPreference::Open | TaskPreference::Asked(_), _) => {
                self.begin_task(call, self.start_handler(call), None).await
            }
        }
    }

    /// The handler's run, from the top.
    fn start_handler(&self, call: &Call) -> ToolFuture {
        let (server, call) = (self.without_tasks(), call.clone());
        Box::pin(async move {
            match server.run_tool(&call, true).await {
                ToolRunOutcome::Done(outcome) => outcome,
                ToolRunOutcome::ForTask(_) => RpcError::internal("the tool does not support tasks").into(),
            }
        })
    }

    /// The server as its tasks know it: they end with all others who do.
    fn without_tasks(&self) -> Self {
        Self { tasks: LazyTaskManager::disabled(), ..self.clone() }
    }

    async fn begin_task(&self, call: &Call, work: ToolFuture, asked: Option<PendingInput>) -> Outcome {
        let tasks = self.tasks.get();
        let ttl = call.context.task_wish().ttl();
        let (task, live) = match tasks
            .create(call.method.name(), call.context.principal(), ttl, request_bytes(call))
            .await
        {
            Ok(made) => made,
            Err(error) => return error.into(),
        };
        let run = TaskRun {
            server: self.without_tasks(),
            call: call.clone(),
            id: task.task_id.clone(),
            tasks: Arc::clone(tasks),
            live: Arc::clone(&live),
            used: HashSet::new(),
        };
        // Spawned, because it outlives the request, and the connection that brought it.
        live.set_work(tokio::spawn(run.run(work, asked)).abort_handle());
        Outcome::Complete(CreateTaskResult::new(task).into())
    }

    /// Answers the methods of tasks.
    pub(super) async fn serve_task(&self, call: &Call) -> Outcome {
        if !self.has_tasks() {
            return RpcError::method_not_found(call.method.name()).into();
        }
        // TSKX-15: who did not declare tasks is told so, whether there is such a task or not.
        if !call.context.peer().capabilities.has_extension(TASKS_EXTENSION) {
            return tasks_not_declared().into();
        }
        let (tasks, owner) = (self.tasks.get(), call.context.principal());
        let done: Result<Reply, RpcError> = async {
            match call.method {
                Method::TasksGet => {
                    let params: TaskParams = call.decode()?;
                    let record = tasks.get(&params.task_id, owner).await?;
                    Ok(record.view().into())
                }
                Method::TasksUpdate => {
                    let params: UpdateTaskParams = call.decode()?;
                    let found = tasks.get(&params.task_id, owner).await?;
                    for (key, answer) in &params.input_responses {
                        // What was not asked is surplus, and does no harm (TSKX-12).
                        let Some(question) = found.questions.get(key) else { continue };
                        if let Err(wrong) = read_answer(&Method::from_name(question.method()), answer) {
                            let why = format!("inputResponses[{key:?}]: {}", wrong.message);
                            return Err(RpcError::invalid_params(why));
                        }
                    }
                    tasks.answer(&found, params.input_responses).await?;
                    Ok(Reply::Empty)
                }
                Method::TasksCancel => {
                    let params: TaskParams = call.decode()?;
                    tasks.cancel(&tasks.get(&params.task_id, owner).await?).await?;
                    Ok(Reply::Empty)
                }
                // Callers without a principal cannot be told apart,
                // and would see each other's tasks (TASK-25).
                Method::TasksList if owner.is_some() => {
                    let params: PaginatedParams = call.decode()?;
                    Ok(tasks.list(owner, params.cursor.as_deref()).await?.into())
                }
                _ => Err(RpcError::method_not_found(call.method.name())),
            }
        }
        .await;
        done.into()
    }

    /// Those of the tasks that the caller may hear of, and the news of them.
    pub(super) async fn subscribe_to_tasks(
        &self,
        call: &Call,
        ids: &[String],
    ) -> Result<(Vec<String>, SelectAll<BoxStream<'static, (String, TaskEvent)>>), RpcError> {
        let (mut honoured, mut all) = (Vec::new(), SelectAll::new());
        if ids.is_empty() || !self.has_tasks() {
            return Ok((honoured, all));
        }
        if !call.context.peer().capabilities.has_extension(TASKS_EXTENSION) {
            return Err(tasks_not_declared());
        }
        if ids.len() > MAX_SUBSCRIBED_URIS {
            let why = format!("more than {MAX_SUBSCRIBED_URIS} tasks in one subscription");
            return Err(RpcError::invalid_params(why));
        }
        let (tasks, owner) = (self.tasks.get(), call.context.principal());
        for id in ids {
            if honoured.contains(id) {
                continue;
            }
            if let Ok(record) = tasks.get(id, owner).await {
                all.push(tasks.task_events(id.clone(), record.version).boxed());
                honoured.push(id.clone());
            }
        }
        Ok((honoured, all))
    }
}

/// A task's run, from its beginning to its end.
struct TaskRun {
    server: Server,
    call: Call,
    id: String,
    tasks: Arc<TaskManager>,
    live: Arc<LiveTask>,
    /// The keys under which something was asked: none may be used twice (TSKX-11).
    used: HashSet<String>,
}

impl TaskRun {
    async fn run(mut self, mut work: ToolFuture, mut asked: Option<PendingInput>) {
        let outcome = loop {
            let questions = match asked.take() {
                Some(questions) => questions,
                None => match self.poll_to_end(&mut work).await {
                    Outcome::InputRequired(questions) => questions,
                    Outcome::Complete(reply) => break result(&reply),
                    Outcome::Failed(error) => break Err(error),
                },
            };
            match self.ask(questions).await {
                Ok(true) => work = self.server.start_handler(&self.call),
                // It is over, or forgotten.
                Ok(false) => return,
                Err(error) => break Err(error),
            }
        };
        self.tasks.finish(&self.id, outcome).await;
    }

    /// Polls the handler, and passes on what it says.
    async fn poll_to_end(&self, work: &mut ToolFuture) -> Outcome {
        loop {
            match poll_fn(|cx| self.poll(work, cx)).await {
                Ok(outcome) => return outcome,
                Err(notification) => self.forward_notification(notification).await,
            }
        }
    }

    fn poll(&self, work: &mut ToolFuture, cx: &mut TaskContext<'_>) -> Poll<Result<Outcome, Notification>> {
        // Nothing else would tell the client of a panic: its task would work for ever.
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))).unwrap_or_else(|_| {
            tracing::error!("task handler panicked");
            Poll::Ready(RpcError::internal("the handler panicked").into())
        });
        if polled.is_ready() {
            self.call.context.finish(false);
            // What it said before it was done is said before that is told.
            while let Some(said) = self.call.context.poll_notification(cx.waker()) {
                self.live.queue_notification(relate_to_task(said, &self.id));
            }
            return polled.map(Ok);
        }
        self.call.context.poll_notification(cx.waker()).map_or(Poll::Pending, |said| Poll::Ready(Err(said)))
    }

    async fn forward_notification(&self, notification: Notification) {
        if let Notification::Progress(progress) = &notification
            && let Some(message) = &progress.message
        {
            self.tasks.set_status_message(&self.id, message).await;
        }
        self.live.queue_notification(relate_to_task(notification, &self.id));
    }

    /// Asks and waits for the answers; returns false when none will come.
    async fn ask(&mut self, questions: PendingInput) -> Result<bool, RpcError> {
        let PendingInput { requests, mut round } = questions;
        if round.number >= MAX_ROUNDS {
            return Err(RpcError::internal(format!("more than {MAX_ROUNDS} rounds of questions")));
        }
        let (mut asked, mut keys) = (InputRequests::new(), BTreeMap::new());
        for (key, request) in requests {
            request.check_required_capability(self.call.context.answerable_capabilities())?;
            let mut fresh = key.clone();
            let mut number = 1;
            while !self.used.insert(fresh.clone()) {
                number += 1;
                fresh = format!("{key}#{number}");
            }
            asked.insert(fresh.clone(), request);
            keys.insert(fresh, key);
        }
        let fresh: Vec<String> = keys.keys().cloned().collect();
        if !self.tasks.ask(&self.id, asked).await? {
            return Ok(false);
        }
        let Some(answers) = self.tasks.answers(&self.id, &fresh).await else { return Ok(false) };
        round.record_answers(
            answers.into_iter().filter_map(|(key, answer)| Some((keys.remove(&key)?, answer))),
        );
        self.call.context.begin_round(round);
        Ok(true)
    }
}

/// The bytes of a request, which its task keeps while it runs.
fn request_bytes(call: &Call) -> usize {
    let headers = call.context.http().into_iter().flat_map(|head| &head.headers);
    let head: usize = headers.map(|(name, value)| name.as_str().len() + value.len()).sum();
    call.params.raw().as_bytes().len() + head
}

/// Returns the result of a task in the form of the newest revision.
fn result(reply: &Reply) -> Result<RawJson, RpcError> {
    if let Reply::CallTool(result) = reply {
        return RawJson::from_serialize(result).map_err(|error| RpcError::internal(error.to_string()));
    }
    let mut out = Vec::new();
    reply
        .encode(&Method::ToolsCall, Revision::LATEST, &ServerStamp::anonymous(), &mut out)
        .map_err(|error| RpcError::internal(error.to_string()))?;
    RawJson::parse(out).map_err(|error| RpcError::internal(error.to_string()))
}

/// Adds the id of the task to a message (TASK-17). Newer revisions have no such field and do not get the message.
fn relate_to_task(mut notification: Notification, id: &str) -> Notification {
    let meta = match &mut notification {
        Notification::Progress(params) => &mut params.meta,
        Notification::LogMessage(params) => &mut params.meta,
        _ => return notification,
    };
    if let Ok(related) = RawJson::from_serialize(&RelatedTask::new(id)) {
        meta.insert(meta_key::RELATED_TASK, related);
    }
    notification
}
