//! One attempt to connect a server: the start of its process, the connection and its lists.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hospes_model::Notification;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::super::list_changes::ListChangeSubscription;
use super::super::list_reader::ListReader;
use super::super::phase::ReadyConnection;
use super::super::result_validator::ResultValidator;
use super::super::server_memory::ServerMemory;
use super::SupervisedConnection;
use crate::server::{
    ConnectOptions, DefinitionHashes, Era, KnownProtocol, ListKinds, ServerLogCallback,
    ServerNotificationCallback, UpstreamConnectError, UpstreamConnection, UpstreamConnector, UpstreamListing,
    own_extensions,
};

/// Maximum time that a starting process keeps others from starting.
const START_HOLD: Duration = Duration::from_secs(10);
/// Time beyond the limit in which a process that gave no answer is ended. Its error has what it printed.
const PROCESS_END_TIME: Duration = Duration::from_secs(5);

impl SupervisedConnection {
    /// Connects and reads the lists, within the time limit of the server.
    pub(super) async fn connect(
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
        let limit = self.server.connect_timeout;
        // The client of a process gives up earlier. A process that does not end by itself would otherwise keep its error,
        // which says more than the time.
        let end = if self.server.transport == "stdio" { PROCESS_END_TIME } else { Duration::ZERO };
        let opened = timeout(limit.saturating_add(end), self.open(connector, memory, Instant::now() + limit));
        // `hold` never ends. It is polled to free the permit in time, and dropped with it when the work is done.
        let connected = tokio::select! {
            connected = opened => connected,
            never = hold => match never {},
        };
        connected.unwrap_or_else(|_| Err(self.timeout_error()))
    }

    fn timeout_error(&self) -> UpstreamConnectError {
        let limit = self.server.connect_timeout;
        UpstreamConnectError::new(format!("not ready within {limit:?} (setting connect_timeout)"))
            .with_hint(Some("raise `connect_timeout` if the server is only slow to start"))
    }

    /// Connects, and reads the lists until `deadline`.
    async fn open(
        &self,
        connector: &dyn UpstreamConnector,
        memory: &ServerMemory,
        deadline: Instant,
    ) -> Result<(ReadyConnection, ListChangeSubscription), UpstreamConnectError> {
        let options = self.connect_options(memory);
        let quarantined = match &self.server.gate {
            Some(gate) => gate.check_start().await.inspect_err(|problem| {
                if let (true, Some(launches)) = (problem.withheld, &self.server.launches) {
                    launches.withheld(problem);
                }
            })?,
            None => false,
        };
        let connection = connector.connect(options.in_quarantine(quarantined)).await?;
        if let Some(key) = self.server.definition.as_deref() {
            memory.learn(key, connection.known());
            let declared = own_extensions(&connection.capabilities);
            let declared = declared.map(|(identifier, settings)| (identifier.clone(), settings.detached()));
            memory.learn_extensions(key, declared.collect());
        }
        let connection = Arc::new(connection);
        let read = timeout_at(deadline, self.read_all_lists(&connection)).await;
        let (listing, changes) = read.map_err(|_| self.timeout_error())??;
        let hashes = self.compare_with_pins(&connection, &listing).await?;
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let results = ResultValidator::of(&listing);
        let since = Instant::now();
        let live = ReadyConnection { id, connection, listing, hashes, results, quarantined, since };
        Ok((live, changes))
    }

    /// Returns the options for a connection: the remembered protocol, and receivers of what belongs to no call.
    fn connect_options(&self, memory: &ServerMemory) -> ConnectOptions {
        let (logs, others) = (self.told.clone(), self.told.clone());
        // Nobody may be listening.
        let on_log: ServerLogCallback =
            Arc::new(move |message| drop(logs.send(Notification::LogMessage(message))));
        let on_notification: ServerNotificationCallback =
            Arc::new(move |notification| drop(others.send(notification)));
        let known = match *self.server.older.borrow() {
            true => Some(KnownProtocol { era: Era::Legacy, sse: false }),
            false => self.server.definition.as_deref().and_then(|key| memory.known(key)),
        };
        let options = ConnectOptions::new(self.abilities).with_known(known).with_on_log(on_log);
        options.with_on_notification(on_notification)
    }

    /// Reads the lists of a new connection, and subscribes to their changes.
    async fn read_all_lists(
        &self,
        connection: &Arc<UpstreamConnection>,
    ) -> Result<(UpstreamListing, ListChangeSubscription), UpstreamConnectError> {
        let kinds = ListKinds::offered(&connection.capabilities);
        let mut listing = UpstreamListing::default();
        // Listening begins before the lists are read, so that no change falls in between.
        let mut changes = ListChangeSubscription::new(Arc::clone(connection), self);
        {
            let reader = ListReader::new(&connection.service, self.abilities);
            let mut reading = std::pin::pin!(reader.read(kinds, &mut listing));
            // `changes` first: with its first poll it sends its request, which has to precede those for the lists.
            // What it hears is put back after the reading, whose pages may be from before the change.
            tokio::select! {
                biased;
                stale = changes.next_stale_lists() => {
                    reading.await;
                    changes.mark_stale(stale);
                }
                () = &mut reading => {}
            }
        }
        changes.mark_read();
        // The same rule as later on: one list may be broken for good, all of them at once are a server that is not
        // there. It is tried again, and not taken for a server that offers nothing.
        if listing.lost() > 0
            && listing.lost() >= kinds.count()
            && let Some(problem) = listing.problems.iter().find(|problem| problem.whole)
        {
            // Some servers let everybody connect and require a sign-in at the first request.
            let missing = (connection.missing_sign_in)();
            return Err(UpstreamConnectError::new(problem.to_string()).with_missing_sign_in(missing));
        }
        for problem in &listing.problems {
            tracing::warn!(server = %self.server.name, %problem, "list not read completely");
        }
        Ok((listing, changes))
    }

    /// Compares what the server offers with what was accepted.
    pub(super) async fn compare_with_pins(
        &self,
        connection: &UpstreamConnection,
        listing: &UpstreamListing,
    ) -> Result<Arc<DefinitionHashes>, UpstreamConnectError> {
        if let Some(listings) = &self.server.listings {
            listings.record_listing(listing).await;
        }
        let Some(gate) = &self.server.gate else { return Ok(Arc::default()) };
        let user = self.server.user.as_deref().unwrap_or_default();
        // What is listed with one account need not be all that another has.
        let profile = self.server.profile.as_ref().map_or_else(String::new, |profile| format!("@{profile}"));
        let sight = format!("{}{profile} {user}", self.abilities.bits());
        gate.record_listing(connection.instructions.as_deref(), listing, sight).await
    }
}
