//! State of a supervised connection, and the items it offers.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use hospes::{Call, Outcome};
use hospes_model::{Implementation, Revision, ServerCapabilities};
use tokio::time::Instant;

use super::line::SendTurn;
use super::result_validator::ResultValidator;
use crate::server::{DefinitionHashes, UpstreamConnectError, UpstreamConnection, UpstreamListing};

/// Phase of a supervised connection.
#[derive(Clone, Debug)]
pub(crate) enum UpstreamPhase {
    /// Connecting.
    Starting {
        since: Instant,
        /// Number of earlier failures.
        failures: u32,
        /// The connection before it went away.
        last: Option<Arc<ReadyConnection>>,
        /// True if the last attempt needed a sign-in.
        wanted_sign_in: bool,
    },
    /// Connected.
    Ready(Arc<ReadyConnection>),
    /// Not connected; there will be another try.
    Waiting {
        /// Start of the last attempt.
        tried: Instant,
        until: Instant,
        failures: u32,
        problem: UpstreamConnectError,
        /// True if attempts are rare because the server counts as failed.
        quarantined: bool,
        last: Option<Arc<ReadyConnection>>,
    },
    /// Stopped, because it is no longer needed.
    Stopped,
}

/// An established connection with the server's offers.
#[derive(Debug)]
pub(crate) struct ReadyConnection {
    /// A number that no other connection of this process has.
    pub(crate) id: u64,
    pub(crate) connection: Arc<UpstreamConnection>,
    pub(crate) listing: UpstreamListing,
    /// Hashes of the listed items, if the server is pinned.
    pub(crate) hashes: Arc<DefinitionHashes>,
    /// Validation of results against output schemas.
    pub(crate) results: ResultValidator,
    /// True if the connection was made in quarantine, without declaring any abilities.
    pub(crate) quarantined: bool,
    pub(crate) since: Instant,
}

impl ReadyConnection {
    pub(crate) fn revision(&self) -> Revision {
        self.connection.revision
    }

    pub(crate) fn capabilities(&self) -> &ServerCapabilities {
        &self.connection.capabilities
    }

    /// Sends a call. If it had to wait for the connection, the next call that waits may go once this one is sent.
    pub(crate) async fn call_in_turn(&self, call: Call, turn: &mut Option<SendTurn>) -> Outcome {
        let mut calling = pin!(self.connection.call(call));
        // The first poll sends the call.
        let first = poll_fn(|cx| Poll::Ready(calling.as_mut().poll(cx))).await;
        drop(turn.take());
        match first {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => calling.await,
        }
    }

    pub(crate) fn implementation(&self) -> Option<&Implementation> {
        self.connection.server.as_ref()
    }
}

impl UpstreamPhase {
    /// Returns the connection, if it is established.
    pub(crate) fn ready(&self) -> Option<&Arc<ReadyConnection>> {
        match self {
            Self::Ready(live) => Some(live),
            _ => None,
        }
    }

    /// Returns the connection whose lists are offered, or were before it went away; a restart does not remove items
    /// from lists. A server that counts as failed offers nothing.
    pub(crate) fn offers(&self) -> Option<&Arc<ReadyConnection>> {
        match self {
            Self::Ready(live) => Some(live),
            Self::Starting { last, .. } | Self::Waiting { last, quarantined: false, .. } => last.as_ref(),
            Self::Waiting { .. } | Self::Stopped => None,
        }
    }

    /// Returns the URL at which a person has to sign in before the server can be connected.
    pub(crate) fn sign_in(&self) -> Option<&Arc<str>> {
        match self {
            Self::Waiting { problem, .. } => problem.sign_in.as_ref(),
            _ => None,
        }
    }

    /// Returns true if a sign-in is needed, or was needed at the last attempt.
    pub(crate) fn wants_sign_in(&self) -> bool {
        matches!(self, Self::Starting { wanted_sign_in: true, .. }) || self.sign_in().is_some()
    }

    /// Returns true if the outcome of the first attempt is not known yet.
    pub(crate) fn is_first_start(&self) -> bool {
        matches!(self, Self::Starting { failures: 0, last: None, .. })
    }
}
