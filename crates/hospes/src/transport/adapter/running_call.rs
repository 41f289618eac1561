//! A call under way, as the messages that it puts on the wire.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Instant;

use hospes_model::{InputRequest, Method, Notification, RequestId, Revision, RpcError, meta_key};
use hospes_proto::session::RequestTicket;

use super::question_round::{QuestionRound, QuestionRoundEvent};
use super::{CallStopReason, CallStopSwitch, CallTable, CallTimingKey, LegacySession, ServiceAdapter, write};
use crate::context::Context;
use crate::exchange::{Exchange, ExchangeEvent};
use crate::service::{Outcome, Service as _};

/// Output that a call has just written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunningCallOutput {
    /// A message that precedes the answer.
    Message,
    /// The answer, and its code where it is an error. Nothing comes after it.
    Answer(Option<i64>),
    /// Nothing, and nothing will come: the peer has cancelled the call.
    Silence,
}

/// A call under way. Dropping it cancels the call.
#[derive(Debug)]
pub(crate) struct RunningCall {
    adapter: Arc<ServiceAdapter>,
    exchange: Exchange,
    id: RequestId,
    /// The legacy peer's session.
    session: Option<Arc<LegacySession>>,
    /// Switch that stops the call from outside, and its registration.
    hold: Option<CallRegistration>,
    // Both are rare, and a call is moved about.
    asking: Option<Box<QuestionRound>>,
    /// Forced end of the call, regardless of the handler.
    end: Option<Box<CallTermination>>,
    /// True if it was restarted as a task, for a peer that does not know tasks.
    as_task: bool,
}

#[derive(Debug)]
struct CallRegistration {
    stop: Arc<CallStopSwitch>,
    table: CallTable,
    ticket: RequestTicket,
}

#[cfg_attr(
    not(feature = "http"),
    expect(dead_code, reason = "only the HTTP server ends a call from outside")
)]
#[derive(Debug)]
enum CallTermination {
    Stopped(CallStopReason),
    Failed(RpcError),
}

impl RunningCall {
    pub(super) fn new(
        adapter: Arc<ServiceAdapter>,
        exchange: Exchange,
        id: RequestId,
        session: Option<Arc<LegacySession>>,
    ) -> Self {
        Self { adapter, exchange, id, session, hold: None, asking: None, end: None, as_task: false }
    }

    /// The request's id.
    pub(crate) fn id(&self) -> &RequestId {
        &self.id
    }

    /// The method called.
    pub(crate) fn method(&self) -> &Method {
        &self.exchange.call().method
    }

    /// The surroundings of the call.
    pub(crate) fn context(&self) -> &Context {
        &self.exchange.call().context
    }

    /// The peer's revision.
    pub(crate) fn revision(&self) -> Revision {
        self.context().peer().revision
    }

    /// Returns the kind of the call, if it runs user code.
    pub(crate) fn kind(&self) -> Option<CallTimingKey> {
        if self.adapter.service.is_cooperative() {
            return None;
        }
        self.adapter.call_timings.kind(self.exchange.call())
    }

    /// Records the first stretch of a call of this kind.
    pub(crate) fn record_timing(&self, kind: CallTimingKey, start: Instant) {
        self.adapter.call_timings.record(kind, start);
    }

    /// Returns true if this is a stream of changes (2026-07-28).
    pub(crate) fn is_listen(&self) -> bool {
        self.session.is_none() && *self.method() == Method::SubscriptionsListen
    }

    /// Enters the call among those that others may end: it has not finished at once.
    pub(crate) fn register(&mut self, table: CallTable) -> Result<Arc<CallStopSwitch>, RpcError> {
        let (stop, ticket) = table.enter(&self.id)?;
        self.hold = Some(CallRegistration { stop: Arc::clone(&stop), table, ticket });
        Ok(stop)
    }

    /// Ends the call; [`RunningCall::poll_output`] says so.
    #[cfg(feature = "http")]
    pub(crate) fn end(&mut self, why: CallStopReason) {
        self.end = Some(Box::new(CallTermination::Stopped(why)));
    }

    /// Ends the call with an error; [`RunningCall::poll_output`] says so.
    #[cfg(feature = "http")]
    pub(crate) fn fail(&mut self, error: RpcError) {
        self.end = Some(Box::new(CallTermination::Failed(error)));
    }

    /// Returns true if the call has been stopped; otherwise registers the task.
    #[cfg(feature = "http")]
    pub(crate) fn is_stopping(&self, cx: &TaskContext<'_>) -> bool {
        self.end.is_some() || self.hold.as_ref().is_some_and(|hold| hold.stop.poll(cx).is_some())
    }

    /// Appends the next message to `out`, without any framing. Must not be called again after the answer.
    pub(crate) fn poll_output(
        &mut self,
        cx: &mut TaskContext<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<RunningCallOutput> {
        match self.end.take().map(|end| *end) {
            Some(CallTermination::Stopped(why)) => return Poll::Ready(self.write_stopped(why, out)),
            Some(CallTermination::Failed(error)) => {
                return Poll::Ready(RunningCallOutput::Answer(self.finish(Outcome::Failed(error), out)));
            }
            None => {}
        }
        loop {
            // Before the handler is polled: a cancelled call must put nothing more on the wire (CANC-06).
            if let Some(why) = self.hold.as_ref().and_then(|hold| hold.stop.poll(cx)) {
                return Poll::Ready(self.write_stopped(why, out));
            }
            if let (Some(asking), Some(session)) = (&mut self.asking, &self.session) {
                match std::task::ready!(asking.poll(session, cx, out)) {
                    QuestionRoundEvent::Message => return Poll::Ready(RunningCallOutput::Message),
                    QuestionRoundEvent::Answered(answers) => self.exchange.answer_each(answers),
                    QuestionRoundEvent::Refused(error) => self.exchange.refuse(error),
                }
                self.asking = None;
            }
            match std::task::ready!(self.exchange.poll_event(cx)) {
                ExchangeEvent::Notify(notification) => {
                    if self.notify(&notification, out) {
                        return Poll::Ready(RunningCallOutput::Message);
                    }
                }
                ExchangeEvent::Ask(requests) => self.ask(requests),
                ExchangeEvent::Done(Outcome::Failed(error)) if self.restart_as_task(&error) => {}
                ExchangeEvent::Done(outcome) => {
                    return Poll::Ready(RunningCallOutput::Answer(self.finish(outcome, out)));
                }
            }
        }
    }

    /// Restarts the call as a task that the peer does not see. Returns true if that is possible.
    fn restart_as_task(&mut self, error: &RpcError) -> bool {
        let Some(session) = self.session.as_ref().filter(|_| !self.as_task) else { return false };
        let again = super::tasks::retry_as_task(&self.adapter.service, session, self.exchange.call(), error);
        let Some(again) = again else { return false };
        (self.exchange, self.as_task) = (again, true);
        true
    }

    fn ask(&mut self, requests: Vec<(String, InputRequest)>) {
        let each = self.exchange.takes_refusals();
        let keys: Vec<String> = requests.iter().filter(|_| each).map(|(key, _)| key.clone()).collect();
        let asking = match &self.session {
            Some(session) => {
                QuestionRound::new(session, requests, each, self.adapter.settings.question_timeout)
            }
            None => Err(RpcError::internal("a question was asked outside of a session")),
        };
        match asking {
            Ok(asking) => self.asking = Some(Box::new(asking)),
            Err(error) if each => {
                self.exchange.answer_each(keys.into_iter().map(|key| (key, Err(error.clone()))));
            }
            Err(error) => self.exchange.refuse(error),
        }
    }

    fn notify(&self, notification: &Notification, out: &mut Vec<u8>) -> bool {
        let listen = self.is_listen();
        let allowed = match notification {
            Notification::LogMessage(message) => {
                // STLS: without a level in the request there are no log messages for it.
                let wanted = self.context().log_level();
                !listen
                    && match wanted {
                        Some(level) => message.level >= level,
                        None => self.revision().is_legacy(),
                    }
            }
            // Under the token of this request alone, or, where a task's result is awaited, of the task's.
            Notification::Progress(report) => {
                !listen
                    && (self.context().progress_token() == Some(&report.progress_token)
                        || report.meta.get(meta_key::RELATED_TASK).is_some())
            }
            Notification::ToolsListChanged
            | Notification::PromptsListChanged
            | Notification::ResourcesListChanged
            | Notification::ResourceUpdated(_)
            | Notification::SubscriptionsAcknowledged(_) => listen,
            // The client's to send, and here nobody's.
            Notification::Cancelled(_) | Notification::RootsListChanged | Notification::Initialized => false,
            _ => true,
        };
        let subscription = listen.then_some(&self.id);
        allowed && write::notification(out, notification, self.revision(), subscription)
    }

    fn finish(&mut self, outcome: Outcome, out: &mut Vec<u8>) -> Option<i64> {
        let (method, revision) = (&self.exchange.call().method, self.revision());
        let start = out.len();
        let code = match outcome {
            Outcome::Complete(mut reply) => {
                if self.is_listen() {
                    super::listen::stamp_subscription(&mut reply, &self.id);
                }
                self.adapter.buffers.make_room(out, write::estimated_length(&reply));
                write::reply(out, &self.id, method, revision, self.adapter.stamp(), &reply)
            }
            Outcome::InputRequired(questions) => match self.adapter.seal(self.exchange.call(), &questions) {
                Ok(state) => {
                    let (stamp, requests) = (self.adapter.stamp(), questions.requests);
                    write::questions(out, &self.id, method, stamp, requests, state)
                }
                Err(error) => Some(write::error(out, Some(&self.id), method, revision, error)),
            },
            Outcome::Failed(error) => Some(write::error(out, Some(&self.id), method, revision, error)),
        };
        let (bytes, limit) = (out.len() - start, self.adapter.settings.max_answer_bytes);
        if bytes > limit / 5 * 4 && bytes <= limit {
            tracing::warn!(%method, bytes, limit, "response size is close to the limit (setting max_answer_bytes)");
        }
        if bytes > limit {
            tracing::error!(%method, bytes, limit, "response size is over the limit (setting max_answer_bytes)");
            // Only the answer is taken back: earlier messages of the call may stand before it.
            out.truncate(start);
            return match write::too_long(method, bytes, limit) {
                Ok(reply) => write::reply(out, &self.id, method, revision, self.adapter.stamp(), &reply),
                Err(error) => Some(write::error(out, Some(&self.id), method, revision, error)),
            };
        }
        code
    }

    fn write_stopped(&mut self, why: CallStopReason, out: &mut Vec<u8>) -> RunningCallOutput {
        let error = match why {
            CallStopReason::Cancelled => return RunningCallOutput::Silence,
            CallStopReason::SessionEnded => RpcError::internal("the session has ended"),
            CallStopReason::ShuttingDown if self.is_listen() => {
                // SUBS-08: the stream ends with the answer to the request that opened it.
                let reply = super::listen::end_reply();
                return RunningCallOutput::Answer(self.finish(Outcome::Complete(reply), out));
            }
            CallStopReason::ShuttingDown => RpcError::internal("the server is shutting down"),
            #[cfg(feature = "http")]
            CallStopReason::SessionLost => {
                let outcome = super::outcome_unknown::outcome(self.method());
                return RunningCallOutput::Answer(self.finish(outcome, out));
            }
        };
        RunningCallOutput::Answer(self.finish(Outcome::Failed(error), out))
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        if let (Some(session), Some(asking)) = (&self.session, &self.asking) {
            asking.withdraw(session);
        }
        if let Some(hold) = &self.hold {
            hold.table.leave(&self.id, hold.ticket);
        }
    }
}
