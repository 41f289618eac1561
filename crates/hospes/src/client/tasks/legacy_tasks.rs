//! Tasks of a server of 2025-11-25, for callers that know those of the newest revision.
//!
//! The result of a task is fetched and put where the newer dialect has it. What the task needs to know the server asks
//! on the call that fetches its result; that call is kept here, with the questions, until the answers come.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use hospes_model::{
    GetTaskResult, InputRequest, InputRequests, Method, PeerResult, RawJson, Reply, RpcError, TaskParams,
    TaskStatus, TaskSupport, UpdateTaskParams, code, meta_key,
};
use hospes_proto::session::client::TimeLimits;

use crate::client::connection::core::ClientCore;
use crate::client::connection::handle::Client;
use crate::client::connection::parked_calls::ParkedCall;
use crate::client::connection::task_state::TaskResultFetch;
use crate::client::error::CallError;
use crate::client::error::malformed;
use crate::client::link::json_members;
use crate::client::link::{EventInterest, LinkEvent, OutgoingParams, OutgoingRequest};
use crate::service::{Call, Outcome};
use crate::tasks::{TaskPreference, tasks_not_declared};

/// Time a server has to send its question after a task reports `input_required`.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(2);

impl ClientCore {
    /// Returns the `task` member for a tool call to an older server, or none for a normal call. Returns an error if the
    /// call cannot be made.
    pub(crate) async fn build_legacy_task_param(
        self: &Arc<Self>,
        call: &Call,
    ) -> Result<Option<Vec<u8>>, CallError> {
        let wish = call.context.task_wish();
        if call.method != Method::ToolsCall {
            return Ok(None);
        }
        let name = call.params.view().name.clone().unwrap_or_default();
        let support = match self.supports_legacy_tasks() {
            true => self.find_task_support(&Client { core: Arc::clone(self) }, &name).await.ok().flatten(),
            false => None,
        };
        match (support, wish) {
            // TSKX-04: whoever takes no tasks is told what to declare.
            (Some(TaskSupport::Required), TaskPreference::None) => Err(CallError::Rpc(tasks_not_declared())),
            (_, TaskPreference::None) => Ok(None),
            (Some(TaskSupport::Optional | TaskSupport::Required), _) => {
                let ttl = wish.ttl().map(|ttl| format!("\"ttl\":{ttl}")).unwrap_or_default();
                Ok(Some(format!("\"task\":{{{ttl}}}").into_bytes()))
            }
            (_, TaskPreference::Asked(_)) => Err(no_task_error(&name)),
            _ => Ok(None),
        }
    }

    /// Creates a task on an older server.
    pub(crate) async fn create_legacy_task(
        &self,
        outgoing: &OutgoingRequest<'_>,
    ) -> Result<Outcome, CallError> {
        let raw = self
            .send_request(&OutgoingRequest { interest: EventInterest::AnswerOnly, ..*outgoing }, &mut None)
            .await?;
        match PeerResult::decode_task(outgoing.method, &raw) {
            Ok(made) => Ok(Outcome::Complete(made.into())),
            // It was done at once after all.
            Err(_) => Ok(Outcome::Complete(Reply::raw(self.protocol.revision, raw))),
        }
    }

    /// Answers the methods of tasks with an older server.
    pub(crate) async fn serve_legacy_task_method(
        self: &Arc<Self>,
        call: &Call,
    ) -> Result<Outcome, CallError> {
        let reply = match call.method {
            Method::TasksGet => {
                let TaskParams { task_id, .. } = call.decode().map_err(CallError::Rpc)?;
                self.get_legacy_task(call, &task_id).await?.into()
            }
            Method::TasksUpdate => {
                let UpdateTaskParams { task_id, input_responses, .. } =
                    call.decode().map_err(CallError::Rpc)?;
                if !self.answer_task_questions(&task_id, &input_responses).await.map_err(CallError::Rpc)? {
                    // That there is such a task, at least.
                    drop(self.get_task(&task_id).await?);
                }
                Reply::Empty
            }
            _ => {
                let params: TaskParams = call.decode().map_err(CallError::Rpc)?;
                self.tasks.fetching.remove(&params.task_id);
                match self
                    .send_task_request(&Method::TasksCancel, &params.task_id, &params, self.settings.times)
                    .await
                {
                    // What is over is acknowledged here, and refused there.
                    Err(CallError::Rpc(error)) if error.code == code::INVALID_PARAMS => {
                        drop(self.get_task(&params.task_id).await?);
                    }
                    done => drop(done?),
                }
                Reply::Empty
            }
        };
        Ok(Outcome::Complete(reply))
    }

    /// Returns the status of a task with its result, its error or its questions.
    async fn get_legacy_task(self: &Arc<Self>, call: &Call, id: &str) -> Result<GetTaskResult, CallError> {
        let mut found = GetTaskResult::new(self.get_task(id).await?.task);
        self.add_task_outcome(call, &mut found).await?;
        Ok(found)
    }

    /// Adds what the task has come to, or needs to know.
    pub(crate) async fn add_task_outcome(
        self: &Arc<Self>,
        call: &Call,
        found: &mut GetTaskResult,
    ) -> Result<(), CallError> {
        let id = found.task.task_id.clone();
        match found.task.status {
            TaskStatus::Completed | TaskStatus::Failed => {
                self.tasks.fetching.remove(&id);
                match self.fetch_task_result(&id).await {
                    Ok(result) => {
                        // TSKX-14: a tool that failed has completed its task.
                        found.task.status = TaskStatus::Completed;
                        found.result = Some(result);
                    }
                    Err(CallError::Rpc(error)) => {
                        found.task.status = TaskStatus::Failed;
                        found.error = Some(error);
                    }
                    Err(error) => return Err(error),
                }
            }
            TaskStatus::InputRequired => found.input_requests = self.fetch_task_questions(call, &id).await?,
            _ => {}
        }
        Ok(())
    }

    /// Fetches the result of a finished task and converts it to the newest revision.
    async fn fetch_task_result(&self, id: &str) -> Result<RawJson, CallError> {
        let raw =
            self.send_task_request(&Method::TasksResult, id, &TaskParams::new(id), self.settings.times).await;
        let raw = raw.map_err(|error| self.upgrade_error(&Method::ToolsCall, error))?;
        match self.decode(&Method::ToolsCall, &raw)? {
            PeerResult::Complete(Reply::CallTool(mut result)) => {
                result.meta.remove(meta_key::RELATED_TASK);
                RawJson::from_serialize(&result).map_err(|error| CallError::Arguments(Arc::new(error)))
            }
            _ => Err(malformed(&Method::TasksResult, "the result is not a tool result")),
        }
    }

    /// The questions that a task waits with.
    async fn fetch_task_questions(
        self: &Arc<Self>,
        call: &Call,
        id: &str,
    ) -> Result<InputRequests, CallError> {
        let (fetch, is_new) = self.tasks.fetching.get_or_insert(id)?;
        // Before the first `await`: an entry whose poll is given up must time out as well.
        if is_new {
            self.start_park_timer(id, &fetch);
        }
        // Before the lock, to learn whether another poll ended
        // while this one waited; the lock orders the counter.
        let looks = fetch.looks.load(Ordering::Relaxed);
        let mut place = fetch.call.lock().await;
        if !self.tasks.fetching.contains(id, &fetch) {
            // The task has ended meanwhile, or was cancelled.
            return Ok(InputRequests::new());
        }
        // Whoever looked in between has waited for the others too.
        let waits = fetch.looks.load(Ordering::Relaxed) == looks;
        let mut open = Vec::new();
        let looking = async {
            if place.is_none() {
                *place = Some(self.open_result_fetch(call, id).await?);
            }
            let Some(parked) = &mut *place else { return Ok(false) };
            open = parked.answer_questions(&BTreeMap::new(), &BTreeMap::new(), self.protocol.revision);
            loop {
                match parked.call.next_event(!open.is_empty() || !waits).await {
                    Some(LinkEvent::Question(id, method, params)) => {
                        let params = params.unwrap_or_else(RawJson::empty_object);
                        match InputRequest::decode(&method, &params) {
                            Ok(request)
                                if request
                                    .check_required_capability(call.context.answerable_capabilities())
                                    .is_ok() =>
                            {
                                open.push((parked.add_question(id, request.clone()), request));
                            }
                            _ => self.dispatcher.handle_request(id, method, Some(params), parked.reply_to()),
                        }
                    }
                    Some(LinkEvent::Notification(..)) => {}
                    // It has ended meanwhile; the next look will find what it has come to.
                    Some(LinkEvent::Done(_)) => return Ok(false),
                    None => return Ok(true),
                }
            }
        };
        // A question that does not come in time is no error: the call is kept, and the next poll looks again.
        let goes_on = tokio::time::timeout(QUESTION_TIMEOUT, looking).await.unwrap_or(Ok(true));
        fetch.looks.fetch_add(1, Ordering::Relaxed);
        if matches!(goes_on, Ok(true)) {
            self.start_park_timer(id, &fetch);
        } else {
            *place = None;
            self.tasks.fetching.remove_if_same(id, &fetch);
        }
        goes_on.map(|_| open.into_iter().collect())
    }

    async fn open_result_fetch(&self, call: &Call, id: &str) -> Result<ParkedCall, CallError> {
        let text = json_members(&TaskParams::new(id))?;
        let outgoing = OutgoingRequest {
            name: Some(id),
            members: OutgoingParams::Text(&text),
            interest: EventInterest::NotificationsAndRequests,
            principal: call.context.peer().principal.as_ref(),
            // `tasks/result` blocks until the task ends (TASK-15); what bounds the wait is `hold`.
            ..OutgoingRequest::new(&Method::TasksResult, TimeLimits::NONE)
        };
        let link_call = self.link.open(&outgoing, &self.protocol).await?;
        Ok(ParkedCall::new(link_call, call.context.peer().principal.clone()))
    }

    /// Hands answers to a task's questions on; false where it has asked nothing here. What is no answer uses up no
    /// question.
    async fn answer_task_questions(
        self: &Arc<Self>,
        id: &str,
        answers: &BTreeMap<String, RawJson>,
    ) -> Result<bool, RpcError> {
        let Some(fetch) = self.tasks.fetching.find(id) else { return Ok(false) };
        let mut place = fetch.call.lock().await;
        let Some(parked) = &mut *place else { return Ok(false) };
        if let Some(error) = parked.find_malformed_answer(answers) {
            return Err(error);
        }
        parked.answer_questions(answers, &BTreeMap::new(), self.protocol.revision);
        self.start_park_timer(id, &fetch);
        Ok(true)
    }

    /// Keeps a call that has questions, for as long as the setting `park_timeout` says.
    fn start_park_timer(self: &Arc<Self>, id: &str, fetch: &Arc<TaskResultFetch>) {
        // Weak: a timer keeps neither the connection nor a call that is over.
        let (core, held, limit) = (Arc::downgrade(self), Arc::downgrade(fetch), self.settings.park_timeout);
        let id = id.to_owned();
        let timer = tokio::spawn(async move {
            tokio::time::sleep(limit).await;
            if let (Some(core), Some(fetch)) = (core.upgrade(), held.upgrade()) {
                core.tasks.fetching.remove_if_same(&id, &fetch);
            }
        });
        let mut place = fetch.timer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = place.replace(timer.abort_handle()) {
            old.abort();
        }
    }
}

/// TASK-06: a tool that is not run as a task, or only when its server decides so.
pub(crate) fn no_task_error(name: &str) -> CallError {
    CallError::Rpc(RpcError::new(code::METHOD_NOT_FOUND, format!("the tool {name} does not support tasks")))
}
