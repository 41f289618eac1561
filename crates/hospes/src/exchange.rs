//! Drives one call: polls the handler in place, hands out its notifications, and asks for it again once its
//! questions are answered.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context as TaskContext, Poll};

use hospes_model::{InputRequest, Notification, RawJson, Reply, RpcError};

use crate::round::Round;
use crate::service::{BoxService, Call, Outcome, OutcomeFuture};

/// The most rounds of questions that one call may have on an older revision, where the rounds cost memory here.
pub const MAX_ROUNDS: u32 = 32;

/// Next event of a call.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "adapters must handle all three")]
pub enum ExchangeEvent {
    /// A notification that belongs to the call.
    Notify(Notification),
    /// Questions for a peer of an older revision: send them as requests, then call [`Exchange::answer`].
    Ask(Vec<(String, InputRequest)>),
    /// The outcome; nothing comes after it. Its notifications have all been handed out before.
    Done(Outcome),
}

/// One call under way. Dropping it cancels the call.
#[derive(Debug)]
pub struct Exchange {
    service: BoxService,
    call: Call,
    future: Option<FutureSlot>,
    done: Option<Outcome>,
    waiting: Option<Box<Round>>,
}

struct FutureSlot(OutcomeFuture<'static>);

impl std::fmt::Debug for FutureSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Future")
    }
}

impl Exchange {
    /// Starts nothing yet: the handler first runs when the exchange is polled.
    #[must_use]
    pub fn new(service: BoxService, call: Call) -> Self {
        Self { service, call, future: None, done: None, waiting: None }
    }

    /// The call.
    #[must_use]
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// The next event. Must not be called again after [`ExchangeEvent::Done`].
    pub fn poll_event(&mut self, cx: &mut TaskContext<'_>) -> Poll<ExchangeEvent> {
        if self.done.is_none() && self.waiting.is_none() {
            let (service, call) = (&self.service, &self.call);
            let slot = self.future.get_or_insert_with(|| FutureSlot(service.start(call.clone())));
            // A panic in a handler is that call's error, not the connection's end.
            match catch_unwind(AssertUnwindSafe(|| slot.0.as_mut().poll(cx))) {
                Ok(Poll::Pending) => {}
                Ok(Poll::Ready(outcome)) => self.done = Some(outcome),
                Err(_) => {
                    tracing::error!(method = %self.call.method, "a handler panicked");
                    self.done = Some(Outcome::Failed(RpcError::internal("the handler panicked")));
                }
            }
            if let Some(outcome) = &self.done {
                // Dropped at once, so that what the handler held is free before its outcome is told.
                self.future = None;
                self.call.context.finish(self.is_last(outcome));
            }
        }
        if let Some(notification) = self.call.context.poll_notification(cx.waker()) {
            return Poll::Ready(ExchangeEvent::Notify(notification));
        }
        match self.done.take() {
            None => Poll::Pending,
            Some(Outcome::InputRequired(questions)) if self.call.context.peer().revision.is_legacy() => {
                if questions.round.number >= MAX_ROUNDS {
                    let why = format!("more than {MAX_ROUNDS} rounds of questions");
                    return Poll::Ready(ExchangeEvent::Done(Outcome::Failed(RpcError::internal(why))));
                }
                self.waiting = Some(Box::new(questions.round));
                Poll::Ready(ExchangeEvent::Ask(questions.requests))
            }
            Some(outcome) => Poll::Ready(ExchangeEvent::Done(outcome)),
        }
    }

    /// Returns true if the outcome ends the call, so that nothing may be sent after it. Such a call does not run again
    /// after answers, nor continue as a task.
    fn is_last(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::InputRequired(_) => !self.call.context.peer().revision.is_legacy(),
            Outcome::Complete(reply) => !matches!(reply, Reply::CreateTask(_)),
            Outcome::Failed(_) => true,
        }
    }

    /// The answers to the questions of the last [`ExchangeEvent::Ask`]; the handler runs again from the top.
    pub fn answer(&mut self, answers: impl IntoIterator<Item = (String, RawJson)>) {
        self.answer_each(answers.into_iter().map(|(key, answer)| (key, Ok(answer))));
    }

    /// Answers the questions one by one, where the peer refused or failed to answer some. Unless
    /// [`Exchange::takes_refusals`] is true, the call ends with the first of those errors.
    pub fn answer_each(&mut self, answers: impl IntoIterator<Item = (String, Result<RawJson, RpcError>)>) {
        let Some(mut round) = self.waiting.take() else { return };
        round.record_answer_results(answers);
        if !round.takes_refusals
            && let Some((_, error)) = round.refused.pop_first()
        {
            self.done = Some(Outcome::Failed(error));
            return;
        }
        self.call.context.begin_round(*round);
    }

    /// Returns true if the call continues when the peer refuses one of the questions of the last [`ExchangeEvent::Ask`].
    #[must_use]
    pub fn takes_refusals(&self) -> bool {
        self.waiting.as_ref().is_some_and(|round| round.takes_refusals)
    }

    /// The peer would not or could not answer: the call ends with `error`.
    pub fn refuse(&mut self, error: RpcError) {
        if self.waiting.take().is_some() {
            self.done = Some(Outcome::Failed(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;

    use hospes_model::{ClientCapabilities, Method, Revision};

    use super::*;
    use crate::context::Context;
    use crate::peer::Peer;
    use crate::service::Service;

    struct Quick;

    impl Service for Quick {
        async fn call(&self, call: Call) -> Outcome {
            call.context.notify(Notification::ToolsListChanged);
            Outcome::Complete(Reply::Empty)
        }
    }

    /// A handler that keeps sending notifications does not delay the answer.
    #[test]
    fn what_is_said_behind_the_answer_is_not_heard() {
        for revision in [Revision::LATEST, Revision::V2025_11_25] {
            let context = Context::new(Arc::new(Peer::new(revision, None, ClientCapabilities::default())));
            let call = Call::new(Method::ToolsCall, RawJson::empty_object(), context.clone());
            let mut exchange = Exchange::new(BoxService::new(Quick), call);
            let mut cx = TaskContext::from_waker(Waker::noop());
            assert!(matches!(exchange.poll_event(&mut cx), Poll::Ready(ExchangeEvent::Notify(_))));
            context.notify(Notification::ToolsListChanged);
            assert!(matches!(exchange.poll_event(&mut cx), Poll::Ready(ExchangeEvent::Done(_))));
        }
    }
}
