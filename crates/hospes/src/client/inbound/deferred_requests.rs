//! Requests of a server that arrive while no call is in flight.
//!
//! A gateway declares the capabilities of the application behind it, and can pass a request on only with a call.
//! Requests of a legacy server in between (many request the roots right after the handshake) wait here for the next
//! call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hospes_model::{ClientCapabilities, InputRequest, RequestId, RpcError};
use tokio::task::AbortHandle;

use crate::client::link::ReplyTo;

/// Maximum number of held questions per connection; further ones are refused.
const MAX_DEFERRED_REQUESTS: usize = 16;

/// The questions of one connection that wait.
#[derive(Debug, Default)]
pub(crate) struct DeferredRequests(Arc<Mutex<VecDeque<DeferredRequest>>>);

/// A question; refused when it is dropped without having been handed on.
#[derive(Debug)]
struct DeferredRequest {
    id: RequestId,
    request: InputRequest,
    reply: ReplyTo,
    is_refused: bool,
    timer: AbortHandle,
}

impl DeferredRequests {
    /// Keeps a question for the next call, for at most `limit` (the setting `park_timeout`).
    pub(crate) fn defer(&self, id: RequestId, request: InputRequest, reply: ReplyTo, limit: Duration) {
        // Held until the question is in the queue: its timer must not look for it before that.
        let mut waiting = lock(&self.0);
        if waiting.len() >= MAX_DEFERRED_REQUESTS {
            let why = format!(
                "too many requests are waiting: the limit is {MAX_DEFERRED_REQUESTS} (MAX_HELD_QUESTIONS)"
            );
            reply.answer(&id, Err(&RpcError::internal(why)));
            return;
        }
        // Weak: a timer that still runs must not keep the questions of a connection that is gone.
        let (all, key) = (Arc::downgrade(&self.0), id.clone());
        let timer = tokio::spawn(async move {
            tokio::time::sleep(limit).await;
            let Some(all) = all.upgrade() else { return };
            if remove(&all, &key).is_some() {
                tracing::debug!(id = %key, ?limit, "deferred request expired without a call (setting park_timeout)");
            }
        });
        let timer = timer.abort_handle();
        waiting.push_back(DeferredRequest { id, request, reply, is_refused: true, timer });
    }

    /// Removes and returns the questions that a client with these capabilities can answer.
    pub(crate) fn take_answerable(
        &self,
        theirs: &ClientCapabilities,
    ) -> Vec<(RequestId, InputRequest, ReplyTo)> {
        let mut waiting = lock(&self.0);
        if waiting.is_empty() {
            return Vec::new();
        }
        let (taken, left): (VecDeque<_>, _) = std::mem::take(&mut *waiting)
            .into_iter()
            .partition(|question| question.request.check_required_capability(theirs).is_ok());
        *waiting = left;
        let hand_on = |mut question: DeferredRequest| {
            // From here on the caller owes the answer, and dropping the entry must not send one.
            question.is_refused = false;
            // Cloned, because a type with a destructor cannot be taken apart.
            (question.id.clone(), question.request.clone(), question.reply.clone())
        };
        taken.into_iter().map(hand_on).collect()
    }

    /// Removes a request that the server has cancelled.
    pub(crate) fn remove_cancelled(&self, id: &RequestId) {
        if let Some(mut question) = remove(&self.0, id) {
            question.is_refused = false;
        }
    }

    /// Removes all requests without a response, because the connection is closed.
    pub(crate) fn clear(&self) {
        let mut all = std::mem::take(&mut *lock(&self.0));
        all.iter_mut().for_each(|question| question.is_refused = false);
    }

    /// Returns the number of held requests.
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

impl Drop for DeferredRequest {
    fn drop(&mut self) {
        self.timer.abort();
        if self.is_refused {
            self.reply
                .answer(&self.id, Err(&RpcError::internal("no call was in progress to answer this request")));
        }
    }
}

/// Removes and returns the request with this id, so that the caller can drop it outside the lock.
fn remove(all: &Mutex<VecDeque<DeferredRequest>>, id: &RequestId) -> Option<DeferredRequest> {
    let mut all = lock(all);
    let at = all.iter().position(|question| question.id == *id)?;
    all.remove(at)
}

fn lock(all: &Mutex<VecDeque<DeferredRequest>>) -> MutexGuard<'_, VecDeque<DeferredRequest>> {
    // Consistent after every statement that can panic.
    all.lock().unwrap_or_else(PoisonError::into_inner)
}
