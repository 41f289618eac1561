//! What a legacy peer needs remembered: who it is, what runs for it, what it was asked, what it subscribed to.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::task::AtomicWaker;
use hospes_model::{Id, RawJson, RpcError, SubscriptionFilter, message};

use super::asking::AskRound;
use super::{Stop, Stopped};
use crate::Peer;

/// The most resources that one session may subscribe to: the setting `max_subscriptions`.
const MAX_SUBSCRIPTIONS: usize = 1024;
/// The most questions of one session that may wait for answers: the setting `max_open_questions`.
const MAX_OPEN_QUESTIONS: usize = 256;

/// What the server offers, as far as the adapter answers for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offers {
    pub(super) logging: bool,
    pub(super) subscribe: bool,
    pub(super) tools_changes: bool,
    pub(super) prompts_changes: bool,
    pub(super) resources_changes: bool,
}

/// One legacy session. Every lock in it is held for a few instructions, never across an await.
#[derive(Debug)]
pub(crate) struct Session {
    peer: Arc<Peer>,
    offers: Offers,
    ready: AtomicBool,
    in_flight: Arc<InFlight>,
    questions: Mutex<Questions>,
    subscriptions: Mutex<Subscriptions>,
    /// Wakes whoever holds the session's stream of changes.
    pub(super) listener: AtomicWaker,
}

#[derive(Debug, Default)]
struct Questions {
    last: i64,
    open: HashMap<i64, (Arc<AskRound>, usize)>,
}

#[derive(Debug, Default)]
struct Subscriptions {
    uris: BTreeSet<Box<str>>,
    /// Grows with every change of `uris`.
    epoch: u64,
}

impl Session {
    pub(super) fn new(peer: Arc<Peer>, offers: Offers) -> Self {
        Self {
            peer,
            offers,
            ready: AtomicBool::new(false),
            in_flight: Arc::default(),
            questions: Mutex::default(),
            subscriptions: Mutex::default(),
            listener: AtomicWaker::new(),
        }
    }

    pub(crate) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    pub(super) fn offers(&self) -> Offers {
        self.offers
    }

    /// The calls that run for the peer.
    pub(crate) fn in_flight(&self) -> &Arc<InFlight> {
        &self.in_flight
    }

    /// Whether `notifications/initialized` has come.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    pub(super) fn set_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    /// Takes in the answer to one of our questions; answers to nothing are ignored.
    pub(crate) fn handle_response(&self, whole: &bytes::Bytes, response: message::Response<'_>) {
        let Some(Id::Number(id)) = response.id else { return };
        let Some((round, position)) = lock(&self.questions).open.remove(&id) else {
            tracing::debug!(id, "an answer to nothing that is being asked");
            return;
        };
        round.answer(position, response.outcome.map(|raw| RawJson::within(whole, raw)));
    }

    /// The answer to the question `id` was lost on its way here.
    pub(crate) fn handle_lost_response(&self, id: &Id, error: RpcError) {
        let Id::Number(id) = id else { return };
        let found = lock(&self.questions).open.remove(id);
        if let Some((round, position)) = found {
            round.answer(position, Err(error));
        }
    }

    /// Lets whoever holds the stream of changes look again.
    pub(crate) fn wake_listener(&self) {
        self.listener.wake();
    }

    /// Whether any question waits for its answer.
    pub(crate) fn is_asking(&self) -> bool {
        !lock(&self.questions).open.is_empty()
    }

    /// No more answers can come.
    pub(crate) fn refuse_questions(&self, why: &'static str) {
        let open: Vec<_> = lock(&self.questions).open.drain().collect();
        for (_, (round, position)) in open {
            round.answer(position, Err(RpcError::internal(why)));
        }
    }

    /// Books ids for the questions of a round.
    pub(super) fn book(&self, round: &Arc<AskRound>, count: usize) -> Result<Vec<i64>, RpcError> {
        let mut questions = lock(&self.questions);
        if questions.open.len() + count > MAX_OPEN_QUESTIONS {
            let why = format!(
                "more than {MAX_OPEN_QUESTIONS} questions wait for the client (limit max_open_questions)"
            );
            return Err(RpcError::internal(why));
        }
        let ids = (0..count).map(|position| {
            questions.last += 1;
            let id = questions.last;
            questions.open.insert(id, (Arc::clone(round), position));
            id
        });
        Ok(ids.collect())
    }

    /// Forgets questions; returns those that had no answer yet.
    pub(super) fn unbook(&self, ids: &[i64]) -> Vec<i64> {
        let mut questions = lock(&self.questions);
        ids.iter().copied().filter(|id| questions.open.remove(id).is_some()).collect()
    }

    pub(super) fn subscribe(&self, uri: &str) -> Result<(), RpcError> {
        let mut subscriptions = lock(&self.subscriptions);
        if subscriptions.uris.contains(uri) {
            return Ok(());
        }
        if subscriptions.uris.len() >= MAX_SUBSCRIPTIONS {
            let why = format!("more than {MAX_SUBSCRIPTIONS} subscriptions (limit max_subscriptions)");
            return Err(RpcError::invalid_params(why));
        }
        subscriptions.uris.insert(uri.into());
        subscriptions.epoch += 1;
        drop(subscriptions);
        self.listener.wake();
        Ok(())
    }

    pub(super) fn unsubscribe(&self, uri: &str) {
        let mut subscriptions = lock(&self.subscriptions);
        if subscriptions.uris.remove(uri) {
            subscriptions.epoch += 1;
            drop(subscriptions);
            self.listener.wake();
        }
    }

    /// Which changes the session is to hear of, and the number of this state of things.
    pub(super) fn filter(&self) -> (SubscriptionFilter, u64) {
        let subscriptions = lock(&self.subscriptions);
        let filter = SubscriptionFilter::new()
            .with_tools_list_changed(self.offers.tools_changes)
            .with_prompts_list_changed(self.offers.prompts_changes)
            .with_resources_list_changed(self.offers.resources_changes)
            .with_resource_subscriptions(
                subscriptions.uris.iter().map(|uri| uri.to_string()).collect::<Vec<_>>(),
            );
        (filter, subscriptions.epoch)
    }

    pub(super) fn epoch(&self) -> u64 {
        lock(&self.subscriptions).epoch
    }
}

/// The calls that run on a connection or in a session, by the ids of their requests.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    calls: Mutex<HashMap<Id, Arc<Stop>>>,
    count: AtomicUsize,
}

impl InFlight {
    /// Refuses an id that a running call has.
    pub(crate) fn check(&self, id: &Id) -> Result<(), RpcError> {
        // Mostly nothing runs, and then there is nothing to lock for.
        if self.count.load(Ordering::Acquire) > 0 && lock(&self.calls).contains_key(id) {
            return Err(twice(id));
        }
        Ok(())
    }

    /// Enters a call that did not finish at once.
    pub(crate) fn enter(&self, id: &Id) -> Result<Arc<Stop>, RpcError> {
        let mut calls = lock(&self.calls);
        if calls.contains_key(id) {
            return Err(twice(id));
        }
        let stop = Arc::new(Stop::default());
        calls.insert(id.clone(), Arc::clone(&stop));
        self.count.store(calls.len(), Ordering::Release);
        Ok(stop)
    }

    /// Forgets a call that has ended.
    pub(super) fn leave(&self, id: &Id, stop: &Arc<Stop>) {
        let mut calls = lock(&self.calls);
        if calls.get(id).is_some_and(|other| Arc::ptr_eq(other, stop)) {
            calls.remove(id);
            self.count.store(calls.len(), Ordering::Release);
        }
    }

    /// Stops one call; false when there is none of that id.
    pub(crate) fn stop(&self, id: &Id, why: Stopped) -> bool {
        let stop = lock(&self.calls).get(id).cloned();
        if let Some(stop) = &stop {
            stop.stop(why);
        }
        stop.is_some()
    }

    /// Stops every call.
    pub(crate) fn stop_all(&self, why: Stopped) {
        let stops: Vec<_> = lock(&self.calls).values().cloned().collect();
        for stop in stops {
            stop.stop(why);
        }
    }

    /// How many calls run.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }
}

fn twice(id: &Id) -> RpcError {
    RpcError::invalid_request(format!("a request with the id {id} is still running"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
