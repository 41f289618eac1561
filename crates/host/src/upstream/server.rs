//! One configured server, with all its connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::abilities::Abilities;
use super::connector::Connector;
use super::line::{Epoch, Line, Server};
use super::memory::Memory;
use super::status::UpstreamStatus;
use crate::config::ToolFilter;

/// A server and its connections.
pub(crate) struct Upstream {
    pub(crate) server: Arc<Server>,
    pub(crate) filter: ToolFilter,
    /// Whether the host is not to start without it.
    pub(crate) is_required: bool,
    connector: Arc<dyn Connector>,
    memory: Arc<Memory>,
    epoch: Arc<Epoch>,
    primary: Arc<Line>,
    others: Mutex<HashMap<Abilities, Arc<Line>>>,
}

impl Upstream {
    /// Begins to connect.
    pub(crate) fn start(
        server: Server,
        filter: ToolFilter,
        connector: Arc<dyn Connector>,
        memory: Arc<Memory>,
        epoch: Arc<Epoch>,
    ) -> Self {
        let server = Arc::new(server);
        let line = Line::start(
            Arc::clone(&server),
            memory.abilities(),
            Arc::clone(&connector),
            Arc::clone(&memory),
            Arc::clone(&epoch),
        );
        Self {
            server,
            filter,
            is_required: false,
            connector,
            memory,
            epoch,
            primary: line,
            others: Mutex::default(),
        }
    }

    /// The connection for an application with these abilities, opened if it has to be.
    pub(crate) fn line(&self, abilities: Abilities) -> Arc<Line> {
        if abilities == self.primary.abilities || self.connector.is_shared() {
            return Arc::clone(&self.primary);
        }
        let mut others = self.others();
        let line = others.entry(abilities).or_insert_with(|| {
            tracing::debug!(server = %self.server.name, %abilities, "a connection for other abilities");
            Line::start(
                Arc::clone(&self.server),
                abilities,
                Arc::clone(&self.connector),
                Arc::clone(&self.memory),
                Arc::clone(&self.epoch),
            )
        });
        Arc::clone(line)
    }

    /// How it is.
    pub(crate) fn status(&self) -> UpstreamStatus {
        let mut status = UpstreamStatus::of(&self.server, &self.primary.phase());
        status.connections = 1 + self.others().len();
        status
    }

    /// Closes the connection that applications with these abilities used.
    pub(crate) async fn release(&self, abilities: Abilities) {
        let line = self.others().remove(&abilities);
        if let Some(line) = line {
            line.stop().await;
        }
    }

    /// Closes everything and waits until nothing is left.
    pub(crate) async fn stop(&self) {
        let others: Vec<Arc<Line>> = self.others().drain().map(|(_, line)| line).collect();
        let all = others.iter().chain([&self.primary]).map(|line| line.stop());
        futures::future::join_all(all).await;
    }

    fn others(&self) -> MutexGuard<'_, HashMap<Abilities, Arc<Line>>> {
        // Only whole entries come and go, so a panic elsewhere while it was held spoils nothing.
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection is looked after by a task of its own, which goes on until it is told to stop.
impl Drop for Upstream {
    fn drop(&mut self) {
        self.primary.begin_stop();
        self.others().values().for_each(|line| line.begin_stop());
    }
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstream").field("server", &self.server.name).finish_non_exhaustive()
    }
}
