//! Dispatch of incoming messages to calls and handlers.

use std::task::Waker;

use bytes::Bytes;
use hospes_model::message::{self, Frame, JsonRpcMessage};
use hospes_model::{Method, RawJson, RequestId, Revision, RpcError, meta_key};
use hospes_proto::frame::{FramedLine, OversizeMessage, OversizeSubject};
use hospes_proto::session::client::ServerRequestError;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use std::sync::Arc;

use super::{DuplexShared, DuplexState, EventInterest, PendingDuplexRequest, write_answer};
use crate::client::error::{CallError, excerpt};
use crate::client::link::LinkEvent;
use crate::client::link::ReplyTo;
use crate::client::link::inbox::{self, ProgressParamsPeek};

/// Maximum number of bytes of a line without a message that are examined.
const MAX_NOISE_BYTES: usize = 16 * 1024;

/// Work to do after the lock is released.
#[derive(Default)]
pub(super) struct PendingEffects {
    wakers: Vec<Waker>,
    outside: Vec<UnsolicitedMessage>,
    wrote: bool,
}

/// Message that belongs to no call of the client.
enum UnsolicitedMessage {
    Notification(Method, Option<RawJson>),
    Request(RequestId, Method, Option<RawJson>),
    Cancelled(RequestId, Option<String>),
}

/// Several may be meant.
struct AmbiguousCall;

impl DuplexShared {
    /// Handles all of `lines`.
    pub(super) fn handle_lines(
        self: &Arc<Self>,
        lines: impl Iterator<Item = FramedLine>,
        batch: &mut PendingEffects,
    ) {
        // Wakers and handlers run foreign code, which may call
        // back: they are collected and run without the lock.
        let mut state = self.lock();
        for line in lines {
            match line {
                FramedLine::Message(line) => state.handle_line(&line, batch),
                FramedLine::Oversize(over) => state.handle_oversize(&over, batch),
            }
        }
        drop(state);
        batch.wakers.drain(..).for_each(Waker::wake);
        for outside in batch.outside.drain(..) {
            match outside {
                UnsolicitedMessage::Notification(method, params) => {
                    self.inbound.handle_notification(&method, params.as_ref())
                }
                UnsolicitedMessage::Request(id, method, params) => {
                    Arc::clone(&self.inbound).handle_unsolicited_request(
                        id,
                        method,
                        params,
                        ReplyTo::new(Arc::<Self>::clone(self)),
                    );
                }
                UnsolicitedMessage::Cancelled(id, reason) => self.inbound.handle_cancelled(&id, reason),
            }
        }
        if std::mem::take(&mut batch.wrote) {
            self.driver.wake();
        }
    }
}

impl DuplexState {
    fn handle_line(&mut self, line: &Bytes, batch: &mut PendingEffects) {
        match message::decode(line) {
            Ok(Frame::Single(message)) => self.handle_message(line, message, batch),
            // Only one revision has batches; before it is known which is spoken they do no harm either.
            Ok(Frame::Batch(parts)) if self.revision.is_none_or(|r| r == Revision::V2025_03_26) => {
                for part in parts {
                    match part {
                        Ok(message) => self.handle_message(line, message, batch),
                        Err(error) => {
                            self.handle_undecodable(line, error.answers.as_ref(), &error.error, batch)
                        }
                    }
                }
            }
            Ok(Frame::Batch(_)) => self.handle_noise(line),
            Err(error) => self.handle_undecodable(line, error.answers.as_ref(), &error.error, batch),
        }
    }

    fn handle_message(&mut self, line: &Bytes, message: JsonRpcMessage<'_>, batch: &mut PendingEffects) {
        let raw = |params: Option<&RawValue>| params.map(|params| RawJson::slice_of(line, params));
        match message {
            JsonRpcMessage::Response(response) => {
                let Some(id) = response.id else {
                    tracing::debug!("the server could not parse a message");
                    return;
                };
                let outcome = match response.outcome {
                    Ok(result) => Ok(RawJson::slice_of(line, result)),
                    Err(error) => Err(CallError::Rpc(error)),
                };
                self.handle_response(&id, outcome, batch);
            }
            JsonRpcMessage::Notification(notification) => {
                let method = Method::from_name(&notification.method);
                self.handle_notification(method, raw(notification.params), batch);
            }
            JsonRpcMessage::Request(request) => {
                let method = Method::from_name(&request.method);
                self.handle_request(request.id, method, raw(request.params), batch);
            }
        }
    }

    fn handle_response(
        &mut self,
        id: &RequestId,
        outcome: Result<RawJson, CallError>,
        batch: &mut PendingEffects,
    ) {
        let number = match id {
            RequestId::Number(number) => Some(*number),
            // There are servers that return a numeric id as a string.
            RequestId::Text(text) => text.parse().ok(),
        };
        if let (Some(slot), Some(number)) = (self.session.handle_response(id), number) {
            self.complete_request(number, slot, outcome, &mut batch.wakers);
        } else {
            tracing::trace!(%id, "ignored a response that matches no pending request");
        }
    }

    fn handle_notification(&mut self, method: Method, params: Option<RawJson>, batch: &mut PendingEffects) {
        match method {
            Method::Progress => {
                let now = Instant::now().into_std();
                let Some(progress) = ProgressParamsPeek::from_params(params.as_ref()) else { return };
                let slot = self.session.handle_progress(now, &progress.progress_token, progress.progress);
                if let Some(slot) = slot
                    && slot.interest != EventInterest::AnswerOnly
                {
                    slot.push(LinkEvent::Notification(method, params), batch);
                }
            }
            Method::Cancelled => {
                let Some((cancelled, reason)) = inbox::parse_cancelled(params.as_ref()) else { return };
                if self.session.handle_cancelled(&cancelled) {
                    batch.outside.push(UnsolicitedMessage::Cancelled(cancelled, reason));
                } else if self.revision.is_some_and(|revision| !revision.is_legacy())
                    && let RequestId::Number(id) = cancelled
                    && self
                        .session
                        .waiting_mut(id)
                        .is_some_and(|slot| slot.method == Method::SubscriptionsListen)
                {
                    // From 2026-07-28 on a server ends a listen stream so.
                    self.handle_response(&id.into(), Ok(RawJson::empty_object()), batch);
                }
            }
            method => match self.find_subscriber(params.as_ref()) {
                Some(slot) => slot.push(LinkEvent::Notification(method, params), batch),
                None => {
                    // Nothing ties a log message to a request here, unless there is only one.
                    if method == Method::LogMessage
                        && let Some(slot) = self.find_only_listener()
                    {
                        slot.push(LinkEvent::Notification(method.clone(), params.clone()), batch);
                        // Whoever relays a call relays its messages too; told twice they would arrive twice.
                        if slot.interest == EventInterest::NotificationsAndRequests {
                            return;
                        }
                    }
                    batch.outside.push(UnsolicitedMessage::Notification(method, params));
                }
            },
        }
    }

    /// The listen request that a notification names.
    fn find_subscriber(&mut self, params: Option<&RawJson>) -> Option<&mut PendingDuplexRequest> {
        if self.revision.is_none_or(Revision::is_legacy) {
            return None;
        }
        #[derive(Deserialize)]
        struct SubscriptionMetaPeek {
            #[serde(rename = "_meta")]
            meta: hospes_model::Meta,
        }
        let params: SubscriptionMetaPeek = params?.decode().ok()?;
        let id: i64 = params.meta.read(meta_key::SUBSCRIPTION_ID)?;
        self.session.waiting_mut(id)
    }

    /// Returns the only call in flight that receives notifications, if there is exactly one. Listen streams carry no
    /// log messages and are not counted.
    fn find_only_listener(&mut self) -> Option<&mut PendingDuplexRequest> {
        let hears = |slot: &PendingDuplexRequest| {
            slot.interest != EventInterest::AnswerOnly && slot.method != Method::SubscriptionsListen
        };
        let mut all = self.session.all_waiting_mut().filter(|(_, slot)| hears(slot));
        let (_, only) = all.next()?;
        all.next().is_none().then_some(only)
    }

    fn handle_request(
        &mut self,
        id: RequestId,
        method: Method,
        params: Option<RawJson>,
        batch: &mut PendingEffects,
    ) {
        if self.revision.is_some_and(|revision| !revision.is_legacy()) {
            // Servers send no requests from 2026-07-28 on, and clients no answers.
            tracing::warn!(%method, "ignored a request from the server: its revision does not allow them");
            return;
        }
        // Before the limit of open requests: a ping is answered even if too many questions wait (PING-02).
        if method == Method::Ping {
            return self.queue_answer(&id, Ok(&RawJson::empty_object()), batch);
        }
        if let Err(refusal) = self.session.handle_request(&id) {
            let error = match refusal {
                ServerRequestError::Duplicate => {
                    RpcError::invalid_request("the request id is still in use by an earlier request")
                }
                ServerRequestError::TooMany(max) => RpcError::internal(format!(
                    "more than {max} requests at once (setting max_server_requests)"
                )),
            };
            return self.queue_answer(&id, Err(&error), batch);
        }
        if let Some(task) = read_related_task(params.as_ref()) {
            match self.find_result_fetch(&task) {
                Some(slot) => slot.push(LinkEvent::Question(id, method, params), batch),
                None => batch.outside.push(UnsolicitedMessage::Request(id, method, params)),
            }
            return;
        }
        match self.find_request_owner() {
            Ok(Some(slot)) => slot.push(LinkEvent::Question(id, method, params), batch),
            Ok(None) => batch.outside.push(UnsolicitedMessage::Request(id, method, params)),
            Err(AmbiguousCall) => {
                tracing::warn!(%method, "request rejected: ambiguous, calls of several principals are in flight");
                // It is answered here; otherwise its id would count
                // against `max_server_requests` until the end.
                self.session.finish_request(&id);
                let error =
                    RpcError::internal("ambiguous request: calls of several principals are in flight");
                self.queue_answer(&id, Err(&error), batch);
            }
        }
    }

    /// Finds the call that fetches this task's result for a caller that answers its questions.
    fn find_result_fetch(&mut self, task: &str) -> Option<&mut PendingDuplexRequest> {
        let mut all = self.session.all_waiting_mut();
        let fetches = |slot: &PendingDuplexRequest| {
            slot.interest == EventInterest::NotificationsAndRequests && slot.task.as_deref() == Some(task)
        };
        all.find(|(_, slot)| fetches(slot)).map(|(_, slot)| slot)
    }

    /// The call on whose behalf the server asks. Nothing on the wire says which it is; of those whose callers can pass
    /// a question on, the youngest is the likeliest. What is asked on behalf of one principal must not reach another.
    fn find_request_owner(&mut self) -> Result<Option<&mut PendingDuplexRequest>, AmbiguousCall> {
        let all = self.session.all_waiting_mut();
        let eligible = all.filter(|(_, slot)| {
            slot.interest == EventInterest::NotificationsAndRequests && slot.method.allows_input_requests()
        });
        let mut youngest: Option<(i64, &mut PendingDuplexRequest)> = None;
        for (id, slot) in eligible {
            match &youngest {
                Some((_, other)) if other.principal != slot.principal => return Err(AmbiguousCall),
                Some((other, _)) if *other > id => {}
                _ => youngest = Some((id, slot)),
            }
        }
        Ok(youngest.map(|(_, slot)| slot))
    }

    fn queue_answer(
        &mut self,
        id: &RequestId,
        outcome: Result<&RawJson, &RpcError>,
        batch: &mut PendingEffects,
    ) {
        write_answer(&mut self.out, id, outcome);
        self.out.push(b'\n');
        batch.wrote = true;
    }

    fn handle_oversize(&mut self, over: &OversizeMessage, batch: &mut PendingEffects) {
        tracing::warn!(bytes = over.seen, limit = over.limit, "oversize message skipped");
        match &over.subject {
            OversizeSubject::Request(id) => self.queue_answer(&id.clone(), Err(&over.to_error()), batch),
            OversizeSubject::Response(id) => {
                let bytes = usize::try_from(over.seen).unwrap_or(usize::MAX);
                let error = CallError::TooLarge {
                    what: "the answer",
                    bytes,
                    max: over.limit,
                    setting: "max_message_bytes",
                };
                self.handle_response(&id.clone(), Err(error), batch);
            }
            OversizeSubject::Unknown => {
                self.noise.count += 1;
                let seen = over.seen;
                self.noise.first.get_or_insert_with(|| format!("a line of {seen} bytes that is no message"));
            }
        }
    }

    fn handle_undecodable(
        &mut self,
        line: &Bytes,
        id: Option<&RequestId>,
        error: &RpcError,
        batch: &mut PendingEffects,
    ) {
        // What was meant as the answer to a request of ours fails that request.
        if let Some(RequestId::Number(number)) = id
            && let Some(slot) = self.session.waiting_mut(*number)
        {
            let method = slot.method.name().into();
            let why = error.message.as_ref().into();
            self.handle_response(
                &RequestId::Number(*number),
                Err(CallError::Malformed { method, why }),
                batch,
            );
            return;
        }
        self.handle_noise(line);
    }

    fn handle_noise(&mut self, line: &Bytes) {
        self.noise.count += 1;
        // There are servers that print without end.
        if self.noise.first.is_some() && !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        // Before it is cut: half a secret is one, too.
        let line = self.hidden.redact(String::from_utf8_lossy(&line[..line.len().min(MAX_NOISE_BYTES)]));
        let Some(shown) = excerpt(line.as_bytes()) else { return };
        if self.noise.first.is_none() {
            tracing::warn!("the server printed this on stdout: {shown}");
            self.noise.first = Some(shown);
        } else {
            tracing::debug!("the server printed this on stdout: {shown}");
        }
    }
}

/// The task that a question belongs to, where it says so (2025-11-25).
fn read_related_task(params: Option<&RawJson>) -> Option<String> {
    #[derive(Deserialize)]
    struct RelatedTaskPeek {
        #[serde(rename = "_meta")]
        meta: hospes_model::Meta,
    }
    let params: RelatedTaskPeek = params?.decode().ok()?;
    let related: hospes_model::RelatedTask = params.meta.read(meta_key::RELATED_TASK)?;
    Some(related.task_id)
}

impl PendingDuplexRequest {
    fn push(&mut self, event: LinkEvent, batch: &mut PendingEffects) {
        self.inbox.push(event);
        batch.wakers.extend(self.waker.take());
    }
}
