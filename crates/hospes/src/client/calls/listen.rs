//! Subscriptions to changes: `subscriptions/listen` for modern servers; `resources/subscribe` and session notifications
//! for legacy ones.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hospes_model::{
    Meta, Method, Notification, RawJson, ResourceUpdatedParams, Revision, RpcError, ServerCapabilities,
    SubscribeParams, SubscriptionFilter, SubscriptionsAcknowledgedParams, SubscriptionsListenParams,
    meta_key,
};
use hospes_proto::session::client::TimeLimits;

use crate::client::connection::core::ClientCore;
use crate::client::connection::handle::Client;
use crate::client::error::CallError;
use crate::client::inbound::change_listeners::ChangeListener;
use crate::client::link::json_members;
use crate::client::link::{EventInterest, InboundMessages as _, LinkEvent, OutgoingParams, OutgoingRequest};
use crate::client::tasks::task_updates::PendingTaskUpdates;
use crate::context::Context;
use crate::exchange::{Exchange, ExchangeEvent};
use crate::peer::Peer;
use crate::service::{BoxService, Call, Outcome};

/// First delay before a listen stream that ended is opened again. It doubles each time and is reset by a notification.
const MIN_RELISTEN_DELAY: Duration = Duration::from_millis(250);
const MAX_RELISTEN_DELAY: Duration = Duration::from_secs(30);

/// A stream of changes. Dropping it ends it.
#[derive(Debug)]
pub struct Subscription {
    exchange: Option<Exchange>,
    honoured: SubscriptionFilter,
    early: VecDeque<Notification>,
    ended: Option<RpcError>,
}

impl Client {
    /// Subscribes to changes. Resolves once the server has acknowledged the subscription.
    ///
    /// # Errors
    /// If the server refuses, or the connection is closed.
    pub async fn listen(&self, filter: SubscriptionFilter) -> Result<Subscription, CallError> {
        let params = RawJson::from_serialize(&SubscriptionsListenParams::new(filter))
            .map_err(|error| CallError::Arguments(Arc::new(error)))?;
        let peer = Peer::new(Revision::LATEST, None, self.core.settings.capabilities.clone());
        let call = Call::new(Method::SubscriptionsListen, params, Context::new(Arc::new(peer)));
        let exchange = Exchange::new(BoxService::new(self.clone()), call);
        let mut subscription = Subscription {
            exchange: Some(exchange),
            honoured: SubscriptionFilter::new(),
            early: VecDeque::new(),
            ended: None,
        };
        loop {
            match subscription.next_event().await {
                Some(Notification::SubscriptionsAcknowledged(params)) => {
                    subscription.honoured = params.notifications;
                    return Ok(subscription);
                }
                // The acknowledgement has to come first (SUBS-03);
                // what a server tells before it is kept nevertheless.
                Some(early) => subscription.early.push_back(early),
                None => {
                    let ended = subscription.ended.take();
                    return Err(CallError::Rpc(ended.unwrap_or_else(|| {
                        RpcError::internal("subscription ended before it was acknowledged")
                    })));
                }
            }
        }
    }

    /// Subscribes to changes of one resource.
    ///
    /// # Errors
    /// If the server refuses, or the connection is closed.
    pub async fn subscribe(&self, uri: impl Into<String>) -> Result<Subscription, CallError> {
        let mut filter = SubscriptionFilter::new();
        filter.resource_subscriptions.push(uri.into());
        self.listen(filter).await
    }
}

impl Subscription {
    /// Changes that the server agreed to report; they may be fewer than requested.
    #[must_use]
    pub fn acknowledged(&self) -> &SubscriptionFilter {
        &self.honoured
    }

    /// Waits for the next change. Returns `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<Notification> {
        match self.early.pop_front() {
            Some(early) => Some(early),
            None => self.next_event().await,
        }
    }

    /// Returns the error that ended the stream, unless the server ended it regularly.
    #[must_use]
    pub fn error(&self) -> Option<&RpcError> {
        self.ended.as_ref()
    }

    async fn next_event(&mut self) -> Option<Notification> {
        let exchange = self.exchange.as_mut()?;
        match poll_fn(|cx| exchange.poll_event(cx)).await {
            ExchangeEvent::Notify(notification) => Some(notification),
            ExchangeEvent::Done(Outcome::Failed(error)) => {
                self.exchange = None;
                self.ended = Some(error);
                None
            }
            _ => {
                self.exchange = None;
                None
            }
        }
    }
}

impl ClientCore {
    /// Serves `subscriptions/listen` with this connection.
    pub(crate) async fn serve_listen(self: &Arc<Self>, call: Call) -> Outcome {
        let params: SubscriptionsListenParams = match call.decode() {
            Ok(params) => params,
            Err(error) => return Outcome::Failed(error),
        };
        let outcome = if self.protocol.revision.is_legacy() {
            self.listen_to_session(params.notifications, &call).await
        } else {
            self.listen_to_stream(&params, |method, params| {
                let notification = Notification::decode(method, self.protocol.revision, params);
                if let Ok(notification) = notification {
                    self.dispatcher.invalidate(&notification);
                    call.context.notify(strip_subscription_id(notification));
                }
            })
            .await
        };
        match outcome {
            Ok(()) => Outcome::Complete(hospes_model::SubscriptionsListenResult::new().into()),
            Err(error) => Outcome::Failed(error.to_rpc()),
        }
    }

    /// Opens a listen stream and delivers its notifications until the server ends it.
    async fn listen_to_stream(
        &self,
        params: &SubscriptionsListenParams,
        mut tell: impl FnMut(&Method, Option<&RawJson>),
    ) -> Result<(), CallError> {
        let text = json_members(params)?;
        let outgoing = OutgoingRequest {
            members: OutgoingParams::Text(&text),
            interest: EventInterest::Notifications,
            ..OutgoingRequest::new(&Method::SubscriptionsListen, TimeLimits::NONE)
        };
        // TSKX-01: a request about tasks says that its sender knows them.
        let of_tasks = !params.notifications.task_ids.is_empty();
        let speech = if of_tasks { self.task_protocol() } else { &self.protocol };
        let mut call = self.link.open(&outgoing, speech).await?;
        loop {
            match poll_fn(|cx| call.poll_event(cx)).await {
                LinkEvent::Notification(method, params) => tell(&method, params.as_ref()),
                LinkEvent::Question(..) => {}
                LinkEvent::Done(outcome) => {
                    return outcome.map(drop).map_err(|error| self.upgrade_error(outgoing.method, error));
                }
            }
        }
    }

    /// Forwards the changes that the session reports, as far as they were requested.
    async fn listen_to_session(
        self: &Arc<Self>,
        wanted: SubscriptionFilter,
        call: &Call,
    ) -> Result<(), CallError> {
        let context = &call.context;
        let mut honoured = self.restrict_filter(wanted);
        let (listener, refused) = self.subscribe_resources(&honoured).await;
        honoured.resource_subscriptions.retain(|uri| !refused.contains(uri));
        // Not earlier: only the answers to the subscriptions show what the server refused.
        let params = SubscriptionsAcknowledgedParams::new(honoured);
        context.notify(Notification::SubscriptionsAcknowledged(params));
        let mut tasks = PendingTaskUpdates::new(self, call);
        loop {
            // A fetched end of a task goes before newer changes. Either branch may be dropped: what it waits
            // for is kept in `tasks` or in the listener.
            tokio::select! {
                biased;
                whole = tasks.next() => context.notify(Notification::TasksChanged(whole)),
                change = poll_fn(|cx| listener.listener.poll_change(cx)) => match change {
                    Some(Notification::TasksChanged(found)) if tasks.try_enqueue(&found) => {}
                    Some(change) => context.notify(change),
                    None => break,
                },
            }
        }
        match self.dispatcher.closed() {
            Some(closed) => Err(CallError::Closed(closed)),
            None => Ok(()),
        }
    }

    /// Restricts a filter to the changes that the server declared.
    fn restrict_filter(&self, mut filter: SubscriptionFilter) -> SubscriptionFilter {
        let undeclared = ServerCapabilities::new();
        let has = self.server.capabilities.as_ref().unwrap_or(&undeclared);
        let told = |flag: Option<Option<bool>>| flag.flatten() == Some(true);
        filter.tools_list_changed &= told(has.tools.as_ref().map(|has| has.list_changed));
        filter.prompts_list_changed &= told(has.prompts.as_ref().map(|has| has.list_changed));
        filter.resources_list_changed &= told(has.resources.as_ref().map(|has| has.list_changed));
        if !told(has.resources.as_ref().map(|has| has.subscribe)) {
            filter.resource_subscriptions.clear();
        }
        if !self.supports_legacy_tasks() {
            filter.task_ids.clear();
        }
        filter
    }

    /// Returns the lists whose changes the server declares to report.
    fn declared_list_changes(&self) -> SubscriptionFilter {
        let mut lists = SubscriptionFilter::new();
        (lists.tools_list_changed, lists.prompts_list_changed, lists.resources_list_changed) =
            (true, true, true);
        self.restrict_filter(lists)
    }

    /// Subscribes to the resources, and returns those that the server does not report.
    async fn subscribe_resources(
        self: &Arc<Self>,
        filter: &SubscriptionFilter,
    ) -> (ChangeListenerGuard, Vec<String>) {
        // Subscribing and unsubscribing must not overtake each other.
        let _turn = self.subscribing.lock().await;
        let (listener, new) = self.dispatcher.changes.add_listener(filter.clone());
        // Before the first `await`: if the caller goes away
        // meanwhile, the guard takes the subscriptions back.
        let leave = ChangeListenerGuard { core: Arc::downgrade(self), listener };
        let mut refused = Vec::new();
        for uri in new {
            if let Err(error) = self.send_subscription(&Method::ResourcesSubscribe, &uri).await {
                tracing::warn!(%error, "cannot subscribe to a resource");
                refused.push(uri);
            }
        }
        (leave, refused)
    }

    async fn send_subscription(&self, method: &Method, uri: &str) -> Result<(), CallError> {
        let text = json_members(&SubscribeParams::new(uri))?;
        let outgoing = OutgoingRequest {
            members: OutgoingParams::Text(&text),
            ..OutgoingRequest::new(method, self.settings.times)
        };
        self.send_request(&outgoing, &mut None).await.map(drop)
    }

    /// Keeps a listen stream open to a modern server, so that the dispatcher hears of changes. Ends with the
    /// connection.
    pub(crate) fn spawn_change_listener(self: &Arc<Self>) {
        let filter = self.declared_list_changes();
        if self.protocol.revision.is_legacy()
            || filter.is_empty()
            || self.dispatcher.on_list_changed.is_none()
        {
            return;
        }
        tokio::spawn(run_change_listener(Arc::downgrade(self), SubscriptionsListenParams::new(filter)));
    }
}

impl ClientCore {
    /// Repeats subscriptions and the log level on a session that replaces another.
    pub(crate) fn resubscribe_on_new_session(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.link.on_renewed(Box::new(move || {
            let Some(core) = weak.upgrade() else { return };
            tokio::spawn(async move {
                let _turn = core.subscribing.lock().await;
                let wanted = core.dispatcher.changes.wanted_resources();
                for uri in &wanted {
                    if let Err(error) = core.send_subscription(&Method::ResourcesSubscribe, uri).await {
                        tracing::warn!(%error, "cannot subscribe to a resource in the new session");
                    }
                }
                // After subscribing, so that no change is missed between
                // the reading that this causes and the subscription.
                core.announce_possible_changes(wanted);
                if let Some(level) = core.log_level()
                    && let Err(error) = core.send_log_level(level).await
                {
                    tracing::debug!(%error, "cannot set the log level in the new session");
                }
            });
        }));
    }

    /// Reports all lists and resources as possibly changed. Changes between two sessions are not reported, and the new
    /// session may reach another server.
    fn announce_possible_changes(&self, resources: Vec<String>) {
        let told = self.declared_list_changes();
        let lists = [
            (told.tools_list_changed, Notification::ToolsListChanged),
            (told.prompts_list_changed, Notification::PromptsListChanged),
            (told.resources_list_changed, Notification::ResourcesListChanged),
        ];
        let lists = lists.into_iter().filter(|(told, _)| *told).map(|(_, change)| change);
        let updates =
            resources.into_iter().map(|uri| Notification::ResourceUpdated(ResourceUpdatedParams::new(uri)));
        lists.chain(updates).for_each(|change| self.dispatcher.dispatch_notification(change));
    }
}

async fn run_change_listener(core: Weak<ClientCore>, params: SubscriptionsListenParams) {
    let mut pause = MIN_RELISTEN_DELAY;
    let Ok(text) = json_members(&params) else { return };
    let outgoing = OutgoingRequest {
        members: OutgoingParams::Text(&text),
        interest: EventInterest::Notifications,
        ..OutgoingRequest::new(&Method::SubscriptionsListen, TimeLimits::NONE)
    };
    loop {
        // Only the call is kept across the waiting: it does not keep the connection.
        let Some(strong) = core.upgrade() else { return };
        let opened = strong.link.open(&outgoing, &strong.protocol).await;
        let dispatcher = Arc::clone(&strong.dispatcher);
        drop(strong);
        match opened {
            Ok(mut call) => loop {
                match poll_fn(|cx| call.poll_event(cx)).await {
                    LinkEvent::Notification(method, params) => {
                        pause = MIN_RELISTEN_DELAY;
                        dispatcher.handle_notification(&method, params.as_ref());
                    }
                    LinkEvent::Question(..) => {}
                    LinkEvent::Done(Err(error)) if error.is_closed() => return,
                    // It will not do that, however often it is asked.
                    LinkEvent::Done(Err(CallError::Rpc(error))) => {
                        tracing::debug!(%error, "the server does not support change notifications");
                        return;
                    }
                    LinkEvent::Done(_) => break,
                }
            },
            Err(error) if error.is_closed() => return,
            Err(error) => tracing::debug!(%error, "listening failed"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_RELISTEN_DELAY);
    }
}

/// Registered listener of a session. On drop, it unsubscribes from resources without other listeners.
struct ChangeListenerGuard {
    core: Weak<ClientCore>,
    listener: Arc<ChangeListener>,
}

impl Drop for ChangeListenerGuard {
    fn drop(&mut self) {
        let Some(core) = self.core.upgrade() else { return };
        let unwanted = core.dispatcher.changes.remove_listener(&self.listener);
        if unwanted.is_empty() || core.dispatcher.closed().is_some() {
            return;
        }
        // Without a runtime nothing can be sent; the connection is ending with it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let weak = Weak::clone(&self.core);
        drop(core);
        runtime.spawn(async move {
            for uri in unwanted {
                let Some(core) = weak.upgrade() else { return };
                let _turn = core.subscribing.lock().await;
                // Somebody may have come to want it since.
                if !core.dispatcher.changes.wanted_resources().contains(&uri)
                    && let Err(error) = core.send_subscription(&Method::ResourcesUnsubscribe, &uri).await
                {
                    tracing::debug!(%error, "cannot unsubscribe from a resource");
                }
            }
        });
    }
}

/// Removes the stream's id, which belongs to this connection only.
fn strip_subscription_id(mut notification: Notification) -> Notification {
    let meta: Option<&mut Meta> = match &mut notification {
        Notification::ResourceUpdated(params) => Some(&mut params.meta),
        Notification::SubscriptionsAcknowledged(params) => Some(&mut params.meta),
        Notification::TasksChanged(changed) => Some(&mut changed.meta),
        _ => None,
    };
    if let Some(meta) = meta {
        meta.remove(meta_key::SUBSCRIPTION_ID);
    }
    notification
}
