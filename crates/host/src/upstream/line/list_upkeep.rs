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
use crate::server::{ListKinds, ListProblem, SignInChanges, UpstreamConnectError, UpstreamListing};

/// Wait before a list that could not be read is read again; twice as long after each further time.
const REREAD_AFTER: Duration = Duration::from_secs(2);
/// The longest such wait.
const MAX_REREAD_AFTER: Duration = Duration::from_secs(300);

/// Time at which lists that could not be read are read again.
struct RereadTimer {
    at: Instant,
    wait: Duration,
}

impl RereadTimer {
    fn new() -> Self {
        Self { at: Instant::now() + REREAD_AFTER, wait: REREAD_AFTER }
    }

    /// Sets the next time, after twice the wait.
    fn back_off(&mut self) {
        self.wait = (self.wait * 2).min(MAX_REREAD_AFTER);
        self.at = Instant::now() + self.wait;
    }
}

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
        let mut reread = RereadTimer::new();
        loop {
            let lost = current.listing.lost_kinds();
            let causes = (&mut *changes, whose, &mut *pins);
            let stale = tokio::select! {
                reason = &mut closed => return ConnectionEnd::gone(reason),
                stale = self.next_stale_lists(live, lost, ear, &mut reread, causes) => match stale {
                    Ok(stale) => stale,
                    Err(end) => return end,
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
            if let Some(problem) = total_loss(&current.listing, &listing, stale) {
                return ConnectionEnd::gone(problem.to_string());
            }
            let known = &current.listing.problems;
            for problem in listing.problems.iter().filter(|problem| !known.contains(problem)) {
                tracing::warn!(server = %self.server.name, %problem, "list not read completely");
            }
            // Setting the phase makes all views look again, so it is set for a difference only.
            if listing != current.listing {
                current = match self.with_listing(live, listing).await {
                    Ok(next) => Arc::new(next),
                    Err(problem) => return ConnectionEnd::Gone(problem),
                };
                *last = Some(Arc::clone(&current));
                self.set(UpstreamPhase::Ready(Arc::clone(&current)));
            }
            // Tools that could not be read stay marked as unread, so that calls do not use the old ones.
            if !has_lost_tools(&current.listing) && !ear.is_stale() {
                self.set_unread(false);
            }
        }
    }

    /// Waits until lists of the connection have to be read again, and returns which. `lost` are those that could not be
    /// read. Fails if the connection has to end.
    async fn next_stale_lists(
        &self,
        live: &ReadyConnection,
        lost: ListKinds,
        ear: &mut ListChangeSubscription,
        reread: &mut RereadTimer,
        (changes, whose, pins): (
            &mut Option<watch::Receiver<SignInChanges>>,
            Option<u64>,
            &mut Option<watch::Receiver<u64>>,
        ),
    ) -> Result<ListKinds, ConnectionEnd> {
        loop {
            // Every branch can be dropped and begun anew: the subscription loses nothing, and the others keep what they
            // wait for.
            tokio::select! {
                stale = ear.next_stale_lists() => return Ok(stale),
                () = self.doubt.notified() => break,
                // A server that was only busy says nothing when it no longer is.
                () = sleep_until(reread.at), if lost.any() => {
                    reread.back_off();
                    return Ok(lost);
                }
                () = changed(changes) => {
                    if changes.as_ref().map(|changes| changes.borrow().others) != whose {
                        return Err(ConnectionEnd::Others);
                    }
                    break;
                }
                () = changed(pins) => {
                    if self.server.gate.as_ref().is_some_and(|gate| gate.needs_reconnect(live.quarantined)) {
                        return Err(ConnectionEnd::Decided);
                    }
                }
            }
        }
        Ok(ListKinds::offered(live.capabilities()))
    }

    /// Returns the connection with new lists, compared with their pins.
    async fn with_listing(
        &self,
        live: &ReadyConnection,
        listing: UpstreamListing,
    ) -> Result<ReadyConnection, UpstreamConnectError> {
        let connection = Arc::clone(&live.connection);
        let hashes = self.compare_with_pins(&connection, &listing).await?;
        let results = ResultValidator::of(&listing);
        // The number stays: the connection is the same, and so are the calls and tasks that were begun on it.
        let (id, quarantined, since) = (live.id, live.quarantined, live.since);
        Ok(ReadyConnection { id, connection, listing, hashes, results, quarantined, since })
    }
}

/// Returns a problem of the lists that were read if none of them could be, although at least one could before. One list
/// may be broken permanently; if all are, the server is gone.
fn total_loss<'n>(
    before: &UpstreamListing,
    now: &'n UpstreamListing,
    read: ListKinds,
) -> Option<&'n ListProblem> {
    let is_total = now.lost() > before.lost() && now.lost() >= read.count();
    now.problems.iter().find(|problem| is_total && problem.whole)
}

/// Returns true if the tools could not be read.
fn has_lost_tools(listing: &UpstreamListing) -> bool {
    listing.problems.iter().any(|problem| problem.whole && problem.list == "tools/list")
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

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(lost: &[&'static str]) -> UpstreamListing {
        let problem = |list| ListProblem { list, text: "no answer".to_owned(), whole: true };
        let problems = lost.iter().copied().map(problem).collect();
        UpstreamListing { problems, ..UpstreamListing::default() }
    }

    #[test]
    fn a_server_is_gone_if_none_of_its_lists_can_be_read_any_more() {
        let read = ListKinds { tools: true, prompts: true, resources: false };
        let (none, tools) = (listing(&[]), listing(&["tools/list"]));
        let both = listing(&["tools/list", "prompts/list"]);
        assert_eq!(total_loss(&none, &both, read), both.problems.first());
        assert_eq!(total_loss(&tools, &both, read), both.problems.first());
        assert_eq!(total_loss(&none, &tools, read), None, "the prompts were read");
        assert_eq!(total_loss(&both, &both, read), None, "they could not be read before either");
        assert_eq!(total_loss(&none, &none, read), None);
    }

    #[tokio::test(start_paused = true)]
    async fn lists_are_read_again_after_ever_longer_waits() {
        let start = Instant::now();
        let mut reread = RereadTimer::new();
        assert_eq!(reread.at - start, Duration::from_secs(2));
        reread.back_off();
        assert_eq!(reread.at - start, Duration::from_secs(4));
        (0..20).for_each(|_| reread.back_off());
        assert_eq!(reread.at - start, MAX_REREAD_AFTER);
    }

    #[test]
    fn tools_are_lost_only_if_their_whole_list_is() {
        assert!(has_lost_tools(&listing(&["prompts/list", "tools/list"])));
        assert!(!has_lost_tools(&listing(&["prompts/list"])));
        let entry = ListProblem { list: "tools/list", text: "no name".to_owned(), whole: false };
        assert!(!has_lost_tools(&UpstreamListing { problems: vec![entry], ..UpstreamListing::default() }));
    }
}
