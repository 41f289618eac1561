//! The standing call for changes that serves a legacy session.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use hospes_model::{
    Method, Notification, RawJson, Reply, RequestId, ResourceUpdatedParams, RpcError, SubscriptionFilter,
    SubscriptionsListenParams, SubscriptionsListenResult, code, meta_key,
};
use tokio::time::Sleep;

use super::{LegacySession, ServiceAdapter, write};
use crate::context::Context;
use crate::exchange::{Exchange, ExchangeEvent};
use crate::service::{Call, Outcome};

/// Delay before a session's call for changes is repeated after the service ended it. It grows each time, until a change
/// comes.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(500);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

/// The most subscriptions that are asked for beside the others. A call is made anew for each that comes, so many are
/// not repeated each time; the more calls there are, the more streams stand open to the servers behind a gateway.
const MAX_EXTRA_SUBSCRIPTIONS: usize = 32;

/// The calls for changes of one legacy session: one for everything, and one for what has been subscribed to since. They
/// are made anew when the subscriptions change, the new one before the old one is dropped, so that nothing falls between
/// them; and made again, after a pause, when the service ends one.
#[derive(Debug)]
pub(crate) struct SessionListenCalls {
    adapter: Arc<ServiceAdapter>,
    current: Option<Box<Exchange>>,
    extra: Option<Box<ExtraListenCall>>,
    next: Option<NextListenCall>,
    epoch: Option<u64>,
    /// True if the last call ended before it had begun; the one before it continues meanwhile.
    failed: bool,
    /// True if the service has no such call, so that it is not repeated.
    refused: bool,
    /// Once the service has ended one.
    after: Option<Box<ListenRetry>>,
}

/// The call for the subscriptions that came last.
#[derive(Debug)]
struct ExtraListenCall {
    exchange: Exchange,
    uris: Vec<String>,
}

/// The call that takes the place of another once it is acknowledged.
#[derive(Debug)]
enum NextListenCall {
    /// Call for all subscriptions, with those whose answers are pending.
    Current(Box<Exchange>, Vec<String>),
    Extra(Box<ExtraListenCall>),
}

/// Recovery after the service ended the call.
#[derive(Debug)]
struct ListenRetry {
    again: Option<Pin<Box<Sleep>>>,
    /// True if the pending call follows one that ended.
    resumed: bool,
    pause: Duration,
    /// Notifications of everything that may have changed between the calls.
    missed: VecDeque<Notification>,
}

impl ListenRetry {
    fn new() -> Self {
        Self { again: None, resumed: false, pause: MIN_RETRY_DELAY, missed: VecDeque::new() }
    }
}

impl SessionListenCalls {
    pub(crate) fn new(adapter: &Arc<ServiceAdapter>) -> Self {
        Self {
            adapter: Arc::clone(adapter),
            current: None,
            extra: None,
            next: None,
            epoch: None,
            failed: false,
            refused: false,
            after: None,
        }
    }

    /// Appends the next notification to `out`, without any framing. Ready means that one was appended; the stream never
    /// ends.
    pub(crate) fn poll_message(
        &mut self,
        session: &LegacySession,
        cx: &mut TaskContext<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<()> {
        // Before the epoch is compared: a subscription that comes in between has to wake this task.
        session.register_listener(cx.waker());
        if self.epoch != Some(session.epoch()) {
            self.renew(session);
        }
        loop {
            while let Some(missed) = self.after.as_mut().and_then(|after| after.missed.pop_front()) {
                if self.write_notification(&missed, session, out) {
                    return Poll::Ready(());
                }
            }
            // What the old call has to say comes first, as long as the new one is not acknowledged.
            if let Some(event) = self.poll_current(cx) {
                if self.write_notification(&event, session, out) {
                    if let Some(after) = &mut self.after {
                        after.pause = MIN_RETRY_DELAY;
                    }
                    return Poll::Ready(());
                }
                continue;
            }
            match self.poll_next(session, cx) {
                Some(Notification::SubscriptionsAcknowledged(params)) => {
                    self.record_refused(session, &params.notifications.resource_subscriptions);
                    self.promote_next(session);
                }
                Some(event) => {
                    self.promote_next(session);
                    if self.write_notification(&event, session, out) {
                        return Poll::Ready(());
                    }
                }
                None => std::task::ready!(self.poll_retry(session, cx)),
            }
        }
    }

    fn poll_current(&mut self, cx: &mut TaskContext<'_>) -> Option<Notification> {
        let extra = self.extra.as_mut().map(|extra| &mut extra.exchange);
        let all = self.current.as_deref_mut().into_iter().chain(extra);
        let polled = all.into_iter().find_map(|exchange| poll_exchange(exchange, cx))?;
        if polled.is_err() {
            // They are made again as one.
            (self.current, self.extra) = (None, None);
            if matches!(self.next, Some(NextListenCall::Extra(_))) {
                self.next = None;
            }
        }
        polled.ok()
    }

    fn poll_next(&mut self, session: &LegacySession, cx: &mut TaskContext<'_>) -> Option<Notification> {
        let next = match self.next.as_mut()? {
            NextListenCall::Current(exchange, _) => exchange,
            NextListenCall::Extra(extra) => &mut extra.exchange,
        };
        let ended = match poll_exchange(next, cx)? {
            Ok(notification) => return Some(notification),
            Err(ended) => ended,
        };
        if matches!(self.next.take(), Some(NextListenCall::Extra(_))) {
            session.reset_new_subscriptions();
        }
        self.failed = true;
        self.refused = ended.is_some_and(|error| error.code == code::METHOD_NOT_FOUND);
        // There is nothing to wait for.
        session.confirm_epoch(self.epoch);
        None
    }

    /// The new call tells only of what it has agreed to.
    fn record_refused(&mut self, session: &LegacySession, agreed: &[String]) {
        match &mut self.next {
            Some(NextListenCall::Current(_, waiting)) => {
                session.refuse(waiting.iter().filter(|uri| !agreed.contains(uri)));
            }
            Some(NextListenCall::Extra(extra)) => {
                session.refuse(extra.uris.iter().filter(|uri| !agreed.contains(uri)));
                // They are not asked for again with the next one that comes.
                extra.uris.retain(|uri| agreed.contains(uri));
            }
            None => {}
        }
    }

    /// The new call has begun.
    fn promote_next(&mut self, session: &LegacySession) {
        if let Some(after) = self.after.as_mut().filter(|after| after.resumed) {
            after.resumed = false;
            after.missed = notifications_of(&session.filter());
        }
        match self.next.take() {
            Some(NextListenCall::Extra(extra)) => self.extra = Some(extra),
            Some(NextListenCall::Current(exchange, _)) => (self.current, self.extra) = (Some(exchange), None),
            None => {}
        }
        session.confirm_epoch(self.epoch);
    }

    /// Repeats the call that has ended, after its delay. Ready means that it was made.
    fn poll_retry(&mut self, session: &LegacySession, cx: &mut TaskContext<'_>) -> Poll<()> {
        let is_served = self.current.is_some() && !self.failed;
        if is_served || self.next.is_some() || self.refused || session.filter().is_empty() {
            return Poll::Pending;
        }
        let after = self.after.get_or_insert_with(|| Box::new(ListenRetry::new()));
        let again = after.again.get_or_insert_with(|| {
            tracing::debug!(pause = ?after.pause, "the service ended a session's subscription stream");
            Box::pin(tokio::time::sleep(after.pause))
        });
        std::task::ready!(again.as_mut().poll(cx));
        after.pause = (after.pause * 2).min(MAX_RETRY_DELAY);
        (after.again, after.resumed) = (None, true);
        self.begin(session);
        Poll::Ready(())
    }

    fn renew(&mut self, session: &LegacySession) {
        // Read before the filter: what changes in between is seen the next time.
        self.epoch = Some(session.epoch());
        self.refused = false;
        if let Some(after) = &mut self.after {
            after.again = None;
        }
        match session.take_new_subscriptions() {
            Some(fresh) if self.current.is_some() && !self.failed => self.begin_extra(session, fresh),
            _ => self.begin(session),
        }
    }

    /// Asks for subscriptions that have come, beside the others.
    fn begin_extra(&mut self, session: &LegacySession, fresh: Vec<String>) {
        if fresh.is_empty() {
            if self.next.is_none() {
                session.confirm_epoch(self.epoch);
            }
            return;
        }
        if matches!(self.next, Some(NextListenCall::Current(..))) {
            // It may have been made before they came.
            return self.begin(session);
        }
        let mut uris = match (&self.next, &self.extra) {
            (Some(NextListenCall::Extra(extra)), _) | (None, Some(extra)) => extra.uris.clone(),
            _ => Vec::new(),
        };
        uris.extend(fresh);
        if uris.len() > MAX_EXTRA_SUBSCRIPTIONS {
            return self.begin(session);
        }
        let filter = SubscriptionFilter::new().with_resource_subscriptions(uris.clone());
        if let Some(exchange) = self.call(session, filter) {
            self.next = Some(NextListenCall::Extra(Box::new(ExtraListenCall { exchange, uris })));
        }
    }

    fn begin(&mut self, session: &LegacySession) {
        let filter = session.filter();
        self.next = None;
        self.failed = false;
        if filter.is_empty() {
            (self.current, self.extra) = (None, None);
            session.confirm_epoch(self.epoch);
            return;
        }
        let waiting = session.unanswered(&filter.resource_subscriptions);
        self.next =
            self.call(session, filter).map(|exchange| NextListenCall::Current(Box::new(exchange), waiting));
    }

    fn call(&self, session: &LegacySession, filter: SubscriptionFilter) -> Option<Exchange> {
        start_listen(&self.adapter, session, filter)
    }

    fn write_notification(
        &self,
        notification: &Notification,
        session: &LegacySession,
        out: &mut Vec<u8>,
    ) -> bool {
        let mine = matches!(
            notification,
            Notification::ToolsListChanged
                | Notification::PromptsListChanged
                | Notification::ResourcesListChanged
                | Notification::ResourceUpdated(_)
                | Notification::ElicitationComplete(_)
                // SUBS-10 keeps them from streams of changes; a session has one stream for all that belongs to no call.
                | Notification::LogMessage(_)
                // An extension is of both sides, whoever listens to what.
                | Notification::Other { .. }
                // Of the session's tasks.
                | Notification::TasksChanged(_)
                | Notification::Progress(_)
        );
        if matches!(notification, Notification::TasksChanged(_)) {
            session.tasks().record_status(notification);
        }
        mine && write::notification(out, notification, session.peer().revision, None)
    }
}

fn start_listen(
    adapter: &ServiceAdapter,
    session: &LegacySession,
    filter: SubscriptionFilter,
) -> Option<Exchange> {
    let params = RawJson::from_serialize(&SubscriptionsListenParams::new(filter)).ok()?;
    let context = Context::new(Arc::clone(session.peer()));
    let call = Call::new(Method::SubscriptionsListen, params, context);
    Some(Exchange::new(adapter.service.clone(), call))
}

/// Returns true if the service would send changes of a resource. It is used when no client reads the stream of changes:
/// the call is made, and dropped once it is acknowledged. If that decides nothing, the reader of the stream finds out
/// later.
pub(super) async fn is_subscribable(adapter: &ServiceAdapter, session: &LegacySession, uri: &str) -> bool {
    let filter = SubscriptionFilter::new().with_resource_subscriptions(vec![uri.to_owned()]);
    let Some(mut exchange) = start_listen(adapter, session, filter) else { return true };
    loop {
        match poll_fn(|cx| exchange.poll_event(cx)).await {
            ExchangeEvent::Notify(Notification::SubscriptionsAcknowledged(params)) => {
                return params.notifications.resource_subscriptions.iter().any(|told| told == uri);
            }
            ExchangeEvent::Notify(_) => {}
            ExchangeEvent::Ask(_) | ExchangeEvent::Done(_) => return true,
        }
    }
}

/// The next notification of a call for changes, or how it ended.
fn poll_exchange(
    exchange: &mut Exchange,
    cx: &mut TaskContext<'_>,
) -> Option<Result<Notification, Option<RpcError>>> {
    match exchange.poll_event(cx) {
        Poll::Ready(ExchangeEvent::Notify(notification)) => Some(Ok(notification)),
        Poll::Ready(ExchangeEvent::Done(Outcome::Failed(error))) => Some(Err(Some(error))),
        Poll::Ready(ExchangeEvent::Ask(_) | ExchangeEvent::Done(_)) => Some(Err(None)),
        Poll::Pending => None,
    }
}

/// Returns a notification for everything that a filter asks for.
fn notifications_of(filter: &SubscriptionFilter) -> VecDeque<Notification> {
    let lists = [
        (filter.tools_list_changed, Notification::ToolsListChanged),
        (filter.prompts_list_changed, Notification::PromptsListChanged),
        (filter.resources_list_changed, Notification::ResourcesListChanged),
    ];
    let lists = lists.into_iter().filter(|(wanted, _)| *wanted).map(|(_, change)| change);
    let uris = filter.resource_subscriptions.iter();
    let updates = uris.map(|uri| Notification::ResourceUpdated(ResourceUpdatedParams::new(uri.as_str())));
    lists.chain(updates).collect()
}

/// The answer to a `subscriptions/listen` that the server ends.
pub(super) fn end_reply() -> Reply {
    Reply::Listen(Box::new(SubscriptionsListenResult::new()))
}

/// Adds the id of the ended stream to the answer (SUBS-08).
pub(super) fn stamp_subscription(reply: &mut Reply, id: &RequestId) {
    if !matches!(reply, Reply::Listen(_)) {
        *reply = end_reply();
    }
    if let (Reply::Listen(result), Ok(id)) = (reply, RawJson::from_serialize(id)) {
        result.meta.insert(meta_key::SUBSCRIPTION_ID, id);
    }
}
