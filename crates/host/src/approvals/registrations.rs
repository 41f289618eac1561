//! Registration of viewers and consoles, which show that a person can decide.

use std::fmt;
use std::sync::Arc;

use super::queue::ApprovalQueue;

/// URL at which a person can decide in a browser.
#[derive(Clone, Debug)]
pub(crate) struct ConsoleUrl(Arc<str>);

impl ConsoleUrl {
    /// Returns the URL of the page for this approval.
    pub(crate) fn of(&self, id: &str) -> String {
        format!("{}/approvals/{id}", self.0)
    }
}

/// Somebody shows the approval queue to a person for as long as this is kept.
#[must_use = "when it is dropped nobody is there any more"]
pub struct ViewerRegistration {
    queue: ApprovalQueue,
    number: u64,
}

/// A console is served at which a person can come to decide, for as long as this is kept.
#[must_use = "when it is dropped the console is no longer counted"]
pub struct ConsoleRegistration {
    queue: ApprovalQueue,
    is_for_team: bool,
}

impl fmt::Debug for ConsoleRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleRegistration").finish_non_exhaustive()
    }
}

impl Drop for ConsoleRegistration {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.consoles = state.consoles.saturating_sub(1);
        if self.is_for_team {
            state.team_consoles = state.team_consoles.saturating_sub(1);
        }
    }
}

impl ApprovalQueue {
    /// Registers a viewer that shows the queue to a person, at `url` if in a browser. While it is registered, calls
    /// wait for a decision instead of being rejected immediately.
    pub fn register_viewer(&self, url: Option<&str>) -> ViewerRegistration {
        let mut state = self.state();
        state.count += 1;
        let number = state.count;
        state.attending.push((number, url.map(|url| url.trim_end_matches('/').into())));
        ViewerRegistration { queue: self.clone(), number }
    }

    /// Registers a console that is being served, open or not. While it is registered, calls wait for their time limit,
    /// so that a person who is notified can still open it and decide.
    pub fn register_console(&self) -> ConsoleRegistration {
        self.state().consoles += 1;
        ConsoleRegistration { queue: self.clone(), is_for_team: false }
    }

    /// Registers a console as [`Self::register_console`] does, to which people of a team sign in. While it is registered,
    /// there can be approvers.
    pub fn register_team_console(&self) -> ConsoleRegistration {
        let mut state = self.state();
        state.consoles += 1;
        state.team_consoles += 1;
        ConsoleRegistration { queue: self.clone(), is_for_team: true }
    }

    /// Returns true if people of a team can sign in to a console, and be approvers.
    pub(crate) fn has_team(&self) -> bool {
        self.state().team_consoles > 0
    }

    /// Returns true if a person is present to decide, or a console is served to which one can come.
    pub(crate) fn is_decidable(&self) -> bool {
        let state = self.state();
        !state.attending.is_empty() || state.consoles > 0
    }

    /// Returns true if a person is present to decide.
    pub(crate) fn is_attended(&self) -> bool {
        !self.state().attending.is_empty()
    }

    /// Returns the URL at which a person can decide in a browser.
    pub(crate) fn console(&self) -> Option<ConsoleUrl> {
        self.state().attending.iter().find_map(|(_, url)| url.clone()).map(ConsoleUrl)
    }
}

impl Drop for ViewerRegistration {
    fn drop(&mut self) {
        self.queue.state().attending.retain(|(number, _)| *number != self.number);
    }
}

impl fmt::Debug for ViewerRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewerRegistration").finish_non_exhaustive()
    }
}
