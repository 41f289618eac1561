//! Lists of a connection, kept up to date while it is open.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::super::list_changes::ListChangeSubscription;
use super::super::list_reader::ListReader;
use super::super::phase::{ReadyConnection, UpstreamPhase};
use super::super::result_validator::ResultValidator;
use super::SupervisedConnection;
use super::supervisor::ConnectionEnd;
use crate::server::{ListKinds, SignInChanges};

/// Wait before a list that could not be read is read again; twice as long after each further time.
const REREAD_AFTER: Duration = Duration::from_secs(2);
/// The longest such wait.
const MAX_REREAD_AFTER: Duration = Duration::from_secs(300);

impl SupervisedConnection {
    /// Keeps the lists of a connection up to date until it is gone, and says why it is.
    pub(super) async fn keep_lists_current(
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

/// Waits until something has changed: how the server lets us in, or what was decided about it.
pub(super) async fn changed<T>(changes: &mut Option<watch::Receiver<T>>) {
    if let Some(changes) = changes
        && changes.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}
