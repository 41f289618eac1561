//! State of a connection, and the known facts about its server.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use hospes_model::{
    Implementation, InputRequiredResult, InputResponse, LoggingLevel, Method, PeerResult, ProgressParams,
    RawJson, Reply, Revision, RpcError, ServerCapabilities, SetLevelParams, code, decode_error,
};
use tokio::time::Instant;

use crate::client::cache::response_cache::CacheableRequest;
use crate::client::connection::lenient_lists::read_list;
use crate::client::connection::parked_calls::ParkedCalls;
use crate::client::connection::settings::ClientSettings;
use crate::client::connection::task_state::ServerTaskState;
use crate::client::error::CallError;
use crate::client::error::malformed;
use crate::client::inbound::dispatcher::InboundDispatcher;
use crate::client::link::json_members;
use crate::client::link::{
    Link, LinkEvent, NegotiatedProtocol, OutgoingParams, OutgoingRequest, write_json_string,
};

/// First delay before the next round if a server returns `input_required` without questions; it doubles each time.
const MIN_ROUND_DELAY: Duration = Duration::from_millis(100);
const MAX_ROUND_DELAY: Duration = Duration::from_secs(5);

/// Description of the server from its handshake or discovery.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerDescription {
    pub(crate) info: Option<Implementation>,
    /// Capabilities of the server. `None` if it has not declared any; then everything is tried.
    pub(crate) capabilities: Option<ServerCapabilities>,
    pub(crate) instructions: Option<String>,
    pub(crate) supported: Vec<String>,
}

/// Callback for progress notifications.
pub(crate) type ProgressCallback<'a> = Box<dyn FnMut(&ProgressParams) + Send + 'a>;

/// A connection.
pub(crate) struct ClientCore {
    pub(crate) link: Box<dyn Link>,
    pub(crate) dispatcher: Arc<InboundDispatcher>,
    pub(crate) settings: ClientSettings,
    pub(crate) protocol: NegotiatedProtocol,
    pub(crate) server: ServerDescription,
    /// True if the connection uses HTTP+SSE, the older transport.
    pub(crate) over_sse: bool,
    pub(crate) log_level: AtomicU8,
    pub(crate) parked: ParkedCalls,
    pub(crate) tasks: ServerTaskState,
    /// Held while subscribing or unsubscribing on a session.
    pub(crate) subscribing: tokio::sync::Mutex<()>,
}

impl ClientCore {
    /// Creates a request with the client's own limits.
    pub(crate) fn new_request<'a>(&self, method: &'a Method) -> OutgoingRequest<'a> {
        let mut outgoing = OutgoingRequest::new(method, self.settings.times);
        if !self.protocol.revision.is_legacy() {
            // Older revisions set the level once for a session, by `logging/setLevel` (LOG-03).
            outgoing.meta.log_level = self.log_level();
        }
        outgoing
    }

    pub(crate) fn log_level(&self) -> Option<LoggingLevel> {
        LoggingLevel::ALL.get(usize::from(self.log_level.load(Ordering::Relaxed))).copied()
    }

    pub(crate) fn set_log_level(&self, level: Option<LoggingLevel>) {
        let position = level.and_then(|level| LoggingLevel::ALL.iter().position(|l| *l == level));
        let position = position.and_then(|position| u8::try_from(position).ok());
        // `Relaxed` suffices: no other memory is read because of the level.
        self.log_level.store(position.unwrap_or(u8::MAX), Ordering::Relaxed);
    }

    /// Sends the log level to a server of an older revision.
    pub(crate) async fn send_log_level(&self, level: LoggingLevel) -> Result<(), CallError> {
        let params = json_members(&SetLevelParams::new(level))?;
        let method = Method::SetLevel;
        let outgoing = OutgoingRequest {
            members: OutgoingParams::Text(&params),
            ..OutgoingRequest::new(&method, self.settings.times)
        };
        self.send_request(&outgoing, &mut None).await.map(drop)
    }

    /// Sends a request and waits for its undecoded result.
    pub(crate) async fn send_request(
        &self,
        outgoing: &OutgoingRequest<'_>,
        on_progress: &mut Option<ProgressCallback<'_>>,
    ) -> Result<RawJson, CallError> {
        self.send_request_as(&self.protocol, outgoing, on_progress).await
    }

    /// Sends a request with the given protocol data and waits for its raw result.
    pub(crate) async fn send_request_as(
        &self,
        speech: &NegotiatedProtocol,
        outgoing: &OutgoingRequest<'_>,
        on_progress: &mut Option<ProgressCallback<'_>>,
    ) -> Result<RawJson, CallError> {
        let mut call = self.link.open(outgoing, speech).await?;
        loop {
            match poll_fn(|cx| call.poll_event(cx)).await {
                LinkEvent::Notification(Method::Progress, params) => {
                    if let Some(on_progress) = on_progress
                        && let Some(Ok(progress)) = params.as_ref().map(RawJson::decode)
                    {
                        on_progress(&progress);
                    }
                }
                // The dispatcher has seen it too.
                LinkEvent::Notification(..) => {}
                LinkEvent::Question(id, method, params) => {
                    // In a task of its own: the call's own events must go on while a person thinks.
                    self.dispatcher.handle_request(id, method, params, call.reply_to());
                }
                LinkEvent::Done(outcome) => {
                    return outcome.map_err(|error| self.upgrade_error(outgoing.method, error));
                }
            }
        }
    }

    /// Converts a server's error to the newest revision.
    pub(crate) fn upgrade_error(&self, method: &Method, error: CallError) -> CallError {
        match error {
            CallError::Rpc(error) => CallError::Rpc(decode_error(method, self.protocol.revision, error)),
            other => other,
        }
    }

    /// Sends a request, answers input requests, and repeats it until there is a result. Tool calls are logged.
    pub(crate) async fn complete_request(
        &self,
        outgoing: OutgoingRequest<'_>,
        on_progress: Option<ProgressCallback<'_>>,
    ) -> Result<Reply, CallError> {
        let tool = outgoing.name.filter(|_| *outgoing.method == Method::ToolsCall);
        let Some(tool) = tool else { return self.run_input_rounds(outgoing, on_progress).await };
        let began = Instant::now();
        let outcome = self.run_input_rounds(outgoing, on_progress).await;
        let elapsed = began.elapsed();
        // Neither arguments nor results: they are nobody's but the caller's.
        match &outcome {
            Ok(Reply::CallTool(result)) if result.is_error == Some(true) => {
                tracing::info!(tool, ?elapsed, "tool call returned an error result");
            }
            Ok(_) => tracing::info!(tool, ?elapsed, "tool call succeeded"),
            Err(CallError::Rpc(error)) => {
                tracing::info!(tool, ?elapsed, code = error.code, "tool call rejected by the server");
            }
            Err(error) => tracing::info!(tool, ?elapsed, %error, "tool call failed"),
        }
        outcome
    }

    async fn run_input_rounds(
        &self,
        outgoing: OutgoingRequest<'_>,
        on_progress: Option<ProgressCallback<'_>>,
    ) -> Result<Reply, CallError> {
        match self.complete_request_as(&self.protocol, outgoing, on_progress).await? {
            Reply::CreateTask(_) => Err(unexpected_task_error(outgoing.method)),
            reply => Ok(reply),
        }
    }

    /// Completes a request with the given protocol data. The result may be a task if that data declares support for
    /// tasks.
    pub(crate) async fn complete_request_as(
        &self,
        speech: &NegotiatedProtocol,
        outgoing: OutgoingRequest<'_>,
        mut on_progress: Option<ProgressCallback<'_>>,
    ) -> Result<Reply, CallError> {
        let method = outgoing.method;
        let mut cacheable = self.cacheable_request(&outgoing);
        // Read before the request: a list that was asked for before a change must not be recorded after it.
        let asked_at = self.dispatcher.tool_change_count();
        if let Some(fresh) = self.find_cached(&outgoing, cacheable.as_ref())
            && let PeerResult::Complete(reply) = self.decode_list(method, &fresh, asked_at)?
        {
            return Ok(reply);
        }
        // Every round reports from the start again; whoever listens hears of one call.
        let mut furthest = f64::NEG_INFINITY;
        let mut on_progress = on_progress.as_mut().map(|listener| -> ProgressCallback<'_> {
            Box::new(|report| {
                if report.progress > furthest {
                    furthest = report.progress;
                    listener(report);
                }
            })
        });
        let mut more = Vec::new();
        let mut pause = MIN_ROUND_DELAY;
        for left in (0..=self.settings.max_input_rounds).rev() {
            let raw = match self
                .send_request_as(speech, &OutgoingRequest { more: &more, ..outgoing }, &mut on_progress)
                .await
            {
                Ok(raw) => raw,
                // 2025-11-25 has a question that is an error: once it is answered, the call is made again.
                Err(CallError::Rpc(error)) => {
                    self.invalidate_refused_cursor(cacheable.as_ref(), &error);
                    if let Some(urls) = error.url_elicitations()
                        && self.dispatcher.handlers.elicit_urls(urls).await == Ok(true)
                    {
                        // This uses up a round as well, so that a server
                        // that always returns the same error is given up.
                        continue;
                    }
                    return Err(CallError::Rpc(error));
                }
                Err(error) => return Err(error),
            };
            let asked = match self.decode_list(method, &raw, asked_at)? {
                PeerResult::Complete(reply) => {
                    self.check_output(&outgoing, &reply)?;
                    if let Some(cacheable) = cacheable {
                        self.dispatcher.cache.store(cacheable, &raw);
                    }
                    return Ok(reply);
                }
                PeerResult::InputRequired(asked) => check_input_required(method, asked)?,
                PeerResult::Task(made) => return Ok(made.into()),
                _ => return Err(malformed(method, "unexpected result type")),
            };
            // What answers to a round gives is for nobody else (CACHE-05).
            cacheable = None;
            if left == 0 {
                // Nobody is asked for an answer that is not sent.
                break;
            }
            if asked.input_requests.is_empty() {
                // MRTR-07 allows a retry at once; a server that is
                // merely not ready would then be called in a tight loop.
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(MAX_ROUND_DELAY);
            }
            more = self.answer_round(asked).await?;
        }
        Err(CallError::TooManyRounds(self.settings.max_input_rounds))
    }

    /// Checks a tool's structured result against the tool's output schema.
    fn check_output(&self, outgoing: &OutgoingRequest<'_>, reply: &Reply) -> Result<(), CallError> {
        #[cfg(feature = "validate")]
        if let (Reply::CallTool(result), Some(tool), true) =
            (reply, outgoing.name, self.settings.checks_outputs)
        {
            self.dispatcher.outputs.check(tool, result).map_err(|why| malformed(outgoing.method, &why))?;
        }
        #[cfg(not(feature = "validate"))]
        let _ = (outgoing, reply);
        Ok(())
    }

    /// Returns the cache key of the request, if its response may be cached.
    pub(crate) fn cacheable_request(&self, outgoing: &OutgoingRequest<'_>) -> Option<CacheableRequest> {
        self.dispatcher.cache.prepare_request(outgoing, self.protocol.revision, self.settings.cache_bytes)
    }

    /// Returns a cached response that is still fresh and sufficient.
    pub(crate) fn find_cached(
        &self,
        outgoing: &OutgoingRequest<'_>,
        cacheable: Option<&CacheableRequest>,
    ) -> Option<RawJson> {
        if outgoing.refresh { None } else { self.dispatcher.cache.find(cacheable?) }
    }

    /// Invalidates a list after the server rejected its cursor.
    pub(crate) fn invalidate_refused_cursor(&self, cacheable: Option<&CacheableRequest>, error: &RpcError) {
        if let Some(cacheable) = cacheable
            && error.code == code::INVALID_PARAMS
        {
            self.dispatcher.cache.forget_pages(cacheable);
        }
    }

    /// Answers the input requests of a round. Returns the members to add to the params.
    async fn answer_round(&self, asked: InputRequiredResult) -> Result<Vec<u8>, CallError> {
        let answers = self.dispatcher.handlers.answer_all(asked.input_requests).await?;
        let encoded = answers
            .iter()
            .map(|(key, answer)| encode_input_response(answer).map(|answer| (key.as_str(), answer)));
        let answers: BTreeMap<&str, RawJson> = encoded.collect::<Result<_, _>>()?;
        Ok(write_round_params(&answers, asked.request_state.as_deref()))
    }

    /// Decodes a result by its method.
    pub(crate) fn decode(&self, method: &Method, raw: &RawJson) -> Result<PeerResult, CallError> {
        self.decode_list(method, raw, self.dispatcher.tool_change_count())
    }

    /// Decodes a result that may be a list of tools. `asked_at` is the tool change count at the time of the request;
    /// nothing is recorded from a list that has changed since.
    pub(crate) fn decode_list(
        &self,
        method: &Method,
        raw: &RawJson,
        asked_at: u64,
    ) -> Result<PeerResult, CallError> {
        let mut answer = read_list(method, self.protocol.revision, raw).map_err(|error| {
            use std::error::Error as _;
            let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            malformed(method, &why)
        })?;
        if let PeerResult::Complete(Reply::ListTools(list)) = &mut answer {
            let is_current = || self.dispatcher.tool_change_count() == asked_at;
            self.record_task_support(list, is_current);
            self.link.record_tools(list, &self.protocol);
            #[cfg(feature = "validate")]
            if self.settings.checks_outputs {
                self.dispatcher.outputs.learn(&list.tools, is_current);
            }
        }
        Ok(answer)
    }
}

pub(crate) fn encode_input_response(answer: &InputResponse) -> Result<RawJson, CallError> {
    // Rounds exist only from 2026-07-28 on, so that no older dialect is needed.
    answer.encode(Revision::LATEST).map_err(|error| CallError::Arguments(Arc::new(error)))
}

/// Encodes the members `inputResponses` and `requestState`, if not empty.
pub(crate) fn write_round_params(answers: &BTreeMap<&str, RawJson>, state: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    if !answers.is_empty() {
        out.extend_from_slice(b"\"inputResponses\":{");
        for (number, (key, answer)) in answers.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            write_json_string(&mut out, key);
            out.push(b':');
            out.extend_from_slice(answer.as_bytes());
        }
        out.push(b'}');
    }
    if let Some(state) = state {
        if !out.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(b"\"requestState\":");
        write_json_string(&mut out, state);
    }
    out
}

pub(crate) fn unexpected_task_error(method: &Method) -> CallError {
    malformed(method, "the server created a task that was not requested")
}

/// Rejects an `input_required` result with neither input requests nor a state (MRTR-03), because repeating the request
/// could repeat its effects endlessly.
pub(crate) fn check_input_required(
    method: &Method,
    asked: InputRequiredResult,
) -> Result<InputRequiredResult, CallError> {
    if asked.input_requests.is_empty() && asked.request_state.is_none() {
        return Err(malformed(method, "it is input_required with neither inputRequests nor requestState"));
    }
    Ok(asked)
}

impl fmt::Debug for ClientCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCore")
            .field("link", &self.link)
            .field("revision", &self.protocol.revision)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}
