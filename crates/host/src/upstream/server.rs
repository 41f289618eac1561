//! One configured server, with all its connections.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::application::ApplicationIdentity;
use super::connection_pool::{ConnectionLease, ConnectionPool, PoolExhaustedError};
use super::line::SupervisedConnection;
use super::phase::ReadyConnection;
use super::server_memory::ServerMemory;
use super::status::UpstreamStatus;
use crate::config::ServerPlacement;
use crate::server::{CapabilitySet, UpstreamConnector, UpstreamEpoch, UpstreamListing, UpstreamServer};

/// A server and its connections.
pub(crate) struct Upstream {
    pub(crate) server: Arc<UpstreamServer>,
    /// Maximum number of connections.
    max_connections: usize,
    connector: Arc<dyn UpstreamConnector>,
    memory: Arc<ServerMemory>,
    epoch: Arc<UpstreamEpoch>,
    seats: Mutex<ConnectionPool>,
}

impl Upstream {
    /// Starts to connect.
    pub(crate) fn start(
        server: Arc<UpstreamServer>,
        connector: Arc<dyn UpstreamConnector>,
        memory: Arc<ServerMemory>,
        epoch: Arc<UpstreamEpoch>,
        max_connections: usize,
    ) -> Self {
        // One process serves as many applications as possible, and most of them come without abilities.
        let abilities = match server.placement {
            ServerPlacement::One => CapabilitySet::NONE,
            ServerPlacement::Any | ServerPlacement::PerUser => memory.abilities(),
        };
        let line = SupervisedConnection::start(
            Arc::clone(&server),
            abilities,
            Arc::clone(&connector),
            Arc::clone(&memory),
            Arc::clone(&epoch),
        );
        let seats = Mutex::new(ConnectionPool::new(line));
        Self { server, max_connections, connector, memory, epoch, seats }
    }

    /// Returns the permanent connection.
    pub(super) fn primary(&self) -> Arc<SupervisedConnection> {
        Arc::clone(self.seats.lock().primary())
    }

    /// Returns true if there are tokens of a sign-in at the server. `None` if it has no account that everybody shares.
    pub(crate) async fn has_sign_in(&self) -> Option<bool> {
        self.connector.has_sign_in().await
    }

    /// Returns the connection for the lists of applications with these capabilities. It is opened if necessary.
    pub(crate) fn line(&self, abilities: CapabilitySet) -> Arc<SupervisedConnection> {
        // Held until the new connection is in the pool: two callers at once would otherwise open one each.
        let mut seats = self.seats.lock();
        if self.connector.is_shared() {
            return Arc::clone(seats.primary());
        }
        Arc::clone(seats.common(abilities, || self.open(abilities)))
    }

    /// Returns the connection whose lists are shown to applications with these capabilities: their own one, or any
    /// other that is ready while theirs offers nothing, for example because it is starting. So a server that is ready
    /// for one application is listed for all; calls wait for the right connection.
    pub(crate) fn offers(&self, abilities: CapabilitySet) -> Option<Arc<ReadyConnection>> {
        let line = self.line(abilities);
        if let Some(live) = line.phase().offers() {
            return Some(Arc::clone(live));
        }
        // Locked only now: `line` locks the pool too, and the lock is not reentrant.
        let seats = self.seats.lock();
        let ready = seats.lines().find_map(|line| line.live());
        ready.or_else(|| seats.lines().find_map(|line| line.phase().offers().cloned()))
    }

    /// Returns the application's own connection, if it has one.
    pub(crate) fn own(
        &self,
        application: &ApplicationIdentity,
        abilities: CapabilitySet,
    ) -> Option<Arc<SupervisedConnection>> {
        self.seats.lock().own(application, abilities).cloned()
    }

    /// Returns true if another application uses the connection of that number for its calls.
    pub(crate) fn is_anothers(&self, line: u64, application: &ApplicationIdentity) -> bool {
        self.seats.lock().holder(line).is_some_and(|holder| holder != application)
    }

    /// Leases a connection for a call of this application. It is opened if necessary.
    pub(crate) fn lease(
        &self,
        application: &ApplicationIdentity,
        abilities: CapabilitySet,
    ) -> Result<ConnectionLease, String> {
        let mut seats = self.seats.lock();
        if self.connector.is_shared() {
            // The primary connection is found under the abilities it was opened with, whatever these calls declare.
            let abilities = seats.primary().abilities;
            return Ok(seats.lease_common(abilities, || self.open(abilities)));
        }
        // What can be asked nothing cannot be asked about a call of another application.
        if abilities.answers_nothing() || !seats.lines().any(is_ambiguous) {
            return Ok(seats.lease_common(abilities, || self.open(abilities)));
        }
        let (max, idle) = (self.max_connections, self.server.idle_after);
        let lease = seats.lease_own(application, abilities, (max, idle), || self.open(abilities));
        let (lease, gone) = lease.map_err(|PoolExhaustedError { for_tasks }| {
            let mut why = format!(
                "{max} applications use it at once, each over a separate connection (setting max_connections)"
            );
            if for_tasks > 0 {
                why.push_str(&format!(
                    "; {for_tasks} of them only for tasks with unfetched results, which make room once they have not \
                     been requested for {idle:?} (setting idle_after)"
                ));
            }
            why
        })?;
        if let Some(gone) = gone {
            tracing::debug!(server = %self.server.name, max, "connection closed to make room for another application");
            // Only begun: the pool is locked here, and the new call need not wait for the end of another's connection.
            gone.begin_stop();
        }
        Ok(lease)
    }

    fn open(&self, abilities: CapabilitySet) -> Arc<SupervisedConnection> {
        tracing::debug!(server = %self.server.name, %abilities, "opening another connection");
        SupervisedConnection::start(
            Arc::clone(&self.server),
            abilities,
            Arc::clone(&self.connector),
            Arc::clone(&self.memory),
            Arc::clone(&self.epoch),
        )
    }

    /// Returns the status of the server.
    pub(crate) fn status(&self) -> UpstreamStatus {
        let seats = self.seats.lock();
        let mut status = UpstreamStatus::of(&self.server, &seats.primary().phase());
        status.connections = seats.len();
        status.node = self.connector.node().as_deref().map(str::to_owned);
        status.process = self.connector.process().map(Arc::unwrap_or_clone);
        status
    }

    /// Returns the items that the server offers, or offered before it went away.
    pub(crate) fn listing(&self) -> Option<UpstreamListing> {
        self.seats.lock().primary().phase().offers().map(|live| live.listing.clone())
    }

    /// Closes all connections and opens them anew. Calls that run over them end.
    pub(crate) fn restart(&self) {
        self.seats.lock().lines().for_each(|line| line.restart());
    }

    /// Returns true if no connection has a running call, a call that waits for answers, or an open task.
    pub(crate) fn is_idle(&self) -> bool {
        self.seats.lock().is_idle()
    }

    /// Removes connections for capabilities that no view has any more. They are not leased again, and the caller stops
    /// them.
    pub(crate) fn release(
        &self,
        is_wanted: &impl Fn(CapabilitySet) -> bool,
    ) -> Vec<Arc<SupervisedConnection>> {
        self.seats.lock().release(is_wanted)
    }

    /// Removes connections of applications that no longer call.
    pub(crate) fn sweep(&self, idle: Duration) -> Vec<Arc<SupervisedConnection>> {
        self.seats.lock().sweep(idle)
    }

    /// Closes everything and waits until nothing is left.
    pub(crate) async fn stop(&self) {
        // The guard ends with the block, so that it is not held while the connections close.
        let all: Vec<Arc<SupervisedConnection>> = {
            let seats = self.seats.lock();
            seats.others().chain([seats.primary()]).cloned().collect()
        };
        // All at once, since each may take up to the limit for closing.
        futures::future::join_all(all.iter().map(|line| line.stop())).await;
    }
}

/// Returns true if the server's questions do not name their call. Before its revision is known there is no call to ask
/// about.
fn is_ambiguous(line: &Arc<SupervisedConnection>) -> bool {
    line.phase().offers().is_some_and(|live| live.connection.keeps_calls())
}

/// Stops all connections. Each is supervised by a task of its own, which runs until it is told to stop.
impl Drop for Upstream {
    fn drop(&mut self) {
        let seats = self.seats.lock();
        seats.primary().begin_stop();
        seats.others().for_each(|line| line.begin_stop());
    }
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstream").field("server", &self.server.name).finish_non_exhaustive()
    }
}
