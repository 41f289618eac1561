//! Supervisor of a connection: connects, reads the lists, keeps them up to date, and reconnects after failures.
//!
//! ```text
//!             ┌────────────── back-off over, or a call wants it ───────────────┐
//!             ▼                                                                 │
//!  ──────► Starting ── connected, lists read ──► Ready ── connection gone ──► Waiting
//!             │                                    │ ▲                          ▲
//!             │                                    └─┘ a list changed           │
//!             └───────────── not connected ──────────────────────────────────────┘
//!  any ── stop ──► Stopped
//! ```

use std::sync::Arc;
use std::time::Duration;

use hospes_store::AuditOutcome;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::super::backoff::{Backoff, BackoffDecision};
use super::super::list_changes::ListChangeSubscription;
use super::super::phase::{ReadyConnection, UpstreamPhase};
use super::super::server_memory::ServerMemory;
use super::list_upkeep::changed;
use super::{MIN_RETRY_INTERVAL, SupervisedConnection};
use crate::server::{
    LaunchRecorder, SignInChanges, UpstreamConnectError, UpstreamConnector, UpstreamListing,
};

/// Time limit for closing a connection.
const CLOSE_LIMIT: Duration = Duration::from_secs(4);
/// Time for which calls may continue on a connection whose account is signed out.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of attempts for a server that waits for a sign-in, unless a call needs it or a sign-in happens.
const SIGN_IN_RETRY: Duration = Duration::from_secs(60 * 60);
/// Interval of attempts for a withheld server, unless a decision is made. Its program may have its accepted content
/// again.
const WITHHELD_RETRY: Duration = Duration::from_secs(60);
/// Like [`MIN_RETRY_INTERVAL`], for a server that waits for a sign-in.
const SIGN_IN_NUDGE_AFTER: Duration = Duration::from_secs(1);

/// State of the supervision of one connection. Each step consumes it and returns the next one.
enum SupervisorState {
    /// The server is to be connected.
    Connecting,
    /// The server is connected.
    Serving(Box<OpenedConnection>),
    /// The last attempt failed, or the connection was lost; the next attempt is due at `until`.
    Waiting {
        /// Start of the last attempt.
        tried: Instant,
        until: Instant,
        /// True if a person has to accept the server first.
        is_withheld: bool,
    },
    /// The connection is not needed any more.
    Stopped,
}

/// A connection that was opened, and what its end is compared with.
struct OpenedConnection {
    live: Arc<ReadyConnection>,
    changes: ListChangeSubscription,
    /// Start of the attempt that opened it.
    tried: Instant,
    /// Number of identity changes of the account before the attempt.
    whose: Option<u64>,
    /// True if it was opened in the older era because the server needs it.
    is_older: bool,
}

/// Data that the supervision of a connection keeps from step to step.
struct Supervisor {
    line: Arc<SupervisedConnection>,
    connector: Arc<dyn UpstreamConnector>,
    memory: Arc<ServerMemory>,
    sign_ins: Option<watch::Receiver<SignInChanges>>,
    pins: Option<watch::Receiver<u64>>,
    restart: watch::Receiver<u64>,
    backoff: Backoff,
    /// The connection before, whose lists are shown meanwhile.
    last: Option<Arc<ReadyConnection>>,
    failures: u32,
    wanted_sign_in: bool,
}

impl SupervisorState {
    /// Runs until the state changes.
    async fn step(self, supervisor: &mut Supervisor) -> Self {
        match self {
            Self::Connecting => supervisor.connect().await,
            Self::Serving(opened) => supervisor.serve(*opened).await,
            Self::Waiting { tried, until, is_withheld } => supervisor.wait(tried, until, is_withheld).await,
            Self::Stopped => Self::Stopped,
        }
    }
}

impl Supervisor {
    fn new(
        line: Arc<SupervisedConnection>,
        connector: Arc<dyn UpstreamConnector>,
        memory: Arc<ServerMemory>,
    ) -> Self {
        Self {
            sign_ins: connector.changes(),
            pins: line.server.gate.as_ref().map(|gate| gate.changes()),
            restart: line.restart.subscribe(),
            backoff: Backoff::new(line.server.policy),
            last: None,
            failures: 0,
            wanted_sign_in: false,
            line,
            connector,
            memory,
        }
    }

    /// Forgets the failures before a restart that a person has requested.
    fn forget_failures(&mut self) {
        (self.backoff, self.failures) = (Backoff::new(self.line.server.policy), 0);
    }

    /// Connects once.
    async fn connect(&mut self) -> SupervisorState {
        let tried = Instant::now();
        // Read before connecting, so that a sign-in during the attempt counts as a change of the new connection.
        let whose = self.sign_ins.as_mut().map(|changes| changes.borrow_and_update().others);
        if let Some(pins) = &mut self.pins {
            pins.mark_unchanged();
        }
        // A server that does not speak the older era after all is not asked for it again and again.
        let is_older = *self.line.server.older.borrow();
        self.line.set_unread(false);
        self.line.set(UpstreamPhase::Starting {
            since: tried,
            failures: self.failures,
            last: self.last.clone(),
            wanted_sign_in: self.wanted_sign_in,
        });
        // Any of the branches may be dropped: a connector leaves nothing behind when its future is (see `connect`).
        let connected = tokio::select! {
            () = self.line.stopped() => return SupervisorState::Stopped,
            () = wanted(&mut self.restart) => {
                self.forget_failures();
                return SupervisorState::Connecting;
            }
            connected = self.line.connect(&*self.connector, &self.memory) => connected,
        };
        let (live, changes) = match connected {
            Ok(connected) => connected,
            Err(problem) => return self.failed(tried, problem, None),
        };
        let live = Arc::new(live);
        self.line.announce(&live);
        self.line.record(LaunchRecorder::connected);
        self.line.set(UpstreamPhase::Ready(Arc::clone(&live)));
        self.last = Some(Arc::clone(&live));
        SupervisorState::Serving(Box::new(OpenedConnection { live, changes, tried, whose, is_older }))
    }

    /// Keeps the lists of a connection up to date until it ends, and closes it.
    async fn serve(&mut self, opened: OpenedConnection) -> SupervisorState {
        let OpenedConnection { live, mut changes, tried, whose, is_older } = opened;
        let Self { line, sign_ins, pins, restart, last, .. } = self;
        // The subscription and the connection outlive the branches, so dropping one of these loses nothing.
        let reason = tokio::select! {
            () = line.stopped() => None,
            () = wanted(restart) => Some(ConnectionEnd::Restart),
            () = line.speaks_older(), if !is_older && !live.connection.keeps_calls() => Some(ConnectionEnd::Older),
            reason = line.keep_lists_current(&live, &mut changes, last, (sign_ins, whose, pins)) => Some(reason),
        };
        let up = live.since.elapsed();
        line.record_end(reason.as_ref());
        drop(changes);
        let closing = (live.connection.close)();
        if matches!(reason, Some(ConnectionEnd::Others | ConnectionEnd::Older)) {
            // Calls that are under way get their answers; those that come now go over the next connection.
            // What was begun as one account is not gone on with as another, nor shown to them.
            if matches!(reason, Some(ConnectionEnd::Others)) {
                *last = None;
            }
            let settled = (live.connection.settled)();
            // On a task of its own, so that the next connection does not wait for the old calls.
            tokio::spawn(async move {
                let _ = timeout(DRAIN_TIMEOUT, settled).await;
                let _ = timeout(CLOSE_LIMIT, closing).await;
            });
            return SupervisorState::Connecting;
        }
        drop(live);
        if timeout(CLOSE_LIMIT, closing).await.is_err() {
            tracing::warn!(server = %line.server.name, "connection not closed in time");
        }
        match reason {
            // A person has decided: the server is well, and is told anew what may be asked.
            Some(ConnectionEnd::Decided | ConnectionEnd::Others | ConnectionEnd::Older) => {
                SupervisorState::Connecting
            }
            Some(ConnectionEnd::Restart) => {
                self.forget_failures();
                SupervisorState::Connecting
            }
            Some(ConnectionEnd::Gone(problem)) => self.failed(tried, problem, Some(up)),
            None => SupervisorState::Stopped,
        }
    }

    /// Decides when to try again. `up` is the time that the connection stood, if there was one.
    fn failed(
        &mut self,
        tried: Instant,
        problem: UpstreamConnectError,
        up: Option<Duration>,
    ) -> SupervisorState {
        let is_withheld = problem.withheld;
        // Once, and not each time that it is tried again.
        let wants_sign_in = problem.sign_in.is_some();
        let is_news = up.is_none() && (self.failures == 0 || self.wanted_sign_in != wants_sign_in);
        if is_news && !is_withheld {
            self.line.record(|launches| launches.not_connected(wants_sign_in));
        }
        self.wanted_sign_in = wants_sign_in;
        let failures = self.failures + 1;
        let verdict = match &problem.sign_in {
            // The server is well; it is us who have to do something.
            _ if is_withheld => BackoffDecision { delay: WITHHELD_RETRY, quarantined: true, failures },
            Some(_) => BackoffDecision { delay: SIGN_IN_RETRY, quarantined: false, failures },
            None => self.backoff.failed(up),
        };
        self.failures = verdict.failures;
        let until = Instant::now() + verdict.delay;
        tracing::warn!(
            server = %self.line.server.name, failures = self.failures, next = ?rounded(verdict.delay), problem = %problem,
            "{}", if up.is_some() { "server disconnected" } else { "server cannot be reached" }
        );
        self.line.set(UpstreamPhase::Waiting {
            tried,
            until,
            failures: self.failures,
            problem,
            quarantined: verdict.quarantined,
            last: self.last.clone(),
        });
        SupervisorState::Waiting { tried, until, is_withheld }
    }

    /// Waits for the next attempt.
    async fn wait(&mut self, tried: Instant, until: Instant, is_withheld: bool) -> SupervisorState {
        let Self { line, sign_ins, pins, restart, .. } = self;
        let pause = if self.wanted_sign_in { SIGN_IN_NUDGE_AFTER } else { MIN_RETRY_INTERVAL };
        let nudged = async {
            // The permit of a wish that comes during the pause is kept by `Notify`, and taken right after it.
            sleep_until(tried + pause).await;
            line.nudge.notified().await;
        };
        // No branch loses anything when it is dropped: watch channels and the permit keep what it has not seen.
        let is_restart = tokio::select! {
            () = line.stopped() => return SupervisorState::Stopped,
            () = sleep_until(until) => false,
            () = nudged, if !is_withheld => false,
            () = changed(sign_ins) => false,
            () = wanted(restart) => true,
            () = line.wait_until_accepted(pins), if is_withheld => false,
        };
        if is_restart {
            self.forget_failures();
        }
        SupervisorState::Connecting
    }
}

impl SupervisedConnection {
    /// Runs until it is asked to stop.
    pub(super) async fn run(
        self: Arc<Self>,
        connector: Arc<dyn UpstreamConnector>,
        memory: Arc<ServerMemory>,
    ) {
        let mut supervisor = Supervisor::new(self, connector, memory);
        let mut state = SupervisorState::Connecting;
        while !matches!(state, SupervisorState::Stopped) {
            state = state.step(&mut supervisor).await;
        }
        supervisor.line.set(UpstreamPhase::Stopped);
    }

    /// Waits until the server is accepted and may be started.
    async fn wait_until_accepted(&self, pins: &mut Option<watch::Receiver<u64>>) {
        loop {
            changed(pins).await;
            if self.server.gate.as_ref().is_none_or(|gate| gate.may_start()) {
                return;
            }
        }
    }

    /// Waits until it is found out that the server can only ask in the older era.
    async fn speaks_older(&self) {
        // The sender is the server's, so there is always one.
        let _ = self.server.older.subscribe().wait_for(|older| *older).await;
    }

    /// Records events of connections to a URL. For a process, its start and end are recorded instead.
    fn record(&self, what: impl FnOnce(&LaunchRecorder)) {
        if let Some(launches) = self.server.launches.as_deref().filter(|_| self.server.transport == "http") {
            what(launches);
        }
    }

    fn record_end(&self, reason: Option<&ConnectionEnd>) {
        let (how, ending) = match reason {
            Some(ConnectionEnd::Gone(_)) => ("the connection was lost", AuditOutcome::Failed),
            Some(ConnectionEnd::Decided) => ("its acceptance was decided", AuditOutcome::Done),
            Some(ConnectionEnd::Others) => ("its account was signed out or changed", AuditOutcome::Done),
            Some(ConnectionEnd::Older) => ("its requests need the older protocol era", AuditOutcome::Done),
            Some(ConnectionEnd::Restart) => ("a restart was requested", AuditOutcome::Done),
            None => ("it is no longer needed", AuditOutcome::Done),
        };
        self.record(|launches| launches.disconnected(how, ending));
    }

    fn announce(&self, live: &ReadyConnection) {
        let UpstreamListing { tools, prompts, resources, .. } = &live.listing;
        tracing::info!(
            server = %self.server.name, revision = %live.revision(), tools = tools.len(), prompts = prompts.len(),
            resources = resources.len(), "server is ready"
        );
    }
}

/// Reasons a connection ends.
pub(super) enum ConnectionEnd {
    Gone(UpstreamConnectError),
    /// Somebody has decided about the server.
    Decided,
    /// The account of the connection is signed out or was replaced by another.
    Others,
    /// A server that can only ask in the older era, as was found out.
    Older,
    /// A person requested a restart.
    Restart,
}

impl ConnectionEnd {
    pub(super) fn gone(reason: String) -> Self {
        Self::Gone(UpstreamConnectError::new(reason))
    }
}

/// Waits until a person requests a restart. The connection itself holds the sender.
async fn wanted(restart: &mut watch::Receiver<u64>) {
    if restart.changed().await.is_err() {
        std::future::pending().await
    }
}

/// Returns a time that people can read: tenths of a second, or milliseconds of a shorter one.
fn rounded(time: Duration) -> Duration {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(if millis < 1000 { millis } else { millis / 100 * 100 })
}
