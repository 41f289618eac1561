//! Context of one call, besides its params: the peer, the answers so far, and the queue of outgoing notifications.

mod builder;

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};

use hospes_model::{
    ClientCapabilities, InputRequest, LogMessageParams, LoggingLevel, Notification, ProgressParams,
    ProgressToken, RawJson, RequestId,
};

use serde::Serialize;

use crate::deprecated::{DeprecatedFeature, warn_once};
use crate::logging::{DEFAULT_LOG_RATE, LogRules};
use crate::peer::Peer;
use crate::progress::{DEFAULT_PROGRESS_RATE, ProgressLimiter};
use crate::rate::Rate;
use crate::replay_cache::StateNonce;
use crate::round::Round;
use crate::tasks::TaskPreference;

pub use builder::ContextBuilder;

/// The most notifications that wait for a slow reader; beyond it progress is merged and log messages are dropped.
pub const MAX_QUEUED_NOTIFICATIONS: usize = 1024;

/// The surroundings of one call. Cheap to clone; every clone is the same call.
#[derive(Clone)]
pub struct Context(Arc<ContextInner>);

struct ContextInner {
    peer: Arc<Peer>,
    request_id: Option<RequestId>,
    meta: Option<RawJson>,
    log_level: Option<LoggingLevel>,
    progress_token: Option<ProgressToken>,
    http: Option<Box<http::request::Parts>>,
    extensions: http::Extensions,
    task: TaskPreference,
    stream: AtomicU8,
    log_rules: OnceLock<Arc<LogRules>>,
    state_nonce: Option<StateNonce>,
    /// Capabilities for the questions of this call, if a forwarder answers some beside the peer.
    answerable: OnceLock<Box<ClientCapabilities>>,
    /// Observer of the progress, if there is one.
    progress_observer: OnceLock<ProgressObserver>,
    state: Mutex<ContextState>,
}

/// Observer of the progress of a call: what is done, the total, and a message.
type ProgressObserver = Box<dyn Fn(f64, Option<f64>, Option<&str>) + Send + Sync>;

/// The stream that the answer travels on cannot be taken up again.
const STREAM_FIXED: u8 = 0;
/// It can.
const STREAM_CLOSABLE: u8 = 1;
/// Somebody asked for that.
const STREAM_CLOSE_REQUESTED: u8 = 2;

#[derive(Default)]
struct ContextState {
    round: Round,
    /// Questions of this round that have no answer yet.
    asked: Vec<(String, InputRequest)>,
    /// Number of questions asked without a key of their own.
    unnamed: u32,
    outbox: VecDeque<Notification>,
    progress: Option<f64>,
    /// Most calls report none.
    pace: Option<Box<ProgressLimiter>>,
    /// True once the call has its answer: nothing may be sent after it (PROG-10).
    over: bool,
    /// True if this run has used up the state that it began from.
    spent: bool,
    /// True if a step has run in this run and its result is remembered.
    stepped: bool,
    waker: Option<Waker>,
    kept: Vec<Box<dyn Any + Send>>,
    leaving: TaskTransition,
}

/// Progress of a call towards running as a task, which its handler may request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TaskTransition {
    #[default]
    No,
    Allowed,
    Begun,
}

impl Context {
    /// Creates a builder of a context for a call from `peer`.
    #[must_use]
    pub fn builder(peer: Arc<Peer>) -> ContextBuilder {
        ContextBuilder {
            peer,
            request_id: None,
            meta: None,
            log_level: None,
            progress_token: None,
            http: None,
            extensions: http::Extensions::new(),
            task: TaskPreference::None,
            closable: false,
            round: Round::default(),
            state_nonce: None,
        }
    }

    /// Creates a context for a call from `peer` without further data.
    #[must_use]
    pub fn new(peer: Arc<Peer>) -> Self {
        Self::builder(peer).build()
    }

    /// Returns the peer that sent the call.
    #[must_use]
    pub fn peer(&self) -> &Arc<Peer> {
        &self.0.peer
    }

    /// Returns the capabilities for questions in the middle of this call. They are the peer's, unless a forwarder
    /// declared others with [`Context::set_answerable_capabilities`].
    #[must_use]
    pub fn answerable_capabilities(&self) -> &ClientCapabilities {
        self.0.answerable.get().map_or(&self.0.peer.capabilities, |all| all)
    }

    /// Sets the capabilities for questions in the middle of this call. It is for code that forwards the call to a
    /// server and answers some questions itself. These questions are returned as
    /// [`Outcome::InputRequired`](crate::Outcome) like all others. Only the first call has an effect.
    pub fn set_answerable_capabilities(&self, all: ClientCapabilities) {
        let _ = self.0.answerable.set(Box::new(all));
    }

    /// Sets an observer of the progress of this call: what is done, the total, and a message. It is for code that
    /// forwards the call, and hears of all reports, whether the caller asked for them or not. It must not block. Only
    /// the first call has an effect.
    pub fn observe_progress(
        &self,
        observer: impl Fn(f64, Option<f64>, Option<&str>) + Send + Sync + 'static,
    ) {
        let _ = self.0.progress_observer.set(Box::new(observer));
    }

    /// Returns the name of the signed-in caller, if there is one.
    #[must_use]
    pub fn principal(&self) -> Option<&str> {
        self.0.peer.principal.as_deref()
    }

    /// Returns the request's id, for logs.
    #[must_use]
    pub fn request_id(&self) -> Option<&RequestId> {
        self.0.request_id.as_ref()
    }

    /// Returns the request's `_meta`, unchanged.
    #[must_use]
    pub fn meta(&self) -> Option<&RawJson> {
        self.0.meta.as_ref()
    }

    /// Returns the head of the HTTP request of the call, if there is one: its headers, and extensions set by layers
    /// around the endpoint.
    #[must_use]
    pub fn http(&self) -> Option<&http::request::Parts> {
        self.0.http.as_deref()
    }

    /// Returns the value of this type that the transport, or a layer around the HTTP endpoint, left for handlers: from
    /// [`Context::extensions`], else from the extensions of the HTTP request.
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.extensions().get().or_else(|| self.http()?.extensions.get())
    }

    /// Returns the values that the transport left for handlers, apart from those of the [HTTP request](Context::http).
    #[must_use]
    pub fn extensions(&self) -> &http::Extensions {
        &self.0.extensions
    }

    /// Returns whether the caller accepts or asks for a task. It is for services; tools get theirs from the router.
    #[must_use]
    pub fn task_wish(&self) -> &TaskPreference {
        &self.0.task
    }

    /// Turns the call into a task from here on. The caller gets the task and polls it.
    ///
    /// For tools that [ask first](crate::server::Tool::ask_first): what is asked before this is asked in the call, what
    /// is asked after it, in the task. Elsewhere, and where the caller takes no tasks, this does nothing.
    pub async fn begin_task(&self) {
        let mut told = false;
        std::future::poll_fn(|cx| {
            let mut state = self.state();
            if !told && state.leaving == TaskTransition::Allowed {
                // Whoever polls the handler looks for this, and polls again from elsewhere.
                (state.leaving, told) = (TaskTransition::Begun, true);
                // A handler may poll its parts only when they were woken.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Lets [`Context::begin_task`] do what it says.
    #[cfg(feature = "server")]
    pub(crate) fn allow_task(&self) {
        self.state().leaving = TaskTransition::Allowed;
    }

    /// Returns true if the handler has turned the call into a task.
    #[cfg(feature = "server")]
    pub(crate) fn has_begun_task(&self) -> bool {
        self.state().leaving == TaskTransition::Begun
    }

    /// Closes the HTTP stream of this call before the answer. The client is told to reconnect and poll for it
    /// (2025-11-25). This spares a connection while the call has nothing to send for long.
    ///
    /// Where a client cannot come back (stdio, the other revisions) this does nothing.
    pub fn close_stream(&self) {
        let asked = self.0.stream.compare_exchange(
            STREAM_CLOSABLE,
            STREAM_CLOSE_REQUESTED,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        if asked.is_ok()
            && let Some(waker) = self.state().waker.take()
        {
            waker.wake();
        }
    }

    /// Returns true if [`Context::close_stream`] was called and the stream is not closed yet.
    #[cfg(all(feature = "server", feature = "http"))]
    pub(crate) fn wants_stream_closed(&self) -> bool {
        self.0.stream.load(Ordering::Acquire) == STREAM_CLOSE_REQUESTED
    }

    /// Marks the stream as closed; another may replace it.
    #[cfg(all(feature = "server", feature = "http"))]
    pub(crate) fn mark_stream_closed(&self) {
        let _ = self.0.stream.compare_exchange(
            STREAM_CLOSE_REQUESTED,
            STREAM_CLOSABLE,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }

    /// Returns the progress token. `None` if the peer did not request progress.
    #[must_use]
    pub fn progress_token(&self) -> Option<&ProgressToken> {
        self.0.progress_token.as_ref()
    }

    /// Returns the minimum severity of log messages for this call.
    #[must_use]
    pub fn log_level(&self) -> Option<LoggingLevel> {
        self.0.log_level.or_else(|| self.0.peer.log_level())
    }

    /// Reports progress, if it was asked for. `done` must grow; a report that does not is dropped, because the
    /// specification wants each value above the last. Of more reports than the peer is to be sent
    /// ([`DEFAULT_PROGRESS_RATE`](crate::DEFAULT_PROGRESS_RATE) unless the server says otherwise) the newest is sent, in
    /// time or before the answer.
    pub fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(observer) = self.0.progress_observer.get() {
            observer(done, total, message);
        }
        let Some(token) = self.progress_token().cloned() else { return };
        let mut state = self.state();
        if state.progress.is_some_and(|last| done <= last) || !done.is_finite() {
            return;
        }
        state.progress = Some(done);
        let mut params = ProgressParams::new(token, done);
        params.total = total;
        params.message = message.map(str::to_owned);
        self.queue_progress(&mut state, params);
    }

    fn queue_progress(&self, state: &mut ContextState, report: ProgressParams) {
        let rate = || self.0.log_rules.get().map_or(DEFAULT_PROGRESS_RATE, |rules| rules.progress);
        let pace = state.pace.get_or_insert_with(|| Box::new(ProgressLimiter::new(rate())));
        match pace.admit(report) {
            Some(report) => drop(push(state, Notification::Progress(report))),
            // Whoever polls the call has to see to it when it is due.
            None => wake(state),
        }
    }

    /// Sends a log message, if the peer wants messages of this severity. `data` is anything that can be JSON; mostly a
    /// sentence, or an object that says what it is about.
    ///
    /// Hides texts that look like a secret, an e-mail address or a card number ([`redact`](crate::redact)). Messages
    /// beyond the rate limit are dropped ([`DEFAULT_LOG_RATE`](crate::DEFAULT_LOG_RATE) unless the server sets
    /// another). The next message that is sent is preceded by the number of dropped ones.
    pub fn log(&self, level: LoggingLevel, data: impl Serialize) {
        self.log_as(None, level, data);
    }

    /// Sends a log message under a logger's name, like [`Context::log`]. Without a name, messages use the name of the
    /// server.
    pub fn log_as(&self, logger: Option<&str>, level: LoggingLevel, data: impl Serialize) {
        if self.log_level().is_none_or(|wanted| level < wanted) {
            return;
        }
        if !self.0.peer.revision.is_legacy() {
            warn_once(DeprecatedFeature::Logging);
        }
        // Before the message is written and redacted: one that is dropped must cost little.
        let Some(left_out) = self.admit_log() else { return };
        let rules = self.0.log_rules.get();
        let logger = logger.or_else(|| rules?.logger.as_deref());
        self.report_dropped_logs(left_out, logger);
        let data = serde_json::to_value(&data).map(|mut data| {
            match rules {
                Some(rules) => (rules.redact)(&mut data),
                None => crate::redact::value(&mut data),
            }
            RawJson::from(data)
        });
        let data = match data {
            Ok(data) => data,
            Err(error) => return tracing::error!(%error, "log message cannot be serialized as JSON"),
        };
        let mut params = LogMessageParams::new(level, data);
        params.logger = logger.map(str::to_owned);
        self.push(Notification::LogMessage(params));
    }

    /// Sends any notification that belongs to this call. Log messages count like those of [`Context::log`], but nothing
    /// in them is hidden.
    pub fn notify(&self, notification: Notification) {
        if let Notification::LogMessage(message) = &notification {
            // Without a level it passes, because the server chooses until the client has set one (LOG-05).
            if self.log_level().is_some_and(|wanted| message.level < wanted) {
                return;
            }
            let Some(left_out) = self.admit_log() else { return };
            self.report_dropped_logs(left_out, message.logger.as_deref());
        }
        self.push(notification);
    }

    /// The rules for log messages; the first that are given hold.
    #[cfg(feature = "server")]
    pub(crate) fn set_log_rules(&self, rules: &Arc<LogRules>) {
        if self.0.log_rules.get().is_none() {
            let _ = self.0.log_rules.set(Arc::clone(rules));
        }
    }

    fn log_rate(&self) -> Rate {
        self.0.log_rules.get().map_or(DEFAULT_LOG_RATE, |rules| rules.rate)
    }

    /// Admits one more log message to the peer, within the rate. Returns the number dropped before it, or `None` if it
    /// may not be sent.
    fn admit_log(&self) -> Option<u32> {
        self.0.peer.logs.admit(self.log_rate())
    }

    fn report_dropped_logs(&self, left_out: u32, logger: Option<&str>) {
        let wanted = self.log_level().is_some_and(|wanted| wanted <= LoggingLevel::Warning);
        if left_out > 0 && wanted {
            let text = format!(
                "{left_out} log messages were dropped: the limit is {} (setting log_rate)",
                self.log_rate()
            );
            if let Ok(data) = RawJson::from_serialize(&text) {
                let mut params = LogMessageParams::new(LoggingLevel::Warning, data);
                params.logger = logger.map(str::to_owned);
                self.push(Notification::LogMessage(params));
            }
        }
    }

    fn push(&self, notification: Notification) {
        if let Notification::Progress(report) = notification {
            return self.queue_progress(&mut self.state(), report);
        }
        if !push(&mut self.state(), notification) {
            self.0.peer.logs.count_dropped();
        }
    }

    /// Returns the state from earlier rounds of questions.
    #[must_use]
    pub fn round(&self) -> Round {
        self.state().round.clone()
    }

    /// Returns the answer to the question `key`, undecoded.
    #[must_use]
    pub fn answer(&self, key: &str) -> Option<RawJson> {
        self.state().round.answers.get(key).cloned()
    }

    /// Forgets the answer to the question `key`, so that it is asked again.
    pub fn forget_answer(&self, key: &str) {
        self.state().round.answers.remove(key);
    }

    /// Adds the question `key` to those that must be answered before the call can continue. The handler then has to
    /// return; its outcome becomes [`Outcome::InputRequired`](crate::Outcome).
    pub fn add_question(&self, key: impl Into<String>, request: InputRequest) {
        let (mut state, key) = (self.state(), key.into());
        if state.asked.iter().all(|(other, _)| *other != key) {
            state.asked.push((key, request));
        }
    }

    /// Returns a key for a question without one. It is the same in every round, because handlers run again from the
    /// start.
    #[must_use]
    pub fn next_key(&self) -> String {
        let mut state = self.state();
        state.unnamed += 1;
        format!("q{}", state.unnamed)
    }

    /// Returns the result of the step `key`, if it has run in an earlier round.
    #[must_use]
    pub fn step(&self, key: &str) -> Option<RawJson> {
        self.state().round.steps.get(key).cloned()
    }

    /// Remembers the result of the step `key` for the rounds to come.
    pub fn remember_step(&self, key: impl Into<String>, result: RawJson) {
        let mut state = self.state();
        state.stepped = true;
        state.round.steps.insert(key.into(), result);
    }

    /// Uses up the state that this run began from, before a step that must not run twice; false if another run has.
    pub(crate) fn consume_state(&self) -> bool {
        let Some(ticket) = &self.0.state_nonce else { return true };
        let mut state = self.state();
        state.spent = state.spent || ticket.consume();
        state.spent
    }

    /// Releases the state after a failed step, so that it may be used again if nothing else has run.
    pub(crate) fn release_state(&self) {
        let Some(ticket) = &self.0.state_nonce else { return };
        let mut state = self.state();
        if state.spent && !state.stepped {
            ticket.release();
            state.spent = false;
        }
    }

    /// Takes the questions of this run of the handler, if there are any.
    #[must_use]
    pub fn take_questions(&self) -> Option<crate::round::PendingInput> {
        let mut state = self.state();
        if state.asked.is_empty() {
            return None;
        }
        let requests = std::mem::take(&mut state.asked);
        let round = state.round.clone();
        Some(crate::round::PendingInput::new(requests, round))
    }

    /// Keeps `guard` for as long as the call is in memory here, and drops it then. (A call of 2026-07-28 is here only
    /// while it runs; of older revisions also while its questions are answered.)
    pub fn keep(&self, guard: impl Any + Send) {
        self.state().kept.push(Box::new(guard));
    }

    /// Removes the oldest value of this type that is [kept](Context::keep), and returns it. A service that is called again
    /// with the answers to the questions of a call thereby gets back what it kept in the round before.
    #[must_use]
    pub fn take_kept<T: Any + Send>(&self) -> Option<T> {
        let kept = &mut self.state().kept;
        let position = kept.iter().position(|value| (**value).is::<T>())?;
        kept.remove(position).downcast().ok().map(|value| *value)
    }

    /// Resets the context before the handler runs again.
    pub fn begin_round(&self, round: Round) {
        let mut state = self.state();
        state.round = round;
        state.asked.clear();
        // Counted from the start again, so that a question without a name gets the key that it had before.
        (state.unnamed, state.over) = (0, false);
    }

    /// The handler has run to an end: what it last said goes out. With `for_good` nothing comes after that.
    pub(crate) fn finish(&self, for_good: bool) {
        let mut state = self.state();
        if let Some(last) = state.pace.as_mut().and_then(|pace| pace.take_held()) {
            // Only a dropped log message is reported back, to be counted.
            let _ = push(&mut state, Notification::Progress(last));
        }
        state.over |= for_good;
    }

    /// Returns true if a notification is queued.
    #[cfg(feature = "server")]
    pub(crate) fn has_queued(&self) -> bool {
        !self.state().outbox.is_empty()
    }

    /// Polls for the next queued notification; registers `waker` if there is none.
    pub(crate) fn poll_notification(&self, waker: &Waker) -> Option<Notification> {
        let mut state = self.state();
        let next = state.outbox.pop_front().or_else(|| {
            let held = state.pace.as_mut()?.poll(waker)?;
            Some(Notification::Progress(held))
        });
        if next.is_some() && state.outbox.is_empty() {
            // A call that says something once, and then waits for long, shall not keep the room for more.
            state.outbox = VecDeque::new();
        }
        if next.is_none() && !state.waker.as_ref().is_some_and(|w| w.will_wake(waker)) {
            state.waker = Some(waker.clone());
        }
        next
    }

    fn state(&self) -> MutexGuard<'_, ContextState> {
        // The state is consistent after every statement, so a panic elsewhere while it was held spoils nothing.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("peer", &self.0.peer)
            .field("request_id", &self.0.request_id)
            .finish_non_exhaustive()
    }
}

/// Queues a notification; false when a log message had to be dropped.
fn push(state: &mut ContextState, notification: Notification) -> bool {
    // Nothing may follow the answer (PROG-10); it does not count as left out.
    if state.over {
        return true;
    }
    if state.outbox.len() >= MAX_QUEUED_NOTIFICATIONS {
        // A reader this slow gets the newest progress and a gap in the log, never unbounded memory.
        let Notification::Progress(_) = &notification else {
            return !matches!(notification, Notification::LogMessage(_));
        };
        let old = state.outbox.iter().rposition(|n| matches!(n, Notification::Progress(_)));
        let Some(old) = old else { return true };
        state.outbox.remove(old);
    }
    state.outbox.push_back(notification);
    wake(state);
    true
}

fn wake(state: &mut ContextState) {
    if let Some(waker) = state.waker.take() {
        waker.wake();
    }
}
