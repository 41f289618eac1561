//! Tasks through the gateway: created, queried and cancelled at their servers, under ids that contain the server.

use std::sync::Arc;
use std::time::Duration;

use hospes::tasks::tasks_not_declared;
use hospes::{Call, Context, Outcome, Peer};
use hospes_model::{
    CallToolResult, GetTaskResult, Method, RawJson, Reply, Revision, RpcError, TASKS_EXTENSION, Task,
    TaskParams, TaskStatus, UpdateTaskParams, code,
};
use hospes_store::{AuditOutcome, DecisionBasis};
use tokio::time::timeout;

use super::forward::ForwardRoute;
use super::gateway_state::ViewLease;
use super::handle::Gateway;
use super::rewrite::not_an_object;
use super::task_ids::TaskId;
use super::{elicitation, rewrite};
use crate::catalogue::MergedCatalogue;
use crate::guard::{PendingAuditEntry, TaskEndReason, TaskOrigin};
use crate::server::decoded;

/// Time limit for a server to cancel a task that has to end.
const END_WAIT: Duration = Duration::from_secs(10);

impl Gateway {
    /// Answers `tasks/get`, `tasks/update` and `tasks/cancel`.
    pub(super) async fn handle_task_request(
        &self,
        call: Call,
        using: &ViewLease,
    ) -> Result<Outcome, RpcError> {
        if !call.context.peer().capabilities.has_extension(TASKS_EXTENSION) {
            return Err(tasks_not_declared());
        }
        let Some(shown) = call.params.view().task_id.as_deref().map(str::to_owned) else {
            let why = format!("{} requires `taskId`, a string", call.method);
            return Err(RpcError::invalid_params(why));
        };
        self.recall_task(&shown).await;
        let (server, original) = self.resolve_task(&shown, &call.context)?;
        if !using.sees(server) {
            return Err(RpcError::invalid_params("unknown or expired task"));
        }
        let mut note = self.note_of_task(server, &shown, &call.context).await?;
        if let Some(gate) = &self.shared.upstreams[server].server.gate
            && let Some(why) = gate.server_block_reason()
        {
            let name = &self.shared.upstreams[server].server.name;
            refuse(note.take(), why.as_str()).await;
            return Err(RpcError::invalid_request(why.message(name)));
        }
        // Whoever cancels it ends it, too.
        if call.method != Method::TasksCancel
            && let Some(over) = self.request_end_reason(server, &shown, &call).await
        {
            refuse(note.take(), &over.by).await;
            return Err(self.end_task(server, (&shown, &original), &call.context, &over.why));
        }
        let outcome = self.forward_task_request(&call, (server, &shown, &original), using, &mut note).await;
        if let Some(note) = note {
            match &outcome {
                Ok(_) => note.end(AuditOutcome::Done, None).await,
                Err(error) => note.end(AuditOutcome::Failed, Some(error.code)).await,
            }
        }
        outcome
    }

    /// Forwards the request to the task's server. Takes the entry out of `note` if it is recorded differently from a
    /// call.
    async fn forward_task_request(
        &self,
        call: &Call,
        (server, shown, original): (usize, &str, &str),
        using: &ViewLease,
        note: &mut Option<PendingAuditEntry>,
    ) -> Result<Outcome, RpcError> {
        let reached = self.reach(server, using).await?;
        let catalogue = using.catalogue();
        let params = rewrite::with_text(call.params.raw(), "taskId", original);
        let params = params.map_err(|error| not_an_object(&error))?;
        let method = call.method.clone();
        let hold = reached.lease.tasks();
        let asks = method == Method::TasksGet;
        let way = ForwardRoute { server, reached, catalogue: Arc::clone(&catalogue) };
        let onward = Call::new(method.clone(), call.params.raw().clone(), call.context.clone());
        let outcome = match self.forward(onward, params, way).await {
            // To an update it may be the answers that are wrong.
            Err(error) if error.code == code::INVALID_PARAMS && asks => {
                // There is no such task any more.
                hold.release(original);
                if !self.ended_with_its_node(shown).await {
                    return Err(error);
                }
                let lost = self.task_lost_with_its_node(shown, original);
                Outcome::Complete(Reply::GetTask(Box::new(lost)))
            }
            outcome => outcome?,
        };
        match (outcome, method) {
            (Outcome::Complete(reply), Method::TasksGet) => {
                let Reply::GetTask(mut found) = decoded(&Method::TasksGet, reply)? else {
                    return Err(RpcError::internal("unexpected result type for tasks/get"));
                };
                hold.note(&found.task);
                if let Some(what) = self.forbidden_question(server, &call.context, &found) {
                    refuse(note.take(), &format!("the server requested {what}")).await;
                    let why = format!("the server requested {what}, which is not allowed here");
                    return Err(self.end_task(server, (shown, original), &call.context, &why));
                }
                self.present_task(&mut found, shown, server, (call.context.peer(), &catalogue))?;
                self.deliver_of_task(server, shown, &call.context, &found);
                if let Some(note) = note.take() {
                    match self.ending_to_record(shown, &found) {
                        Some((ending, code)) => note.end(ending, code).await,
                        None => note.discard(),
                    }
                }
                Ok(Outcome::Complete(Reply::GetTask(found)))
            }
            (outcome @ Outcome::Complete(_), Method::TasksCancel) => {
                hold.release(original);
                Ok(outcome)
            }
            (outcome, _) => Ok(outcome),
        }
    }

    /// Begins an audit entry for an operation on a task. Returns `None` if nothing is recorded.
    pub(super) async fn note_of_task(
        &self,
        server: usize,
        shown: &str,
        context: &Context,
    ) -> Result<Option<PendingAuditEntry>, RpcError> {
        let Some(guard) = &self.shared.guard else { return Ok(None) };
        if let Some(audit) = guard.audit()
            && let Err(error) = audit.check_writable().await
        {
            tracing::error!(%error, "task request refused because it cannot be recorded");
            return Err(RpcError::internal("task requests cannot be recorded at the moment"));
        }
        let server = (&*self.shared.upstreams[server].server.name, self.shared.profile_name(self.scope));
        let origin = self.shared.task_owners.origin(shown);
        let mut note = guard.note_of_task(server, context, origin.as_deref(), shown);
        let by = "the call that created the task was allowed";
        note.set_decision("allow", by, DecisionBasis::Host);
        Ok(Some(note))
    }

    /// Returns the reason that a task has to end, if there is one.
    pub(super) fn task_end_reason(
        &self,
        server: usize,
        shown: &str,
        context: &Context,
    ) -> Option<TaskEndReason> {
        let guard = self.shared.guard.as_ref()?;
        let origin = self.shared.task_owners.origin(shown)?;
        let server = &self.shared.upstreams[server].server;
        guard.task_end_reason((&server.name, &server.target), context, &origin)
    }

    /// Returns the reason that a request on a task is refused. Answers are not forwarded to a server that may not
    /// receive them.
    async fn request_end_reason(&self, server: usize, shown: &str, call: &Call) -> Option<TaskEndReason> {
        if let Some(over) = self.task_end_reason(server, shown, &call.context) {
            return Some(over);
        }
        let guard = self.shared.guard.as_ref().filter(|_| call.method == Method::TasksUpdate)?;
        let server = &self.shared.upstreams[server].server;
        if let Some(origin) = self.shared.task_owners.origin(shown)
            && let Some(over) = guard.withholds_from_task(server, &call.context, &origin).await
        {
            return Some(over);
        }
        let params: UpdateTaskParams = call.decode().ok()?;
        let server = &server.name;
        let what = guard.forbidden_answer(server, &call.context, &params.input_responses)?;
        let why = format!("the server requested {what}, which is not allowed here");
        Some(TaskEndReason { by: format!("the server requested {what}"), why })
    }

    /// Returns a description of the first request of a task that its server may not make.
    pub(super) fn forbidden_question(
        &self,
        server: usize,
        context: &Context,
        found: &GetTaskResult,
    ) -> Option<&'static str> {
        if let Some(why) = elicitation::refusal(found.input_requests.values()) {
            tracing::warn!(server = %self.shared.upstreams[server].server.name, %why, "elicitation of a task rejected");
            return Some("an unsafe elicitation");
        }
        let guard = self.shared.guard.as_ref()?;
        let server = &self.shared.upstreams[server].server.name;
        guard.forbidden_question(server, context, found.input_requests.values())
    }

    /// Records in the session's data flow that the result of a task is delivered to the caller.
    pub(super) fn deliver_of_task(
        &self,
        server: usize,
        shown: &str,
        context: &Context,
        found: &GetTaskResult,
    ) {
        let Some(guard) = &self.shared.guard else { return };
        if (found.result.is_some() || found.error.is_some())
            && let Some(origin) = self.shared.task_owners.origin(shown)
        {
            guard.deliver_of_task(&self.shared.upstreams[server].server, context, &origin, || {
                found.result.clone().or_else(|| RawJson::from_serialize(&found.error).ok())
            });
        }
    }

    /// Returns the ending to record for a task's status, if it has to be recorded.
    pub(super) fn ending_to_record(
        &self,
        shown: &str,
        found: &GetTaskResult,
    ) -> Option<(AuditOutcome, Option<i64>)> {
        let status = &found.task.status;
        if !self.shared.task_owners.is_news(shown, status) {
            return None;
        }
        let failed = || found.result.as_ref().and_then(|raw| raw.decode::<CallToolResult>().ok()?.is_error);
        Some(match status {
            TaskStatus::InputRequired => (AuditOutcome::Asked, None),
            TaskStatus::Cancelled => (AuditOutcome::Cancelled, None),
            TaskStatus::Failed => (AuditOutcome::Failed, found.error.as_ref().map(|error| error.code)),
            _ if failed() == Some(true) => (AuditOutcome::ToolError, None),
            _ => (AuditOutcome::Done, None),
        })
    }

    /// Cancels a task at its server in the background. Returns the error for the caller.
    pub(super) fn end_task(
        &self,
        server: usize,
        (shown, original): (&str, &str),
        context: &Context,
        why: &str,
    ) -> RpcError {
        let name = &self.shared.upstreams[server].server.name;
        let told = RpcError::invalid_request(format!("the task of the server `{name}` was stopped: {why}"));
        // Each request for the task comes here, and one cancellation is enough.
        if !self.shared.task_owners.end(shown) {
            return told;
        }
        let (gateway, peer, original) = (self.clone(), Arc::clone(context.peer()), original.to_owned());
        // In the background: the refusal does not wait for the server, and cancelling outlives the request.
        tokio::spawn(async move {
            let ending = async {
                let using = gateway.shared.view(&peer, gateway.scope).ok()?;
                let mut reached = gateway.reach(server, &using).await.ok()?;
                let params = RawJson::from_serialize(&TaskParams::new(&original)).ok()?;
                let cancel = Call::new(Method::TasksCancel, params, Context::new(peer));
                let outcome = reached.live.connection.call(cancel).await;
                // Whatever the server answers: nobody waits for the task any more, so it keeps no connection.
                reached.lease.tasks().release(&original);
                reached.lease.finish();
                matches!(outcome, Outcome::Complete(_)).then_some(())
            };
            if !matches!(timeout(END_WAIT, ending).await, Ok(Some(()))) {
                tracing::warn!(server, "failed to cancel a stopped task at its server");
            }
        });
        told
    }

    /// Names the task that a call has become so that it can be found again.
    pub(super) async fn register_created_task(
        &self,
        outcome: Outcome,
        server: usize,
        context: &Context,
        origin: Option<TaskOrigin>,
    ) -> Outcome {
        let Outcome::Complete(Reply::CreateTask(mut made)) = outcome else { return outcome };
        let node = self.node_of_new_task(server);
        let server = &self.shared.upstreams[server].server;
        let prefixes = self.shared.upstreams.prefixes();
        let Some(prefix) = prefixes.of(&server.name) else {
            return RpcError::internal("the server is not known to the gateway").into();
        };
        let profile = server.profile.as_deref();
        let id = TaskId { prefix: prefix.as_str(), profile, node: node.as_deref(), own: &made.task.task_id };
        made.task.task_id = id.shown();
        let id = &made.task.task_id;
        self.shared.task_owners.note(&made.task, context, origin);
        // Before whoever waits for it has its id.
        if let Some(tasks) = &self.shared.tasks
            && let Some(body) = self.shared.task_owners.kept(id, &server.target)
            && let Err(error) = tasks.insert(id.clone(), body).await
        {
            tracing::warn!(%error, "failed to store a task; it will be lost when this host stops");
        }
        Outcome::Complete(Reply::CreateTask(made))
    }

    /// Looks up a task that began before this host did.
    pub(super) async fn recall_task(&self, shown: &str) {
        let Some(tasks) = self.shared.tasks.as_ref().filter(|_| !self.shared.task_owners.knows(shown)) else {
            return;
        };
        let Some((server, _)) = self.task_server(shown) else { return };
        match tasks.find(shown.to_owned()).await {
            Ok(Some(kept)) => {
                let target = &self.shared.upstreams[server].server.target;
                self.shared.task_owners.recall(shown, target, &kept);
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "failed to read a stored task"),
        }
    }

    /// Returns the server that the shown id of a task names, if the gateway shows it, and the id at that server.
    fn task_server<'i>(&self, shown: &'i str) -> Option<(usize, &'i str)> {
        let TaskId { prefix, profile, own, .. } = TaskId::parse(shown)?;
        let (prefixes, upstreams) = (self.shared.upstreams.prefixes(), &self.shared.upstreams);
        let fits = |position: usize| {
            upstreams[position].server.profile.as_deref() == profile && self.shared.sees(self.scope, position)
        };
        Some((upstreams.position_where(prefixes.server(prefix)?, fits)?, own))
    }

    /// Creates the last state of a task whose process ended with its node. The id is that at its server.
    fn task_lost_with_its_node(&self, shown: &str, original: &str) -> GetTaskResult {
        let why = "the node that ran the task has ended, and the server does not know the task any more";
        let now = jiff::Timestamp::now().to_string();
        let mut task =
            Task::new(original, self.shared.task_owners.created_at(shown).unwrap_or_else(|| now.clone()));
        (task.status, task.status_message, task.last_updated_at) =
            (TaskStatus::Failed, Some(why.to_owned()), now);
        let mut lost = GetTaskResult::new(task);
        lost.error = Some(RpcError::internal(why));
        lost
    }

    /// Returns the server of a task and the task's id there.
    pub(super) fn resolve_task(&self, shown: &str, context: &Context) -> Result<(usize, String), RpcError> {
        let place = || {
            let (server, id) = self.task_server(shown)?;
            // Where calls are judged, a task whose call was not is none.
            let guard = self.shared.guard.as_ref();
            let is_known = self.shared.task_owners.origin(shown).is_some()
                || !guard.is_some_and(|guard| guard.wants_origins());
            let is_theirs = self.shared.task_owners.allows(shown, context);
            (is_known && is_theirs).then(|| (server, id.to_owned()))
        };
        // One answer to both: nobody learns from it that a task of somebody else exists.
        place().ok_or_else(|| RpcError::invalid_params("unknown or expired task"))
    }

    /// Converts a task for the application: with its shown id, and with URIs that route back to its server.
    pub(super) fn present_task(
        &self,
        found: &mut GetTaskResult,
        shown: &str,
        server: usize,
        (peer, catalogue): (&Peer, &Arc<MergedCatalogue>),
    ) -> Result<(), RpcError> {
        found.task.task_id = shown.to_owned();
        let label = self.shared.upstreams[server].server.label();
        for request in found.input_requests.values_mut() {
            let presented = elicitation::present(&label, request.clone());
            *request = presented.map_err(|why| why.to_rpc_error())?;
        }
        if let Some(result) = found.result.take() {
            let name = &*self.shared.upstreams[server].server.name;
            let reply = Reply::raw(Revision::LATEST, result.clone());
            let reply = self.present_reply(&Method::ToolsCall, reply, name, catalogue)?;
            let reply = self.check_reply(peer, &Method::ToolsCall, (server, None), catalogue, reply);
            found.result = match reply {
                Reply::CallTool(result) => hospes_model::RawJson::from_serialize(&result).ok(),
                _ => Some(result),
            };
        }
        Ok(())
    }
}

async fn refuse(note: Option<PendingAuditEntry>, by: &str) {
    if let Some(mut note) = note {
        note.set_decision("deny", by, DecisionBasis::Host);
        note.end(AuditOutcome::Refused, None).await;
    }
}
