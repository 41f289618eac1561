//! Task notifications of an older server, converted to the newest revision. There a notification includes the result of
//! a finished task, and the questions of a waiting one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use hospes_model::{GetTaskResult, RpcError, TaskStatus};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::client::connection::core::ClientCore;
use crate::service::Call;

/// Maximum number of concurrent fetches for one listener.
const MAX_CONCURRENT_FETCHES: usize = 8;
/// Maximum number of attempts to fetch a result, and the delay between them.
const MAX_FETCH_ATTEMPTS: u32 = 3;
const FETCH_RETRY_DELAY: Duration = Duration::from_secs(2);

/// Task updates that need a fetch before they are delivered. Other updates do not wait for them.
pub(crate) struct PendingTaskUpdates<'c> {
    core: &'c Arc<ClientCore>,
    call: &'c Call,
    fetched: FuturesUnordered<BoxFuture<'c, (u64, Box<GetTaskResult>)>>,
    /// The number of the newest news of each task for which something is fetched.
    newest: HashMap<String, u64>,
    number: u64,
    turns: Arc<Semaphore>,
}

impl<'c> PendingTaskUpdates<'c> {
    pub(crate) fn new(core: &'c Arc<ClientCore>, call: &'c Call) -> Self {
        Self {
            core,
            call,
            fetched: FuturesUnordered::new(),
            newest: HashMap::new(),
            number: 0,
            turns: Arc::new(Semaphore::new(MAX_CONCURRENT_FETCHES)),
        }
    }

    /// Queues an update that needs a fetch. Returns true if it will be delivered by [`PendingTaskUpdates::next`].
    pub(crate) fn try_enqueue(&mut self, found: &GetTaskResult) -> bool {
        let wants = match found.task.status {
            TaskStatus::Completed | TaskStatus::Failed => true,
            // Whoever answers here fetches the questions with the result; asked twice, they would be answered once.
            TaskStatus::InputRequired => self.core.dispatcher.handlers.may_forward_requests(),
            _ => false,
        };
        // What was said before is of no interest any more.
        self.newest.remove(&found.task.task_id);
        if !wants {
            return false;
        }
        self.number += 1;
        self.newest.insert(found.task.task_id.clone(), self.number);
        let (core, call, number) = (self.core, self.call, self.number);
        let (found, turns) = (found.clone(), Arc::clone(&self.turns));
        self.fetched.push(Box::pin(async move {
            // This fails only once the semaphore is closed, which never happens.
            let _turn = turns.acquire().await;
            (number, Box::new(fetch_task_details(core, call, found).await))
        }));
        true
    }

    /// The next news that is whole.
    pub(crate) async fn next(&mut self) -> Box<GetTaskResult> {
        loop {
            // A set without futures ends its stream at once; the
            // caller's `select!` has to wait for its other branch then.
            let Some((number, found)) = self.fetched.next().await else { std::future::pending().await };
            if self.newest.get(&found.task.task_id) == Some(&number) {
                return found;
            }
        }
    }
}

/// Fetches the result or the questions of a task. The end of a task is reported even if its result cannot be fetched,
/// because the server will not report it again.
async fn fetch_task_details(core: &Arc<ClientCore>, call: &Call, mut found: GetTaskResult) -> GetTaskResult {
    let mut tries = 1;
    loop {
        match core.add_task_outcome(call, &mut found).await {
            Ok(()) => return found,
            Err(error) if !found.task.status.is_terminal() => {
                tracing::debug!(%error, "cannot fetch the task's input requests");
                return found;
            }
            Err(error) if tries >= MAX_FETCH_ATTEMPTS || error.is_closed() => {
                tracing::warn!(%error, "cannot fetch the task's result");
                let why = error.to_rpc().message;
                let why = format!("the task has ended, but its result could not be fetched: {why}");
                found.task.status = TaskStatus::Failed;
                found.error = Some(RpcError::internal(why));
                return found;
            }
            Err(_) => {
                tries += 1;
                sleep(FETCH_RETRY_DELAY).await;
            }
        }
    }
}
