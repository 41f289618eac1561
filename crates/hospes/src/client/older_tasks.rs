//! Tasks of a server of 2025-11-25, for callers that know those of the newest revision.
//!
//! The result of a task is fetched and put where the newer dialect has it. What the task needs to know the server asks
//! on the call that fetches its result; that call is kept here, with the questions, until the answers come.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hospes_model::{
    Answer, GetTaskResult, InputRequest, InputRequests, Method, RawJson, Reply, RpcError, TaskParams,
    TaskStatus, TaskSupport, UpdateTaskParams, code, meta_key,
};
use hospes_proto::session::client::TimeLimits;

use super::Client;
use super::connect::members;
use super::core::{Core, malformed};
use super::error::CallError;
use super::link::{Ears, LinkEvent, Members, Outgoing};
use super::parked::ParkedCall;
use super::service::next_event;
use super::settings::MAX_PARKED_CALLS;
use crate::service::{Call, Outcome};
use crate::tasks::{TaskWish, not_declared};

/// How long a server that says it needs to know something is given to ask it.
const QUESTION_WAIT: Duration = Duration::from_secs(2);

/// The calls that fetch results and have questions, by their tasks.
#[derive(Debug, Default)]
pub(crate) struct Fetching(Mutex<HashMap<String, Fetch>>);

#[derive(Debug)]
struct Fetch {
    call: ParkedCall,
    number: u64,
}

impl Fetching {
    fn take(&self, id: &str) -> Option<ParkedCall> {
        self.lock().remove(id).map(|fetch| fetch.call)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Fetch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// How an older server takes a call of a tool: with the wish for a task, as it is, or not at all.
    pub(super) async fn older_wish(self: &Arc<Self>, call: &Call) -> Result<Option<Vec<u8>>, CallError> {
        let wish = call.context.task_wish();
        if call.method != Method::ToolsCall {
            return Ok(None);
        }
        let name = call.params.view().name.clone().unwrap_or_default();
        let support = match self.runs_tasks() {
            true => self.support(&Client { core: Arc::clone(self) }, &name).await.ok().flatten(),
            false => None,
        };
        match (support, wish) {
            // TSKX-04: whoever takes no tasks is told what to declare.
            (Some(TaskSupport::Required), TaskWish::None) => Err(CallError::Rpc(not_declared())),
            (_, TaskWish::None) => Ok(None),
            (Some(TaskSupport::Optional | TaskSupport::Required), _) => {
                let ttl = wish.ttl().map(|ttl| format!("\"ttl\":{ttl}")).unwrap_or_default();
                Ok(Some(format!("\"task\":{{{ttl}}}").into_bytes()))
            }
            (_, TaskWish::Asked(_)) => Err(no_task(&name)),
            _ => Ok(None),
        }
    }

    /// Makes a task at an older server.
    pub(super) async fn make_older_task(&self, outgoing: &Outgoing<'_>) -> Result<Outcome, CallError> {
        let raw = self.run(&Outgoing { ears: Ears::Deaf, ..*outgoing }, &mut None).await?;
        match Answer::decode_task(outgoing.method, &raw) {
            Ok(made) => Ok(Outcome::Complete(made.into())),
            // It was done at once after all.
            Err(_) => Ok(Outcome::Complete(Reply::raw(self.speech.revision, raw))),
        }
    }

    /// Answers the methods of tasks with an older server.
    pub(super) async fn older_task(self: &Arc<Self>, call: &Call) -> Result<Outcome, CallError> {
        let reply = match call.method {
            Method::TasksGet => {
                let TaskParams { task_id, .. } = call.decode().map_err(CallError::Rpc)?;
                self.older_status(call, &task_id).await?.into()
            }
            Method::TasksUpdate => {
                let UpdateTaskParams { task_id, input_responses, .. } =
                    call.decode().map_err(CallError::Rpc)?;
                match self.tasks.fetching.take(&task_id) {
                    Some(mut fetch) => {
                        fetch.answer(&input_responses, &BTreeMap::new(), self.speech.revision);
                        self.keep(&task_id, fetch)?;
                    }
                    // That there is such a task, at least.
                    None => drop(self.task(&task_id).await?),
                }
                Reply::Empty
            }
            _ => {
                let params: TaskParams = call.decode().map_err(CallError::Rpc)?;
                drop(self.tasks.fetching.take(&params.task_id));
                match self.ask_task(&Method::TasksCancel, &params.task_id, &params, self.settings.times).await
                {
                    // What is over is acknowledged here, and refused there.
                    Err(CallError::Rpc(error)) if error.code == code::INVALID_PARAMS => {
                        drop(self.task(&params.task_id).await?);
                    }
                    done => drop(done?),
                }
                Reply::Empty
            }
        };
        Ok(Outcome::Complete(reply))
    }

    /// How a task stands, with what it has come to, or needs to know.
    pub(super) async fn older_status(
        self: &Arc<Self>,
        call: &Call,
        id: &str,
    ) -> Result<GetTaskResult, CallError> {
        let task = self.task(id).await?.task;
        let mut found = GetTaskResult::new(task);
        match found.task.status {
            TaskStatus::Completed | TaskStatus::Failed => {
                drop(self.tasks.fetching.take(id));
                match self.fetch(id).await {
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
            TaskStatus::InputRequired => found.input_requests = self.questions(call, id).await?,
            _ => {}
        }
        Ok(found)
    }

    /// What a task that is over has come to, in the words of the newest revision.
    async fn fetch(&self, id: &str) -> Result<RawJson, CallError> {
        let raw = self.ask_task(&Method::TasksResult, id, &TaskParams::new(id), self.settings.times).await;
        let raw = raw.map_err(|error| self.lift_error(&Method::ToolsCall, error))?;
        match self.decode(&Method::ToolsCall, &raw)? {
            Answer::Complete(Reply::CallTool(mut result)) => {
                result.meta.remove(meta_key::RELATED_TASK);
                RawJson::from_serialize(&result).map_err(|error| CallError::Arguments(Arc::new(error)))
            }
            _ => Err(malformed(&Method::TasksResult, "the result is no tool's")),
        }
    }

    /// The questions that a task waits with.
    async fn questions(self: &Arc<Self>, call: &Call, id: &str) -> Result<InputRequests, CallError> {
        let mut fetch = match self.tasks.fetching.take(id) {
            Some(fetch) => fetch,
            None => {
                let text = members(&TaskParams::new(id))?;
                let outgoing = Outgoing {
                    name: Some(id),
                    members: Members::Text(&text),
                    ears: Ears::Questions,
                    principal: call.context.peer().principal.as_ref(),
                    ..Outgoing::new(&Method::TasksResult, TimeLimits::NONE)
                };
                let link_call = self.link.open(&outgoing, &self.speech).await?;
                let reply = self.link.reply_to(&link_call);
                ParkedCall::new(link_call, reply, call.context.peer().principal.clone())
            }
        };
        let mut open = fetch.answer(&BTreeMap::new(), &BTreeMap::new(), self.speech.revision);
        let listening = async {
            loop {
                match next_event(&mut fetch.call, !open.is_empty()).await {
                    Some(LinkEvent::Question(id, method, params)) => {
                        let params = params.unwrap_or_else(RawJson::empty_object);
                        match InputRequest::decode(&method, &params) {
                            Ok(request)
                                if request.required_capability(&call.context.peer().capabilities).is_ok() =>
                            {
                                open.push((fetch.ask(id, request.clone()), request));
                            }
                            _ => self.desk.request(id, method, Some(params), fetch.reply_to()),
                        }
                    }
                    Some(LinkEvent::Notification(..)) => {}
                    // It has ended meanwhile; the next look will find what it has come to.
                    Some(LinkEvent::Done(_)) => return false,
                    None => return true,
                }
            }
        };
        let goes_on = tokio::time::timeout(QUESTION_WAIT, listening).await.unwrap_or(true);
        if goes_on {
            self.keep(id, fetch)?;
        }
        Ok(open.into_iter().collect())
    }

    /// Keeps a call that has questions, for as long as the setting `park_timeout` says.
    fn keep(self: &Arc<Self>, id: &str, call: ParkedCall) -> Result<(), CallError> {
        let mut calls = self.tasks.fetching.lock();
        if calls.len() >= MAX_PARKED_CALLS {
            let what = "tasks with questions";
            return Err(CallError::TooMany { what, max: MAX_PARKED_CALLS, setting: "MAX_PARKED_CALLS" });
        }
        let number = self.tasks.next();
        calls.insert(id.to_owned(), Fetch { call, number });
        drop(calls);
        let (weak, id, limit) = (Arc::downgrade(self), id.to_owned(), self.settings.park_timeout);
        tokio::spawn(async move {
            tokio::time::sleep(limit).await;
            let Some(core) = weak.upgrade() else { return };
            let mut calls = core.tasks.fetching.lock();
            if calls.get(&id).is_some_and(|fetch| fetch.number == number) {
                let gone = calls.remove(&id);
                drop(calls);
                drop(gone);
            }
        });
        Ok(())
    }
}

/// TASK-06: a tool that is not run as a task, or only when its server decides so.
pub(super) fn no_task(name: &str) -> CallError {
    CallError::Rpc(RpcError::new(code::METHOD_NOT_FOUND, format!("the tool {name} is not run as a task")))
}
