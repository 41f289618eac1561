//! Tasks through the gateway: they are made, asked for and cancelled at their servers, under ids that say where that is.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use hospes::tasks::not_declared;
use hospes::{Call, Context, Outcome};
use hospes_model::{GetTaskResult, Method, Reply, Revision, RpcError, TASKS_EXTENSION, code};

use super::forward::Way;
use super::{Gateway, InUse, not_an_object, rewrite};
use crate::catalogue::Catalogue;
use crate::catalogue::names::SEPARATOR;
use crate::upstream::decoded;

/// The most tasks whose owners are remembered; then the oldest are forgotten, and with them who may ask for them.
const MAX_OWNED: usize = 10_000;

/// Whose tasks these are, where people sign in: servers behind the gateway cannot tell its applications apart.
#[derive(Debug, Default)]
pub(crate) struct Owners(Mutex<Owned>);

#[derive(Debug, Default)]
struct Owned {
    owners: HashMap<String, Arc<str>>,
    order: VecDeque<String>,
}

impl Owners {
    fn note(&self, id: &str, context: &Context) {
        let Some(owner) = context.peer().principal.clone() else { return };
        let mut owned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if owned.order.len() >= MAX_OWNED
            && let Some(oldest) = owned.order.pop_front()
        {
            owned.owners.remove(&oldest);
        }
        owned.order.push_back(id.to_owned());
        owned.owners.insert(id.to_owned(), owner);
    }

    /// Whether the caller may ask for the task. Nobody's is for those who are not signed in.
    fn allows(&self, id: &str, context: &Context) -> bool {
        let owned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        owned.owners.get(id).map(|owner| &**owner) == context.principal()
    }
}

impl Gateway {
    /// Answers `tasks/get`, `tasks/update` and `tasks/cancel`.
    pub(super) async fn task(&self, call: Call, using: &InUse) -> Result<Outcome, RpcError> {
        if !call.context.peer().capabilities.has_extension(TASKS_EXTENSION) {
            return Err(not_declared());
        }
        let Some(shown) = call.params.view().task_id.as_deref().map(str::to_owned) else {
            let why = format!("{} wants the task's `taskId`, a string", call.method);
            return Err(RpcError::invalid_params(why));
        };
        let (server, original) = self.task_place(&shown, &call.context)?;
        if let Some(gate) = &self.shared.upstreams[server].server.gate
            && let Some(why) = gate.whole()
        {
            let name = &self.shared.upstreams[server].server.name;
            return Err(RpcError::invalid_request(why.words(name)));
        }
        let reached = self.reach(server, using).await?;
        let catalogue = using.catalogue();
        let params = rewrite::with_text(call.params.raw(), "taskId", &original);
        let params = params.map_err(|error| not_an_object(&error))?;
        let method = call.method.clone();
        let hold = reached.lease.tasks();
        let asks = method == Method::TasksGet;
        let way = Way { server, reached, catalogue: Arc::clone(&catalogue) };
        let outcome = self.forward(call, params, way).await.inspect_err(|error| {
            // To an update it may be the answers that are wrong.
            if error.code == code::INVALID_PARAMS && asks {
                // There is no such task any more.
                hold.release(&original);
            }
        })?;
        match (outcome, method) {
            (Outcome::Complete(reply), Method::TasksGet) => {
                let Reply::GetTask(mut found) = decoded(&Method::TasksGet, reply)? else {
                    return Err(RpcError::internal("tasks/get was answered with something else"));
                };
                hold.note(&found.task);
                self.show_task(&mut found, &shown, server, &catalogue)?;
                Ok(Outcome::Complete(Reply::GetTask(found)))
            }
            (outcome @ Outcome::Complete(_), Method::TasksCancel) => {
                hold.release(&original);
                Ok(outcome)
            }
            (outcome, _) => Ok(outcome),
        }
    }

    /// Names the task that a call has become so that it can be found again.
    pub(super) fn show_made(&self, outcome: Outcome, server: usize, context: &Context) -> Outcome {
        let Outcome::Complete(Reply::CreateTask(mut made)) = outcome else { return outcome };
        let server = &self.shared.upstreams[server].server.name;
        let Some(prefix) = self.shared.prefixes.of(server) else {
            return RpcError::internal("a server without a place").into();
        };
        made.task.task_id = format!("{prefix}{SEPARATOR}{}", made.task.task_id);
        self.shared.task_owners.note(&made.task.task_id, context);
        Outcome::Complete(Reply::CreateTask(made))
    }

    /// The server of a task, and the id that it has there.
    pub(super) fn task_place(&self, shown: &str, context: &Context) -> Result<(usize, String), RpcError> {
        let place = || {
            let (prefix, id) = shown.split_once(SEPARATOR)?;
            let server = self.position(self.shared.prefixes.server(prefix)?)?;
            self.shared.task_owners.allows(shown, context).then(|| (server, id.to_owned()))
        };
        place().ok_or_else(|| RpcError::invalid_params("there is no such task, or its time is over"))
    }

    /// The task under the id it has here, and its result with every URI as the application has to write it.
    pub(super) fn show_task(
        &self,
        found: &mut GetTaskResult,
        shown: &str,
        server: usize,
        catalogue: &Catalogue,
    ) -> Result<(), RpcError> {
        found.task.task_id = shown.to_owned();
        if let Some(result) = found.result.take() {
            let server = &*self.shared.upstreams[server].server.name;
            let reply = Reply::raw(Revision::LATEST, result.clone());
            found.result = match self.shown(&Method::ToolsCall, reply, server, catalogue)? {
                Reply::CallTool(result) => hospes_model::RawJson::from_serialize(&result).ok(),
                _ => Some(result),
            };
        }
        Ok(())
    }
}
