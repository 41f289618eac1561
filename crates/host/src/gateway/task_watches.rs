//! Tasks of servers whose status changes are forwarded to an application.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::{BoxStream, iter};
use hospes::{Call, Context, Outcome};
use hospes_model::{
    GetTaskResult, Method, Notification, RawJson, Reply, RpcError, Task, TaskParams, TaskStatus, code,
};
use hospes_store::{AuditOutcome, DecisionBasis};

use super::gateway_state::ViewLease;
use super::handle::Gateway;
use super::subscription_sink::SubscriptionSink;
use crate::guard::TaskEndReason;
use crate::server::decoded;
use crate::upstream::{ReadyConnection, TaskHold};

/// Maximum number of concurrent `tasks/get` requests to one server.
const ASK_AT_ONCE: usize = 8;

/// Resources and tasks of one server whose changes are subscribed to.
#[derive(Debug, Default)]
pub(super) struct SubscribedItems {
    /// URIs of resources, as their server writes them and as they are shown.
    pub(super) resources: Vec<(String, String)>,
    /// Its tasks that are not over.
    pub(super) tasks: Vec<WatchedTask>,
}

/// A task that is followed.
#[derive(Clone, Debug)]
pub(super) struct WatchedTask {
    /// Its id at its server.
    pub(super) original: String,
    /// Id of the task as it is shown to the application.
    pub(super) shown: String,
    /// Last known state of the task.
    pub(super) last: Option<Task>,
}

/// A watched task as it was when polled, and the server's response.
pub(super) type TaskPollResult = (WatchedTask, Result<Box<GetTaskResult>, RpcError>);

impl Gateway {
    /// Polls the state of tasks.
    pub(super) fn poll_tasks(
        &self,
        live: &Arc<ReadyConnection>,
        tasks: Vec<WatchedTask>,
        context: &Context,
    ) -> BoxStream<'static, TaskPollResult> {
        // Owned copies, because the stream outlives this call.
        let (live, peer) = (Arc::clone(live), Arc::clone(context.peer()));
        let ask = move |task: WatchedTask| {
            let (live, onward) = (Arc::clone(&live), Context::new(Arc::clone(&peer)));
            async move {
                let found = ask(&live, &task.original, onward).await;
                (task, found)
            }
        };
        iter(tasks).map(ask).buffer_unordered(ASK_AT_ONCE).boxed()
    }

    /// Applies the result of [`Gateway::poll_tasks`].
    pub(super) fn apply_poll_result(
        &self,
        place: (usize, &TaskHold),
        asked: &WatchedTask,
        found: Result<Box<GetTaskResult>, RpcError>,
        tasks: &mut Vec<WatchedTask>,
        using: &ViewLease,
        told: &SubscriptionSink<'_>,
    ) {
        let Some(position) = tasks.iter().position(|task| task.original == asked.original) else {
            return;
        };
        let task = &mut tasks[position];
        match found {
            Ok(found) => {
                let is_over = found.task.status.is_terminal();
                match &task.last {
                    // Something newer may have come while the answer was on its way.
                    last if *last != asked.last && !is_over => {}
                    // How it stands its maker knows.
                    None if !is_over => task.last = Some(found.task),
                    Some(last) if *last == found.task => {}
                    _ => self.apply_task_change(place, found, tasks, using, told),
                }
            }
            // The id is the only parameter, so this says that the server knows no such task.
            Err(error) if error.code == code::INVALID_PARAMS => {
                let task = tasks.remove(position);
                place.1.release(&task.original);
                self.notify_task_lost(&task, place.0, told);
            }
            Err(error) => tracing::debug!(%error, "failed to get the status of a task"),
        }
    }

    /// Applies a change of a task. A finished task is no longer watched.
    pub(super) fn apply_task_change(
        &self,
        (server, hold): (usize, &TaskHold),
        mut found: Box<GetTaskResult>,
        tasks: &mut Vec<WatchedTask>,
        using: &ViewLease,
        told: &SubscriptionSink<'_>,
    ) {
        // The profile may have changed since it was followed.
        if !using.sees(server) {
            return;
        }
        let id = &found.task.task_id;
        let Some(position) = tasks.iter().position(|task| task.original == *id) else { return };
        let task = &mut tasks[position];
        let is_over = found.task.status.is_terminal();
        hold.note(&found.task);
        task.last = Some(found.task.clone());
        if let Some(over) = self.over_now(server, &task.shown, &found, told.context) {
            // The error is for callers; whoever follows the task is told by the stream, below.
            let _told = self.end_task(server, (&task.shown, &task.original), told.context, &over.why);
            self.record_of_task(server, &task.shown, told.context, Err(&over.by));
            let task = tasks.remove(position);
            let why = format!("the task was stopped: {}", over.why);
            return self.notify_task_failed(&task, &why, told);
        }
        if let Some(news) = self.ending_to_record(&task.shown, &found) {
            self.record_of_task(server, &task.shown, told.context, Ok(news));
        }
        let receiver = (told.context.peer().as_ref(), &using.catalogue());
        match self.present_task(&mut found, &task.shown, server, receiver) {
            Ok(()) => {
                self.deliver_of_task(server, &task.shown, told.context, &found);
                told.notify(Notification::TasksChanged(found));
            }
            Err(error) => tracing::debug!(%error, "failed to convert a task's result"),
        }
        if is_over {
            tasks.remove(position);
        }
    }

    /// Notifies the application that the server has lost a task. Without this the application would wait forever.
    pub(super) fn notify_task_lost(&self, task: &WatchedTask, server: usize, told: &SubscriptionSink<'_>) {
        let server = &self.shared.upstreams[server].server.name;
        let why = format!("the server `{server}` has lost the task: it disconnected or was restarted");
        self.notify_task_failed(task, &why, told);
    }

    fn notify_task_failed(&self, task: &WatchedTask, why: &str, told: &SubscriptionSink<'_>) {
        // Of one that was never heard of nobody has been told anything either.
        let Some(mut last) = task.last.clone() else { return };
        last.task_id.clone_from(&task.shown);
        last.status = TaskStatus::Failed;
        last.status_message = None;
        let mut lost = GetTaskResult::new(last);
        lost.error = Some(RpcError::internal(why.to_owned()));
        told.notify(Notification::TasksChanged(Box::new(lost)));
    }

    /// Returns the reason that a task has to end after a change, also considering the requests it makes.
    fn over_now(
        &self,
        server: usize,
        shown: &str,
        found: &GetTaskResult,
        context: &Context,
    ) -> Option<TaskEndReason> {
        self.task_end_reason(server, shown, context).or_else(|| {
            let what = self.forbidden_question(server, context, found)?;
            let why = format!("the server requested {what}, which is not allowed here");
            Some(TaskEndReason { by: format!("the server requested {what}"), why })
        })
    }

    /// Records a task status that is reported to an application, or the rule that ended the task.
    fn record_of_task(
        &self,
        server: usize,
        shown: &str,
        context: &Context,
        news: Result<(AuditOutcome, Option<i64>), &str>,
    ) {
        let Some(guard) = &self.shared.guard else { return };
        let server = (&*self.shared.upstreams[server].server.name, self.shared.profile_name(self.scope));
        let origin = self.shared.task_owners.origin(shown);
        let mut note = guard.note_of_task(server, context, origin.as_deref(), shown);
        let (ending, code) = match news {
            Ok(news) => {
                let by = "the call that created the task was allowed";
                note.set_decision("allow", by, DecisionBasis::Host);
                news
            }
            Err(by) => {
                note.set_decision("deny", by, DecisionBasis::Host);
                (AuditOutcome::Refused, None)
            }
        };
        note.end_now(ending, code);
    }
}

async fn ask(live: &ReadyConnection, id: &str, context: Context) -> Result<Box<GetTaskResult>, RpcError> {
    let params = RawJson::from_serialize(&TaskParams::new(id));
    let params = params.map_err(|error| RpcError::internal(error.to_string()))?;
    let call = Call::new(Method::TasksGet, params, context);
    match live.connection.call(call).await {
        Outcome::Complete(reply) => match decoded(&Method::TasksGet, reply)? {
            Reply::GetTask(found) => Ok(found),
            _ => Err(RpcError::internal("unexpected result type for tasks/get")),
        },
        Outcome::InputRequired(_) => {
            Err(RpcError::internal("unexpected input request in response to tasks/get"))
        }
        Outcome::Failed(error) => Err(error),
    }
}
