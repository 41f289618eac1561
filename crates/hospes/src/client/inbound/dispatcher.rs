//! Dispatcher of server messages that belong to no client call: requests, log messages and changes.

use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use hospes_model::{
    InputRequest, LogMessageParams, Method, Notification, RawJson, RequestId, Revision, RpcError,
};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::client::cache::response_cache::ResponseCache;
use crate::client::cache::task_support::TaskSupportCache;
use crate::client::error::ConnectionClosed;
use crate::client::inbound::change_listeners::ChangeListeners;
use crate::client::inbound::deferred_requests::DeferredRequests;
use crate::client::inbound::handlers::ServerRequestHandlers;
use crate::client::inbound::task_runner::{ClientTaskRunner, tag_related_task};
use crate::client::link::{self, InboundMessages, ReplyTo};

/// Maximum number of characters of a reason that are logged.
const MAX_REASON_CHARS: usize = 200;

/// A list of the server that can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ListKind {
    /// List of tools.
    Tools,
    /// List of prompts.
    Prompts,
    /// Its resources and resource templates.
    Resources,
}

pub(crate) type LogCallback = Arc<dyn Fn(LogMessageParams) + Send + Sync>;
pub(crate) type NotificationCallback = Arc<dyn Fn(Notification) + Send + Sync>;
pub(crate) type ListChangeCallback = Arc<dyn Fn(ListKind) + Send + Sync>;

/// The dispatcher of one connection.
#[derive(Default)]
pub(crate) struct InboundDispatcher {
    pub(crate) handlers: ServerRequestHandlers,
    pub(crate) changes: ChangeListeners,
    pub(crate) cache: ResponseCache,
    #[cfg(feature = "validate")]
    pub(crate) outputs: crate::client::cache::output_schemas::OutputSchemas,
    pub(crate) on_log: Option<LogCallback>,
    pub(crate) on_notification: Option<NotificationCallback>,
    pub(crate) on_list_changed: Option<ListChangeCallback>,
    pub(crate) task_tools: TaskSupportCache,
    /// Number of changes to the list of tools.
    tool_changes: AtomicU64,
    /// Runner of server requests that are made as tasks.
    pub(crate) tasks: Option<ClientTaskRunner>,
    /// Requests held until they can be forwarded, and the time limit for that (the setting `park_timeout`).
    pub(crate) deferred: DeferredRequests,
    pub(crate) park_timeout: Duration,
    revision: OnceLock<Revision>,
    running: Mutex<HashMap<RequestId, AbortHandle>>,
    closed: watch::Sender<Option<Arc<ConnectionClosed>>>,
}

impl InboundDispatcher {
    pub(crate) fn set_revision(&self, revision: Revision) {
        // Set once, when connecting succeeds; a dispatcher never serves a second revision.
        let _ = self.revision.set(revision);
    }

    fn revision(&self) -> Revision {
        // Only servers of older revisions send requests, so a
        // question before the agreement comes from one of those.
        self.revision.get().copied().unwrap_or(Revision::LATEST_LEGACY)
    }

    /// Handles a request of the server in a task of its own.
    pub(crate) fn handle_request(
        self: &Arc<Self>,
        id: RequestId,
        method: Method,
        params: Option<RawJson>,
        reply: ReplyTo,
    ) {
        let (dispatcher, key) = (Arc::clone(self), id.clone());
        // The entry must be there before the task can end and remove it.
        let mut running = self.running();
        let task = tokio::spawn(async move {
            let answer = AssertUnwindSafe(dispatcher.answer_request(&method, params)).catch_unwind().await;
            // The server waits for an answer, whatever happens here.
            let outcome = answer.unwrap_or_else(|_| {
                tracing::error!(%method, "handler panicked");
                Err(RpcError::internal("the handler panicked"))
            });
            // Before the answer leaves: the server may use the id again as soon as it has the answer.
            dispatcher.running().remove(&id);
            reply.answer(&id, outcome.as_ref());
        });
        running.insert(key, task.abort_handle());
    }

    async fn answer_request(
        self: &Arc<Self>,
        method: &Method,
        params: Option<RawJson>,
    ) -> Result<RawJson, RpcError> {
        if *method == Method::Ping {
            return Ok(RawJson::empty_object());
        }
        if !method.in_revision(self.revision()) {
            // Whatever we could do: that is not what was agreed on (LIFE-09).
            return Err(RpcError::method_not_found(method.name()));
        }
        let params = params.unwrap_or_else(RawJson::empty_object);
        // Only this revision lets a client run tasks (TASK-01); the
        // later extension has them for `tools/call` alone (TSKX-02).
        let tasks = self.tasks.as_ref().filter(|_| self.revision() == Revision::V2025_11_25);
        if let Some(tasks) = tasks
            && let Some(answer) = tasks.handle_task_method(method, &params).await
        {
            return answer;
        }
        let question = InputRequest::decode(method, &params)?;
        if let Some(tasks) = tasks {
            let answer = || {
                let (dispatcher, question) = (Arc::clone(self), question.clone());
                async move { dispatcher.ask_handler(question).await }
            };
            if let Some(made) = tasks.try_start_task(&question, params.as_bytes().len(), answer).await {
                return made;
            }
        }
        let answer = self.ask_handler(question).await?;
        Ok(match self.revision() {
            Revision::V2025_11_25 => tag_related_task(&params, answer),
            _ => answer,
        })
    }

    /// Passes a question to its handler and encodes the answer.
    async fn ask_handler(&self, question: InputRequest) -> Result<RawJson, RpcError> {
        let answer = self.handlers.answer(question).await?;
        answer.encode(self.revision()).map_err(|error| RpcError::internal(error.to_string()))
    }

    /// Invalidates everything known about a changed item.
    pub(crate) fn invalidate(&self, change: &Notification) {
        if *change == Notification::ToolsListChanged {
            // First of all: a list that comes now was asked for before.
            self.tool_changes.fetch_add(1, Ordering::AcqRel);
        }
        self.cache.invalidate(change);
        self.task_tools.invalidate(change);
        #[cfg(feature = "validate")]
        self.outputs.invalidate(change);
    }

    /// Returns the number of changes of the list of tools so far.
    pub(crate) fn tool_change_count(&self) -> u64 {
        self.tool_changes.load(Ordering::Acquire)
    }

    /// Delivers a notification to the caches, callbacks and listeners.
    pub(crate) fn dispatch_notification(&self, notification: Notification) {
        // First of all: whoever is told may ask at once.
        self.invalidate(&notification);
        let list = match &notification {
            Notification::ToolsListChanged => Some(ListKind::Tools),
            Notification::PromptsListChanged => Some(ListKind::Prompts),
            Notification::ResourcesListChanged => Some(ListKind::Resources),
            _ => None,
        };
        if let (Some(list), Some(on_list_changed)) = (list, &self.on_list_changed) {
            on_list_changed(list);
        }
        self.changes.notify_listeners(&notification);
        if let Notification::ElicitationComplete(params) = &notification {
            self.handlers.complete_elicitation(&params.elicitation_id);
        }
        match (notification, &self.on_log, &self.on_notification) {
            (Notification::LogMessage(message), Some(on_log), _) => on_log(message),
            (other @ Notification::Other { .. }, _, Some(on_notification)) => on_notification(other),
            _ => {}
        }
    }

    /// Resets the state for a new connection.
    pub(crate) fn clear_closed(&self) {
        self.closed.send_replace(None);
    }

    /// Returns the reason the connection ended, if it has ended.
    pub(crate) fn closed(&self) -> Option<Arc<ConnectionClosed>> {
        self.closed.borrow().clone()
    }

    /// Resolves when the connection has ended.
    pub(crate) async fn wait_closed(&self) -> Arc<ConnectionClosed> {
        link::wait_closed(self.closed.subscribe()).await
    }

    fn running(&self) -> MutexGuard<'_, HashMap<RequestId, AbortHandle>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InboundMessages for InboundDispatcher {
    /// A request that must be forwarded is held until the next call.
    fn handle_unsolicited_request(
        self: Arc<Self>,
        id: RequestId,
        method: Method,
        params: Option<RawJson>,
        reply: ReplyTo,
    ) {
        let question = InputRequest::decode(&method, params.as_ref().unwrap_or(&RawJson::empty_object()));
        match question {
            Ok(question)
                if method.in_revision(self.revision()) && self.handlers.is_forwardable(&question) =>
            {
                self.deferred.defer(id, question, reply, self.park_timeout);
            }
            _ => self.handle_request(id, method, params, reply),
        }
    }

    fn handle_cancelled(&self, id: &RequestId, reason: Option<String>) {
        let reason: Option<String> = reason.map(|reason| reason.chars().take(MAX_REASON_CHARS).collect());
        tracing::info!(%id, ?reason, "cancelled by the server");
        // Aborted, so that no answer is sent: a cancelled request gets none (CANC-06).
        if let Some(task) = self.running().remove(id) {
            task.abort();
        }
        self.deferred.remove_cancelled(id);
    }

    fn handle_notification(&self, method: &Method, params: Option<&RawJson>) {
        let notification = match Notification::decode(method, self.revision(), params) {
            Ok(notification) => notification,
            Err(error) => {
                tracing::debug!(%method, %error, "ignored an invalid notification");
                return;
            }
        };
        self.dispatch_notification(notification);
    }

    fn abort_requests(&self) {
        self.running().drain().for_each(|(_, task)| task.abort());
        if let Some(tasks) = &self.tasks {
            tasks.close();
        }
        self.deferred.clear();
    }

    /// Aborts running handlers and ends the listeners.
    fn handle_connection_lost(&self, closed: Arc<ConnectionClosed>) {
        self.running().drain().for_each(|(_, task)| task.abort());
        if let Some(tasks) = &self.tasks {
            tasks.close();
        }
        self.deferred.clear();
        self.changes.close_all();
        self.cache.clear();
        // Last, so that whoever waits for the end finds the rest
        // done; `send` would do nothing without a receiver.
        self.closed.send_replace(Some(closed));
    }

    fn subscribe_closed(&self) -> watch::Receiver<Option<Arc<ConnectionClosed>>> {
        self.closed.subscribe()
    }
}

impl fmt::Debug for InboundDispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboundDispatcher").field("handlers", &self.handlers).finish_non_exhaustive()
    }
}
