//! The standing call for changes that serves a legacy session.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use hospes_model::{
    Id, Method, Notification, RawJson, Reply, SubscriptionsListenParams, SubscriptionsListenResult, meta_key,
};

use super::{Adapter, Session, write};
use crate::Context;
use crate::exchange::{Event, Exchange};
use crate::service::Call;

/// The call for changes of one legacy session: made anew when its subscriptions change, the new one before the old
/// one is dropped, so that nothing falls between them.
#[derive(Debug)]
pub(crate) struct Listen {
    adapter: Arc<Adapter>,
    current: Option<Box<Exchange>>,
    next: Option<Box<Exchange>>,
    epoch: Option<u64>,
}

impl Listen {
    pub(crate) fn new(adapter: &Arc<Adapter>) -> Self {
        Self { adapter: Arc::clone(adapter), current: None, next: None, epoch: None }
    }

    /// Appends the next notification to `out`, without any framing. Ready means that one was appended; the stream
    /// never ends by itself.
    pub(crate) fn poll_said(
        &mut self,
        session: &Session,
        cx: &mut TaskContext<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<()> {
        session.register_listener(cx.waker());
        if self.epoch != Some(session.epoch()) {
            self.renew(session);
        }
        loop {
            // What the old call has to say comes first, as long as the new one is not acknowledged.
            if let Some(event) = poll(&mut self.current, cx) {
                if self.say(&event, session, out) {
                    return Poll::Ready(());
                }
                continue;
            }
            match poll(&mut self.next, cx) {
                Some(Notification::SubscriptionsAcknowledged(_)) => self.current = self.next.take(),
                Some(event) => {
                    self.current = self.next.take();
                    if self.say(&event, session, out) {
                        return Poll::Ready(());
                    }
                }
                None => return Poll::Pending,
            }
        }
    }

    fn renew(&mut self, session: &Session) {
        // Read before the filter: what changes in between is seen the next time.
        self.epoch = Some(session.epoch());
        let filter = session.filter();
        self.next = None;
        if filter.is_empty() {
            self.current = None;
            return;
        }
        let Ok(params) = RawJson::from_serialize(&SubscriptionsListenParams::new(filter)) else { return };
        let context = Context::new(Arc::clone(session.peer()));
        let call = Call::new(Method::SubscriptionsListen, params, context);
        self.next = Some(Box::new(Exchange::new(self.adapter.service.clone(), call)));
    }

    fn say(&self, notification: &Notification, session: &Session, out: &mut Vec<u8>) -> bool {
        let mine = matches!(
            notification,
            Notification::ToolsListChanged
                | Notification::PromptsListChanged
                | Notification::ResourcesListChanged
                | Notification::ResourceUpdated(_)
                | Notification::ElicitationComplete(_)
                // SUBS-10 keeps them from streams of changes; a session has one stream for all that belongs to no call.
                | Notification::LogMessage(_)
                // Of the session's tasks.
                | Notification::TasksChanged(_)
                | Notification::Progress(_)
        );
        if matches!(notification, Notification::TasksChanged(_)) {
            session.tasks().told(notification);
        }
        mine && write::notification(out, notification, session.peer().revision, None)
    }
}

/// The next notification of a call for changes; a call that has ended is dropped.
fn poll(exchange: &mut Option<Box<Exchange>>, cx: &mut TaskContext<'_>) -> Option<Notification> {
    match exchange.as_mut()?.poll_event(cx) {
        Poll::Ready(Event::Notify(notification)) => Some(notification),
        Poll::Ready(Event::Ask(_) | Event::Done(_)) => {
            *exchange = None;
            None
        }
        Poll::Pending => None,
    }
}

/// The answer to a `subscriptions/listen` that the server ends.
pub(super) fn ended() -> Reply {
    Reply::Listen(Box::new(SubscriptionsListenResult::new()))
}

/// Says in the answer which stream has ended (SUBS-08).
pub(super) fn stamp_subscription(reply: &mut Reply, id: &Id) {
    if !matches!(reply, Reply::Listen(_)) {
        *reply = ended();
    }
    if let (Reply::Listen(result), Ok(id)) = (reply, RawJson::from_serialize(id)) {
        result.meta.insert(meta_key::SUBSCRIPTION_ID, id);
    }
}
