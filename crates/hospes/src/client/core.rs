//! A connection and what is known of the server behind it.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use hospes_model::{
    Implementation, InputRequiredResult, InputResponse, ListToolsResult, LoggingLevel, Method, Notification,
    PeerResult, ProgressParams, RawJson, Reply, Revision, RpcError, ServerCapabilities, SetLevelParams, code,
    decode_error,
};
use tokio::time::Instant;

use super::cache::CacheableRequest;
use super::connect::members;
use super::dispatcher::{InboundDispatcher, ReplyTo};
use super::duplex::{DuplexCall, DuplexLink, MAX_QUEUED_BYTES};
use super::error::{CallError, ConnectionClosed};
use super::lenient_lists::read_list;
use super::link::{InFlightRequest, LinkEvent, OutgoingParams, OutgoingRequest, write_text};
use super::parked_calls::ParkedCalls;
use super::settings::ClientSettings;
use super::tasks::ServerTaskState;
#[cfg(feature = "http")]
use crate::transport::http_client::{HttpCall, HttpLink};

/// First delay before the next round if a server returns `input_required` without questions; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Transport that carries the messages.
#[derive(Debug)]
pub(crate) enum ClientLink {
    Duplex(DuplexLink, Option<Arc<dyn ConnectionGuard>>),
    #[cfg(feature = "http")]
    Http(HttpLink),
}

/// Resource that ends with the connection.
pub(crate) trait ConnectionGuard: fmt::Debug + Send + Sync {
    /// Resolves when nothing of it is left.
    fn gone(&self) -> BoxFuture<'_, ()>;
}

/// A request under way.
#[derive(Debug)]
pub(crate) enum LinkCall {
    Duplex(DuplexCall),
    #[cfg(feature = "http")]
    Http(HttpCall),
}

impl InFlightRequest for LinkCall {
    fn poll_event(&mut self, cx: &mut TaskContext<'_>) -> Poll<LinkEvent> {
        match self {
            Self::Duplex(call) => call.poll_event(cx),
            #[cfg(feature = "http")]
            Self::Http(call) => call.poll_event(cx),
        }
    }
}

/// Negotiated revision and the `_meta` members that every request carries because of it.
#[derive(Clone, Debug)]
pub(crate) struct NegotiatedProtocol {
    pub(crate) revision: Revision,
    pub(crate) stamp: Bytes,
}

impl ClientLink {
    pub(crate) async fn open(
        &self,
        outgoing: &OutgoingRequest<'_>,
        speech: &NegotiatedProtocol,
    ) -> Result<LinkCall, CallError> {
        match self {
            Self::Duplex(duplex, _) => duplex.open(outgoing, &speech.stamp).await.map(LinkCall::Duplex),
            #[cfg(feature = "http")]
            Self::Http(http) => http.open(outgoing, speech).await.map(LinkCall::Http),
        }
    }

    /// Time spent on authorization.
    pub(crate) fn away(&self) -> std::time::Duration {
        match self {
            Self::Duplex(..) => std::time::Duration::ZERO,
            #[cfg(feature = "http")]
            Self::Http(http) => http.away(),
        }
    }

    /// Sends a notification; delivery is not confirmed.
    pub(crate) fn notify(&self, notification: &Notification, speech: &NegotiatedProtocol) {
        match self {
            Self::Duplex(duplex, _) => {
                duplex.notify(|out| {
                    // A notification of ours can always be written; one that the revision lacks leaves nothing.
                    let _ = notification.encode(speech.revision, None, out);
                });
            }
            #[cfg(feature = "http")]
            Self::Http(http) => http.notify(notification, speech),
        }
    }

    /// Sends a notification of an extension, as it is written; resolves once it was handed over.
    pub(crate) async fn tell(
        &self,
        method: &Method,
        body: Vec<u8>,
        speech: &NegotiatedProtocol,
    ) -> Result<(), CallError> {
        match self {
            Self::Duplex(duplex, _) => {
                if duplex.notify(|out| out.extend_from_slice(&body)) {
                    return Ok(());
                }
                let what = "bytes that wait to be sent";
                Err(CallError::TooMany { what, max: MAX_QUEUED_BYTES, setting: "MAX_QUEUED_BYTES" })
            }
            #[cfg(feature = "http")]
            Self::Http(http) => http.tell(method, body, speech).await,
        }
    }

    /// Returns the destination of answers to questions asked on `call`.
    pub(crate) fn reply_to(&self, call: &LinkCall) -> ReplyTo {
        match self {
            Self::Duplex(duplex, _) => duplex.reply_to(),
            #[cfg(feature = "http")]
            Self::Http(http) => {
                let asked = match call {
                    LinkCall::Http(call) => call.session().cloned(),
                    LinkCall::Duplex(_) => None,
                };
                let shared = http.shared();
                ReplyTo::Http(Arc::clone(shared), asked.unwrap_or_else(|| shared.session()))
            }
        }
    }

    /// Returns the number of lines that were not messages, and the first of them.
    pub(crate) fn noise(&self) -> (u64, Option<String>) {
        match self {
            Self::Duplex(duplex, _) => duplex.noise(),
            #[cfg(feature = "http")]
            Self::Http(_) => (0, None),
        }
    }

    /// Closes the connection; resolves when nothing of it is left.
    pub(crate) async fn close(&self) {
        match self {
            Self::Duplex(duplex, guard) => {
                duplex.close();
                if let Some(guard) = guard {
                    guard.gone().await;
                }
            }
            #[cfg(feature = "http")]
            Self::Http(http) => http.close().await,
        }
    }

    /// Closes the connection to a server that no longer responds, without waiting.
    pub(crate) fn give_up(&self, closed: ConnectionClosed) {
        match self {
            Self::Duplex(duplex, _) => duplex.give_up(closed),
            #[cfg(feature = "http")]
            Self::Http(http) => http.give_up(closed),
        }
    }

    /// Returns true if a call waits for its answer; a listen stream does not count.
    pub(crate) fn is_busy(&self) -> bool {
        match self {
            Self::Duplex(duplex, _) => duplex.is_busy(),
            #[cfg(feature = "http")]
            Self::Http(http) => http.is_busy(),
        }
    }

    /// A list of tools has come: what has to be known of it to call them, and which of them must not be.
    pub(crate) fn learn_tools(&self, result: &mut ListToolsResult, speech: &NegotiatedProtocol) {
        match self {
            #[cfg(feature = "http")]
            Self::Http(http) if !speech.revision.is_legacy() => http.learn_tools(result),
            // Other transports may ignore the annotations (HHDR-31).
            _ => {}
        }
    }

    /// Returns true if the transport needs the lists of tools.
    pub(crate) fn learns_tools(&self, speech: &NegotiatedProtocol) -> bool {
        match self {
            #[cfg(feature = "http")]
            Self::Http(_) => !speech.revision.is_legacy(),
            Self::Duplex(..) => false,
        }
    }
}

/// Description of the server from its handshake or discovery.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerDescription {
    pub(crate) info: Option<Implementation>,
    /// None where the server has not said what it can do; then everything is tried.
    pub(crate) capabilities: Option<ServerCapabilities>,
    pub(crate) instructions: Option<String>,
    pub(crate) supported: Vec<String>,
}

/// Called with progress.
pub(crate) type ProgressCallback<'a> = Box<dyn FnMut(&ProgressParams) + Send + 'a>;

/// A connection.
pub(crate) struct ClientCore {
    pub(crate) link: ClientLink,
    pub(crate) desk: Arc<InboundDispatcher>,
    pub(crate) settings: ClientSettings,
    pub(crate) speech: NegotiatedProtocol,
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
    /// A request with the client's own limits.
    pub(crate) fn request<'a>(&self, method: &'a Method) -> OutgoingRequest<'a> {
        let mut outgoing = OutgoingRequest::new(method, self.settings.times);
        if !self.speech.revision.is_legacy() {
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
        self.log_level.store(position.unwrap_or(u8::MAX), Ordering::Relaxed);
    }

    /// Sends the log level to a server of an older revision.
    pub(crate) async fn send_log_level(&self, level: LoggingLevel) -> Result<(), CallError> {
        let params = members(&SetLevelParams::new(level))?;
        let method = Method::SetLevel;
        let outgoing = OutgoingRequest {
            members: OutgoingParams::Text(&params),
            ..OutgoingRequest::new(&method, self.settings.times)
        };
        self.run(&outgoing, &mut None).await.map(drop)
    }

    /// Sends a request and waits for its result, as it came.
    pub(crate) async fn run(
        &self,
        outgoing: &OutgoingRequest<'_>,
        on_progress: &mut Option<ProgressCallback<'_>>,
    ) -> Result<RawJson, CallError> {
        self.run_as(&self.speech, outgoing, on_progress).await
    }

    /// Sends a request with the given protocol data and waits for its raw result.
    pub(crate) async fn run_as(
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
                // The desk has seen it too.
                LinkEvent::Notification(..) => {}
                LinkEvent::Question(id, method, params) => {
                    self.desk.request(id, method, params, self.link.reply_to(&call));
                }
                LinkEvent::Done(outcome) => {
                    return outcome.map_err(|error| self.lift_error(outgoing.method, error));
                }
            }
        }
    }

    /// A server's error as the newest revision has it.
    pub(crate) fn lift_error(&self, method: &Method, error: CallError) -> CallError {
        match error {
            CallError::Rpc(error) => CallError::Rpc(decode_error(method, self.speech.revision, error)),
            other => other,
        }
    }

    /// Sends a request, answers the questions that come instead of a result, and sends it again until there is one. That
    /// a tool was used goes to the log.
    pub(crate) async fn complete(
        &self,
        outgoing: OutgoingRequest<'_>,
        on_progress: Option<ProgressCallback<'_>>,
    ) -> Result<Reply, CallError> {
        let tool = outgoing.name.filter(|_| *outgoing.method == Method::ToolsCall);
        let Some(tool) = tool else { return self.complete_rounds(outgoing, on_progress).await };
        let began = Instant::now();
        let outcome = self.complete_rounds(outgoing, on_progress).await;
        let elapsed = began.elapsed();
        // Neither arguments nor results: they are nobody's but the caller's.
        match &outcome {
            Ok(Reply::CallTool(result)) if result.is_error == Some(true) => {
                tracing::info!(tool, ?elapsed, "a tool was called and failed");
            }
            Ok(_) => tracing::info!(tool, ?elapsed, "a tool was called"),
            Err(CallError::Rpc(error)) => {
                tracing::info!(tool, ?elapsed, code = error.code, "a call of a tool was refused");
            }
            Err(error) => tracing::info!(tool, ?elapsed, %error, "a call of a tool failed"),
        }
        outcome
    }

    async fn complete_rounds(
        &self,
        outgoing: OutgoingRequest<'_>,
        on_progress: Option<ProgressCallback<'_>>,
    ) -> Result<Reply, CallError> {
        match self.complete_as(&self.speech, outgoing, on_progress).await? {
            Reply::CreateTask(_) => Err(unasked(outgoing.method)),
            reply => Ok(reply),
        }
    }

    /// Completes a request with the given protocol data. The result may be a task if that data declares support for
    /// tasks.
    pub(crate) async fn complete_as(
        &self,
        speech: &NegotiatedProtocol,
        outgoing: OutgoingRequest<'_>,
        mut on_progress: Option<ProgressCallback<'_>>,
    ) -> Result<Reply, CallError> {
        let method = outgoing.method;
        let mut cacheable = self.cacheable(&outgoing);
        let asked_at = self.desk.tool_changes();
        if let Some(fresh) = self.find_fresh(&outgoing, cacheable.as_ref())
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
        let mut pause = FIRST_PAUSE;
        for left in (0..=self.settings.max_input_rounds).rev() {
            let raw = match self
                .run_as(speech, &OutgoingRequest { more: &more, ..outgoing }, &mut on_progress)
                .await
            {
                Ok(raw) => raw,
                // 2025-11-25 has a question that is an error: once it is answered, the call is made again.
                Err(CallError::Rpc(error)) => {
                    self.learn_refusal(cacheable.as_ref(), &error);
                    if let Some(urls) = error.url_elicitations()
                        && self.desk.handlers.visit_all(urls).await == Ok(true)
                    {
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
                        self.desk.cache.keep(cacheable, &raw);
                    }
                    return Ok(reply);
                }
                PeerResult::InputRequired(asked) => says_what_for(method, asked)?,
                PeerResult::Task(made) => return Ok(made.into()),
                _ => return Err(malformed(method, "it is of another kind")),
            };
            // What answers to a round gives is for nobody else (CACHE-05).
            cacheable = None;
            if left == 0 {
                // Nobody is asked for an answer that is not sent.
                break;
            }
            if asked.input_requests.is_empty() {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            more = self.next_round(asked).await?;
        }
        Err(CallError::TooManyRounds(self.settings.max_input_rounds))
    }

    /// Checks a tool's structured result against the tool's output schema.
    fn check_output(&self, outgoing: &OutgoingRequest<'_>, reply: &Reply) -> Result<(), CallError> {
        #[cfg(feature = "validate")]
        if let (Reply::CallTool(result), Some(tool), true) =
            (reply, outgoing.name, self.settings.checks_outputs)
        {
            self.desk.outputs.check(tool, result).map_err(|why| malformed(outgoing.method, &why))?;
        }
        #[cfg(not(feature = "validate"))]
        let _ = (outgoing, reply);
        Ok(())
    }

    /// The request, where its answer may be kept.
    pub(crate) fn cacheable(&self, outgoing: &OutgoingRequest<'_>) -> Option<CacheableRequest> {
        self.desk.cache.request(outgoing, self.speech.revision, self.settings.cache_bytes)
    }

    /// An answer of before, if it is still fresh and good enough.
    pub(crate) fn find_fresh(
        &self,
        outgoing: &OutgoingRequest<'_>,
        cacheable: Option<&CacheableRequest>,
    ) -> Option<RawJson> {
        if outgoing.refresh { None } else { self.desk.cache.find(cacheable?) }
    }

    /// A refused cursor says that a list is no longer what it was.
    pub(crate) fn learn_refusal(&self, cacheable: Option<&CacheableRequest>, error: &RpcError) {
        if let Some(cacheable) = cacheable
            && error.code == code::INVALID_PARAMS
        {
            self.desk.cache.cursor_refused(cacheable);
        }
    }

    /// The members of `params` that a round of questions leaves behind.
    async fn next_round(&self, asked: InputRequiredResult) -> Result<Vec<u8>, CallError> {
        let answers = self.desk.handlers.answer_all(asked.input_requests).await?;
        let encoded = answers.iter().map(|(key, answer)| encode(answer).map(|answer| (key.as_str(), answer)));
        let answers: BTreeMap<&str, RawJson> = encoded.collect::<Result<_, _>>()?;
        Ok(write_round(&answers, asked.request_state.as_deref()))
    }

    /// The result as the method's type.
    pub(crate) fn decode(&self, method: &Method, raw: &RawJson) -> Result<PeerResult, CallError> {
        self.decode_list(method, raw, self.desk.tool_changes())
    }

    /// Decodes a result that may be a list of tools. `asked_at` is the tool change count at the time of the request;
    /// nothing is recorded from a list that has changed since.
    pub(crate) fn decode_list(
        &self,
        method: &Method,
        raw: &RawJson,
        asked_at: u64,
    ) -> Result<PeerResult, CallError> {
        let mut answer = read_list(method, self.speech.revision, raw).map_err(|error| {
            use std::error::Error as _;
            let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            malformed(method, &why)
        })?;
        if let PeerResult::Complete(Reply::ListTools(list)) = &mut answer {
            let is_current = || self.desk.tool_changes() == asked_at;
            self.learn_tasks(list, is_current);
            self.link.learn_tools(list, &self.speech);
            #[cfg(feature = "validate")]
            if self.settings.checks_outputs {
                self.desk.outputs.learn(&list.tools, is_current);
            }
        }
        Ok(answer)
    }
}

pub(crate) fn encode(answer: &InputResponse) -> Result<RawJson, CallError> {
    answer.encode(Revision::LATEST).map_err(|error| CallError::Arguments(Arc::new(error)))
}

/// The members `inputResponses` and `requestState`, as far as there is something to say.
pub(crate) fn write_round(answers: &BTreeMap<&str, RawJson>, state: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    if !answers.is_empty() {
        out.extend_from_slice(b"\"inputResponses\":{");
        for (number, (key, answer)) in answers.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            write_text(&mut out, key);
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
        write_text(&mut out, state);
    }
    out
}

pub(crate) fn unasked(method: &Method) -> CallError {
    malformed(method, "it became a task, which was not asked for")
}

/// A result of type `input_required` that has neither questions nor a state asks for nothing (MRTR-03): to send the
/// request again could do twice what it does, and would never end.
pub(crate) fn says_what_for(
    method: &Method,
    asked: InputRequiredResult,
) -> Result<InputRequiredResult, CallError> {
    if asked.input_requests.is_empty() && asked.request_state.is_none() {
        return Err(malformed(method, "it is input_required with neither inputRequests nor requestState"));
    }
    Ok(asked)
}

pub(crate) fn malformed(method: &Method, why: &str) -> CallError {
    CallError::Malformed { method: method.name().into(), why: why.into() }
}

impl fmt::Debug for ClientCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("link", &self.link)
            .field("revision", &self.speech.revision)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}
