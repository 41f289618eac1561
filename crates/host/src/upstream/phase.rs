//! How a supervised connection is, and what it offers.

use std::sync::Arc;

use hospes_model::{Implementation, Revision, ServerCapabilities};
use tokio::sync::watch;
use tokio::time::Instant;

use super::connector::{ConnectProblem, Connection};
use super::listing::Listing;
use super::results::Results;
use crate::pins::Hashes;

/// Counts the changes of all lines.
#[derive(Debug, Default)]
pub(crate) struct Epoch(watch::Sender<u64>);

impl Epoch {
    pub(crate) fn now(&self) -> u64 {
        *self.0.borrow()
    }

    pub(crate) fn bump(&self) {
        self.0.send_modify(|epoch| *epoch += 1);
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// How a line is.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// Being connected.
    Starting {
        since: Instant,
        /// How often it failed before.
        failures: u32,
        /// What it was before it went away.
        last: Option<Arc<Live>>,
        /// Whether a person had to sign in first when it was last tried.
        wanted_sign_in: bool,
    },
    /// Connected.
    Ready(Arc<Live>),
    /// Not connected; there will be another try.
    Waiting {
        /// When the last try began.
        tried: Instant,
        until: Instant,
        failures: u32,
        problem: ConnectProblem,
        /// Whether it is tried only rarely.
        quarantined: bool,
        last: Option<Arc<Live>>,
    },
    /// Given up because it is not wanted any more.
    Stopped,
}

/// A connection with what the server offers.
#[derive(Debug)]
pub(crate) struct Live {
    /// A number that no other connection of this process has.
    pub(crate) id: u64,
    pub(crate) connection: Arc<Connection>,
    pub(crate) listing: Listing,
    /// The hashes of what is listed, where it is pinned.
    pub(crate) hashes: Arc<Hashes>,
    /// What its results are checked against.
    pub(crate) results: Results,
    /// Whether it was made in quarantine: the server was told that nothing can be asked.
    pub(crate) quarantined: bool,
    pub(crate) since: Instant,
}

impl Live {
    pub(crate) fn revision(&self) -> Revision {
        self.connection.revision
    }

    pub(crate) fn capabilities(&self) -> &ServerCapabilities {
        &self.connection.capabilities
    }

    pub(crate) fn implementation(&self) -> Option<&Implementation> {
        self.connection.server.as_ref()
    }
}

impl Phase {
    /// The connection, where there is one.
    pub(crate) fn ready(&self) -> Option<&Arc<Live>> {
        match self {
            Self::Ready(live) => Some(live),
            _ => None,
        }
    }

    /// What the server offers, or offered before it went away: a restart is no reason to take a list apart. A server
    /// that has failed for good offers nothing.
    pub(crate) fn offers(&self) -> Option<&Arc<Live>> {
        match self {
            Self::Ready(live) => Some(live),
            Self::Starting { last, .. } | Self::Waiting { last, quarantined: false, .. } => last.as_ref(),
            Self::Waiting { .. } | Self::Stopped => None,
        }
    }

    /// Where a person has to sign in before it can be connected.
    pub(crate) fn sign_in(&self) -> Option<&Arc<str>> {
        match self {
            Self::Waiting { problem, .. } => problem.sign_in.as_ref(),
            _ => None,
        }
    }

    /// Whether somebody has to sign in, or had to until it is known better.
    pub(crate) fn wants_sign_in(&self) -> bool {
        matches!(self, Self::Starting { wanted_sign_in: true, .. }) || self.sign_in().is_some()
    }

    /// Whether nothing is known yet about how the first try goes.
    pub(crate) fn is_first_start(&self) -> bool {
        matches!(self, Self::Starting { failures: 0, last: None, .. })
    }
}
