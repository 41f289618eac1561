//! Keeps a connection up: connects, reads the lists, keeps them true, and tries again.
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

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hospes_model::{Era, Notification};
use hospes_store::AuditOutcome;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::super::backoff::{Backoff, BackoffDecision};
use super::super::list_changes::ListChangeSubscription;
use super::super::list_reader::ListReader;
use super::super::phase::{ReadyConnection, UpstreamPhase};
use super::super::result_validator::ResultValidator;
use super::super::server_memory::ServerMemory;
use super::{MIN_RETRY_INTERVAL, SupervisedConnection};
use crate::server::{
    ConnectOptions, DefinitionHashes, KnownProtocol, LaunchRecorder, ListKinds, ServerLogCallback,
    ServerNotificationCallback, SignInChanges, UpstreamConnectError, UpstreamConnection, UpstreamConnector,
    UpstreamListing, own_extensions,
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
/// Maximum time that a starting process keeps others from starting.
const START_HOLD: Duration = Duration::from_secs(10);
/// Wait before a list that could not be read is read again; twice as long after each further time.
const REREAD_AFTER: Duration = Duration::from_secs(2);
/// The longest such wait.
const MAX_REREAD_AFTER: Duration = Duration::from_secs(300);
/// Like [`MIN_RETRY_INTERVAL`], for a server that waits for a sign-in.
const SIGN_IN_NUDGE_AFTER: Duration = Duration::from_secs(1);

impl SupervisedConnection {
    /// Runs until it is asked to stop.
    pub(super) async fn run(
        self: Arc<Self>,
        connector: Arc<dyn UpstreamConnector>,
        memory: Arc<ServerMemory>,
    ) {
        let mut changes = connector.changes();
        let mut pins = self.server.gate.as_ref().map(|gate| gate.changes());
        let mut restart = self.restart.subscribe();
        let mut backoff = Backoff::new(self.server.policy);
        let mut last: Option<Arc<ReadyConnection>> = None;
        let (mut failures, mut wanted_sign_in) = (0, false);
        loop {
            let started = Instant::now();
            // Read before connecting, so that a sign-in during the attempt counts as a change of the new connection.
            let whose = changes.as_mut().map(|changes| changes.borrow_and_update().others);
            if let Some(pins) = &mut pins {
                pins.mark_unchanged();
            }
            // A server that does not speak the older era after all is not asked for it again and again.
            let is_older = *self.server.older.borrow();
            self.set_unread(false);
            self.set(UpstreamPhase::Starting {
                since: started,
                failures,
                last: last.clone(),
                wanted_sign_in,
            });
            // Any of the branches may be dropped: a connector leaves nothing behind when its future is (see `connect`).
            let connected = tokio::select! {
                () = self.stopped() => break,
                () = wanted(&mut restart) => {
                    (backoff, failures) = (Backoff::new(self.server.policy), 0);
                    continue;
                }
                connected = self.connect(&*connector, &memory) => connected,
            };
            let (problem, up) = match connected {
                Ok((live, mut ear)) => {
                    let live = Arc::new(live);
                    self.announce(&live);
                    self.record(LaunchRecorder::connected);
                    self.set(UpstreamPhase::Ready(Arc::clone(&live)));
                    last = Some(Arc::clone(&live));
                    let reason = tokio::select! {
                        () = self.stopped() => None,
                        () = wanted(&mut restart) => Some(ConnectionEnd::Restart),
                        () = self.speaks_older(), if !is_older && !live.connection.keeps_calls() => {
                            Some(ConnectionEnd::Older)
                        }
                        reason = self.keep_lists_current(&live, &mut ear, &mut last, (&mut changes, whose, &mut pins)) => Some(reason),
                    };
                    let up = live.since.elapsed();
                    self.record_end(reason.as_ref());
                    drop(ear);
                    let closing = (live.connection.close)();
                    if matches!(reason, Some(ConnectionEnd::Others | ConnectionEnd::Older)) {
                        // Calls that are under way get their answers; those that come now go over the next connection.
                        // What was begun as one account is not gone on with as another, nor shown to them.
                        if matches!(reason, Some(ConnectionEnd::Others)) {
                            last = None;
                        }
                        let settled = (live.connection.settled)();
                        // On a task of its own, so that the next connection does not wait for the old calls.
                        tokio::spawn(async move {
                            let _ = timeout(DRAIN_TIMEOUT, settled).await;
                            let _ = timeout(CLOSE_LIMIT, closing).await;
                        });
                        continue;
                    }
                    drop(live);
                    if timeout(CLOSE_LIMIT, closing).await.is_err() {
                        tracing::warn!(server = %self.server.name, "connection not closed in time");
                    }
                    match reason {
                        // A person has decided: the server is well, and is told anew what may be asked.
                        Some(ConnectionEnd::Decided | ConnectionEnd::Others | ConnectionEnd::Older) => {
                            continue;
                        }
                        Some(ConnectionEnd::Restart) => {
                            (backoff, failures) = (Backoff::new(self.server.policy), 0);
                            continue;
                        }
                        Some(ConnectionEnd::Gone(problem)) => (problem, Some(up)),
                        None => break,
                    }
                }
                Err(problem) => (problem, None),
            };
            let is_withheld = problem.withheld;
            // Once, and not each time that it is tried again.
            let wants_sign_in = problem.sign_in.is_some();
            let is_news = up.is_none() && (failures == 0 || wanted_sign_in != wants_sign_in);
            if is_news && !is_withheld {
                self.record(|launches| launches.not_connected(wants_sign_in));
            }
            wanted_sign_in = wants_sign_in;
            let verdict = match &problem.sign_in {
                // The server is well; it is us who have to do something.
                _ if is_withheld => {
                    BackoffDecision { delay: WITHHELD_RETRY, quarantined: true, failures: failures + 1 }
                }
                Some(_) => {
                    BackoffDecision { delay: SIGN_IN_RETRY, quarantined: false, failures: failures + 1 }
                }
                None => backoff.failed(up),
            };
            failures = verdict.failures;
            let until = Instant::now() + verdict.delay;
            tracing::warn!(
                server = %self.server.name, failures, next = ?verdict.delay, problem = %problem,
                "{}", if up.is_some() { "server disconnected" } else { "server cannot be reached" }
            );
            self.set(UpstreamPhase::Waiting {
                tried: started,
                until,
                failures,
                problem,
                quarantined: verdict.quarantined,
                last: last.clone(),
            });
            let pause = if wanted_sign_in { SIGN_IN_NUDGE_AFTER } else { MIN_RETRY_INTERVAL };
            let nudged = async {
                // The permit of a wish that comes during the pause is kept by `Notify`, and taken right after it.
                sleep_until(started + pause).await;
                self.nudge.notified().await;
            };
            // No branch loses anything when it is dropped: watch channels and the permit keep what it has not seen.
            tokio::select! {
                () = self.stopped() => break,
                () = sleep_until(until) => {}
                () = nudged, if !is_withheld => {}
                () = changed(&mut changes) => {}
                () = wanted(&mut restart) => {
                    (backoff, failures) = (Backoff::new(self.server.policy), 0);
                }
                () = self.wait_until_accepted(&mut pins), if is_withheld => {}
            }
        }
        self.set(UpstreamPhase::Stopped);
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

    async fn connect(
        &self,
        connector: &dyn UpstreamConnector,
        memory: &ServerMemory,
    ) -> Result<(ReadyConnection, ListChangeSubscription), UpstreamConnectError> {
        // Many programs that start at once take so long that all of them run into their limits. The time limit begins
        // when it is this one's turn.
        let starts = match &self.server.starts {
            Some(starts) => Arc::clone(starts).acquire_owned().await.ok(),
            None => None,
        };
        // One that hangs holds up the others for this long, and no longer.
        let hold = async {
            sleep(START_HOLD).await;
            drop(starts);
            std::future::pending::<Infallible>().await
        };
        let definition = self.server.definition.as_deref();
        let (logs, others) = (self.told.clone(), self.told.clone());
        // Nobody may be listening.
        let on_log: ServerLogCallback =
            Arc::new(move |message| drop(logs.send(Notification::LogMessage(message))));
        let on_notification: ServerNotificationCallback =
            Arc::new(move |notification| drop(others.send(notification)));
        let known = match *self.server.older.borrow() {
            true => Some(KnownProtocol { era: Era::Legacy, sse: false }),
            false => definition.and_then(|key| memory.known(key)),
        };
        let work = async {
            let gate = self.server.gate.as_ref();
            let quarantined = match gate {
                Some(gate) => gate.check_start().await.inspect_err(|problem| {
                    if let (true, Some(launches)) = (problem.withheld, &self.server.launches) {
                        launches.withheld(problem);
                    }
                })?,
                None => false,
            };
            let wish = ConnectOptions::new(self.abilities).with_known(known).with_on_log(on_log);
            let wish = wish.with_on_notification(on_notification).in_quarantine(quarantined);
            let connection = connector.connect(wish).await?;
            if let Some(key) = definition {
                memory.learn(key, connection.known());
                let declared = own_extensions(&connection.capabilities);
                let declared =
                    declared.map(|(identifier, settings)| (identifier.clone(), settings.detached()));
                memory.learn_extensions(key, declared.collect());
            }
            let kinds = ListKinds::offered(&connection.capabilities);
            let connection = Arc::new(connection);
            let mut listing = UpstreamListing::default();
            // Listening begins before the lists are read, so that no change falls in between.
            let mut ear = ListChangeSubscription::new(Arc::clone(&connection), self);
            {
                let reader = ListReader::new(&connection.service, self.abilities);
                let mut reading = std::pin::pin!(reader.read(kinds, &mut listing));
                // `ear` first: with its first poll it sends its request, which has to precede those for the lists.
                // What it hears is put back after the reading, whose pages may be from before the change.
                tokio::select! {
                    biased;
                    stale = ear.next_stale_lists() => {
                        reading.await;
                        ear.mark_stale(stale);
                    }
                    () = &mut reading => {}
                }
            }
            ear.mark_read();
            // The same rule as later on: one list may be broken for good, all of them at once are a server that is not
            // there. It is tried again, and not taken for a server that offers nothing.
            if listing.lost() > 0
                && listing.lost() >= kinds.count()
                && let Some(problem) = listing.problems.iter().find(|problem| problem.whole)
            {
                return Err(UpstreamConnectError::new(problem.to_string()));
            }
            for problem in &listing.problems {
                tracing::warn!(server = %self.server.name, %problem, "list not read completely");
            }
            let hashes = self.compare_with_pins(&connection, &listing).await?;
            static NEXT: AtomicU64 = AtomicU64::new(1);
            let id = NEXT.fetch_add(1, Ordering::Relaxed);
            let results = ResultValidator::of(&listing);
            Ok((
                ReadyConnection {
                    id,
                    connection,
                    listing,
                    hashes,
                    results,
                    quarantined,
                    since: Instant::now(),
                },
                ear,
            ))
        };
        let limit = self.server.connect_timeout;
        // `hold` never ends. It is polled to free the permit in time, and dropped with it when the work is done.
        let connected = tokio::select! {
            connected = timeout(limit, work) => connected,
            never = hold => match never {},
        };
        match connected {
            Ok(connected) => connected,
            Err(_) => Err(UpstreamConnectError::new(format!(
                "not ready within {limit:?} (setting connect_timeout)"
            ))
            .with_hint(Some("raise `connect_timeout` if the server is only slow to start"))),
        }
    }

    /// Compares what the server offers with what was accepted.
    async fn compare_with_pins(
        &self,
        connection: &UpstreamConnection,
        listing: &UpstreamListing,
    ) -> Result<Arc<DefinitionHashes>, UpstreamConnectError> {
        let Some(gate) = &self.server.gate else { return Ok(Arc::default()) };
        let user = self.server.user.as_deref().unwrap_or_default();
        let sight = format!("{} {user}", self.abilities.bits());
        gate.record_listing(connection.instructions.as_deref(), listing, sight).await
    }

    /// Records what becomes of connections to a URL. Of a process it is its start and its end that count.
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

    /// Keeps the lists of a connection up to date until it is gone, and says why it is.
    async fn keep_lists_current(
        &self,
        live: &Arc<ReadyConnection>,
        ear: &mut ListChangeSubscription,
        last: &mut Option<Arc<ReadyConnection>>,
        (changes, whose, pins): (
            &mut Option<watch::Receiver<SignInChanges>>,
            Option<u64>,
            &mut Option<watch::Receiver<u64>>,
        ),
    ) -> ConnectionEnd {
        let closed = (live.connection.closed)();
        tokio::pin!(closed);
        let mut current = Arc::clone(live);
        let offered = ListKinds::offered(live.capabilities());
        let mut wait = REREAD_AFTER;
        let mut reread_at = Instant::now() + wait;
        loop {
            let lost = current.listing.lost_kinds();
            // Every branch can be dropped and begun anew: `hear` loses nothing, and the others keep what they wait for.
            let stale = tokio::select! {
                reason = &mut closed => return ConnectionEnd::gone(reason),
                stale = ear.next_stale_lists() => stale,
                () = self.doubt.notified() => offered,
                // A server that was only busy says nothing when it no longer is.
                () = sleep_until(reread_at), if lost.any() => {
                    wait = (wait * 2).min(MAX_REREAD_AFTER);
                    reread_at = Instant::now() + wait;
                    lost
                }
                () = changed(changes) => {
                    if changes.as_ref().map(|changes| changes.borrow().others) != whose {
                        return ConnectionEnd::Others;
                    }
                    offered
                }
                () = changed(pins) => match &self.server.gate {
                    Some(gate) if gate.needs_reconnect(live.quarantined) => return ConnectionEnd::Decided,
                    _ => continue,
                },
            };
            // Read into a copy: calls go on with the published lists, and are told only of differences.
            let mut listing = current.listing.clone();
            let reader = ListReader::new(&live.connection.service, self.abilities);
            // The reading may be dropped at any point, because it goes into the copy.
            tokio::select! {
                reason = &mut closed => return ConnectionEnd::gone(reason),
                () = reader.read(stale, &mut listing) => {}
            }
            // A list may be broken for good; all of them at once are a server that is gone.
            if listing.lost() > current.listing.lost()
                && listing.lost() >= stale.count()
                && let Some(problem) = listing.problems.iter().find(|problem| problem.whole)
            {
                return ConnectionEnd::gone(problem.to_string());
            }
            let known = &current.listing.problems;
            for problem in listing.problems.iter().filter(|problem| !known.contains(problem)) {
                tracing::warn!(server = %self.server.name, %problem, "list not read completely");
            }
            // Setting the phase makes all views look again, so it is set for a difference only.
            if listing != current.listing {
                let connection = Arc::clone(&live.connection);
                let hashes = match self.compare_with_pins(&connection, &listing).await {
                    Ok(hashes) => hashes,
                    Err(problem) => return ConnectionEnd::Gone(problem),
                };
                // The number stays: the connection is the same, and so are the calls and tasks that were begun on it.
                let (id, quarantined, since) = (live.id, live.quarantined, live.since);
                let results = ResultValidator::of(&listing);
                current = Arc::new(ReadyConnection {
                    id,
                    connection,
                    listing,
                    hashes,
                    results,
                    quarantined,
                    since,
                });
                *last = Some(Arc::clone(&current));
                self.set(UpstreamPhase::Ready(Arc::clone(&current)));
            }
            // Tools that could not be read stay marked as unread, so that calls do not use the old ones.
            let is_lost =
                current.listing.problems.iter().any(|problem| problem.whole && problem.list == "tools/list");
            if !is_lost && !ear.is_stale() {
                self.set_unread(false);
            }
        }
    }
}

/// Reasons a connection ends.
enum ConnectionEnd {
    Gone(UpstreamConnectError),
    /// Somebody has decided about the server.
    Decided,
    /// The account of the connection is signed out or was replaced by another.
    Others,
    /// A server that can only ask in the older era, as was found out.
    Older,
    /// A person wants it started anew.
    Restart,
}

impl ConnectionEnd {
    fn gone(reason: String) -> Self {
        Self::Gone(UpstreamConnectError::new(reason))
    }
}

/// Waits until a person wants the server started anew. The line that is waited for has the sender, so there is one.
async fn wanted(restart: &mut watch::Receiver<u64>) {
    if restart.changed().await.is_err() {
        std::future::pending().await
    }
}

/// Waits until something has changed: how the server lets us in, or what was decided about it.
async fn changed<T>(changes: &mut Option<watch::Receiver<T>>) {
    if let Some(changes) = changes
        && changes.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}
