//! Notifications of servers about changed lists.

use std::sync::Arc;
use std::time::Duration;

use hospes::{Context, Exchange, ExchangeEvent, Outcome};
use hospes_model::{Notification, SubscriptionFilter};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::line::{SupervisedConnection, listen};
use super::list_reader::peer;
use crate::server::{CapabilitySet, ListKinds, UpstreamConnection};

/// Time for which changes are gathered before a list is read again.
const DEBOUNCE_DELAY: Duration = Duration::from_millis(50);
/// Wait before a stream of changes that ended is opened again. It doubles after each stream that did not even begin.
const REOPEN_DELAY: Duration = Duration::from_secs(2);
/// Maximum such delay.
const MAX_REOPEN_DELAY: Duration = Duration::from_secs(120);

/// The stream of changes of one connection, kept open.
#[derive(Debug)]
pub(super) struct ListChangeSubscription {
    connection: Arc<UpstreamConnection>,
    abilities: CapabilitySet,
    name: Arc<str>,
    watched: ListKinds,
    stream: Option<Exchange>,
    /// Time at which a stream that ended is opened again.
    again: Instant,
    wait: Duration,
    /// True if the lists have been read, so that later changes must not be missed.
    listed: bool,
    stale: ListKinds,
    read_at: Instant,
    /// Calls wait while it is known that tools have changed and not how.
    unread: watch::Sender<bool>,
}

impl ListChangeSubscription {
    /// Creates a listener for the lists whose changes the server reports. Nothing is sent before the first poll.
    pub(super) fn new(connection: Arc<UpstreamConnection>, line: &SupervisedConnection) -> Self {
        let watched = ListKinds::watched(&connection.capabilities);
        let now = Instant::now();
        Self {
            connection,
            abilities: line.abilities,
            name: Arc::clone(&line.server.name),
            watched,
            stream: None,
            again: now,
            wait: REOPEN_DELAY,
            listed: false,
            stale: ListKinds::default(),
            read_at: now,
            unread: line.unread.clone(),
        }
    }

    /// Marks the lists as read.
    pub(super) fn mark_read(&mut self) {
        self.listed = true;
    }

    /// Waits until lists have to be read again and returns them. Dropping the future loses nothing.
    pub(super) async fn next_stale_lists(&mut self) -> ListKinds {
        loop {
            // Copied out, because `event` borrows the whole of `self` for as long as both branches wait.
            let (is_stale, read_at) = (self.stale.any(), self.read_at);
            tokio::select! {
                () = self.event() => {}
                () = sleep_until(read_at), if is_stale => return std::mem::take(&mut self.stale),
            }
        }
    }

    /// Returns true if lists have to be read again.
    pub(super) fn is_stale(&self) -> bool {
        self.stale.any()
    }

    /// Handles the next event.
    async fn event(&mut self) {
        if self.stream.is_none() {
            if !self.watched.any() {
                return std::future::pending().await;
            }
            // The time is absolute and the stream is kept in `self`, so a future that is dropped can be begun anew.
            sleep_until(self.again).await;
            let filter = SubscriptionFilter::new()
                .with_tools_list_changed(self.watched.tools)
                .with_prompts_list_changed(self.watched.prompts)
                .with_resources_list_changed(self.watched.resources);
            self.stream = Some(listen(&self.connection, filter, Context::new(peer(self.abilities))));
        }
        let Some(stream) = &mut self.stream else { return };
        match std::future::poll_fn(|cx| stream.poll_event(cx)).await {
            // What changed while nobody listened is known only by reading again.
            ExchangeEvent::Notify(Notification::SubscriptionsAcknowledged(_)) if self.listed => {
                self.mark_stale(self.watched)
            }
            ExchangeEvent::Notify(Notification::ToolsListChanged) => {
                // At once, not after the changes are gathered: until then calls would use definitions known to be old.
                self.unread.send_replace(true);
                self.mark_stale(ListKinds { tools: true, ..ListKinds::default() });
            }
            ExchangeEvent::Notify(Notification::PromptsListChanged) => {
                self.mark_stale(ListKinds { prompts: true, ..ListKinds::default() });
            }
            ExchangeEvent::Notify(Notification::ResourcesListChanged) => {
                self.mark_stale(ListKinds { resources: true, ..ListKinds::default() });
            }
            ExchangeEvent::Notify(_) => {}
            // Nothing here could answer a question, so a stream that asks is of no more use than one that ended.
            ExchangeEvent::Ask(_) | ExchangeEvent::Done(Outcome::Complete(_) | Outcome::InputRequired(_)) => {
                self.ended()
            }
            ExchangeEvent::Done(Outcome::Failed(error)) => {
                tracing::debug!(server = %self.name, %error, "change stream ended");
                self.ended();
            }
        }
    }

    /// Marks lists as outdated.
    pub(super) fn mark_stale(&mut self, kinds: ListKinds) {
        // Counted from the first change: with each one anew, a server that changes all the time would never be read.
        if !self.stale.any() {
            self.read_at = Instant::now() + DEBOUNCE_DELAY;
        }
        self.stale.tools |= kinds.tools;
        self.stale.prompts |= kinds.prompts;
        self.stale.resources |= kinds.resources;
    }

    fn ended(&mut self) {
        self.stream = None;
        self.again = Instant::now() + self.wait;
        self.wait = (self.wait * 2).min(MAX_REOPEN_DELAY);
        // It may be the server that is gone.
        self.mark_stale(self.watched);
    }
}
