//! A client as a [`Service`], the basis of a gateway.
//!
//! Calls and results pass through unchanged. Members that belong to one connection (ids, tokens, descriptions of client
//! and server) are rewritten for the other. An input request of the server goes to the client that made the call. A
//! server of 2026-07-28 sends its request state with it, which is passed on in both directions. A legacy server waits
//! for the response to its request. Its call is therefore *parked* for at most the setting `park_timeout`, and the
//! state is a handle to it. Requests of such a server between calls wait for the next call.

use std::sync::Arc;
use std::time::Duration;

use hospes_model::{
    DiscoverResult, ElicitAction, ElicitParams, ElicitResult, InputRequest, LoggingLevel, Method,
    Notification, PeerResult, RawJson, Reply, Revision, RpcError, ServerCapabilities, meta_key,
};
use serde::Deserialize;

use crate::client::calls::forwarded_params::ForwardedParams;
use crate::client::connection::core::{
    ClientCore, check_input_required, encode_input_response, unexpected_task_error, write_round_params,
};
use crate::client::connection::handle::Client;
use crate::client::connection::parked_calls::ParkedCall;
use crate::client::error::CallError;
use crate::client::error::malformed;
use crate::client::link::NegotiatedProtocol;
use crate::client::link::{EventInterest, LinkEvent, OutgoingParams, OutgoingRequest, written_notification};
use crate::client::tasks::legacy_tasks::no_task_error;
use crate::context::Context;
use crate::params::Params;
use crate::round::PendingInput;
use crate::round::Round;
use crate::service::{Call, Outcome, Service};
use crate::tasks::TaskPreference;

/// Placeholder for a handle if a call is to be repeated from the start.
const RETRY_HANDLE: &str = "again";
/// Delay before the next round if a server returns `input_required` without questions.
const EMPTY_ROUND_DELAY: Duration = Duration::from_millis(200);

impl Service for Client {
    async fn call(&self, call: Call) -> Outcome {
        self.forward(call).await.unwrap_or_else(|error| Outcome::Failed(error.to_rpc()))
    }

    async fn notified(&self, notification: Notification, _: Context) {
        let Notification::Other { method, params } = notification else { return };
        let params = params.unwrap_or_else(RawJson::empty_object);
        if let Err(error) = self.core.notify(&method, params).await {
            tracing::warn!(%method, %error, "cannot deliver a notification");
        }
    }
}

impl Client {
    /// Forwards a call of another client, as the client does as a [`Service`].
    ///
    /// # Errors
    /// Failures of the connection. Errors of the server itself are [`Outcome::Failed`] or [`CallError::Rpc`].
    pub async fn forward(&self, call: Call) -> Result<Outcome, CallError> {
        // The futures below differ in size by much, and most calls need only the small one.
        match &call.method {
            Method::Discover => Ok(Outcome::Complete(self.core.describe().into())),
            Method::SubscriptionsListen => Ok(Box::pin(self.core.serve_listen(call)).await),
            _ => self.core.relay(call).await,
        }
    }
}

impl ClientCore {
    /// Sends a notification of an extension.
    pub(crate) async fn notify(&self, method: &Method, params: RawJson) -> Result<(), CallError> {
        let NegotiatedProtocol { revision, stamp } = &self.protocol;
        if !matches!(method, Method::Other(_)) {
            return Err(CallError::NotInRevision { method: method.name().into(), revision: *revision });
        }
        let params = Params::new(params);
        let forwarded = ForwardedParams::new(method, *revision, &params);
        let body = written_notification(method, forwarded.members(), &forwarded.meta, stamp);
        self.link.tell(method, body, &self.protocol).await
    }

    /// Returns a description of the server in the form of `server/discover`.
    fn describe(&self) -> DiscoverResult {
        let server = &self.server;
        let versions = vec![Revision::LATEST.to_string()];
        let capabilities = server.capabilities.clone().unwrap_or_else(assumed_capabilities);
        let mut result = DiscoverResult::new(versions, capabilities);
        result.instructions.clone_from(&server.instructions);
        if let Some(info) = &server.info {
            result.meta = result.meta.with(meta_key::SERVER_INFO, info);
        }
        result
    }

    async fn relay(self: &Arc<Self>, call: Call) -> Result<Outcome, CallError> {
        match self.resume_parked(&call) {
            Some(Ok(parked)) => self.await_outcome(&call, parked).await,
            Some(Err(error)) => Err(error),
            None if self.supports_legacy_tasks() && is_task_method(&call.method) => {
                Box::pin(self.serve_legacy_task_method(&call)).await
            }
            None => self.start_call(&call).await,
        }
    }

    /// Returns the parked call that the responses in `call` belong to, if there is one.
    fn resume_parked(&self, call: &Call) -> Option<Result<ParkedCall, CallError>> {
        if !self.protocol.revision.is_legacy() {
            return None;
        }
        let round = call.context.round();
        let handle = round.carried.as_deref()?;
        if handle == RETRY_HANDLE {
            return check_url_answers(&round).map(Err);
        }
        let parked = self.parked.take(handle, call.context.principal(), &round.answers);
        Some(parked.map_err(CallError::Rpc))
    }

    async fn start_call(self: &Arc<Self>, call: &Call) -> Result<Outcome, CallError> {
        let revision = self.protocol.revision;
        if !call.method.in_revision(revision) {
            let method = call.method.name().into();
            return Err(CallError::NotInRevision { method, revision });
        }
        let mut forwarded = ForwardedParams::new(&call.method, revision, &call.params);
        if matches!(call.context.task_wish(), TaskPreference::Asked(_)) {
            forwarded = forwarded.without_task();
        }
        let view = call.params.view();
        let round = call.context.round();
        // The answers in `tasks/update` are its own params, and belong to no round of this call.
        let asks = !revision.is_legacy() && call.method != Method::TasksUpdate;
        let mut more = if asks { write_answers(&round) } else { Vec::new() };
        let mut outgoing = OutgoingRequest {
            name: view.name.as_deref().or(view.uri.as_deref()).or(view.task_id.as_deref()),
            arguments: view.arguments.as_ref(),
            members: OutgoingParams::Text(forwarded.members()),
            interest: EventInterest::NotificationsAndRequests,
            principal: call.context.peer().principal.as_ref(),
            ..OutgoingRequest::new(&call.method, self.settings.times)
        };
        outgoing.meta.members = &forwarded.meta;
        if call.context.progress_token().is_some() {
            outgoing.meta.progress = true;
        }
        // A retry with answers is neither served from the cache nor kept in it (CACHE-05).
        let cacheable = if more.is_empty() { self.cacheable_request(&outgoing) } else { None };
        if let Some(fresh) = self.find_cached(&outgoing, cacheable.as_ref()) {
            return self.convert_outcome(call, Ok(fresh)).await;
        }
        let wanted = call.context.log_level();
        if revision.is_legacy() {
            self.raise_log_level(wanted).await;
        } else {
            outgoing.meta.log_level = wanted;
        }
        let wish = call.context.task_wish();
        let mut speech = &self.protocol;
        if revision.is_legacy() {
            if let Some(wish) = Box::pin(self.build_legacy_task_param(call)).await? {
                return Box::pin(self.create_legacy_task(&OutgoingRequest { more: &wish, ..outgoing })).await;
            }
        } else if matches!(wish, TaskPreference::Asked(_)) {
            return Err(no_task_error(view.name.as_deref().unwrap_or_default()));
        } else if *wish == TaskPreference::Open || is_task_method(&call.method) {
            speech = self.task_protocol();
        }
        let mut rounds = 0;
        loop {
            let link_call = self.link.open(&OutgoingRequest { more: &more, ..outgoing }, speech).await?;
            let parked = ParkedCall::new(link_call, caller_principal(&call.context));
            let outcome = self.await_outcome(call, parked).await?;
            match outcome {
                // A server that asks nothing, or nothing that is not answered already, wants to be called again.
                Outcome::InputRequired(questions) if questions.requests.is_empty() => {
                    rounds += 1;
                    if rounds > self.settings.max_input_rounds {
                        return Err(CallError::TooManyRounds(self.settings.max_input_rounds));
                    }
                    // With answers the next call brings the server something new, and need not wait.
                    if questions.round.answers.is_empty() {
                        tokio::time::sleep(EMPTY_ROUND_DELAY).await;
                    }
                    more = write_answers(&questions.round);
                }
                outcome => {
                    match (&outcome, cacheable.filter(|_| rounds == 0)) {
                        (Outcome::Complete(Reply::Raw { json, .. }), Some(cacheable)) => {
                            self.dispatcher.cache.store(cacheable, json);
                        }
                        (Outcome::Failed(error), cacheable) => {
                            self.invalidate_refused_cursor(cacheable.as_ref(), error)
                        }
                        _ => {}
                    }
                    return Ok(outcome);
                }
            }
        }
    }

    /// Waits for the result or for questions, and forwards notifications meanwhile.
    async fn await_outcome(
        self: &Arc<Self>,
        call: &Call,
        mut parked: ParkedCall,
    ) -> Result<Outcome, CallError> {
        let context = &call.context;
        let round = context.round();
        // What was not answered is asked again.
        let mut requests = parked.answer_questions(&round.answers, &round.refused, self.protocol.revision);
        // What was asked between calls comes along with one that goes on; one that is over already could carry no answer.
        let mut takes_held = call.method.allows_input_requests();
        loop {
            let event = parked.call.next_event(takes_held || !requests.is_empty()).await;
            match event {
                Some(LinkEvent::Notification(method, params)) => {
                    self.forward_notification(context, &method, params.as_ref())
                }
                Some(LinkEvent::Question(id, method, params)) => {
                    let params = params.unwrap_or_else(RawJson::empty_object);
                    match InputRequest::decode(&method, &params) {
                        Ok(request)
                            if method.in_revision(self.protocol.revision)
                                && request
                                    .check_required_capability(context.answerable_capabilities())
                                    .is_ok() =>
                        {
                            requests.push((parked.add_question(id, request.clone()), request));
                        }
                        // Whoever made the call cannot answer that; perhaps we can.
                        _ => self.dispatcher.handle_request(id, method, Some(params), parked.reply_to()),
                    }
                }
                Some(LinkEvent::Done(outcome)) => return self.convert_outcome(call, outcome).await,
                None if takes_held => {
                    takes_held = false;
                    for (id, request, reply) in
                        self.dispatcher.deferred.take_answerable(context.answerable_capabilities())
                    {
                        requests.push((parked.add_question_for(id, request.clone(), reply), request));
                    }
                }
                // Questions have come, and nothing more for now.
                None => break,
            }
        }
        let mut round = round.without_answers();
        round.takes_refusals = true;
        let handle = self.parked.park(parked, self.settings.park_timeout)?;
        if context.peer().revision.is_legacy() {
            // Its questions are asked while the call is kept in memory; when it is over, so is the parked one.
            context.keep(self.parked.guard(handle.clone()));
        }
        round.carried = Some(handle);
        Ok(Outcome::InputRequired(PendingInput::new(requests, round)))
    }

    /// Answers those questions of a round here that the caller cannot answer and this client can; a host has roots of
    /// its own, for example. The answers are kept in the round with the remaining questions.
    async fn answer_locally(
        &self,
        call: &Call,
        requests: Vec<(String, InputRequest)>,
        mut round: Round,
    ) -> Result<PendingInput, CallError> {
        let theirs = call.context.answerable_capabilities();
        let (asked, ours): (Vec<_>, Vec<_>) = requests.into_iter().partition(|(_, request)| {
            request.check_required_capability(theirs).is_ok() || !self.dispatcher.handlers.can_answer(request)
        });
        for (key, request) in ours {
            let method: Box<str> = request.method().into();
            let answer = self.dispatcher.handlers.answer(request).await;
            let answer = answer.map_err(|error| CallError::Refused { method, error })?;
            round.answers.insert(key, encode_input_response(&answer)?);
        }
        Ok(PendingInput::new(asked, round))
    }

    async fn convert_outcome(
        &self,
        call: &Call,
        outcome: Result<RawJson, CallError>,
    ) -> Result<Outcome, CallError> {
        let (method, revision) = (&call.method, self.protocol.revision);
        let raw = match outcome.map_err(|error| self.upgrade_error(method, error)) {
            Ok(raw) => raw,
            Err(CallError::Rpc(error)) => {
                return Ok(url_elicitation_outcome(call, &error).unwrap_or(Outcome::Failed(error)));
            }
            Err(error) => return Err(error),
        };
        let complete = revision.is_legacy() || {
            #[derive(Deserialize)]
            #[serde(rename_all = "camelCase")]
            struct ResultTypePeek<'a> {
                #[serde(borrow)]
                result_type: Option<std::borrow::Cow<'a, str>>,
            }
            // Only this member is read here: a complete result is
            // forwarded as it came, without being taken apart.
            let peek =
                raw.decode::<ResultTypePeek<'_>>().map_err(|error| malformed(method, &error.to_string()))?;
            peek.result_type.is_none_or(|result_type| result_type == "complete")
        };
        if complete && !(*method == Method::ToolsList && self.link.needs_tool_list(&self.protocol)) {
            return Ok(Outcome::Complete(Reply::raw(revision, raw)));
        }
        match self.decode(method, &raw)? {
            PeerResult::Complete(reply) => Ok(Outcome::Complete(reply)),
            PeerResult::InputRequired(asked) => {
                let asked = check_input_required(method, asked)?;
                let mut round = call.context.round().without_answers();
                round.carried = asked.request_state;
                let requests = asked.input_requests.into_iter().collect();
                Ok(Outcome::InputRequired(self.answer_locally(call, requests, round).await?))
            }
            PeerResult::Task(made) if *call.context.task_wish() != TaskPreference::None => {
                Ok(Outcome::Complete(made.into()))
            }
            _ => Err(unexpected_task_error(method)),
        }
    }

    fn forward_notification(&self, context: &Context, method: &Method, params: Option<&RawJson>) {
        let Ok(notification) = Notification::decode(method, self.protocol.revision, params) else { return };
        match notification {
            Notification::Progress(progress) => {
                context.progress(progress.progress, progress.total, progress.message.as_deref());
            }
            Notification::LogMessage(ref message)
                if context.log_level().is_some_and(|wanted| message.level >= wanted) =>
            {
                context.notify(notification);
            }
            // Nobody else knows what it means, and it came with the call.
            Notification::Other { .. } if context.peer().capabilities.has_own_extensions() => {
                context.notify(notification);
            }
            // Changes are told to those who listen.
            _ => {}
        }
    }

    /// Raises the log level of a legacy session to the most verbose level that any call requests.
    async fn raise_log_level(&self, wanted: Option<LoggingLevel>) {
        let Some(wanted) = wanted else { return };
        let offered = self.server.capabilities.as_ref().is_some_and(|has| has.logging.is_some());
        if !offered || self.log_level().is_some_and(|level| level <= wanted) {
            return;
        }
        // Stored before it is sent, so that calls that begin meanwhile do not send it again.
        self.set_log_level(Some(wanted));
        if let Err(error) = self.send_log_level(wanted).await {
            tracing::debug!(%error, "cannot set the log level");
        }
    }
}

/// Returns true if the method is a task method of the newest revision.
fn is_task_method(method: &Method) -> bool {
    matches!(method, Method::TasksGet | Method::TasksUpdate | Method::TasksCancel)
}

/// Writes the answers of this round and the server's state as params of the next round. Answers of earlier rounds were
/// dropped when the questions of this round arrived.
fn write_answers(round: &Round) -> Vec<u8> {
    let answers = round.answers.iter().map(|(key, answer)| (key.as_str(), answer.clone()));
    write_round_params(&answers.collect(), round.carried.as_deref())
}

/// Converts the URL elicitations in an error of 2025-11-25 to input requests. The call is repeated afterwards.
fn url_elicitation_outcome(call: &Call, error: &RpcError) -> Option<Outcome> {
    let wanted = error.url_elicitations()?;
    if !call.context.answerable_capabilities().elicits_urls() || wanted.is_empty() {
        return None;
    }
    let questions = wanted.into_iter().enumerate();
    let questions = questions.map(|(number, url)| (format!("url{number}"), ElicitParams::Url(url).into()));
    let mut round = call.context.round().without_answers();
    // No call waits upstream for these answers: it has ended, with an error.
    round.carried = Some(RETRY_HANDLE.into());
    Some(Outcome::InputRequired(PendingInput::new(questions.collect(), round)))
}

/// Returns an error if one of the URL elicitations was not accepted.
fn check_url_answers(round: &Round) -> Option<CallError> {
    let accepted = |key: &String| {
        let answer = round.answers.get(key).and_then(|answer| answer.decode::<ElicitResult>().ok());
        answer.is_some_and(|answer| answer.action == ElicitAction::Accept)
    };
    if round.fresh.iter().all(accepted) {
        return None;
    }
    Some(CallError::Rpc(RpcError::invalid_params("the user did not accept the server's request")))
}

fn caller_principal(context: &Context) -> Option<Arc<str>> {
    context.peer().principal.clone()
}

/// Returns the capabilities assumed of a server that declares none.
fn assumed_capabilities() -> ServerCapabilities {
    let mut capabilities = ServerCapabilities::new();
    capabilities.tools = Some(hospes_model::ToolsCapability::new());
    capabilities.prompts = Some(hospes_model::PromptsCapability::new());
    capabilities.resources = Some(hospes_model::ResourcesCapability::new());
    capabilities.completions = Some(RawJson::empty_object());
    capabilities
}
