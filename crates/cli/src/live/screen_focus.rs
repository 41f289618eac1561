//! Focus of the terminal of the screen, as far as it reports it.

use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Time after a key for which a terminal that does not report its focus counts as focused.
const USE_TIME: Duration = Duration::from_secs(60);

/// Focus of the terminal.
#[derive(Debug)]
pub(super) struct ScreenFocus {
    is_focused: watch::Sender<bool>,
    /// True if the terminal has reported its focus.
    is_reported: bool,
    used_at: Option<Instant>,
}

impl ScreenFocus {
    pub(super) fn new(is_focused: watch::Sender<bool>) -> Self {
        Self { is_focused, is_reported: false, used_at: None }
    }

    /// Notes a report of the terminal.
    pub(super) fn report(&mut self, is_focused: bool) {
        self.is_reported = true;
        self.set(is_focused);
    }

    /// Notes that a key was pressed.
    pub(super) fn key(&mut self, now: Instant) {
        // A report that was lost is corrected by the key, too.
        self.used_at = Some(now);
        self.set(true);
    }

    /// Ends the focus of a terminal that does not report it some time after the last key.
    pub(super) fn tick(&mut self, now: Instant) {
        let is_over = self.used_at.is_some_and(|used| now.duration_since(used) >= USE_TIME);
        if is_over && !self.is_reported {
            self.used_at = None;
            self.set(false);
        }
    }

    /// Ends the focus, because the screen is not shown any more.
    pub(super) fn leave(&mut self) {
        (self.is_reported, self.used_at) = (false, None);
        self.set(false);
    }

    fn set(&self, is_focused: bool) {
        self.is_focused.send_if_modified(|known| std::mem::replace(known, is_focused) != is_focused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_without_reports_is_focused_for_a_while_after_a_key() {
        let (send, seen) = watch::channel(false);
        let mut focus = ScreenFocus::new(send);
        let begun = Instant::now();
        focus.key(begun);
        assert!(*seen.borrow());
        focus.tick(begun + USE_TIME / 2);
        assert!(*seen.borrow());
        focus.tick(begun + USE_TIME);
        assert!(!*seen.borrow());
        // One that reports its focus keeps it until it says otherwise.
        focus.report(true);
        focus.key(begun);
        focus.tick(begun + USE_TIME * 2);
        assert!(*seen.borrow());
        focus.report(false);
        assert!(!*seen.borrow());
        focus.report(true);
        focus.leave();
        assert!(!*seen.borrow());
    }
}
