//! State of a legacy session: its state machine, and the waiters on this side.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use futures::task::AtomicWaker;
use hospes_model::{InitializeParams, Method, RawJson, RequestId, RpcError, SubscriptionFilter, message};
use hospes_proto::RevisionSet;
use hospes_proto::session::server::{RequestAction, ServerEvent, SessionLimits};
use hospes_proto::session::{InFlightRequests, RequestTicket, ServerSession, TimeLimits};

use super::round_answers::RoundAnswers;
use super::session_tasks::SessionTasks;
use super::{CallStopReason, CallStopSwitch};
use crate::peer::Peer;

/// Capabilities of the server for which the adapter answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServerOffers {
    pub(super) logging: bool,
    pub(super) subscribe: bool,
    pub(super) tools_changes: bool,
    pub(super) prompts_changes: bool,
    pub(super) resources_changes: bool,
    /// True if it runs tools as tasks, and lists those.
    pub(super) tasks: bool,
    pub(super) task_list: bool,
}

/// One legacy session. Its lock is held for a few instructions, never across an await.
#[derive(Debug)]
pub(crate) struct LegacySession {
    peer: Arc<Peer>,
    offers: ServerOffers,
    /// Most sessions have none.
    tasks: OnceLock<Box<SessionTasks>>,
    machine: Mutex<SessionMachine>,
    /// Grows with every change of the subscriptions.
    epoch: AtomicU64,
    /// None before the first stream of changes is read: many sessions never have one.
    holding: OnceLock<Box<SubscriptionState>>,
    /// Waker of the reader of the session's stream of changes.
    listener: AtomicWaker,
}

/// What is left to do about a notification.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing.
    Nothing,
    /// The peer is ready.
    Ready,
    /// It is one of an extension, for the service.
    Extension,
}

/// Progress of the service with the session's subscriptions.
#[derive(Debug, Default)]
struct SubscriptionState {
    /// The last state of the subscriptions that the service was told of.
    held: AtomicU64,
    /// Number of streams of changes being read.
    listening: AtomicU32,
    fresh: Mutex<NewSubscriptions>,
    /// Subscriptions that are to be answered once the service has said whether it tells, and whether it does not.
    asked: Mutex<HashMap<String, bool>>,
    /// Wakes those who wait for either.
    changed: tokio::sync::Notify,
}

/// Changes of the subscriptions since the service was last asked.
#[derive(Debug, Default)]
struct NewSubscriptions {
    uris: Vec<String>,
    /// True if there are changes other than additions.
    all: bool,
}

type SessionMachine = ServerSession<Arc<CallStopSwitch>, AnswerTarget>;

/// Maximum number of a process that continues a session.
#[cfg(feature = "http")]
const MAX_GENERATION: u64 = (1 << 21) - 1;

fn limits() -> SessionLimits {
    let mut limits = SessionLimits::default();
    // How many run at once is the transport's to say.
    limits.max_in_flight = usize::MAX;
    limits
}

/// Destination of the answer to a question.
#[derive(Debug)]
struct AnswerTarget {
    round: Arc<RoundAnswers>,
    position: usize,
}

impl LegacySession {
    /// Opens a session; `peer` is made of the params once the revision is agreed on.
    pub(super) fn open(
        revisions: RevisionSet,
        params: Arc<InitializeParams>,
        peer: impl FnOnce(hospes_model::Revision) -> Peer,
    ) -> Result<Self, RpcError> {
        Self::with_machine(SessionMachine::new(revisions, limits()), params, peer)
    }

    /// Continues a session that other processes have served; this one is number `generation` of all.
    #[cfg(feature = "http")]
    pub(super) fn continued(
        revisions: RevisionSet,
        params: Arc<InitializeParams>,
        peer: impl FnOnce(hospes_model::Revision) -> Peer,
        generation: u64,
    ) -> Result<Self, RpcError> {
        // 2^32 ids for each process, all of which JSON parsers with 53 bits of precision can read.
        let used = i64::try_from(generation.min(MAX_GENERATION) << 32).unwrap_or_default();
        let machine = SessionMachine::new(revisions, limits()).with_request_ids_after(used);
        Self::with_machine(machine, params, peer)
    }

    fn with_machine(
        mut machine: SessionMachine,
        params: Arc<InitializeParams>,
        peer: impl FnOnce(hospes_model::Revision) -> Peer,
    ) -> Result<Self, RpcError> {
        let revision = machine.initialize(params)?.revision;
        Ok(Self {
            peer: Arc::new(peer(revision)),
            offers: ServerOffers::default(),
            tasks: OnceLock::new(),
            machine: Mutex::new(machine),
            epoch: AtomicU64::new(0),
            holding: OnceLock::new(),
            listener: AtomicWaker::new(),
        })
    }

    pub(super) fn with_offers(mut self, offers: ServerOffers) -> Self {
        self.offers = offers;
        self
    }

    pub(crate) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// Returns the tasks of the session.
    pub(super) fn tasks(&self) -> &SessionTasks {
        self.tasks.get_or_init(Box::default)
    }

    pub(super) fn offers(&self) -> ServerOffers {
        self.offers
    }

    /// Returns true if batches may be sent in either direction.
    pub(crate) fn has_batches(&self) -> bool {
        self.machine().has_batches()
    }

    pub(super) fn handle_request(&self, id: &RequestId, method: &Method) -> Result<RequestAction, RpcError> {
        self.machine().handle_request(id, method)
    }

    /// Takes in a notification; says what is left to do about it.
    pub(crate) fn handle_notification(&self, notification: &message::JsonRpcNotification<'_>) -> Heard {
        let method = Method::from_name(&notification.method);
        // The machine wants the time for progress of our requests, which ask for none.
        let event = self.machine().handle_notification(Instant::now(), &method, notification.params);
        match event {
            ServerEvent::Initialized => return Heard::Ready,
            ServerEvent::Cancelled { id, stop, reason } => {
                tracing::info!(%id, reason, "cancelled by the client");
                stop.stop(CallStopReason::Cancelled);
            }
            // The client's roots are asked for each time; nothing here kept them.
            ServerEvent::Progress { .. } | ServerEvent::RootsListChanged | ServerEvent::Ignored => {}
            ServerEvent::Other if matches!(method, Method::Other(_)) => return Heard::Extension,
            ServerEvent::Other => {
                tracing::debug!(%method, "ignored a notification that servers do not handle")
            }
        }
        Heard::Nothing
    }

    /// Handles the answer to a question of this side; unexpected answers are ignored.
    pub(crate) fn handle_response(&self, whole: &Bytes, response: message::JsonRpcResponse<'_>) {
        let question = self.machine().handle_response(response.id.as_ref());
        match question {
            Some(question) => question.answer(response.outcome.map(|raw| RawJson::slice_of(whole, raw))),
            None => tracing::debug!(id = ?response.id, "ignored a response that matches no pending request"),
        }
    }

    /// The answer to the question `id` was lost on its way here.
    pub(crate) fn handle_lost_response(&self, id: &RequestId, error: RpcError) {
        let question = self.machine().handle_response(Some(id));
        if let Some(question) = question {
            question.answer(Err(error));
        }
    }

    /// Refuses an id that a running call has.
    pub(crate) fn check(&self, id: &RequestId) -> Result<(), RpcError> {
        self.machine().served().check(id)
    }

    /// Enters a call that did not finish at once.
    fn enter(&self, id: &RequestId) -> Result<(Arc<CallStopSwitch>, RequestTicket), RpcError> {
        let stop = Arc::new(CallStopSwitch::default());
        let ticket = self.machine().begin(id, Arc::clone(&stop))?;
        Ok((stop, ticket))
    }

    fn leave(&self, id: &RequestId, ticket: RequestTicket) {
        self.machine().finish(id, ticket);
    }

    /// Fails the questions to the peer, because nothing can be read from it any more. Running and queued calls
    /// continue.
    pub(crate) fn fail_questions(&self, why: &'static str) {
        let questions = self.machine().close_inbound();
        // Without the lock: an answer wakes its call, which uses the session.
        for question in questions {
            question.answer(Err(RpcError::internal(why)));
        }
    }

    /// Ends the session, and whatever runs for it.
    pub(crate) fn stop(&self, why: CallStopReason) {
        // Taken out under the lock and told without it, because their wakers may use the session.
        let (stops, questions) = self.machine().close();
        // The calls first: what they say of an unanswered question would be their answer.
        for stop in stops {
            stop.stop(why);
        }
        for question in questions {
            question.answer(Err(RpcError::internal("the session has ended")));
        }
        self.listener.wake();
    }

    /// Books ids for the questions of a round.
    pub(super) fn ask(&self, methods: &[Method], round: &Arc<RoundAnswers>) -> Result<Vec<i64>, RpcError> {
        let mut machine = self.machine();
        let mut ids = Vec::with_capacity(methods.len());
        for (position, method) in methods.iter().enumerate() {
            let question = AnswerTarget { round: Arc::clone(round), position };
            // The round has one limit for all its questions.
            match machine.begin_client_request(Instant::now(), method, TimeLimits::NONE, question) {
                Ok(id) => ids.push(id),
                Err(why) => {
                    ids.into_iter().for_each(|id| drop(machine.cancel(id)));
                    return Err(RpcError::internal(why.to_string()));
                }
            }
        }
        Ok(ids)
    }

    /// Gives questions up; returns those that had no answer yet.
    pub(super) fn withdraw(&self, ids: &[i64]) -> Vec<i64> {
        let mut machine = self.machine();
        ids.iter().copied().filter(|id| machine.cancel(*id).is_some()).collect()
    }

    /// Adds a subscription; what to wait for until it holds, if there is anything.
    pub(super) fn subscribe(&self, uri: &str) -> Result<Option<u64>, RpcError> {
        if self.machine().is_subscribed(uri) {
            return Ok(None);
        }
        // Before anybody can ask the service.
        if let Some(mut asked) = self.asked() {
            asked.insert(uri.to_owned(), false);
        }
        let is_news = self.machine().subscribe(uri).inspect_err(|_| self.mark_answered(uri))?;
        if is_news {
            // If all subscriptions are to be asked for anew, this one is among them.
            if let Some(mut fresh) = self.fresh().filter(|fresh| !fresh.all) {
                fresh.uris.push(uri.to_owned());
            }
            return Ok(Some(self.next_epoch()));
        }
        Ok(None)
    }

    /// Marks these subscriptions as refused by the service. Pending answers report it; the others are removed.
    pub(super) fn refuse<'u>(&self, uris: impl Iterator<Item = &'u String>) {
        for uri in uris {
            let mut asked = self.asked();
            let refused = asked.as_mut().and_then(|asked| asked.get_mut(uri));
            let is_asked = refused.map(|refused| *refused = true).is_some();
            // Released first: `subscribe` takes this lock while it holds the machine's.
            drop(asked);
            if is_asked {
                self.machine().unsubscribe(uri);
            }
        }
    }

    /// Removes one refused subscription before its answer.
    pub(super) fn refuse_one(&self, uri: &str) {
        self.machine().unsubscribe(uri);
    }

    /// Returns true if the service refused this subscription.
    pub(super) fn is_refused(&self, uri: &str) -> bool {
        self.asked().is_some_and(|asked| asked.get(uri) == Some(&true))
    }

    /// A subscription is answered.
    pub(super) fn mark_answered(&self, uri: &str) {
        if let Some(mut asked) = self.asked() {
            asked.remove(uri);
        }
    }

    /// Those of these subscriptions that are not answered yet.
    pub(super) fn unanswered(&self, uris: &[String]) -> Vec<String> {
        let Some(asked) = self.asked().filter(|asked| !asked.is_empty()) else { return Vec::new() };
        uris.iter().filter(|uri| asked.contains_key(*uri)).cloned().collect()
    }

    fn asked(&self) -> Option<MutexGuard<'_, HashMap<String, bool>>> {
        self.holding.get().map(|holding| lock(&holding.asked))
    }

    pub(super) fn unsubscribe(&self, uri: &str) {
        if self.machine().unsubscribe(uri) {
            self.subscriptions_changed();
        }
    }

    pub(super) fn subscriptions_changed(&self) {
        self.reset_new_subscriptions();
        self.next_epoch();
    }

    /// The next time that the subscriptions change the service is to be asked for all of them.
    pub(super) fn reset_new_subscriptions(&self) {
        if let Some(mut fresh) = self.fresh() {
            *fresh = NewSubscriptions { uris: Vec::new(), all: true };
        }
    }

    /// The subscriptions that came since this was last asked; none when there were other changes too.
    pub(super) fn take_new_subscriptions(&self) -> Option<Vec<String>> {
        let fresh = std::mem::take(&mut *self.fresh()?);
        (!fresh.all).then_some(fresh.uris)
    }

    fn fresh(&self) -> Option<MutexGuard<'_, NewSubscriptions>> {
        self.holding.get().map(|holding| lock(&holding.fresh))
    }

    fn next_epoch(&self) -> u64 {
        let epoch = self.epoch.fetch_add(1, Ordering::AcqRel) + 1;
        self.listener.wake();
        epoch
    }

    /// Somebody reads the session's stream of changes while the returned value lives.
    pub(crate) fn attach_reader(self: &Arc<Self>) -> StreamAttendance {
        self.holding.get_or_init(Box::default).listening.fetch_add(1, Ordering::AcqRel);
        StreamAttendance(Arc::clone(self))
    }

    /// The service knows of the subscriptions as they were at `epoch`.
    pub(super) fn confirm_epoch(&self, epoch: Option<u64>) {
        let Some(holding) = self.holding.get() else { return };
        // The largest counts: a call that is acknowledged late must not take a newer state back.
        holding.held.fetch_max(epoch.unwrap_or_default(), Ordering::AcqRel);
        holding.changed.notify_waiters();
    }

    /// Waits until the service knows the subscriptions as of `epoch`. Returns false at once if no client reads the
    /// stream of changes; the service learns of them when one does.
    pub(super) async fn wait_for_epoch(&self, epoch: u64) -> bool {
        let Some(holding) = self.holding.get() else { return false };
        loop {
            let mut changed = std::pin::pin!(holding.changed.notified());
            // Before the values are read: `notify_waiters` reaches only those that are enabled.
            changed.as_mut().enable();
            // Read before `held`: a reader that has left by now may have stored its state first.
            let is_read = holding.listening.load(Ordering::Acquire) > 0;
            if holding.held.load(Ordering::Acquire) >= epoch {
                return true;
            }
            if !is_read {
                return false;
            }
            changed.await;
        }
    }

    /// Returns the changes that the session subscribes to.
    pub(super) fn filter(&self) -> SubscriptionFilter {
        let uris: Vec<_> = self.machine().subscriptions().map(str::to_owned).collect();
        SubscriptionFilter::new()
            .with_tools_list_changed(self.offers.tools_changes)
            .with_prompts_list_changed(self.offers.prompts_changes)
            .with_resources_list_changed(self.offers.resources_changes)
            .with_resource_subscriptions(uris)
            .with_task_ids(self.tasks.get().map(|tasks| tasks.followed()).unwrap_or_default())
    }

    /// Returns whether the client is ready, and the resources that it has subscribed to.
    #[cfg(feature = "http")]
    pub(super) fn subscription_state(&self) -> (bool, Vec<String>) {
        let machine = self.machine();
        (machine.is_ready(), machine.subscriptions().map(str::to_owned).collect())
    }

    /// Returns the ids of the tasks whose changes are sent.
    #[cfg(feature = "http")]
    pub(super) fn followed_tasks(&self) -> Vec<String> {
        self.tasks.get().map(|tasks| tasks.followed()).unwrap_or_default()
    }

    /// Sends the changes of a task, too.
    #[cfg(feature = "http")]
    pub(super) fn follow_task(&self, id: &str) {
        self.tasks().follow(id);
    }

    /// The number of this state of the subscriptions.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Wakes the reader of the stream of changes.
    #[cfg(feature = "http")]
    pub(crate) fn wake_listener(&self) {
        self.listener.wake();
    }

    pub(super) fn register_listener(&self, waker: &std::task::Waker) {
        self.listener.register(waker);
    }

    fn machine(&self) -> MutexGuard<'_, SessionMachine> {
        lock(&self.machine)
    }
}

/// Reads a session's stream of changes, for as long as it lives.
#[derive(Debug)]
pub(crate) struct StreamAttendance(Arc<LegacySession>);

impl Drop for StreamAttendance {
    fn drop(&mut self) {
        if let Some(holding) = self.0.holding.get() {
            holding.listening.fetch_sub(1, Ordering::AcqRel);
            holding.changed.notify_waiters();
        }
    }
}

impl AnswerTarget {
    fn answer(&self, answer: Result<RawJson, RpcError>) {
        self.round.answer(self.position, answer);
    }
}

/// The calls without a session that run on a connection, by the ids of their requests.
#[derive(Debug)]
pub(crate) struct ModernCalls(Mutex<InFlightRequests<Arc<CallStopSwitch>>>);

impl Default for ModernCalls {
    fn default() -> Self {
        Self(Mutex::new(InFlightRequests::new(usize::MAX)))
    }
}

impl ModernCalls {
    /// Refuses an id that a running call has.
    pub(crate) fn check(&self, id: &RequestId) -> Result<(), RpcError> {
        lock(&self.0).check(id)
    }

    /// Cancels a call; returns false if there is none of that id.
    pub(crate) fn cancel(&self, id: &RequestId) -> bool {
        let stop = lock(&self.0).cancel(id);
        if let Some(stop) = &stop {
            stop.stop(CallStopReason::Cancelled);
        }
        stop.is_some()
    }

    /// Stops every call.
    pub(crate) fn stop_all(&self, why: CallStopReason) {
        // Collected, so that no waker runs under the lock.
        let stops: Vec<_> = lock(&self.0).drain().map(|(_, stop)| stop).collect();
        for stop in stops {
            stop.stop(why);
        }
    }
}

/// Table in which a running call is registered, so that it can be stopped.
#[derive(Clone, Debug)]
pub(crate) enum CallTable {
    Session(Arc<LegacySession>),
    Connection(Arc<ModernCalls>),
}

impl CallTable {
    pub(super) fn enter(&self, id: &RequestId) -> Result<(Arc<CallStopSwitch>, RequestTicket), RpcError> {
        match self {
            Self::Session(session) => session.enter(id),
            Self::Connection(calls) => {
                let stop = Arc::new(CallStopSwitch::default());
                let ticket = lock(&calls.0).begin(id, Arc::clone(&stop))?;
                Ok((stop, ticket))
            }
        }
    }

    pub(super) fn leave(&self, id: &RequestId, ticket: RequestTicket) {
        match self {
            Self::Session(session) => session.leave(id, ticket),
            Self::Connection(calls) => drop(lock(&calls.0).finish(id, ticket)),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
