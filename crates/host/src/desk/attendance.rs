//! Whether a person is there to decide, or can come.

use std::fmt;
use std::sync::Arc;

use super::Desk;

/// Where a person can decide in a browser.
#[derive(Clone, Debug)]
pub(crate) struct ConsoleUrl(Arc<str>);

impl ConsoleUrl {
    /// About this matter.
    pub(crate) fn of(&self, id: &str) -> String {
        format!("{}/approvals/{id}", self.0)
    }
}

/// Somebody shows the desk to a person for as long as this is kept.
#[must_use = "when it is dropped nobody is there any more"]
pub struct Attendance {
    desk: Desk,
    number: u64,
}

/// A console is served at which a person can come to decide, for as long as this is kept.
#[must_use = "when it is dropped the console is no longer counted"]
pub struct ConsoleRegistration(Desk);

impl fmt::Debug for ConsoleRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleRegistration").finish_non_exhaustive()
    }
}

impl Drop for ConsoleRegistration {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.consoles = state.consoles.saturating_sub(1);
    }
}

impl Desk {
    /// Says that somebody shows the desk to a person, at `url` if in a browser: from now on calls wait for their decision
    /// rather than be refused at once.
    pub fn attend(&self, url: Option<&str>) -> Attendance {
        let mut state = self.state();
        state.count += 1;
        let number = state.count;
        state.attending.push((number, url.map(|url| url.trim_end_matches('/').into())));
        Attendance { desk: self.clone(), number }
    }

    /// Registers a console that is served, whether or not anybody has it open: from now on calls wait for their time
    /// limit, so that a person who hears of them can still come and decide.
    pub fn register_console(&self) -> ConsoleRegistration {
        self.state().consoles += 1;
        ConsoleRegistration(self.clone())
    }

    /// Whether a person is there to decide, or can come to a console that is served.
    pub(crate) fn is_decidable(&self) -> bool {
        let state = self.state();
        !state.attending.is_empty() || state.consoles > 0
    }

    /// Whether somebody is there to decide.
    pub(crate) fn is_attended(&self) -> bool {
        !self.state().attending.is_empty()
    }

    /// Where a person can decide in a browser.
    pub(crate) fn console(&self) -> Option<ConsoleUrl> {
        self.state().attending.iter().find_map(|(_, url)| url.clone()).map(ConsoleUrl)
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        self.desk.state().attending.retain(|(number, _)| *number != self.number);
    }
}

impl fmt::Debug for Attendance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attendance").finish_non_exhaustive()
    }
}
