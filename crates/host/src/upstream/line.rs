//! A supervised connection to one server, as seen by its callers. Its supervisor keeps it up.

mod connecting;
mod list_upkeep;
mod relisting;
mod supervisor;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hospes::{Call, Context, Exchange};
use hospes_model::{Method, Notification, RawJson, SubscriptionFilter, SubscriptionsListenParams};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedMutexGuard, broadcast, watch};
use tokio::time::{Instant, timeout, timeout_at};

use self::relisting::RelistingState;
use super::phase::{ReadyConnection, UpstreamPhase};
use super::server_memory::ServerMemory;
use crate::server::{CapabilitySet, UpstreamConnection, UpstreamConnector, UpstreamEpoch, UpstreamServer};

/// A call may bring forward the next try of a server that waits, but no sooner than this after the last one.
const MIN_RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Time that a call waits until tools that the server has changed are read again.
const REREAD_WAIT: Duration = Duration::from_secs(5);
/// Log messages that wait for a slow listener.
const NOTIFICATION_BUFFER: usize = 256;

/// A supervised connection.
pub(crate) struct SupervisedConnection {
    /// A number that no other line of this process has.
    pub(crate) id: u64,
    pub(crate) server: Arc<UpstreamServer>,
    pub(crate) abilities: CapabilitySet,
    phase: watch::Sender<UpstreamPhase>,
    /// Counter of changes, shared by all connections; an increment makes views rebuild their catalogues.
    epoch: Arc<UpstreamEpoch>,
    stop: watch::Sender<bool>,
    /// Counter of restarts requested by a person.
    restart: watch::Sender<u64>,
    nudge: Notify,
    /// Lock that keeps waiting calls in order.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Number of calls in the queue.
    queued: AtomicUsize,
    /// Wakes the look at whether the server still answers.
    doubt: Notify,
    /// True if the server has announced changed tools that have not been read since.
    pub(super) unread: watch::Sender<bool>,
    /// Lists that were delivered and may have changed since.
    relisting: Mutex<RelistingState>,
    /// Log messages, and notifications of extensions, that belong to no call.
    told: broadcast::Sender<Notification>,
}

/// Turn to send a call that waited for the connection, before later calls.
#[derive(Debug)]
pub(crate) struct SendTurn {
    line: Arc<SupervisedConnection>,
    held: Option<OwnedMutexGuard<()>>,
}

impl Drop for SendTurn {
    fn drop(&mut self) {
        // Not before the next one is woken: whoever comes now stands behind it.
        self.held = None;
        self.line.queued.fetch_sub(1, Ordering::AcqRel);
    }
}

impl SupervisedConnection {
    /// Starts to connect.
    pub(crate) fn start(
        server: Arc<UpstreamServer>,
        abilities: CapabilitySet,
        connector: Arc<dyn UpstreamConnector>,
        memory: Arc<ServerMemory>,
        epoch: Arc<UpstreamEpoch>,
    ) -> Arc<Self> {
        // From a random number on, because ids travel in request state, which another process may open.
        static NEXT: LazyLock<AtomicU64> =
            LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(0_u8) >> 1));
        let line = Arc::new(Self {
            // Only the number has to be unique, so nothing else is ordered by it.
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            server,
            abilities,
            phase: watch::Sender::new(UpstreamPhase::Starting {
                since: Instant::now(),
                failures: 0,
                last: None,
                wanted_sign_in: false,
            }),
            epoch,
            stop: watch::Sender::new(false),
            restart: watch::Sender::new(0),
            nudge: Notify::new(),
            turn: Arc::default(),
            queued: AtomicUsize::new(0),
            doubt: Notify::new(),
            unread: watch::Sender::new(false),
            relisting: Mutex::default(),
            told: broadcast::Sender::new(NOTIFICATION_BUFFER),
        });
        // The task holds the line alive: it ends when it is asked to stop, not with the last handle.
        tokio::spawn(Arc::clone(&line).run(connector, memory));
        line
    }

    /// Returns the current phase.
    pub(crate) fn phase(&self) -> watch::Ref<'_, UpstreamPhase> {
        self.phase.borrow()
    }

    /// Returns the connection, if it is established.
    pub(crate) fn live(&self) -> Option<Arc<ReadyConnection>> {
        self.phase.borrow().ready().cloned()
    }

    /// Subscribes to log messages that belong to no call.
    pub(crate) fn told(&self) -> broadcast::Receiver<Notification> {
        self.told.subscribe()
    }

    /// Waits until `wanted` returns true for the phase.
    pub(crate) async fn wait(&self, wanted: impl FnMut(&UpstreamPhase) -> bool) {
        // The sender is ours, so there is always one.
        let _ = self.phase.subscribe().wait_for(wanted).await;
    }

    /// Waits for the connection, at most `limit`. Calls that had to wait are sent one at a time, in order: each holds
    /// the returned turn until it is sent.
    pub(crate) async fn ready(
        self: &Arc<Self>,
        limit: Duration,
    ) -> Option<(Arc<ReadyConnection>, Option<SendTurn>)> {
        // While calls are queued, new ones go behind them even though the connection stands already.
        if self.queued.load(Ordering::Acquire) == 0
            && let Some(live) = self.open_connection()
        {
            return Some((live, None));
        }
        // One more try is waited for, not a row of them.
        let failures = match &*self.phase() {
            UpstreamPhase::Starting { failures, .. } | UpstreamPhase::Waiting { failures, .. } => *failures,
            UpstreamPhase::Ready(_) | UpstreamPhase::Stopped => 1,
        };
        let until = Instant::now() + limit;
        self.queued.fetch_add(1, Ordering::AcqRel);
        // From here on the guard counts the call off again, also where this future is dropped.
        let mut turn = SendTurn { line: Arc::clone(self), held: None };
        let settled = |phase: &UpstreamPhase| match phase {
            // A connection that has just broken is not the one that is waited for.
            UpstreamPhase::Ready(live) => !(live.connection.is_closed)(),
            UpstreamPhase::Stopped => true,
            UpstreamPhase::Waiting { failures: now, until: next, tried, problem, .. } => {
                // Waiting is in vain once a new try has failed, or if none is due before the limit.
                problem.withheld || *now > failures || (*next).min(*tried + MIN_RETRY_INTERVAL) > until
            }
            UpstreamPhase::Starting { .. } => false,
        };
        let ready = async {
            turn.held = Some(Arc::clone(&self.turn).lock_owned().await);
            if self.open_connection().is_none() {
                // The permit is stored, so the wish is not lost while the supervisor does something else.
                self.nudge.notify_one();
                self.wait(settled).await;
            }
        };
        // Past the limit the connection may stand all the same, so what counts is looked up below.
        let _ = timeout_at(until, ready).await;
        self.open_connection().map(|live| (live, Some(turn)))
    }

    /// Returns the connection unless it is closed. It may have broken before the supervisor noticed.
    fn open_connection(&self) -> Option<Arc<ReadyConnection>> {
        self.live().filter(|live| !(live.connection.is_closed)())
    }

    /// Waits for a limited time until reported changes have been read. Returns true if they have.
    pub(crate) async fn wait_for_reread(&self) -> bool {
        if !*self.unread.borrow() {
            return true;
        }
        // A list that could not be read is tried again when somebody wants to know.
        self.doubt();
        let mut unread = self.unread.subscribe();
        timeout(REREAD_WAIT, unread.wait_for(|unread| !unread)).await.is_ok_and(|read| read.is_ok())
    }

    /// Records whether the list of tools has to be read again.
    fn set_unread(&self, unread: bool) {
        self.unread.send_if_modified(|now| std::mem::replace(now, unread) != unread);
    }

    /// Requests a check of the server after a call failed, possibly because of the connection. Over HTTP, a lost server
    /// cannot be detected otherwise.
    pub(crate) fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// Starts to stop the connection.
    pub(crate) fn begin_stop(&self) {
        // Unlike `send`, this stores the value even where nobody has subscribed yet.
        self.stop.send_replace(true);
    }

    /// Stops the connection and waits until its resources are released.
    pub(crate) async fn stop(&self) {
        self.begin_stop();
        self.wait(|phase| matches!(phase, UpstreamPhase::Stopped)).await;
    }

    /// Closes the connection, if there is one, and reconnects immediately, regardless of earlier failures.
    pub(crate) fn restart(&self) {
        self.restart.send_modify(|times| *times += 1);
    }

    fn set(&self, phase: UpstreamPhase) {
        // The phase comes before the epoch: whoever is woken by the epoch reads the new phase.
        self.phase.send_replace(phase);
        self.epoch.bump();
    }

    async fn stopped(&self) {
        // The sender is a field of `self`, so waiting cannot fail.
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }
}

/// Starts a subscription call, which stays pending and yields notifications.
pub(crate) fn listen(
    connection: &UpstreamConnection,
    filter: SubscriptionFilter,
    context: Context,
) -> Exchange {
    let params = RawJson::from_serialize(&SubscriptionsListenParams::new(filter));
    let params = params.unwrap_or_else(|_| RawJson::empty_object());
    let call = Call::new(Method::SubscriptionsListen, params, context);
    Exchange::new(connection.service.clone(), call)
}

impl std::fmt::Debug for SupervisedConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SupervisedConnection")
            .field("server", &self.server.name)
            .field("abilities", &self.abilities)
            .field("phase", &*self.phase())
            .finish_non_exhaustive()
    }
}
